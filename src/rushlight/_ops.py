"""`torch.ops`: operators by namespace and name. `torch.ops.aten.add` is this library's own; others are those of `torch.library`."""
from __future__ import annotations

from types import ModuleType

from . import registry


class _OwnOperator:
    """`torch.ops.aten.add`, and its overloads (`.default`, `.Tensor`), which are all the operator."""

    def __init__(self, name: str) -> None:
        self.__name__ = self._name = name

    def __call__(self, *args, **kwargs):
        try:
            function = registry.find(self._name).op.function
        except KeyError:                                # programs name operators in tables long before they call one
            raise NotImplementedError(f"torch.ops.aten.{self._name} is not an operator here") from None
        return function(*args, **kwargs)

    def __repr__(self) -> str: return f"<OpOverloadPacket(op='aten.{self._name}')>"

    def __getattr__(self, overload: str):
        if overload.startswith("_"):
            raise AttributeError(overload)
        return self


class _Namespace(ModuleType):
    def __init__(self, name: str) -> None:
        super().__init__(f"torch.ops.{name}")
        self._space = name

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        if self._space in ("aten", "prims"):
            value = self.__dict__[name] = _OwnOperator(name)
            return value
        from .library import _operators
        found = _operators.get(f"{self._space}::{name}")
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self._space}' object has no attribute '{name}'")
        return found


class _Ops(ModuleType):
    """The root: `torch.ops.NAMESPACE`."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        space = self.__dict__[name] = _Namespace(name)
        return space

    def load_library(self, path) -> None:
        raise OSError(f"{path}: libraries built for torch cannot be loaded")

    load_library.__doc__ = "Not possible: such a library is compiled against torch's C++."


ops = _Ops("torch.ops")
classes = _Ops("torch.classes")
OpOverload = OpOverloadPacket = _OwnOperator
