"""Functions that count values and decide first what to count, or what to return: `torch.unique`, `torch.histogram`. The operators are in ops/count.py."""
from __future__ import annotations

import math
from typing import NamedTuple

from . import _C, registry
from .overrides import aware
from .tensor import Tensor


def _op(name):
    return registry.find(name).op.function


def _asked_for(results, return_inverse, return_counts):
    values, inverse, counts = results
    out = (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))
    return out if len(out) > 1 else values


@aware
def unique(input, sorted=True, return_inverse=False, return_counts=False, dim=None):
    """The different values of a tensor (or entries along `dim`), always ascending. A NaN equals nothing, so each is one of them.

    `return_inverse`: also the place of each element among them; `return_counts`: also how often each occurs.
    """
    if dim is None:
        return _asked_for(_op("_unique2")(input, sorted, return_inverse, return_counts), return_inverse, return_counts)
    return _asked_for(_op("unique_dim")(input, dim, sorted, return_inverse, return_counts), return_inverse, return_counts)


@aware
def unique_consecutive(input, return_inverse=False, return_counts=False, dim=None):
    """The first of each run of equal elements (or entries along `dim`)."""
    return _asked_for(_op("_unique_consecutive")(input, return_inverse, return_counts, dim), return_inverse, return_counts)


# ------------------------------------------------------------------------------------------------------------- histograms
def _need_float(input):
    if input.dtype not in (_C.float32, _C.float64):
        from .functions import _name
        raise NotImplementedError(f"\"histogramdd\" not implemented for '{_name(input.dtype)}'")


def _c_name(dtype):
    return {_C.float32: "float", _C.float64: "double", _C.int64: "long int", _C.int32: "int"}.get(dtype, str(dtype))


def _edges(columns, bins, range):
    """One vector of edges for each column of a matrix: as given, or so many equal bins over a range, by default the data's."""
    dims = columns.shape[1]
    edges = []
    if range is not None and len(range) != 2 * dims:
        raise RuntimeError(f"torch.histogramdd: for a {dims}-dimensional histogram range should have {2 * dims} elements, but got {len(range)}")
    lows = highs = None
    for k, b in enumerate(bins):
        if isinstance(b, Tensor):
            if b.dim() != 1:
                raise RuntimeError(f"torch.histogramdd: bins tensor should have one dimension, but got {b.dim()} dimensions in the bins tensor for dimension {k}")
            if b.numel() == 0:
                raise RuntimeError(f"torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for dimension {k}")
            if b.dtype is not columns.dtype:
                raise RuntimeError(f"torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype {_c_name(columns.dtype)} "
                                   f"and bins for dimension {k} with dtype {_c_name(b.dtype)}")
            if b.numel() == 1:
                raise RuntimeError(f"torch.histogram(): bins must be > 0, but got 0 for dimension {k}")
            edges.append(b)
            continue
        if b <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {b} for dimension {k}")
        if range is not None:
            low, high = float(range[2 * k]), float(range[2 * k + 1])
        elif columns.shape[0] == 0:
            low, high = 0.0, 1.0
        else:
            if lows is None:
                lows, highs = (t.tolist() for t in _op("aminmax")(columns.detach(), dim=0))
            low, high = lows[k], highs[k]
        if not (math.isfinite(low) and math.isfinite(high)):
            raise RuntimeError(f"torch.histogramdd: dimension {k}'s range [{low:g}, {high:g}] is not finite")
        if low > high:
            raise RuntimeError(f"torch.histogramdd: min should not exceed max, but got min {low:g} max {high:g} for dimension {k}")
        if low == high:
            low, high = low - 0.5, high + 0.5
        edges.append(_op("_linspace")(b + 1, low, high, dtype=columns.dtype))
    return edges


def _histogram(columns, bins, range, weight, density, shape):
    _need_float(columns)
    if weight is not None:
        if tuple(weight.shape) != tuple(shape[:-1]):
            raise RuntimeError("torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its innermost "
                               f"dimension, but got input with shape {list(shape)} and weight with shape {list(weight.shape)}")
        if weight.dtype is not columns.dtype:
            raise RuntimeError("torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got "
                               f"input({_c_name(columns.dtype)}), and weight({_c_name(weight.dtype)})")
        weight = weight.reshape(-1)
    edges = _edges(columns.detach(), bins, range)
    even = not any(isinstance(b, Tensor) for b in bins)
    return _op("_histogramdd")(columns, edges, weight, density, even), edges


@aware
def histogram(input, bins=100, *, range=None, weight=None, density=False, out=None):
    """How many elements (what weight) lie in each bin, and the edges of the bins: `bins` equal ones over a range, or between the edges given."""
    if isinstance(bins, Tensor) and range is not None:
        raise TypeError("histogram() received an invalid combination of arguments: edges and a range do not go together")
    flat = input.reshape(-1, 1)
    shape = (*input.shape, 1)
    hist, edges = _histogram(flat, [bins], range, weight, density, shape)
    if out is not None:
        for name, o in zip(("hist", "bin_edges"), out):
            if o.dtype is not input.dtype:
                raise RuntimeError(f"torch.histogram: input tensor and {name} tensor should have the same dtype, but got input {_c_name(input.dtype)} and "
                                   f"{name} {_c_name(o.dtype)}")
        from .functions import _into
        hist, edges = _into(out[0], hist), [_into(out[1], edges[0])]
    return registry.find("histogram").op.result_type((hist, edges[0]))


class HistogramDD(NamedTuple):
    """What histogramdd returns."""
    hist: Tensor
    bin_edges: tuple


@aware
def histogramdd(input, bins, *, range=None, weight=None, density=False):
    """A histogram of rows of numbers: one dimension of the result, and one vector of edges, for each column."""
    if input.dim() < 2:
        raise RuntimeError("torch.histogramdd: input tensor should have at least 2 dimensions")
    dims = input.shape[-1]
    bins = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(bins) != dims:
        raise RuntimeError("histogramdd: The size of bins must be equal to the innermost dimension of the input.")
    hist, edges = _histogram(input.reshape(-1, dims), bins, range, weight, density, input.shape)
    return HistogramDD(hist, tuple(edges))


for _function in (unique, unique_consecutive, histogram):
    setattr(Tensor, _function.__name__, _function)
