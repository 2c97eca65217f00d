"""Reading and writing at computed positions: gather, scatter, advanced indexing, embedding.

Indices are checked before anything is written. Which operators wrap negative indices follows torch.
"""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import indexing
from .common import OUT_TENSOR_DTYPE, at_least_1d, broadcast_shapes, hint, shape_text, wrap_dim

_OUT_OF_SELF = "index out of range in self"
_OUT_OF_BOUNDS = "index {value} is out of bounds for dimension %d with size {size}"
_INTEGERS = ("i64", "i32")


def _bounded(index, size, dim, exception="RuntimeError", wrap=False, words=_OUT_OF_BOUNDS):
    """Indices along one dimension, checked; negative ones counted from the end if the operator does so."""
    n = T.size(size, "i64")
    index = T.check(index, -size if wrap else 0, size, (exception, words % dim))
    return T.where(index < 0, index + n, index) if wrap else index


def grid(shape, skip=None):
    """One index per dimension of an output of this shape."""
    return [None if d == skip else T.iota(n, d, len(shape)) for d, n in enumerate(shape)]


def _is_empty(x):
    for s in x.shape:
        if s == 0:
            return True
    return False


def _gather_index(index, name):
    """An index tensor of gather and scatter as int64; an empty one may have any dtype."""
    if index.dtype not in _INTEGERS and not _is_empty(index):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index")
    return at_least_1d(T.cast(index, "i64"))


@op("gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", rule=None, once=True, layout="contiguous", node="GatherBackward0",
    out=OUT_TENSOR_DTYPE, separate=True, samples=indexing("gather"))
def gather(self, dim, index, sparse_grad):
    """`out[i][j] = self[index[i][j]][j]` for dim 0, and alike for others. The index may be smaller than self in other dimensions."""
    d = wrap_dim(dim, self.ndim)
    i, x = _gather_index(index, "gather"), at_least_1d(self)
    if _is_empty(i):
        return T.reshape(T.expand(T.const(0, self.dtype), i.shape), index.shape)
    if i.ndim != x.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as input tensor")
    for k in range(i.ndim):
        if k != d and i.shape[k] > x.shape[k]:
            raise RuntimeError(f"Size does not match at dimension {k} expected index {shape_text(i.shape)} to be no larger than self "
                               f"{shape_text(x.shape)} apart from dimension {d}")
    at = grid(i.shape, d)
    at[d] = _bounded(i, x.shape[d], d)
    return T.reshape(T.load(x, at), index.shape)


def placed_source(self, dim, index, src, name):
    """(self with at least one dimension, where each source element goes, the part of src that the index covers), or None for an empty index."""
    d = wrap_dim(dim, self.ndim)
    x, i = at_least_1d(self), _gather_index(index, name)
    if _is_empty(i):
        return None
    if i.ndim != x.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as self tensor")
    number = T.scalar_kind(src) is not None
    if not number and at_least_1d(src).ndim != i.ndim:
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    src = T.expand(src, i.shape) if number else at_least_1d(src)
    for k in range(i.ndim):
        if i.shape[k] > src.shape[k] or k != d and i.shape[k] > x.shape[k]:
            also = "" if number else f" and to be no larger size than src {shape_text(src.shape)}"
            raise RuntimeError(f"Expected index {shape_text(i.shape)} to be no larger than self {shape_text(x.shape)} apart from dimension {d}{also}")
    for k in range(i.ndim):
        src = T.slice(src, k, 0, i.shape[k], 1)
    at = grid(i.shape, d)
    at[d] = _bounded(i, x.shape[d], d)
    return x, at, src


def _scatter(self, dim, index, src, combine, name):
    placed = placed_source(self, dim, index, src, name)
    if placed is None:
        return self
    x, at, src = placed
    return T.reshape(T.scatter(x, at, src, combine), self.shape)


def _same_dtype(self, src, name):
    if src.dtype != self.dtype:
        raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")


_REDUCE = {"add": "add", "multiply": "mul"}


@op(["scatter(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", "scatter(Tensor self, int dim, Tensor index, Scalar value) -> Tensor",
     "scatter(Tensor self, int dim, Tensor index, Tensor src, *, str reduce) -> Tensor",
     "scatter(Tensor self, int dim, Tensor index, Scalar value, *, str reduce) -> Tensor"],
    rule=None, inplace=True, layout="contiguous", node=lambda given: f"ScatterBackward{int('value' in given)}", out=OUT_TENSOR_DTYPE, separate=True, samples=indexing("scatter"))
