"""Functions of the `torch` namespace that are not single operators: they decide in Python and then call operators."""
from __future__ import annotations

import math
import numbers

from . import _C, registry
from .dtypes import as_dtype, need_dtype, whole_limits
from .overrides import aware_of_all
from .tensor import Tensor


def _op(name):
    return registry.find(name).op.function


# ------------------------------------------------------------------------------------------------------------- creation
def _need_strided(name, layout):
    """Functions written in Python make strided tensors only; the operators' own `layout=` goes to `sparse.dispatch.create`, which says the same."""
    if layout is not _C.strided:
        raise NotImplementedError(f"{name}() is not implemented for layout={layout}: make a dense tensor and call Tensor.to_sparse() (or to_sparse_csr())")


def _number(value, name):
    if type(value) is int or type(value) is float:        # almost always; the tests below take longer than a small operator
        return value
    if isinstance(value, Tensor) and not value.dim() and not value.requires_grad:
        return value.item()
    if isinstance(value, numbers.Integral):               # numpy's too
        return value if isinstance(value, int) else int(value)
    if isinstance(value, numbers.Number):
        return value if isinstance(value, (float, complex)) else float(value)
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return float(value)                               # as in torch: every numpy number that is no integer is a float
    raise TypeError(f"arange(): argument '{name}' must be Number, not {type(value).__name__}")


def _no_range(args):
    given = ", ".join(type(a).__name__ for a in args)
    return TypeError(f"arange() received an invalid combination of arguments - got ({given}), but expected (Number end) or (Number start, Number end, Number step)")


def _named_range(args, named):
    """start, end and step of a call that names some of them."""
    alone = len(args) == 1 and "end" not in named
    values = dict(zip(("end",) if alone else ("start", "end", "step"), args))
    values.update(named)
    unknown = set(values) - {"start", "end", "step"}
    if unknown:
        raise TypeError(f"arange() got an unexpected keyword argument '{unknown.pop()}'")
    if "end" not in values:
        if "start" not in values:
            raise _no_range(args)
        values["end"] = values.pop("start")
    return values.get("start", 0), values["end"], values.get("step", 1)


def _check_out(out, dtype):
    """A `dtype=` beside an out= tensor must be the tensor's."""
    if out is not None and dtype is not None and dtype is not out.dtype:
        raise RuntimeError(f"dtype {_name(dtype)} does not match dtype of out parameter ({_name(out.dtype)})")


