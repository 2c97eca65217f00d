"""torch.utils._contextlib: the base of context managers that are decorators too."""
from __future__ import annotations

import functools
import inspect

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager"]


def context_decorator(make, function):
    """A function that runs inside a block; a generator's body runs inside it at each of its steps."""
    if inspect.isgeneratorfunction(function):
        @functools.wraps(function)
        def generator(*args, **kwargs):
            inner = function(*args, **kwargs)
            sent = None
            try:
                while True:
                    with make():
                        try:
                            value = inner.send(sent)
                        except StopIteration as stop:
                            return stop.value
                    sent = yield value
            finally:
                inner.close()
        return generator

    @functools.wraps(function)
    def decorated(*args, **kwargs):
        with make():
            return function(*args, **kwargs)
    return decorated


class _DecoratorContextManager:
    """Derive, write `__enter__` and `__exit__`, and use it as a block or as a decorator; `clone` makes the block of one call."""

    def __call__(self, orig_func): return context_decorator(self.clone, orig_func)
    def __enter__(self): raise NotImplementedError
    def __exit__(self, exc_type, exc_value, traceback): raise NotImplementedError
    def clone(self): return type(self)()


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """The kind that may be used without brackets."""

    def __new__(cls, orig_func=None):
        return super().__new__(cls) if orig_func is None else cls()(orig_func)
