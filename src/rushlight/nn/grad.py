"""Gradients of convolutions as functions: with respect to the input, given its size, or to the weight."""
from __future__ import annotations

import rushlight as rl
from rushlight import Tensor

from . import functional as F
from .modules.utils import _ntuple


def _input(dims: int, input_size, weight: Tensor, grad_output: Tensor, stride, padding, dilation, groups: int) -> Tensor:
    stride, padding, dilation = map(_ntuple(dims), (stride, padding, dilation))
    size = tuple(input_size)[-dims:]
    least = [(n - 1) * s - 2 * p + d * (k - 1) + 1
             for n, s, p, d, k in zip(grad_output.shape[-dims:], stride, padding, dilation, weight.shape[-dims:])]
    convolve = getattr(F, f"conv_transpose{dims}d")
    return convolve(grad_output, weight, None, stride, padding, [n - m for n, m in zip(size, least)], groups, dilation)


def _weight(dims: int, input: Tensor, weight_size, grad_output: Tensor, stride, padding, dilation, groups: int) -> Tensor:
    again = rl.is_grad_enabled() and (input.requires_grad or grad_output.requires_grad)
    with rl.enable_grad():
        weight = rl.zeros(tuple(weight_size), dtype=input.dtype, device=input.device, requires_grad=True)       # the gradient does not depend on its values
        out = getattr(F, f"conv{dims}d")(input, weight, None, stride, padding, dilation, groups)
        return rl.autograd.grad(out, weight, grad_output, create_graph=again)[0]


def conv1d_input(input_size, weight: Tensor, grad_output: Tensor, stride=1, padding=0, dilation=1, groups: int = 1) -> Tensor:
    """The gradient of `conv1d` with respect to an input of the given size."""
    return _input(1, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(input: Tensor, weight_size, grad_output: Tensor, stride=1, padding=0, dilation=1, groups: int = 1) -> Tensor:
    """The gradient of `conv1d` with respect to a weight of the given size."""
    return _weight(1, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(input_size, weight: Tensor, grad_output: Tensor, stride=1, padding=0, dilation=1, groups: int = 1) -> Tensor:
    """The gradient of `conv2d` with respect to an input of the given size."""
    return _input(2, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(input: Tensor, weight_size, grad_output: Tensor, stride=1, padding=0, dilation=1, groups: int = 1) -> Tensor:
    """The gradient of `conv2d` with respect to a weight of the given size."""
    return _weight(2, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(input_size, weight: Tensor, grad_output: Tensor, stride=1, padding=0, dilation=1, groups: int = 1) -> Tensor:
    """The gradient of `conv3d` with respect to an input of the given size."""
    return _input(3, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(input: Tensor, weight_size, grad_output: Tensor, stride=1, padding=0, dilation=1, groups: int = 1) -> Tensor:
    """The gradient of `conv3d` with respect to a weight of the given size."""
    return _weight(3, input, weight_size, grad_output, stride, padding, dilation, groups)