def arange(*args, out=None, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False, **named):
    """Numbers from start (0) to end, not included, by step (1). Integers unless an argument is a float."""
    if layout is not None: _need_strided("arange", layout)
    if len(args) > 3: raise _no_range(args)
    if named: start, end, step = _named_range(args, named)
    elif len(args) == 1: start, end, step = 0, args[0], 1
    elif args: start, end, step = (*args, 1)[:3]
    else: raise _no_range(args)
    start, end, step = _number(start, "start"), _number(end, "end"), _number(step, "step")
    if isinstance(start, complex) or isinstance(end, complex) or isinstance(step, complex):
        raise RuntimeError("value cannot be converted to type double without overflow")
    dtype = as_dtype(dtype)
    _check_out(out, dtype)
    if dtype is None:
        floating = isinstance(start, float) or isinstance(end, float) or isinstance(step, float)
        dtype = out.dtype if out is not None else _C.get_default_dtype() if floating else _C.int64
    if not (step > 0 or step < 0):
        raise RuntimeError("step must be nonzero")
    if not (math.isfinite(start) and math.isfinite(end)):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (step > 0 and end < start) or (step < 0 and end > start):
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = math.ceil((end - start) / step)
    if dtype is _C.int64:                              # only here torch counts in integers
        start, end, step = int(start), int(end), int(step)
        if step == 0:
            raise ValueError("step must be nonzero")
        count = -((start - end) // step) if step > 0 else -((end - start) // -step)
    elif not dtype.is_floating_point:
        start, step = int(start), int(step)
    result = _op("_arange")(count, start, step, dtype=dtype, device=device, requires_grad=requires_grad)
    return result if out is None else _into(out, result, "arange")


def _ends(name, start, end, steps):
    """start and end of a linspace or logspace as numbers; 0-dim tensors are allowed."""
    if type(steps) is not int:
        if isinstance(steps, bool) or not hasattr(type(steps), "__index__"):
            given = ", ".join(type(v).__name__ for v in (start, end, steps))
            raise TypeError(f"{name}() received an invalid combination of arguments - got ({given}): steps must be int")
        steps = steps.__index__()
    for word, value in (("start", start), ("end", end)):
        if isinstance(value, Tensor) and value.dim():
            raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got {word} with {value.dim()} dimension(s).")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return _number(start, "start"), _number(end, "end"), steps


def _spaced_dtype(name, dtype, start, end):
    """The dtype of a linspace or logspace: as asked, by default a floating or complex one, as the ends are."""
    default = _C.get_default_dtype()
    if isinstance(start, complex) or isinstance(end, complex):
        if dtype is not None and not dtype.is_complex:
            part = "double" if default is _C.float64 else "float"
            raise RuntimeError(f"torch.{name}(): inferred dtype c10::complex<{part}> can't be safely cast to passed dtype {_name(dtype)}")
        return dtype or default.to_complex()
    return dtype or default


def _as_whole(value, dtype):
    """A number as an element of a whole dtype; a negative integer (but no float) wraps in an unsigned dtype, as in C++."""
    low, high, word = whole_limits(str(dtype).rpartition(".")[2])
    if not dtype.is_signed and isinstance(value, float): low = 0
    if not math.isfinite(value) or value < low or int(value) > high:
        raise RuntimeError(f"value cannot be converted to type {word} without overflow")
    return int(value) if dtype.is_signed else int(value) % (high + 1)


def _is_whole(dtype): return not dtype.is_floating_point and not dtype.is_complex and dtype is not _C.bool


def linspace(start, end, steps, *, out=None, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False):
    """`steps` numbers from start to end, both included, evenly spaced."""
    if layout is not None: _need_strided("linspace", layout)
    start, end, steps = _ends("linspace", start, end, steps)
    dtype = as_dtype(dtype)
    _check_out(out, dtype)
    dtype = _spaced_dtype("linspace", dtype or (None if out is None else out.dtype), start, end)
    if steps and _is_whole(dtype): start, end = _as_whole(start, dtype), _as_whole(end, dtype) if steps > 1 else 0
    result = _op("_linspace")(steps, start, end, dtype=dtype, device=device, requires_grad=requires_grad)
    return result if out is None else _into(out, result)


def logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False):
    """base to the power of each number of a linspace."""
    if layout is not None: _need_strided("logspace", layout)
    start, end, steps = _ends("logspace", start, end, steps)
    dtype = as_dtype(dtype)
    _check_out(out, dtype)
    dtype = _spaced_dtype("logspace", dtype or (None if out is None else out.dtype), start, end)
    if dtype is _C.bool and steps > 1:
        raise NotImplementedError("\"logspace_cpu\" not implemented for 'Bool'")
    whole = _is_whole(dtype)
    if whole and steps > 1: start, end = _as_whole(start, dtype), _as_whole(end, dtype)
    wide = dtype if dtype.is_floating_point or dtype.is_complex else _C.float64
    if dtype in (_C.float16, _C.bfloat16):                # the ends are rounded, if there are two; then only the result
        wide = _C.float32
        start, end = (_C.tensor(v, dtype=dtype).item() if steps > 1 else v for v in (start, end))
    if whole and steps == 1: result = _op("full")((1,), _as_whole(float(base) ** start, dtype), dtype=dtype, device=device)        # the power is converted, not its exponent
    else: result = _op("pow")(float(base), _op("_linspace")(steps, start, end, dtype=wide, device=device))
    if wide is not dtype: result = result.to(dtype)
    if requires_grad: result.requires_grad_()
    return result if out is None else _into(out, result)


