"""The elements of a tensor in another arrangement: tiled, turned, put on diagonals; and a tensor with a part of it replaced."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples import arranging
from .common import OUT_TENSOR_DTYPE, at_least_1d, broadcast_shapes, hint, numel_of, shape_text, wrap_dim
from .create import repeat
from .elementwise import floor_divide_body
from .index import grid, placed_source


@op("tile(Tensor self, SymInt[] dims) -> Tensor", rule=None, layout="contiguous", node="RepeatBackward0", out=False, samples=arranging("tile"))
def tile(x, dims):
    """`repeat` that fills up missing leading counts with 1."""
    return repeat(x, (1,) * max(0, x.ndim - len(dims)) + tuple(dims))


@op(["repeat_interleave(Tensor self, SymInt repeats, int? dim=None, *, SymInt? output_size=None) -> Tensor"], rule=None, layout="contiguous", on="-",
    name="_repeat_each", out=False, samples=arranging("repeat_each"))
def _repeat_each(self, repeats, dim, output_size):
    """Each entry along `dim` (of the flattened tensor without one) `repeats` times in a row."""
    x = T.reshape(self, (self.numel(),)) if dim is None else at_least_1d(self)
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    d = wrap_dim(dim, x.ndim) if dim is not None else 0
    wide = T.expand(T.reshape(x, x.shape[:d + 1] + (1,) + x.shape[d + 1:]), x.shape[:d + 1] + (repeats,) + x.shape[d + 1:])
    return T.reshape(wide, x.shape[:d] + (x.shape[d] * repeats,) + x.shape[d + 1:])


@op("fliplr(Tensor self) -> Tensor", rule=None, layout="like", node="FlipBackward0", out=False, samples=arranging("matrix"))
def fliplr(x):
    """Columns in reverse order."""
    if x.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return T.flip(x, (1,))


@op("flipud(Tensor self) -> Tensor", rule=None, layout="like", node="FlipBackward0", out=False, samples=arranging("matrix"))
def flipud(x):
    """Rows in reverse order."""
    if x.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return T.flip(x, (0,))


# ------------------------------------------------------------------------------------------------------------ diagonals
def _reach(offset):
    return offset if offset >= 0 else -offset


@op("diag_embed(Tensor self, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", rule=None, layout="contiguous", node="DiagEmbedBackward0", out=False,
    samples=arranging("diag_embed"))
def diag_embed(x, offset, dim1, dim2):
    """The last dimension laid on a diagonal of matrices in the two new dimensions; zeros elsewhere."""
    rank = x.ndim + 1
    a, b = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = x.shape[-1] + _reach(offset)
    i, j = T.iota(size, rank - 2, rank), T.iota(size, rank - 1, rank)
    # As [..., row, column] first; the two dimensions move to their places afterwards.
    at = i if offset >= 0 else j
    places = [T.iota(s, k, rank) for k, s in enumerate(x.shape[:-1])] + [at]
    hit = T.prim("eq", j - i, T.const(offset, "i64")) & (at < T.size(x.shape[-1], "i64"))
    shape = tuple(x.shape[:-1]) + (size, size)
    out = T.load(x, places, hit, 0, shape=shape)
    order, rest = [None] * rank, iter(range(rank - 2))
    order[a], order[b] = rank - 2, rank - 1
    return T.permute(out, tuple(next(rest) if o is None else o for o in order))


@op("diag(Tensor self, int diagonal=0) -> Tensor", rule=None, layout="contiguous", node="DiagonalCopyBackward0", out=OUT_TENSOR_DTYPE,
    samples=arranging("diag"))
def diag(x, diagonal):
    """A vector on the diagonal of a matrix, or the diagonal of a matrix as a vector."""
    if x.ndim == 1:
        return diag_embed(x, diagonal)
    if x.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {x.ndim}D")
    rows, columns = (x.shape[0], x.shape[1] - diagonal) if diagonal >= 0 else (x.shape[0] + diagonal, x.shape[1])
    n = rows if rows <= columns else columns
    n = n if n > 0 else 0
    i = T.iota(n, 0, 1)
    return T.load(x, [i, i + diagonal] if diagonal >= 0 else [i - diagonal, i], shape=(n,))


@op("diagflat(Tensor self, int offset=0) -> Tensor", rule=None, layout="contiguous", node="DiagBackward0", out=False, samples=arranging("diagflat"))
def diagflat(x, offset):
    """All elements, in order, on the diagonal of a matrix."""
    return diag_embed(T.reshape(x, (x.numel(),)), offset)


# ---------------------------------------------------------------------------------------------------- a part replaced
def _need_shape(src, shape):
    if src.ndim != len(shape) or any(not a == b for a, b in zip(src.shape, shape)):
        raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = {shape_text(src.shape)}, slice size = {shape_text(shape)}")


@op("select_scatter(Tensor self, Tensor src, int dim, SymInt index) -> Tensor", rule=None, layout="like", node="SelectScatterBackward0", out=OUT_TENSOR_DTYPE,
    samples=arranging("select_scatter"))
def select_scatter(self, src, dim, index):
    """self with one entry along `dim` replaced."""
    if self.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    d = wrap_dim(dim, self.ndim)
    n = self.shape[d]
    if index < -n or index >= n:
        raise IndexError(f"select(): index {hint(index)} out of range for tensor of size {shape_text(self.shape)} at dimension {d}")
    shape = self.shape[:d] + self.shape[d + 1:]
    _need_shape(src, shape)
    row = T.reshape(T.cast(src, self.dtype), self.shape[:d] + (1,) + self.shape[d + 1:])
    place = index + n if index < 0 else index
    return T.where(T.prim("eq", T.iota(n, d, self.ndim), T.size(place, "i64")), row, self)


@op("slice_scatter(Tensor self, Tensor src, int dim=0, SymInt? start=None, SymInt? end=None, SymInt step=1) -> Tensor", rule=None, layout="like",
    node="SliceScatterBackward0", out=OUT_TENSOR_DTYPE, samples=arranging("slice_scatter"))
def slice_scatter(self, src, dim, start, end, step):
    """self with `self[start:end:step]` along `dim` replaced."""
    d = wrap_dim(dim, self.ndim)
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    n = self.shape[d]
    start, end = _bound(0 if start is None else start, n), _bound(n if end is None else end, n)
    length = (end - start + step - 1) // step if end > start else 0
    shape = self.shape[:d] + (length,) + self.shape[d + 1:]
    _need_shape(src, shape)
    if length == 0:
        return self
    at = grid(shape, d)
    at[d] = T.size(start, "i64") + T.iota(length, d, self.ndim) * T.size(step, "i64")
    return T.scatter(self, at, T.cast(src, self.dtype), "set")


def _bound(value, n):
    """A slice's bound, as Python has it."""
    if value < 0:
        value = value + n
        return value if value > 0 else 0
    return value if value < n else n


