"""Filling parameters with their first values, with torch's numbers for a seed.

Every function fills its tensor in place, without recording gradients, and returns it.
"""
from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor

from .._C import warn

__all__ = [
    "calculate_gain", "uniform_", "normal_", "trunc_normal_", "constant_", "ones_", "zeros_", "eye_", "dirac_", "xavier_uniform_",
    "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_", "sparse_", "uniform", "normal", "constant", "eye", "dirac",
    "xavier_uniform", "xavier_normal", "kaiming_uniform", "kaiming_normal", "orthogonal", "sparse",
]

_UNIT_GAIN = frozenset(["linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "sigmoid"])


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a layer before this nonlinearity should scale its weights."""
    if nonlinearity in _UNIT_GAIN:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            slope = 0.01
        elif isinstance(param, (int, float)) and not isinstance(param, bool):
            slope = param
        else:
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope ** 2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator=None) -> Tensor:
    """Uniform in [a, b)."""
    with rl.no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator=None) -> Tensor:
    """Normal with this mean and standard deviation."""
    with rl.no_grad():
        return tensor.normal_(mean, std, generator=generator)


def constant_(tensor: Tensor, val: float) -> Tensor:
    with rl.no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    with rl.no_grad():
        return tensor.zero_()


# When less than this share of the normal lies in [a, b], proposals are drawn from the interval instead.
_REJECTION_MASS = 0.3


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, generator=None) -> Tensor:
    """Normal, with values outside [a, b] drawn again until they are inside."""
    if tensor.is_meta:
        return tensor
    if mean < a - 2 * std or mean > b + 2 * std:
        warn("mean is more than 2 std from [a, b] in nn.init.trunc_normal_: so far out in the tail the values are not distributed as they should be.")
    root2 = math.sqrt(2.0)
    mass = (1.0 + math.erf((b - mean) / std / root2)) / 2.0 - (1.0 + math.erf((a - mean) / std / root2)) / 2.0
    with rl.no_grad():
        if mass > _REJECTION_MASS:
            _reject_outside(tensor, mean, std, a, b, generator)
        else:
            _reject_by_density(tensor, mean, std, a, b, generator)
    return tensor


def _reject_outside(tensor: Tensor, mean: float, std: float, a: float, b: float, generator) -> None:
    # The bounds as the tensor's dtype has them: -0.1 in bfloat16 must not count a stored -0.1 as outside.
    low, high = rl.tensor([a, b], dtype=tensor.dtype).tolist()
    values = tensor.normal_(mean, std, generator=generator)
    outside = (values < low) | (values > high)
    while outside.any():
        fresh = rl.empty_like(values).normal_(mean, std, generator=generator)      # whole: the stream must not depend on the misses
        values = rl.where(outside, fresh, values)
        outside = (values < low) | (values > high)
    if values is not tensor:
        tensor.copy_(values)


def _reject_by_density(tensor: Tensor, mean: float, std: float, a: float, b: float, generator) -> None:
    nearest = max(a, min(mean, b))                      # where the density in [a, b] is highest
    peak = -0.5 * ((nearest - mean) / std) ** 2

    def refused(proposal: Tensor) -> Tensor:
        log_density = proposal.sub(mean).div_(std).pow_(2).mul_(-0.5).sub_(peak)
        return rl.empty_like(tensor).uniform_(generator=generator).log_() > log_density

    values = tensor.uniform_(a, b, generator=generator)
    pending = refused(values)
    while pending.any():
        proposal = rl.empty_like(tensor).uniform_(a, b, generator=generator)
        values = rl.where(pending, proposal, values)
        pending = pending & refused(proposal)
    if values is not tensor:
        tensor.copy_(values)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with rl.no_grad():
        tensor.copy_(rl.eye(tensor.shape[0], tensor.shape[1], dtype=tensor.dtype, device=tensor.device))
    return tensor


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """A convolution that passes its input through: one in the middle of each kernel from a channel to itself."""
    if tensor.ndimension() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    if tensor.is_meta:
        return tensor
    per_group = tensor.size(0) // groups
    centre = tuple(size // 2 for size in tensor.shape[2:])
    with rl.no_grad():
        tensor.zero_()
        for group in range(groups):
            for channel in range(min(per_group, tensor.size(1))):
                tensor[(group * per_group + channel, channel, *centre)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """How many inputs feed one output of the layer with this weight, and how many outputs one input feeds."""
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    window = math.prod(tensor.shape[2:])
    return tensor.size(1) * window, tensor.size(0) * window


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    valid = ["fan_in", "fan_out"]
    if mode not in valid:
        raise ValueError(f"Mode {mode} not supported, please use one of {valid}")
    return _calculate_fan_in_and_fan_out(tensor)[valid.index(mode)]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator=None) -> Tensor:
    """Glorot's uniform bounds: the variance is kept forward and backward, on average."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    bound = math.sqrt(3.0) * (gain * math.sqrt(2.0 / float(fan_in + fan_out)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator=None) -> Tensor:
    """Glorot's normal."""
    fan_in, fan_out = _calculate_fan_in_and_fan_out(tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / float(fan_in + fan_out)), generator)


def kaiming_uniform_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator=None) -> Tensor:
    """He's uniform bounds, for layers before a relu (or a leaky relu of slope `a`)."""
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    bound = math.sqrt(3.0) * (calculate_gain(nonlinearity, a) / math.sqrt(fan))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0, mode: str = "fan_in", nonlinearity: str = "leaky_relu", generator=None) -> Tensor:
    """He's normal."""
    if 0 in tensor.shape:
        warn("Initializing zero-element tensors is a no-op")
        return tensor
    fan = _calculate_correct_fan(tensor, mode)
    return normal_(tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(fan), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator=None) -> Tensor:
    """A (semi-)orthogonal matrix, times `gain`; dimensions after the first count as one."""
    if tensor.ndimension() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows, columns = tensor.size(0), tensor.numel() // tensor.size(0)
    with rl.no_grad():
        flat = rl.empty((rows, columns), dtype=tensor.dtype, device=tensor.device).normal_(0, 1, generator=generator)
        if rows < columns:
            flat = flat.t()
        q, r = rl.linalg.qr(flat)
        q = q * rl.diag(r, 0).sign()                    # so that the result is spread evenly over all such matrices
        if rows < columns:
            q = q.t()
        tensor.view_as(q).copy_(q)
        tensor.mul_(gain)
    return tensor


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator=None) -> Tensor:
    """Normal values with a share of zeros in every column."""
    if tensor.ndimension() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with rl.no_grad():
        tensor.normal_(0, std, generator=generator)
        for column in range(columns):
            chosen = rl.randperm(rows)[:zeros]
            tensor[chosen, column] = 0
    return tensor


def _deprecated(function):
    old = function.__name__[:-1]

    def wrapper(*args, **kwargs):
        warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{function.__name__}`.", FutureWarning)
        return function(*args, **kwargs)

    wrapper.__name__ = wrapper.__qualname__ = old
    wrapper.__doc__ = f"The old name of `{function.__name__}`."
    return wrapper


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)