def _into(out, result, name=None):
    """The last step of `out=` for functions made of several operators. A name: torch warns of a tensor that must be resized."""
    if out.shape != result.shape:
        if name and out.numel():
            _C.warn(f"{name}(): the out= tensor of shape {list(out.shape)} had elements and was resized to the result's shape, {list(result.shape)}. That is deprecated; out.resize_(0) beforehand "
                    "says that it is meant.")
        out.resize_(result.shape)
    return out.copy_(result)


# --------------------------------------------------------------------------------------------------------------- tests
def is_tensor(obj):
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj):
    from .storage import TypedStorage
    return isinstance(obj, (_C.UntypedStorage, TypedStorage))


def numel(input):
    """How many elements a tensor has."""
    return input.numel()


def is_floating_point(input):
    return input.is_floating_point()


def is_complex(input):
    return input.is_complex()


def is_nonzero(input):
    if input.numel() != 1:
        raise RuntimeError("Boolean value of Tensor with no values is ambiguous" if input.numel() == 0 else
                           "Boolean value of Tensor with more than one value is ambiguous")
    return bool(input.item())


def equal(input, other):
    """Whether two tensors have the same size and elements."""
    if not isinstance(other, Tensor):
        raise TypeError(f"equal(): argument 'other' (position 2) must be Tensor, not {type(other).__name__}")
    return input.shape == other.shape and bool((input == other).all().item())


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close: `abs(input - other) <= atol + rtol * abs(other)`."""
    return bool(_op("isclose")(input, other, rtol, atol, equal_nan).all().item())


def _name(dtype):
    """The word torch's messages use for a dtype."""
    from .compiler.graph import SCALAR_TYPE_NAME
    return SCALAR_TYPE_NAME[_graph_name(dtype)]


# ---------------------------------------------------------------------------------------------------------- promotion
def result_type(*args, **kwargs):
    """The dtype of an arithmetic result of two tensors or numbers: `(tensor, other)`, `(scalar, tensor)` or `(scalar1, scalar2)`."""
    from .compiler import promotion
    names = next((pair for pair in (("tensor", "other"), ("scalar", "tensor"), ("scalar1", "scalar2"), ("tensor1", "tensor2"))
                  if set(pair[len(args):]) == set(kwargs)), None) if len(args) + len(kwargs) == 2 else None
    if names is None:
        raise TypeError(f"result_type() received an invalid combination of arguments - got {len(args)} by position and {sorted(kwargs)} by name, but expected two of: "
                        "(Tensor tensor, Tensor other), (Tensor tensor, Number other), (Number scalar, Tensor tensor), (Number scalar1, Number scalar2)")
    tensor1, tensor2 = [*args, *(kwargs[name] for name in names[len(args):])]

    def operand(value, position):
        if isinstance(value, Tensor):
            return _graph_name(value.dtype), promotion.DIMENSIONED if value.dim() else promotion.ZERO_DIM
        if type(value).__module__ == "numpy": value = _number(value, f"tensor{position}")
        kind = next((kind for kind in (bool, int, float, complex) if isinstance(value, kind)), None)
        if kind is None:
            raise TypeError(f"result_type(): argument 'tensor{position}' (position {position}) must be Tensor or Number, not {type(value).__name__}")
        return _graph_name(as_dtype(kind)), promotion.NUMBER
    return _dtype_of_graph_name(promotion.result_type([operand(tensor1, 1), operand(tensor2, 2)], _graph_name(_C.get_default_dtype())))


def promote_types(type1, type2):
    """The smallest dtype that holds both."""
    from .compiler import promotion
    type1, type2 = need_dtype("promote_types", type1, "type1", 1), need_dtype("promote_types", type2, "type2", 2)
    return _dtype_of_graph_name(promotion.promote_types(_graph_name(type1), _graph_name(type2)))


def _graph_name(dtype):
    from .compiler.graph import DTYPE_OF_CODE
    return DTYPE_OF_CODE[dtype._code]


def _dtype_of_graph_name(name):
    from .compiler.graph import DTYPES
    return next(d for d in vars(_C).values() if isinstance(d, _C.dtype) and d._code == DTYPES[name][0])


def can_cast(from_, to):
    """Whether a conversion keeps the kind (bool < int < float < complex)."""
    from .compiler import promotion
    return promotion.can_cast(_graph_name(need_dtype("can_cast", from_, "from_", 1)), _graph_name(need_dtype("can_cast", to, "to", 2)))


