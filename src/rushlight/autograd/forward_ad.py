"""Forward-mode differentiation: tensors that carry a tangent along.

    with forward_ad.dual_level():
        x = forward_ad.make_dual(primal, tangent)
        y, t = forward_ad.unpack_dual(f(x))           # t is the derivative of f at primal in the direction tangent

A level is a mode: it sees every call, runs it, and gives each result the tangent that the operator's derived forward derivative
(compiler/tangent.py) says. The tangents are computed by ordinary operators, so they are recorded on the tape and seen by the levels
outside: forward over reverse, forward over forward.
"""
from __future__ import annotations

from collections import namedtuple

from .. import _C, registry
from ..random import get_rng_state, set_rng_state

UnpackedDualTensor = namedtuple("UnpackedDualTensor", ["primal", "tangent"])
_level = None                                    # the level that make_dual means: one at a time, as in torch


def tangent_of(tensor, level):
    return tensor.__dict__.get("_tangents", {}).get(level)


def set_tangent(tensor, level, tangent):
    tensor.__dict__.setdefault("_tangents", {})[level] = tangent


def _flat(values):
    for v in values:
        if isinstance(v, _C.Tensor): yield v
        elif isinstance(v, (list, tuple)): yield from _flat(v)


class Level:
    """One level of forward differentiation, as a mode. Calls without a dual operand pass through."""

    looks_inside = True                            # of sparse tensors (overrides.dispatch)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not any(tangent_of(t, self) is not None for t in _flat([*args, *kwargs.values()])): return function(*args, **kwargs)
        op = getattr(function, "op", None)
        if op is None: return self._index(function, args, kwargs)
        definition = op.definition
        native = isinstance(definition.native, str)
        if not definition.differentiable and not native: return function(*args, **kwargs)
        if kwargs.get("out") is not None: raise RuntimeError(f"{op.name}: forward-mode differentiation does not take out=")
        if native: return self._native(function, definition, args, kwargs)
        return self._compiled(function, definition, args, kwargs)

    def run_function(self, cls, args):
        """A custom Function as a whole (autograd.Function._at_level)."""
        from ..func.functions import tangent_call
        return tangent_call(self, cls, args)

    def _index(self, function, args, kwargs):
        name = function.__name__
        if name == "__getitem__":
            out = function(*args)
            tangent = tangent_of(args[0], self)
            if tangent is not None: set_tangent(out, self, tangent[args[1]])
            return out
        if name == "__setitem__":
            target, where, value = args
            tangent = tangent_of(value, self) if isinstance(value, _C.Tensor) else None
            if tangent_of(target, self) is None: set_tangent(target, self, registry.find("zeros_like").op.function(target))
            function(*args)
            tangent_of(target, self)[where] = 0 if tangent is None else tangent
            return None
        return function(*args, **kwargs)

    def _native(self, function, definition, args, kwargs):
        """Views and selections are linear in their tensor: the same call on its tangent. What does not depend on it (draws, memory) has none."""
        for name, value in bound(definition, args, kwargs).items() if definition.gradients else ():
            unknown = getattr(definition.gradients.get(name), "unknown", None)
            if unknown and tangent_of(value, self) is not None:
                from ..compiler.tangent import no_tangent
                raise no_tangent(unknown)
        first = args[0] if args else next(iter(kwargs.values()))
        tangent = tangent_of(first, self) if isinstance(first, _C.Tensor) else None
        out = function(*args, **kwargs)
        if tangent is None or definition.name == "detach": return out
        if not definition.differentiable:
            if definition.mutated: set_tangent(out, self, registry.find("zeros_like").op.function(out))      # drawn in its place
            return out
        tangents = function(tangent, *args[1:], **kwargs) if args else function(**{**kwargs, next(iter(kwargs)): tangent})
        for o, t in zip(_flat([out]), _flat([tangents])): set_tangent(o, self, t)
        return out

    def _compiled(self, function, definition, args, kwargs):
        values = bound(definition, args, kwargs)
        derived = registry.find(definition.name + ".jvp")
        tangents, prefix = {}, derived.prefix
        for name, value in values.items():
            if isinstance(value, _C.Tensor): tangents[prefix + name] = tangent_of(value, self)
            elif type(value) in (list, tuple) and any(isinstance(v, _C.Tensor) for v in value):
                tangents[prefix + name] = [None if v is None else tangent_of(v, self) for v in value]
        tangents = {k: v for k, v in tangents.items() if v is not None}
        values = {"input" if k == "self" else k: v for k, v in values.items()}       # as functions call it
        draws = "generator" in definition.params or "dropout_p" in definition.params
        state = get_rng_state() if draws else None
        found = derived.op.function(**values, **tangents)
        if draws: set_rng_state(state)                # the operator draws what its derivative drew
        found = list(_flat([found]))
        in_place = function.__name__ == definition.short_name + "_" or bool(definition.mutated)
        out = function(*args, **kwargs)
        for o, t in zip(_flat([out]), found):
            if not (o.is_floating_point() or o.is_complex()): continue
            old = tangent_of(o, self)
            if in_place and old is not None and not old.requires_grad: old.copy_(t)      # views of the tangent see it too
            else: set_tangent(o, self, t)
        return out


