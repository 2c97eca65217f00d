"""Other orders of dimensions, parts, and several tensors as one."""
from __future__ import annotations

import rushlight as rl

from .. import _C
from ..autograd.function import Function
from ..ops.common import wrap_dim
from .convert import coalesce, to_coo
from .dispatch import handles
from .pattern import COO, CSC, CSR, WORDS, Pattern
from .tensor import assemble, is_sparse, named, refuse, values_of


@handles("permute")
def permute(input, *dims, **by_name):
    dims = dims or (by_name["dims"],)
    dims = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if len(dims) != input.dim():
        raise RuntimeError("permute(sparse_coo): number of dimensions in the tensor input does not match the length of the desired ordering of dimensions i.e. "
                           f"input.dim() = {input.dim()} is not equal to len(dims) = {len(dims)}")
    dims = tuple(wrap_dim(d, input.dim()) for d in dims)
    if len(set(dims)) != len(dims): raise RuntimeError("permute(): duplicate dims are not allowed.")
    if input.requires_grad: return _Permuted.apply(input, dims)
    if dims == tuple(range(input.dim())): return assemble(input._pattern, values_of(input))
    if input.layout is not COO:
        if input.dim() != 2: refuse("permute", input)
        return _turned(input)
    n = input._pattern.sparse_dim
    if any(d >= n for d in dims[:n]):
        raise RuntimeError(f"permute(sparse_coo): only sparse dimensions can be permuted with sparse ones, and the dense ones with dense ones: {dims}, sparse_dim {n}")
    values = values_of(input)
    if dims[n:] != tuple(range(n, input.dim())): values = values.permute(0, *(d - n + 1 for d in dims[n:]))
    places = input._pattern.places().index_select(0, rl.tensor(dims[:n], dtype=rl.int64))
    return assemble(Pattern(COO, [input.shape[d] for d in dims], (places,), coalesced=False), values)


@named("PermuteBackward0")
class _Permuted(Function):
    """The dimensions in another order: of any gradient, a dense one too, in the order they had."""

    @staticmethod
    def forward(ctx, s, dims):
        ctx.set_materialize_grads(False)
        ctx.dims = dims
        return permute(s.detach(), dims)

    @staticmethod
    def backward(ctx, grad): return None if grad is None else grad.permute(*(ctx.dims.index(d) for d in range(len(ctx.dims)))), None


def _turned(s):
    """CSR read as CSC, and the other way round: the transposed matrix, nothing moved."""
    pattern = s._pattern
    return assemble(Pattern(CSC if s.layout is CSR else CSR, (pattern.size[1], pattern.size[0]), pattern.indices), values_of(s))


