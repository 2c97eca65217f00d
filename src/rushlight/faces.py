"""Where operators appear: the functions of a namespace, the methods of Tensor, the named tuples, read off the registry."""
from __future__ import annotations

from . import registry


def _with_aliases(definition):
    """(namespace or None, name): the name itself, and its aliases; an alias may name its own namespace (`special.expit`)."""
    yield None, definition.short_name
    for alias in definition.aliases:
        space, _, name = alias.rpartition(".")
        yield space or None, name


def functions(space: str) -> dict:
    """name -> callable for `torch`, `F`, `linalg` or `special`."""
    out = {}
    for d in registry.all():
        for own, name in _with_aliases(d):
            if space not in d.on if own is None else own != space:
                continue
            out[name] = d.op.function
            if d.inplace and space in ("torch", "F"):
                out[name + "_"] = d.op.inplace_function
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
            out[name] = d.op.method
            if d.inplace:
                out[name + "_"] = d.op.inplace_method
    return out


def return_types() -> dict:
    """name -> named tuple type, of operators whose results have names."""
    out = {}
    for d in registry.all():
        kind = getattr(d.op, "result_type", None)
        if kind is not None:
            out[d.name] = kind
    return out
