"""Names for annotations: what functions take where several types will do."""
from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any, TypeAlias

from ._C import Generator, Size, Tensor, device, dtype, layout
from ._C import UntypedStorage as Storage

__all__ = ["Number", "Device", "FileLike", "Storage"]

Number: TypeAlias = builtins.int | builtins.float | builtins.bool
Device: TypeAlias = device | builtins.str | builtins.int | None
FileLike: TypeAlias = Any                  # a path, or an object with read and write
_TensorOrTensors: TypeAlias = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge: TypeAlias = Any
_dtype, _device, _layout, _size = dtype, device, layout, Size | list[builtins.int] | tuple[builtins.int, ...]
_int, _float, _bool, _complex, _symint = builtins.int, builtins.float, builtins.bool, builtins.complex, builtins.int
IntLikeType, FloatLikeType, BoolLikeType = builtins.int, builtins.float, builtins.bool
py_sym_types = ()
_generator = Generator
