"""The functions of `nn.functional` on signals, images and volumes that decide something in Python first: whether places are returned, which
operator a mode names, what size is meant. Everything that computes is an operator of `ops/`.
"""
from __future__ import annotations

import rushlight as rl
from rushlight import Tensor, registry


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


__all__ = [name for name, value in list(globals().items()) if not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == __name__]
