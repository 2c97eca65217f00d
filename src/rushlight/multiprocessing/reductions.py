"""How tensors and storages are pickled for another process: the storage moves to shared memory, and its file descriptor is what is sent."""
from __future__ import annotations

import os
import sys
import weakref
from multiprocessing import reduction

from .. import _C

# Storages that arrived, by the memory object behind their descriptor: tensors that shared memory there share it here.
_arrived: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def rebuild_storage(handle, nbytes: int):
    fd = handle.detach()
    status = os.fstat(fd)
    key = (status.st_dev, status.st_ino)
    known = _arrived.get(key)
    if known is not None:
        os.close(fd)
        return known
    storage = _C._storage_from_fd(fd, nbytes)
    _arrived[key] = storage
    return storage


def reduce_storage(storage):
    if storage.device.type != "cpu":
        raise RuntimeError(f"a storage on '{storage.device}' has no memory to share")
    fd, nbytes = storage._share_fd_cpu_()
    status = os.fstat(fd)
    _arrived[status.st_dev, status.st_ino] = storage      # sent back, it is the same storage
    return rebuild_storage, (reduction.DupFd(fd), nbytes)


def rebuild_tensor(kind, storage, dtype, offset, size, stride, requires_grad, attributes):
    tensor = _C.tensor_over(storage, dtype, offset, size, stride)
    if kind is not None:
        tensor = tensor.as_subclass(kind)
    tensor.requires_grad = requires_grad
    if attributes:
        tensor.__dict__.update(attributes)
    return tensor


def rebuild_meta_tensor(dtype, size, stride, requires_grad):
    from .. import empty_strided
    return empty_strided(size, stride, dtype=dtype, device="meta", requires_grad=requires_grad)


def reduce_tensor(tensor):
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError("Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not support crossing "
                           "process boundaries.  If you just want to transfer the data, call detach() on the tensor before serializing "
                           "(e.g., putting it on the queue).")
    size, stride = tuple(tensor.shape), tuple(tensor.stride())
    if tensor.device.type == "meta":
        return rebuild_meta_tensor, (tensor.dtype, size, stride, tensor.requires_grad)
    if tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg()
        stride = tuple(tensor.stride())
    kind = None if type(tensor) is _C.Tensor else type(tensor)
    storage, offset = tensor.untyped_storage(), tensor.storage_offset()
    return rebuild_tensor, (kind, storage, tensor.dtype, offset, size, stride, tensor.requires_grad, dict(tensor.__dict__))


def register_tensor_type(kind: type) -> None:
    """Tensors of this type travel as shared memory too."""
    reduction.ForkingPickler.register(kind, reduce_tensor)


def init_reductions() -> None:
    reduction.ForkingPickler.register(_C.UntypedStorage, reduce_storage)
    register_tensor_type(_C.Tensor)
    modules = sys.modules.get("rushlight.nn.parameter")       # a loader of data has no need of rushlight.nn: parameter.py registers itself if it comes later
    if modules is not None and hasattr(modules, "Parameter"): register_tensor_type(modules.Parameter)
