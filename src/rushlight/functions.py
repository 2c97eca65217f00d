"""Functions of the `torch` namespace that are not single operators: they decide in Python and then call operators."""
from __future__ import annotations

import math
import numbers

from . import _C, registry
from .tensor import Tensor


def _op(name):
    return registry.find(name).op.function


# ------------------------------------------------------------------------------------------------------------- creation
def _number(value, name):
    if isinstance(value, Tensor):
        return value.item()
    if isinstance(value, numbers.Number):
        return value
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"arange(): argument '{name}' must be Number, not {type(value).__name__}")


def _check_out(out, dtype):
    """A `dtype=` beside an out= tensor must be the tensor's."""
    if out is not None and dtype is not None and dtype is not out.dtype:
        raise RuntimeError(f"dtype {_name(dtype)} does not match dtype of out parameter ({_name(out.dtype)})")


def arange(*args, out=None, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False, **named):
    """Numbers from start (0) to end, not included, by step (1). Integers unless an argument is a float."""
    alone = len(args) == 1 and "end" not in named
    values = dict(zip(("end",) if alone else ("start", "end", "step"), args))
    values.update(named)
    unknown = set(values) - {"start", "end", "step"}
    if unknown:
        raise TypeError(f"arange() got an unexpected keyword argument '{unknown.pop()}'")
    if "end" not in values:
        if "start" not in values:
            raise TypeError("arange() received an invalid combination of arguments - got (), but expected (Number end) or (Number start, Number end, Number step)")
        values["end"] = values.pop("start")
    start, end, step = (_number(values.get(n, d), n) for n, d in (("start", 0), ("end", None), ("step", 1)))
    if any(isinstance(v, complex) for v in (start, end, step)):
        raise RuntimeError("value cannot be converted to type double without overflow")
    _check_out(out, dtype)
    if dtype is None:
        dtype = out.dtype if out is not None else _C.get_default_dtype() if any(isinstance(v, float) for v in (start, end, step)) else _C.int64
    if not (step > 0 or step < 0):
        raise RuntimeError("step must be nonzero")
    if not all(math.isfinite(v) for v in (start, end)):
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
    return result if out is None else _into(out, result)


def _ends(name, start, end, steps):
    """start and end of a linspace or logspace as numbers; 0-dim tensors are allowed."""
    if not isinstance(steps, int) or isinstance(steps, bool):
        steps = steps if hasattr(type(steps), "__index__") and not isinstance(steps, float) else None
        if steps is None:
            raise TypeError(f"{name}() received an invalid combination of arguments: steps must be int")
        steps = steps.__index__()
    for word, value in (("start", start), ("end", end)):
        if isinstance(value, Tensor) and value.dim():
            raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors, but got {word} with {value.dim()} dimension(s).")
    if steps < 0:
        raise RuntimeError("number of steps must be non-negative")
    return _number(start, "start"), _number(end, "end"), steps


def linspace(start, end, steps, *, out=None, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False):
    """`steps` numbers from start to end, both included, evenly spaced."""
    start, end, steps = _ends("linspace", start, end, steps)
    _check_out(out, dtype)
    dtype = dtype or (out.dtype if out is not None else _C.get_default_dtype())
    result = _op("_linspace")(steps, start, end, dtype=dtype, device=device, requires_grad=requires_grad)
    return result if out is None else _into(out, result)


def logspace(start, end, steps, base=10.0, *, out=None, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False):
    """base to the power of each number of a linspace."""
    start, end, steps = _ends("logspace", start, end, steps)
    _check_out(out, dtype)
    dtype = dtype or (out.dtype if out is not None else _C.get_default_dtype())
    whole = not dtype.is_floating_point and not dtype.is_complex
    if whole:
        start, end = int(start), int(end)
    power = linspace(start, end, steps, dtype=_C.float64 if whole else dtype, device=device)
    result = _op("pow")(float(base), power)
    result = result.to(dtype).requires_grad_(requires_grad)
    return result if out is None else _into(out, result)


def _into(out, result):
    """The last step of `out=` for functions made of several operators."""
    if out.shape != result.shape:
        out.resize_(result.shape)
    return out.copy_(result)


