"""Nodes of the graph as Python sees them, and the hooks that can be hung on nodes and tensors."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import _C
from ..utils.hooks import RemovableHandle

__all__ = ["Node", "GradientEdge", "get_gradient_edge", "register_multi_grad_hook", "increment_version", "save_on_cpu", "saved_tensors_hooks",
           "disable_saved_tensors_hooks", "allow_mutation_on_saved_tensors"]

Node = _C.Node
Tensor = _C.Tensor


def _register(hooks, hook: Callable) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def _node_register_hook(self, fn: Callable) -> RemovableHandle:
    """`fn(grad_inputs, grad_outputs)` runs after the node; a tuple that it returns replaces `grad_inputs`."""
    return _register(_C.node_hooks(self, False), fn)


def _node_register_prehook(self, fn: Callable) -> RemovableHandle:
    """`fn(grad_outputs)` runs before the node; a tuple that it returns replaces them."""
    return _register(_C.node_hooks(self, True), fn)


for _kind in (_C.Node, _C._FunctionBase):
    _kind.register_hook = _node_register_hook
    _kind.register_prehook = _node_register_prehook


def _tensor_register_hook(self, hook: Callable) -> RemovableHandle:
    """`hook(grad)` runs when the gradient of this tensor is known; a tensor that it returns takes the gradient's place.

    >>> x = rushlight.tensor([1.0], requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 2)
    >>> handle.remove()
    """
    return _register(_C.tensor_hooks(self), hook)


def _tensor_register_post_accumulate_grad_hook(self, hook: Callable) -> RemovableHandle:
    """`hook(param)` runs after the gradient has been added to `.grad` of this leaf."""
    return _register(_C.accumulated_hooks(self), hook)


def _tensor_retain_grad(self) -> None:
    """Keeps the gradient of this non-leaf tensor in its `.grad`."""
    _C.retain_grad(self)


Tensor.register_hook = _tensor_register_hook
Tensor.register_post_accumulate_grad_hook = _tensor_register_post_accumulate_grad_hook
Tensor.retain_grad = _tensor_retain_grad
for _name in ("register_hook", "register_post_accumulate_grad_hook", "retain_grad"):
    _method = getattr(Tensor, _name)
    _method.__name__, _method.__qualname__ = _name, f"Tensor.{_name}"


class GradientEdge(NamedTuple):
    """Where a gradient goes: a node and which of its outputs."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor) -> GradientEdge:
    """The edge that gradients of this tensor take."""
    return GradientEdge(*_C.gradient_edge(tensor))


def register_multi_grad_hook(tensors: Sequence, fn: Callable, *, mode: str = "all") -> RemovableHandle:
    """Runs `fn` once per backward: with all gradients (None where there is none) when the last has come, or with the first
    (`mode="any"`)."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = [t for t in tensors if t.requires_grad]
    state = {"gradients": [None] * len(tensors), "seen": 0}

    def hook_for(index: int) -> Callable:
        def hook(grad):
            state["seen"] += 1
            state["gradients"][index] = grad
            first, last = state["seen"] == 1, state["seen"] == len(tensors)
            gradients = state["gradients"]
            if last:
                state["gradients"], state["seen"] = [None] * len(tensors), 0
            if mode == "any" and first:
                fn(grad)
            elif mode == "all" and last:
                fn(gradients)

        return hook

    handles = [t.register_hook(hook_for(i)) for i, t in enumerate(tensors)]

    class Handle:
        def remove(self) -> None:
            for handle in handles:
                handle.remove()

        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *exc: self.remove()  # noqa: E731

    return Handle()


def increment_version(tensor) -> None:
    """Tells autograd that the data of a tensor (or of several) changed by other means."""
    for t in (tensor,) if isinstance(tensor, Tensor) else tensor:
        _C.bump_version(t)


# ------------------------------------------------------------------------------------------- what is done to saved tensors
class saved_tensors_hooks:
    """Functions that pack what is saved for backward and unpack it again: not available yet, and it says so when it is entered."""

    def __init__(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        raise NotImplementedError("torch.autograd.graph.saved_tensors_hooks is not available yet")

    def __exit__(self, *exc) -> None: pass


class save_on_cpu(saved_tensors_hooks):
    """Keep what is saved for backward in the CPU's memory: where it is anyway."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: tensor, lambda tensor: tensor)

    def __enter__(self) -> None: pass


class disable_saved_tensors_hooks:
    """Refuse saved_tensors_hooks inside the block: there are none to refuse."""

    def __init__(self, error_message: str) -> None: self.error_message = error_message
    def __enter__(self) -> None: pass
    def __exit__(self, *exc) -> None: pass


def allow_mutation_on_saved_tensors():
    raise NotImplementedError("torch.autograd.graph.allow_mutation_on_saved_tensors is not available yet")