# -------------------------------------------------------------------------------------------------------------- shapes
def broadcast_shapes(*shapes):
    """The shape that shapes broadcast to."""
    shapes = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for s in shapes:
        for k in range(1, len(s) + 1):
            if s[-k] < 0:
                raise RuntimeError(f"Trying to create tensor with negative dimension ({s[-k]}): ({s[-k]})")
            if s[-k] != 1 and out[-k] not in (1, s[-k]):
                raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape")
            if s[-k] != 1:
                out[-k] = s[-k]
    return _C.Size(out)


@aware_of_all
def broadcast_tensors(*tensors):
    """Tensors expanded to one shape."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tensors[0]
    try:
        shape = broadcast_shapes(*[t.shape for t in tensors])
    except RuntimeError:
        shapes = [tuple(t.shape) for t in tensors]
        rank = max(map(len, shapes))
        for d in range(1, rank + 1):
            sizes = [s[-d] for s in shapes if len(s) >= d and s[-d] != 1]
            if sizes and any(n != sizes[0] for n in sizes):
                other = next(n for n in sizes if n != sizes[0])
                raise RuntimeError(f"The size of tensor a ({sizes[0]}) must match the size of tensor b ({other}) at non-singleton dimension "
                                   f"{rank - d}") from None
        raise
    return tuple(t.expand(shape) for t in tensors)


@aware_of_all
def broadcast_to(input, size):
    """The tensor expanded to a size."""
    return input.expand(size)


def _at_least_1d(t): return t.reshape(1) if t.dim() == 0 else t


def _at_least_2d(t):
    rank = t.dim()
    return t if rank > 1 else t.unsqueeze(0) if rank else t.reshape(1, 1)


def _at_least_3d(t):
    rank = t.dim()
    return t if rank > 2 else t.unsqueeze(-1) if rank == 2 else t[None, :, None] if rank else t.reshape(1, 1, 1)


@aware_of_all
def atleast_1d(*tensors):
    return _each(tensors, _at_least_1d)


@aware_of_all
def atleast_2d(*tensors):
    return _each(tensors, _at_least_2d)


@aware_of_all
def atleast_3d(*tensors):
    return _each(tensors, _at_least_3d)


def _each(tensors, change):
    if len(tensors) == 1:
        return change(tensors[0]) if isinstance(tensors[0], Tensor) else tuple(change(t) for t in tensors[0])
    return tuple(change(t) for t in tensors)


def _joined(name, tensors, dim, out):
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return _op("cat")(tensors, dim) if out is None else _op("cat")(tensors, dim, out=out)


@aware_of_all
def hstack(tensors, *, out=None):
    """Tensors side by side: along the second dimension, the first for vectors."""
    tensors = [_at_least_1d(t) for t in tensors]
    return _joined("hstack", tensors, 0 if tensors and tensors[0].dim() == 1 else 1, out)


@aware_of_all
def vstack(tensors, *, out=None):
    """Tensors one below the other."""
    return _joined("vstack", [_at_least_2d(t) for t in tensors], 0, out)


@aware_of_all
def dstack(tensors, *, out=None):
    """Tensors behind one another."""
    return _joined("dstack", [_at_least_3d(t) for t in tensors], 2, out)


row_stack = vstack


@aware_of_all
def column_stack(tensors, *, out=None):
    """Tensors side by side; vectors become columns."""
    return _joined("column_stack", [t.reshape(t.numel(), 1) if t.dim() <= 1 else t for t in tensors], 1, out)


@aware_of_all
def meshgrid(*tensors, indexing=None):
    """Coordinates of a grid, one tensor for each vector."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if indexing is None:
        from ._C import warn
        warn("torch.meshgrid: indexing= is not given and 'ij' is taken; it is to become obligatory.", once=True)
        indexing = "ij"
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for t in tensors:
        if t.dim() > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t}")
        if t.dtype is not tensors[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(tensors) >= 2
    if swap:
        tensors = (tensors[1], tensors[0]) + tensors[2:]
    n = len(tensors)
    shape = [t.numel() for t in tensors]
    grids = [t.reshape([-1 if k == d else 1 for k in range(n)]).expand(shape) for d, t in enumerate(tensors)]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


def nonzero(input, *, out=None, as_tuple=False):
    """The indices of elements that are not zero, a row each; `as_tuple`: a tensor for each dimension, as indexing takes them."""
    if as_tuple:
        if out is not None:
            raise TypeError("nonzero(): out= and as_tuple=True do not go together")
        return _op("where")(input)
    rows = _op("_nonzero")(input)
    if out is None:
        return rows
    if out.dtype is not _C.int64:
        raise RuntimeError(f"nonzero: Expected out tensor to have scalar type Long but got scalar type {_name(out.dtype)}")
    return _into(out, rows, "nonzero")


argwhere = lambda input: _op("_nonzero")(input)  # noqa: E731
argwhere.__name__, argwhere.__doc__ = "argwhere", "The indices of elements that are not zero, a row each."


def _without_single_masks(input, indices):
    """A mask of no dimensions chooses all or nothing: it becomes an index into a new dimension of size 1."""
    indices, dim = list(indices), 0
    for k, index in enumerate(indices):
        if isinstance(index, _C.Tensor) and index.dtype in (_C.bool, _C.uint8):
            if index.ndim == 0:
                input, indices[k] = input.unsqueeze(dim), index.reshape(1).nonzero().reshape(-1)
            dim += max(index.ndim, 1)
        else:
            dim += 1
    return input, indices


def index_put(input, indices, values, accumulate=False):
    """A copy of the tensor with `values` written, or added, at `input[indices]`."""
    seen, indices = _without_single_masks(input, indices)
    result = _op("_index_put")(seen, _C.index_positions(seen, indices), values, accumulate)
    return result if seen is input else result.reshape(input.shape)


def index_put_(input, indices, values, accumulate=False):
    """`values` written, or added, at `input[indices]`, in place."""
    seen, indices = _without_single_masks(input, indices)
    registry.find("_index_put").op.inplace_function(seen, _C.index_positions(seen, indices), values, accumulate)
    return input


@aware_of_all
def repeat_interleave(input, repeats=None, dim=None, *, output_size=None):
    """Each entry along `dim` (of the flattened tensor without one) repeated in a row: a number of times, or as many times as `repeats` says for it.
    Of `repeats` alone: the number of each entry, that many times."""
    if repeats is None:
        return _repeated_positions(input, output_size)
    if not isinstance(repeats, (bool, Tensor)) and hasattr(type(repeats), "__index__"):
        return _op("_repeat_each")(input, repeats.__index__(), dim)
    if not isinstance(repeats, Tensor):
        raise TypeError(f"repeat_interleave(): argument 'repeats' must be Tensor or int, not {type(repeats).__name__}")
    x = input.reshape(-1) if dim is None else input
    d = 0 if dim is None else dim
    if repeats.dim() == 0 or repeats.dim() == 1 and repeats.size(0) == 1:
        repeats = repeats.reshape(1).expand(x.size(d))
    elif repeats.dim() != 1:
        raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
    elif repeats.size(0) != x.size(d):
        raise RuntimeError(f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.size(0)} and input.size({d}) = {x.size(d)}")
    return x.index_select(d, _repeated_positions(repeats, output_size))


def _repeated_positions(repeats, output_size=None):
    """i written repeats[i] times, for each i: a one wherever a new entry begins, summed up."""
    if repeats.dtype not in (_C.int64, _C.int32):
        raise RuntimeError("repeats has to be Long or Int tensor")
    if repeats.dim() != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if repeats.numel() and int(repeats.min().item()) < 0:
        raise RuntimeError("repeats can not be negative")
    total = int(repeats.sum().item())
    if output_size is not None and output_size != total:
        raise RuntimeError(f"allocated size does not match required size: {output_size} and {total}")
    used = nonzero(repeats).reshape(-1)
    if total == 0:
        return used.new_empty((0,)).to(repeats.dtype)
    counts = repeats.to(_C.int64).index_select(0, used)
    steps = used - _op("cat")([used.new_zeros((1,)), used[:-1]])             # how far each used entry is from the one before
    begins = counts.cumsum(0) - counts
    return used.new_zeros((total,)).index_add_(0, begins, steps).cumsum(0).to(repeats.dtype)


def sum_to_size(input, *size):
    """The tensor summed over the dimensions along which `size` would be expanded to it."""
    shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    have = tuple(input.shape)
    if len(shape) > len(have) or any(a not in (1, b) for a, b in zip(reversed(shape), reversed(have))):
        raise RuntimeError(f"size {{{list(shape)}}} is not expandable to size {{{list(have)}}}.")
    if not shape:
        return input.sum()                                  # as torch: bool and small integers become int64 even where nothing is summed
    if shape == have:
        return input
    lead = len(have) - len(shape)
    lost = list(range(lead)) + [lead + k for k, n in enumerate(shape) if n == 1 and have[lead + k] != 1]
    return input.sum(lost, keepdim=True).reshape(shape) if lost else input.reshape(shape)


@aware_of_all
def rot90(input, k=1, dims=(0, 1)):
    """Turned by `k` quarters in the plane of two dimensions, from the first towards the second."""
    n = input.dim()
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if n < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {n}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == n:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    for name, d in zip(("dim0", "dim1"), dims):
        if not -n <= d < n:
            raise RuntimeError(f"Rotation {name} out of range, {name} = {d}")
    if k % 4 == 0:
        return input.clone(memory_format=_C.contiguous_format)
    if k % 4 == 2:
        return input.flip(dims)
    return input.flip(dims[1] if k % 4 == 1 else dims[0]).transpose(*dims)


def tril_indices(row, col, offset=0, *, dtype=None, layout=None, device=None, pin_memory=None):
    """The positions of the lower triangle of a row by col matrix: two rows of indices."""
    if layout is not None: _need_strided("tril_indices", layout)
    return _triangle_indices("tril", row, col, offset, dtype, device)


def triu_indices(row, col, offset=0, *, dtype=None, layout=None, device=None, pin_memory=None):
    """The positions of the upper triangle of a row by col matrix: two rows of indices."""
    if layout is not None: _need_strided("triu_indices", layout)
    return _triangle_indices("triu", row, col, offset, dtype, device)


def _triangle_indices(name, row, col, offset, dtype, device):
    for word, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{word} must be non-negative, got{size}")
    dtype = as_dtype(dtype) or _C.int64
    if dtype not in (_C.int64, _C.int32):
        raise NotImplementedError(f"\"{name}_indices\" not implemented for '{_name(dtype)}'")
    ones = _op("ones")((row, col), dtype=_C.bool)
    places = nonzero(_op(name)(ones, offset)).t().contiguous()
    places = places if dtype is _C.int64 else places.to(dtype)
    return places if device in (None, "cpu") else places.to(device)


@aware_of_all
def tensordot(a, b, dims=2, out=None):
    """Sums of products over several dimensions: `dims` of them, the last of a with the first of b, or two lists of dimensions."""
    if isinstance(dims, Tensor) and dims.numel() == 1: dims = int(dims.item())
    if not isinstance(dims, (int, tuple, list, Tensor)):
        raise RuntimeError(f"tensordot expects dims to be int or two lists of dimensions, but got dims={dims}")
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        first, second = list(range(-dims, 0)), list(range(dims))
    else:
        first, second = ([d] if isinstance(d, int) else list(d) for d in (dims.tolist() if isinstance(dims, Tensor) else dims))
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    first, second = [d % a.dim() for d in first], [d % b.dim() for d in second]
    for i, j in zip(first, second):
        if a.size(i) != b.size(j) and 1 not in (a.size(i), b.size(j)):
            raise RuntimeError(f"contracted dimensions need to match, but first has size {a.size(i)} in dim {i} and second has size {b.size(j)} in dim {j}")
        if a.size(i) == 1:
            b = b.sum(j, keepdim=True)                  # a dimension of size 1 spreads
        elif b.size(j) == 1:
            a = a.sum(i, keepdim=True)
    kept_a, kept_b = [d for d in range(a.dim()) if d not in first], [d for d in range(b.dim()) if d not in second]
    rows, columns = [a.size(d) for d in kept_a], [b.size(d) for d in kept_b]
    inner = math.prod(a.size(d) for d in first)
    left = a.permute(kept_a + first).reshape(math.prod(rows), inner)
    right = b.permute(second + kept_b).reshape(inner, math.prod(columns))
    # A single number is no matrix product to torch: autocast leaves it alone.
    autocast = _C.set_guard(_C.G_AUTOCAST, False) & _C.G_AUTOCAST if math.prod(rows) == 1 == math.prod(columns) else 0
    try:
        result = _op("mm")(left, right).reshape(rows + columns)
    finally:
        if autocast:
            _C.set_guard(_C.G_AUTOCAST, True)
    if out is not None and out.dtype is not result.dtype:
        raise RuntimeError(f"tensordot: Expected the output tensor to have dtype {_name(result.dtype)}, but got an output tensor with dtype {_name(out.dtype)}")
    return result if out is None else _into(out, result)


# ------------------------------------------------------------------------------------------------ asked of a tensor, or of the library
def unravel_index(indices, shape):
    """Places in a tensor seen as one row, as coordinates in its shape: a tensor for each dimension."""
    if not isinstance(indices, Tensor):
        raise AttributeError(f"'{type(indices).__name__}' object has no attribute 'is_complex'")
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    if not isinstance(shape, (int, list, tuple, _C.Size)):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    for n in shape:
        if not isinstance(n, int):
            raise TypeError(f"expected 'shape' sequence to only contain ints, but got {type(n)}")
    if any(n < 0 for n in shape):
        raise ValueError(f"'shape' cannot have negative values, but got {shape}")
    return tuple(_op("_unravel_index")(indices, shape).unbind(-1)) if shape else ()


def empty_permuted(size, physical_layout, *, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False):
    """An uninitialised tensor whose dimensions lie in memory in the order `physical_layout` names them, the last running fastest."""
    if layout is not None: _need_strided("empty_permuted", layout)
    if len(physical_layout) != len(size):
        raise RuntimeError(f"Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = {len(size)} is not equal to "
                           f"len(physical_layout) = {len(physical_layout)}")
    seen = set()
    for d in physical_layout:
        if not 0 <= d < len(size):
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got {d} at index {len(seen)}).  NB: negative dims not currently "
                               "supported; file an issue if you want it.")
        if d in seen:
            raise RuntimeError("Duplicate dim not allowed")
        seen.add(d)
    dense = _op("empty")([size[d] for d in physical_layout], dtype=dtype, device=device, requires_grad=False)
    out = dense.permute([physical_layout.index(d) for d in range(len(size))]).detach()
    return out.requires_grad_(requires_grad) if requires_grad else out


