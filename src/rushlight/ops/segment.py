"""Reductions over stretches of a dimension whose bounds are data: segment_reduce, and embedding_bag, which reduces rows of a table."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples_composite import segments
from .common import hint, shape_text, wrap_dim


def segment_numbers(bounds, count):
    """For each of `count` places along the last dimension: how many bounds are at or before it. Segment s, from bounds[s] to bounds[s + 1], has the
    number s + 1; 0 is what lies before the first bound, and the number of bounds what lies after the last."""
    lead = bounds.shape[:-1]
    rank = len(lead) + 1
    marks = T.expand(T.const(0, "i64"), tuple(lead) + (count + 1,))
    at = [T.iota(s, d, rank) for d, s in enumerate(lead)]
    marks = T.scatter(marks, [*at, bounds], T.const(1, "i64"), "add")
    return T.slice(T.scan("sum", marks, rank - 1), rank - 1, 0, count, 1)


def _gathered(values, numbers, dim, segments, combine, start):
    """values along `dim` combined by number, those outside of all segments left out. numbers: of the rank of values, 1 where they do not differ."""
    shape = values.shape[:dim] + (segments + 2,) + values.shape[dim + 1:]
    at = [numbers if d == dim else T.iota(s, d, values.ndim) for d, s in enumerate(values.shape)]
    out = T.scatter(T.expand(T.cast(start, values.dtype), shape), at, values, combine)
    return T.slice(out, dim, 1, segments + 1, 1)


_COMBINE = {"sum": "add", "mean": "add", "max": "max", "amax": "max", "min": "min", "amin": "min", "prod": "mul"}
_START = {"add": 0.0, "max": -math.inf, "min": math.inf, "mul": 1.0}


def _segment_rule(data, reduce, *_):
    if reduce not in _COMBINE:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if not T.is_float(data.dtype):
        raise NotImplementedError(f"\"_segment_reduce_cpu\" not implemented for '{T.dtype_word(data.dtype)}'")
    return T.compute_dtype(data.dtype), data.dtype


@op("segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, Tensor? offsets=None, int axis=0, bool unsafe=False, "
    "Scalar? initial=None) -> Tensor", rule=_segment_rule, promote=("data",), on="torch", layout="contiguous", out=False, node="SegmentReduceBackward0",
    aliases=("_segment_reduce",), samples=segments("segment_reduce"))
def segment_reduce(data, reduce, lengths, indices, offsets, axis, unsafe, initial):
    """The sum, mean, max, min or prod of each segment of a dimension. `lengths` says how long the segments are, or `offsets` where they begin and the last
    one ends. `initial` takes part in every segment and is the result of an empty one."""
    axis = wrap_dim(axis, data.ndim)
    if indices is not None:
        raise RuntimeError("segment_reduce(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    given, name = (offsets, "offsets") if offsets is not None else (lengths, "lengths")
    if given.dtype not in ("i64", "i32"):
        raise NotImplementedError(f"\"_segment_reduce_{name}_cpu_kernel1\" not implemented for '{T.dtype_word(given.dtype)}'")
    if given.ndim != axis + 1:
        raise RuntimeError(f"segment_reduce(): Expected axis to be the last dimension of {name} but got {axis}.")
    for d in range(axis):
        if not given.shape[d] == data.shape[d]:
            raise RuntimeError(f"segment_reduce(): Expected data and {name} to agree before the axis, but their shapes are {shape_text(data.shape)} and "
                               f"{shape_text(given.shape)}")
    count = data.shape[axis]
    bounds = T.cast(given, "i64")
    if name == "lengths":
        bounds = T.check(bounds, 0, None, ("RuntimeError", "lengths contains negative value!"))
        bounds = T.scan("sum", T.pad(bounds, axis, 1, 0), axis)
    segments = bounds.shape[axis] - 1
    words = ("segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe." if name == "lengths" else
             "segment_reduce(): offsets must rise from 0 to at most the size of data along the axis")
    bounds = T.check(bounds, 0, count + 1, ("RuntimeError", words))
    sizes = T.slice(bounds, axis, 1, segments + 1, 1) - T.slice(bounds, axis, 0, segments, 1)
    if name == "offsets":
        sizes = T.check(sizes, 0, None, ("RuntimeError", words))
    elif not unsafe:
        end = T.slice(bounds, axis, segments, segments + 1, 1)
        missing = T.check(T.size(count, "i64") - end, 0, 1, ("RuntimeError", words))
        bounds = bounds + missing                         # nothing is: the test must stay in the history
    rest = (1,) * (data.ndim - axis - 1)
    numbers = T.reshape(segment_numbers(bounds, count), tuple(data.shape[:axis + 1]) + rest)
    combine = _COMBINE[reduce]
    start = T.const(_START[combine], data.dtype) if initial is None else T.cast(initial, data.dtype)
    out = _gathered(data, numbers, axis, segments, combine, start)
    if reduce != "mean":
        return out
    sizes = T.reshape(sizes, tuple(sizes.shape) + rest)
    empty = T.prim("eq", sizes, 0)
    mean = out / T.cast(T.where(empty, 1, sizes), data.dtype)
    return mean if initial is not None else T.where(empty, math.nan, mean)


# ------------------------------------------------------------------------------------------------------------- embedding_bag
_FLOATS = {"f16": "torch.HalfTensor", "bf16": "torch.BFloat16Tensor", "f32": "torch.FloatTensor", "f64": "torch.DoubleTensor"}
_TYPES = {**_FLOATS, "i64": "torch.LongTensor", "i32": "torch.IntTensor", "i16": "torch.ShortTensor", "i8": "torch.CharTensor", "u8": "torch.ByteTensor",
          "b1": "torch.BoolTensor"}
_CHECKING = "(while checking arguments for embedding_bag)"


def _bag_rule(weight, indices, offsets, mode, padding_idx, per_sample_weights, scale_grad_by_freq):
    for name, x in (("indices", indices), ("offsets", offsets)):
        if x.dtype not in ("i64", "i32"):
            raise RuntimeError(f"Expected tensor for argument #1 '{name}' to have one of the following scalar types: Long, Int; but got "
                               f"{_TYPES.get(x.dtype, x.dtype)} instead {_CHECKING}")
    if weight.dtype not in _FLOATS:
        raise RuntimeError("Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, Float, Double; but got "
                           f"{_TYPES.get(weight.dtype, weight.dtype)} instead {_CHECKING}")
    if per_sample_weights is not None and per_sample_weights.dtype != weight.dtype:
        raise RuntimeError("Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1 'per_sample_weights'; but type "
                           f"{_FLOATS[weight.dtype]} does not equal {_TYPES.get(per_sample_weights.dtype, per_sample_weights.dtype)} {_CHECKING}")
    return T.compute_dtype(weight.dtype), weight.dtype


def _bags(weight, indices, offsets, padding_idx):
    """(rows of the table as checked indices [n, 1], which of them count [n, 1], the number of the bag of each [n, 1], bags)."""
    n = indices.shape[0]
    i = T.check(T.cast(indices, "i64"), 0, weight.shape[0], ("RuntimeError", "Index of input takes value {value} which is not in the valid range [0, {size})"))
    bounds = T.check(T.cast(offsets, "i64"), 0, n + 1, ("RuntimeError", f"offsets[-1] can not be greater than input's length {hint(n)} but got offsets[-1] of {{value}}"))
    bags = bounds.shape[0] - 1
    sizes = T.slice(bounds, 0, 1, bags + 1, 1) - T.slice(bounds, 0, 0, bags, 1)
    sizes = T.check(sizes, 0, None, ("RuntimeError", "embedding_bag: offsets must not fall, but a bag ends before it begins"))
    bounds = bounds + T.pad(T.where(sizes < 0, 1, 0), 0, 1, 0)          # adds nothing: the test must stay in the history
    i = T.reshape(i, (n, 1))
    counts = T.prim("ne", i, T.size(padding_idx, "i64"))
    return i, counts, T.reshape(segment_numbers(bounds, n), (n, 1)), bags


@op("_embedding_bag(Tensor weight, Tensor indices, Tensor offsets, str mode, SymInt padding_idx=-1, Tensor? per_sample_weights=None, "
    "bool scale_grad_by_freq=False) -> Tensor", rule=_bag_rule, promote=("weight", "per_sample_weights"), on="-", layout="contiguous", out=False,
    node="EmbeddingBagBackward0", samples=segments("embedding_bag"))
def _embedding_bag(weight, indices, offsets, mode, padding_idx, per_sample_weights, scale_grad_by_freq):
    """The sum, mean or max of rows of a table, bag by bag. `offsets` has where each bag begins, and the end of the last. The row `padding_idx` does not
    count; an empty bag is 0."""
    i, counts, numbers, bags = _bags(weight, indices, offsets, padding_idx)
    n, width = indices.shape[0], weight.shape[1]
    rows = T.load(weight, [i, T.iota(width, 1, 2)])
    if mode == "max":
        out = _gathered(T.where(counts, rows, -math.inf), T.expand(numbers, (n, 1)), 0, bags, "max", T.const(-math.inf, rows.dtype))
        return T.where(T.prim("eq", _bag_sizes(counts, numbers, bags), 0), 0, out)
    if per_sample_weights is not None:
        rows = rows * T.reshape(per_sample_weights, (n, 1))
    out = _gathered(T.where(counts, rows, 0), numbers, 0, bags, "add", T.const(0, rows.dtype))
    if mode == "sum":
        return out
    sizes = _bag_sizes(counts, numbers, bags)
    return out / T.cast(T.where(T.prim("eq", sizes, 0), 1, sizes), out.dtype)


def _bag_sizes(counts, numbers, bags):
    return _gathered(T.cast(counts, "i64"), numbers, 0, bags, "add", T.const(0, "i64"))


@_embedding_bag.gradient("weight")
def _(grad, result, weight, indices, offsets, mode, padding_idx, per_sample_weights, scale_grad_by_freq):
    i, counts, numbers, bags = _bags(weight, indices, offsets, padding_idx)
    n, width = indices.shape[0], weight.shape[1]
    inside = counts & (numbers > 0) & T.prim("le", numbers, T.size(bags, "i64"))
    bag, columns = T.where(inside, numbers - 1, 0), T.iota(width, 1, 2)
    if mode == "max":                                     # of equal rows in a bag the first takes it all
        rows = T.load(weight, [i, columns])
        hit = inside & T.prim("eq", rows, T.load(result, [bag, columns]))
        place = T.iota(n, 0, 2)
        first = T.scatter(T.expand(T.size(n, "i64"), (bags, width)), [bag, columns], T.where(hit, place, T.size(n, "i64")), "min")
        share = T.where(hit & T.prim("eq", T.load(first, [bag, columns]), place), T.load(grad, [bag, columns]), 0)
    else:
        if mode == "mean":
            sizes = _bag_sizes(counts, numbers, bags)
            grad = grad / T.cast(T.where(T.prim("eq", sizes, 0), 1, sizes), grad.dtype)
        share = T.where(inside, T.load(grad, [bag, columns]), 0)
        if per_sample_weights is not None:
            share = share * T.reshape(per_sample_weights, (n, 1))
        if scale_grad_by_freq:
            often = T.scatter(T.expand(T.const(0, "i64"), (weight.shape[0],)), [i], T.const(1, "i64"), "add")
            share = share / T.cast(T.load(often, [i]), share.dtype)
    return T.scatter(T.expand(T.const(0, grad.dtype), weight.shape), [i, columns], share, "add")


