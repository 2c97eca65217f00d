"""Rows of a few elements, side by side: a vector holds one element of each of many neighbouring rows.

    for c in rows, 32 at a time:
        pass 0: for j in the row:  lane j of the row's 32 lanes := element j of 32 rows
                fold the lanes
        pass 1: ...

The values and their order are those of every row reduction (contract, section 8): a row of at most 32 elements has one in each lane, and folding by halving meets
nothing but identities beyond its end, which change no bit. Only here a lane is a vector of rows, and a short row costs its elements, not its 32 lanes.
"""
from .. import schedule
from ..graph import itemsize
from ..loops import DEAR, closure, is_one
from ..symbolic import hint, product
from . import reduce, values
from .ir import Var
from .llvm import At, Evaluator, Row, maskable

LONGEST = reduce.LANES   # elements of a row
MASKED = 16              # elements of a row that could be one masked vector instead
FEWEST = 64              # rows; fewer are not worth it
CHUNK = 256              # rows of one work unit
ORDERED = {'sum', 'prod', 'amax', 'amin'}      # of floats: the bits depend on the order (even a maximum's, where zeros differ in sign)


def vector_axis(k, program):
    """The axis along which this kernel's rows should go side by side, or None. The two cases are two recipes, told apart by a guard."""
    if k.form != 'nest' or k.inner is None or k.rows or k.columns or k.tiled or not k.outer or not any(p.reduces for p in k.passes): return None
    exprs = closure(k.roots())
    if any(e.op in ('combine', 'fold') for e in exprs): return None
    reduces = [e for e in exprs if e.op in ('reduce', 'argreduce')]
    behind = closure([e.args[0] for e in reduces])
    if any(e.op == 'load' and any(a.axes for a in e.args[:len(e.attrs['dynamic'])]) for e in behind): return None       # rows from anywhere: vectors of dense elements are better
    if any(e.args[0].dtype in values.PAIR and e.attrs['kind'] != 'sum' for e in reduces): return None
    axis = k.outer[-1] if hint(k.sizes[k.outer[-1]]) >= FEWEST else max(k.outer, key=lambda a: hint(k.sizes[a]))
    longest = MASKED if better_alone(k, exprs, reduces) else LONGEST
    short = program.logical_and(program.le(k.sizes[k.inner], longest), program.le(FEWEST, k.sizes[axis]))
    truth = bool(hint(short))
    program.guard(short if truth else program.logical_not(short))
    return axis if truth else None


def better_alone(k, exprs, reduces):
    """Is a row that fills half of 32 lanes as good by itself (NestEmitter.tiny): where it can be loaded under a mask, and nothing dear is done once a row, which
    side by side is done for many rows at once?"""
    if not maskable(exprs, k.stores, k.inner) or any(itemsize(e.dtype) > 4 for e in exprs if k.inner in e.axes): return False
    return all(e.op == 'reduce' for e in reduces) and not any(e.op in DEAR and k.inner not in e.axes and e.axes for e in exprs)


