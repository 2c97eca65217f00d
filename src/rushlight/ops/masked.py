"""torch.masked: reductions, scans and normalisations that leave out the elements where a mask is False. Each is the plain operator on a tensor whose masked
elements hold what the operator ignores; where counts matter they are the mask's. A mask has at most as many dimensions as the input and broadcasts to it."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples import Sample, _draw
from . import activation, elementwise, reduce
from .common import wrap_dim
from .sort import nanmedian

_REDUCTION = "int[1]? dim=None, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None"
_ALONG = "int dim, *, ScalarType? dtype=None, Tensor? mask=None"


# ---------------------------------------------------------------------------------------------------------------- masks
def _expanded(input, mask):
    """The mask as booleans of the input's shape; None stays None."""
    if mask is None:
        return None
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return T.expand(elementwise.truth(mask), input.shape)


def _filled(input, mask, value):
    """The input with `value` where the mask is False."""
    mask = _expanded(input, mask)
    return input if mask is None else T.where(mask, input, T.const(value, input.dtype))


def _lowest(name, dtype, sign):
    """What amax (sign -1) or amin (sign 1) ignores: -inf or the smallest integer, inf or the largest."""
    if T.is_complex(dtype):
        raise TypeError("torch.iinfo() requires an integer input type. Use torch.finfo to handle 'torch.iinfo'")
    if dtype == "b1":
        raise NotImplementedError(f"identity of {name} on torch.bool input")
    if T.is_float(dtype):
        return sign * math.inf
    bits = int(dtype[1:]) - (dtype[0] == "i")
    return 2 ** bits - 1 if sign > 0 else -2 ** bits if dtype[0] == "i" else 0


def _dims(dim, ndim):
    """Every dimension if none is named; torch.masked words the errors its own way."""
    if dim is None:
        return tuple(range(ndim))
    out = []
    for d in dim:
        d = wrap_dim(d, ndim)
        if d in out:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        out.append(d)
    return tuple(out) or tuple(range(ndim))


def _summed_dtype(input, dtype):
    return dtype or ("i64" if not (T.is_float(input.dtype) or T.is_complex(input.dtype)) else input.dtype)


