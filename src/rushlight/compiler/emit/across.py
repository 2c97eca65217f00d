"""Row reductions of operands that are dense along another axis (the channels of a channels_last image): vectors run across that axis, the row's 32 lanes lie in memory.

The order is that of every row reduction (contract, section 8): element i of a block goes to lane i mod 32, lanes are folded by halving, blocks are combined
pairwise by a binary counter. Only here a lane is a vector of neighbouring rows.
"""
from ..graph import itemsize
from ..loops import BLOCK, closure
from ..schedule import CHUNK
from ..symbolic import product
from . import reduce
from .llvm import At, Evaluator, Row, maskable

COLUMNS = 256         # rows (neighbours in memory) of one work unit
LANES = reduce.LANES


class AcrossEmitter(Evaluator):
    def __init__(self, program, sizes, outer, along, inner, store, kind):
        super().__init__(program, inner, closure([store.expr]))
        self.sizes, self.along, self.store, self.kind = sizes, along, store, kind
        self.value, self.dtype = store.expr, store.expr.dtype
        self.combined = reduce.COMBINE[kind]
        self.hoist()
        f = self.f
        self.width = 32 if itemsize(self.dtype) <= 4 else 16
        self.choose_tail(maskable(self.exprs, [store], inner))
        count, columns, length = product(sizes[a] for a in outer), sizes[inner], product(sizes[a] for a in along)
        chunks = program.ceildiv(columns, COLUMNS)
        self.units = count * chunks
        self.grain = program.max(1, program.floordiv(CHUNK, program.max(1, length * program.min(columns, COLUMNS))))
        self.cost = count * columns * length * (itemsize(self.dtype) + 4)
        self.length = self.n(length)
        size, pieces = self.n(columns), self.n(chunks)
        with f.loop(self.lo, self.hi) as unit:
            index = self.split(outer, unit // pieces)
            first = (unit % pieces) * COLUMNS
            last = f.min(first + COLUMNS, size)
            self.sweep(first, last, lambda c, width, mask: self.rows(index, c, width, mask))

    def rows(self, index, column, width, mask):
        """`width` rows at once."""
        f = self.f
        empty = reduce.identities(f, self.kind, self.dtype, width)
        lanes, blocks = self.room('lanes', LANES, empty), reduce.Blocks(f, self.combined, self.room('blocks', 64, empty))
        at = At(column, width, mask)
        with f.loop(f.const(0), self.length, BLOCK) as start:
            with f.loop(f.const(0), f.const(LANES)) as lane: lanes.write(lane, empty)
            with f.loop(start, f.min(start + BLOCK, self.length)) as i:
                row, here = Row(self, {**index, **self.split(self.along, i)}), At(column, width, mask)
                row.prepare([self.value], {width})
                lane = i & (LANES - 1)
                lanes.write(lane, self.combined(f, lanes.read(lane), reduce.enter(f, row.spread(self.value, here), self.dtype, self.kind)))
            half = LANES
            while half > 1:
                half //= 2
                with f.loop(f.const(0), f.const(half)) as lane: lanes.write(lane, self.combined(f, lanes.read(lane), lanes.read(lane + half)))
            blocks.push(lanes.read(f.const(0)))
        row = Row(self, {**index, **{a: f.const(0) for a in self.along}})
        self.put(row, self.store, reduce.leave(f, blocks.result(empty), self.dtype, self.kind), at)
