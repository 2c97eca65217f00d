"""The part of Module that turns its tensors into a state dict and takes one back."""
from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple

import rushlight as rl
from rushlight import Tensor

from ..._C import warn
from ..parameter import Parameter, is_lazy
from .hooks import RemovableHandle, WrappedHook

_EXTRA_STATE_KEY_SUFFIX = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def _insert(hooks: OrderedDict, hook) -> RemovableHandle:
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class StatefulModule:
    """state_dict and load_state_dict, with their hooks."""

    def get_extra_state(self):
        """State beyond parameters and buffers; a module that has some defines this and `set_extra_state`."""
        raise RuntimeError("Reached a code path in Module.get_extra_state() that should never be called.")

    def set_extra_state(self, state) -> None:
        raise RuntimeError("Reached a code path in Module.set_extra_state() that should never be called.")

    def register_state_dict_pre_hook(self, hook) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects this module."""
        return _insert(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)` after; it changes the dictionary in place."""
        hook._from_public_api = True
        return _insert(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook) -> RemovableHandle:
        # The private form, whose result replaces the state dict: kept because wrappers rely on it.
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError("Cannot register the same function as the state dict post hook that was "
                               "previously registered via register_state_dict_post_hook")
        return _insert(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` before loading."""
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(self, hook, with_module: bool = False) -> RemovableHandle:
        return _insert(self._load_state_dict_pre_hooks, WrappedHook(hook, self if with_module else None))

    def register_load_state_dict_post_hook(self, hook) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after loading; it may edit the key lists in place."""
        return _insert(self._load_state_dict_post_hooks, hook)

    def _has_extra_state(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(StatefulModule, method)

    def _save_to_state_dict(self, destination, prefix: str, keep_vars: bool) -> None:
        """This module's own tensors, without its children's."""
        for name, param in self._parameters.items():
            if param is not None:
                destination[prefix + name] = param if keep_vars else param.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if self._has_extra_state("get_extra_state"):
            destination[prefix + _EXTRA_STATE_KEY_SUFFIX] = self.get_extra_state()

    def state_dict(self, *args, destination=None, prefix: str = "", keep_vars: bool = False):
        """Every persistent tensor by its dotted name, detached but sharing memory; `keep_vars=True` gives the tensors themselves."""
        if args:
            warn("Positional args are being deprecated: destination=, prefix= and keep_vars= say which is which", FutureWarning)
            destination = args[0] if destination is None else destination
            prefix = args[1] if len(args) > 1 and prefix == "" else prefix
            keep_vars = args[2] if len(args) > 2 and keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=destination, prefix=prefix + name + ".", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, metadata)
            if not getattr(hook, "_from_public_api", False):
                if result is not None:
                    destination = result
            elif result is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return destination

    def _load_from_state_dict(self, state_dict, prefix: str, local_metadata: dict, strict: bool,
                              missing_keys: list, unexpected_keys: list, error_msgs: list) -> None:
        """Load this module's own tensors, reporting into the three lists; its children are loaded by `load_state_dict`."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        assign = local_metadata.get("assign_to_params_buffers", False)
        persistent = {name: value for name, value in self._buffers.items() if name not in self._non_persistent_buffers_set}
        own = {name: value for name, value in itertools.chain(self._parameters.items(), persistent.items()) if value is not None}
        for name, current in own.items():
            key = prefix + name
            if key in state_dict:
                self._load_one(name, key, current, state_dict[key], assign, error_msgs)
            elif strict:
                missing_keys.append(key)

        extra = prefix + _EXTRA_STATE_KEY_SUFFIX
        if self._has_extra_state("set_extra_state"):
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)

        if strict:
            for key in state_dict:
                if key.startswith(prefix) and key != extra:
                    head, dot, _ = key[len(prefix):].partition(".")
                    if (head not in self._modules) if dot else (head not in own):
                        unexpected_keys.append(key)

    def _load_one(self, name: str, key: str, current, given, assign: bool, error_msgs: list) -> None:
        if not isinstance(given, Tensor) and not hasattr(given, "__torch_function__"):
            error_msgs.append(f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from checkpoint '
                              f"but received {type(given)}")
            return
        waits = is_lazy(current)                    # it has no shape yet, and nor has what it is given: a shape would have given it one
        # Files of old saved 0-dim statistics with one element in one dimension.
        if not waits and len(current.shape) == 0 and len(given.shape) == 1 and given.shape[0] == 1:
            given = given[0]
        if not waits and given.shape != current.shape:
            error_msgs.append(f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
                              f"the shape in current model is {current.shape}.")
            return
        if current.is_meta and not given.is_meta and not assign:
            warn(f"for {key}: copying from a non-meta parameter to one on the meta device does nothing, since that has no memory. assign=True puts the given tensors in the place of the module's.")
        try:
            with rl.no_grad():
                if not assign:
                    current.copy_(given)
                elif isinstance(current, Parameter):
                    if not isinstance(given, Parameter):
                        given = Parameter(given, requires_grad=current.requires_grad)
                    else:
                        given.requires_grad_(current.requires_grad)
                    setattr(self, name, given)
                else:
                    setattr(self, name, given)
        except Exception as error:
            error_msgs.append(f'While copying the parameter named "{key}", whose dimensions in the model are {current.size()} and '
                              f"whose dimensions in the checkpoint are {given.size()}, an exception occurred : {error.args}.")

    def load_state_dict(self, state_dict, strict: bool = True, assign: bool = False):
        """Copy a state dict into this module and its children (with `assign`, take its tensors instead).

        Everything that does not fit is collected and raised as one RuntimeError; with `strict=False` missing and
        unexpected keys are only returned.
        """
        from collections.abc import Mapping
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing_keys: list[str] = []
        unexpected_keys: list[str] = []
        error_msgs: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state_dict = OrderedDict(state_dict)
        if metadata is not None:
            state_dict._metadata = metadata

        def load(module, local_state_dict, prefix=""):
            local_metadata = {} if metadata is None else metadata.get(prefix[:-1], {})
            if assign:
                local_metadata["assign_to_params_buffers"] = assign
            module._load_from_state_dict(local_state_dict, prefix, local_metadata, True, missing_keys, unexpected_keys, error_msgs)
            for name, child in module._modules.items():
                if child is not None:
                    child_prefix = prefix + name + "."
                    load(child, {k: v for k, v in local_state_dict.items() if k.startswith(child_prefix)}, child_prefix)
            incompatible = _IncompatibleKeys(missing_keys, unexpected_keys)
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible) is not None:
                    raise AssertionError("Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                                         "values, "
                                         "if incompatible_keys need to be modified, it should be done inplace.")

        load(self, state_dict)
        if strict:
            for kind, keys in (("Unexpected", unexpected_keys), ("Missing", missing_keys)):      # each goes to the front
                if keys:
                    listed = ", ".join(f'"{key}"' for key in keys)
                    error_msgs.insert(0, f"{kind} key(s) in state_dict: {listed}. ")
        if error_msgs:
            details = "\n\t".join(error_msgs)
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{details}")
        return _IncompatibleKeys(missing_keys, unexpected_keys)