def is_conj(input):
    return input.is_conj()


def is_neg(input):
    return input.is_neg()


def is_signed(input):
    return input.dtype.is_signed


def is_inference(input):
    return input.is_inference()


def is_same_size(input, other):
    return input.shape == other.shape


def resize_as_(input, the_template, *, memory_format=None):
    """The tensor resized, in place, to the shape of another."""
    return input.resize_as_(the_template)


def detach_(input):
    return input.detach_()


def _assert(condition, message):
    """assert, as a function that a tracer can see."""
    assert condition, message


_deterministic = {"mode": False, "warn": False, "precision": "highest"}


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Remembered and otherwise without effect: every operator here gives the same bits in every run."""
    _deterministic.update(mode=bool(mode), warn=bool(warn_only))


def are_deterministic_algorithms_enabled():
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled():
    return _deterministic["warn"]


def set_float32_matmul_precision(precision):
    """Remembered and otherwise without effect: float32 products are always computed in float32."""
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(f"Invalid precision {precision}; expected one of highest, high, medium")
    _deterministic["precision"] = precision


def get_float32_matmul_precision():
    return _deterministic["precision"]


# Functions that are methods too: the tensor is their first argument.
for _function in (nonzero, argwhere, index_put, index_put_, equal, allclose, is_nonzero, repeat_interleave, rot90, sum_to_size):
    setattr(Tensor, _function.__name__, _function)


# ----------------------------------------------------------------------------------------------------------- resampling
def _upsample_aa(mode, input, output_size, align_corners, scales):
    if output_size is None:
        output_size = [math.floor(float(n) * f) for n, f in zip(tuple(input.shape)[2:], scales)]
    return _op("_upsample")(input, output_size, *[None if f is None else float(f) for f in scales], None, mode, align_corners)


def _upsample_bilinear2d_aa(input, output_size, align_corners, scales_h=None, scales_w=None, scale_factors=None):
    """An image resampled by a triangle filter that covers as many pixels as one output pixel does, so that shrinking does not alias."""
    return _upsample_aa("linear-aa", input, output_size, align_corners, scale_factors if scale_factors is not None else (scales_h, scales_w))


def _upsample_bicubic2d_aa(input, output_size, align_corners, scales_h=None, scales_w=None, scale_factors=None):
    """`_upsample_bilinear2d_aa` with a cubic filter."""
    return _upsample_aa("cubic-aa", input, output_size, align_corners, scale_factors if scale_factors is not None else (scales_h, scales_w))


# ------------------------------------------------------------------------------------------------------- batch normalisation
def _with_out(results, out):
    """Results that nothing flows back through but the first, written to `out` if there is one."""
    if out is None:
        return results
    for room, result in zip(out, results):
        if room.dtype is not result.dtype:
            raise RuntimeError(f"expected scalar type {_name(result.dtype)} but found {_name(room.dtype)}")
        room.resize_(result.shape).copy_(result)
    return tuple(out)


def native_layer_norm(input, normalized_shape, weight, bias, eps):
    """`nn.functional.layer_norm` with each group's mean and 1 / deviation."""
    out, mean, inverse = _op("_layer_norm_statistics")(input, normalized_shape, weight, bias, eps)
    return out, mean.detach(), inverse.detach()


