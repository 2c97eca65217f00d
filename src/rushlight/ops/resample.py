"""Resampling: nearest, linear, cubic, and filters that widen as they shrink (antialias). Images are resampled dimension by dimension.

One dimension is a sum of a few taps, y[o] = sum over t of w[t, o] * x[first[o] + t], whose places and weights are small tables: they depend on the index
only, so they are made once, not for each row. The gradient is the same sum read the other way: x[p] is touched by neighbouring outputs only, and
their weights for it are a table again. Nothing is scattered.
"""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples_spatial import resampling
from .common import hint, shape_text

RADIUS = {"nearest": 1, "nearest-exact": 1, "linear": 1, "cubic": 2, "linear-aa": 1, "cubic-aa": 2, "lanczos-aa": 3}


class Line:
    """The map of one dimension: n elements to `out`, as torch computes it (coordinates in float, in double only for double tensors)."""

    def __init__(self, n, out, scale, mode, align, dtype):
        self.n, self.out, self.mode, self.align = n, out, mode, align
        self.nearest = mode.startswith("nearest")
        self.dtype = "f64" if dtype == "f64" and not self.nearest else "f32"
        self.scale = scale if scale is not None and scale > 0 and not align else None
        self.step = self._step(scale)
        self.antialias = mode.endswith("-aa")
        self.radius = RADIUS[mode]

    def _step(self, scale):
        """The distance between neighbouring outputs, in elements of the input."""
        number = lambda v: T.size(v, self.dtype)
        if self.align:
            return number(self.n - 1) / number(self.out - 1) if self.out > 1 else T.const(0.0, self.dtype)
        return T.const(1.0 / scale, self.dtype) if self.scale is not None else number(self.n) / number(self.out)

    def per_element(self, width):
        """How many outputs lie in `width` elements of the input, at most."""
        if self.scale is not None:
            return math.ceil(width * self.scale) + 1
        return width * _ratio(self.out, self.n, self.align)

    def per_output(self, width):
        """How many elements of the input lie in `width` outputs, at most; at least `width`."""
        if self.scale is not None:
            return max(width, math.ceil(width / self.scale) + 1)
        return width * (_ratio(self.n - 1, self.out - 1) if self.align and self.out > 1 else _ratio(self.n, self.out))

    def real(self, i):
        return T.cast(i, self.dtype)

    # -- antialiased filters: as wide as the step, where that is more than 1
    def stretch(self):
        return T.where(self.step >= 1, self.step, 1.0)

    def filter(self, x):
        x = T.prim("abs", x)
        if self.mode == "linear-aa":
            return T.where(x < 1, 1 - x, 0.0)
        if self.mode == "cubic-aa":
            near, far = _cubic_near(x, -0.5), _cubic_far(x, -0.5)
            return T.where(x < 1, near, T.where(x < 2, far, 0.0))
        inside = T.where(x < 3, x, 0.0)
        return T.where(x < 3, _sinc(inside) * _sinc(inside / 3), 0.0)

    def taps(self):
        """How many taps an output has at most."""
        if self.nearest:
            return 1
        if self.mode == "linear":
            return 2
        if self.mode == "cubic":
            return 4
        return self.per_output(2 * self.radius) + 1

    def tables(self, o, t):
        """(place, weight) of tap t of output o: i64 values that broadcast."""
        n = T.size(self.n, "i64")
        last = T.size(self.n - 1, "i64")
        if self.nearest:
            at = self.real(o) + 0.5 if self.mode == "nearest-exact" else self.real(o)
            place = T.cast(T.prim("floor", at * self.step), "i64")
            return T.prim("minimum", place, last), None
        if self.antialias:
            center = self.step * (self.real(o) + 0.5)
            support = self.stretch() * float(self.radius)
            first = T.prim("maximum", T.cast(center - support + 0.5, "i64"), T.const(0, "i64"))
            end = T.prim("minimum", T.cast(center + support + 0.5, "i64"), n)
            raw = lambda k: T.where(first + k < end, self.filter((self.real(first + k) - center + 0.5) / self.stretch()), 0.0)
            k = T.iota(self.taps(), 0, 1 + max(o.ndim, t.ndim))
            total = T.fold("sum", raw(k), (0,))
            total = T.reshape(total, total.shape[1:])
            place = first + t
            inside = place < end
            return T.where(inside, place, first), T.where(inside, raw(t) / T.where(T.prim("eq", total, 0), 1.0, total), 0.0)
        # torch's compiler fuses this multiplication and subtraction.
        at = self.real(o) * self.step if self.align else T.prim("fma", self.step, self.real(o) + 0.5, T.const(-0.5, self.dtype))
        if self.mode == "linear":
            at = T.where(at < 0, 0.0, at)
            first = T.prim("minimum", T.cast(at, "i64"), last)
            far = T.prim("minimum", T.prim("maximum", at - self.real(first), T.const(0.0, self.dtype)), T.const(1.0, self.dtype))
            zero = T.prim("eq", t, 0)
            return T.prim("minimum", first + t, last), T.where(zero, 1 - far, far)
        floor = T.prim("floor", at)
        first = T.cast(floor, "i64")
        x = T.prim("minimum", T.prim("maximum", at - floor, T.const(0.0, self.dtype)), T.const(1.0, self.dtype))
        weights = [_cubic_far(x + 1, -0.75), _cubic_near(x, -0.75), _cubic_near(1 - x, -0.75), _cubic_far(2 - x, -0.75)]
        weight = weights[3]
        for k in (2, 1, 0):
            weight = T.where(T.prim("eq", t, k), weights[k], weight)
        place = first - 1 + t
        return T.prim("minimum", T.prim("maximum", place, T.const(0, "i64")), last), weight

    def readers(self):
        """(how many outputs read one element at most, the first that may, as a function of the element)."""
        if self.out == 1:
            return 1, lambda p: T.const(0, "i64")
        wide = self.per_element(2 * self.radius)
        if self.antialias:
            wide = 2 * self.radius + self.per_element(2 * (self.radius + 1))
        shift = 0.0 if self.align and not self.antialias or self.mode == "nearest" else 0.5
        reach = float(self.radius) if not self.antialias else self.stretch() * float(self.radius) + 1.0
        if self.mode == "nearest-exact":
            shift, reach = 0.5, 0.5

        def first(p):
            edge = (self.real(p) - reach + shift) / self.step - shift
            return T.prim("maximum", T.cast(T.prim("ceil", edge - 0.02), "i64"), T.const(0, "i64"))
        return wide + 2, first


