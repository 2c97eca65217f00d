"""Module: the base of every layer and model."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import rushlight as rl
from rushlight import Tensor
from rushlight.tensor import parse_to
from rushlight.utils.names import typename

from ..parameter import Buffer, Parameter
from .hooks import (
    HookedModule,
    global_backward_hooks,
    global_backward_pre_hooks,
    global_buffer_registration_hooks,
    global_forward_hooks,
    global_forward_pre_hooks,
    global_module_registration_hooks,
    global_parameter_registration_hooks,
    register_module_backward_hook,
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from .state import _EXTRA_STATE_KEY_SUFFIX, StatefulModule, _IncompatibleKeys

__all__ = [
    "Module", "_EXTRA_STATE_KEY_SUFFIX", "_IncompatibleKeys",
    "register_module_backward_hook", "register_module_buffer_registration_hook", "register_module_forward_hook",
    "register_module_forward_pre_hook", "register_module_full_backward_hook", "register_module_full_backward_pre_hook",
    "register_module_module_registration_hook", "register_module_parameter_registration_hook",
]


def _indent_all_but_first(text: str, spaces: int) -> str:
    first, newline, rest = text.partition("\n")
    if not newline:
        return text
    pad = " " * spaces
    return first + "\n" + "\n".join(pad + line for line in rest.split("\n"))


def _joined(prefix: str, name: str) -> str:
    return prefix + "." + name if prefix else name


class Module(HookedModule, StatefulModule):
    """Base class of layers and models. Subclass it, create parts in `__init__`, compute in `forward`.

    Parameters, buffers and submodules are kept in three dictionaries, not in `__dict__`; attribute access finds them
    there. Everything else (moving, saving, training mode, hooks) walks those dictionaries.
    """

    training: bool
    dump_patches: bool = False
    _version: int = 1               # of the state dict; a subclass that changes its layout raises it
    call_super_init: bool = False   # let __init__ pass its arguments on, for multiple inheritance

    def __init__(self, *args, **kwargs) -> None:
        if not self.call_super_init:
            if kwargs:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument '{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} were given")
        # Straight into __dict__: __setattr__ would look each of these up in dictionaries that do not exist yet.
        self.__dict__.update(
            training=True, _parameters={}, _buffers={}, _non_persistent_buffers_set=set(), _backward_pre_hooks=OrderedDict(),
            _backward_hooks=OrderedDict(), _is_full_backward_hook=None, _forward_hooks=OrderedDict(),
            _forward_hooks_with_kwargs=OrderedDict(), _forward_hooks_always_called=OrderedDict(), _forward_pre_hooks=OrderedDict(),
            _forward_pre_hooks_with_kwargs=OrderedDict(), _state_dict_hooks=OrderedDict(), _state_dict_pre_hooks=OrderedDict(),
            _load_state_dict_pre_hooks=OrderedDict(), _load_state_dict_post_hooks=OrderedDict(), _modules={})
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def forward(self, *input):
        """Computes the module. Call the module itself, not this: the call runs the hooks."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args, **kwargs):
        # The common case, no hook anywhere, must cost next to nothing: four look-ups here, four global ones.
        own = self.__dict__
        if (own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]
                or global_forward_hooks or global_forward_pre_hooks or global_backward_hooks or global_backward_pre_hooks):
            return self._call_impl(*args, **kwargs)
        return self.forward(*args, **kwargs) if kwargs else self.forward(*args)

    # ------------------------------------------------------------------------------------------------- registration
    def _check_new_name(self, kind: str, name, table: dict) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if kind == "module":                    # modules report a taken name before a bad one
            if hasattr(self, name) and name not in table:
                raise KeyError(f"attribute '{name}' already exists")
            if "." in name:
                raise KeyError(f'module name can\'t contain ".", got: {name}')
            if name == "":
                raise KeyError('module name can\'t be empty string ""')
            return
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in table:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor, persistent: bool = True) -> None:
        """Keep a tensor that is part of the state but not learned; `persistent=False` leaves it out of the state dict."""
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_new_name("buffer", name, self._buffers)
        if tensor is not None and not (isinstance(tensor, Tensor) or hasattr(tensor, "__torch_function__")):
            raise TypeError(f"cannot assign '{typename(tensor)}' object to buffer '{name}' (torch Tensor or None required)")
        for hook in global_buffer_registration_hooks.values():
            output = hook(self, name, tensor)
            if output is not None:
                tensor = output
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param) -> None:
        """Keep a parameter under a name; None keeps the place without one."""
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_new_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{typename(param)}' object to parameter '{name}' (torch.nn.Parameter or None required)")
        if param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created explicitly. To "
                             "express "
                             f"'{name}' as a function of another Tensor, compute the value in the forward() method.")
        for hook in global_parameter_registration_hooks.values():
            output = hook(self, name, param)
            if output is not None:
                param = output
        self._parameters[name] = param

    def add_module(self, name: str, module) -> None:
        """Keep a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_new_name("module", name, self._modules)
        self._modules[name] = self._registered_module(name, module)

    def register_module(self, name: str, module) -> None:
        """Alias of `add_module`."""
        self.add_module(name, module)

    def _registered_module(self, name: str, module):
        for hook in global_module_registration_hooks.values():
            output = hook(self, name, module)
            if output is not None:
                module = output
        return module

    # ---------------------------------------------------------------------------------------------------- attributes
    def __getattr__(self, name: str):
        # Only reached when ordinary look-up failed. The tables are missing while a subclass runs before Module.__init__.
        own = self.__dict__
        if "_parameters" in own:
            table = own["_parameters"]
            if name in table:
                return table[name]
            table = own["_modules"]
            if name in table:
                return table[name]
            table = own["_buffers"]
            if name in table:
                return table[name]
        # A property that raised AttributeError also ends here, and its own error is the truth: let it speak again.
        for cls in type(self).__mro__:
            member = cls.__dict__.get(name)
            if member is not None:
                if isinstance(member, property) and member.fget is not None:
                    return member.fget(self)
                break
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'", name=name, obj=self)

    def __setattr__(self, name: str, value) -> None:
        def remove_from(*tables) -> None:
            for table in tables:
                if table is not None and name in table:
                    if isinstance(table, dict):
                        del table[name]
                    else:
                        table.discard(name)

        own = self.__dict__
        params = own.get("_parameters")
        if isinstance(value, Parameter):
            if params is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            remove_from(own, self._buffers, self._modules, self._non_persistent_buffers_set)
            self.register_parameter(name, value)
            return
        if params is not None and name in params:
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)")
            self.register_parameter(name, value)
            return
        modules = own.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            remove_from(own, self._parameters, self._buffers, self._non_persistent_buffers_set)
            modules[name] = self._registered_module(name, value)
            return
        if modules is not None and name in modules:
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)")
            modules[name] = self._registered_module(name, value)
            return
        buffers = own.get("_buffers")
        is_buffer = isinstance(value, Tensor) and isinstance(value, Buffer)
        if is_buffer or (buffers is not None and name in buffers):
            if buffers is None:
                raise AttributeError("cannot assign buffer before Module.__init__() call")
            if value is not None and not (isinstance(value, Tensor) or hasattr(value, "__torch_function__")):
                raise TypeError(f"cannot assign '{typename(value)}' as buffer '{name}' (torch.nn.Buffer, torch.Tensor or None expected)")
            if is_buffer:
                remove_from(own, self._parameters, self._modules)
                self.register_buffer(name, value, value.persistent)
                return
            for hook in global_buffer_registration_hooks.values():
                output = hook(self, name, value)
                if output is not None:
                    value = output
            buffers[name] = value
            return
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            super().__delattr__(name)

    def __dir__(self):
        names = {*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers}
        return sorted(name for name in names if not name[:1].isdigit())

    def __getstate__(self) -> dict:
        state = self.__dict__.copy()
        if state.pop("_forward_is_compiled", False):
            del state["forward"]                 # recordings belong to this process; the class's forward is the program
        return state

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        # Files written before a kind of hook existed lack its dictionary.
        for name in ("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_forward_hooks_with_kwargs", "_forward_hooks_always_called",
                     "_forward_hooks", "_backward_hooks", "_backward_pre_hooks", "_state_dict_hooks", "_state_dict_pre_hooks",
                     "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"):
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # -------------------------------------------------------------------------------------------- finding by dotted name
    def get_submodule(self, target: str) -> Module:
        """The submodule at a dotted path; "" is the module itself."""
        if target == "":
            return self
        module = self
        for part in target.split("."):
            if not hasattr(module, part):
                raise AttributeError(module._get_name() + " has no attribute `" + part + "`")
            module = getattr(module, part)
            if not isinstance(module, Module):
                raise AttributeError("`" + part + "` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path; with `strict` something must already be there."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError("`module` is not an nn.Module, found " + str(type(module)))
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(parent._get_name() + " has no attribute `" + name + "`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError("`" + name + "` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(module._get_name() + " has no attribute `" + name + "`")
        param = getattr(module, name)
        if not isinstance(param, Parameter):
            raise AttributeError("`" + name + "` is not an nn.Parameter")
        return param

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(module._get_name() + " has no attribute `" + name + "`")
        if name not in module._buffers:
            raise AttributeError("`" + name + "` is not a buffer")
        return getattr(module, name)

    # ------------------------------------------------------------------------------------------------------ traversal
    def _named_members(self, get_members_fn, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for module_prefix, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield _joined(module_prefix, name), value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Each parameter once, in the order of registration."""
        for _, param in self.named_parameters(recurse=recurse):
            yield param

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def children(self) -> Iterator[Module]:
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and everything below it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True):
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, _joined(prefix, name), remove_duplicate)

    def apply(self, fn) -> Module:
        """Call `fn(module)` on every submodule, children first, then on this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ------------------------------------------------------------------------------------------------ mode and gradients
    def train(self, mode: bool = True) -> Module:
        """Training mode (dropout drops, batch norm learns its statistics), or not."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Module:
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or with `set_to_none=False` fill them with zeros."""
        for param in self.parameters():
            if param.grad is None:
                continue
            if set_to_none:
                param.grad = None
            else:
                if param.grad.grad_fn is not None:
                    param.grad.detach_()
                else:
                    param.grad.requires_grad_(False)
                param.grad.zero_()

    # ------------------------------------------------------------------------------------------------------ conversion
    def _apply(self, fn, recurse: bool = True) -> Module:
        """Replace every parameter, its gradient and every buffer by `fn` of it; parameters keep their identity if they can."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, param in self._parameters.items():
            if param is None:
                continue
            with rl.no_grad():
                applied = fn(param)
            if applied.device.type == param.device.type:
                param.data = applied                  # the same object: optimizers that hold it go on working
                kept = param
            else:
                kept = Parameter(applied, param.requires_grad)
                self._parameters[name] = kept
            if param.grad is not None:
                with rl.no_grad():
                    grad_applied = fn(param.grad)
                kept.grad = grad_applied.requires_grad_(param.grad.requires_grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self, *args, **kwargs) -> Module:
        """Move to a device, convert floating-point tensors: `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`."""
        if "tensor" in kwargs: kwargs["other"] = kwargs.pop("tensor")
        device, dtype, non_blocking, _, memory_format = parse_to(args, kwargs)          # copy: a module is always converted in place
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got desired dtype={dtype}")

        def convert(tensor):
            options = {"non_blocking": non_blocking}
            if device is not None:
                options["device"] = device
            if dtype is not None and (tensor.is_floating_point() or tensor.is_complex()):
                options["dtype"] = dtype
            if memory_format is not None and tensor.dim() in (4, 5):
                options["memory_format"] = memory_format
            try:
                return tensor.to(**options)
            except NotImplementedError as error:
                if str(error) == "Cannot copy out of meta tensor; no data!":
                    raise NotImplementedError(f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
                                              "when moving module from meta to a different device.") from None
                raise

        return self._apply(convert)

    def to_empty(self, *, device, recurse: bool = True) -> Module:
        """Move to a device without copying: the values are whatever the memory holds."""
        return self._apply(lambda tensor: rl.empty_like(tensor, device=device), recurse=recurse)

    def type(self, dst_type) -> Module:
        return self._apply(lambda tensor: tensor.type(dst_type))

    def _to_dtype(self, dtype) -> Module:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self) -> Module:
        return self._to_dtype(rl.float32)

    def double(self) -> Module:
        return self._to_dtype(rl.float64)

    def half(self) -> Module:
        return self._to_dtype(rl.float16)

    def bfloat16(self) -> Module:
        return self._to_dtype(rl.bfloat16)

    def cpu(self) -> Module:
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self, device=None) -> Module:
        return self._apply(lambda tensor: tensor.cuda(device))

    def share_memory(self) -> Module:
        """Move every tensor to memory that other processes can map."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def compile(self, *args, **kwargs) -> None:
        """Compile forward in place, with the arguments of `rushlight.compile`."""
        self.forward = rl.compile(self.forward, *args, **kwargs)
        self._forward_is_compiled = True

    # ------------------------------------------------------------------------------------------------------------ text
    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the brackets of the module's line."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        extra_lines = extra.split("\n") if extra else []
        child_lines = [f"({name}): " + _indent_all_but_first(repr(module), 2) for name, module in self._modules.items()]
        if not child_lines and len(extra_lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(extra_lines + child_lines) + "\n)"
