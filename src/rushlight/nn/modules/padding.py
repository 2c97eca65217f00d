"""Padding: a value, zeros, the reflection, the edge or the other end around the last dimensions."""
from __future__ import annotations

from rushlight import Tensor

from .. import functional as F
from .module import Module

__all__ = ["CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d",
           "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d"]


class _PadNd(Module):
    """`padding` is one number, or (before, after) for the last dimension, then for the one before it, and so on."""
    __constants__ = ["padding"]
    _count: int
    _mode: str

    def __init__(self, padding) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self._count) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_PadNd):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self._count + 1, self._count + 2):
            raise ValueError(f"expected {self._count + 1}D or {self._count + 2}D input (got {input.dim()}D input)")
        return F.pad(input, self.padding, self._mode)


class _ConstantPadNd(_PadNd):
    __constants__ = ["padding", "value"]

    def __init__(self, padding, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPadNd(_ConstantPadNd):
    def __init__(self, padding) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ReflectionPadNd(_PadNd):
    _mode = "reflect"


class _ReplicationPadNd(_PadNd):
    _mode = "replicate"


class CircularPad1d(_CircularPadNd):
    """The other end around the last dimension."""
    _count = 1


class CircularPad2d(_CircularPadNd):
    """The other end around the last two dimensions."""
    _count = 2


class CircularPad3d(_CircularPadNd):
    """The other end around the last three dimensions."""
    _count = 3


class ConstantPad1d(_ConstantPadNd):
    """A value around the last dimension."""
    _count = 1


class ConstantPad2d(_ConstantPadNd):
    """A value around the last two dimensions."""
    _count = 2


class ConstantPad3d(_ConstantPadNd):
    """A value around the last three dimensions."""
    _count = 3


class ReflectionPad1d(_ReflectionPadNd):
    """The reflection around the last dimension."""
    _count = 1


class ReflectionPad2d(_ReflectionPadNd):
    """The reflection around the last two dimensions."""
    _count = 2


class ReflectionPad3d(_ReflectionPadNd):
    """The reflection around the last three dimensions."""
    _count = 3


class ReplicationPad1d(_ReplicationPadNd):
    """The edge repeated around the last dimension."""
    _count = 1


class ReplicationPad2d(_ReplicationPadNd):
    """The edge repeated around the last two dimensions."""
    _count = 2


class ReplicationPad3d(_ReplicationPadNd):
    """The edge repeated around the last three dimensions."""
    _count = 3


class ZeroPad1d(_ZeroPadNd):
    """Zeros around the last dimension."""
    _count = 1


class ZeroPad2d(_ZeroPadNd):
    """Zeros around the last two dimensions."""
    _count = 2


class ZeroPad3d(_ZeroPadNd):
    """Zeros around the last three dimensions."""
    _count = 3