def _ratio(a, b, align=False):
    """At least a / b, as an int where it is one of the usual: the sums over taps are then written out."""
    for r in (1, 2, 3, 4):
        if a == r * b:
            return r if not align else r + 1
        if a < r * b and r == 1:
            return 1 if not align else 2
    return (a + b - 1) // b + 1


def _cubic_near(x, a):
    return ((a + 2) * x - (a + 3)) * x * x + 1


def _cubic_far(x, a):
    return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a


def _sinc(x):
    zero = T.prim("eq", x, 0)
    safe = T.where(zero, 1.0, x * math.pi)
    return T.where(zero, 1.0, T.prim("sin", safe) / safe)


def _is_one(x):
    return isinstance(x, int) and x == 1


def _bytes_resampled(x, dim, size, scale, mode, align):
    """One dimension of an image of bytes. torch weighs bytes with 16-bit integers: all weights of the line times the largest power of two at which the
    largest of them stays below 2**15; and each dimension is rounded to bytes. Doubles hold these integers and their sums exactly."""
    n = x.shape[dim]
    if _is_one(n):
        return T.expand(x, tuple(size if d == dim else s for d, s in enumerate(x.shape)))
    line = Line(n, size, scale, mode, align, "f64")
    count = line.taps()
    table = (count, size)
    place, weight = (T.stored(T.expand(v, table)) for v in line.tables(_row(size), T.iota(count, 0, 2)))
    if not line.antialias:                     # beyond the border taps read its element: one tap has the weights of all
        place, weight = _merged(place, weight, count)
    most = T.reduce("amax", weight, (0, 1))
    powers = [T.where(T.prim("floor", most * float(2 << p) + 0.5) < float(1 << 15), 2.0, 1.0) for p in range(22)]
    unit = powers[0]
    for power in powers[1:]:
        unit = unit * power
    unit = T.stored(unit)
    scaled = weight * unit
    whole = T.stored(T.where(scaled < 0, T.prim("ceil", scaled - 0.5), T.prim("floor", scaled + 0.5)))
    unit = T.reshape(unit, (1,) * x.ndim)
    out = T.prim("floor", (_taps_summed(T.cast(x, "f64"), place, whole, dim, size) + unit * 0.5) / unit)
    return T.stored(T.cast(T.prim("minimum", T.prim("maximum", out, T.const(0.0, "f64")), T.const(255.0, "f64")), "u8"))


