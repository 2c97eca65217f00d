"""What programs ask of CUDA before they use it. There is none here, and every answer says so."""
from __future__ import annotations

import importlib as _importlib
from typing import Any

from .. import absent_device
from .. import legacy as _legacy

_ERROR = "Torch not compiled with CUDA enabled"
globals().update(absent_device.names("cuda", _ERROR))
has_magma = has_half = False
default_generators: tuple = ()


class CUDAGraph:
    """Work recorded on a device: there is none. See `rushlight.compile` for recording on the CPU."""

    def __new__(cls, *args, **kwargs): raise AssertionError(_ERROR)


class graph:
    """Recording into a CUDAGraph: not available."""

    def __init__(self, *args, **kwargs) -> None: raise AssertionError(_ERROR)


def make_graphed_callables(*args: Any, **kwargs: Any):
    """Not available: there is no device to record on."""
    raise AssertionError(_ERROR)


class _CudaTensorType(type):
    """The type of `torch.cuda.FloatTensor`: no tensor is one, and none can be made."""

    def __instancecheck__(cls, value): return False
    def __call__(cls, *args, **kwargs): raise AssertionError(_ERROR)


OutOfMemoryError = type("OutOfMemoryError", (RuntimeError,), {"__doc__": "A device ran out of memory. Never raised here.", "__module__": "torch"})
for _name in _legacy.TYPES:
    globals()[_name] = _CudaTensorType(_name, (), {"__module__": "torch.cuda", "__doc__": "Tensors on a CUDA device: there are none."})


def __getattr__(name: str):
    if name in ("amp", "nvtx", "memory", "streams", "graphs", "random"):
        return _importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'torch.cuda' has no attribute '{name}'")
