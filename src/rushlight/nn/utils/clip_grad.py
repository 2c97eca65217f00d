"""Keeping gradients within bounds."""
from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor

from ..._C import warn

__all__ = ["get_total_norm", "clip_grads_with_norm_", "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]


def _gradients(parameters) -> list[Tensor]:
    parameters = [parameters] if isinstance(parameters, Tensor) else parameters
    return [param.grad for param in parameters if param.grad is not None]


def get_total_norm(tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """The norm of all tensors together, as if they were one long vector."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return rl.tensor(0.0)
    device = tensors[0].device
    norms = [rl.linalg.vector_norm(tensor, norm_type).to(device) for tensor in tensors]
    total = rl.linalg.vector_norm(rl.stack(norms), norm_type)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. "
                           "To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`")
    return total


def clip_grads_with_norm_(parameters, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale the gradients by `max_norm / total_norm`, if that makes them smaller."""
    gradients = _gradients(parameters)
    if not gradients:
        return
    with rl.no_grad():
        # Always multiply, by at most 1: asking whether the norm is too large would wait for its value.
        scale = rl.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
        for gradient in gradients:
            gradient.mul_(scale.to(gradient.device))


def clip_grad_norm_(parameters, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                    foreach: bool | None = None) -> Tensor:
    """Scale all gradients together so that their common norm is at most `max_norm`; returns the norm they had."""
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    else:
        parameters = list(parameters)             # a generator would be used up by the norm
    with rl.no_grad():
        total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
        clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    warn("`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value: float, foreach: bool | None = None) -> None:
    """Move every element of every gradient into [-clip_value, clip_value]."""
    clip_value = float(clip_value)
    with rl.no_grad():
        for gradient in _gradients(parameters):
            gradient.clamp_(min=-clip_value, max=clip_value)