@op("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor", rule=None, layout="like",
    node="DiagonalScatterBackward0", out=OUT_TENSOR_DTYPE, samples=arranging("diagonal_scatter"))
def diagonal_scatter(self, src, offset, dim1, dim2):
    """self with a diagonal replaced."""
    a, b = wrap_dim(dim1, self.ndim), wrap_dim(dim2, self.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    rows, columns = (self.shape[a], self.shape[b] - offset) if offset >= 0 else (self.shape[a] + offset, self.shape[b])
    n = rows if rows <= columns else columns
    n = n if n > 0 else 0
    rest = [d for d in range(self.ndim) if d not in (a, b)]
    shape = tuple(self.shape[d] for d in rest) + (n,)
    _need_shape(src, shape)
    rank, at = len(shape), [None] * self.ndim
    for k, d in enumerate(rest):
        at[d] = T.iota(self.shape[d], k, rank)
    i = T.iota(n, rank - 1, rank)
    at[a], at[b] = (i, i + offset) if offset >= 0 else (i - offset, i)
    return T.scatter(self, at, T.cast(src, self.dtype), "set")


@op("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor", rule=None, inplace=True, layout="contiguous", node="MaskedScatterBackward0", out=False,
    samples=arranging("masked_scatter"))
def masked_scatter(self, mask, source):
    """self with the elements where the mask holds replaced by those of `source`, in order."""
    if mask.dtype != "b1":
        raise RuntimeError(f"masked_scatter_ only supports boolean masks, but got mask with dtype {T.dtype_word(mask.dtype)}")
    if source.dtype != self.dtype:
        raise RuntimeError(f"masked_scatter: expected self and source to have same dtypes but got {T.dtype_word(self.dtype)} and {T.dtype_word(source.dtype)}")
    shape = broadcast_shapes(self.shape, mask.shape)
    whole = (numel_of(shape),)
    flat = T.reshape(T.expand(mask, shape), whole)
    rank = T.scan("sum", T.cast(flat, "i64"), 0) - 1                       # the how-manieth true element each one is
    values = T.reshape(source, (source.numel(),))
    rank = T.check(T.where(flat, rank, 0), 0, source.numel(), ("RuntimeError", "masked_scatter: expected self and source to have more elements in source than "
                                                               "ones in the mask; there is no element {value} in source"))
    return T.where(T.expand(mask, shape), T.reshape(T.load(values, [rank], shape=whole), shape), T.expand(self, shape))


_COMBINE = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}
_INTEGER_LIMITS = {"u8": (0, 255), "i8": (-128, 127), "i16": (-2 ** 15, 2 ** 15 - 1), "i32": (-2 ** 31, 2 ** 31 - 1), "i64": (-2 ** 63, 2 ** 63 - 1), "b1": (0, 1)}


