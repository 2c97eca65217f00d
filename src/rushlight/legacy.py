"""torch's old names: `FloatTensor` and its kin, which are constructors and types to test with `isinstance`, but never the type of a tensor."""
from __future__ import annotations

from . import _C
from .tensor import _TYPE_NAMES, Tensor


class _TensorType(type):
    """The type of `torch.FloatTensor`: an instance of it is any tensor of its dtype."""

    def __instancecheck__(cls, value):
        return isinstance(value, Tensor) and value.dtype is cls._legacy_dtype

    def __call__(cls, *args, device=None):
        if len(args) == 1 and isinstance(args[0], Tensor):
            if args[0].dtype is not cls._legacy_dtype:
                raise TypeError(f"expected {cls._legacy_dtype} (got {args[0].dtype})")
            return args[0].detach()
        if len(args) == 1 and hasattr(args[0], "_untyped_storage"):                # a TypedStorage: a tensor over it
            if args[0].dtype is not cls._legacy_dtype:
                raise TypeError(f"expected a storage of {cls._legacy_dtype}, but got one of {args[0].dtype}")
            return _C.tensor_over(args[0]._untyped_storage, cls._legacy_dtype, 0, (args[0]._size(),), (1,))
        if len(args) == 1 and isinstance(args[0], _C.Size):
            args = tuple(args[0])
        elif len(args) == 1 and not isinstance(args[0], int):
            return _C.tensor(args[0], dtype=cls._legacy_dtype)
        if not all(isinstance(a, int) for a in args):
            raise TypeError(f"{cls.__name__} takes sizes, a sequence or a tensor")
        return Tensor.new_empty(_C.tensor(0, dtype=cls._legacy_dtype), args if args else (0,))

    def __repr__(cls):
        return f"<class 'torch.{cls.__name__}'>"


TYPES = {name: _TensorType(name, (), {"_legacy_dtype": dtype, "dtype": dtype, "__module__": "torch", "__doc__": f"Tensors of {dtype}."})
         for name, dtype in _TYPE_NAMES.items()}
