"""Optimizer: parameter groups, state, hooks, and the state dict that torch's optimizers read and write too."""
from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from copy import deepcopy
from itertools import chain

import rushlight as rl
from rushlight import Tensor, registry
from rushlight.utils.hooks import RemovableHandle
from rushlight.utils.names import typename

from .._C import warn

__all__ = ["Optimizer", "required", "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]

_global_step_pre_hooks: OrderedDict = OrderedDict()
_global_step_post_hooks: OrderedDict = OrderedDict()


class _RequiredParameter:
    """Stands for an option without a default."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def _insert(hooks: OrderedDict, hook, prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` before every optimizer's step."""
    return _insert(_global_step_pre_hooks, hook)


def register_optimizer_step_post_hook(hook) -> RemovableHandle:
    """Call `hook(optimizer, args, kwargs)` after every optimizer's step."""
    return _insert(_global_step_post_hooks, hook)


def _hooked_step(step):
    """A step that runs the hooks, if there are any, around itself."""

    @functools.wraps(step)
    def wrapper(self, *args, **kwargs):
        own = self.__dict__                              # a wrapper of optimizers may not have called our __init__
        if not (own.get("_optimizer_step_pre_hooks") or own.get("_optimizer_step_post_hooks") or _global_step_pre_hooks or _global_step_post_hooks):
            return step(self, *args, **kwargs)
        self._make_hook_tables()
        for hook in chain(_global_step_pre_hooks.values(), list(self._optimizer_step_pre_hooks.values())):
            result = hook(self, args, kwargs)
            if result is not None:
                if not (isinstance(result, tuple) and len(result) == 2):
                    raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {result}.")
                args, kwargs = result
        out = step(self, *args, **kwargs)
        for hook in chain(list(self._optimizer_step_post_hooks.values()), _global_step_post_hooks.values()):
            hook(self, args, kwargs)
        return out

    wrapper.hooked = True
    return wrapper


class Optimizer:
    """Base of optimizers: `params` (tensors, (name, tensor) pairs, or groups as dictionaries) and default options."""

    def __init_subclass__(cls, **kwargs) -> None:
        super().__init_subclass__(**kwargs)
        step = cls.__dict__.get("step")
        if step is not None and not getattr(step, "hooked", False):
            cls.step = _hooked_step(step)

    def __init__(self, params, defaults: dict) -> None:
        self.defaults = defaults
        self._make_hook_tables()
        if isinstance(params, Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got " + typename(params))
        self.state: defaultdict = defaultdict(dict)
        self.param_groups: list[dict] = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hook_tables(self) -> None:
        for name in ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
                     "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks", "_optimizer_load_state_dict_post_hooks"):
            if name not in self.__dict__:
                self.__dict__[name] = OrderedDict()

    def __getstate__(self) -> dict:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._make_hook_tables()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        text = type(self).__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # ----------------------------------------------------------------------------------------------------------- hooks
    def register_step_pre_hook(self, hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return other arguments."""
        return _insert(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after each step."""
        return _insert(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        return _insert(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        return _insert(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        return _insert(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend: bool = False) -> RemovableHandle:
        return _insert(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ------------------------------------------------------------------------------------------------------ state dict
    def state_dict(self) -> dict:
        """State and options, with parameters replaced by their positions."""
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        position: dict[int, int] = {}
        groups = []
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            for param in group["params"]:
                position.setdefault(id(param), len(position))
            packed["params"] = [position[id(param)] for param in group["params"]]
            groups.append(packed)
        state = {(position[id(key)] if isinstance(key, Tensor) else key): value for key, value in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            replaced = hook(self, result)
            if replaced is not None:
                result = replaced
        return result

    def load_state_dict(self, state_dict: dict) -> None:
        """Take over a state dict; its groups must have as many parameters as this optimizer's."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            replaced = hook(self, state_dict)
            if replaced is not None:
                state_dict = replaced
        groups, saved_groups = self.param_groups, deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved_groups):
            raise ValueError(f"loaded state dict has a different number of parameter groups: it has {len(saved_groups)}, "
                             f"this optimizer {len(groups)}")
        for i, (group, saved) in enumerate(zip(groups, saved_groups)):
            if len(group["params"]) != len(saved["params"]):
                raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                                 f"group {i} has {len(saved['params'])} parameters there, {len(group['params'])} here")
        params = dict(zip(chain.from_iterable(saved["params"] for saved in saved_groups),
                          chain.from_iterable(group["params"] for group in groups)))
        state: defaultdict = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in params:
                param = params[key]
                state[param] = self._adopt(param, value)
            else:
                state[key] = value
        new_groups = []
        for group, saved in zip(groups, saved_groups):
            saved["params"] = group["params"]
            if "param_names" in group and "param_names" not in saved:
                saved["param_names"] = group["param_names"]
            new_groups.append(saved)
        self.__setstate__({"state": state, "param_groups": new_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _adopt(self, param: Tensor, value, key=None):
        """Loaded state in the form this parameter needs: floating-point tensors in its dtype, all on its device; `step` stays."""
        if isinstance(value, Tensor):
            if key == "step":
                return value
            if param.is_floating_point():
                return value.to(dtype=param.dtype, device=param.device)
            return value.to(device=param.device)
        if isinstance(value, dict):
            return {k: self._adopt(param, v, k) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self._adopt(param, v) for v in value)
        return value

    # ------------------------------------------------------------------------------------------------------------ work
    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, or with `set_to_none=False` fill them with zeros."""
        for group in self.param_groups:
            for param in group["params"]:
                gradient = param.grad
                if gradient is None:
                    continue
                if set_to_none:
                    param.grad = None
                else:
                    if gradient.grad_fn is not None:
                        gradient.detach_()
                    else:
                        gradient.requires_grad_(False)
                    gradient.zero_()

    def step(self, closure=None):
        """One update of all parameters; `closure` computes the loss and its gradients anew."""
        raise NotImplementedError(f"{type(self).__name__} has no step()")

    def _loss_of(self, closure):
        if closure is None:
            return None
        with rl.enable_grad():
            return closure()

    def add_param_group(self, param_group: dict) -> None:
        """Add parameters with options of their own."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, Tensor):
            param_group["params"] = [params]
        elif isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                            "will change between runs. Please use a list instead.")
        else:
            param_group["params"] = list(params)
        names, tensors = [], []
        for entry in param_group["params"]:
            if isinstance(entry, tuple):
                names.append(entry[0])
                tensors.append(entry[1])
            else:
                tensors.append(entry)
        param_group["params"] = tensors
        if names:
            if len(names) != len(tensors):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            param_group["param_names"] = names
        for param in tensors:
            if not isinstance(param, Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + typename(param))
            if not self.defaults.get("differentiable", None) and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(tensors) != len(set(tensors)):
            warn("optimizer contains a parameter group with duplicate parameters: each step moves them more than once. It is to become an error.")
        seen: set = set()
        for group in self.param_groups:
            seen.update(group["params"])
            if ("param_names" in param_group) != ("param_names" in group):
                raise ValueError("all optimizer param groups should be with/without names. "
                                 f"cannot add param group {'with' if names else 'without'} names to the optimizer")
        if not seen.isdisjoint(tensors):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)


# ---------------------------------------------------------------------------------------- what the fused optimizers share
class StepCounters:
    """The `step` of each parameter: a float32 tensor without dimensions, as torch keeps it.

    Counters that start together are elements of one vector, so advancing them all is one kernel, not one a parameter.
    They are views: each saves, copies and changes on its own.
    """

    def __init__(self) -> None:
        self._vectors: list[tuple[Tensor, list[Tensor]]] = []

    def start(self, count: int) -> list[Tensor]:
        vector = rl.zeros(count, dtype=rl.float32)
        views = list(vector.unbind())
        self._vectors.append((vector, views))
        return views

    def advance(self, steps: list[Tensor]) -> None:
        for vector, views in self._vectors:
            if len(views) == len(steps) and all(a is b for a, b in zip(views, steps)):
                vector.add_(1)
                return
        for step in steps:
            step.add_(1)


def run_update(name: str, tensors: list[list[Tensor]], scalars: tuple, **choices) -> None:
    """One in-place update per parameter (see ops/optimizer.py), launched by the runtime without Python in between.

    `scalars` change from step to step; `choices` select the formula.
    """
    rl._C.foreach_call(registry.find(name).op, tensors, scalars, **choices)


def is_sparse(gradient: Tensor) -> bool:
    """Asked for every parameter at every step, so the quick answer comes first (and `rushlight.sparse` is not read for it)."""
    return type(gradient) is not Tensor and gradient.layout is not rl.strided


def refuse_sparse(params: list[Tensor], words: str) -> None:
    """Before a step writes anything."""
    for param in params:
        if is_sparse(param.grad): raise RuntimeError(words)


def number(value) -> float:
    """An option that may be a one-element tensor, as a Python number."""
    return value.item() if isinstance(value, Tensor) else value


def check_lr(lr, foreach, capturable: bool) -> None:
    if isinstance(lr, Tensor):
        if foreach and not capturable:
            raise ValueError("lr as a Tensor is not supported for capturable=False and foreach=True")
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    if not 0.0 <= lr:
        raise ValueError(f"Invalid learning rate: {lr}")


def check_flags(fused, foreach, differentiable: bool) -> None:
    """The flags choose between torch's implementations; there is one here, and it is fused. Contradictions are still errors."""
    if fused:
        if differentiable:
            raise RuntimeError("`fused` does not support `differentiable`")
        if foreach:
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

