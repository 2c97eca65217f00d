"""Pools: the largest, the mean or the power mean of each window.

A window is read by index arithmetic, not copied. The largest is found tap by tap in row order, so the first of equals wins and a NaN always does;
the mean is a sum in the same order. The gradient of a mean is the transposed access (compiler/transpose.py); that of a maximum goes to the
positions that were found, which is why they are a result.
"""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples_spatial import pooling
from .common import OUT_TENSOR_DTYPE, hint, numel_of, shape_text
from .sliding import all_of, axes_of, batched, check_image, check_outputs, grid, numbers, taps_of

WRITTEN_OUT = 32         # taps of a window that are one expression; larger windows go dimension by dimension


# ------------------------------------------------------------------------------------------------------------------- maximum
def _first_inside(axis, dim, rank):
    """Where the first tap that is not before the data reads; behind its end where dilated taps step over it all."""
    start = axis.start(dim, rank)
    if axis.dilation == 1:
        return T.const(0, "i64")
    return start + T.prim("idiv", (axis.dilation - 1) - start, T.size(axis.dilation, "i64")) * axis.dilation


def _inside(axis, k, dim, rank):
    """Where tap k reads. A tap outside reads the window's nearest one inside instead: an element seen twice in a row changes neither the maximum nor its place,
    which is the first of equals but the last of NaN."""
    e = axis.tap(k, dim, rank)
    inside = all_of(axis.tests(e, k))
    if inside is None:
        return e
    first, last = _first_inside(axis, dim, rank), T.size(axis.n - 1, "i64")
    if axis.dilation > 1:                                # where no tap is inside any element does: see _or_lowest
        start = axis.start(dim, rank)
        first = T.prim("minimum", first, last)
        last = T.prim("maximum", start + T.prim("idiv", last - start, T.size(axis.dilation, "i64")) * axis.dilation, T.const(0, "i64"))
    before, after = axis.may_start_before(k), axis.may_end_after(k)
    return T.where(inside, e, T.where(e < 0, first, last) if before and after else first if before else last)


def _or_lowest(best, axis, dim):
    """The maximum of no taps at all is the lowest number: dilated ones may step over all of a short dimension."""
    if axis.dilation == 1 or not axis.pad:
        return best
    start = axis.start(dim, best.ndim)
    return T.where((start < 0) & (_first_inside(axis, dim, best.ndim) >= T.size(axis.n, "i64")), _lowest(best.dtype), best)


def _better(new, best):
    """Does a later value replace the best so far?"""
    larger = new > best
    return larger | T.prim("ne", new, new) if T.is_float(new.dtype) else larger


def _by_taps(x, axes):
    """(maximum, its place in the flattened plane), written out over all taps of a window."""
    rank = x.ndim
    lead = grid(x.shape[:2], rank)
    best = place = None
    for tap in taps_of([a.k for a in axes]):
        at = [_inside(a, k, 2 + d, rank) for d, (a, k) in enumerate(zip(axes, tap))]
        flat = at[0]
        for a, e in zip(axes[1:], at[1:]):
            flat = flat * T.size(a.n, "i64") + e
        value = T.load(x, lead + at, shape=(*x.shape[:2], *(a.out for a in axes)))
        flat = T.expand(flat, value.shape)
        if best is None:
            best, place = value, flat
        else:
            take = _better(value, best)
            best, place = T.where(take, value, best), T.where(take, flat, place)
    for d, a in enumerate(axes):
        best = _or_lowest(best, a, 2 + d)
    return best, place


def _by_dimensions(x, axes):
    """The same for large windows: the last dimension first. Rows are compared in order, so the place found is the same."""
    place = None
    for d in reversed(range(len(axes))):
        dim, a = 2 + d, axes[d]
        x, at = _along(x, dim, a)
        at = T.stored(at)
        lead = [at if i == dim else T.iota(s, i, x.ndim) for i, s in enumerate(x.shape)]
        inner = numel_of(b.n for b in axes[d + 1:])
        rest = T.load(place, lead, shape=x.shape) if place is not None else 0
        place = T.stored(at * T.size(inner, "i64") + rest)
        x = T.stored(x)
    return x, place