def scatter(self, dim, index, src=None, value=None, reduce=None):
    """self with `src` (or one value) written at `index` along `dim`; of several writes to one place the last stays."""
    if src is None:
        src = T.cast(value, self.dtype)
    else:
        _same_dtype(self, src, "scatter")
        if reduce is not None: T.warn("scatter() with reduce= and a tensor is deprecated: scatter_reduce() does it, and knows more reductions", once=True)
    if reduce is not None and reduce not in _REDUCE:
        raise RuntimeError("reduce argument must be either add or multiply.")
    return _scatter(self, dim, index, src, _REDUCE[reduce] if reduce else "set", "scatter")


@op("scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor", rule=None, inplace=True, layout="contiguous",
    node="ScatterAddBackward0", out=OUT_TENSOR_DTYPE, separate=True, samples=indexing("scatter_add"))
def scatter_add(self, dim, index, src):
    """self with `src` added at `index` along `dim`, in the order of the index."""
    _same_dtype(self, src, "scatter")
    return _scatter(self, dim, index, src, "add", "scatter")


def _column(index, dim, rank):
    """A vector of indices laid along one of `rank` dimensions."""
    return T.reshape(index, tuple(index.shape[0] if k == dim else 1 for k in range(rank)))


@op("index_select(Tensor self, int dim, Tensor index) -> Tensor", rule=None, layout="contiguous", node="IndexSelectBackward0",
    out="index_select(): self and result must have the same scalar type", separate=True, samples=indexing("index_select"))
def index_select(self, dim, index):
    """The entries of self along `dim` named by a vector of indices."""
    d = wrap_dim(dim, self.ndim)
    if index.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    if index.dtype not in _INTEGERS:
        raise RuntimeError(f"index_select(): Expected dtype int32 or int64 for index, but got {T.dtype_word(index.dtype)}")
    i, x = at_least_1d(T.cast(index, "i64")), at_least_1d(self)
    if self.ndim == 0 and not i.shape[0] == 1:
        raise RuntimeError(f"index_select(): Index to scalar can have only 1 value, got {hint(i.shape[0])} value(s)")
    at = grid(x.shape[:d] + (i.shape[0],) + x.shape[d + 1:], d)
    at[d] = _column(_bounded(i, x.shape[d], d, "IndexError", words=_OUT_OF_SELF + ": index {value} along dimension %d of size {size}"), d, x.ndim)
    return T.reshape(T.load(x, at), self.shape) if self.ndim == 0 else T.load(x, at)


def _index_vector(index, words, exception=IndexError):
    """A vector of indices; a 0-dim tensor is one index."""
    if index.ndim > 1:
        raise exception(words)
    return at_least_1d(T.cast(index, "i64"))


@op("index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor", rule=None, inplace=True, layout="contiguous",
    node="IndexAddBackward0", out=OUT_TENSOR_DTYPE, separate=True, samples=indexing("index_add"))
def index_add(self, dim, index, source, alpha):
    """self with `alpha * source` added to the entries named by `index` along `dim`."""
    d = wrap_dim(dim, self.ndim)
    if source.dtype != self.dtype:
        raise RuntimeError(f"index_add_(): self ({T.dtype_word(self.dtype)}) and source ({T.dtype_word(source.dtype)}) must have the same scalar type")
    if index.dtype not in _INTEGERS:
        raise RuntimeError(f"index_add_(): Expected dtype int32/int64 for index but got: {T.dtype_word(index.dtype)}")
    i = _index_vector(index, f"index_add_(): Index is supposed to be a vector, but got dim: {index.ndim} with type: {T.dtype_word(index.dtype)} "
                             f"and size: {shape_text(index.shape)}")
    x, src = at_least_1d(self), at_least_1d(source)
    if src.ndim != x.ndim or not _equal_apart(src.shape, x.shape, d):
        raise RuntimeError("source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
                           f"{shape_text(self.shape)} source.shape = {shape_text(source.shape)}")
    if not i.shape[0] == src.shape[d]:
        raise RuntimeError(f"index_add_(): Number of indices ({hint(i.shape[0])}) should be equal to source.size(dim): ({hint(src.shape[d])}), for dim: {d}")
    at = grid(src.shape, d)
    at[d] = _column(_bounded(i, x.shape[d], d), d, x.ndim)
    return T.reshape(T.scatter(x, at, src * T.cast(alpha, src.dtype), "add"), self.shape)


