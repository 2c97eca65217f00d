"""Sums, extremes, statistics and scans. Reduced dimensions are dropped unless keepdim."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..compiler.graph import DTYPE_OF_CODE, is_float
from ..registry import op
from ..samples import matrices, reduction
from .common import OUT_TENSOR_DTYPE, drop_dims, numel_of, shape_text, wrap_dim, wrap_dims
from .create import cat
from .elementwise import truth


def _of_all_or(parameter, whole, part):
    """The node's name: torch has one operator for all elements and another along a dimension."""
    return lambda given: whole if given.get(parameter) is None else part


@op("sum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", rule="acc", node=_of_all_or("dim", "SumBackward0", "SumBackward1"),
    layout="contiguous", samples=reduction())
def sum(x, dim, keepdim, dtype):
    """The sum over `dim` (all dimensions if none is given).

    >>> rushlight.tensor([[1, 2], [3, 4]]).sum(0)
    tensor([4, 6])
    """
    dims = wrap_dims(dim, x.ndim)
    return drop_dims(T.reduce("sum", x, dims), dims, keepdim)


def _nansum_out(given):
    """torch has no such kernel for floats that are to be summed as something else."""
    if is_float(DTYPE_OF_CODE[given["self"][0]]) and given["dtype"] is None and given["out"] not in ("Float", "Double", "Half", "BFloat16"):
        raise NotImplementedError(f"\"nansum_cpu\" not implemented for '{given['out']}'")
    return True


@op("nansum(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", rule="acc", layout="contiguous",
    refuses={"c": RuntimeError("nansum on CPU does not support complex inputs")}, out=_nansum_out, samples=reduction())
def nansum(x, dim, keepdim, dtype):
    """The sum of what is not NaN."""
    dims = wrap_dims(dim, x.ndim)
    return drop_dims(T.reduce("sum", T.where(T.prim("ne", x, x), 0, x), dims), dims, keepdim)


@op("mean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", rule="acc_float", node=_of_all_or("dim", "MeanBackward0", "MeanBackward1"),
    layout="contiguous", samples=reduction())
def mean(x, dim, keepdim, dtype):
    """The arithmetic mean over `dim`."""
    dims = wrap_dims(dim, x.ndim)
    count = numel_of(x.shape[d] for d in dims)
    return drop_dims(T.reduce("sum", x, dims) / T.size(count, T.real_dtype(x.dtype)), dims, keepdim)


@op(["prod(Tensor self, *, ScalarType? dtype=None) -> Tensor", "prod(Tensor self, int dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor"],
    rule="acc", once=True, node=_of_all_or("dim", "ProdBackward0", "ProdBackward1"), layout="contiguous", samples=reduction(high=1.3))
def prod(self, dim=None, keepdim=False, dtype=None):
    """The product over `dim`."""
    dims = wrap_dims(dim, self.ndim)
    return drop_dims(T.reduce("prod", self, dims), dims, keepdim)


@prod.gradient("self")
def _(grad, self, dim=None, keepdim=False):
    # Products of all the others, as a prefix times a suffix: no division, so zeros need no care and double backward is safe.
    dims = wrap_dims(dim, self.ndim)
    if not dims:
        return grad
    flat = self if len(dims) == 1 else T.reshape(self, (numel_of(self.shape),))
    d = dims[0] if len(dims) == 1 else 0
    before, after = _exclusive(flat, d, False), _exclusive(flat, d, True)
    kept = tuple(1 if i in dims else s for i, s in enumerate(self.shape))
    others = T.reshape(before * after, self.shape)
    return T.reshape(grad, kept) * others


def _exclusive(x, dim, reverse):
    """The product of the elements before (after) each one."""
    n = x.shape[dim]
    ones = T.expand(T.const(1, x.dtype), tuple(1 if i == dim else s for i, s in enumerate(x.shape)))
    part = T.slice(x, dim, 1, n, 1) if reverse else T.slice(x, dim, 0, n - 1, 1)
    shifted = T.cat([part, ones], dim) if reverse else T.cat([ones, part], dim)
    return cumprod_any(shifted, dim, reverse)


