"""torch.library: operators of one's own, by name. They are called through `torch.ops.NAMESPACE.NAME`, and are Python functions here, with
a gradient if one is registered."""
from __future__ import annotations

import functools
import inspect
from typing import Any

__all__ = ["Library", "custom_op", "CustomOpDef", "define", "impl", "fallthrough_kernel", "register_autograd", "register_fake", "register_kernel", "register_vmap",
           "impl_abstract", "opcheck", "infer_schema", "triton_op", "wrap_triton", "get_ctx"]

_operators: dict[str, CustomOpDef] = {}


def _split(name: str) -> tuple[str, str]:
    namespace, separator, short = name.partition("::")
    if not separator:
        raise ValueError(f"expected a name of the form 'namespace::name', got '{name}'")
    return namespace, short.partition("(")[0].partition(".")[0]


class CustomOpDef:
    """An operator: its function, and what was registered for it."""

    def __init__(self, name: str, function=None, schema: str | None = None, mutates_args=()) -> None:
        self._namespace, self._name = _split(name)
        self._qualname, self._schema, self.mutates_args = f"{self._namespace}::{self._name}", schema, mutates_args
        self._function, self._fake, self._backward, self._setup = function, None, None, None
        self.__name__ = self._name
        if function is not None:
            functools.update_wrapper(self, function)

    def __call__(self, *args, **kwargs):
        if self._function is None:
            raise NotImplementedError(f"Could not run '{self._qualname}': it was declared but has no implementation")
        if any(getattr(value, "is_meta", False) for value in (*args, *kwargs.values())) and self._fake is not None:
            return self._fake(*args, **kwargs)
        if self._backward is None:
            return self._function(*args, **kwargs)
        if kwargs:
            bound = inspect.signature(self._function).bind(*args, **kwargs)
            bound.apply_defaults()
            args = bound.args
        return self._autograd().apply(*args)

    def _autograd(self):
        from .autograd import Function
        definition = self

        class Registered(Function):
            @staticmethod
            def forward(*args): return definition._function(*args)

            @staticmethod
            def setup_context(ctx, inputs, output):
                if definition._setup is not None:
                    definition._setup(ctx, inputs, output)

            @staticmethod
            def backward(ctx, *grads): return definition._backward(ctx, *grads)

        Registered.__name__, Registered.__module__ = self._name, self._function.__module__      # the user's, as levels see it
        self._autograd = lambda: Registered              # type: ignore[method-assign]
        return Registered

    def register_fake(self, fn, /):
        """The operator's shape rule, for tensors without data."""
        self._fake = fn
        return fn

    def register_kernel(self, device_types, fn=None, /):
        """Another implementation for a kind of device; the CPU's becomes the operator's."""
        def attach(function):
            if device_types is None or "cpu" in ([device_types] if isinstance(device_types, str) else device_types):
                self._function = function
            return function
        return attach if fn is None else attach(fn)

    def register_autograd(self, backward, /, *, setup_context=None) -> None:
        """The gradient: `backward(ctx, *grads)`, after `setup_context(ctx, inputs, output)` kept what it needs."""
        self._backward, self._setup = backward, setup_context
        self.__dict__.pop("_autograd", None)

    def register_vmap(self, func=None): return func if func is not None else (lambda f: f)
    def register_torch_dispatch(self, kind, fn=None): return fn if fn is not None else (lambda f: f)
    @property
    def default(self): return self
    @property
    def _opoverload(self): return self
    def __repr__(self) -> str: return f"<CustomOpDef({self._qualname})>"


def custom_op(name: str, fn=None, /, *, mutates_args=(), device_types=None, schema: str | None = None, tags=None):
    """Make an operator of a function: `@custom_op("mylib::twice", mutates_args=())`."""
    def make(function):
        definition = CustomOpDef(name, function, schema, mutates_args)
        _operators[definition._qualname] = definition
        return definition
    return make if fn is None else make(fn)


def triton_op(name: str, fn=None, /, *, mutates_args=(), schema=None): return custom_op(name, fn, mutates_args=mutates_args, schema=schema)
def wrap_triton(kernel): return kernel


def _find(op) -> CustomOpDef:
    if isinstance(op, CustomOpDef):
        return op
    namespace, short = _split(op)
    return _operators.setdefault(f"{namespace}::{short}", CustomOpDef(f"{namespace}::{short}"))


def define(qualname: str, schema: str | None = None, *, lib=None, tags=()):
    """Declare an operator; `impl` gives it a body."""
    _find(qualname)._schema = schema
    return lambda function: function


def impl(qualname, types=None, func=None, *, lib=None):
    """A body for a declared operator."""
    def attach(function):
        if types is None or "CPU" in str(types).upper() or "Composite" in str(types) or str(types) == "default":
            _find(qualname)._function = function
        return function
    return attach if func is None else attach(func)


def register_fake(op, func=None, /, *, lib=None, _stacklevel: int = 1, allow_override: bool = False):
    """The shape rule of an operator."""
    return (lambda f: _find(op).register_fake(f)) if func is None else _find(op).register_fake(func)


impl_abstract = register_fake


def register_kernel(op, device_types, func=None, /, *, lib=None): return _find(op).register_kernel(device_types, func)


def register_autograd(op, backward, /, *, setup_context=None, lib=None) -> None:
    """The gradient of an operator."""
    _find(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op, func=None, /, *, lib=None): return func if func is not None else (lambda f: f)


class Library:
    """A namespace of operators: `lib = Library("mylib", "DEF"); lib.define("twice(Tensor x) -> Tensor"); lib.impl("twice", f, "CPU")`."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None: self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags=()) -> str:
        define(f"{self.ns}::{schema}", schema)
        return _split(f"{self.ns}::{schema}")[1]

    def impl(self, op_name, fn, dispatch_key: str = "", *, with_keyset: bool = False, allow_override: bool = False) -> None:
        name = op_name if isinstance(op_name, str) and "::" in op_name else f"{self.ns}::{op_name}"
        impl(name, dispatch_key or self.dispatch_key or None, fn)

    def fallback(self, fn, dispatch_key: str = "", *, with_keyset: bool = False) -> None: pass
    def _destroy(self) -> None: pass


def fallthrough_kernel() -> None:
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def infer_schema(prototype_function, /, *, mutates_args, op_name: str | None = None) -> str:
    """The signature as text."""
    return (op_name or prototype_function.__name__) + str(inspect.signature(prototype_function))


def opcheck(op, args, kwargs=None, *, test_utils=None, raise_exception: bool = True, atol=None, rtol=None) -> dict:
    raise NotImplementedError("torch.library.opcheck is not available: nothing checks a custom operator here yet")


def get_ctx() -> Any:
    raise RuntimeError("get_ctx() can only be called inside a function registered with register_fake")
