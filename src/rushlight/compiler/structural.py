"""The gradients of what is not pointwise: reductions, scans, index maps, indirect access, joins, products.

    VJP[op](g, node, *args) -> a cotangent per argument (None: none), all Syms

A cotangent may have fewer dimensions than its node, or 1 where the node has a size: it is then constant there (never expanded). A rule
that moves elements about says `full(g, node)`; the others leave it alone.
"""
from functools import partial

from . import trace as T
from .graph import is_complex, is_float
from .symbolic import known_equal
from .transpose import transposed


def is_one(size): return isinstance(size, int) and size == 1


def full(g, node): return T.expand(g, node.shape)


def ranked(g, rank): return T.reshape(g, (1,) * (rank - g.ndim) + g.shape) if g.ndim < rank else g


def spread(g): return all(is_one(s) for s in g.shape)


def unbroadcast(g, shape, target):
    """The cotangent of an operand of shape `target` that was broadcast to `shape`. Along a broadcast dimension where g is constant
    the sum is a multiplication by the size."""
    rank, offset = len(shape), len(shape) - len(target)
    gained = rank - g.ndim
    lost = [i for i in range(rank) if not is_one(shape[i]) and (i < offset or is_one(target[i - offset]))]
    varying = [i for i in lost if i >= gained and not is_one(g.shape[i - gained])]
    if varying: g = T.reduce('sum', g, tuple(i - gained for i in varying))
    constant = [i for i in lost if i not in varying]
    if constant:
        count = 1
        for i in constant: count = count * shape[i]
        g = g * T.cast(T.size(count, T.real_dtype(g.dtype)), g.dtype)
    if g.ndim > len(target): g = T.reshape(g, g.shape[g.ndim - len(target):])
    return g


# ------------------------------------------------------------------------------------------------------------ reductions
def _reduce(g, y, x):
    kind, dims = y.node.attrs['kind'], y.node.attrs['dims']
    if kind == 'sum': return (g,)                                   # broadcast back happens on use
    if kind == 'prod': return (_product(g, x, dims),)
    if kind in ('amax', 'amin'):                                    # shared evenly; a NaN result has count 0, so its slice becomes NaN
        mask = T.cast(T.prim('eq', x, y), x.dtype)
        return ((ranked(g, x.ndim) * mask) / (T.fold if y.node.attrs.get('swept') else T.reduce)('sum', mask, dims),)
    return (None,)


def _product(g, x, dims):
    """g times the product of the others, as a prefix times a suffix: zeros need no care."""
    if len(dims) > 1:
        inner = T.reduce('prod', x, dims[-1:])
        return _product(_product(g, inner, dims[:-1]), x, dims[-1:])
    d, n = dims[0], x.shape[dims[0]]
    ones = T.expand(T.const(1, x.dtype), tuple(1 if i == d else s for i, s in enumerate(x.shape)))
    before = T.scan('prod', T.cat([ones, T.slice(x, d, 0, n - 1)], d), d)
    after = T.scan('prod', T.cat([T.slice(x, d, 1, n), ones], d), d, reverse=True)
    return ranked(g, x.ndim) * (before * after)


def _scan(g, y, x, factor=None):
    kind, dim, reverse = (y.node.attrs[k] for k in ('kind', 'dim', 'reverse'))
    g = full(g, y.node)
    if kind == 'linear':                 # y[k] = x[k] + a[k] y[k-1]: the cotangents run the other way, through the next element's factor
        r = T.recurrence(g, _neighbour(factor, dim, not reverse), dim, not reverse)
        return r, r * _neighbour(y, dim, reverse)
    if kind == 'logaddexp':              # the sum over later j of g[j] exp(x - y[j]) is exp(x - y) r, r[k] = g[k] + exp(y[k] - y[k+1]) r[k+1]: no factor above 1
        # In double precision: single holds a y of 1e4 to 5e-4, and the exponential shows that.
        wide = T.WIDER.get(x.dtype)
        z = x if wide is None else T.cast(x, wide)
        y = y if wide is None else T.scan(kind, z, dim, reverse)
        following = _neighbour(y, dim, not reverse, itself=True)               # the factor beyond the end does not count, but may not overflow either
        factor = lambda difference: T.cast(T.prim('exp', difference), x.dtype)
        return (factor(z - y) * T.recurrence(g, factor(y - following), dim, not reverse),)
    if kind == 'sum': return (T.scan('sum', g, dim, not reverse),)
    if kind == 'prod': return (T.scan('sum', g * y, dim, not reverse) / x,)      # operators that meet zeros state their own
    if kind in ('max', 'min'):
        at = T.scan('arg' + kind, x, dim, reverse)
        return (T.scatter_dim(zeros_like(x), dim, at, g, 'add'),)
    return (None,)


