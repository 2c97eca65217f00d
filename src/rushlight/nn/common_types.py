"""Types of sizes, for annotations."""
from __future__ import annotations

from typing import TypeVar

from rushlight import Tensor

T = TypeVar("T")
_scalar_or_tuple_any_t = T | tuple[T, ...]
_size_any_t = int | tuple[int, ...]
_size_1_t = int | tuple[int]
_size_2_t = int | tuple[int, int]
_size_3_t = int | tuple[int, int, int]
_size_4_t = _size_5_t = _size_6_t = int | tuple[int, ...]
_ratio_any_t = _ratio_2_t = _ratio_3_t = float | tuple[float, ...]
_tensor_list_t = Tensor | list[Tensor]
_maybe_indices_t = Tensor | tuple[Tensor, Tensor]