def bound(definition, args, kwargs):
    """The call's arguments by the names of the schema that takes them; sizes may come one by one (`x.tile(2, 3)`)."""
    try: return _given(definition, args, kwargs)
    except TypeError:
        head = [a for a in args if not isinstance(a, int)]
        tail = [a for a in args if isinstance(a, int)]
        if not tail: raise
        return _given(definition, (*head, tuple(tail)), kwargs)


def _given(definition, args, kwargs):
    values, _ = definition.bind(args, kwargs)
    return {k: v for k, v in values.items() if v is not None or definition.params[k].default is not None}


def enter_dual_level():
    """Begin a level; `exit_dual_level` ends it."""
    global _level
    if _level is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _level = Level()
    _C.push_mode(_level)
    return 0


def exit_dual_level(*, level=None):
    """End the level: its tangents are gone."""
    global _level
    if _level is None:
        raise RuntimeError("Trying to exit a forward AD level but no level was entered")
    _C.pop_mode()
    _level = None


class dual_level:
    """`with dual_level():` tensors made by `make_dual` carry tangents."""

    def __enter__(self): return enter_dual_level()
    def __exit__(self, *error): exit_dual_level()


def check_size(tensor, tangent) -> None:
    if tensor.shape != tangent.shape:
        raise RuntimeError("Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported: "
                           f"the tensor has the shape {list(tensor.shape)}, the tangent {list(tangent.shape)}")


def make_dual(tensor, tangent, *, level=None):
    """tensor, carrying `tangent` along."""
    if _level is None:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    for what, t in (("primal", tensor), ("tangent", tangent)):
        if t.layout is not _C.strided:
            raise NotImplementedError(f"make_dual(): the {what} has the layout {t.layout}; a sparse tensor carries no tangent, but its values do: make the dual of them")
        if not (t.is_floating_point() or t.is_complex()):
            raise ValueError(f"Expected {what} to be floating point or complex, but got: {t.dtype}")
    check_size(tensor, tangent)
    if tensor.dtype != tangent.dtype:
        raise RuntimeError(f"Expected tensor and tangent to have the same dtype, but got: {tensor.dtype} and {tangent.dtype}")
    if tangent_of(tensor, _level) is not None:
        raise RuntimeError("Cannot make a dual of a tensor that has a tangent already at this level")
    with _C.without_mode():
        dual = tensor.view_as(tensor)
        set_tangent(dual, _level, _laid_out_as(tangent, tensor))
    return dual


def _laid_out_as(tangent, tensor):
    """The tangent in memory like its tensor's, so that as_strided means the same elements of both."""
    size = lambda t: t.untyped_storage().nbytes()
    if tangent.stride() == tensor.stride() and tangent.storage_offset() == tensor.storage_offset() and size(tangent) >= size(tensor): return tangent
    if tensor.is_contiguous() and size(tensor) == tensor.numel() * tensor.element_size(): return tangent.contiguous()
    room = tangent.new_zeros(size(tensor) // tensor.element_size())
    room = room.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return tangent if any(s == 0 and n > 1 for s, n in zip(tensor.stride(), tensor.shape)) else room.copy_(tangent)


def unpack_dual(tensor, *, level=None):
    """(primal, tangent) of a tensor; the tangent is None where there is none."""
    if _level is None: return UnpackedDualTensor(tensor, None)
    tangent = tangent_of(tensor, _level)
    with _C.without_mode(): return UnpackedDualTensor(tensor.view_as(tensor), tangent)
