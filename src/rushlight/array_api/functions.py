"""The standard's functions over torch's operators: other names, `axis` for `dim`, promotion by dtype alone, any number of reduced axes."""
from __future__ import annotations

import builtins
import math
from typing import NamedTuple

import rushlight as rl

from .. import registry
from .dtypes import Tensor, is_integer, numbers, result_type, together

# ------------------------------------------------------------------------------------------------------------- elementwise
SAME = """acos acosh asin asinh atan atanh abs ceil cos cosh exp expm1 floor isfinite isinf isnan log log10 log1p log2 logical_not negative
    positive reciprocal round signbit sin sinh sqrt square tan tanh trunc real imag""".split()

# The standard's functions of two arrays, and the operators they are.
OF_TWO = {name: name for name in """add atan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift copysign floor_divide hypot
    logaddexp logical_and logical_or logical_xor maximum minimum nextafter pow remainder""".split()}
OF_TWO |= {"divide": "div", "equal": "eq", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "multiply": "mul",
           "not_equal": "ne", "subtract": "sub"}


def _of_two(name, operator):
    definition = registry.find(operator)
    run = definition.op.function
    takes_number = [builtins.any("Scalar" in s.params[i].type for s in definition.signatures) for i in (0, 1)]

    def function(x1, x2, /):
        first, second = isinstance(x1, Tensor), isinstance(x2, Tensor)
        if first and second:
            if x1.dtype is not x2.dtype:
                x1, x2 = together(x1, x2)
        elif not (first or takes_number[0]) or not (second or takes_number[1]):
            x1, x2 = together(x1, x2)
        return run(x1, x2)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = definition.body.__doc__
    return function


globals().update({name: getattr(rl, name) for name in SAME})
globals().update({name: _of_two(name, operator) for name, operator in OF_TWO.items()})
bitwise_invert = rl.bitwise_not
conj = rl.conj_physical                    # a copy: other libraries cannot read torch's conjugate views


def sign(x, /):
    """-1, 0 or 1; NaN of NaN; of a complex number, the one of magnitude 1 in its direction."""
    if x.dtype.is_complex:
        return rl.sgn(x)
    signs = rl.sign(x)
    return rl.where(rl.isnan(x), x, signs) if x.dtype.is_floating_point else signs


def clip(x, /, min=None, max=None):
    """The array with values below `min` and above `max` replaced by them, in its own dtype."""
    low, high = (b.to(x.dtype) if isinstance(b, Tensor) else b for b in (min, max))
    if low is None and high is None:
        return x.clone()
    if isinstance(low, Tensor) or isinstance(high, Tensor):
        low, high = (rl.asarray(b, dtype=x.dtype, device=x.device) if isinstance(b, numbers) else b for b in (low, high))
        shape = rl.broadcast_shapes(*(b.shape for b in (x, low, high) if b is not None))
        x = x.expand(shape)
    return rl.clamp(x, low, high).to(x.dtype)


# ---------------------------------------------------------------------------------------------------------------- creation
def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def arange(start, /, stop=None, step=1, *, dtype=None, device=None):
    """Numbers from start (0) to stop, not included, by step."""
    if stop is None:
        start, stop = 0, start
    if step and (stop - start) / step <= 0:
        whole = builtins.all(isinstance(v, int) for v in (start, stop, step))
        return rl.empty((0,), dtype=dtype or (rl.int64 if whole else rl.get_default_dtype()), device=device)
    return rl.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj, /, *, dtype=None, device=None, copy=None):
    """An array of numbers, sequences, buffers or arrays; copy=False raises where the memory cannot be shared."""
    if device is None and isinstance(obj, Tensor):
        device = obj.device
    return rl.asarray(obj, dtype=dtype, device=device, copy=copy)


def empty(shape, *, dtype=None, device=None):
    """An array with whatever its memory holds."""
    return rl.empty(_shape(shape), dtype=dtype, device=device)


