"""The transpose of an affine access, in gather form.

    y[o, k] = x[c + a*o + b*k]        its gradient        gx[p] = sum over k of g[(p - c - b*k) / a, k]

where the quotient is a whole number in range. Each element of gx is written once, by whoever owns it, with its terms in a fixed order: no
scatter, no atomics, the same bits for any number of threads. Windows (pools, unfold), padding, cropping, strided and reversed slices are all
such accesses. An access that is not affine in the index of the result, or that uses one dimension of the result twice, is left to a scatter.
"""
from . import trace as T
from .symbolic import SymInt, hint, known_equal, product

LONGEST = 1024        # terms of one element: beyond, a scatter does less


class Affine:
    """const + sum of coefs[d] * (index along dimension d of the result). Numbers are ints or SymInts."""
    __slots__ = ('const', 'coefs')

    def __init__(self, const, coefs): self.const, self.coefs = const, coefs


def affine(node, rank):
    """An i64 node of the access as an Affine over the result's dimensions (right-aligned), or None."""
    offset = rank - node.ndim
    if node.op == 'const': return Affine(node.attrs['value'], {})
    if node.op == 'size': return Affine(node.attrs['expr'], {})
    if node.op == 'iota': return Affine(0, {offset + node.attrs['dim']: 1})
    if node.op == 'expand': return affine(node.args[0], rank)
    if node.op == 'neg': return _scaled(affine(node.args[0], rank), -1)
    if node.op in ('add', 'sub'):
        a, b = (affine(x, rank) for x in node.args)
        if a is None or b is None: return None
        b = b if node.op == 'add' else _scaled(b, -1)
        coefs = dict(a.coefs)
        for d, c in b.coefs.items(): coefs[d] = coefs[d] + c if d in coefs else c
        return Affine(a.const + b.const, coefs)
    if node.op == 'mul':
        a, b = (affine(x, rank) for x in node.args)
        if a is None or b is None or a.coefs and b.coefs: return None
        return _scaled(a, b.const) if a.coefs else _scaled(b, a.const)
    return None


def _scaled(a, k): return None if a is None else Affine(a.const * k, {d: c * k for d, c in a.coefs.items()})


def conjuncts(node):
    """A condition as the conditions that must all hold."""
    if node.op == 'bit_and' and node.dtype == 'b1': return [c for a in node.args for c in conjuncts(a)]
    return conjuncts(node.args[0]) if node.op == 'expand' else [node]


def in_range(condition, indices, sizes):
    """Does the condition only say that some index is not below 0, or is below its size? Every element of x meets that."""
    if condition.op not in ('lt', 'le'): return False
    a, b = condition.args
    for e, size in zip(indices, sizes):
        if condition.op == 'le' and b is e.node and a.op == 'const' and a.attrs['value'] <= 0: return True
        if condition.op == 'lt' and b is e.node and a.op == 'const' and a.attrs['value'] < 0: return True
        if condition.op == 'lt' and a is e.node:
            bound = b.attrs['value'] if b.op == 'const' else b.attrs['expr'] if b.op == 'size' else None
            if bound is not None and known_equal(bound, size): return True
    return False


class Dimension:
    """One dimension of x: p = const + step * (one index of the result, `solved`) + sum of coefs * (others, `swept`)."""

    def __init__(self, size, form, shape):
        self.size, self.const, self.coefs = size, form.const, dict(form.coefs)
        widest = max(self.coefs, key=lambda d: hint(shape[d]), default=None)
        self.solved, self.step = widest, self.coefs.pop(widest, 1)
        self.swept = sorted(self.coefs)


def transposed(g, y, x, indices, valid):
    """The cotangent of x, or None when the access has no such form."""
    rank, shape = y.ndim, y.shape
    forms = [affine(e.node, rank) for e in indices]
    if any(f is None or not all(isinstance(c, int) and c for c in f.coefs.values()) for f in forms): return None
    used = [d for f in forms for d in f.coefs]
    if len(used) != len(set(used)) or any(_is_zero(s) for s in (*shape, *x.shape)): return None
    rest = [c for c in conjuncts(valid.node) if not in_range(c, indices, x.shape)] if valid is not None else []
    if any(_reads(c) for c in rest): return None
    g, factor = _without_factor(g)
    g = T.reshape(g, (1,) * (rank - g.ndim) + g.shape) if g.ndim < rank else g
    idle = [d for d in range(rank) if d not in used and not _is_one(shape[d])]
    if any(d in idle for c in rest for d in _varying(c, rank)): return None
    g = _summed(g, idle, shape)
    dims = [Dimension(size, f, shape) for size, f in zip(x.shape, forms)]
    taps = [_Taps(d, shape) for d in dims]
    count = product(n for t in taps for n in t.counts)
    if hint(count) > LONGEST: return None
    # The terms are swept first (outermost), then x's own dimensions.
    swept = [n for t in taps for n in t.counts]
    whole = len(swept) + x.ndim
    at, conditions, place = {}, [], 0
    for k, (d, t) in enumerate(zip(dims, taps)):
        p = T.iota(d.size, len(swept) + k, whole)
        ks = [T.iota(n, place + i, whole) for i, n in enumerate(t.counts)]
        place += len(ks)
        t.solve(p, ks, at, conditions)
    for c in rest:
        conditions.append(T.load(T.Sym(c), [at.get(d + rank - c.ndim, T.const(0, 'i64')) for d in range(c.ndim)]))
    guard = None
    for c in conditions: guard = c if guard is None else guard & c
    places = [T.const(0, 'i64') if _is_one(s) else at[d] for d, s in enumerate(g.shape)]
    terms = T.load(g, places, guard, 0 if guard is not None else None, shape=(*swept, *x.shape))
    out = T.fold('sum', terms, tuple(range(len(swept)))) if swept else terms
    out = T.reshape(out, x.shape)
    return factor(out)


