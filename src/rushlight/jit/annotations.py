"""torch.jit.annotations: types that TorchScript signatures name."""
from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401, UP035


class _BroadcastingList:
    """`BroadcastingList2[int]`: an int, or a list of that many."""

    def __class_getitem__(cls, kind: Any) -> Any: return kind
    def __getitem__(self, kind: Any) -> Any: return kind


BroadcastingList = BroadcastingListCls = _BroadcastingList
for _n in range(1, 7):
    globals()[f"BroadcastingList{_n}"] = _BroadcastingList()
