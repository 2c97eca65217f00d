"""Hooks of modules: those of one module, those of every module, and the call path that runs them.

A module without hooks never comes here: `Module.__call__` looks whether any dictionary below has an entry.
"""
from __future__ import annotations

import functools
import weakref
from collections import OrderedDict

from rushlight import Tensor
from rushlight.utils.hooks import BackwardHook, RemovableHandle

from ..._C import warn

# Hooks of every module. The ids of one that takes keyword arguments, or must run after an exception too, are also in the
# companion dictionary.
global_backward_pre_hooks: OrderedDict = OrderedDict()
global_backward_hooks: OrderedDict = OrderedDict()
global_forward_pre_hooks: OrderedDict = OrderedDict()
global_forward_hooks: OrderedDict = OrderedDict()
global_forward_hooks_with_kwargs: OrderedDict = OrderedDict()
global_forward_hooks_always_called: OrderedDict = OrderedDict()
global_buffer_registration_hooks: OrderedDict = OrderedDict()
global_module_registration_hooks: OrderedDict = OrderedDict()
global_parameter_registration_hooks: OrderedDict = OrderedDict()
_global_is_full_backward_hook: bool | None = None


def _insert(hooks: OrderedDict, hook, prepend: bool = False, companions: dict[str, OrderedDict] | None = None) -> RemovableHandle:
    flagged = list((companions or {}).values())
    handle = RemovableHandle(hooks, extra_dict=flagged)
    hooks[handle.id] = hook
    for companion in flagged:
        companion[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook) -> RemovableHandle:
    """Call `hook(module, name, buffer)` for every `register_buffer`; it may return another buffer."""
    return _insert(global_buffer_registration_hooks, hook)


def register_module_module_registration_hook(hook) -> RemovableHandle:
    """Call `hook(module, name, submodule)` for every submodule that is registered; it may return another one."""
    return _insert(global_module_registration_hooks, hook)


def register_module_parameter_registration_hook(hook) -> RemovableHandle:
    """Call `hook(module, name, param)` for every parameter that is registered; it may return another one."""
    return _insert(global_parameter_registration_hooks, hook)


def register_module_forward_pre_hook(hook) -> RemovableHandle:
    """Call `hook(module, args)` before every module's forward; it may return other arguments."""
    return _insert(global_forward_pre_hooks, hook)