def _merged(place, weight, count):
    """Taps [count, size] of which no two that weigh something have one place."""
    lift, size = lambda v: T.reshape(v, (1, *v.shape)), place.shape[1]
    other = lambda v: T.reshape(v, (count, 1, size))
    same = T.prim("eq", other(place), lift(place))
    first = T.fold("sum", T.where(same & (T.iota(count, 0, 3) < T.iota(count, 1, 3)), 1.0, T.const(0.0, "f64")), (0,))
    total = T.fold("sum", T.where(same, other(weight), 0.0), (0,))
    merged = T.where(T.prim("eq", first, 0), total, 0.0)
    return place, T.stored(T.reshape(merged, (count, size)))


def _along(table, dim, rank):
    """A table [taps, positions] laid along dimension dim of a value with the taps in front."""
    shape = [1] * (rank + 1)
    shape[0], shape[dim + 1] = table.shape[0], table.shape[1]
    return T.reshape(table, tuple(shape))


def _taps_summed(x, place, weight, dim, size):
    """sum over t of weight[t, o] * x[place[t, o]] along dim; the tables are [taps, size]."""
    rank = x.ndim
    shape = (place.shape[0], *(size if d == dim else s for d, s in enumerate(x.shape)))
    at = [_along(place, dim, rank) if d == dim else T.iota(s, d + 1, rank + 1) for d, s in enumerate(x.shape)]
    taps = T.load(x, at, shape=shape)
    if weight is not None:
        taps = taps * T.cast(_along(weight, dim, rank), x.dtype)
    return T.reshape(T.fold("sum", taps, (0,)), shape[1:])


def _row(size):
    return T.iota(size, 1, 2)


@op("_resampled(Tensor self, int dim, SymInt size, float!? scale, str mode, bool align) -> Tensor", rule="float!", on="-", layout="spatial", node="ResampleBackward0", out=False)
def _resampled(self, dim, size, scale, mode, align):
    """One dimension of self resampled to a size."""
    n = self.shape[dim]
    if _is_one(n):
        return T.expand(self, tuple(size if d == dim else s for d, s in enumerate(self.shape)))
    line = Line(n, size, scale, mode, align, self.dtype)
    count = line.taps()
    place, weight = line.tables(_row(size), T.iota(count, 0, 2))
    table = (count, size)
    place = T.stored(T.expand(place, table))
    return _taps_summed(self, place, None if weight is None else T.stored(T.expand(weight, table)), dim, size)


@_resampled.gradient("self")
def _(grad, self, dim, scale, mode, align):
    return _resampled_backward(grad, dim, self.shape[dim], scale, mode, align)


@op("_resampled_backward(Tensor incoming, int dim, SymInt n, float!? scale, str mode, bool align) -> Tensor", rule="float!", on="-", layout="spatial",
    node="ResampleBackwardBackward0", out=False)
def _resampled_backward(incoming, dim, n, scale, mode, align):
    """The transpose of `_resampled`."""
    size = incoming.shape[dim]
    if _is_one(n):
        return T.reduce("sum", incoming, (dim,))
    line = Line(n, size, scale, mode, align, incoming.dtype)
    count, first = line.readers()
    p = _row(n)
    o = first(p) + T.iota(count, 0, 2)
    inside = o < T.size(size, "i64")
    o = T.where(inside, o, 0)
    # What output o weighs p with: its taps that read p.
    t = T.iota(line.taps(), 0, 3)
    lift = lambda x: T.reshape(x, (1, *x.shape))
    place, weight = line.tables(lift(o), t)
    hit = T.prim("eq", place, lift(p)) & lift(inside)
    total = T.fold("sum", T.where(hit, T.const(1.0, line.dtype) if weight is None else weight, 0.0), (0,))
    table = (count, n)
    weights = T.stored(T.expand(T.reshape(total, table), table))
    return _taps_summed(incoming, T.stored(T.expand(o, table)), weights, dim, n)