def cumprod_any(x, dim, reverse):
    return T.flip(cumprod(T.flip(x, (dim,)), dim), (dim,)) if reverse else cumprod(x, dim)


def _need_elements(x, dims, name):
    for d in dims:
        if x.ndim and x.shape[d] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


_SAME_DTYPE = "Expected the dtype for input and out to match, but got {result} for input's dtype and {out} for out's dtype."


def _extreme(name, doc):
    def body(x, dim, keepdim):
        dims = wrap_dims(dim, x.ndim)
        if not dim and x.ndim and numel_of(x.shape) == 0:
            raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
        _need_elements(x, dims, name)
        return drop_dims(T.reduce(name, x, dims), dims, keepdim)
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor self, int[1]? dim=[], bool keepdim=False) -> Tensor", rule="keep", once=True, node=f"{name.capitalize()}Backward0",
              layout="contiguous", out=_SAME_DTYPE, refuses="c", kernel=f"{name[1:]}_values_cpu", samples=reduction())(body)


amax = _extreme("amax", "The largest element over `dim`; ties share the gradient evenly.")
amin = _extreme("amin", "The smallest element over `dim`; ties share the gradient evenly.")


def _max_min(name, extreme, arg, pair):
    def body(self, dim=None, keepdim=False, other=None):
        if other is not None:
            dtype = T.promote(self, other)
            return T.prim(pair, T.cast(self, dtype), T.cast(other, dtype))
        if T.is_complex(self.dtype) and dim is None:
            raise NotImplementedError(f"\"{name}_all\" not implemented for '{T.dtype_word(self.dtype)}'")
        if T.is_complex(self.dtype):
            raise RuntimeError(f"{name}(): does not support complex input")
        if dim is None:
            if numel_of(self.shape) == 0:
                raise RuntimeError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
            dims = tuple(range(self.ndim))
            return drop_dims(T.reduce(extreme, self, dims), dims, False)
        d = wrap_dim(dim, self.ndim)
        _need_elements(self, (d,), name)
        if self.ndim == 0:
            return self, T.const(0, "i64")
        where_ = T.argreduce(arg, self, (d,))
        value = T.gather_dim(self, d, where_)
        return drop_dims(value, (d,), keepdim), drop_dims(where_, (d,), keepdim)
    body.__name__ = name
    body.__doc__ = f"The {name}imum: of all elements, along `dim` (with indices), or of two tensors."
    return op([f"{name}(Tensor self) -> Tensor", f"{name}(Tensor self, Tensor other) -> Tensor",       # a 0-dim tensor is no dimension
               f"{name}(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"], rule=None, once=True, layout=lambda given: "pointwise" if "other" in given else "contiguous",
              out=(True, True, OUT_TENSOR_DTYPE), samples=reduction(dim_required=True), node=lambda given: f"{pair.capitalize()}Backward0" if "other" in given else f"{name.capitalize()}Backward{0 if 'dim' in given else 1}")(body)


max = _max_min("max", "amax", "argmax", "maximum")
min = _max_min("min", "amin", "argmin", "minimum")


@op("aminmax(Tensor self, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max)", once=True, rule=None, layout="contiguous", refuses="c",
    kernel="aminmax_cpu", out=OUT_TENSOR_DTYPE, samples=reduction(name="dim"))
def aminmax(x, dim, keepdim):
    """The smallest and the largest element."""
    dims = wrap_dims(dim, x.ndim)
    if dim is None and _empty(x, dims):
        raise RuntimeError("aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity.")
    for d in dims:
        if x.ndim and x.shape[d] == 0:
            raise IndexError(f"aminmax: Expected reduction dim {d} to have non-zero size.")
    return drop_dims(T.reduce("amin", x, dims), dims, keepdim), drop_dims(T.reduce("amax", x, dims), dims, keepdim)