def _equal_apart(a, b, dim):
    for k, (x, y) in enumerate(zip(a, b)):
        if k != dim and not x == y:
            return False
    return True


@op("index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor", rule=None, inplace=True, layout="contiguous", node="IndexCopyBackward0",
    out=OUT_TENSOR_DTYPE, separate=True, samples=indexing("index_copy"))
def index_copy(self, dim, index, source):
    """self with the entries named by `index` along `dim` replaced by those of `source`."""
    d = wrap_dim(dim, self.ndim)
    i = _index_vector(index, f"index_copy_(): Index should have dimension 1 or 0 (got {index.ndim})")
    x, src = at_least_1d(self), at_least_1d(source)
    if self.ndim and source.ndim and self.ndim != source.ndim:
        raise IndexError("index_copy_(): When source and destination are not scalars, their dimensionality must match. "
                         f"Source dimensionality ({source.ndim}), destination dimensionality ({self.ndim})")
    if source.ndim == 0 and not i.shape[0] == 1:
        raise IndexError(f"index_copy_(): When source is scalar, index should have one element (got {hint(i.shape[0])})")
    if index.dtype != "i64":
        raise RuntimeError(f"index_copy_(): Expected a long tensor for index, but got {T.dtype_word(index.dtype)}")
    if source.dtype != self.dtype:
        raise RuntimeError(f"index_copy_(): self and source expected to have the same dtype, but got (self) {T.dtype_word(self.dtype)} and (source) "
                           f"{T.dtype_word(source.dtype)}")
    if src.ndim == x.ndim and not _equal_apart(src.shape, x.shape, d) and source.ndim:
        cut = lambda shape: shape_text(shape[:d] + shape[d + 1:])
        raise RuntimeError(f"index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {cut(x.shape)} at dimension "
                           f"{d} and source slice shape: {cut(src.shape)} at dimension 0.")
    if source.ndim and not i.shape[0] == src.shape[d]:
        raise IndexError(f"index_copy_(): Number of indices ({hint(i.shape[0])}) should be equal to source.size(dim) ({hint(src.shape[d])})")
    at = grid(x.shape[:d] + (i.shape[0],) + x.shape[d + 1:], d)
    at[d] = _column(_bounded(i, x.shape[d], d, "IndexError", words="index_copy_(): " + _OUT_OF_BOUNDS), d, x.ndim)
    return T.reshape(T.scatter(x, at, T.expand(src, x.shape[:d] + (i.shape[0],) + x.shape[d + 1:]), "set"), self.shape)


@op(["index_fill(Tensor self, int dim, Tensor index, Scalar value) -> Tensor", "index_fill(Tensor self, int dim, Tensor index, Tensor value) -> Tensor"],
    rule=None, inplace=True, layout="like", node="IndexFillBackward0", out=False, separate=True, samples=indexing("index_fill"))
