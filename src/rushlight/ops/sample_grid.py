"""Sampling an image or a volume at arbitrary positions, and the grids of affine maps.

A position is three steps: the grid's [-1, 1] becomes pixels, the padding mode brings it inside (or not), and a few pixels around it are weighted. Each is
plain arithmetic, so the gradient of the grid is derived; that of the image goes back to the pixels that were read.
"""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples_spatial import affine, grids
from .common import numel_of, shape_text
from .sliding import all_of

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2


def _pixels(x, n, align):
    """[-1, 1] to [0, n - 1], or to [-0.5, n - 0.5]."""
    size = T.size(n, x.dtype)
    return (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2


def _clipped(x, n):
    """x held in [0, n - 1]; outside its gradient is 0, and NaN becomes 0."""
    last = T.size(n - 1, x.dtype)
    inside = (x > 0) & (x < last)
    return T.where(inside, x, T.where(x >= last, last, 0.0))


def _reflected(x, n, align):
    """x reflected at the borders until it is inside; the gradient changes its sign each time."""
    if align:
        low, span = T.const(0.0, x.dtype), T.size(2 * (n - 1), x.dtype) / 2
    else:
        low, span = T.const(-0.5, x.dtype), T.size(n, x.dtype)
    if align and isinstance(n, int) and n == 1:
        return x * 0
    away = T.prim("abs", x - low)
    turns = T.stop(T.prim("floor", away / span))
    extra = away - turns * span
    even = T.prim("eq", turns - 2 * T.prim("floor", turns / 2), 0)
    return T.where(even, extra + low, span - extra + low)


def _inside_image(x, n, padding, align):
    if padding == BORDER:
        return _clipped(x, n)
    return _clipped(_reflected(x, n, align), n) if padding == REFLECTION else x


def _whole(x):
    """A float position as an integer; far outside and NaN become -1 (all of them outside the image)."""
    known = (x > -1e9) & (x < 1e9)
    return T.cast(T.where(known, x, -100.0), "i64")


class Image:
    """The image read at integer positions; outside it is 0. What all channels share, places and weights, is computed once and kept in memory."""

    def __init__(self, x, out):
        self.sizes, self.out = x.shape[2:], out
        self.planes = T.reshape(x, (*x.shape[:2], numel_of(self.sizes)))
        self.lead = [T.iota(s, d, len(out)) for d, s in enumerate(x.shape[:2])]
        self.alone = isinstance(x.shape[1], int) and x.shape[1] == 1

    def spread(self, w):
        """Something of a position, for all channels."""
        w = T.reshape(w, (w.shape[0], 1, *w.shape[1:]))
        return w if self.alone else T.stored(w)

    def at(self, places):
        """The value at floats that are whole numbers, one for each spatial dimension."""
        at = [_whole(T.stop(p)) for p in places]
        tests = [t for e, n in zip(at, self.sizes) for t in (e >= 0, e < T.size(n, "i64"))]
        flat = at[0]
        for e, n in zip(at[1:], self.sizes[1:]):
            flat = flat * T.size(n, "i64") + e
        flat = self.spread(T.where(all_of(tests), flat, -1))
        inside = flat >= 0
        return T.where(inside, T.load(self.planes, [*self.lead, T.where(inside, flat, 0)], shape=self.out), 0)


def _weighted(image, lows, highs):
    """The corners of the box around each position, by their nearness. lows, highs: (place, weight) along each dimension."""
    total = None
    dims = len(lows)
    for corner in range(2 ** dims):
        picked = [highs[d] if corner >> (dims - 1 - d) & 1 else lows[d] for d in range(dims)]
        weight = picked[-1][1]
        for _, w in reversed(picked[:-1]):
            weight = weight * w
        term = image.at([p for p, _ in picked]) * image.spread(weight)
        total = term if total is None else total + term
    return total


def _cubic(t):
    """The four weights at distance t from the second tap."""
    a = -0.75
    near = lambda x: ((a + 2) * x - (a + 3)) * x * x + 1
    far = lambda x: ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _sampled(x, grid, mode, padding, align):
    dims = x.ndim - 2
    out = (x.shape[0], x.shape[1], *grid.shape[1:-1])
    image = Image(x, out)
    # The grid's last dimension lists the innermost spatial dimension first.
    coordinates = []
    for d in range(dims):
        c = T.slice(grid, grid.ndim - 1, dims - 1 - d, dims - d)
        coordinates.append(T.reshape(c, grid.shape[:-1]))
    sizes = x.shape[2:]
    places = [_pixels(c, n, align) for c, n in zip(coordinates, sizes)]
    if mode == BICUBIC:
        return _bicubic(image, places, sizes, padding, align)
    places = [_inside_image(p, n, padding, align) for p, n in zip(places, sizes)]
    if mode == NEAREST:
        return image.at([T.prim("round", p) for p in places])
    lows = [T.stop(T.prim("floor", p)) for p in places]
    return _weighted(image, [(f, f + 1 - p) for f, p in zip(lows, places)], [(f + 1, p - f) for f, p in zip(lows, places)])


def _bicubic(image, places, sizes, padding, align):
    """Rows of four taps, then four rows; each tap is brought inside by itself."""
    floors = [T.stop(T.prim("floor", p)) for p in places]
    weights = [[image.spread(w) for w in _cubic(p - f)] for p, f in zip(places, floors)]
    total = None
    for i in range(4):
        row = None
        y = T.stop(_inside_image(floors[0] + (i - 1), sizes[0], padding, align))
        for j in range(4):
            x = T.stop(_inside_image(floors[1] + (j - 1), sizes[1], padding, align))
            term = image.at([y, x]) * weights[1][j]
            row = term if row is None else row + term
        total = row * weights[0][i] if total is None else total + row * weights[0][i]
    return total


def _check(x, grid, dims, mode, padding):
    if x.ndim != dims + 2 or grid.ndim != dims + 2:
        raise RuntimeError(f"grid_sampler(): expected {dims + 2}D input and grid with same number of dimensions, but got input with sizes {shape_text(x.shape)} and grid "
                           f"with sizes {shape_text(grid.shape)}")
    if not x.shape[0] == grid.shape[0]:
        raise RuntimeError(f"grid_sampler(): expected grid and input to have same batch size, but got input with sizes {shape_text(x.shape)} and grid with sizes "
                           f"{shape_text(grid.shape)}")
    if not grid.shape[-1] == dims:
        raise RuntimeError(f"grid_sampler(): expected grid to have size {dims} in last dimension, but got grid with sizes {shape_text(grid.shape)}")
    for d, n in enumerate(x.shape[2:]):
        if not n > 0:
            raise RuntimeError(f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {shape_text(x.shape)} with dimension {d + 2} being "
                               "empty")
    if dims == 3 and mode == BICUBIC:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")


@op("grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor", rule="float!", on="torch",
    layout="contiguous", node="GridSampler2DBackward0", out=False, refuses="c", samples=grids(2))
def grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners):
    """An image (N, C, H, W) read at positions (N, H', W', 2), x first, in [-1, 1]. Modes: 0 bilinear, 1 nearest, 2 bicubic; padding: 0 zeros, 1 the border, 2 reflection."""
    _check(input, grid, 2, interpolation_mode, padding_mode)
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


