"""Pruning: a parameter times a mask of zeros and ones, which a method chooses."""
from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable

import rushlight as rl
from rushlight import Tensor

from ..modules.module import Module

__all__ = ["BasePruningMethod", "PruningContainer", "Identity", "RandomUnstructured", "L1Unstructured", "RandomStructured", "LnStructured",
           "CustomFromMask", "identity", "random_unstructured", "l1_unstructured", "random_structured", "ln_structured", "global_unstructured",
           "custom_from_mask", "remove", "is_pruned"]


class BasePruningMethod(ABC):
    """A way to choose what goes. As a hook before forward it sets `name` to `name_orig * name_mask`."""

    _tensor_name: str
    PRUNING_TYPE = "unstructured"

    def __call__(self, module: Module, inputs) -> None: setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The new mask: the default one with more zeros."""

    def apply_mask(self, module: Module) -> Tensor:
        return getattr(module, self._tensor_name + "_mask").to(dtype=getattr(module, self._tensor_name + "_orig").dtype) * getattr(module, self._tensor_name + "_orig")

    @classmethod
    def apply(cls, module: Module, name: str, *args, importance_scores: Tensor | None = None, **kwargs):
        """Prune a parameter; on one that is pruned already the methods add up."""
        hooks = [(key, hook) for key, hook in module._forward_pre_hooks.items() if isinstance(hook, BasePruningMethod) and hook._tensor_name == name]
        method = cls(*args, **kwargs)
        method._tensor_name = name
        original = getattr(module, name)
        if importance_scores is not None and importance_scores.shape != original.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}")
        scores = original if importance_scores is None else importance_scores
        if hooks:
            key, old = hooks[0]
            container = old if isinstance(old, PruningContainer) else PruningContainer(old)
            container._tensor_name = name
            container.add_pruning_method(method)
            del module._forward_pre_hooks[key]
            method = container
            mask = method.compute_mask(scores, getattr(module, name + "_mask"))
            module._buffers[name + "_mask"] = mask
        else:
            mask = method.compute_mask(scores, rl.ones_like(original))
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            module.register_buffer(name + "_mask", mask)
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of a tensor."""
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, rl.ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Module) -> None:
        """Let the pruned value be the parameter."""
        original = module._parameters[self._tensor_name + "_orig"]
        original.data = self.apply_mask(module).detach()
        del module._parameters[self._tensor_name + "_orig"], module._buffers[self._tensor_name + "_mask"]
        if self._tensor_name in module.__dict__:
            delattr(module, self._tensor_name)
        setattr(module, self._tensor_name, original)


class PruningContainer(BasePruningMethod):
    """Several methods on one parameter, one after the other."""

    def __init__(self, *args) -> None:
        self._pruning_methods: tuple = ()
        if args and isinstance(args[0], Iterable):
            args = tuple(args[0])
        if args:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method) -> None:
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' to PruningContainer {self}. "
                             f"Found '{method._tensor_name}'")
        self._pruning_methods += (method,)

    def __len__(self) -> int: return len(self._pruning_methods)
    def __iter__(self): return iter(self._pruning_methods)
    def __getitem__(self, index): return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The last method, on what the others left."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "global":
            where = slice(None)
        elif method.PRUNING_TYPE == "unstructured":
            where = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.dim()
            kept = mask.sum(dim=[d for d in range(t.dim()) if d != dim]) != 0
            where = (slice(None),) * dim + (kept,)
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        out = mask.clone()
        out[where] = method.compute_mask(t[where], mask[where])
        return out


def _amount(amount, size: int) -> int:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if isinstance(amount, numbers.Integral) and amount < 0 or not isinstance(amount, numbers.Integral) and not 0.0 <= amount <= 1.0:
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")
    count = int(amount) if isinstance(amount, numbers.Integral) else round(amount * size)
    if isinstance(amount, numbers.Integral) and count > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return count


class _ByAmount(BasePruningMethod):
    def __init__(self, amount) -> None:
        _amount(amount, 2 ** 62)
        self.amount = amount