def _arg(name, doc):
    def body(x, dim, keepdim):
        if dim is None:
            if numel_of(x.shape) == 0:
                raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0.")
            dims = tuple(range(x.ndim))
        else:
            dims = (wrap_dim(dim, x.ndim),) if x.ndim else ()
            _need_elements(x, dims, name)
        if not dims:
            return T.expand(T.const(0, "i64"), x.shape)
        return drop_dims(T.argreduce(name, x, dims), dims, keepdim)
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor self, int? dim=None, bool keepdim=False) -> Tensor", rule="index", differentiable=False, layout="contiguous",
              refuses={k: RuntimeError(f"{name}(): does not support {word} input") for k, word in (("b", "bool"), ("c", "complex"))},
              out="Expected out tensor to have dtype long int, but got {out_c} instead", samples=reduction())(body)


argmax = _arg("argmax", "The index of the largest element, the first of equals; NaN counts as largest.")
argmin = _arg("argmin", "The index of the smallest element, the first of equals; NaN counts as smallest.")


def _all_any(name, kind, doc):
    def body(x, dim, keepdim):
        dims = wrap_dims(dim, x.ndim)
        out = drop_dims(T.reduce(kind, truth(x), dims), dims, keepdim)
        return T.cast(out, "u8") if x.dtype == "u8" else out
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor", rule=None, differentiable=False, layout="contiguous",
              out=f"{name} only supports bool tensor for result, got: {{out}}", samples=reduction())(body)


all = _all_any("all", "all", "Whether every element is true; True for none.")
any = _all_any("any", "any", "Whether some element is true; False for none.")


@op("count_nonzero(Tensor self, int[1]? dim=None) -> Tensor", rule=None, differentiable=False, layout="contiguous", samples=reduction(keepdim=False))
def count_nonzero(x, dim):
    """How many elements are not zero."""
    dims = wrap_dims(dim, x.ndim)
    return drop_dims(T.reduce("sum", T.cast(truth(x), "i64"), dims), dims, False)


# -------------------------------------------------------------------------------------------------------- statistics
def _variance(x, dims, correction):
    """The variance, and the mean. Complex: the mean of squared distances, a real number."""
    real = T.real_dtype(x.dtype)
    count = T.size(numel_of(x.shape[d] for d in dims), real)
    centre = T.reduce("sum", x, dims) / count
    off = x - centre
    square = off * off if real == x.dtype else T.prim("real", off * T.conj(off))
    total = T.reduce("sum", square, dims)
    free = count - correction
    zero = T.const(0.0, real)
    return total / T.where(T.prim("lt", free, zero), zero, free), centre


_VAR = ["{0}(Tensor self, bool unbiased) -> {1}", "{0}(Tensor self, int[1]? dim, bool unbiased, bool keepdim=False) -> {1}",
        "{0}(Tensor self, int[1]? dim=None, *, Scalar!? correction=None, bool keepdim=False) -> {1}"]


def _var_rule(self, *_):
    return T.compute_dtype(self.dtype), T.real_dtype(self.dtype)


def _var_mean_rule(self, *_):
    return T.compute_dtype(self.dtype), (T.real_dtype(self.dtype), self.dtype)


LARGE = 2 ** 62             # more elements than a tensor has


def _statistic(name, returns, finish, doc):
    def body(self, dim=None, unbiased=True, keepdim=False, correction=None):
        dims = wrap_dims(dim, self.ndim)
        correction = (1 if unbiased else 0) if correction is None else correction
        if numel_of(self.shape[d] for d in dims) <= (math.floor(correction) if -LARGE < correction < LARGE else LARGE):
            T.warn(f"{name}(): the correction leaves no degrees of freedom (the number of elements, less the correction, is not positive), and the result is no number")
        variance, centre = _variance(self, dims, T.const(correction, T.real_dtype(self.dtype)))
        return finish(drop_dims(variance, dims, keepdim), drop_dims(centre, dims, keepdim))
    body.__name__, body.__doc__ = name, doc
    words = "std and var" if name in ("var", "std") else name
    return op([s.format(name, returns) for s in _VAR], rule=_var_rule if name in ("var", "std") else _var_mean_rule, layout="contiguous",
              node=f"{name.title().replace('_', '')}Backward0", promote=("self",),
              refuses={"bi": RuntimeError(f"{words} only support floating point and complex dtypes")}, samples=reduction())(body)


