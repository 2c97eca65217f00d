"""Scatters: out[e0, e1, ...] = or combine= value, in row-major order of the source at every destination.

Axes of the source along which some index is the axis itself ("free" axes) never meet at one destination: they are the work units, or the
vectors when the innermost is dense. The other axes run in order inside a unit. So no atomics, and the same bits for any number of threads.
"""
from ..graph import itemsize
from ..loops import closure, is_one, is_zero
from ..symbolic import product
from . import reduce, values
from .llvm import At, Evaluator, Row

COLUMNS = 512         # columns of one work unit, when vectors run along a free axis


class ScatterEmitter(Evaluator):
    def __init__(self, program, builder, value, places, out, combine, shape):
        sizes = builder.sizes
        free = self.free_axes(places, len(sizes))
        last = len(sizes) - 1
        alone = lambda a: sum(a in e.axes for e in places) == 1
        inner = last if last in free and alone(last) and self.dense(places, out, last, free[last]) else None
        super().__init__(program, inner, closure([value, *places]))
        self.sizes, self.value, self.indices, self.out, self.combine_kind = sizes, value, places, out, combine
        self.hoist()
        f = self.f
        # Destinations that lie side by side along another free axis: it runs innermost, element by element, in pieces.
        self.near = None if inner is not None else next((a for a in sorted(free) if self.dense(places, out, a, free[a])), None)
        units = [a for a in range(len(sizes)) if a in free and a != inner and a != self.near]
        serial = [a for a in range(len(sizes)) if a not in free]
        wide = inner if inner is not None else self.near
        count, columns = product(sizes[a] for a in units), sizes[wide] if wide is not None else 1
        chunks = program.ceildiv(columns, COLUMNS)
        self.length = self.n(product(sizes[a] for a in serial))
        self.units = count * chunks
        work = product(sizes) * (2 * itemsize(out.dtype) + 8 * len(places))
        self.grain = program.max(1, program.floordiv(65536, program.max(1, program.floordiv(work, program.max(1, self.units)))))
        self.cost = work
        size, pieces = self.n(columns), self.n(chunks)
        width = 32 if itemsize(out.dtype) <= 4 else 8
        with f.loop(self.lo, self.hi) as unit:
            if self.near is not None:
                first = (unit % pieces) * COLUMNS
                end = f.min(first + COLUMNS, size)
                index = self.split(units, unit // pieces)
                with f.loop(f.const(0), self.length) as k:
                    here = {**index, **self.split(serial, k)}
                    with f.loop(first, end) as c: self.contribute(Row(self, {**here, self.near: c}), At(f.const(0), 1))
            elif inner is None:
                index = self.split(units, unit)
                with f.loop(f.const(0), self.length) as k:
                    row = Row(self, {**index, **self.split(serial, k)})
                    self.contribute(row, At(f.const(0), 1))
            else:
                piece = unit % pieces
                index = self.split(units, unit // pieces)
                first = piece * COLUMNS
                end = f.min(first + COLUMNS, size)
                main = first + ((end - first) & -width)
                with f.loop(f.const(0), self.length) as k:
                    row = Row(self, {**index, **self.split(serial, k)})
                    row.prepare([value, *places], {width, 1})
                    base = self.destination(row)
                    with f.loop(first, main, width) as c: self.contribute(row, At(c, width), base)
                    with f.loop(main, end) as c: self.contribute(row, At(c, 1), base)

    @staticmethod
    def free_axes(places, rank):
        """{axis: place}: axes that some index follows one to one, whatever the others do: along them no two sources meet."""
        out = {}
        for k, e in enumerate(places):
            terms = e.attrs['affine'].terms if e.op == 'index' else {}
            for a in terms:
                if len(terms) == 1 and isinstance(terms[a], int): out.setdefault(a, k)
        return out

    @staticmethod
    def dense(places, out, axis, k):
        """Do neighbours along the axis go to neighbours in memory (as far as index k decides)?"""
        return is_one(places[k].attrs['affine'].terms[axis]) and is_one(out.strides[k])

    def destination(self, row):
        """The address of the row's first column."""
        f, offset = self.f, None
        for e, stride in zip(self.indices, self.out.strides):
            if is_zero(stride): continue
            if self.varies(e):
                a = e.attrs['affine']
                v = row.offset(a.terms, None if is_zero(a.const) else self.n(a.const))
            else: v = row.value(e)
            term = self.times(v, stride)
            offset = term if offset is None else offset + term
        base = self.pointer(self.out, self.out.offset)
        return base if offset is None else values.address(f, base, offset, self.out.dtype)

    def contribute(self, row, at, base=None):
        f, dtype = self.f, self.out.dtype
        if base is None: base = self.destination(row)
        where = values.address(f, base, at.index, dtype)
        v = row.spread(self.value, at)
        if self.combine_kind != 'set':
            old = values.load(f, where, dtype, at.width)
            kind = {'add': 'sum', 'mul': 'prod', 'max': 'max', 'min': 'min'}[self.combine_kind]
            if dtype == 'b1': kind = {'sum': 'any', 'prod': 'all', 'max': 'any', 'min': 'all'}[kind]
            v = reduce.leave(f, reduce.COMBINE[kind](f, reduce.enter(f, old, dtype), reduce.enter(f, v, dtype)), dtype)
        values.store(f, v, where, dtype)
