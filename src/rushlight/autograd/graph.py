"""Nodes of the graph as Python sees them, and the hooks that can be hung on nodes and tensors."""
from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from .. import _C
from ..utils.hooks import RemovableHandle

__all__ = ["Node", "GradientEdge", "get_gradient_edge", "register_multi_grad_hook", "increment_version", "save_on_cpu", "saved_tensors_hooks",
           "disable_saved_tensors_hooks", "allow_mutation_on_saved_tensors", "SavedTensor"]

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
    """Where a gradient goes: a node and which of its outputs. `grad()` and `backward()` take one wherever they take a tensor."""

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor) -> GradientEdge:
    """The edge that gradients of this tensor take."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*_C.gradient_edge(tensor))


class _MultiHandle(RemovableHandle):
    """Takes several hooks away at once."""

    def __init__(self, handles: tuple) -> None: self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __getstate__(self): return self.handles
    def __setstate__(self, state) -> None: self.handles = state


def register_multi_grad_hook(tensors: Sequence, fn: Callable, *, mode: str = "all") -> RemovableHandle:
    """Runs `fn` once per backward pass: with all gradients (None for those that this pass does not compute) when the last has come, or
    with the first (`mode="any"`).

    >>> handle = rushlight.autograd.graph.register_multi_grad_hook((x, y), lambda gradients: print(len(gradients)))
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = list(tensors)
    assert all(t.requires_grad for t in tensors), "Expected gradient function to be set"
    nodes = [_C.gradient_edge(t)[0] for t in tensors]
    passes: dict[int, list] = {}         # backward pass -> [gradients that came, how many are awaited, the gradients]
    last_pass = [-1]                     # mode "any": the pass that has been told

    def wait_for_all(index: int) -> Callable:
        def hook(grad):
            number = _C.current_run()
            if number not in passes:
                passes[number] = [0, sum(map(_C.run_executes, nodes)), [None] * len(tensors)]
            state = passes[number]
            state[0] += 1
            state[2][index] = grad
            if state[0] == state[1]:
                del passes[number]
                fn(state[2])
        return hook

    def tell_first(grad) -> None:
        if last_pass[0] != _C.current_run():
            last_pass[0] = _C.current_run()
            fn(grad)

    return _MultiHandle(tuple(t.register_hook(wait_for_all(i) if mode == "all" else tell_first) for i, t in enumerate(tensors)))


def increment_version(tensor) -> None:
    """Tells autograd that the data of a tensor (or of several) changed by other means."""
    several = (tensor,) if isinstance(tensor, Tensor) else tensor
    if not isinstance(several, Iterable):
        raise RuntimeError(f"increment_version expect a Iterable[Tensor] as input; got {type(tensor).__name__}")
    for t in several:
        _C.bump_version(t)


# ------------------------------------------------------------------------------------------------------ what a node has saved
class SavedTensor:
    """One value that a node keeps for backward: `grad_fn._raw_saved_self`. `register_hooks(pack, unpack)` packs it another way."""

    def __init__(self, node, index: int) -> None: self._node, self._index = node, index

    def register_hooks(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        if not callable(pack_hook) or not callable(unpack_hook):
            raise TypeError("register_hooks(): incompatible function arguments. Two functions are needed, pack_hook and unpack_hook; got "
                            f"{type(pack_hook).__name__} and {type(unpack_hook).__name__}")
        _C.pack_saved(self._node, self._index, pack_hook, unpack_hook)


@functools.lru_cache(maxsize=512)
def _saved_names(key: str, saves: tuple) -> tuple[dict[str, int], dict[str, Any]]:
    """Names of what a node keeps: of tensors, with their index; and of by-value arguments, with their value."""
    from .. import registry
    from ..compiler.request import _parse

    request = _parse(key)
    if request[0] != "op":
        return {}, {}
    signature = registry.find(request[1]).signatures[request[2]]
    arguments, values = [], {}
    for param, value in zip(signature.params, request[5]):
        if not param.is_tensor:
            if param.kind in ("int", "int[]", "bool", "str"):
                values[param.name] = value
        elif isinstance(value, list):
            arguments += [f"{param.name}_{i}" for i in range(len(value))]
        elif isinstance(value, tuple) or value is None:
            arguments.append(param.name)
    tensors = {}
    for index, (kind, which) in enumerate(saves):
        if kind == "arg" and which < len(arguments):
            tensors[arguments[which]] = index
        elif kind == "output":
            named = signature.returns[which][1] if which < len(signature.returns) else None
            tensors[named or ("result" if len(signature.returns) == 1 else f"result{which}")] = index
    return tensors, values


def _names_of(node) -> tuple[dict[str, int], dict[str, Any]]:
    found = _C.node_saves(node)
    return ({}, {}) if found is None or found[0] is None else _saved_names(*found)


def _node_attribute(self, name: str):
    """`_saved_NAME`: what the node keeps; `_raw_saved_NAME`: the same, not unpacked."""
    raw = name.startswith("_raw_saved_")
    if raw or name.startswith("_saved_"):
        tensors, values = _names_of(self)
        wanted = name.removeprefix("_raw_saved_" if raw else "_saved_")
        if wanted in tensors:
            return SavedTensor(self, tensors[wanted]) if raw else _C.node_saved(self, tensors[wanted])
        if not raw and wanted in values:
            return values[wanted]
    raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)