def index_fill(self, dim, index, value):
    """self with the entries named by `index` along `dim` set to one value."""
    d = wrap_dim(dim, self.ndim)
    if index.dtype != "i64":
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if value.ndim:
        raise RuntimeError(f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with {value.ndim} dimension(s).")
    if T.is_complex(value.dtype) and not T.is_complex(self.dtype):
        raise RuntimeError("index_fill_(): Converting complex Scalar to non-complex type is not supported")
    i, x = _index_vector(index, "Index has to be a vector/scalar", RuntimeError), at_least_1d(self)
    at = grid(x.shape[:d] + (i.shape[0],) + x.shape[d + 1:], d)
    at[d] = _column(_bounded(i, x.shape[d], d, "IndexError", wrap=True), d, x.ndim)
    fill = T.expand(T.cast(value, self.dtype), x.shape[:d] + (i.shape[0],) + x.shape[d + 1:])
    return T.reshape(T.scatter(x, at, fill, "set"), self.shape)


def _filled_entries(self, dim, index):
    """Where index_fill wrote, in self's shape."""
    d, x, i = wrap_dim(dim, self.ndim), at_least_1d(self), at_least_1d(T.cast(index, "i64"))
    i = T.where(i < 0, i + T.size(x.shape[d], "i64"), i)
    hit = T.scatter(T.expand(T.const(False, "b1"), (x.shape[d],)), [i], T.const(True, "b1"), "set")
    return _column(hit, d, x.ndim) if self.ndim else T.reshape(hit, ())


@index_fill.gradient("self")
def _(grad, self, dim, index):
    return T.where(_filled_entries(self, dim, index), 0, grad)


@index_fill.gradient("value")
def _(grad, self, dim, index):
    return T.reduce_all("sum", T.where(_filled_entries(self, dim, index), grad, 0))


# ---------------------------------------------------------------------------------- how many depends on the values: in C++
@op("_nonzero(Tensor self) -> Tensor", native="nonzero", on="-", out=False, differentiable=False)
def _nonzero(self):
    """The positions of elements that are not zero, a row each."""


@op("masked_select(Tensor self, Tensor mask) -> Tensor", native="masked_select", out="masked_select(): self and result must have the same scalar type",
    separate=True, node="MaskedSelectBackward0")
def masked_select(self, mask):
    """The elements where the mask holds, in a row; the mask and the tensor broadcast."""


# ------------------------------------------------------------------------------------------------- advanced indexing
def _advanced(x, indices):
    """Where each dimension of x reads from, and the shape of the result. Separated index tensors move to the front."""
    if len(indices) > x.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim} (got {len(indices)})")
    indices = list(indices) + [None] * (x.ndim - len(indices))
    used = [d for d, i in enumerate(indices) if i is not None]
    if not used:
        return None, tuple(x.shape), 0, 0
    try:
        common = broadcast_shapes(*[indices[d].shape for d in used])
    except RuntimeError:
        shapes = ", ".join(shape_text(indices[d].shape) for d in used)
        raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together with shapes {shapes}") from None
    together = used == list(range(used[0], used[0] + len(used)))
    front = used[0] if together else 0
    rest = [d for d in range(x.ndim) if indices[d] is None]
    before = [d for d in rest if d < used[0]] if together else []
    after = [d for d in rest if d not in before]
    shape = tuple(x.shape[d] for d in before) + tuple(common) + tuple(x.shape[d] for d in after)
    rank, at = len(shape), [None] * x.ndim
    for k, d in enumerate(before):
        at[d] = T.iota(x.shape[d], k, rank)
    for k, d in enumerate(after):
        at[d] = T.iota(x.shape[d], front + len(common) + k, rank)
    for d in used:
        if indices[d].dtype not in _INTEGERS:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        i = T.cast(indices[d], "i64")
        i = _bounded(i, x.shape[d], d, "IndexError", wrap=True)
        at[d] = T.reshape(i, (1,) * (len(common) - i.ndim + front) + tuple(i.shape) + (1,) * (rank - front - len(common)))
    return at, shape, front, len(common)


@op("index(Tensor self, Tensor?[] indices) -> Tensor", rule=None, layout="contiguous", on="-", node="IndexBackward0", samples=indexing("index"))
def index(self, indices):
    """`self[i, j, ...]` with index tensors; None stands for a whole dimension."""
    at, shape, _, _ = _advanced(self, indices)
    if at is None:
        return self
    return T.expand(T.load(self, at), shape)


@op("_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", rule=None, inplace=True, layout="like",
    on="-", out=False, node="IndexPutBackward0", samples=indexing("index_put"))
def _index_put(self, indices, values, accumulate):
    """self with `values` written, or added, at `self[i, j, ...]`; masks have become positions (`functions.index_put`)."""
    if values.dtype != self.dtype:
        raise RuntimeError(f"Index put requires the source and destination dtypes match, got {T.dtype_word(self.dtype)} for the destination and "
                           f"{T.dtype_word(values.dtype)} for the source.")
    at, shape, _, _ = _advanced(self, indices)
    if values.ndim > len(shape) or not _spreads(values.shape, shape):
        raise RuntimeError(f"shape mismatch: value tensor of shape {shape_text(values.shape)} cannot be broadcast to indexing result of shape {shape_text(shape)}")
    if at is None:                                       # no index: everything
        return self + values if accumulate else T.expand(values, shape)
    return T.scatter(self, at, T.expand(values, shape), "add" if accumulate else "set")


def _spreads(small, large):
    for k in range(1, len(small) + 1):
        if not (small[-k] == 1 or small[-k] == large[-k]):
            return False
    return True


