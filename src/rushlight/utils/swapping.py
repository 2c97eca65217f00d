"""Two tensors that exchange everything but their identity."""
from __future__ import annotations

import copyreg
import weakref

from .. import _C


def swap_tensors(t1, t2) -> None:
    """Each tensor becomes what the other was: data, class, attributes, gradient. Whoever holds one of them then holds the other's contents.

    Refused while something knows a tensor by its address: a weak reference, a view, a graph that a backward could still run through.
    """
    for name, tensor in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(tensor):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = set(copyreg._slotnames(type(t1)))
    if slots != set(copyreg._slotnames(type(t2))):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    _C.swap_contents(t1, t2)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    for slot in slots: _swap_slot(t1, t2, slot)


def _swap_slot(a, b, name) -> None:
    absent = object()
    values = getattr(b, name, absent), getattr(a, name, absent)
    for tensor, value in zip((a, b), values):
        if value is not absent: setattr(tensor, name, value)
        elif hasattr(tensor, name): delattr(tensor, name)
