"""Column reductions of a few columns: a vector holds the same column of many blocks of rows (or of many matrices), not the columns, which would not fill it.

    for v in blocks of ROWS rows, 16 at a time:
        for i in the rows of a block:
            for c in columns: partial result of c, v := it combined with the element of row i of each of the 16 blocks

Rows are combined in order within their block, as everywhere (contract, section 8); only what lies side by side in a register is another choice.
"""
from ..graph import itemsize
from ..loops import ROWS, closure
from ..schedule import accesses
from ..symbolic import hint, product
from . import reduce, values
from .llvm import At, Evaluator, Row

COLUMNS = 6              # more of them fill vectors well enough themselves
FEWEST = 64              # blocks, or matrices, that must be there
CHUNK = 64               # of them in one work unit


class Plan:
    """axis: the one along which vectors run; split: is it the blocks of the reduced axis, or a kept axis."""
    def __init__(self, axis, split): self.axis, self.split = axis, split


def narrow_columns(k, program):
    """How this kernel should run so, or None. The two cases are two recipes, told apart by a guard."""
    if k.form != 'nest' or k.inner is None or len(k.rows) != 1 or k.pieces is None or not k.columns or k.partials: return None
    if any(e.op in ('combine', 'fold') or e.dtype in values.PAIR for e in closure(k.roots())): return None
    rows, few = k.sizes[k.rows[0]], program.le(k.sizes[k.inner], COLUMNS)
    split = not k.outer or hint(k.sizes[k.outer[-1]]) < FEWEST
    many = program.le(FEWEST * ROWS, rows) if split else program.le(FEWEST, k.sizes[k.outer[-1]])
    narrow = program.logical_and(few, many)
    truth = bool(hint(narrow))
    program.guard(narrow if truth else program.logical_not(narrow))
    if not truth: return None
    return Plan(split_axis(k, program) if split else k.outer[-1], split)


def split_axis(k, program):
    """A new axis for the whole blocks of the reduced one, which then counts within a block."""
    row, axis = k.rows[0], len(k.sizes)
    for d in accesses(k):
        if row in d: d[axis] = d[row] * ROWS
    for s in k.columns: s.strides[axis] = s.step
    for e in k.builder.exprs.values():
        if row in e.axes: e.axes = e.axes | {axis}
    k.sizes.append(program.floordiv(k.sizes[row], ROWS))
    return axis


class NarrowEmitter(Evaluator):
    def __init__(self, kernel, program, plan):
        super().__init__(program, plan.axis, closure(kernel.roots()))
        self.kernel, self.sizes, self.split_rows = kernel, kernel.sizes, plan.split
        self.row, self.column = kernel.rows[0], kernel.inner
        self.hoist()
        f = self.f
        width = 16 if max(itemsize(e.dtype) for e in self.exprs) <= 4 else 8
        outer = [a for a in kernel.outer if a != plan.axis]
        count, size = product(self.sizes[a] for a in outer), self.sizes[plan.axis]
        chunks = program.max(1, program.floordiv(size, CHUNK))              # the last one takes what is left over
        blocks = 1 if plan.split else kernel.blocks
        self.units, self.cost = count * chunks * blocks, kernel.cost
        self.grain = 1
        total, self.count, pieces, in_blocks = self.n(kernel.sizes[self.row]), self.n(self.sizes[self.column]), self.n(chunks), self.n(blocks)
        with f.loop(self.lo, self.hi) as unit:
            piece, rest = unit % pieces, unit // pieces
            block, rest = (f.const(0), rest) if plan.split else (rest % in_blocks, rest // in_blocks)
            index = self.split(outer, rest) if outer else {}
            first = piece * CHUNK
            is_last = (piece + 1).eq(pieces)
            last = f.select(is_last, self.n(size), first + CHUNK)
            begin = block * ROWS
            end = f.const(ROWS) if plan.split else f.min(begin + ROWS, total)
            with f.loop(first, last, width) as v: self.block(index, f.min(v, last - width), width, block, begin, end)
            if plan.split:                                                   # what does not fill a block
                left = total - self.n(size) * ROWS
                with f.when(is_last & (left > 0)): self.block(index, self.n(size), 1, block, begin, left)

    def block(self, index, v, width, block, begin, end):
        """Rows [begin, end) of `width` blocks or matrices from v on."""
        f, columns = self.f, self.kernel.columns
        empty = {s: reduce.identities(f, s.kind, s.memory.dtype, width) for s in columns}
        rooms = {s: self.room(s, COLUMNS, empty[s]) for s in columns}
        with f.loop(f.const(0), self.count) as c:
            for s in columns: rooms[s].write(c, empty[s], plain=True)
        with f.loop(begin, end) as i, f.loop(f.const(0), self.count) as c:
            row, at = Row(self, {**index, self.row: i, self.column: c}), At(v, width)
            row.prepare([s.expr for s in columns], {width})
            for s in columns:
                entered = reduce.enter(f, row.spread(s.expr, at), s.memory.dtype, s.kind)
                rooms[s].write(c, reduce.COMBINE[s.kind](f, rooms[s].read(c), entered), plain=True)
        with f.loop(f.const(0), self.count) as c:
            row = Row(self, {**index, self.row: f.const(0), self.column: c})
            for s in columns:
                dtype, strides = s.memory.dtype, {a: x for a, x in s.strides.items() if a != self.row}
                base = values.address(f, self.pointer(s.memory, s.offset), row.offset(strides, None if self.split_rows else self.times(block, s.step)), dtype)
                result = reduce.leave(f, rooms[s].read(c), dtype, s.kind)
                values.store_lanes(f, result, self.spaced(base, v, strides[self.inner], dtype, width), dtype)