@op("take(Tensor self, Tensor index) -> Tensor", rule=None, layout="contiguous", node="TakeBackward0", separate=True,
    out="take(): self and out expected to have the same dtype, but got self.dtype = {result} and out.dtype = {out}", samples=indexing("take"))
def take(self, index):
    """Elements of self, seen as one row, at `index`."""
    if index.dtype != "i64":
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {T.dtype_word(index.dtype)}")
    if _is_empty(self) and not _is_empty(index):
        raise IndexError("take(): tried to take from an empty tensor")
    flat = T.reshape(self, (self.numel(),))
    n = flat.shape[0]
    i = T.check(T.cast(index, "i64"), -n, n, ("IndexError", "out of range: tried to access index {value} on a tensor of {size} elements."))
    return T.load(flat, [T.where(i < 0, i + T.size(n, "i64"), i)])


@op("take_along_dim(Tensor self, Tensor indices, int? dim=None) -> Tensor", rule=None, layout="contiguous",
    node="GatherBackward0", out=OUT_TENSOR_DTYPE, samples=indexing("take_along"))
def take_along_dim(self, indices, dim):
    """`gather` that broadcasts; along a dimension indices wrap around, as torch's do."""
    if indices.dtype != "i64":
        raise RuntimeError(f"torch.take_along_dim(): dtype of indices should be Long but got {T.dtype_word(indices.dtype)}")
    if dim is None:
        return gather(T.reshape(self, (self.numel(),)), 0, T.reshape(indices, (indices.numel(),)))
    d = wrap_dim(dim, self.ndim)
    if self.ndim != indices.ndim:
        raise RuntimeError(f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {self.ndim} dimensions for input, "
                           f"and {indices.ndim} dimensions for indices")
    others = broadcast_shapes(self.shape[:d] + (1,) + self.shape[d + 1:], indices.shape[:d] + (1,) + indices.shape[d + 1:])
    shape = others[:d] + (indices.shape[d],) + others[d + 1:]
    at = grid(shape, d)
    for k in range(self.ndim):
        if k != d and self.shape[k] == 1:
            at[k] = T.const(0, "i64")
    n = T.size(self.shape[d], "i64")
    left = T.prim("fmod", indices, n)
    at[d] = T.where(left < 0, left + n, left)
    return T.expand(T.load(self, at), shape)


# -------------------------------------------------------------------------------------------------------- embedding
_TYPE_WORD = {"f32": "torch.FloatTensor", "f64": "torch.DoubleTensor", "i16": "torch.ShortTensor", "i8": "torch.CharTensor", "u8": "torch.ByteTensor",
              "b1": "torch.BoolTensor", "f16": "torch.HalfTensor", "bf16": "torch.BFloat16Tensor"}


@op("_embedding(Tensor weight, Tensor input, SymInt padding_idx=-1) -> Tensor", rule=None, layout="contiguous", on="-", node="EmbeddingBackward0",
    samples=indexing("embedding"))
