"""Weights of convolutions in another memory format, where the rest of a module keeps its own."""
from __future__ import annotations

from ..modules import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d, Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Module, kinds: tuple, memory_format) -> Module:
    for part in module.modules():
        if isinstance(part, kinds):
            part.weight.data = part.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format) -> Module:
    """The module, with the weights of its Conv2d and ConvTranspose2d in this memory format."""
    return _convert(module, (Conv2d, ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format) -> Module:
    """The module, with the weights of its Conv3d and ConvTranspose3d in this memory format."""
    return _convert(module, (Conv3d, ConvTranspose3d), memory_format)
