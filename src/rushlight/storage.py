"""Storages with a dtype, as torch had them before `UntypedStorage`: `tensor.storage()` and `torch.FloatStorage`.

One is a view: the bytes belong to an UntypedStorage, and everything is done by a tensor of one dimension over them.
"""
from __future__ import annotations

from . import _C, registry
from ._C import (
    UntypedStorage,  # noqa: F401 - torch's name for it is here too
    warn,
)
from .dtypes import as_dtype
from .serialization import _STORAGE_NAMES  # reading it also gives storages their copy protocol

_KINDS = {name.removesuffix("Storage"): getattr(_C, dtype) for dtype, name in _STORAGE_NAMES.items()}
_warned = False


def warn_of_removal() -> None:
    """Once: the class has been on its way out for long."""
    global _warned
    if not _warned:
        _warned = True
        warn("TypedStorage is deprecated: tensor.untyped_storage() is the memory, and a tensor over it gives its bytes a dtype", UserWarning)


class TypedStorage:
    """The elements of a storage: `TypedStorage(size, dtype=)`, of a sequence, or around an UntypedStorage (`wrap_storage=`)."""

    is_sparse = False

    def __init__(self, *args, wrap_storage=None, dtype=None, device=None, _internal=False) -> None:
        if not _internal: warn_of_removal()
        self.dtype = as_dtype(dtype) or _C.get_default_dtype()
        if wrap_storage is None:
            if len(args) > 1: raise RuntimeError(f"TypedStorage: Too many positional arguments, got {len(args)}, but a size or a sequence was expected")
            first = args[0] if args else 0
            made = registry.find("empty").op.function((first,), dtype=self.dtype, device=device) if isinstance(first, int) else _C.tensor(list(first), dtype=self.dtype, device=device)
            wrap_storage = made.untyped_storage()
        self._untyped_storage = wrap_storage.untyped()

    def _tensor(self):
        return _C.tensor_over(self._untyped_storage, self.dtype, 0, (self._size(),), (1,))

    def _made(self, tensor) -> TypedStorage:
        return TypedStorage(wrap_storage=tensor.untyped_storage(), dtype=tensor.dtype, _internal=True)

    # -- facts
    def untyped(self): return self._untyped_storage
    def nbytes(self) -> int: return self._untyped_storage.nbytes()
    def _size(self) -> int: return self.nbytes() // self.dtype.itemsize
    def size(self) -> int: return self._size()
    __len__ = size
    def element_size(self) -> int: return self.dtype.itemsize
    def data_ptr(self) -> int: return self._untyped_storage.data_ptr()
    _data_ptr = data_ptr
    def is_shared(self) -> bool: return self._untyped_storage.is_shared()
    def pickle_storage_type(self) -> str: return next(f"{name}Storage" for name, dtype in _KINDS.items() if dtype is self.dtype)
    def type(self, dtype=None): return f"torch.{self.pickle_storage_type()}" if dtype is None else self._cast(getattr(dtype, "dtype", dtype))
    def get_device(self) -> int: return -1
    @property
    def device(self): return self._untyped_storage.device
    @property
    def _cdata(self) -> int: return self._untyped_storage._cdata
    @property
    def is_cuda(self) -> bool: return False

    # -- elements
    def tolist(self) -> list: return self._tensor().tolist()
    def __iter__(self): return iter(self.tolist())

    def __getitem__(self, index):
        if isinstance(index, slice): raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        if not isinstance(index, int): raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if not -self._size() <= index < self._size(): raise IndexError(f"index {index} out of range for storage of size {self._size()}")
        return self._tensor()[index].item()

    def __setitem__(self, index, value) -> None:
        if not isinstance(index, (int, slice)): raise RuntimeError(f"can't index a {type(self)} with {type(index)}")
        if isinstance(value, TypedStorage): value = value._tensor()
        self._tensor()[index] = value

    def fill_(self, value) -> TypedStorage:
        self._tensor().fill_(value)
        return self

    def copy_(self, source, non_blocking=None) -> TypedStorage:
        self._tensor().copy_(source._tensor() if isinstance(source, TypedStorage) else _C.tensor_over(source, self.dtype, 0, (self._size(),), (1,)))
        return self

    def resize_(self, size: int) -> None: self._untyped_storage.resize_(size * self.dtype.itemsize)

    def share_memory_(self) -> TypedStorage:
        self._untyped_storage.share_memory_()
        return self

    # -- copies
    def _cast(self, dtype) -> TypedStorage: return self if dtype is self.dtype else self._made(self._tensor().to(dtype))
    def clone(self) -> TypedStorage: return self._made(self._tensor().clone())
    def cpu(self) -> TypedStorage: return self
    def cuda(self, *args, **kwargs): raise AssertionError("Torch not compiled with CUDA enabled")
    def __copy__(self) -> TypedStorage: return self.clone()

    def __deepcopy__(self, memo) -> TypedStorage:
        from copy import deepcopy
        return TypedStorage(wrap_storage=deepcopy(self._untyped_storage, memo), dtype=self.dtype, _internal=True)

    def __reduce__(self): return _rebuilt, (self._untyped_storage, self.dtype)

    def __repr__(self) -> str:
        where = f"dtype={self.dtype}, device={self.device}) of size {self._size()}]"
        lines = "device=meta" if self.device.type == "meta" else "\n ".join(map(str, self.tolist()))
        return f"[torch.storage.TypedStorage({where}" if self.device.type == "meta" else f" {lines}\n[torch.storage.TypedStorage({where}"

    @classmethod
    def _from_buffer(cls, buffer, *args, dtype=_C.uint8, **kwargs):
        return TypedStorage(wrap_storage=_C.frombuffer(bytearray(buffer), dtype=dtype).untyped_storage(), dtype=dtype, _internal=True)


def _rebuilt(untyped, dtype): return TypedStorage(wrap_storage=untyped, dtype=dtype, _internal=True)


def _caster(dtype): return lambda self: self._cast(dtype)


for _name, _dtype in _KINDS.items():
    if not _name.startswith("Complex"): setattr(TypedStorage, _name.lower(), _caster(_dtype))
TypedStorage.complex_float, TypedStorage.complex_double = _caster(_C.complex64), _caster(_C.complex128)       # type: ignore[attr-defined]


class _LegacyStorageMeta(type):
    """`torch.FloatStorage(...)` makes a TypedStorage of its dtype, which is an instance of it."""
    dtype = _C.float32

    def __call__(cls, *args, wrap_storage=None, **kwargs):
        return TypedStorage(*args, wrap_storage=wrap_storage, dtype=cls.dtype)

    def __instancecheck__(cls, value) -> bool: return isinstance(value, TypedStorage) and value.dtype is cls.dtype


def _legacy(kind: str): return _LegacyStorageMeta(f"{kind}Storage", (), {"__module__": "torch", "__doc__": f"A storage of {_KINDS[kind]}.", "dtype": _KINDS[kind],
                                                                        "_from_buffer": staticmethod(lambda b, *a, **k: TypedStorage._from_buffer(b, dtype=_KINDS[kind]))})


FloatStorage, DoubleStorage, HalfStorage, BFloat16Storage = map(_legacy, ("Float", "Double", "Half", "BFloat16"))
LongStorage, IntStorage, ShortStorage, CharStorage, ByteStorage, BoolStorage = map(_legacy, ("Long", "Int", "Short", "Char", "Byte", "Bool"))
ComplexFloatStorage, ComplexDoubleStorage = map(_legacy, ("ComplexFloat", "ComplexDouble"))
