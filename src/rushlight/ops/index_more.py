"""More writes at computed positions (see index.py), joining in chunks, and gradients that torch has as operators."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples_order import copying, counting
from .arrange import combined
from .common import OUT_TENSOR_DTYPE, at_least_1d, broadcast_shapes, hint, numel_of, shape_text, wrap_dim
from .create import _OPTIONS, NOT_CASTABLE
from .index import _INTEGERS, _advanced, _bounded, _column, _equal_apart, _index_vector, grid


@op("index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, *, bool include_self=True) -> Tensor", rule=None, inplace=True, layout="contiguous",
    node="IndexReduceBackward0", out=OUT_TENSOR_DTYPE, separate=True, samples=copying("index_reduce"))
def index_reduce(self, dim, index, source, reduce, include_self):
    """self with the entries of `source` combined into those named by `index` along `dim`: multiplied, averaged, or the largest or smallest taken."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    d, name = wrap_dim(dim, self.ndim), "index_reduce_()"
    if source.dtype != self.dtype:
        raise RuntimeError(f"{name}: self ({T.dtype_word(self.dtype)}) and source ({T.dtype_word(source.dtype)}) must have the same scalar type")
    if index.dtype not in _INTEGERS:
        raise RuntimeError(f"{name}: Expected dtype int32/int64 for index but got: {T.dtype_word(index.dtype)}")
    i = _index_vector(index, f"{name}: Index is supposed to be a vector, but got dim: {index.ndim} with type: {T.dtype_word(index.dtype)} and size: {shape_text(index.shape)}")
    x, src = at_least_1d(self), at_least_1d(source)
    if src.ndim != x.ndim or not _equal_apart(src.shape, x.shape, d):
        raise RuntimeError("source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
                           f"{shape_text(self.shape)} source.shape = {shape_text(source.shape)}")
    if not i.shape[0] == src.shape[d]:
        raise RuntimeError(f"{name}: Number of indices ({hint(i.shape[0])}) should be equal to source.size(dim): ({hint(src.shape[d])}), for dim: {d}")
    if numel_of(src.shape) == 0:
        return self
    at = grid(src.shape, d)
    at[d] = _column(_bounded(i, x.shape[d], d, "IndexError", words="index out of range in self: index {value} along dimension %d of size {size}"), d, x.ndim)
    return T.reshape(combined(x, at, src, reduce, include_self), self.shape)


@op("put(Tensor self, Tensor index, Tensor source, bool accumulate=False) -> Tensor", rule=None, once=True, inplace=True, layout="like", node="PutBackward0", out=False, separate=True,
    samples=copying("put"))
def put(self, index, source, accumulate):
    """self with the elements at `index`, counted as in one row, replaced by those of `source`, or these added to them."""
    if index.dtype != "i64":
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {T.dtype_word(index.dtype)}")
    if source.dtype != self.dtype:
        raise RuntimeError(f"put_(): self and source expected to have the same dtype, but got self.dtype = {T.dtype_word(self.dtype)} and source.dtype = "
                           f"{T.dtype_word(source.dtype)}")
    count = index.numel()
    if not source.numel() == count:
        raise IndexError(f"put_(): Expected source and index to have the same number of elements, but got source.numel() = {hint(source.numel())}, index.numel() = {hint(count)}")
    if count == 0:
        return self
    n = self.numel()
    if n == 0:
        raise IndexError("put_(): Tried to put elements into an empty tensor")
    i = T.check(T.reshape(index, (count,)), -n, n, ("IndexError", "out of range: tried to access index {value} on a tensor of {size} elements."))
    i = T.where(i < 0, i + T.size(n, "i64"), i)
    return T.reshape(T.scatter(T.reshape(self, (n,)), [i], T.reshape(source, (count,)), "add" if accumulate else "set"), self.shape)


# ------------------------------------------------------------------------------------------- what torch's own decompositions use
def _wrapped(x, indices):
    """Advanced indices that count from the end where negative, and stay inside: these operators do not check them."""
    out = []
    for d, i in enumerate(indices):
        if i is None:
            out.append(None)
            continue
        n = T.size(x.shape[d], "i64")
        i = T.cast(i, "i64")
        i = T.where(i < 0, i + n, i)
        out.append(T.prim("maximum", T.prim("minimum", i, n - 1), T.const(0, "i64")))
    return out


@op("_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor", rule=None, layout="contiguous", on="torch", out=False, node="UnsafeMaskedIndexBackward0")
def _unsafe_masked_index(self, mask, indices, fill):
    """`self[indices]` where the mask holds, `fill` elsewhere, where the indices may be anything."""
    at, shape, _, _ = _advanced(self, _wrapped(self, indices))
    value = T.cast(fill, self.dtype)
    if numel_of(self.shape) == 0:
        return T.expand(value, broadcast_shapes(shape, mask.shape))
    return T.where(mask, T.expand(T.load(self, at), shape), value)


