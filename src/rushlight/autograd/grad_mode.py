"""Switches for recording: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`.

Each is a context manager and a decorator. The setting belongs to the thread.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from .. import _C
from .._C import warn

__all__ = ["no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "set_multithreading_enabled", "enforce_grad_layout_policy", "is_grad_enabled",
           "is_inference_mode_enabled"]

is_grad_enabled = _C.is_grad_enabled
is_inference_mode_enabled = _C.is_inference_mode_enabled


def _wrap_generator(make_context: Callable[[], Any], function: Callable) -> Callable:
    """A generator runs in the mode, its consumer does not: enter around each resumption only."""

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        generator = function(*args, **kwargs)
        try:
            with make_context():
                response = generator.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with make_context():
                        generator.close()
                    raise
                except BaseException as error:
                    with make_context():
                        response = generator.throw(error)
                else:
                    with make_context():
                        response = generator.send(request)
        except StopIteration as stop:
            return stop.value

    return wrapped


def _decorate(make_context: Callable[[], Any], function: Any) -> Any:
    if isinstance(function, type):
        warn(
            f"Decorating classes is deprecated: it reaches only the making of a {function.__name__}, that is __init__, which can be decorated itself. Decorate functions or methods.", FutureWarning)
        function.__init__ = _decorate(make_context, function.__init__)
        return function
    code = getattr(function, "__code__", None)         # not inspect.isgeneratorfunction: that import costs a tenth of ours
    if code is not None and code.co_flags & 0x20:      # CO_GENERATOR
        return _wrap_generator(make_context, function)

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with make_context():
            return function(*args, **kwargs)

    return wrapped


class _Mode:
    """A context manager that also decorates; each call of the decorated function enters a fresh one. Derive and write `__enter__` and `__exit__`."""

    def __enter__(self): raise NotImplementedError(f"{type(self).__name__} has no __enter__")
    def __exit__(self, *exc: object): raise NotImplementedError(f"{type(self).__name__} has no __exit__")

    def clone(self):
        return type(self)()

    def __call__(self, function: Callable) -> Callable:
        return _decorate(self.clone, function)


class _BareMode(_Mode):
    """One that may stand without parentheses: `@no_grad`."""

    def __new__(cls, function: Callable | None = None):
        self = super().__new__(cls)
        return self if function is None else self(function)


class no_grad(_BareMode):
    """Operations inside are not recorded: their results do not require grad.

    >>> x = rushlight.ones(2, requires_grad=True)
    >>> with rushlight.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __enter__(self) -> None:
        self.previous = _C.set_grad_enabled(False)

    def __exit__(self, *exc: object) -> None:
        _C.set_grad_enabled(self.previous)


class enable_grad(_BareMode):
    """Operations inside are recorded, also within `no_grad`."""

    def __enter__(self) -> None:
        self.previous = _C.set_grad_enabled(True)

    def __exit__(self, *exc: object) -> None:
        _C.set_grad_enabled(self.previous)


class set_grad_enabled(_Mode):
    """Switches recording at once; as a context manager it switches back at the end."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self.previous = _C.set_grad_enabled(bool(mode))

    def __call__(self, function: Callable) -> Callable:
        _C.set_grad_enabled(self.previous)            # a decorator switches nothing by itself
        return super().__call__(function)

    def __enter__(self) -> None:
        _C.set_grad_enabled(bool(self.mode))

    def __exit__(self, *exc: object) -> None:
        _C.set_grad_enabled(self.previous)

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(mode={self.mode})"


class inference_mode(_Mode):
    """Like `no_grad`, and what is made inside can never take part in a graph."""

    def __new__(cls, mode: bool | Callable = True):
        self = super().__new__(cls)
        if callable(mode):
            self.mode = True
            return _decorate(cls, mode)
        return self

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode

    def __enter__(self) -> None:
        self.previous = _C.set_inference_mode(self.mode)
        self.previous_grad = _C.set_grad_enabled(not self.mode)

    def __exit__(self, *exc: object) -> None:
        _C.set_grad_enabled(self.previous_grad)
        _C.set_inference_mode(self.previous)

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)


class _Advice(_Mode):
    """A setting that torch's engine takes as advice, and this one has no use for."""

    def __init__(self, mode: bool = True) -> None: self.mode = mode
    def __enter__(self) -> None: pass
    def __exit__(self, *exc: object) -> None: pass
    def clone(self): return type(self)(self.mode)


class set_multithreading_enabled(_Advice):
    """Whether backward may use a thread for each device: there is one device."""


class enforce_grad_layout_policy(_Advice):
    """Whether gradients must have their parameters' strides. They have them here; `False` would only allow others."""

    def __init__(self, enable: bool = True) -> None: super().__init__(enable)