def _along(x, dim, a):
    """(maximum, its index along dim) of the windows of one dimension."""
    rank, shape = x.ndim, tuple(a.out if i == dim else s for i, s in enumerate(x.shape))
    at = lambda e: [e if i == dim else T.iota(s, i, rank) for i, s in enumerate(shape)]
    if a.k <= WRITTEN_OUT:
        best = place = None
        for k in range(a.k):
            e = _inside(a, k, dim, rank)
            value, e = T.load(x, at(e), shape=shape), T.expand(e, shape)
            if best is None:
                best, place = value, e
            else:
                take = _better(value, best)
                best, place = T.where(take, value, best), T.where(take, e, place)
        return _or_lowest(best, a, dim), place
    # A loop over the taps: they become a dimension before the others.
    wide = (a.k, *shape)
    e = T.iota(a.out, dim + 1, rank + 1) * a.step + T.iota(a.k, 0, rank + 1) * a.dilation - a.pad
    inside = all_of(a.tests(e))
    lead = [e if i == dim else T.iota(s, i + 1, rank + 1) for i, s in enumerate(shape)]
    taps = T.stored(T.load(x, lead, inside, _lowest(x.dtype) if inside is not None else None, shape=wide))
    which = T.iota(a.k, 0, rank + 1)
    known = T.const(True, "b1") if inside is None else inside
    largest = T.fold("amax", taps, (0,))
    # The last NaN, else the first of the largest that is inside.
    first = T.fold("amin", T.where(T.prim("eq", taps, largest) & known, which, a.k), (0,))
    last = T.fold("amax", T.where(T.prim("ne", taps, taps), which, -1), (0,))
    k = T.reshape(T.where(last >= 0, last, first), shape)
    place = k * a.dilation + a.start(dim, rank)
    return T.reshape(largest, shape), place if a.dilation == 1 else T.prim("minimum", place, T.size(a.n - 1, "i64"))      # no tap inside: any place will do


def _lowest(dtype):
    if T.is_float(dtype):
        return T.const(-math.inf, dtype)
    return T.const(0 if dtype[0] == "u" else -(1 << (int(dtype[1:]) - 1)), dtype)


def largest(x, axes):
    """(maximum, place) of each window of x, which has a batch dimension."""
    return _by_taps(x, axes) if numel_of(a.k for a in axes) <= WRITTEN_OUT else _by_dimensions(x, axes)


def scattered(grad, indices, sizes):
    """grad added at its places in planes of the given sizes."""
    lead, planes = grad.shape[:2], (*grad.shape[:2], numel_of(sizes))
    flat = (*lead, numel_of(grad.shape[2:]))
    zeros = T.expand(T.const(0, grad.dtype), planes)
    at = [T.iota(s, d, 3) for d, s in enumerate(lead)] + [T.reshape(indices, flat)]
    return T.reshape(T.scatter(zeros, at, T.reshape(grad, flat), "add"), (*lead, *sizes))


