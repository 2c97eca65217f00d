"""Types of sizes, for annotations."""
from __future__ import annotations

from typing import TypeVar, Union

from rushlight import Tensor

T = TypeVar("T")
_scalar_or_tuple_any_t = Union[T, tuple[T, ...]]
_size_any_t = Union[int, tuple[int, ...]]
_size_1_t = Union[int, tuple[int]]
_size_2_t = Union[int, tuple[int, int]]
_size_3_t = Union[int, tuple[int, int, int]]
_size_4_t = _size_5_t = _size_6_t = Union[int, tuple[int, ...]]
_ratio_any_t = _ratio_2_t = _ratio_3_t = Union[float, tuple[float, ...]]
_tensor_list_t = Union[Tensor, list[Tensor]]
_maybe_indices_t = Union[Tensor, tuple[Tensor, Tensor]]
