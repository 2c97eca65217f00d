"""The interior of a row: where tests of the index against a bound (the padding of an image, the edge of a window) all come out as they do almost everywhere.

    for i in [0, lo), [hi, n):   the kernel's own body
    for i in [lo, hi):           the same without those tests: guarded loads are plain ones, and computed indices are strides

lo and hi are integers of the recipe. A call whose interior is empty runs the body as it was; the values are the same in any case.
"""
from ..evaluate import as_affine, index_arithmetic
from ..loops import Affine, Pass, Store, closure, is_one
from ..symbolic import hint

TESTS = ('lt', 'le', 'gt', 'ge', 'eq', 'ne')


class Interior:
    """lo, hi, and the pass that runs between them."""

    def __init__(self, lo, hi, pass_): self.lo, self.hi, self.pass_ = lo, hi, pass_


def interior_of(k, program):
    """The interior of a map's rows, or None where there is nothing to gain."""
    if k.form != 'nest' or k.inner is None or k.rows or k.columns or k.tiled or k.row_stores or len(k.passes) != 1: return None
    p = k.passes[0]
    if p.reduces or p.keep or p.reuse or not p.stores: return None
    size, known = k.sizes[k.inner], {}
    lo, hi = 0, size
    for e in closure([s.expr for s in p.stores]):
        side = bound(k, e)
        if side is None: continue
        below, above, truth = side(2 * hint(size))
        if below is not None: hi = program.min(hi, below)
        else: lo = program.max(lo, above)
        known[e] = truth
    if not known: return None
    simplify = Simplify(k, known)
    roots = [simplify(s.expr) for s in p.stores]
    if simplify.gained == 0 or simplify.failed: return None
    lo = program.min(lo, size)
    inside = Pass()
    for s, root in zip(p.stores, roots):
        inside.stores.append(Store(root, s.memory, s.strides, s.offset))
        inside.stores[-1].node = s.node
    return Interior(lo, program.max(lo, hi), inside)


def bound(k, e):
    """For a test of the inner index against something fixed for the call: a function of twice the row's length that gives (the interior ends before, None,
    truth there) or (None, the interior begins at, truth there), by which side of the bound is longer."""
    if e.op not in TESTS or e.args[0].dtype != 'i64': return None
    a, b = (as_affine(x) for x in e.args)
    if a is None or b is None: return None
    d = a + b.scale(-1)
    if set(d.terms) != {k.inner}: return None
    step = d.terms[k.inner]
    if not isinstance(step, int) or step not in (1, -1): return None
    c = d.const
    if e.op in ('eq', 'ne'):                                     # at one place only
        at = c * -1 if step == 1 else c
        return lambda twice: (at, None, e.op == 'ne') if 4 * hint(at) > twice else (None, at + 1, e.op == 'ne')
    low = e.op in ('lt', 'le')                                   # step * i + c < 0, or > 0, once `le` and `ge` are made strict
    c = c + {'le': -1, 'ge': 1}.get(e.op, 0)
    true_below = low == (step == 1)
    at = (c * -1 if low else c * -1 + 1) if step == 1 else (c + 1 if low else c)
    return lambda twice: (at, None, true_below) if 4 * hint(at) > twice else (None, at, not true_below)


class Simplify:
    """Rewrites expressions under what is known. gained: loads that lost a guard or a computed index along the row."""

    def __init__(self, k, known):
        self.k, self.b, self.known, self.memo, self.gained, self.failed = k, k.builder, known, {}, 0, False

    def __call__(self, e):
        if e not in self.memo: self.memo[e] = self.truth(self.known[e]) if e in self.known else self.rewrite(e)
        return self.memo[e]

    def truth(self, value): return self.b.expr('const', (), 'b1', (), value=value)

    def rewrite(self, e):
        args = [self(a) for a in e.args]
        if all(a is b for a, b in zip(args, e.args)): return e
        if e.op == 'load': return self.load(e, args)
        if e.op in ('fold', 'combine', 'reduce', 'argreduce'): self.failed = True; return e
        constant = [a.attrs['value'] if a.op == 'const' and a.dtype == 'b1' else None for a in args]
        if e.op == 'where' and constant[0] is not None: return args[1] if constant[0] else args[2]
        if e.op in ('bit_and', 'bit_or') and e.dtype == 'b1':
            deciding = e.op == 'bit_or'
            for c, other in ((constant[0], args[1]), (constant[1], args[0])):
                if c is not None: return self.truth(deciding) if c == deciding else other
        if e.dtype == 'i64' and e.op in ('add', 'sub', 'mul', 'neg'):
            index = index_arithmetic(e.op, [as_affine(a) for a in args])
            if index is not None: return self.b.index_expr(index)
        return self.b.expr(e.op, args, e.dtype, **e.attrs)

    def load(self, e, args):
        attrs, count = e.attrs, len(e.attrs['dynamic'])
        guard = args[count:]
        if guard and guard[0].op == 'const':
            if not guard[0].attrs['value']: return guard[1]
            guard = []
        strides, dynamic, steps = Affine(attrs['strides'], attrs['offset']), [], []
        for x, step in zip(args, attrs['dynamic']):
            index = as_affine(x)
            if index is None: dynamic.append(x); steps.append(step)
            else: strides = strides + index.scale(step)
        inner = self.k.inner
        vary = lambda given, n: any(inner in x.axes for x in given[:n]) + any(inner in g.axes for g in given[n:n + 1])
        self.gained += vary([*dynamic, *guard], len(dynamic)) < vary(e.args, count) and is_one(abs_(strides.terms.get(inner, 1)))
        axes = strides.axes.union(*[x.axes for x in [*dynamic, *guard]])
        return self.b.expr('load', [*dynamic, *guard], e.dtype, axes, memory=attrs['memory'], strides=dict(strides.terms), offset=strides.const, dynamic=tuple(steps),
                           guarded=bool(guard))


def abs_(x): return abs(x) if isinstance(x, int) else x
