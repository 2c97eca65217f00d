"""Parameter and Buffer: tensors that a Module takes notice of when they are assigned to it."""
from __future__ import annotations

import sys
from collections import OrderedDict

import rushlight as rl
from rushlight import Tensor

__all__ = ["Parameter", "UninitializedParameter", "is_lazy", "Buffer", "UninitializedBuffer", "UninitializedTensorMixin"]


def is_lazy(param) -> bool:
    """Whether a parameter or buffer waits for the first call of its module to learn its shape."""
    return isinstance(param, UninitializedTensorMixin)


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


_NO_SHAPE = ("Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` when trying to load an "
             "uninitialized parameter into an initialized one. Call `forward` to initialize the parameters before accessing their attributes.")
# What works without a shape: loading, and conversion of the module that waits.
_WITHOUT_SHAPE = {"__hash__", "size", "copy_", "is_complex", "is_floating_point", "half", "float", "double", "bfloat16", "char", "short", "int", "long", "cuda", "cpu",
                  "to", "get_device"}


def _refuse(function):
    raise ValueError(f"Attempted to use an uninitialized parameter in {function}. This error happens when you are using a `LazyModule` or explicitly "
                     "manipulating `torch.nn.parameter.UninitializedParameter` objects. When using LazyModules Call `forward` with a dummy batch to "
                     "initialize the parameters before calling torch functions")


class UninitializedTensorMixin:
    """A tensor whose device and dtype are known and whose shape is not: `materialize` gives it one, and its place among ordinary tensors."""

    cls_to_become: type

    def materialize(self, shape, device=None, dtype=None) -> None:
        """Become an ordinary parameter or tensor of this shape, with values that nobody has set; the same object, so whoever holds it goes on."""
        device = self.device if device is None else device
        dtype = self.dtype if dtype is None else dtype
        self.data = rl.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self):
        raise RuntimeError(_NO_SHAPE)

    def share_memory_(self):
        raise RuntimeError("Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters before calling "
                           "`module.share_memory()`.")

    # These the runtime answers by itself, without asking `__torch_function__`.
    def numel(self): _refuse(Tensor.numel)
    def nelement(self): _refuse(Tensor.nelement)
    def stride(self, dim=None): _refuse(Tensor.stride)
    def dim(self): _refuse(Tensor.dim)
    def __len__(self): _refuse(Tensor.__len__)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol):
        return type(self), (self.requires_grad, self.device, self.dtype)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", None) in _WITHOUT_SHAPE:
            result = rl._C._disabled_torch_function_impl(func, types, args, kwargs or {})
            return Tensor._make_subclass(cls, result) if type(result) is Tensor else result      # what was converted still waits
        _refuse(func)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter of a lazy module before its first call."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device=None, dtype=None):
        return Tensor._make_subclass(cls, rl.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer of a lazy module before its first call."""

    cls_to_become = Tensor

    def __new__(cls, requires_grad: bool = False, device=None, dtype=None, persistent: bool = True):
        tensor = Tensor._make_subclass(cls, rl.empty(0, device=device, dtype=dtype), requires_grad)
        tensor.persistent = persistent
        tensor._is_buffer = True
        return tensor


# The runtime lets exactly this subclass take the fast path that plain tensors take.
rl._C._register_parameter_type(Parameter)

# Processes that exchange tensors exchange parameters, whichever of the two modules was imported first.
if (_reductions := sys.modules.get("rushlight.multiprocessing.reductions")) is not None:
    _reductions.register_tensor_type(Parameter)