class _Taps:
    """How the terms of one dimension are counted. Windows that lie densely (p = c + a*o + k, k < K) are counted by the outputs that cover p,
    of which there are at most ceil(K / a); everything else by the swept indices themselves, with a test that the step divides."""

    def __init__(self, d, shape):
        self.d, self.shape = d, shape
        length = [shape[k] for k in d.swept]
        self.dense = len(d.swept) == 1 and d.coefs[d.swept[0]] == 1 and d.step > 1
        if self.dense: self.counts = [(length[0] + d.step - 1) // d.step]
        else: self.counts = length

    def solve(self, p, ks, at, conditions):
        d = self.d
        left = p - d.const
        if self.dense:
            first = floor_divided(left, d.step)
            o = first - ks[0]
            inside = left - o * d.step
            at[d.solved], at[d.swept[0]] = o, inside
            conditions += [T.prim('le', 0, o), o < T.size(self.shape[d.solved]), inside < T.size(self.shape[d.swept[0]])]
            return
        for k, dim in zip(ks, d.swept):
            left = left - k * d.coefs[dim]
            at[dim] = k
        if d.solved is None:
            conditions.append(T.prim('eq', left, 0))
            return
        if d.step == -1: left = -left
        step = abs(d.step)
        o = left
        if step != 1:
            if d.step < 0: left = -left
            o = floor_divided(left, step)
            conditions.append(T.prim('eq', o * step, left))
        at[d.solved] = o
        whole = not d.swept and step == 1 and _is_zero(d.const) and known_equal(d.size, self.shape[d.solved])
        if not whole: conditions += [T.prim('le', 0, o), o < T.size(self.shape[d.solved])]


def floor_divided(x, n):
    """x // n for n > 0, rounding down also below 0."""
    if not isinstance(n, SymInt) and n & (n - 1) == 0: return T.prim('shr', x, n.bit_length() - 1)
    n = T.size(n)
    return T.prim('idiv', T.where(x < 0, x - (n - 1), x), n)


def _is_one(s): return isinstance(s, int) and s == 1
def _is_zero(s): return isinstance(s, int) and s == 0


def _reads(node):
    """Does a condition depend on memory?"""
    todo, seen = [node], set()
    while todo:
        n = todo.pop()
        if n in seen: continue
        seen.add(n)
        if n.op in ('input', 'load', 'reduce', 'argreduce', 'scan', 'draw', 'scatter', 'matmul', 'check', 'cat', 'native', 'call'): return True
        todo.extend(n.args)
    return False


def _varying(node, rank): return [rank - node.ndim + i for i, s in enumerate(node.shape) if not _is_one(s)]


def _without_factor(g):
    """g without multiplications and divisions by single numbers, and the function that applies them to the sum instead."""
    single = lambda n: n.ndim == 0 and n.op in ('const', 'size', 'scalar')
    factors = []

    def stripped(node):
        if node.op == 'reshape':
            inner = stripped(node.args[0])
            return node if inner is node.args[0] else T.reshape(T.Sym(inner), node.shape).node
        if node.op not in ('mul', 'div'): return node
        a, b = node.args
        if node.op == 'mul' and single(a): a, b = b, a
        if not single(b): return node
        factors.append((node.op, b))
        return stripped(a)

    def apply(out):
        for op, by in reversed(factors): out = T.prim(op, out, T.Sym(by))
        return out
    return T.Sym(stripped(g.node)), apply


def _summed(g, dims, shape):
    """g summed over dimensions that no index follows."""
    varying = [d for d in dims if not _is_one(g.shape[d])]
    if varying: g = T.reduce('sum', g, tuple(varying))
    count = product(shape[d] for d in dims if d not in varying)
    return g if _is_one(count) else g * T.cast(T.size(count, T.real_dtype(g.dtype)), g.dtype)