@op("grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) -> Tensor", rule="float!", on="torch",
    layout="contiguous", node="GridSampler3DBackward0", out=False, refuses="c", samples=grids(3))
def grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners):
    """A volume (N, C, D, H, W) read at positions (N, D', H', W', 3). See `grid_sampler_2d`."""
    _check(input, grid, 3, interpolation_mode, padding_mode)
    return _sampled(input, grid, interpolation_mode, padding_mode, align_corners)


# ---------------------------------------------------------------------------------------------------------------- affine maps
def _base(n, align, dtype):
    """Positions of n pixels in [-1, 1]."""
    i = T.cast(T.iota(n, 0, 1), dtype)
    if isinstance(n, int) and n <= 1:
        return i * 0
    at = i * (T.const(2.0, dtype) / T.size(n - 1, dtype)) - 1
    return at if align else at * (T.size(n - 1, dtype) / T.size(n, dtype))


@op("affine_grid_generator(Tensor theta, SymInt[] size, bool align_corners) -> Tensor", rule="float!", on="torch", layout="contiguous",
    node="AffineGridGeneratorBackward0", out=False, samples=affine())
def affine_grid_generator(theta, size, align_corners):
    """The positions of every pixel of an output of this size under affine maps: theta (N, 2, 3) gives (N, H, W, 2), theta (N, 3, 4) gives (N, D, H, W, 3)."""
    dims = len(size) - 2
    if dims not in (2, 3):
        raise RuntimeError("AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.")
    if theta.ndim != 3 or not theta.shape[0] == size[0] or not theta.shape[1] == dims or not theta.shape[2] == dims + 1:
        raise RuntimeError(f"Expected a batch of {dims}D affine matrices of shape Nx{dims}x{dims + 1} for size {shape_text(size)}. Got {shape_text(theta.shape)}.")
    spatial = size[2:]
    rank = dims + 2
    out = None
    # x comes first: the innermost dimension is the first coordinate.
    for k in range(dims + 1):
        column = T.reshape(T.slice(theta, 2, k, k + 1), (theta.shape[0], *(1,) * dims, dims))
        if k < dims:
            d = dims - 1 - k
            line = T.reshape(_base(spatial[d], align_corners, theta.dtype), tuple(spatial[d] if i == d + 1 else 1 for i in range(rank)))
            column = column * line
        out = column if out is None else out + column
    return T.expand(out, (size[0], *spatial, dims))
