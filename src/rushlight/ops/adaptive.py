"""Pools by the size of their result, pools at random places, and their inverse.

Window i of m over n elements is [floor(i*n/m), ceil((i+1)*n/m)): the windows cover everything, and neighbours may share an element. An element p lies in
the windows floor(p*m/n) to ceil((p+1)*m/n) - 1, so the gradient is read the same way as the result.
"""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples_spatial import adaptive, fractional, unpooling
from .common import hint, numel_of, shape_text
from .pool import scattered
from .sliding import all_of, batched, repeated, taps_of


def _quotient(x, n):
    return T.prim("idiv", x, T.size(n, "i64"))


def _interval(i, n, m):
    """[first, end) of window i when n elements make m windows."""
    if _is_one(m):
        return T.const(0, "i64"), T.size(n, "i64")
    n_ = T.size(n, "i64")
    return _quotient(i * n_, m), _quotient((i + 1) * n_ + T.size(m - 1, "i64"), m)


def _empty(sizes):
    for s in sizes:
        if s == 0:
            return True
    return False


def _is_one(x):
    return isinstance(x, int) and x == 1


def _longest(n, m):
    """How many elements a window has at most."""
    if _is_one(m):
        return n
    if n % m == 0:
        return n // m
    return n // m + 2 if n > m else 2


def _windows(x, sizes, dims):
    """(places, conditions, first elements, lengths) of windows along the last `dims` dimensions, with the positions inside them as leading dimensions."""
    rank = dims + 2 + dims
    places, tests, lengths = [], [], []
    for d, (n, m) in enumerate(zip(x.shape[2:], sizes)):
        i = T.iota(m, dims + 2 + d, rank)
        first, end = _interval(i, n, m)
        e = first + T.iota(_longest(n, m), d, rank)
        if not (_is_one(m) or n % m == 0):
            tests.append(e < end)
        places.append(e)
        lengths.append((first, end))
    return places, tests, lengths


def _swept(x, sizes, dims):
    """The shape of all elements of all windows."""
    return (*(_longest(n, m) for n, m in zip(x.shape[2:], sizes)), *x.shape[:2], *sizes)


def _size_of(lengths, dtype, rank, dims):
    """The number of elements of each window, over the result's own dimensions."""
    total = None
    for first, end in lengths:
        n = end - first
        total = n if total is None else total * n
    return T.cast(T.reshape(total, total.shape[dims:]) if total.ndim else total, dtype)


@op("_adaptive_mean(Tensor self, SymInt[] output_size) -> Tensor", rule="float!", on="-", layout="spatial", node="AdaptiveAvgPool2DBackward0", out=False,
    kernel="adaptive_avg_pool2d")
def _adaptive_mean(self, output_size):
    """The mean of each window; self has a batch dimension."""
    dims = self.ndim - 2
    if _empty((*self.shape, *output_size)):
        return T.expand(T.const(0, self.dtype), (*self.shape[:2], *output_size))
    if all(_is_one(m) for m in output_size):
        count = T.size(numel_of(self.shape[2:]), self.dtype)
        return T.reduce("sum", self, tuple(range(2, self.ndim))) / count
    places, tests, lengths = _windows(self, output_size, dims)
    inside = all_of(tests)
    lead = [T.iota(s, dims + d, 2 * dims + 2) for d, s in enumerate(self.shape[:2])]
    taps = T.load(self, lead + places, inside, 0 if inside is not None else None, shape=_swept(self, output_size, dims))
    total = T.fold("sum", taps, tuple(range(dims)))
    total = T.reshape(total, total.shape[dims:])
    return total / _size_of(lengths, self.dtype, self.ndim, dims)


@_adaptive_mean.gradient("self")
def _(grad, self, output_size):
    return _adaptive_spread(grad, self.shape[2:])