@op("_safe_sqrt(Tensor self) -> Tensor", rule="float!", on="-")
def _safe_sqrt(x):
    """sqrt whose gradient is 0 at 0, as torch's std and norm have it."""
    return T.prim("sqrt", x)


@_safe_sqrt.gradient("self")
def _(grad, result):
    flat = T.prim("eq", result, T.const(0, result.dtype))
    return T.where(flat, 0, grad / (2 * T.where(flat, 1, result)))


var = _statistic("var", "Tensor", lambda v, m: v, "The variance; `correction` 1 unless told otherwise.")
std = _statistic("std", "Tensor", lambda v, m: _safe_sqrt(v), "The standard deviation; `correction` 1 unless told otherwise.")
var_mean = _statistic("var_mean", "(Tensor, Tensor)", lambda v, m: (v, m), "Variance and mean in one pass over memory.")
std_mean = _statistic("std_mean", "(Tensor, Tensor)", lambda v, m: (_safe_sqrt(v), m), "Standard deviation and mean.")


@op("logsumexp(Tensor self, int[1] dim, bool keepdim=False) -> Tensor", rule="float", node="LogsumexpBackward0", layout="contiguous",
    on="torch Tensor special", samples=reduction(dim_required=True))
def logsumexp(x, dim, keepdim):
    """`log(sum(exp(self)))` without overflow."""
    dims = wrap_dims(dim, x.ndim)
    size = T.prim("real", x)                                    # of a complex number the real part is what may overflow
    top = T.stop(T.reduce("amax", size, dims)) if not _empty(x, dims) else T.const(0, size.dtype)
    top = T.cast(T.where(T.prim("eq", T.prim("abs", top), T.const(math.inf, size.dtype)), 0, top), x.dtype)
    return drop_dims(T.prim("log", T.reduce("sum", T.prim("exp", x - top), dims)) + top, dims, keepdim)


@logsumexp.gradient("self")
def _(grad, self, result, dim, keepdim):
    dims = wrap_dims(dim, self.ndim)
    kept = tuple(1 if i in dims else s for i, s in enumerate(self.shape))
    return T.reshape(grad, kept) * T.prim("exp", self - T.reshape(result, kept))


def _empty(x, dims):
    for d in dims:
        if x.shape[d] == 0:
            return True
    return False


def _power_norm(x, p, dims):
    size = T.prim("abs", x)
    if p == 2:
        return _safe_sqrt(T.reduce("sum", size * size, dims))
    if p == 1:
        return T.reduce("sum", size, dims)
    if p == 0:
        return T.reduce("sum", T.cast(truth(size), size.dtype), dims)
    if p == math.inf:
        return T.reduce("amax", size, dims)
    if p == -math.inf:
        return T.reduce("amin", size, dims)
    return _general_norm(size, dims, p)


@op("_general_norm(Tensor self, int[] dims, float! p) -> Tensor", rule="float!", on="-")
def _general_norm(x, dims, p):
    """`sum(x ** p) ** (1 / p)` for x >= 0, dimensions kept."""
    return T.prim("pow", T.reduce("sum", T.prim("pow", x, T.const(p, x.dtype)), tuple(dims)), T.const(1 / p, x.dtype))


@_general_norm.gradient("self")
def _(grad, self, result, p):
    # x**(p-1) / norm**(p-1); at the zero vector, and at zeros for p < 1, torch gives 0.
    flat = T.prim("eq", result, T.const(0, result.dtype)) | T.prim("eq", self, T.const(0, self.dtype))
    ratio = T.where(flat, 1, self) / T.where(T.prim("eq", result, T.const(0, result.dtype)), 1, result)
    return T.where(flat, 0, grad * T.prim("pow", ratio, T.const(p - 1, self.dtype)))


@op("vector_norm(Tensor self, Scalar! ord=2, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", once=True, unreached=True, rule="norm", on="linalg",
    layout="contiguous", node="LinalgVectorNormBackward0", out=OUT_TENSOR_DTYPE, samples=reduction(name="dim"))