def _neighbour(x, dim, after, itself=False):
    """Each element's next one along dim (or the one before it); 0 beyond the end, or the last element itself."""
    n = x.shape[dim]
    others = T.slice(x, dim, 1, n) if after else T.slice(x, dim, 0, n - 1)
    if not itself: return T.pad(others, dim, 0, 1) if after else T.pad(others, dim, 1, 0)
    edge = T.slice(x, dim, n - 1, n) if after else T.slice(x, dim, 0, 1)
    return T.cat([others, edge] if after else [edge, others], dim)


def zeros_like(x): return T.expand(T.const(0, x.dtype), x.shape)


# ------------------------------------------------------------------------------------------------------------ index maps
def _reshape(g, y, x):
    if spread(g): return (T.reshape(g, ()),)
    return (T.reshape(full(g, y.node), x.shape),)


def _permute(g, y, x):
    dims = y.node.attrs['dims']
    inverse = [0] * len(dims)
    for i, d in enumerate(dims): inverse[d] = i
    return (T.permute(ranked(g, y.ndim), inverse),)


def _slice(g, y, x):
    dim, start, step = (y.node.attrs[k] for k in ('dim', 'start', 'step'))
    g = full(g, y.node)
    i = T.iota(x.shape[dim], dim, x.ndim) - start
    if isinstance(step, int) and step == 1:
        at, valid = i, (i >= 0) & (i < T.size(y.shape[dim]))
    else:
        stride = T.size(step)
        at = T.prim('idiv', i, stride)
        valid = (i >= 0) & (at < T.size(y.shape[dim])) & T.prim('eq', at * stride, i)
    places = [at if k == dim else T.iota(s, k, x.ndim) for k, s in enumerate(x.shape)]
    return (T.load(g, places, valid, 0, shape=x.shape),)


def _flip(g, y, x):
    g = ranked(g, y.ndim)
    return (T.flip(g, tuple(d for d in y.node.attrs['dims'] if not is_one(g.shape[d]))),)


# -------------------------------------------------------------------------------------------------------- indirect access
def _picked_dimension(y, x, indices):
    """d when y picks one element along d for each remaining index (its gradient is then a select, not a scatter)."""
    if y.ndim != x.ndim: return None
    others = []
    for d in range(x.ndim):
        e = indices[d].node
        identity = e.op == 'iota' and e.attrs['dim'] == d and known_equal(e.attrs['size'], x.shape[d])
        if not (identity or is_one(x.shape[d])): others.append(d)
    return others[0] if len(others) == 1 and is_one(y.shape[others[0]]) else None


def _load(g, y, x, *rest):
    indices, guarded = rest[:x.ndim], y.node.attrs['guarded']
    valid, other = rest[x.ndim:] if guarded else (None, None)
    dead = (None,) * x.ndim
    if not is_float(x.dtype) and not is_complex(x.dtype): return (None,) * (1 + len(rest))
    d = _picked_dimension(y, x, indices)
    if d is not None:
        hit = T.prim('eq', T.iota(x.shape[d], d, x.ndim), indices[d])
        if guarded: hit = hit & valid
        gx = T.where(hit, ranked(g, y.ndim), 0)
    elif (gathered := transposed(g, y, x, indices, valid)) is not None: gx = gathered
    else:
        source = T.where(valid, g, 0) if guarded else g
        places = [T.where(valid, e, 0) for e in indices] if guarded else indices
        gx = T.scatter(zeros_like(x), places, T.expand(source, y.shape), 'add')
    return (gx,) + dead + ((None, unbroadcast(T.where(valid, 0, g), y.shape, other.shape)) if guarded else ())


