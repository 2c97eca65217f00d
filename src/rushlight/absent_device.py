"""The module of a kind of device that is not here: `torch.cuda`, `torch.xpu`, `torch.mps` … Programs ask before they use one, and every answer says no;
what could only work on the device raises torch's error.
"""
from __future__ import annotations

import contextlib
from typing import Any


def names(kind: str, error: str) -> dict[str, Any]:
    """The functions and classes of `torch.KIND` on a machine without one. `error` is what torch says when it is used all the same."""

    def unavailable(*args, **kwargs):
        raise AssertionError(error)

    def nothing(*args, **kwargs) -> None:
        """There is no device to do it on."""

    class Stream:
        """A queue of work on the device: there is none."""

        def __new__(cls, *args, **kwargs): unavailable()

    class Event(Stream):
        """A point in a stream: there is none."""

    class device:
        """The current device inside a block. None and -1 stand for no change, which is all that can be asked for here."""

        def __init__(self, device: Any) -> None:
            self.idx = -1 if device is None else device if isinstance(device, int) else 0
            self.prev_idx = -1

        def __enter__(self):
            if self.idx >= 0: unavailable()

        def __exit__(self, *exc) -> bool: return False

    class StreamContext(contextlib.nullcontext):
        """The current stream inside a block: None, the one there is."""

        def __init__(self, stream=None) -> None:
            super().__init__()
            self.stream = stream

    out: dict[str, Any] = {"Stream": Stream, "Event": Event, "StreamContext": StreamContext, "device": device, "device_of": device,
                           "stream": StreamContext}
    answers = {"is_available": False, "is_initialized": False, "is_bf16_supported": False, "is_built": False, "device_count": 0, "memory_allocated": 0,
               "memory_reserved": 0, "max_memory_allocated": 0, "max_memory_reserved": 0, "memory_cached": 0, "max_memory_cached": 0,
               "is_current_stream_capturing": False, "get_arch_list": [], "memory_stats": {}, "memory_summary": "", "get_rng_state_all": [],
               "current_allocated_memory": 0, "driver_allocated_memory": 0, "recommended_max_memory": 0, "_is_in_bad_fork": False,
               "is_tf32_supported": False}
    for name, answer in answers.items():
        out[name] = lambda *args, _answer=answer, **kwargs: _answer
    for name in ("manual_seed", "manual_seed_all", "seed", "seed_all", "empty_cache", "ipc_collect", "reset_peak_memory_stats",
                 "reset_max_memory_allocated", "reset_max_memory_cached", "reset_accumulated_memory_stats", "set_rng_state_all", "set_per_process_memory_fraction",
                 "_lazy_call"):
        out[name] = nothing
    for name in ("current_device", "synchronize", "get_device_name", "get_device_properties", "get_device_capability", "set_device", "current_stream",
                 "default_stream", "set_stream", "mem_get_info", "get_rng_state", "set_rng_state", "init", "_lazy_init", "utilization",
                 "can_device_access_peer", "initial_seed", "current_blas_handle", "cudart", "device_memory_used", "temperature", "power_draw"):
        out[name] = unavailable
    for name, function in out.items():
        function.__name__ = function.__qualname__ = name
        function.__module__ = f"rushlight.{kind}"
    return out