def linalg_vector_norm(x, ord, dim, keepdim, dtype):
    """The `ord`-norm of vectors: (sum of abs(x)**ord) ** (1/ord)."""
    dims = wrap_dims(dim, x.ndim)
    if ord < 0 or ord == math.inf:
        if numel_of(x.shape[d] for d in dims) == 0:
            raise RuntimeError(f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because the operation does not have an identity")
    return drop_dims(_power_norm(x, ord, dims), dims, keepdim)


@op(["norm(Tensor self, str? p='fro', int[1]? dim=None, bool keepdim=False, ScalarType? dtype=None) -> Tensor",
     "norm(Tensor self, Scalar! p, int[1]? dim=None, bool keepdim=False, ScalarType? dtype=None) -> Tensor"], once=True, unreached=True, rule="norm", layout="contiguous",
    node="LinalgVectorNormBackward0", out=OUT_TENSOR_DTYPE, samples=reduction(name="dim"))
def norm(x, p, dim, keepdim, dtype):
    """The p-norm; 'fro' and None are the 2-norm."""
    if p == "nuc":
        from .contraction import matrix_norm
        return matrix_norm(x, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if isinstance(p, str) and p != "fro":
        raise RuntimeError(f"linalg.matrix_norm: Order {p} not supported.")
    dims = wrap_dims(dim, x.ndim)
    return drop_dims(_power_norm(x, 2 if p in ("fro", None) else float(p), dims), dims, keepdim)


# -------------------------------------------------------------------------------------------------------------- scans
@op("cumsum(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", rule="acc", inplace=True, layout="pointwise contiguous", node="CumsumBackward0",
    samples=reduction(dim_required=True, keepdim=False))
def cumsum(x, dim, dtype):
    """The running sum along `dim`."""
    d = wrap_dim(dim, x.ndim)
    return x if x.ndim == 0 else T.scan("sum", x, d)


@op("cumprod(Tensor self, int dim, *, ScalarType? dtype=None) -> Tensor", rule="acc", inplace=True, layout="pointwise contiguous", node="CumprodBackward0",
    samples=reduction(dim_required=True, keepdim=False, high=1.3))
def cumprod(x, dim, dtype=None):
    """The running product along `dim`."""
    d = wrap_dim(dim, x.ndim)
    return x if x.ndim == 0 else T.scan("prod", x, d)


@cumprod.gradient("self")
def _(grad, self, result, dim):
    return _cumprod_backward(grad, self, result, wrap_dim(dim, self.ndim))


@op("_cumprod_backward(Tensor cotangent, Tensor self, Tensor result, int dim) -> Tensor", rule="float", on="-", out=False)
def _cumprod_backward(cotangent, self, result, dim):
    """The gradient of cumprod. Before the first zero: the reverse running sum of cotangent*result, divided by self. The element at the first zero
    gets the sum of the cotangent times the product of the others, later ones nothing."""
    if self.ndim == 0:
        return cotangent
    zero = T.const(0, self.dtype)
    is_zero = T.prim("eq", self, zero)
    zeros_so_far = T.scan("sum", T.cast(is_zero, "i64"), dim)
    clean = T.prim("eq", zeros_so_far, T.const(0, "i64"))
    first = is_zero & T.prim("eq", zeros_so_far, T.const(1, "i64"))
    plain = T.scan("sum", T.where(clean, cotangent * result, zero), dim, reverse=True) / T.where(is_zero, 1, self)
    filled = T.scan("prod", T.where(first, 1, self), dim)
    at_zero = T.scan("sum", T.where(clean, zero, cotangent * filled), dim, reverse=True)
    return T.where(clean, plain, T.where(first, at_zero, zero))


@_cumprod_backward.gradient("self")
def _(grad, cotangent, self, dim):
    # The formula above is right in value, not in slope, at zeros. With one row for each element left out (a 1 in its place) the gradient is a sum of
    # running products of that matrix, and their gradients are this operator's again.
    if self.ndim == 0:
        return None
    n, rank = self.shape[dim], self.ndim + 1
    out, along = T.iota(n, dim, rank), T.iota(n, dim + 1, rank)
    left_out = T.prim("eq", out, along)
    row, column = (lambda x: T.unsqueeze(x, dim)), (lambda x: T.unsqueeze(x, dim + 1))
    others = T.where(left_out, T.const(1, self.dtype), T.expand(row(self), self.shape[:dim] + (n,) + self.shape[dim:]))
    weight = T.where(T.prim("le", out, along), row(cotangent) * column(grad), 0)
    slope = _cumprod_backward(weight, others, cumprod(others, dim + 1), dim + 1)
    return T.squeeze(T.reduce("sum", T.where(left_out, 0, slope), (dim,)), (dim,))


@_cumprod_backward.gradient("result")
def _(grad):
    return None                       # a function of self, whose gradient has it


@op("trace(Tensor self) -> Tensor", rule="acc", layout="contiguous", node="TraceBackward0", out=False, samples=matrices("trace"))
def trace(x):
    """The sum of the diagonal of a matrix."""
    if x.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {x.ndim}: {shape_text(x.shape)}")
    length = x.shape[0] if x.shape[0] <= x.shape[1] else x.shape[1]
    i = T.iota(length, 0, 1)
    return drop_dims(T.reduce("sum", T.load(x, [i, i], shape=(length,)), (0,)), (0,), False)


def _running(name, better, doc):
    """cummax, cummin: the running extreme and where it was last met; NaN stays once met."""
    def body(x, dim):
        d = wrap_dim(dim, x.ndim)
        if x.ndim == 0:
            return x, T.const(0, "i64")
        places = T.scan("arg" + better, x, d)
        # Along rows a scan goes one by one, and reading what it found is cheaper than a second one; across columns both are vectors, and reading is not.
        if d < x.ndim - 1: return T.scan(better, x, d), places
        return T.load(x, [*(T.iota(n, k, x.ndim) for k, n in enumerate(x.shape[:-1])), places], shape=x.shape), places
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor self, int dim) -> (Tensor values, Tensor indices)", rule=None, once=True, layout="contiguous", node=f"{name.capitalize()}Backward0",
              refuses="c", kernel=f"{name}_cpu", out="expected scalar_type {result} but found {out}",
              samples=reduction(dim_required=True, keepdim=False))(body)


