"""torch.jit: programs decorate functions for TorchScript; here a function is fast as it is, so the decorators give it back unchanged.

What the decorators promise (the function computes the same) holds. What only TorchScript has (a saved archive, an inspectable graph) raises.
"""
from __future__ import annotations

import contextlib
from typing import Any, Final, TypeVar

from .. import nn as _nn

__all__ = ["script", "trace", "trace_module", "ignore", "unused", "export", "is_scripting", "is_tracing", "interface", "annotate", "isinstance",
           "fork", "wait", "ScriptModule", "ScriptFunction", "Attribute", "Final", "Error", "optimized_execution", "freeze", "optimize_for_inference",
           "script_if_tracing", "enable_onednn_fusion", "set_fusion_strategy"]

_T = TypeVar("_T")
_isinstance = isinstance


class Error(RuntimeError):
    """An error inside TorchScript. Never raised here."""


class ScriptModule(_nn.Module):
    """The base of compiled modules: an ordinary module here. No module is one unless it derives from it."""

    @property
    def code(self) -> str:
        raise NotImplementedError("there is no TorchScript code: modules run as they are written")


RecursiveScriptModule = ScriptModule


class ScriptFunction:
    """The type of compiled functions. `script` returns the function itself, so nothing is one."""


class CompilationUnit:
    """A compiled piece of source: not available."""

    def __init__(self, *args, **kwargs) -> None:
        raise NotImplementedError("torch.jit.CompilationUnit: TorchScript source cannot be compiled here; write the function in Python")


def script(obj: _T, optimize=None, _frames_up: int = 0, _rcb=None, example_inputs=None) -> _T:
    """The function, class or module itself."""
    return obj


def trace(func=None, example_inputs=None, optimize=None, check_trace=True, check_inputs=None, check_tolerance=1e-5, strict=True, _force_outplace=False,
          _module_class=None, _compilation_unit=None, example_kwarg_inputs=None, _store_inputs=True):
    """The function or module itself, after one call with the example inputs, which shows the errors that tracing would."""
    if example_inputs is not None:
        func(*(example_inputs if _isinstance(example_inputs, (tuple, list)) else (example_inputs,)))
    elif example_kwarg_inputs is not None:
        func(**example_kwarg_inputs)
    return func


def trace_module(mod, inputs, *args, **kwargs):
    """The module itself, after one call of each method named in `inputs`."""
    for name, values in inputs.items():
        getattr(mod, name)(*(values if _isinstance(values, tuple) else (values,)))
    return mod


def _plain_or_configured(mark):
    """A decorator that is used bare or called with options."""
    def decorate(obj=None, **options):
        return mark if obj is None or _isinstance(obj, bool) else mark(obj)
    return decorate


def _unchanged(function): return function


ignore = _plain_or_configured(_unchanged)
ignore.__doc__ = "Decorator: TorchScript leaves the function to Python. Without effect."
script_if_tracing = _script_if_tracing = _overload = _overload_method = unused = export = interface = _unchanged


def is_scripting() -> bool:
    """Whether TorchScript is compiling this: never."""
    return False


def is_tracing() -> bool:
    """Whether a trace is under way: never."""
    return False


def annotate(the_type, the_value):
    """The value."""
    return the_value


def isinstance(obj, target_type) -> bool:
    """Python's isinstance, which also takes typing's List[int] and the like by their plain type."""
    origin = getattr(target_type, "__origin__", target_type)
    return _isinstance(obj, origin)


class Attribute(tuple):
    """A value with its type, for ScriptModules: (value, type)."""

    def __new__(cls, value, type): return tuple.__new__(cls, (value, type))
    value = property(lambda self: self[0])
    type = property(lambda self: self[1])


def fork(func, *args, **kwargs):
    """Calls the function now; `wait` gives its result."""
    return _Future(func(*args, **kwargs))


def wait(future): return future.wait()


class _Future:
    def __init__(self, value) -> None: self._value = value
    def wait(self): return self._value
    value = wait
    def done(self) -> bool: return True


def freeze(mod, preserved_attrs=None, optimize_numerics=True): return mod
def optimize_for_inference(mod, other_methods=None): return mod
def run_frozen_optimizations(mod, *args, **kwargs) -> None: pass
def set_fusion_strategy(strategy) -> list: return []
def enable_onednn_fusion(enabled: bool) -> None: pass
def onednn_fusion_enabled() -> bool: return False


@contextlib.contextmanager
def optimized_execution(should_optimize: bool):
    """Without effect."""
    yield


@contextlib.contextmanager
def fuser(name: str):
    """Without effect."""
    yield


strict_fusion = contextlib.nullcontext


def save(m, f, _extra_files=None):
    raise NotImplementedError("torch.jit.save: there is no TorchScript archive to write; use torch.save with the state dict")


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    raise NotImplementedError("torch.jit.load: TorchScript archives cannot be read yet; save the weights with torch.save(model.state_dict(), …) instead")


def __getattr__(name: str) -> Any:
    if name == "annotations":
        import importlib
        return importlib.import_module(".annotations", __name__)
    raise AttributeError(f"module 'torch.jit' has no attribute '{name}'")
