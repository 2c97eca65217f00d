"""torch.nn.attention: which way attention is computed. There is one way here; the choice is remembered and changes nothing."""
from __future__ import annotations

import contextlib
from enum import IntEnum

__all__ = ["SDPBackend", "sdpa_kernel", "WARN_FOR_UNFUSED_KERNELS"]
WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(IntEnum):
    """torch's ways."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority: bool = False):
    """Without effect on the values."""
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got {type(backends)}")
    yield {}