# --------------------------------------------------------------------------------------------------------------- tests
def is_tensor(obj):
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj):
    return isinstance(obj, _C.UntypedStorage)


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
def result_type(tensor1, tensor2):
    """The dtype of an arithmetic result of two tensors or numbers."""
    from .compiler import promotion

    def operand(value, position):
        if isinstance(value, Tensor):
            return _graph_name(value.dtype), promotion.DIMENSIONED if value.dim() else promotion.ZERO_DIM
        kinds = {bool: "b1", int: "i64", float: "f64", complex: "c128"}
        kind = next((name for kind, name in kinds.items() if isinstance(value, kind)), None)
        if kind is None:
            raise TypeError(f"result_type(): argument 'tensor{position}' (position {position}) must be Tensor or Number, not {type(value).__name__}")
        return kind, promotion.NUMBER
    return _dtype_of_graph_name(promotion.result_type([operand(tensor1, 1), operand(tensor2, 2)], _graph_name(_C.get_default_dtype())))


def promote_types(type1, type2):
    """The smallest dtype that holds both."""
    from .compiler import promotion
    for position, value in enumerate((type1, type2), 1):
        if not isinstance(value, _C.dtype):
            raise TypeError(f"promote_types(): argument 'type{position}' (position {position}) must be torch.dtype, not {type(value).__name__}")
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
    return promotion.can_cast(_graph_name(from_), _graph_name(to))


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


def broadcast_to(input, size):
    """The tensor expanded to a size."""
    return input.expand(size)


def atleast_1d(*tensors):
    return _each(tensors, lambda t: t.reshape(1) if t.dim() == 0 else t)


def atleast_2d(*tensors):
    return _each(tensors, lambda t: t.reshape(1, 1) if t.dim() == 0 else t.unsqueeze(0) if t.dim() == 1 else t)


def atleast_3d(*tensors):
    return _each(tensors, lambda t: t.reshape(1, 1, 1) if t.dim() == 0 else t[None, :, None] if t.dim() == 1 else t.unsqueeze(-1) if t.dim() == 2 else t)


def _each(tensors, change):
    if len(tensors) == 1:
        return change(tensors[0]) if isinstance(tensors[0], Tensor) else tuple(change(t) for t in tensors[0])
    return tuple(change(t) for t in tensors)


def _joined(name, tensors, dim, out):
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return _op("cat")(tensors, dim) if out is None else _op("cat")(tensors, dim, out=out)


def hstack(tensors, *, out=None):
    """Tensors side by side: along the second dimension, the first for vectors."""
    tensors = atleast_1d(list(tensors))
    return _joined("hstack", tensors, 0 if tensors and tensors[0].dim() == 1 else 1, out)


def vstack(tensors, *, out=None):
    """Tensors one below the other."""
    return _joined("vstack", atleast_2d(list(tensors)), 0, out)


def dstack(tensors, *, out=None):
    """Tensors behind one another."""
    return _joined("dstack", atleast_3d(list(tensors)), 2, out)


row_stack = vstack


def column_stack(tensors, *, out=None):
    """Tensors side by side; vectors become columns."""
    return _joined("column_stack", [t.reshape(t.numel(), 1) if t.dim() <= 1 else t for t in tensors], 1, out)


def meshgrid(*tensors, indexing=None):
    """Coordinates of a grid, one tensor for each vector."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    if indexing is None:
        import warnings
        warnings.warn("torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.", stacklevel=2)
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
    return _into(out, rows)


argwhere = lambda input: _op("_nonzero")(input)  # noqa: E731
argwhere.__name__, argwhere.__doc__ = "argwhere", "The indices of elements that are not zero, a row each."


def index_put(input, indices, values, accumulate=False):
    """A copy of the tensor with `values` written, or added, at `input[indices]`."""
    return _op("_index_put")(input, _C.index_positions(input, indices), values, accumulate)


def index_put_(input, indices, values, accumulate=False):
    """`values` written, or added, at `input[indices]`, in place."""
    return registry.find("_index_put").op.inplace_function(input, _C.index_positions(input, indices), values, accumulate)


# Functions that are methods too: the tensor is their first argument.
for _function in (nonzero, argwhere, index_put, index_put_, equal, allclose, is_nonzero):
    setattr(Tensor, _function.__name__, _function)