def _normalised_batch(input, weight, bias, running_mean, running_var, training, momentum, eps):
    """(result, mean, 1 / deviation); in training the running statistics are moved."""
    if not training:
        for name, value in (("running_mean", running_mean), ("running_var", running_var)):
            if value is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
        empty = registry.find("empty").op.function(0, dtype=input.dtype if weight is None else weight.dtype)
        return _op("_batch_norm_eval")(input, running_mean, running_var, weight, bias, eps), empty, empty.clone()
    out, mean, inverse, var = _op("_batch_norm_statistics")(input, weight, bias, eps)
    if running_mean is not None and running_var is not None:
        from .autograd.grad_mode import no_grad
        with no_grad():
            _op("_running_update_")(running_mean, running_var, mean, var, momentum)
    return out, mean.detach(), inverse.detach()


def native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, *, out=None):
    """`nn.functional.batch_norm` with the statistics it used: each channel's mean and 1 / deviation (empty outside of training)."""
    return _with_out(_normalised_batch(input, weight, bias, running_mean, running_var, training, momentum, eps), out)


def _native_batch_norm_legit(input, weight, bias, *more, out=None):
    """`native_batch_norm`; without running statistics when they are left out: (input, weight, bias, training, momentum, eps)."""
    return _with_out(_normalised_batch(input, weight, bias, *((None, None) if len(more) == 3 else ()), *more), out)


def _native_batch_norm_legit_no_training(input, weight, bias, running_mean, running_var, momentum, eps):
    """`native_batch_norm` by the running statistics."""
    return _normalised_batch(input, weight, bias, running_mean, running_var, False, momentum, eps)


def _batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps, *, out=None):
    """`native_batch_norm` in training; the fourth result is room that other devices need."""
    if out is not None:
        raise RuntimeError("_batch_norm_with_update() has no schema with one argument `out`")
    room = registry.find("empty").op.function(0, dtype=_dtype_named("uint8"))
    return (*_normalised_batch(input, weight, bias, running_mean, running_var, True, momentum, eps), room)


def _dtype_named(name):
    return getattr(_C, name)