def register_module_forward_hook(hook, *, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
    """Call `hook(module, args, result)` after every module's forward; it may return another result."""
    companions = {}
    if with_kwargs:
        companions["kwargs"] = global_forward_hooks_with_kwargs
    if always_call:
        companions["always"] = global_forward_hooks_always_called
    return _insert(global_forward_hooks, hook, companions=companions)


_TWO_GLOBAL_KINDS = "Cannot use both regular backward hooks and full backward hooks as a global Module hook. Please use only one of them."
_TWO_KINDS = "Cannot use both regular backward hooks and full backward hooks on a single Module. Please use only one of them."


def register_module_backward_hook(hook) -> RemovableHandle:
    """The old kind, which sees only the gradients of the last node of a forward. Prefer the full one."""
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is True:
        raise RuntimeError(_TWO_GLOBAL_KINDS)
    _global_is_full_backward_hook = False
    return _insert(global_backward_hooks, hook)


def register_module_full_backward_hook(hook) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` whenever a module's gradients are known."""
    global _global_is_full_backward_hook
    if _global_is_full_backward_hook is False:
        raise RuntimeError(_TWO_GLOBAL_KINDS)
    _global_is_full_backward_hook = True
    return _insert(global_backward_hooks, hook)


def register_module_full_backward_pre_hook(hook) -> RemovableHandle:
    """Call `hook(module, grad_output)` before a module's backward; it may return other gradients."""
    return _insert(global_backward_pre_hooks, hook)


class WrappedHook:
    """A hook that is given its module first, holding the module weakly (a hook must not keep its owner alive)."""

    def __init__(self, hook, module=None) -> None:
        self.hook = hook
        functools.update_wrapper(self, hook)
        self.with_module = module is not None
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict:
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state: dict) -> None:
        self.hook = state["hook"]
        self.with_module = state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


class HookedModule:
    """The part of Module that registers hooks and calls forward through them."""

    def register_forward_pre_hook(self, hook, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Call `hook(module, args)` (or `hook(module, args, kwargs)`) before forward; it may return other arguments."""
        companions = {"kwargs": self._forward_pre_hooks_with_kwargs} if with_kwargs else None
        return _insert(self._forward_pre_hooks, hook, prepend, companions)

    def register_forward_hook(self, hook, *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> RemovableHandle:
        """Call `hook(module, args, result)` (or with `kwargs` before the result) after forward; it may return another result.

        With `always_call` it runs even when forward, or a hook before it, raised.
        """
        companions = {}
        if with_kwargs:
            companions["kwargs"] = self._forward_hooks_with_kwargs
        if always_call:
            companions["always"] = self._forward_hooks_always_called
        return _insert(self._forward_hooks, hook, prepend, companions)

    def register_full_backward_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when the gradients of the inputs are known; it may return other ones."""
        if self._is_full_backward_hook is False:
            raise RuntimeError(_TWO_KINDS)
        self._is_full_backward_hook = True
        return _insert(self._backward_hooks, hook, prepend)

    def register_full_backward_pre_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the module's backward; it may return other gradients."""
        return _insert(self._backward_pre_hooks, hook, prepend)

    def register_backward_hook(self, hook) -> RemovableHandle:
        """The old kind of backward hook, which sees only the last node of forward. Prefer `register_full_backward_hook`."""
        if self._is_full_backward_hook is True:
            raise RuntimeError(_TWO_KINDS)
        self._is_full_backward_hook = False
        return _insert(self._backward_hooks, hook)

    def _get_backward_hooks(self) -> tuple[list, list]:
        full, old = [], []
        if _global_is_full_backward_hook is True:
            full.extend(global_backward_hooks.values())
        if self._is_full_backward_hook is True:
            full.extend(self._backward_hooks.values())
        if _global_is_full_backward_hook is False:
            old.extend(global_backward_hooks.values())
        if self._is_full_backward_hook is False:
            old.extend(self._backward_hooks.values())
        return full, old

    def _get_backward_pre_hooks(self) -> list:
        return [*global_backward_pre_hooks.values(), *self._backward_pre_hooks.values()]

    def _call_impl(self, *args, **kwargs):
        """forward with every hook around it, in this order: global before local, pre-hooks, forward, hooks, backward set-up."""
        called_always: set[int] = set()
        result = None
        try:
            args, kwargs = self._run_pre_hooks(args, kwargs)
            full, old = self._get_backward_hooks() if global_backward_hooks or self._backward_hooks else ([], [])
            pre = self._get_backward_pre_hooks()
            backward = BackwardHook(self, full, pre) if full or pre else None
            if backward is not None:
                args = backward.setup_input(args)
            result = self.forward(*args, **kwargs)
            for key, hook, with_kwargs, always in self._forward_hook_table():
                if always:
                    called_always.add(key)
                out = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if out is not None:
                    result = out
            if backward is not None:
                if not isinstance(result, (Tensor, tuple)):
                    warn(f"For backward hooks to be called, a module has to return a Tensor or a tuple of Tensors; this one returned {type(result)}")
                result = backward.setup_output(result)
            if old:
                self._attach_old_backward_hooks(old, args, result)
            return result
        except Exception:
            self._run_always_called(called_always, args, kwargs, result)
            raise

    def _run_pre_hooks(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        for key, hook in (*global_forward_pre_hooks.items(), *self._forward_pre_hooks.items()):
            if key in self._forward_pre_hooks_with_kwargs:
                out = hook(self, args, kwargs)
                if out is not None:
                    if not (isinstance(out, tuple) and len(out) == 2):
                        raise RuntimeError("forward pre-hook must return None or a tuple "
                                           f"of (new_args, new_kwargs), but got {out}.")
                    args, kwargs = out
            else:
                out = hook(self, args)
                if out is not None:
                    args = out if isinstance(out, tuple) else (out,)
        return args, kwargs

    def _forward_hook_table(self):
        for key, hook in list(global_forward_hooks.items()):
            yield key, hook, key in global_forward_hooks_with_kwargs, key in global_forward_hooks_always_called
        for key, hook in list(self._forward_hooks.items()):
            yield key, hook, key in self._forward_hooks_with_kwargs, key in self._forward_hooks_always_called

    def _run_always_called(self, done: set[int], args: tuple, kwargs: dict, result) -> None:
        for key, hook, with_kwargs, always in self._forward_hook_table():
            if not always or key in done:
                continue
            try:
                out = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if out is not None:
                    result = out
            except Exception as error:
                kind = "global module" if key in global_forward_hooks else "module"
                warn(f"{kind} forward hook with ``always_call=True`` failed after forward had failed already; its own error is passed over: {error}")

    def _attach_old_backward_hooks(self, hooks: list, args: tuple, result) -> None:
        leaf = result
        while not isinstance(leaf, Tensor):
            if isinstance(leaf, dict):
                leaf = next(value for value in leaf.values() if isinstance(value, Tensor))
            else:
                leaf = leaf[0]
        node = leaf.grad_fn
        if node is None:
            return
        for hook in hooks:
            # The node's hook has no module to offer: each user hook gets this one first.
            node.register_hook(functools.partial(hook, self))
        self._maybe_warn_non_full_backward_hook(args, result, node)

    def _maybe_warn_non_full_backward_hook(self, args, result, node) -> None:
        def is_flat(value):
            return isinstance(value, Tensor) or (isinstance(value, tuple) and all(isinstance(item, Tensor) for item in value))

        advice = "That is deprecated; register_full_backward_hook gives both whole."
        if not is_flat(result):
            warn(f"Using non-full backward hooks on a Module whose result is no Tensor or tuple of Tensors: the hook sees a part of grad_output only. {advice}", FutureWarning)
        elif not is_flat(args):
            warn(f"Using non-full backward hooks on a Module whose arguments are no Tensors: the hook sees a part of grad_input only. {advice}", FutureWarning)
        else:
            results = (result,) if isinstance(result, Tensor) else result
            inputs = (args,) if isinstance(args, Tensor) else args
            nodes = {tensor.grad_fn for tensor in results if tensor.grad_fn is not None}
            input_nodes = {tensor.grad_fn for tensor in inputs if tensor.grad_fn is not None}
            next_nodes = {edge[0] for edge in node.next_functions}
            if len(nodes) > 1:
                warn(f"Using a non-full backward hook when outputs come from several nodes of the graph: the hook sees a part of grad_output only. {advice}", FutureWarning)
            elif input_nodes != next_nodes:
                warn(f"Using a non-full backward hook when the forward is more than one node of the graph: the hook sees the grad_input of the last only. {advice}", FutureWarning)
