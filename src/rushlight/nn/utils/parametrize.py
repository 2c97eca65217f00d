"""Parametrisation: a parameter that is computed from others whenever it is read.

`register_parametrization(module, "weight", transform)` moves the parameter to `module.parametrizations.weight.original` and gives the module's class (a new
one, for this module only) a property that computes `transform(original)`. `with cached():` computes each at most once inside the block.
"""
from __future__ import annotations

import copy
from contextlib import contextmanager

import rushlight as rl
from rushlight import Tensor

from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = ["cached", "ParametrizationList", "register_parametrization", "is_parametrized", "remove_parametrizations", "type_before_parametrizations",
           "transfer_parametrizations_and_params"]

_cache_depth = 0
_cache: dict[tuple[int, str], Tensor | None] = {}


@contextmanager
def cached():
    """Inside the block each parametrised tensor is computed once."""
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


def _register_parameter_or_buffer(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _set_data(tensor: Tensor, value: Tensor) -> None:
    if tensor.shape == value.shape and tensor.dtype == value.dtype:
        with rl.no_grad():
            tensor.data = value.detach()
    else:
        tensor.set_(value.detach())


class ParametrizationList(ModuleList):
    """The transforms of one tensor, in order, and what it is computed from: `original`, or `original0`, `original1` … ."""

    original: Tensor

    def __init__(self, modules, original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with rl.no_grad():
            new = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    try:
                        new = module.right_inverse(new)
                    except NotImplementedError:
                        pass
        if not isinstance(new, (Tensor, list, tuple)):
            raise ValueError(f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {type(new).__name__}")
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if self.is_tensor:
            if original.dtype != new.dtype:
                raise ValueError("When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                                 f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {new.dtype}")
            with rl.no_grad():
                _set_data(original, new)
            _register_parameter_or_buffer(self, "original", original)
        else:
            for i, value in enumerate(new):
                if not isinstance(value, Tensor):
                    raise ValueError(f"'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got element {i} of the sequence with "
                                     f"type {type(value).__name__}.")
                if isinstance(original, Parameter):
                    value = Parameter(value, original.requires_grad and value.is_floating_point())
                _register_parameter_or_buffer(self, f"original{i}", value)
        if not unsafe:
            result = self()
            if not isinstance(result, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
            if result.dtype != dtype:
                raise ValueError("Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is enabled.\n"
                                 f"unparametrized dtype: {dtype}\nparametrized dtype: {result.dtype}")
            if result.shape != shape:
                raise ValueError("Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is enabled.\n"
                                 f"unparametrized shape: {shape}\nparametrized shape: {result.shape}")

    def right_inverse(self, value: Tensor) -> None:
        """Let the originals be such that the tensor becomes `value`."""
        with rl.no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                _set_data(self.original, value)
            else:
                if len(value) != self.ntensors:
                    raise ValueError(f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of length {len(value)}.")
                for i, part in enumerate(value):
                    _set_data(getattr(self, f"original{i}"), part)

    def forward(self) -> Tensor:
        parts = (self.original,) if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]
        value = self[0](*parts)
        for i in range(1, len(self)):
            value = self[i](value)
        return value


def _own_class(module: Module) -> None:
    """A class for this module alone, named after its own, to put properties on."""
    base = type(module)

    def getstate(self):
        raise RuntimeError("Serialization of parametrized modules is only supported through state_dict(). See:\n"
                           "https://pytorch.org/tutorials/beginner/saving_loading_models.html#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training")

    def deepcopy(self, memo):
        if id(self) in memo:
            return memo[id(self)]
        new = self.__new__(type(self))
        memo[id(self)] = new
        new.__dict__ = copy.deepcopy(self.__dict__, memo)
        return new

    module.__class__ = type(f"Parametrized{base.__name__}", (base,), {"__getstate__": getstate, "__deepcopy__": deepcopy, "__module__": base.__module__})


def _put_property(module: Module, name: str) -> None:
    def get(self) -> Tensor:
        transform = self.parametrizations[name]
        if not _cache_depth:
            return transform()
        key = (id(self), name)
        value = _cache.get(key)
        if value is None:
            value = _cache[key] = transform()
        return value

    def set_(self, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)
    setattr(type(module), name, property(get, set_))


def _check_inverse(parametrization: Module, name: str, now: Tensor, new: Tensor) -> None:
    """A transform on top of others: what it came from is left alone, but its right inverse must be one."""
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(new)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}")
    for what in ("dtype", "shape"):
        if getattr(back, what) != getattr(now, what):
            raise ValueError(f"The tensor returned by parametrization.right_inverse must have the same {what} as module.{name}, unless the `unsafe` flag is enabled.\n"
                             f"module.{name}.{what}: {getattr(now, what)}\nreturned {what}: {getattr(back, what)}")


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False) -> Module:
    """Compute a parameter or buffer of a module through a transform from now on; several are applied one after the other."""
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        transforms = module.parametrizations[tensor_name]
        if not unsafe:
            now = getattr(module, tensor_name)
            new = parametrization(now)
            if not isinstance(new, Tensor):
                raise ValueError(f"A parametrization must return a tensor. Got {type(new).__name__}.")
            if new.dtype != now.dtype or new.shape != now.shape:
                what = "dtype" if new.dtype != now.dtype else "shape"
                raise ValueError(f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag is enabled.\n"
                                 f"module.{tensor_name}.{what}: {getattr(now, what)}\nparametrization(module.{tensor_name}).{what}: {getattr(new, what)}")
            _check_inverse(parametrization, tensor_name, now, new)
        transforms.append(parametrization)
        transforms.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        transforms = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _own_class(module)
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = transforms
        _put_property(module, tensor_name)
    else:
        raise ValueError(f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name '{tensor_name}'")
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has a parametrised tensor, or this one is."""
    transforms = getattr(module, "parametrizations", None)
    if transforms is None or not isinstance(transforms, ModuleDict):
        return False
    return len(transforms) > 0 if tensor_name is None else tensor_name in transforms


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make the tensor a plain one again, with its present value or with its original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    transforms = module.parametrizations[tensor_name]
    if transforms.is_tensor:
        original = transforms.original
        if leave_parametrized:
            with rl.no_grad():
                value = getattr(module, tensor_name)
                _set_data(original, value)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a sequence of tensors.")
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The module's class as it was written."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module, tensor_name: str | None = None) -> Module:
    """Give another module of the kind the same parametrised tensors."""
    if not is_parametrized(from_module):
        return to_module
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for transform in from_module.parametrizations[name]:
            register_parametrization(to_module, name, transform, unsafe=True)
        theirs, ours = from_module.parametrizations[name], to_module.parametrizations[name]
        for part in ["original"] if theirs.is_tensor else [f"original{i}" for i in range(theirs.ntensors)]:
            setattr(ours, part, getattr(theirs, part))
    return to_module
