"""torch.cpu: the CPU as a device among others, for code that is written for any of them."""
from __future__ import annotations

import contextlib

from . import amp

__all__ = ["amp", "is_available", "device_count", "current_device", "set_device", "synchronize", "current_stream", "stream", "Stream", "StreamContext", "is_initialized"]


class Stream:
    """The CPU has one queue of work: what is called is done when the call returns."""

    def __init__(self, priority: int = -1) -> None: pass
    def wait_stream(self, stream) -> None: pass
    def record_event(self, event=None) -> None: pass
    def wait_event(self, event) -> None: pass
    def synchronize(self) -> None: pass


class Event:
    def query(self) -> bool: return True
    def record(self, stream=None) -> None: pass
    def synchronize(self) -> None: pass
    def wait(self, stream=None) -> None: pass


class StreamContext(contextlib.nullcontext):
    def __init__(self, stream) -> None:
        super().__init__()
        self.stream = stream


_stream = Stream()


def is_available() -> bool: return True
def is_initialized() -> bool: return True
def device_count() -> int: return 1
def current_device() -> str: return "cpu"
def set_device(device) -> None: pass
def synchronize(device=None) -> None: pass
def current_stream(device=None) -> Stream: return _stream
def stream(stream) -> StreamContext: return StreamContext(stream)
