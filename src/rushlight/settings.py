"""Functions and types of torch itself that are neither operators nor needed by most programs: settings, checks, storages, names of absent things."""
from __future__ import annotations

import builtins
from typing import Any

from . import _C
from .functions import _deterministic

_settings: dict[str, Any] = {"interop_threads": 1, "deterministic": 0}


# -------------------------------------------------------------------------------------------------------------- settings
def set_deterministic_debug_mode(debug_mode) -> None:
    """0 "default", 1 "warn", 2 "error": remembered; every operator here is deterministic."""
    modes = {"default": 0, "warn": 1, "error": 2}
    mode = modes.get(debug_mode, debug_mode)
    if mode not in (0, 1, 2):
        raise RuntimeError(f"invalid value of debug_mode, expected `default`, `warn`, or `error`, but got {debug_mode}")
    _deterministic.update(mode=mode > 0, warn=mode == 1)


def get_deterministic_debug_mode() -> int: return (1 if _deterministic["warn"] else 2) if _deterministic["mode"] else 0
def set_warn_always(b) -> None: _C.set_warn_always(b)
def is_warn_always_enabled() -> builtins.bool: return _C.is_warn_always_enabled()
def get_num_interop_threads() -> int: return _settings["interop_threads"]
def set_num_interop_threads(n) -> None: _settings["interop_threads"] = n
def set_flush_denormal(mode) -> builtins.bool: return False          # denormal numbers are always kept
def compiled_with_cxx11_abi() -> builtins.bool: return True
def is_vulkan_available() -> builtins.bool: return False


def get_device_module(device=None):
    """The module of a kind of device."""
    import rushlight as rl
    kind = "cpu" if device is None else _C.device(device).type
    module = getattr(rl, kind, None)
    if module is None:
        raise RuntimeError(f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'.")
    return module


# ---------------------------------------------------------------------------------------------------------------- checks
def _check_with(error_type, cond, message) -> None:
    if not isinstance(cond, (builtins.bool, SymBool)):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        raise error_type("Expected cond to be True, but got False. (Could this error message be improved? If so, please report an enhancement request to PyTorch.)"
                         if message is None else str(message()))


def _check(cond, message=None) -> None: _check_with(RuntimeError, cond, message)
def _check_index(cond, message=None) -> None: _check_with(IndexError, cond, message)
def _check_value(cond, message=None) -> None: _check_with(ValueError, cond, message)
def _check_type(cond, message=None) -> None: _check_with(TypeError, cond, message)
def _check_not_implemented(cond, message=None) -> None: _check_with(NotImplementedError, cond, message)
def _check_is_size(i, message=None, *, max=None) -> None: _check(i >= 0, message)
def _check_tensor_all_with(error_type, cond, message=None) -> None: _check_with(error_type, builtins.bool(cond.all()), message)
def _check_tensor_all(cond, message=None) -> None: _check_tensor_all_with(RuntimeError, cond, message)
def _has_compatible_shallow_copy_type(a, b) -> builtins.bool: return a.layout == b.layout
def _is_all_true(tensor): return tensor.all()
def _shape_as_tensor(tensor): return _C.tensor(tuple(tensor.shape), dtype=_C.int64)


# ----------------------------------------------------------------------------------------------------- symbolic numbers
class SymInt:
    """A size that is not known while tracing. Sizes are always known here, so nothing is one."""


class SymFloat(SymInt): pass
class SymBool(SymInt): pass


def sym_int(a): return int(a)
def sym_float(a): return float(a)
def sym_not(a): return not a
def sym_max(a, b): return max(a, b)
def sym_min(a, b): return min(a, b)
def sym_ite(b, t, f): return t if b else f


# --------------------------------------------------------------------------------------------------- absent kinds of things
class Stream:
    """A queue of work on an accelerator: there is none."""

    def __new__(cls, *args, **kwargs): raise RuntimeError("torch.Stream requires a device, and the CPU has no streams")


class Event(Stream):
    """A point in a stream: there is none."""


class OutOfMemoryError(RuntimeError):
    """Memory ran out on a device."""


class AcceleratorError(RuntimeError):
    """An accelerator failed. Never raised here."""


class PyTorchFileReader:
    """torch's reader of its own files, in C++: `torch.load` reads them here."""

    def __init__(self, *args, **kwargs) -> None:
        raise NotImplementedError("torch.PyTorchFileReader is not available: use torch.load")


class PyTorchFileWriter(PyTorchFileReader):
    """torch's writer of its own files."""