def zeros(shape, *, dtype=None, device=None):
    """An array of zeros."""
    return rl.zeros(_shape(shape), dtype=dtype, device=device)


def ones(shape, *, dtype=None, device=None):
    """An array of ones."""
    return rl.ones(_shape(shape), dtype=dtype, device=device)


def full(shape, fill_value, *, dtype=None, device=None):
    """An array of one value."""
    if type(fill_value) is int and fill_value.bit_length() > 63:             # beyond what an operator's scalar holds
        return rl.asarray(fill_value, dtype=dtype or rl.uint64, device=device).expand(_shape(shape)).clone()
    return rl.full(_shape(shape), fill_value, dtype=dtype, device=device)


def empty_like(x, /, *, dtype=None, device=None):
    """An array of x's shape with whatever its memory holds."""
    return rl.empty_like(x, dtype=dtype, device=device)


def zeros_like(x, /, *, dtype=None, device=None):
    """Zeros in x's shape."""
    return rl.zeros_like(x, dtype=dtype, device=device)


def ones_like(x, /, *, dtype=None, device=None):
    """Ones in x's shape."""
    return rl.ones_like(x, dtype=dtype, device=device)


def full_like(x, /, fill_value, *, dtype=None, device=None):
    """One value in x's shape."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None):
    """Ones on the k-th diagonal of a matrix of zeros."""
    columns = n_rows if n_cols is None else n_cols
    if k == 0:
        return rl.eye(n_rows, columns, dtype=dtype, device=device)
    out = rl.zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        out.diagonal(k).fill_(1)
    return out


def from_dlpack(x, /, *, device=None, copy=None):
    """An array over the memory of another library's."""
    return rl.from_dlpack(x, device=device, copy=copy)


def linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True):
    """`num` evenly spaced numbers from start to stop; without `endpoint`, the stop is left out."""
    numbers_ = rl.linspace(start, stop, num if endpoint else num + 1, dtype=dtype, device=device)
    return numbers_ if endpoint else numbers_[:-1]


def meshgrid(*arrays, indexing="xy"):
    """Coordinate arrays of the grid over some vectors."""
    return tuple(rl.meshgrid(*arrays, indexing=indexing)) if arrays else ()


def tril(x, /, *, k=0):
    """The lower triangles of matrices, up to the k-th diagonal."""
    return rl.tril(x, k)


def triu(x, /, *, k=0):
    """The upper triangles of matrices, from the k-th diagonal."""
    return rl.triu(x, k)


# -------------------------------------------------------------------------------------------------------------- reductions
def _axes(axis, ndim):
    """Axes to reduce, without signs: all for None."""
    if axis is None:
        return tuple(range(ndim))
    given = (axis,) if isinstance(axis, int) else tuple(axis)
    for a in given:
        if not -ndim <= a < ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {a})")
    axes = tuple(a % ndim for a in given)
    if len(set(axes)) < len(axes):
        raise ValueError(f"an axis appears more than once in {given}")
    return axes


def _reduced(run, x, axis, keepdims, **options):
    """An operator that reduces any number of dimensions; reducing none treats each element as a row of one."""
    axes = _axes(axis, x.ndim)
    return run(x, axes, keepdim=keepdims, **options) if axes else run(x.unsqueeze(-1), (-1,), keepdim=False, **options)


def _reduced_at_once(run, x, axis, keepdims, **options):
    """An operator that reduces one dimension: the reduced ones are brought together first."""
    axes = _axes(axis, x.ndim)
    if len(axes) == 1:
        return run(x, axes[0], keepdim=keepdims, **options)
    kept = [a for a in range(x.ndim) if a not in axes]
    rows = x.permute((*kept, *axes)).reshape((*(x.shape[a] for a in kept), math.prod(x.shape[a] for a in axes)))
    out = run(rows, -1, keepdim=False, **options)
    return out.reshape([1 if a in axes else size for a, size in enumerate(x.shape)]) if keepdims else out