class BesideEmitter(Evaluator):
    def __init__(self, kernel, program, axis):
        super().__init__(program, axis, closure(kernel.roots()))
        self.kernel, self.sizes, self.along = kernel, kernel.sizes, kernel.inner
        self.hoist()
        f = self.f
        part = lambda dtype: itemsize(values.PAIR.get(dtype, dtype))
        width = 32 if max((part(e.dtype) for e in self.exprs if self.varies(e) or self.along in e.axes), default=4) <= 4 else 16
        outer = [a for a in kernel.outer if a != axis]
        count, columns = product(self.sizes[a] for a in outer), self.sizes[axis]
        chunks = program.max(1, program.floordiv(columns, CHUNK))          # the last one takes what is left over
        self.units, self.cost = count * chunks, kernel.cost
        self.grain = program.max(1, program.floordiv(schedule.CHUNK // CHUNK, program.max(1, self.sizes[self.along])))
        self.length = self.n(self.sizes[self.along])
        self.plan_keeps()
        size, pieces = self.n(columns), self.n(chunks)
        again = all(s.memory.place[0] == 'buffer' for s in kernel.stores)     # nothing here reads what the kernel writes: the last rows may be done twice
        with f.loop(self.lo, self.hi) as unit:
            index = self.split(outer, unit // pieces) if outer else {}
            piece = unit % pieces
            first = piece * CHUNK
            last = f.select((piece + 1).eq(pieces), size, first + CHUNK)
            if again:
                with f.loop(first, last, width) as c: self.passes(index, f.min(c, last - width), width)
            else:
                main = first + ((last - first) & -width)
                with f.loop(first, main, width) as c: self.passes(index, c, width)
                with f.loop(main, last) as c: self.passes(index, c, 1)

    # -- what is kept between passes: dear values, and those gathered from row after row
    def plan_keeps(self):
        self.keeps = {}                                   # expression -> the pass that keeps it
        def worth(e):
            if not (self.varies(e) and self.along in e.axes) or e.dtype == 'b1': return False
            return e.op in DEAR or e.op == 'load' and not is_one(e.attrs['strides'].get(self.inner, 0))
        seen = {}
        for i, p in enumerate(self.kernel.passes):
            for e in closure(p.operands(), stop=[e for e in seen if seen[e] < i]):
                if e in seen and seen[e] < i: self.keeps[e] = seen[e]
                elif worth(e) and self.kernel.depth[e] <= i: seen.setdefault(e, i)

    # -- passes over the rows from `column` on
    def passes(self, index, column, width):
        f, done = self.f, {}
        for i, p in enumerate(self.kernel.passes):
            if not p.operands(): continue
            row, at = self.here(index, column, width, done)
            fixed = self.fixed(p.operands())
            row.prepare(fixed, {width}, known=done)
            for e in fixed: row.spread(e, at)
            accumulators = {r: self.accumulator(r, width) for r in p.reduces}
            with f.loop(f.const(0), self.length) as j: self.body(i, p, row, at, j, accumulators)
            for r, a in accumulators.items(): done[r] = a.result(self.length)
        row, at = self.here(index, column, width, done)
        for s in self.kernel.row_stores:
            row.prepare([s.expr], {width}, known=done)
            self.put(row, s, row.spread(s.expr, at), at)

    def here(self, index, column, width, done):
        row, at = Row(self, dict(index)), At(column, width)
        for r, v in done.items(): self.know(row, at, r, v)
        return row, at

    def know(self, row, at, e, v):
        """e has the value v, a vector over the rows."""
        at.memo[e] = v
        if self.varies(e): return
        row.memo[e, at.width] = v
        row.memo[e, 1] = tuple(self.f.extract(x, 0) for x in v) if isinstance(v, tuple) else self.f.extract(v, 0)

    def fixed(self, roots):
        """The largest parts of a pass that are the same all along the row: evaluated once, before it."""
        out, todo, seen = [], list(roots), set()
        while todo:
            e = todo.pop()
            if e in seen: continue
            seen.add(e)
            if self.along not in e.axes: out.append(e)
            else: todo.extend(e.args)
        return out

    def body(self, number, p, outside, before, j, accumulators):
        f, width = self.f, before.width
        row, at = Row(self, {**outside.index, self.along: j}), At(before.index, width)
        row.memo.update(outside.memo)
        at.memo.update(before.memo)
        kept = {e: self.room(e, LONGEST, reduce.parts(values.constant(f, 0, e.dtype, width))) for e in self.keeps}
        for e, room in kept.items():
            if self.keeps[e] < number: at.memo[e] = reduce.whole(room.read(j))
        row.prepare(p.operands(), {width}, known=at.memo)
        for e, room in kept.items():
            if self.keeps[e] == number: room.write(j, reduce.parts(row.spread(e, at)))
        for r, a in accumulators.items(): a.step(j, row.spread(r.args[0], at))
        results = [(s, row.spread(s.expr, at)) for s in p.stores]
        for s, v in results: self.put(row, s, v, at)

    def accumulator(self, r, width):
        if r.op == 'argreduce': return Place(self, r, width)
        dtype, kind = r.args[0].dtype, r.attrs['kind']
        ordered = kind in ORDERED and (dtype in values.FLOATS or dtype in values.PAIR)
        return (Lanes if ordered else Running)(self, r, width)


class Lanes:
    """The 32 lanes of each row in memory, folded by halving."""

    def __init__(self, k, r, width):
        self.f, self.kind, self.dtype = k.f, r.attrs['kind'], r.args[0].dtype
        self.empty = reduce.identities(k.f, self.kind, self.dtype, width)
        self.room, self.combine = k.room(r, LONGEST, self.empty), reduce.COMBINE[self.kind]

    def step(self, j, v): self.room.write(j, self.combine(self.f, self.empty, reduce.enter(self.f, v, self.dtype, self.kind)))

    def result(self, length):
        f, room, half = self.f, self.room, LONGEST
        with f.when(length <= 0): room.write(f.const(0), self.empty)
        while half > 1:
            half //= 2
            with f.loop(f.const(0), f.min(length - half, half)) as lane:       # beyond the end there are identities only
                room.write(lane, self.combine(f, room.read(lane), room.read(lane + half)), plain=True)
        return reduce.leave(f, room.read(f.const(0)), self.dtype, self.kind)


class Running:
    """A reduction that gives the same bits in any order."""

    def __init__(self, k, r, width):
        self.f, self.kind, self.dtype = k.f, r.attrs['kind'], r.args[0].dtype
        self.acc = [Var(k.f, v) for v in reduce.identities(k.f, self.kind, self.dtype, width)]

    def step(self, j, v):
        new = reduce.COMBINE[self.kind](self.f, tuple(a.get() for a in self.acc), reduce.enter(self.f, v, self.dtype, self.kind))
        for a, x in zip(self.acc, new): a.set(x)

    def result(self, length): return reduce.leave(self.f, tuple(a.get() for a in self.acc), self.dtype, self.kind)


class Place:
    """argmax, argmin: the first of the best, NaN best of all."""

    def __init__(self, k, r, width):
        self.f, self.kind, self.source, self.width = k.f, r.attrs['kind'], r.args[0].dtype, width
        dtype = reduce.accumulator_dtype(self.source)
        self.best = Var(k.f, k.f.const(reduce.identity(self.kind, self.source), values.register(dtype), width))
        self.at = Var(k.f, k.f.const(-1, 'i32', width))

    def step(self, j, v):
        f, best = self.f, self.best.get()
        v = reduce.enter(f, v, self.source)[0]
        take = reduce.beats(self.kind, v, best) | f.splat(j.eq(0), self.width)
        self.best.set(f.select(take, v, best))
        self.at.set(f.select(take, f.splat(f.convert('trunc', j, 'i32'), self.width), self.at.get()))

    def result(self, length): return self.f.convert('sext', self.at.get(), 'i64')