@_unsafe_masked_index.gradient("self")
def _(grad, self, mask, indices):
    return _unsafe_masked_index_put_accumulate(T.expand(T.const(0, grad.dtype), self.shape), mask, indices, grad)


@op("_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor", rule=None, layout="contiguous", on="torch", out=False,
    node="UnsafeMaskedIndexPutAccumulateBackward0")
def _unsafe_masked_index_put_accumulate(self, mask, indices, values):
    """self with `values` added at `self[indices]` where the mask holds."""
    if numel_of(self.shape) == 0:
        return self
    at, shape, _, _ = _advanced(self, _wrapped(self, indices))
    return T.scatter(self, at, T.expand(T.where(mask, values, 0), shape), "add")


@op("_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", rule=None, layout="contiguous", on="torch", out=NOT_CASTABLE,
    samples=copying("chunk_cat"))
def _chunk_cat(tensors, dim, num_chunks):
    """Tensors cut into `num_chunks` along `dim`, filled up with zeros and flattened from there on; the k-th chunks side by side."""
    if not tensors:
        raise RuntimeError("_chunk_cat expects a non-empty input tensor list")
    if num_chunks < 1:
        raise RuntimeError("_chunk_cat expects positive num_chunks")
    first = tensors[0]
    for t in tensors:
        if t.dtype != first.dtype:
            raise RuntimeError("_chunk_cat expects input tensors with the same dtype")
        if numel_of(t.shape) == 0:
            raise RuntimeError("_chunk_cat expects non-empty tensor")
    if dim < 0 and any(t.ndim != first.ndim for t in tensors):
        raise RuntimeError("_chunk_cat expects non-negative dim when input tensors have different ndims")
    d = wrap_dim(dim, first.ndim)
    parts = []
    for t in tensors:
        if d >= t.ndim:
            raise RuntimeError("_chunk_cat expects dim < input.ndim")
        for k in range(d):
            if not t.shape[k] == first.shape[k]:
                raise RuntimeError("_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors")
        n = t.shape[d]
        each = (n + num_chunks - 1) // num_chunks
        full = T.pad(t, d, 0, each * num_chunks - n) if not (each * num_chunks == n) else t
        parts.append(T.reshape(full, t.shape[:d] + (num_chunks, each * numel_of(t.shape[d + 1:]))))
    return T.cat(parts, d + 1)


@op("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", rule=None, on="torch", node="NativeDropoutBackwardBackward0")
def native_dropout_backward(grad_output, mask, scale):
    """The gradient of dropout: what was kept, scaled."""
    if mask.dtype != "b1":
        raise RuntimeError(f"Mask should be Bool Scalar Type{T.dtype_word(mask.dtype)}")
    return grad_output * (T.cast(mask, grad_output.dtype) * scale)


@op("_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor", rule="float!", on="torch", promote=("grad_output", "output"),
    layout="contiguous", node="SoftmaxBackwardDataBackward0")
def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of softmax, from its result."""
    d = wrap_dim(dim, grad_output.ndim)
    product = grad_output * output
    return product - output * (T.reduce("sum", product, (d,)) if product.ndim else product)


@op("_log_softmax_backward_data(Tensor grad_output, Tensor output, int dim, ScalarType input_dtype) -> Tensor", rule="float!", on="torch", promote=("grad_output", "output"),
    layout="contiguous", node="LogSoftmaxBackwardDataBackward0")
def _log_softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of log_softmax, from its result."""
    d = wrap_dim(dim, grad_output.ndim)
    return grad_output - T.prim("exp", output) * (T.reduce("sum", grad_output, (d,)) if grad_output.ndim else grad_output)


@op("_unravel_index(Tensor indices, SymInt[] shape) -> Tensor", rule=None, layout="contiguous", on="-", out=False, differentiable=False, samples=counting("unravel"))
def _unravel_index(indices, shape):
    """Places in a row as coordinates in a shape, in a new last dimension."""
    left = T.reshape(indices, (*indices.shape, 1))
    columns = []
    for n in reversed(shape):
        extent = T.cast(T.size(n, "i64"), indices.dtype)
        rest = T.prim("fmod", left, extent)
        columns.append(T.where(rest < 0, rest + extent, rest))
        left = T.prim("idiv", left - columns[-1], extent)
    return T.cat(columns[::-1], indices.ndim)


@op(f"new_empty_strided(Tensor self, SymInt[] size, SymInt[] stride, {_OPTIONS}) -> Tensor", native="new_empty_strided", differentiable=False, on="Tensor", out=False)
def new_empty_strided(self, size, stride, **options):
    """An uninitialised tensor of these sizes and strides, with this one's dtype unless told otherwise."""
