"""torch.gradient: which dimensions, at which distances; the operator `_gradient` (ops/integrate.py) does one of them."""
from __future__ import annotations

from collections.abc import Sequence

import rushlight as rl

from . import registry


def _spacings(input, spacing, dim):
    """A number or a tensor of coordinates for each dimension, and the dimensions."""
    dims = list(range(input.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if spacing is None:
        return [1] * len(dims), dims
    if isinstance(spacing, rl.Tensor) and spacing.ndim == 0:
        spacing = spacing.item()
    if isinstance(spacing, (int, float, complex)):
        return [spacing] * len(dims), dims
    if not isinstance(spacing, Sequence):
        raise TypeError(f"gradient(): argument 'spacing' must be a number or a list of numbers or tensors, not {type(spacing).__name__}")
    if len(spacing) != len(dims):
        wanted = f"'self.dim() = {input.ndim}', since dim argument was not given" if dim is None else f"the length of the dim argument, {len(dims)}"
        raise RuntimeError(f"torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to {wanted}, but got a list of length {len(spacing)}")
    return list(spacing), dims


def gradient(input, *, spacing=None, dim=None, edge_order=1, axis=None):
    """The derivative of a tensor of samples along each of its dimensions (or those in `dim`), by central differences and, at the edges, one-sided ones of the
    order `edge_order`. spacing: the distance between samples, one for all or one for each dimension, or their coordinates as tensors."""
    if axis is not None: dim = axis                # as NumPy calls it
    if input.dtype is rl.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    spacings, dims = _spacings(input, spacing, dim)
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    for points in spacings:
        if isinstance(points, rl.Tensor) and points.device != input.device:
            raise RuntimeError(f"torch.gradient expected each tensor to be on the same device, but got devices {points.device} and {input.device}.")
    rank, wrapped = max(input.ndim, 1), []
    for d in dims:
        if not -rank <= d < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")
        if d % rank in wrapped:
            raise RuntimeError(f"dim {d % rank} appears multiple times in the list of dims")
        wrapped.append(d % rank)
    for d in wrapped:
        if input.ndim == 0 or input.shape[d] < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    if input.dtype is rl.bool and wrapped:
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.")
    for d, points in zip(wrapped, spacings):
        if isinstance(points, rl.Tensor) and points.shape != (input.shape[d],):
            raise RuntimeError(f"torch.gradient expected {input.shape[d]} coordinates along dimension {d}, but got a tensor of shape {list(points.shape)}")
    operator = registry.find("_gradient").op.function
    return tuple(operator(input, d, points, edge_order) for d, points in zip(wrapped, spacings))