@op("_adaptive_spread(Tensor incoming, SymInt[] sizes) -> Tensor", rule="float!", on="-", layout="spatial", node="AdaptiveAvgPool2DBackwardBackward0", out=False)
def _adaptive_spread(incoming, sizes):
    """The transpose of `_adaptive_mean`: each element gets its share of every window it lies in."""
    dims, outs = incoming.ndim - 2, incoming.shape[2:]
    if _empty((*incoming.shape, *sizes)):
        return T.expand(T.const(0, incoming.dtype), (*incoming.shape[:2], *sizes))
    if all(_is_one(m) for m in outs):
        return T.expand(incoming / T.size(numel_of(sizes), incoming.dtype), (*incoming.shape[:2], *sizes))
    lengths = [_interval(T.iota(m, 2 + d, incoming.ndim), n, m) for d, (n, m) in enumerate(zip(sizes, outs))]
    share = T.stored(incoming / _size_of(lengths, incoming.dtype, incoming.ndim, 0))
    rank = 2 * dims + 2
    places, tests, counts = [], [], []
    for d, (n, m) in enumerate(zip(sizes, outs)):
        first, end = _interval(T.iota(n, dims + 2 + d, rank), m, n)
        count = 1 if _is_one(m) or n % m == 0 else _longest(m, n)
        e = first + T.iota(count, d, rank)
        if not _is_one(count):
            tests.append(e < end)
        places.append(e)
        counts.append(count)
    inside = all_of(tests)
    lead = [T.iota(s, dims + d, rank) for d, s in enumerate(incoming.shape[:2])]
    terms = T.load(share, lead + places, inside, 0 if inside is not None else None, shape=(*counts, *incoming.shape[:2], *sizes))
    out = T.fold("sum", terms, tuple(range(dims)))
    return T.reshape(out, out.shape[dims:])


@_adaptive_spread.gradient("incoming")
def _(grad, incoming, sizes):
    return _adaptive_mean(grad, incoming.shape[2:])


def _check_adaptive(x, count, output_size, name, kind="avg"):
    """The output's size, after torch's shape checks."""
    output_size = repeated(output_size, count)
    if len(output_size) != count:
        if count == 1:
            raise RuntimeError(f"adaptive_{kind}_pool1d() argument 'output_size' should contain one int (got {len(output_size)})")
        internal = "(): internal error: output_size.size() must be" if kind == "max" else ": output_size must be"
        raise RuntimeError(f"{name}{internal} {count}")
    if x.ndim not in (count + 1, count + 2):
        raise RuntimeError(f"{name}: Expected {count + 1}D or {count + 2}D tensor, but got {shape_text(x.shape)}")
    for d in range(x.ndim - count, x.ndim):
        if x.shape[d] == 0:
            raise RuntimeError(f"{name}(): Expected input to have non-zero size for non-batch dimensions, but input has sizes {shape_text(x.shape)} with "
                               f"dimension {d} being empty")
    for m in output_size:
        if m < 0 and kind == "avg":
            listed = {1: "1, {0}", 2: "{0}, {1}", 3: "{0}, {1},{2}"}[count].format(*map(hint, output_size))
            raise RuntimeError(f"adaptive_avg_pool{max(count, 2)}d: elements of output_size must be greater than or equal to 0 but received {{{listed}}}")
        if m < 0:
            sizes = [*x.shape[:x.ndim - count], *([1] if count == 1 else []), *output_size]
            raise RuntimeError(f"Trying to create tensor with negative dimension {hint(m)}: {shape_text(sizes)}")
    return output_size


def _adaptive_avg(self, count, output_size):
    output_size = _check_adaptive(self, count, output_size, f"adaptive_avg_pool{count}d")
    image, back = batched(self, count)
    return back(_adaptive_mean(image, output_size))


def _not_a_mean(given): return not all(bool(n == 1) for n in given["output_size"])       # torch takes one window for a mean, which keeps nothing


@op("adaptive_avg_pool1d(Tensor self, SymInt[1] output_size) -> Tensor", once=_not_a_mean, rule="float!", on="torch F", layout="contiguous", node="SqueezeBackward1", out=False,
    refuses="c", kernel="adaptive_avg_pool2d", samples=adaptive(1))
def adaptive_avg_pool1d(self, output_size):
    """The means of as many windows as asked for, over the last dimension. See `adaptive_avg_pool2d`."""
    return _adaptive_avg(self, 1, output_size)


@op("_adaptive_avg_pool2d(Tensor self, SymInt[2] output_size) -> Tensor", once=_not_a_mean, rule="float!", on="torch", layout="spatial", node="AdaptiveAvgPool2DBackward0",
    out=False, refuses="c", kernel="adaptive_avg_pool2d", samples=adaptive(2))
def _adaptive_avg_pool2d(self, output_size):
    """The means of as many windows as asked for, over the last two dimensions."""
    return _adaptive_avg(self, 2, output_size)


@op("_adaptive_avg_pool3d(Tensor self, SymInt[3] output_size) -> Tensor", once=_not_a_mean, rule="float!", on="torch", layout="contiguous", node="AdaptiveAvgPool3DBackward0",
    out=False, refuses="c", kernel="adaptive_avg_pool3d_cpu", samples=adaptive(3))