def _max_axes(x, count, kernel_size, stride, padding, dilation, ceil_mode, name):
    kernel = numbers(kernel_size, count, name, "kernel_size")
    stride = numbers(stride, count, name, "stride", kernel)
    padding, dilation = numbers(padding, count, name, "padding"), numbers(dilation, count, name, "dilation")
    if x.ndim not in (count + 1, count + 2):
        raise RuntimeError(f"non-empty {count + 1}D or {count + 2}D (batch mode) tensor expected for input")
    axes = axes_of(x.shape[x.ndim - count:], kernel, stride, padding, dilation, ceil_mode)
    if count == 3:
        _check_volume(x, "max_pool3d_with_indices_out_cpu_template()")
    else:
        check_image(x, count)
    if any(p > k // 2 for p, k in zip(padding, kernel)):
        given = {"k": kernel, "pad": padding}
        if count == 3:
            listed = " ".join(f"{what}{letter}: {values[i]}" for what, values in given.items() for i, letter in ((0, "T"), (2, "W"), (1, "H")))
        else:
            listed = f"padW = {padding[1]}, padH = {padding[0]}, kW = {kernel[1]}, kH = {kernel[0]}"
        raise RuntimeError(f"pad should be smaller than or equal to half of kernel size, but got {listed}")
    check_outputs(x.shape[-count - 1], axes)
    return axes


def _check_volume(x, name):
    for d, s in enumerate(x.shape):
        if s == 0 and (d > 0 or x.ndim == 4):
            raise RuntimeError(f"{name}: Expected input's non-batch dimensions to have positive length, but input has a shape of "
                               f"{shape_text(x.shape)} and non-batch dimension {d - (x.ndim - 4) if x.ndim == 4 else d - 2 if d > 1 else 0} has length zero!")


def _max_pool(x, count, axes):
    image, back = batched(x, count)
    best, place = largest(image, axes)
    return back(best), back(T.kept(place))


_NUMBERS = "int[{0}] kernel_size, int[{0}]? stride=None, int[{0}] padding=0, int[{0}] dilation=1, bool ceil_mode=False"


def _max_pool_with_indices(count):
    name = f"max_pool{count}d_with_indices"
    public = f"max_pool{count}d"

    @op(f"{name}(Tensor self, {_NUMBERS.format(count)}) -> (Tensor result, Tensor indices)", rule=None, on="-", layout="spatial",
        node=f"MaxPool{count}DWithIndicesBackward0", out=False, refuses="bc", kernel=public, samples=None)
    def with_indices(self, kernel_size, stride, padding, dilation, ceil_mode):
        return _max_pool(self, count, _max_axes(self, count, kernel_size, stride, padding, dilation, ceil_mode, public))

    @with_indices.gradient("self")
    def _(grad, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
        axes = _max_axes(self, count, kernel_size, stride, padding, dilation, ceil_mode, public)
        (g, back), (i, _) = batched(grad, count), batched(indices, count)
        return back(scattered(g, i, [a.n for a in axes]))
    return with_indices


_with_indices = {count: _max_pool_with_indices(count) for count in (2, 3)}


@op("max_pool2d(Tensor self, " + _NUMBERS.format(2) + ") -> Tensor", rule=None, on="torch", layout="spatial", node="MaxPool2DWithIndicesBackward0",
    out=False, refuses="bc", samples=pooling("max", 2))
def max_pool2d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest element of each window of the last two dimensions. Of equal ones the first gets the gradient; NaN counts as largest.

    >>> rushlight.max_pool2d(rushlight.arange(16.).reshape(1, 4, 4), 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    return _with_indices[2](self, kernel_size, stride, padding, dilation, ceil_mode)[0]


@op("max_pool3d(Tensor self, " + _NUMBERS.format(3) + ") -> Tensor", rule=None, on="torch", layout="spatial", node="MaxPool3DWithIndicesBackward0",
    out=False, refuses="bc", samples=pooling("max", 3))
def max_pool3d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest element of each window of the last three dimensions. See `max_pool2d`."""
    return _with_indices[3](self, kernel_size, stride, padding, dilation, ceil_mode)[0]


@op("max_pool1d_with_indices(Tensor self, " + _NUMBERS.format(1) + ") -> (Tensor result, Tensor indices)", rule=None, on="torch", layout="contiguous",
    node="SqueezeBackward1", out=False, refuses="bc", kernel="max_pool2d", samples=pooling("max", 1))
def max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest element of each window of the last dimension, and where it was."""
    _check_signal(self)
    image = T.reshape(self, (*self.shape[:-1], 1, self.shape[-1]))
    one = lambda given: None if given is None else (1, *given)
    best, place = _with_indices[2](image, one(kernel_size), one(stride), (0, *padding), one(dilation), ceil_mode)
    shape = (*self.shape[:-1], best.shape[-1])
    return T.reshape(best, shape), T.reshape(place, shape)


@op("max_pool1d(Tensor self, " + _NUMBERS.format(1) + ") -> Tensor", rule=None, on="torch", layout="contiguous", node="SqueezeBackward1", out=False,
    refuses="bic", kernel="max_pool1d_impl", samples=pooling("max", 1))
def max_pool1d(self, kernel_size, stride, padding, dilation, ceil_mode):
    """The largest element of each window of the last dimension. See `max_pool2d`."""
    _check_signal(self)
    stride = kernel_size if stride is None or len(stride) == 0 else stride
    for what, (v, *_) in (("kernel_size", kernel_size), ("stride", stride), ("dilation", dilation)):
        if v <= 0:
            raise RuntimeError(f"max_pool1d() {what} must be greater than zero, but got {v}")
    (k, *_), (s, *_), (p, *_), (d, *_) = kernel_size, stride, padding, dilation
    if p < 0:
        raise RuntimeError(f"max_pool1d() padding must be non-negative, but got {p}")
    if p > k // 2:
        raise RuntimeError(f"max_pool1d() padding should be at most half of kernel size, but got padding={p} and kernel_size={k}")
    n = self.shape[-1]
    out = (n + 2 * p - d * (k - 1) - 1) // s + 1
    if not ceil_mode and out <= 0:
        raise RuntimeError(f"max_pool1d() Invalid computed output size: {hint(out)}")
    return max_pool1d_with_indices(self, kernel_size, stride, padding, dilation, ceil_mode)[0]


def _check_signal(x):
    empty = False
    for s in x.shape[-2:]:
        empty = empty or bool(s == 0)
    if x.ndim not in (2, 3) or empty:
        raise RuntimeError(f"max_pool1d: Expected 2D or 3D (batch mode) tensor with optional 0 dim batch size for input, but got:{shape_text(x.shape)}")


@op("max_pool2d_with_indices_backward(Tensor grad_output, Tensor self, int[2] kernel_size, int[2] stride, int[2] padding, int[2] dilation, bool ceil_mode, Tensor indices) -> Tensor", once=True,
    rule=None, on="torch", layout="spatial 1", node="MaxPool2DWithIndicesBackwardBackward0", out=False, samples=None)
def max_pool2d_with_indices_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """The gradient of `max_pool2d`: each element of grad_output added where the maximum of its window was."""
    axes = _max_axes(self, 2, kernel_size, stride, padding, dilation, ceil_mode, "max_pool2d")
    (g, back), (i, _) = batched(grad_output, 2), batched(indices, 2)
    return back(scattered(g, i, [a.n for a in axes]))


# ---------------------------------------------------------------------------------------------------------------------- mean
def window_sum(x, axes):
    """The sum of each window of x (batch and channels first); positions outside count as 0."""
    count = len(axes)
    rank = count + 2 + count
    lead, tests = [], []
    for d, s in enumerate(x.shape[:2]):
        lead.append(T.iota(s, count + d, rank))
    for d, a in enumerate(axes):
        e = T.iota(a.out, count + 2 + d, rank) * a.step + T.iota(a.k, d, rank) * a.dilation - a.pad
        tests += a.tests(e)
        lead.append(e)
    shape = (*(a.k for a in axes), *x.shape[:2], *(a.out for a in axes))
    inside = all_of(tests)
    taps = T.load(x, lead, inside, 0 if inside is not None else None, shape=shape)
    return T.reshape(T.fold("sum", taps, tuple(range(count))), shape[count:])


def _window_sizes(axes, include_pad, rank, dtype):
    """How many elements each window has, as torch counts them: positions in the padding only if asked, what hangs over never. An int when all are equal."""
    if all((a.pad == 0 or include_pad) and not a.ceil for a in axes):
        return numel_of(a.k for a in axes)
    total = None
    for d, a in enumerate(axes):
        start = a.start(2 + d, rank)
        end = T.prim("minimum", start + a.k, T.size(a.n + a.pad, "i64"))
        if not include_pad:
            start, end = T.prim("maximum", start, T.const(0, "i64")), T.prim("minimum", end, T.size(a.n, "i64"))
        total = end - start if total is None else total * (end - start)
    return T.cast(total, dtype)


def _avg_pool(x, count, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, name):
    kernel = numbers(kernel_size, count, name, "kernel_size")
    stride = numbers(stride, count, name, "stride", kernel)
    padding = numbers(padding, count, name, "padding")
    if divisor_override == 0:
        raise RuntimeError("divisor must be not zero")
    if count == 3 and x.ndim not in (4, 5):
        raise RuntimeError("non-empty 4D or 5D (batch mode) tensor expected for input")
    if x.ndim < count + 1:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-x.ndim}, {x.ndim - 1}], but got {-count - 1})")
    axes = axes_of(x.shape[x.ndim - count:], kernel, stride, padding, (1,) * count, ceil_mode)
    check_image(x, count)
    check_outputs(x.shape[-count - 1], axes)
    image, back = batched(x, count)
    total = window_sum(image, axes)
    divisor = divisor_override if divisor_override is not None else _window_sizes(axes, count_include_pad, image.ndim, x.dtype)
    if isinstance(divisor, int):
        divisor = T.const(divisor, x.dtype)
    return back(T.prim("div", total, divisor) if T.is_float(x.dtype) else T.prim("idiv", total, divisor))


