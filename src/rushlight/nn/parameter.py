"""Parameter and Buffer: tensors that a Module takes notice of when they are assigned to it."""
from __future__ import annotations

from collections import OrderedDict

import rushlight as rl
from rushlight import Tensor

__all__ = ["Parameter", "Buffer", "is_lazy"]


def is_lazy(param) -> bool:
    """Parameters of unknown shape do not exist yet; code that asks gets the truthful answer."""
    return False


class _ParameterMeta(type(Tensor)):
    # A tensor subclass that stays itself (see Parameter.__new__) is marked instead of wrapped, and still counts.
    def __instancecheck__(self, instance) -> bool:
        if type.__instancecheck__(self, instance):
            return True
        return self is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is learned: assigned to a Module it appears in `parameters()`.

    It shares its memory with `data` and requires a gradient unless told otherwise.
    """

    def __new__(cls, data=None, requires_grad: bool = True):
        if data is None:
            data = rl.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        marked = data.detach().requires_grad_(requires_grad)
        if type(marked) is not type(data):
            raise RuntimeError(f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an "
                               f"instance of the same type, but return type {type(marked).__name__} was found instead. To use the type "
                               "as a Parameter, please correct the detach() semantics defined by its __torch_dispatch__() implementation.")
        marked._is_param = True
        return marked

    # Results of operations on a parameter are plain tensors.
    __torch_function__ = rl._C._disabled_torch_function_impl

    def __deepcopy__(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.data.clone(memory_format=rl.preserve_format), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol):
        from rushlight import serialization
        state = serialization.object_state(self)
        if state:
            return serialization._rebuild_parameter_with_state, (self.data, self.requires_grad, OrderedDict(), state)
        return serialization._rebuild_parameter, (self.data, self.requires_grad, OrderedDict())


class _BufferMeta(type(Tensor)):
    def __instancecheck__(self, instance) -> bool:
        if type.__instancecheck__(self, instance):
            return True
        return self is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that a Module keeps but does not learn: assigned to one it appears in `buffers()`.

    The result is a plain tensor with a mark on it; `persistent=False` keeps it out of the state dict.
    """

    def __new__(cls, data=None, *, persistent: bool = True):
        if data is None:
            data = rl.empty(0)
        tensor = data.detach().requires_grad_(data.requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor


# The runtime lets exactly this subclass take the fast path that plain tensors take.
rl._C._register_parameter_type(Parameter)
