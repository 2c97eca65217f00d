"""Rows one after the other, each beginning while the one before ends: see schedule.overlapped."""
from ..loops import closure, is_one
from . import reduce
from .ir import Var


def overlapping(k):
    """The last pass over a row takes the same steps as the first pass over the next row. In between, the first of the other passes, which has the row in the cache, calls
    for the next row: memory would be idle."""
    f, axes, (first, *middle, last) = k.f, k.kernel.outer, k.kernel.passes
    counters = k.counters(axes, k.lo)
    with f.when(k.lo < k.hi):
        row = k.row(k.indices(axes, counters, k.lo))
        k.reduce_row(first, [row])
        carried = [(r, [Var(f, x) for x in reduce.parts(row.memo[r, 1])]) for r in first.reduces]
        with f.loop(k.lo, k.hi) as unit:
            row = k.row(k.indices(axes, counters, unit))
            for r, found in carried: row.memo[r, 1] = reduce.whole(tuple(x.get() for x in found))
            k.advance(axes, counters)
            following, more = k.row(k.indices(axes, counters, unit + 1)), unit + 1 < k.hi
            ahead = [(f.select(more, following.base(e), row.base(e)), e.dtype) for e in streams(k, first)] if middle else ()
            for i, p in enumerate(middle): k.one_pass(p, [row], ahead=ahead if i == 0 else ())
            k.prepare(last, [row])
            def with_next():
                k.reduce_row(first, [following], beside=(last, [row]))
                for r, found in carried:
                    for x, v in zip(found, reduce.parts(following.memo[r, 1])): x.set(v)
            f.branch(more, with_next, lambda: k.run_range(last, [row], None, f.const(0), k.size, f.const(0), prepared=True))
            for s in k.kernel.row_stores: k.store_row(row, s)


def streams(k, p):
    """The loads of a pass that go densely through another row of memory for each row."""
    outer = set(k.kernel.outer)
    return [e for e in closure(p.operands()) if e.op == 'load' and not e.args and e.axes & outer and is_one(e.attrs['strides'].get(k.inner, 0))]