def _identity(reduce, dtype):
    """What changes nothing when combined."""
    if reduce in ("sum", "mean", "prod"):
        return 1 if reduce == "prod" else 0
    low, high = (-math.inf, math.inf) if T.is_float(dtype) else _INTEGER_LIMITS[dtype]
    return low if reduce == "amax" else high


@op("scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, *, bool include_self=True) -> Tensor", rule=None, inplace=True,
    layout="contiguous", node="ScatterReduceBackward0", out=OUT_TENSOR_DTYPE, separate=True, samples=arranging("scatter_reduce"))
def scatter_reduce(self, dim, index, src, reduce, include_self):
    """self with `src` combined at `index` along `dim`: summed, multiplied, averaged, or the largest or smallest taken."""
    if reduce not in _COMBINE:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}.")
    if src.dtype != self.dtype:
        raise RuntimeError("scatter(): Expected self.dtype to be equal to src.dtype")
    placed = placed_source(self, dim, index, src, "scatter_reduce")
    if placed is None:
        return self
    x, at, src = placed
    return T.reshape(combined(x, at, src, reduce, include_self), self.shape)


def combined(x, at, src, reduce, include_self):
    """x with the elements of `src` combined at `at`, from what is there or from nothing."""
    count = T.scatter(T.expand(T.const(0, "i64"), x.shape), at, T.expand(T.const(1, "i64"), src.shape), "add") if not include_self or reduce == "mean" else None
    base = x if include_self else T.where(count > 0, T.const(_identity(reduce, x.dtype), x.dtype), x)
    out = T.scatter(base, at, src, _COMBINE[reduce])
    if reduce == "mean":
        parts = count + 1 if include_self else T.where(count > 0, count, T.const(1, "i64"))
        parts = T.cast(parts, out.dtype)
        out = out / parts if T.is_float(out.dtype) or T.is_complex(out.dtype) else floor_divide_body(out, parts)
    return out