def _scatter(g, y, base, src, *indices):
    combine, dead = y.node.attrs['combine'], (None,) * len(indices)
    g = full(g, y.node)
    at = lambda x: T.load(x, indices, shape=src.shape)
    if combine == 'add': return (g, at(g)) + dead
    if combine == 'set': return (T.scatter(g, indices, T.const(0, g.dtype), 'set'), at(g)) + dead
    if combine in ('max', 'min'):                                   # evenly among self and all sources that tie
        mine = T.cast(T.prim('eq', base, y), g.dtype)
        theirs = T.cast(T.prim('eq', src, at(y)), g.dtype)
        count = T.scatter(mine, indices, theirs, 'add')
        share = g / count
        return (mine * share, theirs * at(share)) + dead
    if combine == 'mul': return _scatter_product(g, y, base, src, indices, at) + dead
    raise NotImplementedError(f'the derivative of scatter with combine={combine!r} is not implemented')


def _scatter_product(g, y, base, src, indices, at):
    """Each factor's gradient is the product of the others. A factor that is 0 is left out of a product made anew; of two zeros neither matters."""
    zero, one = T.prim('eq', base, 0), T.const(1, base.dtype)
    safe = T.where(zero, one, base)
    g_base = g * T.scatter(safe, indices, src, 'mul') / safe
    src_zero = T.prim('eq', src, 0)
    zeros = T.scatter(T.expand(T.const(0, 'i64'), base.shape), indices, T.cast(src_zero, 'i64'), 'add')
    single = src_zero & T.prim('eq', at(zeros), 1)
    without = T.scatter(base, indices, T.where(single, one, src), 'mul')
    return g_base, T.where(single, at(g * without), at(g * y) / T.where(src_zero, one, src))


def _cat(g, y, *xs):
    dim = y.node.attrs['dim']
    g = ranked(g, y.ndim)
    if is_one(g.shape[dim]): return (g,) * len(xs)
    out, start = [], 0
    for x in xs:
        stop = start + x.shape[dim]
        out.append(T.slice(g, dim, start, stop))
        start = stop
    return tuple(out)


def _matmul(g, y, a, b):
    g = full(g, y.node)
    i, j = y.ndim - 2, y.ndim - 1
    return T.matmul(g, T.transpose(b, i, j)), T.matmul(T.transpose(a, i, j), g)


def _convolution(kind, g, y, a, b):
    from .convolution import VJP
    return VJP[kind](g, y, a, b)


def _cast(g, y, x):
    if is_complex(x.dtype) and not is_complex(g.dtype): return (T.cast(g, x.dtype),)
    if not is_float(x.dtype) and not is_complex(x.dtype): return (None,)
    return (T.cast(T.prim('real', g) if is_complex(g.dtype) and not is_complex(x.dtype) else g, x.dtype),)


def _loop(g, y, *args):
    raise NotImplementedError('the derivative of a scalar loop is not implemented: the operator that uses it must state its gradient')


VJP = {
    'reduce': _reduce, 'scan': _scan, 'reshape': _reshape, 'permute': _permute, 'slice': _slice, 'flip': _flip,
    'expand': lambda g, y, x: (g,), 'itself': lambda g, y, x: (g,), 'stored': lambda g, y, x: (g,), 'load': _load, 'scatter': _scatter, 'cat': _cat, 'matmul': _matmul, 'cast': _cast, 'loop': _loop,
    **{name: partial(_convolution, name) for name in ('conv', 'conv_input', 'conv_weight')},
}
# Rules that are linear maps of elements: nothing to conjugate. matmul multiplies by the other operand, so it is not here.
LINEAR = {'itself', 'expand', 'stored', 'reshape', 'permute', 'slice', 'flip', 'load', 'cat', 'cast', 'scatter'}
NO_GRADIENT = {'input', 'scalar', 'const', 'size', 'iota', 'draw', 'argreduce', 'check', 'bitcast', 'stop', 'native', 'native_part'}