class Identity(BasePruningMethod):
    """Prunes nothing: prepares a parameter for a mask."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor: return default_mask


class RandomUnstructured(_ByAmount):
    """Any elements."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count, mask = _amount(self.amount, t.nelement()), default_mask.clone(memory_format=rl.contiguous_format)
        if count:
            chosen = rl.topk(rl.rand_like(t).view(-1), count).indices
            mask.view(-1)[chosen] = 0
        return mask


class L1Unstructured(_ByAmount):
    """The smallest elements."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count, mask = _amount(self.amount, t.nelement()), default_mask.clone(memory_format=rl.contiguous_format)
        if count:
            chosen = rl.topk(rl.abs(t).view(-1), count, largest=False).indices
            mask.view(-1)[chosen] = 0
        return mask


class RandomStructured(_ByAmount):
    """Any slices along a dimension."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def _scores(self, t: Tensor) -> Tensor: return rl.rand(t.shape[self.dim])

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.dim() < 2:
            raise ValueError(f"Structured pruning can only be applied to multidimensional tensors. Found tensor of shape {t.shape} with {t.dim()} dims")
        if not -t.dim() <= self.dim < t.dim():
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        size = t.shape[self.dim]
        count = _amount(self.amount, size)
        if not count:
            return default_mask
        kept = rl.topk(self._scores(t), size - count, largest=True).indices
        mask = rl.zeros_like(t)
        where = [slice(None)] * t.dim()
        where[self.dim] = kept
        mask[tuple(where)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class LnStructured(RandomStructured):
    """The slices along a dimension with the smallest norm."""

    def __init__(self, amount, n, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        return rl.norm(t, p=self.n, dim=[d for d in range(t.dim()) if d != self.dim % t.dim()])


class CustomFromMask(BasePruningMethod):
    """What a given mask says."""

    PRUNING_TYPE = "global"
    def __init__(self, mask: Tensor) -> None: self.mask = mask
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor: return default_mask * self.mask.to(dtype=default_mask.dtype)


def _applied(method, module: Module, name: str, *args, **kwargs) -> Module:
    method.apply(module, name, *args, **kwargs)
    return module


def identity(module, name): return _applied(Identity, module, name)
def random_unstructured(module, name, amount): return _applied(RandomUnstructured, module, name, amount=amount)
def l1_unstructured(module, name, amount, importance_scores=None): return _applied(L1Unstructured, module, name, amount=amount, importance_scores=importance_scores)
def random_structured(module, name, amount, dim): return _applied(RandomStructured, module, name, amount, dim)
def ln_structured(module, name, amount, n, dim, importance_scores=None): return _applied(LnStructured, module, name, amount, n, dim, importance_scores=importance_scores)
def custom_from_mask(module, name, mask): return _applied(CustomFromMask, module, name, mask)


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs) -> None:
    """Prune several parameters (pairs of module and name) as if they were one."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    parameters = list(parameters)
    scores = importance_scores or {}
    flat = rl.cat([scores.get((module, name), getattr(module, name)).reshape(-1) for module, name in parameters])
    masks = rl.cat([getattr(module, name + "_mask", rl.ones_like(getattr(module, name))).reshape(-1) for module, name in parameters])
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method {pruning_method} of type {method.PRUNING_TYPE}')
    container = PruningContainer()
    container._tensor_name = method._tensor_name = "temp"
    container.add_pruning_method(method)
    mask, start = container.compute_mask(flat, masks), 0
    for module, name in parameters:
        parameter = getattr(module, name)
        custom_from_mask(module, name, mask[start:start + parameter.numel()].view_as(parameter))
        start += parameter.numel()


def remove(module: Module, name: str) -> Module:
    """Let a pruned value be the parameter, and forget the mask."""
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether a module or a part of it has a pruned parameter."""
    return any(isinstance(hook, BasePruningMethod) for _, part in module.named_modules() for hook in part._forward_pre_hooks.values())