def _adaptive_avg_pool3d(self, output_size):
    """The means of as many windows as asked for, over the last three dimensions."""
    return _adaptive_avg(self, 3, output_size)


# ------------------------------------------------------------------------------------------------------------------- maximum
def _adaptive_largest(x, sizes):
    """(maximum, place in the flattened plane) of each window. The first of equals, but the last NaN, as a scan that keeps what it has."""
    dims = x.ndim - 2
    rank = 2 * dims + 2
    places, tests, _ = _windows(x, sizes, dims)
    inside = all_of(tests)
    lead = [T.iota(s, dims + d, rank) for d, s in enumerate(x.shape[:2])]
    taps = T.load(x, lead + places, inside, None if inside is None else -math.inf, shape=_swept(x, sizes, dims))
    shape = (*x.shape[:2], *sizes)
    left = T.reshape(T.argfold(taps, tuple(range(dims))), shape)
    found = []                                               # the position in the window, taken apart, from where the window begins
    for d, (n, m) in reversed(list(enumerate(zip(x.shape[2:], sizes)))):
        first, length = _interval(T.iota(m, 2 + d, dims + 2), n, m)[0], T.size(_longest(n, m), "i64")
        rest = T.prim("idiv", left, length) if d else T.const(0, "i64")
        found.insert(0, first + (left - rest * length))
        left = rest
    flat = T.const(0, "i64")
    for n, e in zip(x.shape[2:], found):
        flat = flat * T.size(n, "i64") + e
    best = T.load(x, [T.iota(s, d, dims + 2) for d, s in enumerate(x.shape[:2])] + found, shape=shape)
    return best, T.expand(flat, shape)


def _adaptive_max(count):
    name = f"adaptive_max_pool{count}d"

    @op(f"{name}(Tensor self, SymInt[{count}] output_size) -> (Tensor result, Tensor indices)", rule=None, on="torch" if count == 1 else "-",
        layout="spatial" if count == 2 else "contiguous", node=f"AdaptiveMaxPool{count}DBackward0" if count > 1 else "SqueezeBackward1", out=False, refuses="bic",
        kernel={1: "adaptive_max_pool2d", 2: "adaptive_max_pool2d", 3: "adaptive_max_pool3d_cpu"}[count], samples=adaptive(count))
    def pool(self, output_size):
        output_size = _check_adaptive(self, count, output_size, name, "max")
        image, back = batched(self, count)
        shape = (*image.shape[:2], *output_size)
        if _empty((*shape, *image.shape)):
            return back(T.expand(T.const(0, self.dtype), shape)), back(T.expand(T.const(0, "i64"), shape))
        best, place = _adaptive_largest(image, output_size)
        return back(best), back(T.kept(place))

    @pool.gradient("self")
    def _(grad, self, indices):
        (g, back), (i, _) = batched(grad, count), batched(indices, count)
        if _empty((*g.shape, *self.shape)):
            return T.expand(T.const(0, grad.dtype), self.shape)
        return back(scattered(g, i, self.shape[self.ndim - count:]))
    pool.__doc__ += f"The largest element of each of as many windows as asked for, over the last {count} dimensions, and its place."
    return pool


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = (_adaptive_max(count) for count in (1, 2, 3))


# ------------------------------------------------------------------------------------------------------- at random places
_NAMES = {2: ("height", "width"), 3: ("time", "height", "width")}


def _fractional(count):
    name = f"fractional_max_pool{count}d"

    @op(f"{name}(Tensor self, int[{count}] kernel_size, SymInt[{count}] output_size, Tensor random_samples) -> (Tensor result, Tensor indices)", rule=None,
        on="-", layout="contiguous", node=f"FractionalMaxPool{count}DBackward0", out=False, refuses="bic", kernel=f"{name}_out_frame", samples=fractional(count))
    def pool(self, kernel_size, output_size, random_samples):
        kernel_size, output_size = repeated(kernel_size, count), repeated(output_size, count)
        if len(kernel_size) != count:
            raise RuntimeError(f"{name}: kernel_size must either be a single int or tuple of {'Ints' if count == 2 else 'three Ints'}")
        if len(output_size) != count:
            raise RuntimeError(f"{name}: output_size must either be a single int or tuple of {'Ints' if count == 2 else 'three Ints'}")
        if self.ndim not in (count + 1, count + 2):
            raise RuntimeError(f"{name}(): Expected {count + 1}D or {count + 2}D tensor, but got: {shape_text(self.shape)}")
        image, back = batched(self, count)
        for n, m, k, what in zip(image.shape[2:], output_size, kernel_size, _NAMES[count]):
            if m + k - 1 > n:
                raise RuntimeError(f"{name}{'_out' if count == 3 else ''}(): pool {what} {hint(k)} too large relative to input {what} {hint(n)}")
        best, place = _fractional_largest(image, kernel_size, output_size, random_samples, count)
        return back(best), back(T.kept(place))

    @pool.gradient("self")
    def _(grad, self, indices):
        (g, back), (i, _) = batched(grad, count), batched(indices, count)
        return back(scattered(g, i, self.shape[self.ndim - count:]))
    pool.__doc__ += (f"The largest element of each window, over the last {count} dimensions; where the windows begin depends on random numbers in [0, 1), "
                     "one for each dimension of each plane.")
    return pool


