"""`torch.NAME_copy`: what a view shows, as a tensor of its own; and pieces whose writes are not tracked (`unsafe_split`).

One function makes each of them from its view operator, so arguments, errors and gradients are the view's. `as_strided_scatter` is the other way round: a copy with a
view of it replaced.
"""
from __future__ import annotations

from . import _C, registry
from .functions import _into
from .overrides import aware
from .tensor import Tensor

# The view operators that torch has a copying form of.
VIEWS = ("alias", "as_strided", "detach", "diagonal", "expand", "narrow", "permute", "select", "slice", "split", "split_with_sizes", "squeeze", "t", "transpose", "unbind",
         "unfold", "unsqueeze", "view", "view_as_complex", "view_as_real")


def _check_narrow(input, dim=None, start=None, length=None):
    """torch's `narrow_copy` words two refusals in its own way."""
    if not isinstance(dim, int) or not isinstance(length, int):
        return                                          # narrow says what is wrong
    if dim >= input.dim() > 0:
        raise RuntimeError(f"Expected dim < static_cast<int64_t>(self_sizes.size()) to be true, but got false. dim is {dim}, the tensor has {input.dim()} dimensions")
    if length < 0 and -input.dim() <= dim < input.dim():
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({input.size(dim)}).")


CHECKS = {"narrow": _check_narrow}


def _any_view(input, size=None, **kwargs):
    """What `view_copy` copies: a shape that no view of the memory has is copied all the same."""
    return input.reshape(size, **kwargs) if isinstance(size, (tuple, list)) else input.view(size, **kwargs)


def _copying(name):
    """The copying form of a view operator."""
    definition = registry.find(name)
    view = _any_view if name == "view" else definition.op.function if hasattr(definition.op, "function") else definition.op.method

    def copied(piece):
        return piece.clone(memory_format=_C.contiguous_format)

    check = CHECKS.get(name, lambda *args, **kwargs: None)

    def copy(input, *args, out=None, **kwargs):
        check(input, *args, **kwargs)
        shown = view(input, *args, **kwargs)
        if isinstance(shown, tuple):
            if out is None:
                return tuple(copied(piece) for piece in shown)
            if len(out) != len(shown):
                raise RuntimeError(f"{name}_copy: there are {len(shown)} results, but out= has {len(out)} tensors")
            for o, piece in zip(out, shown):
                _same_dtype(o, piece)
                _into(o, piece)
            return None
        if out is None:
            return copied(shown)
        _same_dtype(out, shown)
        return _into(out, shown)
    copy.__name__ = copy.__qualname__ = f"{name}_copy"
    copy.__doc__ = f"A copy of what `{name}` shows: {(definition.body.__doc__ or '').strip()}"
    return aware(copy)


def _same_dtype(out, result):
    if out.dtype is not result.dtype:
        raise RuntimeError(f"Expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead")


for _name in VIEWS:
    globals()[f"{_name}_copy"] = _copying(_name)
Tensor.narrow_copy = globals()["narrow_copy"]


@aware
def as_strided_scatter(input, src, size, stride, storage_offset=None, *, out=None):
    """`input` with what `as_strided` shows of it replaced by `src`."""
    base = _clone_of_memory(input)
    place = base.as_strided(size, stride, storage_offset)
    if tuple(src.shape) != tuple(place.shape):
        raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, slice size = {list(place.shape)}")
    place.copy_(src)
    if out is None:
        return base
    _same_dtype(out, base)
    return _into(out, base)


Tensor.as_strided_scatter = as_strided_scatter


def _clone_of_memory(input):
    """A copy over as much memory as the tensor's, with its strides and offset: other views of it mean the same places."""
    if input.is_contiguous() and input.storage_offset() == 0 and input.untyped_storage().nbytes() == input.numel() * input.element_size():
        return input.clone()
    extent = 1 + sum((n - 1) * s for n, s in zip(input.shape, input.stride())) if input.numel() else 0
    whole = input.as_strided((input.storage_offset() + extent,), (1,), 0).clone()
    return whole.as_strided(input.shape, input.stride(), input.storage_offset())


def _pieces(input, sizes, dim):
    """Neighbouring pieces along a dimension, each a view of its own (so writing into one is allowed)."""
    starts = [0]
    for n in sizes:
        starts.append(starts[-1] + n)
    return tuple(input.narrow(dim, start, n) for start, n in zip(starts, sizes))


@aware
def unsafe_split(input, split_size, dim=0):
    """`split` into pieces that may be written to one by one."""
    return _pieces(input, [p.shape[dim] for p in input.detach().split(split_size, dim)], dim)


@aware
def unsafe_split_with_sizes(input, split_sizes, dim=0):
    """`split_with_sizes` into pieces that may be written to one by one."""
    return _pieces(input, [p.shape[dim] for p in input.detach().split_with_sizes(split_sizes, dim)], dim)


@aware
def unsafe_chunk(input, chunks, dim=0):
    """`chunk` into pieces that may be written to one by one."""
    return _pieces(input, [p.shape[dim] for p in input.detach().chunk(chunks, dim)], dim)


for _function in (unsafe_split, unsafe_split_with_sizes, unsafe_chunk):
    setattr(Tensor, _function.__name__, _function)

__all__ = [f"{name}_copy" for name in VIEWS] + ["as_strided_scatter", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes"]
