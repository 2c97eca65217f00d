"""`autograd.Function`: an operation whose forward and backward are written in Python.

The runtime's half is `csrc/function.cpp`: it runs `forward`, makes the node and calls `backward`. The ctx given to both is the `grad_fn`
of the results.
"""
from __future__ import annotations

import functools
from typing import Any

from .. import _C

__all__ = ["Function", "FunctionCtx", "BackwardCFunction", "FunctionMeta", "InplaceFunction", "once_differentiable"]


class FunctionCtx:
    """What `forward` tells `backward`. Any attribute may be set on it; tensors belong in `save_for_backward`."""

    def save_for_backward(self, *tensors) -> None:
        """Keeps inputs, outputs or intermediates for `backward`, which finds them in `ctx.saved_tensors`. Changing one in place
        before backward is noticed."""
        self.to_save = tensors

    def save_for_forward(self, *tensors) -> None:
        """Keeps tensors for `jvp`."""
        self.saved_for_forward = tensors

    def mark_dirty(self, *args) -> None:
        """Says which inputs `forward` changed in place. They must be returned."""
        self.dirty_tensors = args

    def mark_non_differentiable(self, *args) -> None:
        """Says which outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """False: gradients that do not exist come to `backward` as None, not as zeros."""
        self.materialize_grads = bool(value)

    def mark_shared_storage(self, *pairs) -> None:
        from .._C import warn

        warn("mark_shared_storage is deprecated: which tensors share memory is known without it (unless set_() changes it)", FutureWarning)


class BackwardCFunction(_C._FunctionBase, FunctionCtx):
    """The ctx of one call. Each Function has a subclass of its own, named after it."""

    def _run_backward(self, *gradients):
        function = self._forward_cls
        own_backward = function.backward is not Function.backward
        own_vjp = function.vjp is not Function.vjp
        if own_backward and own_vjp:
            raise RuntimeError("Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only implement "
                               "one of them.")
        return (function.vjp if own_vjp else function.backward)(self, *gradients)

    def apply(self, *gradients):
        return self._run_backward(*gradients)

    @property
    def saved_variables(self):
        return self.saved_tensors


class FunctionMeta(type):
    """Gives every Function the class of its ctx."""

    def __init__(cls, name: str, bases: tuple, attributes: dict) -> None:
        context = type(f"{name}Backward", (BackwardCFunction,), {"_forward_cls": cls, "__module__": cls.__module__})
        cls._backward_cls = context
        base = globals().get("Function")
        cls._uses_setup_context = base is not None and cls.setup_context is not base.setup_context
        super().__init__(name, bases, attributes)


class Function(_C._FunctionBase, FunctionCtx, metaclass=FunctionMeta):
    """Derive from it, write `forward` and `backward` as static methods, and call `apply`.

    >>> class Exp(rushlight.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         result = x.exp()
    ...         ctx.save_for_backward(result)
    ...         return result
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         result, = ctx.saved_tensors
    ...         return grad * result
    >>> y = Exp.apply(x)
    """

    def __init__(self, *args, **kwargs) -> None:
        raise RuntimeError(f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke "
                           "them on the class itself. Instantiating an autograd function is an error.")

    def __call__(self, *args, **kwargs):
        raise RuntimeError("Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
                           "function with static forward method.")

    @classmethod
    def _positional(cls, *args, **kwargs) -> tuple:
        """The arguments of `apply` by position: gradients have no names."""
        import inspect

        names = list(inspect.signature(cls.forward).parameters)[not cls._uses_setup_context:]
        values = list(args)
        for position in range(len(args), len(args) + len(kwargs)):
            if position >= len(names):
                break
            if names[position] not in kwargs:
                raise TypeError(f"forward() missing required argument: '{names[position]}' (position {position})")
            values.append(kwargs.pop(names[position]))
        if kwargs:
            raise TypeError(f"forward() got an unexpected keyword argument '{next(iter(kwargs))}'")
        return tuple(values)

    generate_vmap_rule = False            # True: vmap runs forward and backward over the batch

    @classmethod
    def _at_level(cls, *args):
        """The call at the innermost level under way (vmap, forward mode); NotImplemented: nothing there wants it as a whole."""
        level = _C.top_mode()
        run = getattr(level, "run_function", None)
        if run is None:
            return NotImplemented
        from ..func.functions import own

        if own(cls):
            return NotImplemented
        with _C.without_mode():
            return run(cls, args)

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """The operation: `forward(ctx, *args)`, or `forward(*args)` with a `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        """What to keep of a call, when `forward` does not take the ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the inputs, one per argument of `forward` (None where there is none), from those of the outputs."""
        raise NotImplementedError("You must implement either the backward or vjp method for your custom autograd.Function to use it with "
                                  "backward mode AD.")

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Forward-mode derivative."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info, in_dims, *args):
        """The operation over a batch of inputs."""
        raise NotImplementedError("To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
                                  "generate_vmap_rule=True.")


class InplaceFunction(Function):
    """Kept for old code: a Function made with `inplace=`."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class _OnceDifferentiable(Function):
    """Stands after a gradient that must not be differentiated again, and says so."""

    @staticmethod
    def forward(ctx, *gradients):
        return gradients if len(gradients) > 1 else gradients[0]

    @staticmethod
    def backward(ctx, *gradients):
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


def once_differentiable(backward):
    """Decorates a `backward` that is not itself differentiable: double backward through it is an error, not a wrong number."""

    @functools.wraps(backward)
    def wrapper(ctx, *gradients):
        from .grad_mode import no_grad

        with no_grad():
            outputs = backward(ctx, *gradients)
        recorded = _C.is_grad_enabled() and any(isinstance(g, _C.Tensor) and g.requires_grad for g in gradients)
        if not recorded:
            return outputs
        single = not isinstance(outputs, tuple)
        values = [outputs] if single else list(outputs)
        places = [i for i, value in enumerate(values) if isinstance(value, _C.Tensor)]
        if places:
            guarded = _OnceDifferentiable.apply(*[values[i].detach().requires_grad_() for i in places])
            for i, value in zip(places, guarded if isinstance(guarded, tuple) else (guarded,)):
                values[i] = value
        return values[0] if single else tuple(values)

    return wrapper