def _node_dir(self) -> list[str]:
    tensors, values = _names_of(self)
    return sorted({*object.__dir__(self)} - {"_saved_tensors"} | {*(f"_saved_{n}" for n in (*tensors, *values)), *(f"_raw_saved_{n}" for n in tensors)})


_C.Node.__getattr__ = _node_attribute
_C.Node.__dir__ = _node_dir


def _raw_saved_tensors(self) -> tuple:
    """What `save_for_backward` was given, not unpacked."""
    return tuple(SavedTensor(self, index) for index in range(len(self.saved_tensors)))


_C._FunctionBase._raw_saved_tensors = property(_raw_saved_tensors)


# ------------------------------------------------------------------------------------------- what is done to saved tensors
class saved_tensors_hooks:
    """Inside the block, `pack_hook(tensor)` says what is kept in place of each tensor that an operation saves for backward, and
    `unpack_hook(that)` gives the tensor back when backward asks. The innermost block counts.

    >>> def to_file(tensor):
    ...     name = os.path.join(folder, str(uuid.uuid4()))
    ...     rushlight.save(tensor, name)
    ...     return name
    >>> with rushlight.autograd.graph.saved_tensors_hooks(to_file, rushlight.load):
    ...     y = x * x
    """

    def __init__(self, pack_hook: Callable, unpack_hook: Callable) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        _C.push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exc) -> None:
        _C.pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keeps what is saved for backward in the CPU's memory, as a copy. (With the CPU as the only device that saves no memory; programs
    written for another device run unchanged.)"""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor):
            if not pin_memory:
                return tensor.device, tensor.detach().cpu()
            return tensor.device, tensor.detach().clone()       # memory of the CPU needs no pinning

        super().__init__(pack, lambda packed: packed[1].to(packed[0]))


class disable_saved_tensors_hooks(contextlib.ContextDecorator):
    """Inside the block, entering `saved_tensors_hooks` raises a RuntimeError with this message."""

    def __init__(self, error_message: str) -> None: self.error_message, self._outer = error_message, []
    def __enter__(self) -> None: self._outer.append(_C.disable_saved_hooks(self.error_message))
    def __exit__(self, *exc) -> None: _C.disable_saved_hooks(self._outer.pop())


class _Held:
    """A saved value whose memory may be written: the tensor as long as it was not, and its copy from then on."""

    __slots__ = ("tensor", "__weakref__")

    def __init__(self, tensor) -> None: self.tensor = tensor


class _AllowMutationOnSavedContext:
    """What is held for the graphs of one block; `clear()` gives it up."""

    def __init__(self) -> None:
        self._held: dict[int, weakref.WeakSet] = {}       # address of a storage -> values saved in it that have not been copied
        self._all: weakref.WeakSet = weakref.WeakSet()
        self._tidy_at = 1024

    def clear(self) -> None:
        for value in self._all:
            value.tensor = None
        self._held.clear()

    def _pack(self, tensor) -> _Held:
        if len(self._held) > self._tidy_at:               # graphs that are gone leave empty sets behind
            self._held = {place: values for place, values in self._held.items() if values}
            self._tidy_at = max(1024, 2 * len(self._held))
        value = _Held(tensor.detach())
        self._all.add(value)
        self._held.setdefault(tensor.untyped_storage()._cdata, weakref.WeakSet()).add(value)
        return value

    @staticmethod
    def _unpack(value: _Held):
        if value.tensor is None:
            raise AssertionError("Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was "
                                 "originally recorded.")
        return value.tensor

    def _before_write(self, tensor) -> None:
        """Somebody is going to write this memory: what was saved in it moves elsewhere first."""
        values = self._held.pop(tensor.untyped_storage()._cdata, None)
        if not values:
            return
        previous = _C.set_before_write(None)
        try:
            with _C.no_grad_guard():
                for value in values:
                    value.tensor = value.tensor.clone()
        finally:
            _C.set_before_write(previous)


_mutating = threading.local()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """Inside the block, tensors that were saved for backward may be written in place: their old value is copied before the first write.
    Backward must run inside the block too.

    >>> with rushlight.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x.clone()
    ...     out = (y ** 2).sum()
    ...     y.sin_()
    ...     out.backward()
    """
    if getattr(_mutating, "active", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()
    with saved_tensors_hooks(context._pack, context._unpack):
        outer = _C.set_before_write(context._before_write)
        _mutating.active = True
        try:
            yield context
        finally:
            _mutating.active = False
            _C.set_before_write(outer)
            context.clear()
