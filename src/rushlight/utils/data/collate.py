"""From a list of samples to a batch."""
from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence

import rushlight as rl
from rushlight import Tensor

__all__ = ["default_collate", "default_convert"]

_BAD_TYPE = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def _is_numpy(value) -> bool:
    return type(value).__module__ == "numpy"


def _refuse_unnumeric(dtype) -> None:
    if dtype.kind in "SUO":
        raise TypeError(_BAD_TYPE.format(dtype))


def default_convert(data):
    """Numpy arrays inside become tensors; the structure stays."""
    if isinstance(data, Tensor):
        return data
    if _is_numpy(data):
        return data if hasattr(data, "dtype") and data.dtype.kind in "SUO" else rl.as_tensor(data)
    if isinstance(data, Mapping):
        converted = {key: default_convert(value) for key, value in data.items()}
        try:
            return type(data)(converted)
        except TypeError:                                  # a mapping that cannot be made from a dictionary
            return converted
    if isinstance(data, tuple):
        values = [default_convert(value) for value in data]
        return type(data)(*values) if hasattr(data, "_fields") else values
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        try:
            return type(data)([default_convert(value) for value in data])
        except TypeError:
            return [default_convert(value) for value in data]
    return data


def default_collate(batch):
    """Stack tensors, arrays and numbers along a new first dimension; go into dictionaries, tuples and lists."""
    first = batch[0]
    if isinstance(first, Tensor):
        shapes = {tuple(item.shape) for item in batch}
        if len(shapes) > 1:
            at = next(i for i, item in enumerate(batch) if item.shape != first.shape)
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {list(first.shape)} at entry 0 and "
                               f"{list(batch[at].shape)} "
                               f"at entry {at}; give the DataLoader a collate_fn that pads them")
        return rl.stack(batch, 0, out=_shared_room(batch, first))
    if _is_numpy(first):
        if type(first).__name__ in ("ndarray", "memmap"):
            _refuse_unnumeric(first.dtype)
            return default_collate([rl.as_tensor(item) for item in batch])
        if first.shape == ():
            _refuse_unnumeric(first.dtype)
            return rl.as_tensor(batch)
    if isinstance(first, float):
        return rl.tensor(batch, dtype=rl.float64)
    if isinstance(first, int):
        return rl.tensor(batch)
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return _collate_mapping(batch, first)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(samples) for samples in zip(*batch)))
    if isinstance(first, Sequence):
        return _collate_sequence(batch, first)
    raise TypeError(_BAD_TYPE.format(type(first)))


def _shared_room(batch, first):
    """In a worker the batch is made in shared memory, so that sending it copies nothing."""
    from . import worker
    if worker.lender is None or first.requires_grad or type(first) is not Tensor: return None
    from .transport import shared_empty
    return shared_empty((len(batch), *first.shape), first.dtype, worker.lender)


def _collate_mapping(batch, first):
    collated = {key: default_collate([item[key] for item in batch]) for key in first}
    try:
        if isinstance(first, MutableMapping):
            clone = copy.copy(first)                       # keeps the attributes of a mapping with more than its keys
            clone.update(collated)
            return clone
        return type(first)(collated)
    except TypeError:
        return collated


def _collate_sequence(batch, first):
    size = len(first)
    if any(len(item) != size for item in batch):
        raise RuntimeError("each element in list of batch should be of equal size")
    columns = [default_collate(samples) for samples in zip(*batch)]
    if isinstance(first, tuple):
        return columns                                     # torch gives a list for tuples
    try:
        if isinstance(first, MutableSequence):
            clone = copy.copy(first)
            for i, column in enumerate(columns):
                clone[i] = column
            return clone
        return type(first)(columns)
    except TypeError:
        return columns