# -------------------------------------------------------------------------------------------------------------- samples
def _samples(dims, *before, complete=True):
    """Inputs with masks of their own and of smaller shapes. complete: also without a mask."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        out = []
        for shape, smaller in (((5,), (5,)), ((3, 4), (4,)), ((2, 3, 40), (3, 1)), ((70, 3), (70, 3))):
            x, mask = _draw(rng, shape, -2, 2), _draw(rng, smaller, 0, 1, "b1")
            mask[..., 0] = True
            for dim in dims:
                given = before if dim is None else (*before, dim)
                out.append(Sample(x, *given, mask=mask))
                if complete: out.append(Sample(x, *given))
        return out
    return make


def _reduction(name, doc, body):
    def apply(input, dim, keepdim, dtype, mask):
        return body(input, _dims(dim, input.ndim), keepdim, dtype, mask)
    apply.__doc__ = doc
    return op(f"{name}(Tensor input, {_REDUCTION}) -> Tensor", once=name in ("amax", "amin", "mean", "prod"), rule=None, on="masked", layout="contiguous", out=False, samples=_samples((None, 0, -1)))(apply)


# ----------------------------------------------------------------------------------------------------------- reductions
def _sum(input, dims, keepdim, dtype, mask):
    dtype = _summed_dtype(input, dtype)
    return reduce.sum(_filled(T.cast(input, dtype), mask, 0), dims, keepdim)


def _prod(input, dims, keepdim, dtype, mask):
    dtype = _summed_dtype(input, dtype)
    out = _filled(T.cast(input, dtype), mask, 1)
    for d in sorted(dims, reverse=True):
        out = reduce.prod(out, d, keepdim)
    return out


def _extreme(name, sign):
    def body(input, dims, keepdim, dtype, mask):
        dtype = dtype or input.dtype
        x = T.cast(input, dtype)
        return getattr(reduce, name)(_filled(x, mask, _lowest(name, dtype, sign)), dims, keepdim)
    return body


def _count(input, dims, mask):
    """How many elements count, as a number of kept dimensions."""
    ones = T.expand(T.const(1, "i64"), input.shape) if mask is None else T.cast(mask, "i64")
    return T.reduce("sum", ones, dims) if dims else ones


def _mean(input, dims, keepdim, dtype, mask):
    dtype = dtype or input.dtype
    if not (T.is_float(dtype) or T.is_complex(dtype)):
        from ..compiler.graph import TORCH_NAME
        raise ValueError(f"mean(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: torch.{TORCH_NAME[dtype]}")
    if mask is None:
        return reduce.mean(input, dims, keepdim, dtype=dtype)
    total = _sum(input, dims, keepdim, T.compute_dtype(dtype), mask)
    count = T.reshape(_count(input, dims, _expanded(input, mask)), total.shape)
    return T.cast(elementwise.div(total, T.cast(count, total.dtype)), dtype)


def _logsumexp(input, dims, keepdim, dtype, mask):
    dtype = dtype or input.dtype
    x = T.cast(input, dtype)
    lowest = -math.inf if T.is_complex(dtype) else _lowest("logsumexp", dtype, -1)
    return T.cast(reduce.logsumexp(_filled(x, mask, lowest), dims, keepdim), dtype)


sum = _reduction("sum", "The sum over `dim` of the elements that the mask keeps; 0 for none.", _sum)
prod = _reduction("prod", "The product over `dim` of the elements that the mask keeps; 1 for none.", _prod)
amax = _reduction("amax", "The largest element over `dim` that the mask keeps; -inf or the smallest integer for none.", _extreme("amax", -1))
amin = _reduction("amin", "The smallest element over `dim` that the mask keeps; inf or the largest integer for none.", _extreme("amin", 1))
mean = _reduction("mean", "The mean over `dim` of the elements that the mask keeps; NaN for none.", _mean)
logsumexp = _reduction("logsumexp", "The logarithm of the sum of exponentials over `dim` of the elements that the mask keeps; -inf for none.", _logsumexp)


def _arg(name, sign):
    def body(input, dim, keepdim, dtype, mask):
        dtype = dtype or input.dtype
        x = _filled(T.cast(input, dtype), mask, _lowest(name, dtype, sign))
        return T.cast(getattr(reduce, name)(x, dim, keepdim), dtype)
    return body


def _index_reduction(name, doc, body):
    def apply(input, dim, keepdim, dtype, mask):
        return body(input, dim, keepdim, dtype, mask)
    apply.__doc__ = doc
    return op(f"{name}(Tensor input, int? dim=None, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None) -> Tensor", rule=None, on="masked", layout="contiguous", out=False,
              differentiable=False, samples=_samples((None, 0, -1)))(apply)


argmax = _index_reduction("argmax", "The index of the largest element that the mask keeps, in the dtype of the input, as torch has it.", _arg("argmax", -1))
argmin = _index_reduction("argmin", "The index of the smallest element that the mask keeps, in the dtype of the input, as torch has it.", _arg("argmin", 1))


@op("norm(Tensor input, Scalar! ord=2.0, " + _REDUCTION + ") -> Tensor", once=True, unreached=True, rule=None, on="masked", layout="contiguous", out=False,
    samples=lambda seed=0: [s for p in (2.0, 1.0, math.inf, 3.0) for s in _samples((None, -1), p)(seed)])
def norm(input, ord, dim, keepdim, dtype, mask):
    """The `ord`-norm over `dim` of the elements that the mask keeps."""
    dims = _dims(dim, input.ndim)
    x = T.cast(input, dtype) if dtype is not None else input
    return reduce.linalg_vector_norm(_filled(x, mask, math.inf if ord == -math.inf else 0), ord, dims, keepdim)


def _deviation(name, doc, root):
    head = "int[1]? dim=None, bool? unbiased=None, *, Scalar!? correction=None, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None"

    def body(input, dim, unbiased, correction, keepdim, dtype, mask):
        if unbiased is not None and correction is not None:
            raise AssertionError("Only one of unbiased and correction may be given")
        off = float(correction) if correction is not None else 0.0 if unbiased is False else 1.0
        dims = _dims(dim, input.ndim)
        dtype = dtype or input.dtype
        if not (T.is_float(dtype) or T.is_complex(dtype)):
            dtype = "f32"
        if input.dtype == "b1":
            raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported.")
        wide = T.compute_dtype(dtype)
        real = T.real_dtype(wide)
        keep = _expanded(input, mask)
        count = _count(input, dims, keep)
        x = T.cast(input, wide)
        centred = elementwise.sub(x, elementwise.div(_sum(x, dims, True, wide, keep), T.cast(count, wide)))
        total = _sum(elementwise.mul(centred, T.conj(centred)), dims, keepdim, wide, keep)
        weight = T.reshape(T.cast(count, real), total.shape)
        if off:
            weight = T.prim("maximum", weight - off, T.const(0, real))
        out = elementwise.div(total, T.cast(weight, wide))
        return T.cast(elementwise.sqrt(out) if root else out, dtype)
    body.__doc__ = doc
    return op(f"{name}(Tensor input, {head}) -> Tensor", rule=None, on="masked", layout="contiguous", out=False, samples=_samples((None, 0, -1)))(body)


var = _deviation("var", "The variance over `dim` of the elements that the mask keeps; the count is the mask's, less `correction` (1).", False)
std = _deviation("std", "The standard deviation over `dim` of the elements that the mask keeps.", True)


@op("median(Tensor input, int dim=-1, *, bool keepdim=False, ScalarType? dtype=None, Tensor? mask=None) -> Tensor", rule=None, on="masked", layout="contiguous", out=False,
    samples=_samples((0, -1)))
def median(input, dim, keepdim, dtype, mask):
    """The middle element along `dim` of those that the mask keeps, the lower of two; NaN for none."""
    dtype = dtype or input.dtype
    x = input if T.is_float(input.dtype) else T.cast(T.prim("real", input), "f32")
    x = T.reshape(x, (1,)) if x.ndim == 0 else x
    d = wrap_dim(dim, input.ndim)
    keep = _expanded(input, mask)
    if keep is not None and input.ndim == 0:
        keep = T.reshape(keep, (1,))
    out = nanmedian(_filled(x, keep, math.nan), d, keepdim)[0]
    return T.cast(T.reshape(out, ()) if input.ndim == 0 else out, dtype)


# ------------------------------------------------------------------------------------------------------ scans, softmax
def _along(name, doc, body):
    def apply(input, dim, dtype, mask):
        return body(input, wrap_dim(dim, input.ndim), dtype or input.dtype, mask)
    apply.__doc__ = doc
    return op(f"{name}(Tensor input, {_ALONG}) -> Tensor", rule=None, on="masked", layout="contiguous", out=False, samples=_samples((0, -1)))(apply)


def _scan(name, identity):
    def body(input, dim, dtype, mask):
        return getattr(reduce, name)(_filled(T.cast(input, dtype), mask, identity), dim, dtype=dtype)
    return body


def _soft(name):
    def body(input, dim, dtype, mask):
        return getattr(activation, name)(_filled(input, mask, _lowest(name, input.dtype, -1)), dim, dtype=dtype)
    return body


def _softmin(input, dim, dtype, mask):
    return activation.softmax(elementwise.neg(_filled(input, mask, _lowest("softmin", input.dtype, 1))), dim, dtype=dtype)


cumsum = _along("cumsum", "The running sum along `dim` of the elements that the mask keeps.", _scan("cumsum", 0))
cumprod = _along("cumprod", "The running product along `dim` of the elements that the mask keeps.", _scan("cumprod", 1))
softmax = _along("softmax", "`softmax` along `dim` over the elements that the mask keeps, 0 for the others; NaN where there are none.", _soft("softmax"))
log_softmax = _along("log_softmax", "`log_softmax` along `dim` over the elements that the mask keeps, -inf for the others.", _soft("log_softmax"))
softmin = _along("softmin", "`softmin` along `dim` over the elements that the mask keeps, 0 for the others; NaN where there are none.", _softmin)


@op("normalize(Tensor input, Scalar! ord, int dim, *, float eps=1e-12, ScalarType? dtype=None, Tensor? mask=None) -> Tensor", rule=None, on="masked", layout="pointwise", out=False,
    samples=lambda seed=0: [s for p in (2.0, 1.0) for s in _samples((0, -1), p)(seed)])
def normalize(input, ord, dim, eps, dtype, mask):
    """Vectors along `dim` divided by the norm of the elements that the mask keeps, or by eps if that is more; 0 for the others."""
    x = T.cast(input, T.compute_dtype(dtype or input.dtype))
    size = norm(x, ord, (dim,), keepdim=True, mask=mask)
    least = elementwise.maximum(size, T.expand(T.cast(eps, size.dtype), ()))
    out = elementwise.div(_filled(x, mask, 0), least)
    return T.cast(out, T.promote(input, T.expand(T.const(0, dtype), (1,) * input.ndim)) if dtype else input.dtype)


@op("logaddexp(Tensor input, Tensor other, *, ScalarType? dtype=None, Tensor? input_mask=None, Tensor? other_mask=None) -> Tensor", rule=None, on="masked", layout="pointwise", out=False,
    samples=lambda seed=0: [Sample(s.args[0], s.args[0][::-1].copy(), input_mask=s.kwargs["mask"]) for s in _samples((None,), complete=False)(seed)])
def logaddexp(input, other, dtype, input_mask, other_mask):
    """`log(exp(input) + exp(other))`; an element that its mask leaves out counts as -inf."""
    a = _filled(input, input_mask, _lowest("logaddexp", input.dtype, -1))
    b = _filled(other, other_mask, _lowest("logaddexp", other.dtype, -1))
    return T.cast(elementwise.logaddexp(a, b), dtype or input.dtype)