def _embedding(weight, input, padding_idx):
    """Rows of a table. The row `padding_idx` gets no gradient."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    if input.dtype not in _INTEGERS:
        raise RuntimeError("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
                           f"{_TYPE_WORD.get(input.dtype, T.dtype_word(input.dtype))} instead (while checking arguments for embedding)")
    i = T.cast(input, "i64")
    i = T.check(i, 0, weight.shape[0], ("IndexError", f"{_OUT_OF_SELF}: index {{value}} in a table of {{size}} rows"))
    i = T.reshape(i, tuple(input.shape) + (1,))
    return T.load(weight, [i, T.iota(weight.shape[1], input.ndim, input.ndim + 1)])


@_embedding.gradient("weight")
def _(grad, weight, input, padding_idx):
    i = T.reshape(T.cast(input, "i64"), tuple(input.shape) + (1,))
    kept = T.where(T.prim("eq", i, T.size(padding_idx, "i64")), 0, grad)
    zeros = T.expand(T.const(0, grad.dtype), weight.shape)
    return T.scatter(zeros, [i, T.iota(weight.shape[1], input.ndim, input.ndim + 1)], kept, "add")


# ----------------------------------------------------------- gradients of views, which the tape calls by name
def _zeros(size, dtype):
    return T.expand(T.const(0, dtype), tuple(size))


@op("view_backward_expand(Tensor grad, SymInt[] size) -> Tensor", rule=None, layout="contiguous", on="-")
def view_backward_expand(grad, size):
    """The gradient of expand: sums over the dimensions that were spread."""
    lead = grad.ndim - len(size)
    dims = tuple(range(lead)) + tuple(lead + k for k, s in enumerate(size) if s == 1 and not grad.shape[lead + k] == 1)
    return T.reshape(T.reduce("sum", grad, dims), tuple(size)) if dims else grad


@op("slice_backward(Tensor grad, SymInt[] size, int dim, SymInt start, SymInt step) -> Tensor", rule=None, layout="contiguous", on="-")
def slice_backward(grad, size, dim, start, step):
    """Zeros with the gradient in the place of the slice."""
    at = grid(grad.shape)
    at[dim] = T.size(start, "i64") + at[dim] * T.size(step, "i64")
    return T.scatter(_zeros(size, grad.dtype), at, grad, "set")


@op("select_backward(Tensor grad, SymInt[] size, int dim, SymInt index) -> Tensor", rule=None, layout="contiguous", on="-")
def select_backward(grad, size, dim, index):
    """Zeros with the gradient in the place of the selected entry."""
    row = T.reshape(grad, grad.shape[:dim] + (1,) + grad.shape[dim:])
    hit = T.prim("eq", T.iota(size[dim], dim, len(size)), T.size(index, "i64"))
    return T.where(hit, row, 0)


@op("diagonal_backward(Tensor grad, SymInt[] size, SymInt offset, int dim1, int dim2) -> Tensor", rule=None, layout="contiguous", on="-")
def diagonal_backward(grad, size, offset, dim1, dim2):
    """Zeros with the gradient on the diagonal."""
    rank, n = len(size), grad.ndim
    at, k = [None] * rank, 0
    for d in range(rank):
        if d not in (dim1, dim2):
            at[d] = T.iota(size[d], k, n)
            k += 1
    i = T.iota(grad.shape[-1], n - 1, n)
    if offset >= 0:
        at[dim1], at[dim2] = i, i + T.size(offset, "i64")
    else:
        at[dim1], at[dim2] = i - T.size(offset, "i64"), i
    return T.scatter(_zeros(size, grad.dtype), at, grad, "set")


@op("unfold_backward(Tensor grad, SymInt[] size, int dim, SymInt window, SymInt step) -> Tensor", rule=None, layout="contiguous", on="-")
def unfold_backward(grad, size, dim, window, step):
    """Overlapping windows added back where they came from."""
    if not size:                                      # a 0-dim tensor unfolds into windows of one element
        return T.reshape(T.reduce("sum", grad, (0,)), ())
    n = grad.ndim
    at = [T.iota(size[d], d, n) for d in range(len(size))]
    at[dim] = T.iota(grad.shape[dim], dim, n) * T.size(step, "i64") + T.iota(window, n - 1, n)
    return T.scatter(_zeros(size, grad.dtype), at, grad, "add")


@op("as_strided_backward(Tensor grad, SymInt[] base_size, SymInt[] base_stride, SymInt base_offset, SymInt[] size, SymInt[] stride, SymInt offset) -> Tensor",
    rule=None, layout="contiguous", on="-")
def as_strided_backward(grad, base_size, base_stride, base_offset, size, stride, offset):
    """The gradient added up in a stretch of memory that covers both views, then read in the base's way.

    Memory that the base itself reaches several times is divided by how often, as torch does.
    """
    low = base_offset if base_offset < offset else offset
    extent = 1
    for sizes, strides, start in ((base_size, base_stride, base_offset), (size, stride, offset)):
        reach = start - low + 1
        for s, t in zip(sizes, strides):
            reach = reach + (s - 1) * t
        extent = reach if reach > extent else extent
    memory = T.scatter(_zeros((extent,), grad.dtype), [_address(size, stride, offset - low)], grad, "add")
    where_base = _address(base_size, base_stride, base_offset - low)
    real = T.real_dtype(grad.dtype)
    ones = T.expand(T.const(1, real), tuple(base_size))
    counts = T.scatter(_zeros((extent,), real), [where_base], ones, "add")
    return T.expand(T.load(memory / T.cast(T.prim("maximum", counts, T.const(1, real)), grad.dtype), [where_base]), tuple(base_size))


def _address(size, stride, offset):
    out = T.size(offset, "i64")
    for d, (n, s) in enumerate(zip(size, stride)):
        out = out + T.iota(n, d, len(size)) * T.size(s, "i64")
    return out