def _mean_dtype(kernel):
    """Floats, and int64 (which divides as integers do); torch has no kernel for anything else."""
    def rule(*arguments):
        dtype = arguments[0].dtype
        if not T.is_float(dtype) and dtype != "i64":
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{T.dtype_word(dtype)}'")
        return "same"
    return rule


@op("avg_pool2d(Tensor self, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, "
    "int? divisor_override=None) -> Tensor", once=True, rule=_mean_dtype("avg_pool2d"), on="F", layout="spatial", node="AvgPool2DBackward0", out=OUT_TENSOR_DTYPE, samples=pooling("avg", 2))
def avg_pool2d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """The mean of each window of the last two dimensions.

    >>> rushlight.nn.functional.avg_pool2d(rushlight.arange(16.).reshape(1, 4, 4), 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    """
    return _avg_pool(self, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, "avg_pool2d")


@op("avg_pool3d(Tensor self, int[3] kernel_size, int[3]? stride=None, int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, "
    "int? divisor_override=None) -> Tensor", once=True, rule=_mean_dtype("avg_pool3d_out_frame"), on="F", layout="contiguous", node="AvgPool3DBackward0",
    out=OUT_TENSOR_DTYPE, samples=pooling("avg", 3))
def avg_pool3d(self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """The mean of each window of the last three dimensions. See `avg_pool2d`."""
    return _avg_pool(self, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override, "avg_pool3d")


@op("avg_pool1d(Tensor self, int[1] kernel_size, int[1]? stride=None, int[1] padding=0, bool ceil_mode=False, bool count_include_pad=True) -> Tensor", once=True,
    rule=_mean_dtype("avg_pool2d"), on="F torch", layout="contiguous", node="SqueezeBackward1", out=False, samples=pooling("avg", 1))
def avg_pool1d(self, kernel_size, stride, padding, ceil_mode, count_include_pad):
    """The mean of each window of the last dimension. See `avg_pool2d`."""
    if self.ndim not in (2, 3):
        raise RuntimeError(f"Expected 2 to 3 dimensions, but got {self.ndim}-dimensional tensor for argument #1 'self' (while checking arguments for avg_pool1d)")
    image = T.reshape(self, (*self.shape[:-1], 1, self.shape[-1]))
    stride = kernel_size if stride is None or len(stride) == 0 else stride
    out = avg_pool2d(image, (1, *kernel_size), (1, *stride), (0, *padding), ceil_mode, count_include_pad)
    return T.reshape(out, (*self.shape[:-1], out.shape[-1]))