cummax = _running("cummax", "max", "The running maximum along `dim`, and its indices.")
cummin = _running("cummin", "min", "The running minimum along `dim`, and its indices.")


@op("nanmean(Tensor self, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor", rule="acc_float", layout="contiguous", node="DivBackward0",
    refuses={"bi": RuntimeError("nanmean(): expected input to have floating point or complex dtype")}, out=_nansum_out, samples=reduction())
def nanmean(x, dim, keepdim, dtype):
    """The mean of what is not NaN."""
    dims = wrap_dims(dim, x.ndim)
    absent = T.prim("ne", x, x)
    count = T.reduce("sum", T.where(absent, T.const(0, x.dtype), T.const(1, x.dtype)), dims)
    return drop_dims(T.reduce("sum", T.where(absent, 0, x), dims) / count, dims, keepdim)


@op("diff(Tensor self, int n=1, int dim=-1, Tensor? prepend=None, Tensor? append=None) -> Tensor", rule=None, node="SubBackward0",
    layout=lambda given: "narrowed" if given["prepend"] is None and given["append"] is None else "contiguous",
    out=lambda given: given["n"] != 0 or "expected scalar_type {result} but found {out}", unreached=True, samples=reduction(keepdim=False, name="dim"))
def diff(self, n, dim, prepend, append):
    """The difference of neighbours along `dim`, `n` times over; `prepend` and `append` are joined on first."""
    if self.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    d = wrap_dim(dim, self.ndim)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    if n == 0:
        return self                                       # without what is joined on
    parts = [p for p in (prepend, self, append) if p is not None]
    for p in parts:
        if p.ndim != self.ndim:
            raise RuntimeError("diff expects prepend or append to be the same dimension as input")
    x = cat(parts, d) if len(parts) > 1 else self
    for _ in range(n):
        size = x.shape[d]
        if size == 0:
            return x
        later, earlier = T.slice(x, d, 1, size, 1), T.slice(x, d, 0, size - 1, 1)
        x = later ^ earlier if x.dtype == "b1" else later - earlier
    return x
