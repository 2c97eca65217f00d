"""Handles that undo a registration, and the machinery behind a module's full backward hooks."""
from __future__ import annotations

import weakref
from collections import OrderedDict

from .._C import warn

__all__ = ["RemovableHandle", "BackwardHook", "warn_if_has_hooks"]


class RemovableHandle:
    """Remembers where a hook was put, so that it can be taken out again.

    It holds the dictionary of hooks weakly: a handle that outlives its module keeps nothing alive. `extra_dict` names
    further dictionaries (or a list of them) that carry flags for the same hook under the same id.
    """

    id: int
    next_id: int = 0

    def __init__(self, hooks_dict, *, extra_dict=None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        if extra_dict is None:
            extras = ()
        elif isinstance(extra_dict, list):
            extras = tuple(extra_dict)
        else:
            extras = (extra_dict,)
        self.extra_dict_ref = tuple(weakref.ref(extra) for extra in extras)

    def remove(self) -> None:
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        # A copy of a module copies its hooks: its handles must find the copied dictionaries, which pickle has already seen.
        return (self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref))

    def __setstate__(self, state) -> None:
        hooks, self.id = state[0], state[1]
        # A handle whose dictionary died before pickling gets an empty one: removing is then a no-op, as it was.
        self.hooks_dict_ref = weakref.ref(OrderedDict() if hooks is None else hooks)
        extras = state[2] if len(state) > 2 else ()
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if extra is None else extra) for extra in extras)
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc) -> None:
        self.remove()


def warn_if_has_hooks(tensor) -> None:
    """Pickling drops a tensor's backward hooks; say so once they are more than decoration."""
    hooks = getattr(tensor, "_backward_hooks", None)
    for hook in (hooks or {}).values():
        if not hasattr(hook, "__torch_unserializable__"):
            warn(f"backward hook {hook!r} on tensor will not be serialized: what is loaded has none. utils.hooks.unserializable_hook, as a decorator of the hook, says that this is meant.")


def unserializable_hook(hook):
    """Mark a hook that nobody expects to find again after pickling."""
    hook.__torch_unserializable__ = True
    return hook


_identity_function = None


def _identity():
    """The autograd identity over several tensors: the one node whose hooks see all of a module's gradients together."""
    global _identity_function
    if _identity_function is None:
        from rushlight.autograd import Function

        class BackwardHookFunction(Function):
            @staticmethod
            def forward(ctx, *args):
                ctx.mark_non_differentiable(*[arg for arg in args if not arg.requires_grad])
                return args

            @staticmethod
            def backward(ctx, *grads):
                return grads

        _identity_function = BackwardHookFunction
    return _identity_function


def _as_tuple(value) -> tuple:
    return value if isinstance(value, tuple) else (value,)


class BackwardHook:
    """Runs a module's full backward hooks for one call of the module.

    `setup_input` passes the inputs through an identity node, whose output gradients are the module's `grad_input`;
    `setup_output` does the same for the results, whose gradients are `grad_output`. When no input needs a gradient the
    hooks run as soon as `grad_output` is known.
    """

    def __init__(self, module, user_hooks, user_pre_hooks) -> None:
        self.module = module
        self.user_hooks = list(user_hooks)
        self.user_pre_hooks = list(user_pre_hooks)
        self.grad_outputs: tuple | None = None
        self.n_outputs = -1
        self.n_inputs = -1
        self.output_tensors_index: list[int] | None = None
        self.input_tensors_index: list[int] | None = None

    def setup_input(self, args: tuple) -> tuple:
        def watch(grad_fn) -> None:
            def hook(grad_input, _):
                if self.grad_outputs is None:      # the outputs took no part in this backward: nothing to report
                    return None
                full = self._unpack(grad_input, self.n_inputs, self.input_tensors_index)
                result = self._run_user_hooks(full, self.grad_outputs)
                self.grad_outputs = None
                return self._pack(result, self.input_tensors_index)
            grad_fn.register_hook(hook)

        new_args, self.input_tensors_index = self._through_identity(watch, args)
        self.n_inputs = len(args)
        return new_args

    def setup_output(self, result):
        def watch(grad_fn) -> None:
            def prehook(grad_output):
                full = self._unpack(grad_output, self.n_outputs, self.output_tensors_index)
                for hook in self.user_pre_hooks:
                    out = hook(self.module, full)
                    if out is None:
                        continue
                    out = _as_tuple(out)
                    if len(out) != len(full):
                        raise RuntimeError("Backward pre hook returned an invalid number of grad_output, "
                                           f"got {len(out)}, but expected {len(full)}")
                    full = out
                self.grad_outputs = full
                if self.input_tensors_index is None:
                    if self.user_hooks:
                        warn("Full backward hook is firing without a grad_input: none of the module's inputs requires a gradient, so it runs as soon as those of the outputs are there.")
                    nothing = self._unpack((), self.n_inputs, ())
                    if any(grad is not None for grad in self._run_user_hooks(nothing, full)):
                        raise RuntimeError("Backward hook for Modules where no input requires gradient should always return None "
                                           "or None for all gradients.")
                    self.grad_outputs = None
                return self._pack(full, self.output_tensors_index)
            grad_fn.register_prehook(prehook)

        outputs = _as_tuple(result)
        new_outputs, self.output_tensors_index = self._through_identity(watch, outputs)
        self.n_outputs = len(outputs)
        return new_outputs if isinstance(result, tuple) else new_outputs[0]

    def _run_user_hooks(self, grad_input: tuple, grad_output: tuple) -> tuple:
        for hook in self.user_hooks:
            out = hook(self.module, grad_input, grad_output)
            if out is None:
                continue
            out = _as_tuple(out)
            if len(out) != len(grad_input):
                raise RuntimeError(f"Backward hook returned an invalid number of grad_input, got {len(out)}, but expected "
                                   f"{len(grad_input)}")
            grad_input = out
        return grad_input

    @staticmethod
    def _unpack(values: tuple, length: int, index) -> tuple:
        full = [None] * length
        for value, position in zip(values, index or ()):
            full[position] = value
        return tuple(full)

    @staticmethod
    def _pack(full: tuple, index) -> tuple:
        return tuple(full[position] for position in index)

    def _through_identity(self, watch, args: tuple) -> tuple[tuple, list[int] | None]:
        from rushlight import Tensor, is_grad_enabled
        index = [i for i, arg in enumerate(args) if isinstance(arg, Tensor)]
        if not (is_grad_enabled() and any(args[i].requires_grad for i in index)):
            return args, None
        passed = _as_tuple(_identity().apply(*(args[i] for i in index)))
        nodes = [tensor.grad_fn for tensor in passed if tensor.grad_fn is not None]
        if not nodes:
            raise RuntimeError("Error while setting up Module backward hooks. Please submit a bug report.")
        watch(nodes[0])
        new_args = list(args)
        for position, tensor in zip(index, passed):
            new_args[position] = tensor
        kind = type(args)
        if kind is tuple:
            return tuple(new_args), index
        return kind(*new_args), index              # a named tuple stays one
