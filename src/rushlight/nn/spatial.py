"""The functions of `nn.functional` on signals, images and volumes that decide something in Python first: whether places are returned, which
operator a mode names, what size is meant. Everything that computes is an operator of `ops/`.
"""
from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor, registry

from .._C import warn


def _op(name: str):
    return registry.find(name).op.function


# --------------------------------------------------------------------------------------------------------------------- pools
def max_pool1d_with_indices(input: Tensor, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    """The largest element of each window of the last dimension, and its place."""
    return _op("max_pool1d_with_indices")(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(input: Tensor, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    """The largest element of each window of the last two dimensions, and its place in the flattened plane."""
    return _op("max_pool2d_with_indices")(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(input: Tensor, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    """The largest element of each window of the last three dimensions, and its place in the flattened volume."""
    return _op("max_pool3d_with_indices")(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(input: Tensor, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    """The largest element of each window of the last dimension; with `return_indices` also where it was."""
    function = _op("max_pool1d_with_indices" if return_indices else "max_pool1d")
    return function(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(input: Tensor, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    """The largest element of each window of the last two dimensions; with `return_indices` also where it was."""
    function = _op("max_pool2d_with_indices" if return_indices else "max_pool2d")
    return function(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(input: Tensor, kernel_size, stride=None, padding=0, dilation=1, ceil_mode: bool = False, return_indices: bool = False):
    """The largest element of each window of the last three dimensions; with `return_indices` also where it was."""
    function = _op("max_pool3d_with_indices" if return_indices else "max_pool3d")
    return function(input, kernel_size, stride, padding, dilation, ceil_mode)


def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int, stride: int | None = None, ceil_mode: bool = False) -> Tensor:
    """The power mean of each window of the last dimension, without its division: the p-th root of the sum of p-th powers."""
    return _lp_pool(input, norm_type, _op("avg_pool1d"), kernel_size, stride, ceil_mode, 1)


def lp_pool2d(input: Tensor, norm_type: float, kernel_size, stride=None, ceil_mode: bool = False) -> Tensor:
    """The p-th root of the sum of p-th powers of each window of the last two dimensions."""
    return _lp_pool(input, norm_type, _op("avg_pool2d"), kernel_size, stride, ceil_mode, 2)


def lp_pool3d(input: Tensor, norm_type: float, kernel_size, stride=None, ceil_mode: bool = False) -> Tensor:
    """The p-th root of the sum of p-th powers of each window of the last three dimensions."""
    return _lp_pool(input, norm_type, _op("avg_pool3d"), kernel_size, stride, ceil_mode, 3)


def _lp_pool(input, norm_type, pool, kernel_size, stride, ceil_mode, count):
    window = 1
    for k in _several(kernel_size, count):
        window *= k
    mean = pool(input.pow(norm_type), kernel_size, stride, 0, ceil_mode)
    return (rl.sign(mean) * rl.relu(rl.abs(mean))).mul(window).pow(1.0 / norm_type)


def _several(value, count: int) -> tuple:
    return (value,) * count if isinstance(value, int) else tuple(value)


def _sizes_or_own(output_size, input: Tensor) -> list:
    """An output size with None for "as the input"."""
    if isinstance(output_size, int) or output_size is None:
        return output_size
    if input.dim() <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    own = tuple(input.shape)[-len(output_size):] if output_size else ()
    return [n if m is None else m for m, n in zip(output_size, own)]


def adaptive_avg_pool2d(input: Tensor, output_size) -> Tensor:
    """The means of as many windows as asked for, over the last two dimensions; None keeps a size."""
    return _op("_adaptive_avg_pool2d")(input, _sizes_or_own(output_size, input))


def adaptive_avg_pool3d(input: Tensor, output_size) -> Tensor:
    """The means of as many windows as asked for, over the last three dimensions; None keeps a size."""
    return _op("_adaptive_avg_pool3d")(input, _sizes_or_own(output_size, input))


def adaptive_max_pool1d(input: Tensor, output_size, return_indices: bool = False):
    """The largest element of as many windows as asked for, over the last dimension."""
    out = _op("adaptive_max_pool1d")(input, output_size)
    return tuple(out) if return_indices else out[0]


def adaptive_max_pool2d(input: Tensor, output_size, return_indices: bool = False):
    """The largest element of as many windows as asked for, over the last two dimensions; None keeps a size."""
    out = _op("adaptive_max_pool2d")(input, _sizes_or_own(output_size, input))
    return tuple(out) if return_indices else out[0]


def adaptive_max_pool3d(input: Tensor, output_size, return_indices: bool = False):
    """The largest element of as many windows as asked for, over the last three dimensions; None keeps a size."""
    out = _op("adaptive_max_pool3d")(input, _sizes_or_own(output_size, input))
    return tuple(out) if return_indices else out[0]


def adaptive_max_pool1d_with_indices(input: Tensor, output_size, return_indices: bool = False):
    """`adaptive_max_pool1d` with the places."""
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size, return_indices: bool = False):
    """`adaptive_max_pool2d` with the places."""
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size, return_indices: bool = False):
    """`adaptive_max_pool3d` with the places."""
    return adaptive_max_pool3d(input, output_size, True)


def _fractional(count, input, kernel_size, output_size, output_ratio, return_indices, random_samples):
    name = f"fractional_max_pool{count}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratios = (output_ratio,) * count if isinstance(output_ratio, float) else output_ratio
        if len(ratios) > count:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = [int(input.size(d - count) * r) for d, r in enumerate(ratios)]
    if random_samples is None:
        batch = 1 if input.dim() == count + 1 else input.size(0)
        random_samples = rl.rand(batch, input.size(-count - 1), count, dtype=input.dtype, device=input.device)
    out = _op(name)(input, kernel_size, output_size, random_samples)
    return tuple(out) if return_indices else out[0]


def fractional_max_pool2d(input: Tensor, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None):
    """The largest element of windows that begin at random places, so many that the result has the given size or ratio."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool3d(input: Tensor, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None):
    """`fractional_max_pool2d` over three dimensions."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool2d_with_indices(input: Tensor, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None):
    """`fractional_max_pool2d` with the places."""
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


def fractional_max_pool3d_with_indices(input: Tensor, kernel_size, output_size=None, output_ratio=None, return_indices: bool = False, _random_samples=None):
    """`fractional_max_pool3d` with the places."""
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)


def _unpooled_size(input: Tensor, kernel, stride, padding, output_size) -> list:
    """The size that the pool came from: the smallest possible, or the one asked for, which may differ by less than a step."""
    own = tuple(input.shape)
    count = len(kernel)
    default = [(own[len(own) - count + d] - 1) * stride[d] + kernel[d] - 2 * padding[d] for d in range(count)]
    if output_size is None:
        return default
    wanted = list(output_size)
    if len(wanted) == count + 2:
        wanted = wanted[2:]
    if len(wanted) != count:
        raise ValueError(f"output_size should be a sequence containing {count} or {count + 2} elements, but it has a length of '{len(wanted)}'")
    for d in range(count):
        low, high = default[d] - stride[d], default[d] + stride[d]
        if not low < wanted[d] < high:
            raise ValueError(f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})')
    return wanted


def _max_unpool(count, input, indices, kernel_size, stride, padding, output_size):
    kernel = _several(kernel_size, count)
    step = _several(stride, count) if stride is not None else kernel
    size = _unpooled_size(input, kernel, step, _several(padding, count), output_size)
    if count > 1:
        return _op(f"_max_unpool{count}d")(input, indices, size)
    return _op("_max_unpool2d")(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


def max_unpool1d(input: Tensor, indices: Tensor, kernel_size, stride=None, padding=0, output_size=None) -> Tensor:
    """The inverse of `max_pool1d`: each element at its place, zeros elsewhere."""
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(input: Tensor, indices: Tensor, kernel_size, stride=None, padding=0, output_size=None) -> Tensor:
    """The inverse of `max_pool2d`: each element at its place, zeros elsewhere."""
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(input: Tensor, indices: Tensor, kernel_size, stride=None, padding=0, output_size=None) -> Tensor:
    """The inverse of `max_pool3d`: each element at its place, zeros elsewhere."""
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# ------------------------------------------------------------------------------------------------------------------- padding
def pad(input: Tensor, pad, mode: str = "constant", value: float | None = None) -> Tensor:
    """Something around the last dimensions: a value, the reflection, the edge repeated, or the other end. Negative amounts crop.

    `pad` lists (before, after) for the last dimension, then for the one before it, and so on.
    """
    if len(pad) % 2 != 0:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(pad) > 2 * input.dim():
        raise RuntimeError(f"Padding length should be less than or equal to two times the input dimension but got padding length {len(pad)} and input of "
                           f"dimension {input.dim()}")
    if mode == "constant":
        return rl.constant_pad_nd(input, pad, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if input.dim() - len(pad) // 2 not in (1, 2) or len(pad) not in (2, 4, 6):
        raise NotImplementedError(f"Padding size {len(pad)} is not supported for {input.dim()}D input tensor.\nSupported combinations for non-constant padding:\n"
                                  "  - 2D or 3D input: padding size = 2 (pads last dimension)\n  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
                                  "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)")
    if mode == "circular":
        return _op("_pad_circular")(input, pad)
    if mode not in ("reflect", "replicate"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    return _op("_pad_around")(input, pad, mode)


# ------------------------------------------------------------------------------------------------------------------- patches
def unfold(input: Tensor, kernel_size, dilation=1, padding=0, stride=1) -> Tensor:
    """Every window of an image as a column: (N, C, H, W) to (N, C * window, number of windows)."""
    return _op("im2col")(input, kernel_size, dilation, padding, stride)


def fold(input: Tensor, output_size, kernel_size, dilation=1, padding=0, stride=1) -> Tensor:
    """Columns of windows summed at their places: (N, C * window, number of windows) to (N, C, H, W)."""
    return _op("col2im")(input, output_size, kernel_size, dilation, padding, stride)


# ---------------------------------------------------------------------------------------------------------------- resampling
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "lanczos": 4, "trilinear": 5}


def interpolate(input: Tensor, size=None, scale_factor=None, mode: str = "nearest", align_corners: bool | None = None,
                recompute_scale_factor: bool | None = None, antialias: bool = False) -> Tensor:
    """A signal (N, C, L), image or volume resampled to a size or by a factor.

    Modes: nearest, nearest-exact, linear, bilinear, trilinear, bicubic, lanczos, area. A factor is used as given unless `recompute_scale_factor` asks for
    the one that the sizes imply. `antialias` widens the filter when shrinking.
    """
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError("align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | trilinear")
    elif align_corners is None:
        align_corners = False
    dims = input.dim() - 2
    own = [int(s) for s in tuple(input.shape)[2:]]
    size, factors = _size_or_factors(size, scale_factor, own)
    if recompute_scale_factor is not None and recompute_scale_factor and size is not None:
        raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    if mode == "area" and size is None:
        recompute_scale_factor = True
    if recompute_scale_factor is not None and recompute_scale_factor:
        size, factors = [math.floor(float(n) * f) for n, f in zip(own, factors)], None
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and input.dim() == 4):
        raise ValueError("Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor as input")
    if mode == "lanczos" and not antialias:
        raise ValueError("lanczos mode requires antialias=True")
    if mode not in _MODES.split(" | ") or dims not in (1, 2, 3):
        raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.dim()}D) for the modes: {_MODES} (got {mode})")
    if mode in _RANKS and input.dim() != _RANKS[mode]:
        raise NotImplementedError(f"Got {input.dim()}D input, but {mode} mode needs {_RANKS[mode]}D input")
    if mode == "area":
        pool = {1: rl.adaptive_avg_pool1d, 2: adaptive_avg_pool2d, 3: adaptive_avg_pool3d}[dims]
        return pool(input, size)
    kind = {"linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(mode, mode) + ("-aa" if antialias else "")
    if size is None:
        size = [math.floor(float(n) * f) for n, f in zip(own, factors)]
    scales = [None, None, None] if factors is None else [*map(float, factors), None, None][:3]
    return _op("_upsample")(input, size, *scales, kind, bool(align_corners))


def _size_or_factors(size, scale_factor, own):
    dims = len(own)
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    many = lambda v: isinstance(v, (list, tuple))
    if size is not None:
        if many(size):
            if len(size) != dims:
                raise ValueError(f"Input and output must have the same number of spatial dimensions, but got input with spatial dimensions of {own} and output size "
                                 f"of {size}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format.")
            return [int(s) if not isinstance(s, float) else _no_float(s) for s in size], None
        return [size if not isinstance(size, float) else _no_float(size)] * dims, None
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if many(scale_factor):
        if len(scale_factor) != dims:
            raise ValueError(f"Input and scale_factor must have the same number of spatial dimensions, but got input with spatial dimensions of {own} and scale_factor "
                             f"of shape {scale_factor}. Please provide input tensor in (N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format.")
        return None, list(scale_factor)
    return None, [scale_factor] * dims


def _no_float(size):
    raise TypeError(f"interpolate(): sizes must be ints, not {type(size).__name__} ({size})")


def _renamed(name: str) -> None:
    warn(f"nn.functional.{name} is deprecated: nn.functional.interpolate does the same")


def upsample(input: Tensor, size=None, scale_factor=None, mode: str = "nearest", align_corners: bool | None = None) -> Tensor:
    """The old name of `interpolate`."""
    _renamed("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size=None, scale_factor=None) -> Tensor:
    """`interpolate` with mode nearest."""
    _renamed("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size=None, scale_factor=None) -> Tensor:
    """`interpolate` with mode bilinear, corners aligned."""
    _renamed("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# -------------------------------------------------------------------------------------------------------------------- grids
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
_CORNERS = "Default grid_sample and affine_grid behavior is align_corners=False, where old programs (before torch 1.3) mean True: -1 and 1 are then the middles of the outer pixels. Say which."


def grid_sample(input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None) -> Tensor:
    """An image (N, C, H, W) or volume read at the positions of a grid (N, H', W', 2), in [-1, 1], x first."""
    if mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'")
    if padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: '{padding_mode}'")
    if align_corners is None:
        warn(_CORNERS)
        align_corners = False
    sampler = rl.grid_sampler_3d if input.dim() == 5 else rl.grid_sampler_2d
    return sampler(input, grid, GRID_SAMPLE_INTERPOLATION_MODES[mode], GRID_SAMPLE_PADDING_MODES[padding_mode], align_corners)


def affine_grid(theta: Tensor, size, align_corners: bool | None = None) -> Tensor:
    """The grid of affine maps theta (N, 2, 3) or (N, 3, 4), for `grid_sample`, over an output of the given size."""
    if align_corners is None:
        warn(_CORNERS)
        align_corners = False
    if not theta.is_floating_point():
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    if len(size) not in (4, 5):
        raise NotImplementedError("affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size " + str(tuple(size)))
    if min(size) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {tuple(size)}")
    return rl.affine_grid_generator(theta, size, align_corners)


# ------------------------------------------------------------------------------------------------------------- normalisation
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
                  bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """Each channel of each sample brought to mean 0 and variance 1: `batch_norm` with every plane as a channel of its own."""
    from .functional import batch_norm
    if use_input_stats:
        spatial = 1
        for s in tuple(input.shape)[2:]:
            spatial *= s
        if spatial == 1:
            raise ValueError(f"Expected more than 1 spatial element when training, got input size {input.shape}")
    elif running_mean is None or running_var is None:
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    n, c, *rest = input.shape
    each = lambda v: None if v is None else v.repeat(n)
    means, variances = each(running_mean), each(running_var)
    out = batch_norm(input.contiguous().view(1, n * c, *rest), means, variances, each(weight), each(bias), use_input_stats, momentum, eps)
    if use_input_stats:
        with rl.no_grad():
            for own, many in ((running_mean, means), (running_var, variances)):
                if own is not None:
                    own.copy_(many.view(n, c).mean(0))
    return out.view(n, c, *rest)


__all__ = [name for name, value in list(globals().items()) if not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == __name__]