def _fractional_largest(x, kernel, sizes, samples, count):
    rank = count + 2
    shape = (*x.shape[:2], *sizes)
    n_, c_ = T.iota(x.shape[0], 0, rank), T.iota(x.shape[1], 1, rank)
    starts = []
    for d, (n, m, k) in enumerate(zip(x.shape[2:], sizes, kernel)):
        # The first number is for the last dimension. Everything is computed in the dtype of the numbers, as torch does it.
        u = T.load(samples, [n_, c_, T.const(count - 1 - d if count == 2 else d, "i64")])
        i = T.iota(m, 2 + d, rank)
        if _is_one(m):
            starts.append(T.size(n - k, "i64"))
            continue
        alpha = T.prim("div", T.cast(T.size(n - k, "f64"), u.dtype), T.cast(T.size(m - 1, "f64"), u.dtype))
        whole = lambda v: T.cast(v, "i64")
        at = whole((T.cast(i, u.dtype) + u) * alpha) - whole(u * alpha)
        starts.append(T.where(T.prim("eq", i, T.size(m - 1, "i64")), T.size(n - k, "i64"), at))
    best = place = None
    for tap in taps_of(kernel):
        at = [s + k for s, k in zip(starts, tap)]
        flat = at[0]
        for n, e in zip(x.shape[3:], at[1:]):
            flat = flat * T.size(n, "i64") + e
        value, flat = T.load(x, [n_, c_, *at], shape=shape), T.expand(flat, shape)
        if best is None:
            best, place = value, flat
        else:
            take = (value > best) | T.prim("ne", value, value)
            best, place = T.where(take, value, best), T.where(take, flat, place)
    return best, place


fractional_max_pool2d, fractional_max_pool3d = _fractional(2), _fractional(3)


# ------------------------------------------------------------------------------------------------------------------- inverse
def _unpool(count):
    name = f"max_unpool{count}d"

    @op(f"_{name}(Tensor self, Tensor indices, SymInt[{count}] output_size) -> Tensor", rule=None, on="-", layout="spatial" if count == 2 else "contiguous",
        node=f"MaxUnpool{count}DBackward0", out=False, promote=("self",), linear="self", samples=unpooling(count))
    def unpool(self, indices, output_size):
        if indices.dtype != "i64":
            raise RuntimeError(f"elements in indices should be type int64 but got: {T.dtype_word(indices.dtype)}")
        same = self.ndim == indices.ndim
        for a, b in zip(self.shape, indices.shape) if same else ():
            same = same and bool(a == b)
        if not same:
            raise RuntimeError(f"Expected shape of indices to be same as that of the input tensor ({shape_text(self.shape)}) but got indices tensor with "
                               f"shape: {shape_text(indices.shape)}")
        (x, back), (i, _) = batched(self, count), batched(indices, count)
        plane = numel_of(output_size)
        volume = "x".join(str(hint(m)) for m in output_size)
        i = T.check(i, 0, plane, ("RuntimeError", f"Found an invalid max index: {{value}} (output volumes are of size {volume})"))
        flat = (*x.shape[:2], numel_of(x.shape[2:]))
        zeros = T.expand(T.const(0, x.dtype), (*x.shape[:2], plane))
        at = [T.iota(s, d, 3) for d, s in enumerate(x.shape[:2])] + [T.reshape(i, flat)]
        return back(T.reshape(T.scatter(zeros, at, T.reshape(x, flat), "set"), (*x.shape[:2], *output_size)))
    unpool.__doc__ += "The inverse of a max pool: each element at its place in a plane of zeros."
    return unpool


_max_unpool2d, _max_unpool3d = _unpool(2), _unpool(3)
