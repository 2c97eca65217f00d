"""Where operators appear: the functions of a namespace, the methods of Tensor, the named tuples, read off the registry."""
from __future__ import annotations

import functools

from . import _C, registry

# The module of a namespace; a function says it is from there, so that pickle and generated code (fx) find it again.
_MODULES = {"torch": "rushlight", "F": "rushlight.nn.functional"}


def _module(space: str) -> str:
    return _MODULES.get(space, f"rushlight.{space}")


def _with_aliases(definition):
    """(namespace or None, name): the name itself, and its aliases; an alias may name its own namespace (`special.expit`)."""
    yield None, definition.short_name
    for alias in definition.aliases:
        space, _, name = alias.rpartition(".")
        yield space or None, name


def _home(definition) -> str:
    """The namespace that an operator's functions say they are from: torch if they are there, as `torch.special.erf` is `torch.erf`."""
    return "torch" if "torch" in definition.on else next((space for space in definition.on if space not in ("Tensor", "-")), "torch")


@functools.cache
def _face(definition, kind, own, name: str, inplace: bool):
    """The function or method of this name. An alias is one of its own, as in torch: `torch.arctan.__name__` is "arctan"."""
    if own is None and name == definition.short_name:
        op = definition.op
        face = (op.inplace_method if inplace else op.method) if kind is _C.OpMethod else op.inplace_function if inplace else op.function
        if kind is _C.OpFunction: face.__module__ = _module(_home(definition))
        return face
    return kind(definition.op, name + "_" * inplace, _module(own or _home(definition)), int(inplace))


def functions(space: str) -> dict:
    """name -> callable for `torch`, `F`, `linalg` or `special`."""
    out = {}
    for d in registry.all():
        for own, name in _with_aliases(d):
            if space not in d.on if own is None else own != space:
                continue
            out[name] = _face(d, _C.OpFunction, own, name, False)
            if d.inplace and space in ("torch", "F"):
                out[name + "_"] = _face(d, _C.OpFunction, own, name, True)
    return out


def methods() -> dict:
    """name -> descriptor for Tensor."""
    out = {}
    for d in registry.all():
        if "Tensor" not in d.on and not d.method_of:
            continue
        for own, name in _with_aliases(d):
            if own is not None:
                continue
            out[name] = _face(d, _C.OpMethod, None, name, False)
            if d.inplace:
                out[name + "_"] = _face(d, _C.OpMethod, None, name, True)
    return out


def return_types() -> dict:
    """name -> named tuple type, of operators whose results have names."""
    out = {}
    for d in registry.all():
        kind = getattr(d.op, "result_type", None)
        if kind is not None:
            out[d.name] = kind
    return out