@_resampled_backward.gradient("incoming")
def _(grad, incoming, dim, scale, mode, align):
    return _resampled(grad, dim, incoming.shape[dim], scale, mode, align)


# ----------------------------------------------------------------------------------------------------------------- operators
_LETTERS = {1: ("W",), 2: ("H", "W"), 3: ("D", "H", "W")}
_KERNELS = {"nearest": "upsample_nearest{}d_channels_last", "nearest-exact": "upsample_nearest{}d_channels_last", "linear": "upsample_{}{}d_channels_last",
            "cubic": "compute_indices_weights_cubic"}
_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


def _check_sizes(x, size):
    dims = len(size)
    own = x.shape[2:]
    listed = lambda sizes: ", ".join(f"{letter}: {hint(s)}" for letter, s in zip(_LETTERS[dims], sizes))
    for a, b in zip(own, size):
        if not (a > 0 and b > 0):
            if dims == 1:
                raise RuntimeError(f"Input and output sizes should be greater than 0, but got input (W: {hint(own[0])}) and output (W: {hint(size[0])})")
            raise RuntimeError(f"Input and output sizes should be greater than 0, but got input ({listed(own)}) output ({listed(size)})")
    if x.shape[1] == 0:
        raise RuntimeError(f"Non-empty {dims + 2}D data tensor expected but got a tensor with sizes {shape_text(x.shape)}")


def _kernel(mode, dims):
    if mode.endswith("-aa"):
        return "compute_index_ranges_weights"
    if mode == "linear":
        return f"upsample_{_LINEAR[dims]}{dims}d_channels_last" if dims > 1 else "compute_indices_weights_linear"
    return _KERNELS[mode].format(dims) if dims > 1 or not mode.startswith("nearest") else "compute_indices_weights_nearest"


def _upsampled(self, size, scales, mode, align):
    dims = len(size)
    _check_sizes(self, size)
    byte = self.dtype == "u8"
    if not T.is_float(self.dtype) and not (byte and (dims == 2 or mode.startswith("nearest"))):
        raise NotImplementedError(f"\"{_kernel(mode, dims)}\" not implemented for '{T.dtype_word(self.dtype)}'")
    x = T.cast(self, "f32") if byte and mode.startswith("nearest") else self
    unchanged = mode.startswith("nearest") or not align
    for d in reversed(range(dims)):
        dim = d + 2
        same = scales[d] is None and self.shape[dim] == size[d]
        if not (same and (unchanged or align)):
            resampled = _bytes_resampled if x.dtype == "u8" else _resampled
            x = resampled(x, dim, size[d], scales[d], mode, align)
    return T.cast(x, "u8") if byte else x


def _node(given):
    dims, mode = len(given["size"]), given["mode"]
    name = {"nearest": "UpsampleNearest", "nearest-exact": "UpsampleNearestExact", "linear": "Upsample" + _LINEAR[dims].capitalize(), "cubic": "UpsampleBicubic",
            "linear-aa": "UpsampleBilinear", "cubic-aa": "UpsampleBicubic", "lanczos-aa": "UpsampleLanczos"}[mode]
    return f"{name}{dims}D{'Aa' if mode.endswith('-aa') else ''}Backward0"


@op("_upsample(Tensor self, SymInt[] size, float!? scale0, float!? scale1, float!? scale2, str mode, bool align) -> Tensor", rule="same", on="-", layout="spatial",
    node=_node, out=False, samples=resampling())
def _upsample(self, size, scale0, scale1, scale2, mode, align):
    """A signal, an image or a volume resampled to a size. The scales, where given, say how far apart the outputs are; else the sizes do."""
    return _upsampled(self, size, (scale0, scale1, scale2)[:len(size)], mode, align)