@handles("transpose", "swapaxes", "swapdims")
def transpose(input, dim0, dim1):
    a, b = wrap_dim(dim0, input.dim()), wrap_dim(dim1, input.dim())
    n = input._pattern.sparse_dim
    if a != b and (a >= n or b >= n):
        raise RuntimeError(f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {n}, d0: {a}, d1: {b}")
    dims = list(range(input.dim()))
    dims[a], dims[b] = dims[b], dims[a]
    return permute(input, dims)


@handles("t")
def t(input):
    n, dense = input._pattern.sparse_dim, input._pattern.dense_dim
    if n > 2 or dense:
        raise RuntimeError(f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {n} sparse and {dense} dense dimensions")
    return permute(input, (1, 0)) if n == 2 else input


handles("adjoint")(lambda input: input.mH)


@handles("movedim", "moveaxis")
def movedim(input, source, destination):
    n = input.dim()
    source, destination = ([wrap_dim(d, n) for d in ((dims,) if isinstance(dims, int) else dims)] for dims in (source, destination))
    if len(source) != len(destination) or len(set(source)) != len(source) or len(set(destination)) != len(destination):
        raise RuntimeError(f"movedim: Invalid source or destination dims: source ({source} dims) should contain the same number of dims as destination ({destination} dims), each once")
    moved, rest = dict(zip(destination, source)), iter([d for d in range(n) if d not in source])
    return permute(input, [moved[d] if d in moved else next(rest) for d in range(n)])


@handles("expand", "broadcast_to")
def expand(input, *size, implicit=False):
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    if size != tuple(input.shape): raise RuntimeError(f"expand is unsupported for {WORDS[input.layout]} tensors: expand() of layout {input.layout} from the shape {list(input.shape)} to {list(size)}")
    return input


@handles("expand_as", "view_as", "reshape_as", with_function=True, dense_first=True)
def shaped_as(func, input, other):
    if is_sparse(input): refuse(func.__name__, input)
    return getattr(input, func.__name__.removesuffix("_as"))(other.shape)


@handles("unsqueeze")
def unsqueeze(input, dim):
    if input.layout is not COO: refuse("unsqueeze", input)
    d, n, pattern = wrap_dim(dim, input.dim() + 1), input._pattern.sparse_dim, input._pattern
    size = [*input.shape[:d], 1, *input.shape[d:]]
    if d > n: return assemble(pattern.resized(size), values_of(input).unsqueeze(d - n + 1))
    places = pattern.places()
    return assemble(pattern.resized(size, (rl.cat([places[:d], rl.zeros((1, pattern.nnz), dtype=rl.int64), places[d:]]),)), values_of(input))


@handles("index_select", dense_first=True)
def index_select(input, dim, index):
    if not is_sparse(input) or is_sparse(index) or input.layout is not COO: refuse("index_select", input if is_sparse(input) else index)
    d, n = wrap_dim(dim, input.dim()), input._pattern.sparse_dim
    if index.dim() != 1 or index.dtype not in (rl.int64, rl.int32):
        raise IndexError(f"index_select() argument index must be 1-D long-tensor of indices, got {index.dtype} of {index.dim()} dimensions")
    index, length = index.to(rl.int64), input.shape[d]
    if index.numel() and not (-length <= index.amin().item() and index.amax().item() < length):
        raise IndexError(f"index_select(): index contains {index.tolist() if index.numel() < 9 else 'a number'} that is out of range for tensor of size {list(input.shape)} at dimension {d}")
    index = rl.where(index < 0, index + length, index)
    size = [*input.shape[:d], index.shape[0], *input.shape[d + 1:]]
    if d >= n: return assemble(input._pattern.resized(size), values_of(input).index_select(d - n + 1, index))
    input = coalesce(input)
    places = input._pattern.places()
    # Each wanted index takes the elements that have it: as in a product of sparse matrices, they are found in a list sorted by it.
    order = places[d].argsort(stable=True)
    sorted_places = places[d].index_select(0, order)
    begin, end = rl.searchsorted(sorted_places, index), rl.searchsorted(sorted_places, index, right=True)
    lengths = end - begin
    which = rl.repeat_interleave(rl.arange(index.shape[0]), lengths)
    taken = order.index_select(0, rl.arange(which.shape[0]) + (begin - (lengths.cumsum(0) - lengths)).index_select(0, which))
    found = places.index_select(1, taken)
    found = rl.cat([found[:d], which.unsqueeze(0), found[d + 1:]])
    return assemble(Pattern(COO, size, (found,), coalesced=d == 0), values_of(input).index_select(0, taken))


@handles("narrow_copy")
def narrow_copy(input, dim, start, length):
    d, start = wrap_dim(dim, input.dim()), int(start)
    start = start + input.shape[d] if start < 0 else start
    if not 0 <= start <= start + length <= input.shape[d]:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({input.shape[d]}).")
    return index_select(input, d, rl.arange(start, start + length))


@handles("select", "select_copy")
def select(input, dim, index):
    d = wrap_dim(dim, input.dim())
    if not -input.shape[d] <= index < input.shape[d]:
        raise IndexError(f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {d}")
    input, index = to_coo(input), index % input.shape[d]
    n = input._pattern.sparse_dim
    size = [*input.shape[:d], *input.shape[d + 1:]]
    if d >= n: return assemble(input._pattern.resized(size), values_of(input).select(d - n + 1, index))
    places = input._pattern.places()
    kept = (places[d] == index).nonzero().squeeze(1)
    values = values_of(input).index_select(0, kept)
    if n == 1: return values.sum(0)                          # no sparse dimension is left: a dense tensor, as torch has it
    places = places.index_select(1, kept)
    return assemble(Pattern(COO, size, (rl.cat([places[:d], places[d + 1:]]),), coalesced=input._pattern.coalesced), values)


@handles("unbind")
def unbind(input, dim=0): return tuple(select(input, dim, i) for i in range(input.shape[wrap_dim(dim, input.dim())]))


@named("SelectBackward0")
class _Element(Function):
    """One element, stored or not; its gradient is dense, as torch's."""

    @staticmethod
    def forward(ctx, s, index):
        ctx.size, ctx.index = s.shape, index
        return getitem(s.detach(), index)

    @staticmethod
    def backward(ctx, grad):
        out = rl.zeros(ctx.size, dtype=grad.dtype)
        return out.index_put(tuple(rl.tensor(i) for i in ctx.index), grad), None


@handles("__getitem__", dense_first=True)
def getitem(input, key):
    if not is_sparse(input): refuse("index", key)
    if input.requires_grad and isinstance(key, tuple) and len(key) == input.dim() == input._pattern.sparse_dim and all(isinstance(k, int) for k in key):
        return _Element.apply(input, key)
    keys = key if isinstance(key, tuple) else (key,)
    numbers = [k for k in keys if k is not None and k is not Ellipsis]
    for k in numbers:
        if isinstance(k, bool) or not hasattr(type(k), "__index__") or isinstance(k, _C.Tensor) and k.dim(): refuse("slice" if isinstance(k, slice) else "index", input)
    if len(numbers) > input.dim(): raise IndexError(f"too many indices for tensor of dimension {input.dim()}")
    d = 0
    for place, k in enumerate(keys):
        if k is None: input, d = input.unsqueeze(d), d + 1
        elif k is Ellipsis: d = input.dim() - sum(later is not None for later in keys[place + 1:])
        elif not -input.shape[d] <= int(k) < input.shape[d]: raise IndexError(f"index {int(k)} is out of bounds for dimension {d} with size {input.shape[d]}")
        else: input = input.select(d, int(k))                # dense, once no sparse dimension is left
    return input


@handles("cat", "concat", "concatenate")
def cat(tensors, dim=0):
    tensors = list(tensors)
    for i, x in enumerate(tensors):
        if x.layout is not COO: raise RuntimeError(f"Concatenating sparse tensors, but a tensor of layout {x.layout} was found at position {i} of the list")
    first = tensors[0]
    d, n = wrap_dim(dim, first.dim()), first._pattern.sparse_dim
    for x in tensors:
        if x._pattern.sparse_dim != n or [*x.shape[:d], *x.shape[d + 1:]] != [*first.shape[:d], *first.shape[d + 1:]]:
            raise RuntimeError(f"All tensors must have the same shape: {list(first.shape)} (except in the concatenating dimension), sparse and dense dimensions, "
                               f"but one has the shape {list(x.shape)} and {x._pattern.sparse_dim} sparse dimensions")
    total, places, before = sum(x.shape[d] for x in tensors), [], 0
    if d >= n: return _side_by_side(tensors, d - n + 1, [*first.shape[:d], total, *first.shape[d + 1:]])
    shift = rl.zeros((n, 1), dtype=rl.int64)
    shift[d] = 1
    for x in tensors:
        places.append(x._pattern.places() + shift * before)
        before += x.shape[d]
    dtype = _common_dtype(tensors)
    return assemble(Pattern(COO, [*first.shape[:d], total, *first.shape[d + 1:]], (rl.cat(places, 1),), coalesced=False),
                    rl.cat([values_of(x).to(dtype) for x in tensors]))


def _common_dtype(tensors):
    dtype = tensors[0].dtype
    for x in tensors[1:]: dtype = rl.promote_types(dtype, x.dtype)
    return dtype


def _side_by_side(tensors, value_dim, size):
    """Tensors side by side in a dense dimension: each has zeros in the others' parts."""
    lengths, dtype, rows = [values_of(x).shape[value_dim] for x in tensors], _common_dtype(tensors), []
    for k, x in enumerate(tensors):
        values = values_of(x).to(dtype)
        blank = lambda length: rl.zeros((*values.shape[:value_dim], length, *values.shape[value_dim + 1:]), dtype=dtype)  # noqa: B023
        rows.append(rl.cat([blank(sum(lengths[:k])), values, blank(sum(lengths[k + 1:]))], value_dim))
    return assemble(Pattern(COO, size, (rl.cat([x._pattern.places() for x in tensors], 1),), coalesced=False), rl.cat(rows))


@handles("stack")
def stack(tensors, dim=0): return cat([unsqueeze(x, dim) for x in tensors], dim)


@handles("reshape")
def reshape(input, *shape): raise RuntimeError("reshape is not implemented for sparse tensors")


@handles("numel")
def numel(input): return input.numel()


@handles("is_same_size", dense_first=True)
def is_same_size(input, other): return input.shape == other.shape

