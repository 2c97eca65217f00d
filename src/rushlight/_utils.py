"""torch._utils: private helpers that programs use."""
from __future__ import annotations

from collections import defaultdict


def _flatten_dense_tensors(tensors):
    """The tensors as one vector."""
    import rushlight as rl
    return rl.cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat, tensors):
    """A vector as views of the shapes of some tensors."""
    out, start = [], 0
    for tensor in tensors:
        count = tensor.numel()
        out.append(flat.narrow(0, start, count).view_as(tensor))
        start += count
    return tuple(out)


def _take_tensors(tensors, size_limit: int):
    """The tensors in groups of one type, each at most so many bytes."""
    groups: dict = defaultdict(lambda: [[], 0])
    for tensor in tensors:
        group, size = groups[tensor.type()], tensor.numel() * tensor.element_size()
        if group[1] + size > size_limit and group[1] > 0:
            yield group[0]
            group = groups[tensor.type()] = [[], 0]
        group[0].append(tensor)
        group[1] += size
    for group, _ in groups.values():
        if group:
            yield group


class ExceptionWrapper:
    """An exception of another process, with its traceback as text."""

    def __init__(self, exc_info=None, where: str = "in background") -> None:
        import sys
        import traceback
        exc_info = sys.exc_info() if exc_info is None else exc_info
        self.exc_type, self.exc_msg, self.where = exc_info[0], "".join(traceback.format_exception(*exc_info)), where

    def reraise(self):
        raise self.exc_type(f"Caught {self.exc_type.__name__} {self.where}.\nOriginal {self.exc_msg}")


def _get_available_device_type(): return None


def _get_device_module(device_type: str):
    import rushlight as rl
    return getattr(rl, device_type)


def _get_device_index(device, optional: bool = False, allow_cpu: bool = False) -> int: return -1


def __getattr__(name: str):
    from . import serialization  # what a pickle names: _rebuild_tensor_v2 and its kin
    if name.startswith("_rebuild") and hasattr(serialization, name):
        return getattr(serialization, name)
    raise AttributeError(f"module 'torch._utils' has no attribute '{name}'")
