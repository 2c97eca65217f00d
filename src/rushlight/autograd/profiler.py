"""torch.autograd.profiler: labels, as in torch.profiler; recording raises."""
from __future__ import annotations

from ..profiler import profile, record_function

__all__ = ["record_function", "profile", "emit_nvtx", "emit_itt", "EventList"]


class EventList(list):
    """Recorded events: none."""


class emit_nvtx:
    """Marks for NVIDIA's profiler: without effect."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None: pass
    def __enter__(self): return self
    def __exit__(self, *exc) -> bool: return False


emit_itt = emit_nvtx
KinetoStepTracker = None
_is_profiler_enabled = False
