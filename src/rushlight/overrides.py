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
    if mode is not None and getattr(mode, "looks_inside", False):
        # A level of differentiation or of a batch knows operators on dense tensors: it is shown those that a sparse tensor's are made of.
        for value in found:
            if getattr(type(value), "is_made_of_operators", False): return type(value).__torch_function__(function, kinds, args, kwargs)
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
        if kwargs.get("layout") not in (None, _C.strided):
            from .sparse.dispatch import create
            return create(function, args, kwargs)
        with _C.disable_torch_function():
            return function(*args, **kwargs)
    raise TypeError(f"Multiple dispatch failed for 'torch.{getattr(function, '__name__', function)}'; all __torch_function__ handlers returned NotImplemented:\n\n"
                    + "".join(f"  - tensor subclass {k}\n" for k in kinds) + "\nFor more information, try re-running with TORCH_LOGS=not_implemented")


def aware(function):
    """A Python-level method that lets subclasses take part, as operators do."""
    @functools.wraps(function)
    def method(*args, **kwargs):                       # a function's first argument may come by name
        if not (args and type(args[0]) is _C.Tensor) and _overloaded(args, kwargs) and not _C.torch_function_disabled():
            return dispatch(method, None, args, kwargs)
        return function(*args, **kwargs)
    return method


PLAIN = {_C.Tensor, int, bool, float, str, type(None)}


def _plain(args, kwargs):
    """Is nothing here, or one level within a list, that could want the call? The quick answer for almost every call."""
    for group in args, kwargs.values() if kwargs else ():
        for value in group:
            kind = type(value)
            if kind in PLAIN: continue
            if kind is not list and kind is not tuple: return False
            for item in value:
                if type(item) not in PLAIN: return False
    return True


def aware_of_all(function):
    """A function written in Python that lets any of its arguments take part, also one within a list: `torch.broadcast_tensors(plain, other)`."""
    @functools.wraps(function)
    def call(*args, **kwargs):
        if not _plain(args, kwargs) and _overloaded(args, kwargs) and not _C.torch_function_disabled():
            return dispatch(call, None, args, kwargs)
        return function(*args, **kwargs)
    return call


# ------------------------------------------------------------------------------------------------------------ torch.overrides
class TorchFunctionMode:
    """Sees every call inside its block: derive and write `__torch_function__(self, func, types, args=(), kwargs=None)`."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"{type(self).__name__} is a mode without __torch_function__")

    def __enter__(self):
        _C.push_mode(self)
        return self

    def __exit__(self, *exc) -> None:
        _C.pop_mode()

    @classmethod
    def push(cls, *args, **kwargs): return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """Calls on, unchanged."""

    def __torch_function__(self, func, types, args=(), kwargs=None): return func(*args, **(kwargs or {}))


def has_torch_function_unary(value) -> bool: return has_torch_function((value,))
def has_torch_function_variadic(*values) -> bool: return has_torch_function(values)
def is_tensor_like(value) -> bool: return isinstance(value, _C.Tensor) or hasattr(type(value), "__torch_function__")
def is_tensor_method_or_property(func) -> bool: return func in set(vars(_C.Tensor).values())


def wrap_torch_function(dispatcher):
    """Decorator: offers a Python function's calls to the arguments that `dispatcher(*args)` gives."""
    def wrap(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            if has_torch_function(dispatcher(*args, **kwargs)):
                return handle_torch_function(call, None, *args, **kwargs)
            return function(*args, **kwargs)
        return call
    return wrap


def resolve_name(f) -> str | None:
    """How a program names a function: `torch.add`, `torch.Tensor.add`."""
    name = getattr(f, "__name__", None)
    if name is None:
        return None
    if vars(_C.Tensor).get(name) is f:
        return f"torch.Tensor.{name}"
    return f"torch.{name}"


def get_default_nowrap_functions() -> set: return {_C.Tensor._base, _C.Tensor.grad}


def get_ignored_functions() -> set:
    """Functions that no argument is asked about."""
    import rushlight as rl
    names = ("tensor", "empty", "zeros", "ones", "full", "arange", "linspace", "eye", "rand", "randn", "randint", "randperm", "from_numpy", "as_tensor",
             "get_default_dtype", "set_default_dtype", "is_tensor", "manual_seed", "save", "load")
    return {getattr(rl, name) for name in names if hasattr(rl, name)}


def get_overridable_functions() -> dict:
    """Functions that arguments are asked about, by the place they are found in."""
    import rushlight as rl
    return {rl: [v for v in vars(rl).values() if isinstance(v, _C.OpFunction)],
            _C.Tensor: [v for v in vars(_C.Tensor).values() if isinstance(v, _C.OpMethod)]}
