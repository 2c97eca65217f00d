"""Sweeps: an axis walked in order with a running value, vectors across another axis. Scans store at every step, argreductions at the end.

The order is the serial one, so nothing depends on how the other axes are cut.
"""
from ..graph import itemsize
from ..loops import closure
from ..schedule import CHUNK
from ..symbolic import product
from . import reduce
from .ir import Var
from .llvm import At, Evaluator, Row, maskable

COLUMNS = 256         # columns of one work unit
SEARCHED = 16         # elements of a row at a time


class SweepEmitter(Evaluator):
    def __init__(self, program, sizes, outer, along, inner, store, op, kind, reverse, dtype, factor=None):
        """factor: of a linear recurrence."""
        # Places of running extremes along a row: it is read by vectors, most of which hold no new one
        searched = op == 'scan' and kind.startswith('arg') and inner is None and len(along) == 1 and not reverse and store.expr.dtype in ('f32', 'f64')
        super().__init__(program, along[0] if searched else inner, closure([store.expr, factor] if factor is not None else [store.expr]))
        self.factor = factor
        self.sizes, self.outer, self.along, self.store = sizes, outer, along, store
        self.op, self.kind, self.reverse, self.dtype = op, kind, reverse, dtype
        self.value = store.expr
        self.hoist()
        self.width = 32 if itemsize(self.value.dtype) <= 4 and itemsize(dtype) <= 4 else 8
        self.choose_tail(maskable(self.exprs, [store], inner))
        count = product(sizes[a] for a in outer)
        columns = sizes[inner] if inner is not None else 1
        chunks = program.ceildiv(columns, COLUMNS)
        length = product(sizes[a] for a in along)
        self.units = count * chunks
        self.grain = program.max(1, program.floordiv(CHUNK, program.max(1, length * program.min(columns, COLUMNS))))
        self.cost = count * columns * length * (itemsize(self.value.dtype) + itemsize(dtype))
        self.length = self.n(length)
        f = self.f
        size = self.n(columns)
        pieces = self.n(chunks)
        with f.loop(self.lo, self.hi) as unit:
            if searched: self.search(self.split(outer, unit))
            elif inner is None: self.walk(self.split(outer, unit), None, 1, None)
            else:
                piece = unit % pieces
                index = self.split(outer, unit // pieces)
                first = piece * COLUMNS
                last = f.min(first + COLUMNS, size)
                self.sweep(first, last, lambda c, width, mask: self.walk(index, c, width, mask))

    def walk(self, index, column, width, mask):
        f = self.f
        arg = self.kind.startswith('arg')
        source = self.value.dtype
        kind = self.kind[3:] if arg else self.kind
        start = reduce.identities(f, kind, source, width)
        keyed = arg and width == 1 and start[0].is_float
        if keyed: start = (reduce.as_key(f, start[0], kind == 'max'),)
        acc = [Var(f, v) for v in start]
        place = Var(f, f.const(-1 if self.op == 'argcolumn' else 0, 'i64', width)) if arg else None
        with f.loop(f.const(0), self.length) as step:
            k = self.length - 1 - step if self.reverse else step
            row = Row(self, {**index, **self.split(self.along, k)})
            at = At(column, width, mask)
            row.prepare([self.value] if self.factor is None else [self.value, self.factor], {width})
            there = lambda e: reduce.enter(f, row.spread(e, at), source)
            v = there(self.value)
            if keyed: v = (reduce.as_key(f, v[0], kind == 'max'),)
            if kind == 'linear':
                product_ = reduce.COMBINE['prod'](f, there(self.factor), tuple(a.get() for a in acc))
                begins = step.eq(0)                              # there is nothing before: whatever the first factor is, it does not count
                for a, x, y in zip(acc, v, reduce.COMBINE['sum'](f, v, product_)): a.set(f.select(begins, x, y))
            elif not arg and kind not in ('max', 'min'):
                new = reduce.COMBINE[kind](f, tuple(a.get() for a in acc), v)
                for a, x in zip(acc, new): a.set(x)
            else:
                take = self.takes(v[0], acc[0].get(), place)
                acc[0].set(f.select(take, v[0], acc[0].get()))
                if arg: place.set(f.select(take, f.splat(k, width), place.get()))
            if self.op == 'scan':
                self.put(row, self.store, place.get() if arg else reduce.leave(f, tuple(a.get() for a in acc), source, kind), at)
        if self.op != 'scan': self.put(Row(self, {**index, **{a: f.const(0) for a in self.along}}), self.store, place.get(), At(column, width, mask))

    def search(self, index):
        """Where the running extreme of a row was last met. A vector without a better one takes the place so far; the others go one by one."""
        f, largest = self.f, 'max' in self.kind
        row = Row(self, index)
        row.prepare([self.value], {1, SEARCHED})
        row.store_base(self.store)
        best = Var(f, reduce.as_key(f, reduce.identities(f, self.kind[3:], self.value.dtype, 1)[0], largest))
        place = Var(f, f.const(0))
        keys_at = lambda k, width: reduce.as_key(f, row.spread(self.value, At(k, width)), largest)

        def one(key, k):
            take = self.takes(key, best.get(), place)
            best.set(f.select(take, key, best.get()))
            place.set(f.select(take, k, place.get()))
            self.put(row, self.store, place.get(), At(k, 1))
        whole = self.length & -SEARCHED
        with f.loop(f.const(0), whole, SEARCHED) as k:
            keys = keys_at(k, SEARCHED)

            def one_by_one():
                room = f.array(keys.elem, SEARCHED)
                f.store(keys, room)
                with f.loop(f.const(0), f.const(SEARCHED)) as lane:
                    one(f.load(f.at(room, lane, keys.elem), keys.elem), k + lane)

            def nothing_new(): self.put(row, self.store, f.splat(place.get(), SEARCHED), At(k, SEARCHED))
            f.branch(f.any(self.takes(keys, f.splat(best.get(), SEARCHED), place)), one_by_one, nothing_new)
        with f.loop(whole, self.length) as k:
            one(keys_at(k, 1), k)

    def takes(self, x, best, place):
        """Does x replace the best so far? A scan lets later equals in (torch's cummax: also a zero of the other sign), an argreduction keeps the first."""
        if self.op != 'scan': return reduce.beats(self.kind, x, best) | (place.get() < 0)
        better = x >= best if 'max' in self.kind else x <= best
        return better | x.ne(x) if x.is_float else better
