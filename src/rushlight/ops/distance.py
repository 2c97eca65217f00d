"""Distances between tensors and between rows, and rows scaled to a largest length. The difference of each pair of rows is never stored."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples import Sample, _draw
from . import reduce
from .common import OUT_TENSOR_DTYPE, broadcast_shapes, hint, required, wrap_dim

FEW_ROWS = 25                                            # torch's bound: with more rows on either side the distances are a matrix product
SHORT_ROWS = 8                                           # a product of rows this short costs little beside the roots that follow, in double precision too


# ----------------------------------------------------------------------------------------------------------------- dist
def _pairs(seed=0):
    import numpy as np
    rng = np.random.default_rng(seed)
    t = lambda *shape: _draw(rng, shape, -2, 2)
    return [Sample(t(*a), t(*b), p) for a, b in (((5,), (5,)), ((3, 4), (4,)), ((2, 3, 40), (3, 1)), ((), ())) for p in (2, 1, 3)]


def _no_integers(self, other, p):
    dtype = T.promote(self, other)
    if not (T.is_float(dtype) or T.is_complex(dtype)):
        raise RuntimeError(f"norm(): input dtype should be either floating point or complex. Got {T.dtype_word(dtype)} instead.")
    return "norm"


@op("dist(Tensor self, Tensor other, Scalar! p=2) -> Tensor", rule=_no_integers, layout="contiguous", node="DistBackward0", out=False, samples=_pairs)
def dist(self, other, p):
    """The p-norm of `self - other`."""
    return reduce.norm(T.prim("sub", self, other), float(p))


# ---------------------------------------------------------------------------------------------------- cosine_similarity
def _vectors(seed=0):
    import numpy as np
    rng = np.random.default_rng(seed)
    t = lambda *shape: _draw(rng, shape, -2, 2)
    return [Sample(t(*a), t(*b), dim) for a, b, dim in (((5, 3), (5, 3), 1), ((2, 5, 40), (5, 1), -2), ((1, 2, 3), (4, 1, 3), 0), ((7,), (7,), 0), ((4, 0), (4, 0), 1))]


def _common_float(x1, x2, dim, eps):
    dtype = T.promote(x1, x2)
    if not T.is_float(dtype):
        raise RuntimeError(f"expected common dtype to be floating point, yet common dtype is {T.dtype_word(dtype)}")
    return "float"


@op("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor", rule=_common_float, on="F torch", layout="contiguous", out=False, node="SumBackward1",
    samples=_vectors)
def cosine_similarity(x1, x2, dim, eps):
    """The cosine of the angle between vectors along `dim`; each length counts as at least `eps`.

    >>> rushlight.cosine_similarity(rushlight.tensor([[3.0, 4.0], [1.0, 0.0]]), rushlight.tensor([[4.0, 3.0], [-2.0, 0.0]]))
    tensor([ 0.9600, -1.0000])
    """
    shape = broadcast_shapes(x1.shape, x2.shape)                         # dim counts in the common shape
    d = wrap_dim(dim, len(shape))
    dims = () if not shape else (d,)
    units = []
    for x in (T.expand(x1, shape), T.expand(x2, shape)):
        length = reduce.norm(x, 2.0, dims, True) if dims else T.prim("abs", x)
        # As in torch the gradient is that of the length itself, also of one that counts as eps.
        units.append(x / (length + T.stop(T.prim("maximum", length, eps) - length)))
    cosine = units[0] * units[1]
    return T.reshape(T.reduce("sum", cosine, dims), [n for i, n in enumerate(shape) if i != d]) if dims else cosine


# ---------------------------------------------------------------------------------------------------------- cdist, pdist
def row_norms(difference, p):
    """The p-norm along the last dimension, which stays with size 1. Its gradient is 0 where an element or the whole is 0: roots and powers below 1 would have
    an infinite one."""
    last = (difference.ndim - 1,)
    size = T.prim("abs", difference)
    if p == 0:
        return T.reduce("sum", T.cast(size != 0, size.dtype), last)
    if p == 1:
        return T.reduce("sum", size, last)
    if p == math.inf:
        return T.reduce("amax", size, last)
    if p == 2:
        total = T.reduce("sum", difference * difference, last)
    else:
        none = size == 0
        total = T.reduce("sum", T.where(none, 0, T.prim("pow", T.where(none, 1, size), T.const(p, size.dtype))), last)
    none = total == 0
    inside = T.where(none, 1, total)
    return T.where(none, 0, T.prim("sqrt", inside) if p == 2 else T.prim("pow", inside, T.const(1 / p, size.dtype)))


def _checked(x1, x2, p, compute_mode):
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D")
    if not x1.shape[-1] == x2.shape[-1]:
        raise RuntimeError(f"X1 and X2 must have the same number of columns. X1: {hint(x1.shape[-1])} X2: {hint(x2.shape[-1])}")
    for name, x in (("X1", x1), ("X2", x2)):
        if not T.is_float(x.dtype):
            raise RuntimeError(f"cdist only supports floating-point dtypes, {name} got: {T.dtype_word(x.dtype)}")
        if x.dtype in T.HALF:
            raise NotImplementedError(f"\"cdist\" not implemented for '{T.dtype_word(x.dtype)}'")
    if x1.dtype != x2.dtype:
        raise RuntimeError(f"expected scalar type {T.dtype_word(x1.dtype)} but found {T.dtype_word(x2.dtype)}")
    if p < 0:
        raise RuntimeError("cdist only supports non-negative p values")
    if compute_mode not in MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")


MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


def _cdist_samples(seed=0):
    import numpy as np
    rng = np.random.default_rng(seed)
    t = lambda *shape: _draw(rng, shape, -2, 2)
    out = [Sample(t(*a), t(*b), p) for a, b in (((5, 3), (4, 3)), ((2, 5, 40), (2, 6, 40)), ((2, 1, 5, 3), (3, 4, 3)), ((0, 3), (2, 3))) for p in (2.0, 1.0, 3.0, math.inf)]
    return [*out, Sample(t(40, 3), t(30, 3)), Sample(t(2, 40, 8), t(7, 8))]


@op("cdist(Tensor x1, Tensor x2, float! p=2.0, str? compute_mode='use_mm_for_euclid_dist_if_necessary') -> Tensor", once=True, rule=None, on="torch", layout="contiguous", out=False,
    node="CdistBackward0", samples=_cdist_samples)
def cdist(x1, x2, p, compute_mode):
    """The p-norm distance between each row of x1 and each row of x2: [..., P, M] and [..., R, M] give [..., P, R]. Euclidean distances of more than 25 rows are
    computed as a matrix product, unless `compute_mode` forbids it."""
    compute_mode = compute_mode or MODES[0]
    _checked(x1, x2, p, compute_mode)
    batch = broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    rows, others, columns = x1.shape[-2], x2.shape[-2], x1.shape[-1]
    many = compute_mode == MODES[1] or compute_mode == MODES[0] and (rows > FEW_ROWS or others > FEW_ROWS)
    if columns == 0:
        return T.expand(T.const(0, x1.dtype), (*batch, rows, others))
    if p == 2 and many:
        return _euclidean(T.expand(x1, (*batch, rows, columns)), T.expand(x2, (*batch, others, columns)))
    a, b = T.reshape(x1, (*x1.shape[:-1], 1, columns)), T.reshape(x2, (*x2.shape[:-2], 1, others, columns))
    out = row_norms(a - b, p)
    return T.expand(T.reshape(out, out.shape[:-1]), (*batch, rows, others))


@op("_euclidean(Tensor x1, Tensor x2) -> Tensor", rule=None, on="-", out=False, node="EuclideanDistBackward0")
def _euclidean(x1, x2):
    """sqrt(|a|^2 + |b|^2 - 2 a.b) for all pairs of rows. In double precision, since the terms cancel; but for the product of long rows."""
    last = x1.ndim - 1
    norms = lambda x: T.reduce("sum", x * x, (last,))
    wide = lambda x: T.cast(x, "f64")
    kind = wide if x1.shape[last] <= SHORT_ROWS else lambda x: x
    square = norms(wide(x1)) + T.transpose(norms(wide(x2)), last - 1, last) - wide(product(kind(x1), T.transpose(kind(x2), last - 1, last))) * 2.0
    return T.prim("sqrt", T.cast(T.where(square > 0, square, 0), x1.dtype))


def product(a, b):
    """A matrix product of any number of batch dimensions, which agree."""
    if a.ndim <= 3:
        return T.matmul(a, b)
    batch = a.shape[:-2]
    return T.reshape(T.matmul(T.reshape(a, (-1, *a.shape[-2:])), T.reshape(b, (-1, *b.shape[-2:]))), (*batch, a.shape[-2], b.shape[-1]))


def _ratio(grad, result):
    """The gradient over the distance, 0 where there is no distance."""
    none = result == 0
    return T.where(none, 0, grad / T.where(none, 1, result))


@_euclidean.gradient("x1")
def _(grad, x1, x2, result):
    ratio = _ratio(grad, result)
    return x1 * T.reduce("sum", ratio, (x1.ndim - 1,)) - product(ratio, x2)


@_euclidean.gradient("x2")
def _(grad, x1, x2, result):
    ratio = T.transpose(_ratio(grad, result), x1.ndim - 2, x1.ndim - 1)
    return x2 * T.reduce("sum", ratio, (x1.ndim - 1,)) - product(ratio, x1)


def _pdist_samples(seed=0):
    import numpy as np
    rng = np.random.default_rng(seed)
    return [Sample(_draw(rng, shape, -2, 2), p) for shape in ((5, 3), (2, 40), (1, 4), (9, 1), (40, 3)) for p in (2.0, 1.0, 3.0, math.inf)]


@op("pdist(Tensor self, float! p=2) -> Tensor", once=True, rule=None, on="F torch", layout="contiguous", out=False, node="PdistBackward0", samples=_pdist_samples)
def pdist(self, p):
    """The p-norm distances between all pairs of rows, as the upper triangle of `cdist(x, x)` read row by row."""
    if self.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {self.ndim}D")
    if not T.is_float(self.dtype):
        raise RuntimeError("pdist only supports floating-point dtypes")
    if self.dtype in T.HALF:
        raise NotImplementedError(f"\"pdist\" not implemented for '{T.dtype_word(self.dtype)}'")
    if p < 0:
        raise RuntimeError("pdist only supports non-negative p values")
    n, columns = self.shape
    if n <= 1:
        return T.expand(T.const(0, self.dtype), (0,))
    count = n * (n - 1) // 2
    if columns == 0:
        return T.expand(T.const(0, self.dtype), (count,))
    k = T.iota(count, 0, 2)
    first, second = (T.prim(member, k, T.size(n)) for member in ("pair_first", "pair_second"))
    column = T.iota(columns, 1, 2)
    out = row_norms(T.load(self, [first, column], shape=(count, columns)) - T.load(self, [second, column], shape=(count, columns)), p)
    return T.reshape(out, (count,))


# --------------------------------------------------------------------------------------------------------------- renorm
def _renorm_samples(seed=0):
    import numpy as np
    rng = np.random.default_rng(seed)
    t = lambda *shape: _draw(rng, shape, -2, 2)
    return [Sample(t(3, 4), 2, 0, 1.0), Sample(t(2, 3, 40), 1, 1, 3.0), Sample(t(70, 3), 2, 1, 5.0), Sample(t(3, 4), 3, -1, 0.5)]


def _float_or_complex(self, p, dim, maxnorm):
    if not (T.is_float(self.dtype) or T.is_complex(self.dtype)):
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point or complex tensor as input. Got {T.dtype_word(self.dtype)}")
    return "same"


@op("renorm(Tensor self, Scalar! p, int dim, Scalar maxnorm) -> Tensor", rule=_float_or_complex, promote=("self",), inplace=True, layout="pointwise contiguous", node="RenormBackward0", out=OUT_TENSOR_DTYPE, samples=_renorm_samples)
def renorm(self, p, dim, maxnorm):
    """Each slice along `dim` whose p-norm is above `maxnorm` scaled down to it."""
    if isinstance(p, complex):
        raise RuntimeError("renorm: p must be real-valued")
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if self.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {self.ndim} dimensions")
    d = wrap_dim(dim, self.ndim)
    real = T.real_dtype(self.dtype)
    limit = T.cast(maxnorm, real)
    limit = required(limit >= 0, limit, ("RuntimeError", "renorm: expected maxnorm to be >= 0 but got a negative number"))
    size = reduce.linalg_vector_norm(self, float(p), tuple(i for i in range(self.ndim) if i != d), True)
    factor = T.where(size > limit, limit / (size + 1e-7), 1)
    return self * T.cast(factor, self.dtype)
