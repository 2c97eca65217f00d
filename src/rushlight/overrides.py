"""__torch_function__: how subclasses and foreign classes take part in calls. The C++ faces come here when an argument asks for it."""
from __future__ import annotations

import functools

from . import _C


def _overloaded(args, kwargs):
    """Arguments whose type defines __torch_function__, subclasses before their bases, each type once."""
    found = []

    def look(value, depth=0):
        kind = type(value)
        if kind in (int, float, str, bool, type(None)):
            return
        if kind in (list, tuple) and depth < 2:
            for v in value:
                look(v, depth + 1)
            return
        method = getattr(kind, "__torch_function__", None)
        if method is None or kind is _C.Tensor or method is _C._disabled_torch_function_impl or any(type(f) is kind for f in found):
            return
        place = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
        found.insert(place, value)

    for v in args:
        look(v)
    for v in kwargs.values():
        look(v)
    return found


def has_torch_function(args) -> bool:
    return bool(_overloaded(args, {}))


def handle_torch_function(function, relevant, *args, **kwargs):
    """Offer the call to each argument that asked for it; the first that does not answer NotImplemented decides."""
    return dispatch(function, None, args, kwargs)


def dispatch(function, types, args, kwargs):
    kwargs = kwargs or {}
    found = _overloaded(args, kwargs)
    kinds = tuple(type(f) for f in found)
    mode = _C.top_mode() if hasattr(_C, "top_mode") else None
    if mode is not None:
        with _C.without_mode():
            result = mode.__torch_function__(function, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in found:
        result = type(value).__torch_function__(function, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    if not found:
        with _C.disable_torch_function():
            return function(*args, **kwargs)
    raise TypeError(f"Multiple dispatch failed for 'torch.{getattr(function, '__name__', function)}'; all __torch_function__ handlers returned NotImplemented:\n\n"
                    + "".join(f"  - tensor subclass {k}\n" for k in kinds) + "\nFor more information, try re-running with TORCH_LOGS=not_implemented")


def aware(function):
    """A Python-level method that lets subclasses take part, as operators do."""
    @functools.wraps(function)
    def method(self, *args, **kwargs):
        if type(self) is not _C.Tensor and _overloaded((self, *args), kwargs) and not _C.torch_function_disabled():
            return dispatch(method, None, (self, *args), kwargs)
        return function(self, *args, **kwargs)
    return method