def _accumulator(x, dtype):
    """The dtype that sums and products have: integers no narrower than the default one."""
    if dtype is not None or not is_integer(x.dtype):
        return dtype
    return rl.int64 if x.dtype.is_signed else rl.uint64


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    """The sum over axes, by default all; integers are added as 64-bit ones."""
    return _reduced(rl.sum, x, axis, keepdims, dtype=_accumulator(x, dtype))


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    """The product over axes, by default all; integers are multiplied as 64-bit ones."""
    return _reduced_at_once(rl.prod, x, axis, keepdims, dtype=_accumulator(x, dtype))


def max(x, /, *, axis=None, keepdims=False):
    """The greatest value over axes, by default all; NaN if there is one."""
    return _reduced(rl.amax, x, axis, keepdims)


def min(x, /, *, axis=None, keepdims=False):
    """The least value over axes, by default all; NaN if there is one."""
    return _reduced(rl.amin, x, axis, keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    """The mean over axes, by default all."""
    return _reduced(rl.mean, x, axis, keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The standard deviation over axes, by default all; `correction` is taken from the count."""
    return _reduced(rl.std, x, axis, keepdims, correction=correction)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    """The variance over axes, by default all; `correction` is taken from the count."""
    return _reduced(rl.var, x, axis, keepdims, correction=correction)


def all(x, /, *, axis=None, keepdims=False):
    """Whether all elements along axes, by default all, are true."""
    return _reduced(rl.all, x.bool(), axis, keepdims)


def any(x, /, *, axis=None, keepdims=False):
    """Whether an element along axes, by default all, is true."""
    return _reduced(rl.any, x.bool(), axis, keepdims)


def count_nonzero(x, /, *, axis=None, keepdims=False):
    """How many elements along axes, by default all, are not zero."""
    return _reduced(rl.sum, x.bool(), axis, keepdims)


def argmax(x, /, *, axis=None, keepdims=False):
    """Where the first greatest element is, along an axis or in the flattened array."""
    return rl.argmax(x, axis, keepdims)


def argmin(x, /, *, axis=None, keepdims=False):
    """Where the first least element is, along an axis or in the flattened array."""
    return rl.argmin(x, axis, keepdims)


def _cumulative(run, start):
    def function(x, /, *, axis=None, dtype=None, include_initial=False):
        if axis is None:
            if x.ndim != 1:
                raise ValueError(f"an array of {x.ndim} dimensions needs an axis")
            axis = 0
        out = run(x, axis, dtype=_accumulator(x, dtype))
        if not include_initial:
            return out
        shape = list(out.shape)
        shape[axis] = 1
        return rl.cat([rl.full(shape, start, dtype=out.dtype, device=out.device), out], axis)
    return function


cumulative_sum = _cumulative(rl.cumsum, 0)
cumulative_sum.__doc__ = "The sums of the elements so far along an axis; `include_initial` puts a 0 before them."
cumulative_prod = _cumulative(rl.cumprod, 1)
cumulative_prod.__doc__ = "The products of the elements so far along an axis; `include_initial` puts a 1 before them."
for _name in ("cumulative_sum", "cumulative_prod"):
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name


def diff(x, /, *, axis=-1, n=1, prepend=None, append=None):
    """The differences of neighbours along an axis, n times."""
    return rl.diff(x, n, axis, prepend, append)


# ------------------------------------------------------------------------------------------------------------ manipulation
def broadcast_arrays(*arrays):
    """Arrays spread to their common shape."""
    return tuple(rl.broadcast_tensors(*arrays))


def broadcast_shapes(*shapes):
    """The shape that shapes spread to."""
    try:
        return tuple(rl.broadcast_shapes(*shapes))
    except RuntimeError as error:
        raise ValueError(str(error)) from error


def broadcast_to(x, /, shape):
    """The array spread to a shape."""
    return rl.broadcast_to(x, _shape(shape))


def concat(arrays, /, *, axis=0):
    """Arrays one after the other along an axis; flattened for None."""
    arrays = together(*arrays)
    return rl.cat([x.reshape(-1) for x in arrays] if axis is None else arrays, 0 if axis is None else axis)


def stack(arrays, /, *, axis=0):
    """Arrays side by side along a new axis."""
    return rl.stack(together(*arrays), axis)


def unstack(x, /, *, axis=0):
    """The slices of an array along an axis."""
    return tuple(rl.unbind(x, axis))


def expand_dims(x, /, axis):
    """The array with an axis of size 1 at each of the given places of the result."""
    ndim = x.ndim + (1 if isinstance(axis, int) else len(axis))
    for a in sorted(_axes(axis, ndim)):
        x = x.unsqueeze(a)
    return x


def squeeze(x, /, axis):
    """The array without some axes of size 1; another size is an error."""
    axes = _axes(axis, x.ndim)
    for a in axes:
        if x.shape[a] != 1:
            raise ValueError(f"squeeze: axis {a} has size {x.shape[a]}, not 1")
    return rl.squeeze(x, axes)


def flip(x, /, *, axis=None):
    """The array with the elements along some axes, by default all, in reverse order."""
    return rl.flip(x, _axes(axis, x.ndim))


def moveaxis(x, source, destination, /):
    """The array with some axes moved to other places."""
    return rl.movedim(x, source, destination)


def permute_dims(x, /, axes):
    """The array with its axes in another order."""
    return rl.permute(x, _shape(axes))


def repeat(x, repeats, /, *, axis=None):
    """Each element (or slice along an axis) so many times."""
    repeats = repeats.to(rl.int64) if isinstance(repeats, Tensor) else repeats
    return rl.repeat_interleave(x, repeats, axis)


def reshape(x, /, shape, *, copy=None):
    """The elements in another shape; copy=False raises ValueError where that needs a copy."""
    if copy is False:
        try:
            return x.view(_shape(shape))
        except RuntimeError as error:
            raise ValueError(str(error)) from error
    return rl.reshape(x.clone() if copy else x, _shape(shape))


def roll(x, /, shift, *, axis=None):
    """The elements moved on along some axes, the last coming first; flattened for None."""
    if axis is None:
        return rl.roll(x, shift)
    axes = _shape(axis)
    return rl.roll(x, (shift,) * len(axes) if isinstance(shift, int) else shift, axes)


def tile(x, repetitions, /):
    """The array side by side with itself, so many times along each axis."""
    return rl.tile(x, repetitions)


# -------------------------------------------------------------------------------------------- searching, sorting, indexing
def nonzero(x, /):
    """The indices of the elements that are not zero, one array for each axis."""
    if x.ndim == 0:
        raise ValueError("nonzero() of a 0-dimensional array; use reshape(x, (1,)) first")
    return rl.nonzero(x, as_tuple=True)


def where(condition, x1, x2, /):
    """x1 where the condition holds, x2 elsewhere."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        return rl.where(condition, x1, x2)
    return rl.where(condition, *together(x1, x2))


def searchsorted(x1, x2, /, *, side="left", sorter=None):
    """Where in the sorted x1 the values x2 would go: before ("left") or after ("right") equal ones."""
    x1, x2 = together(x1, x2)
    return rl.searchsorted(x1, x2, side=side, sorter=None if sorter is None else sorter.to(rl.int64))


def isin(x1, x2, /, *, invert=False):
    """Whether each element of x1 is among those of x2."""
    x1, x2 = together(x1, x2)
    return rl.isin(x1, x2, invert=invert)


def argsort(x, /, *, axis=-1, descending=False, stable=True):
    """The indices that sort an array along an axis."""
    return rl.argsort(x, dim=axis, descending=descending, stable=stable)


def sort(x, /, *, axis=-1, descending=False, stable=True):
    """The elements along an axis in order."""
    return rl.sort(x, dim=axis, descending=descending, stable=stable).values


def take(x, indices, /, *, axis=None):
    """The slices at some indices along an axis; negative ones count from the end."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take: an array of {x.ndim} dimensions needs an axis")
        axis = 0
    axis, = _axes(axis, x.ndim)
    return x[(slice(None),) * axis + (indices.to(rl.int64),)]


def take_along_axis(x, indices, /, *, axis=-1):
    """The element at an index along an axis, for each index; negative ones count from the end."""
    indices = indices.to(rl.int64)
    return rl.take_along_dim(x, rl.where(indices < 0, indices + x.shape[axis], indices), axis)


# -------------------------------------------------------------------------------------------------------------------- sets
class UniqueAll(NamedTuple):
    """The different values, where each occurs first, each element's place among them, and how often each occurs."""
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """The different values, and how often each occurs."""
    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """The different values, and each element's place among them."""
    values: Tensor
    inverse_indices: Tensor


def unique_all(x, /):
    """The different values of an array with everything about them. Each NaN is a value of its own."""
    values, inverse, counts = _unique(x)
    order = rl.arange(x.numel(), device=x.device)
    first = rl.full(values.shape, x.numel(), dtype=rl.int64, device=x.device).scatter_reduce(0, inverse.reshape(-1), order, "amin")
    return UniqueAll(values, first, inverse, counts)


def unique_counts(x, /):
    """The different values of an array, and how often each occurs."""
    values, _, counts = _unique(x)
    return UniqueCounts(values, counts)


def unique_inverse(x, /):
    """The different values of an array, and each element's place among them."""
    values, inverse, _ = _unique(x)
    return UniqueInverse(values, inverse)


def unique_values(x, /):
    """The different values of an array."""
    return _unique(x)[0]


def _unique(x):
    """Values, inverse and counts. Complex numbers are told apart by their parts, 0 and -0 being one."""
    if not x.dtype.is_complex:
        return rl.unique(x, return_inverse=True, return_counts=True)
    parts = rl.view_as_real(x.reshape(-1).resolve_conj()) + 0.0
    values, inverse, counts = rl.unique(parts, return_inverse=True, return_counts=True, dim=0)
    return rl.view_as_complex(values.contiguous()), inverse.reshape(x.shape), counts


# ---------------------------------------------------------------------------------------------------------- linear algebra
def matmul(x1, x2, /):
    """The product of matrices, of a matrix and a vector, or of vectors."""
    return rl.matmul(*together(x1, x2))


def matrix_transpose(x, /):
    """Matrices with rows and columns exchanged."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected matrices, but the array has {x.ndim} dimension(s)")
    return x.mT


def tensordot(x1, x2, /, *, axes=2):
    """Sums of products over some axes of both arrays."""
    return rl.tensordot(*together(x1, x2), dims=axes)


def vecdot(x1, x2, /, *, axis=-1):
    """The inner products of vectors along an axis; the first ones are conjugated."""
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: the vectors have sizes {x1.shape[axis]} and {x2.shape[axis]}")
    dtype = result_type(x1, x2)
    x1, x2 = together(x1, x2)
    return rl.sum(x1 * x2, axis, dtype=dtype) if is_integer(dtype) else rl.linalg.vecdot(x1, x2, dim=axis)


__all__ = sorted({*SAME, *OF_TWO, *"""bitwise_invert conj sign clip
    arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros zeros_like
    all any argmax argmin count_nonzero cumulative_prod cumulative_sum diff max mean min prod std sum var
    broadcast_arrays broadcast_shapes broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
    argsort isin nonzero searchsorted sort take take_along_axis where unique_all unique_counts unique_inverse unique_values
    matmul matrix_transpose tensordot vecdot""".split()})
