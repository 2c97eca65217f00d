"""Tensor: the C++ type with its methods. Operator methods come from the registry; here is what is not an operator."""
from __future__ import annotations

import functools

from . import _C, faces, registry
from .dtypes import as_dtype
from .overrides import aware

Tensor = _C.Tensor

_DEVICES = ("cpu", "cuda", "meta", "mps", "xpu", "hpu", "ipu", "xla")


_TO_KINDS = {"other": _C.Tensor, "dtype": _C.dtype, "device": (_C.device, str, int), "non_blocking": bool, "copy": bool, "memory_format": _C.memory_format}


def parse_to(args, kwargs):
    """The forms of `to`: (device, dtype), (dtype), (other), each with non_blocking, copy and memory_format. -> device, dtype, non_blocking, copy, memory_format"""
    if args and isinstance(args[0], (bool, float, complex)): args = (as_dtype(type(args[0])), *args[1:])       # torch takes a number for a tensor of it
    first = as_dtype(args[0]) if args else None
    form = ["other"] if isinstance(first, _C.Tensor) else ["dtype"] if isinstance(first, _C.dtype) else ["device", "dtype"]
    form += ["non_blocking", "copy", "memory_format"]
    given = {**dict(zip(form, args)), **kwargs}
    given["dtype"] = as_dtype(given.get("dtype"))
    twice = len(args) > len(form) or bool(kwargs) and any(name in kwargs for name in form[:len(args)])
    for name, value in given.items():
        optional = value is None and name not in ("non_blocking", "copy")
        fits = name in _TO_KINDS and (optional or isinstance(value, _TO_KINDS[name]) and not (name == "device" and isinstance(value, bool)))
        if not fits or twice:
            words = [*map(_argument_word, args), *(f"{k}={_argument_word(v)}" for k, v in kwargs.items())]
            raise TypeError(f"to() received an invalid combination of arguments - got ({', '.join(words)}), but expected one of:\n"
                            " * (torch.device device = None, torch.dtype dtype = None, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
                            " * (torch.dtype dtype, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n"
                            " * (Tensor other, bool non_blocking = False, bool copy = False, *, torch.memory_format memory_format = None)\n")
    other = given.get("other")
    device, dtype = (given.get("device"), given["dtype"]) if other is None else (other.device, other.dtype)
    if device is not None and not isinstance(device, _C.device): device = _C.device(device)
    return device, dtype, given.get("non_blocking", False), given.get("copy", False), given.get("memory_format")


def _argument_word(value): return "torch.dtype" if isinstance(value, _C.dtype) else type(value).__name__


def _suggested_format(self):
    """What torch takes a tensor's layout for: `to(memory_format=contiguous_format)` leaves a transposed matrix as it is."""
    shape, strides, least = self.shape, self.stride(), 0
    if len(shape) not in (4, 5) or strides[1] == 0:
        return _C.contiguous_format
    for d in (1, *range(len(shape) - 1, 1, -1), 0):
        if shape[d] == 0 or strides[d] < least or (d == 0 and least == strides[1]):
            return _C.contiguous_format
        least = strides[d] * shape[d]
    return _C.channels_last if len(shape) == 4 else _C.channels_last_3d


@functools.cache
def _to_dtype():
    return registry.find("_to_dtype").op.function


@aware
def to(self, *args, **kwargs):
    """The tensor in another dtype or on another device; itself if nothing would change."""
    if len(args) == 1 and not kwargs and type(args[0]) is _C.dtype:
        return self if self.dtype is args[0] else _to_dtype()(self, args[0], None)
    device, dtype, _, copy, memory_format = parse_to(args, kwargs)
    if device is not None:
        if device.type == "cuda": raise AssertionError("Torch not compiled with CUDA enabled")
        if device.type not in ("cpu", "meta"):
            raise RuntimeError(f"Expected one of cpu, meta device type at start of device string: {device.type}; this build of Rushlight has no '{device.type}' backend")
    out = self
    if device is not None and device.type != self.device.type:
        if self.device.type == "meta":
            raise NotImplementedError("Cannot copy out of meta tensor; no data!")
        out = registry.find("_to_device").op.function(out, device)
    if dtype is not None and dtype is not out.dtype:
        return _to_dtype()(out, dtype, memory_format)
    if out is self and (copy or memory_format not in (None, _C.preserve_format) and memory_format != _suggested_format(self)):
        return self.clone(memory_format=memory_format)
    return out


def _cast_method(name, dtype):
    def cast(self, memory_format=_C.preserve_format):
        if type(self) is Tensor and memory_format is _C.preserve_format:
            return self if self.dtype is dtype else _to_dtype()(self, dtype, None)
        return self.to(dtype, memory_format=memory_format)
    cast.__name__, cast.__qualname__ = name, f"Tensor.{name}"
    cast.__doc__ = f"The tensor as {dtype}."
    return cast


_CASTS = {"float": _C.float32, "double": _C.float64, "half": _C.float16, "bfloat16": _C.bfloat16, "int": _C.int32, "long": _C.int64, "short": _C.int16,
          "char": _C.int8, "byte": _C.uint8, "bool": _C.bool, "cfloat": _C.complex64, "cdouble": _C.complex128, "chalf": _C.complex32}

_TYPE_NAMES = {"FloatTensor": _C.float32, "DoubleTensor": _C.float64, "HalfTensor": _C.float16, "BFloat16Tensor": _C.bfloat16, "IntTensor": _C.int32,
               "LongTensor": _C.int64, "ShortTensor": _C.int16, "CharTensor": _C.int8, "ByteTensor": _C.uint8, "BoolTensor": _C.bool}


def type_(self, dtype=None, non_blocking=False, **kwargs):
    """Without an argument the type's old name (`torch.FloatTensor`); with one, the tensor converted."""
    if dtype is None:
        names = {v: k for k, v in _TYPE_NAMES.items()}
        names.update({_C.complex64: "ComplexFloatTensor", _C.complex128: "ComplexDoubleTensor"})
        return "torch." + names[self.dtype]
    if isinstance(dtype, str):
        short = dtype.rpartition(".")[2]
        if short not in _TYPE_NAMES:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = _TYPE_NAMES[short]
    dtype = getattr(dtype, "_legacy_dtype", dtype)
    if not isinstance(dtype, _C.dtype):                        # Python's own types too: here torch takes only its own
        raise ValueError(f"invalid type: '{getattr(dtype, '__name__', dtype)}'")
    return self.to(dtype)


def type_as(self, other):
    """The tensor in the dtype of another."""
    return self.to(other.dtype)


def cpu(self, memory_format=_C.preserve_format):
    """The tensor on the CPU: itself."""
    return self.to("cpu")


def cuda(self, *args, **kwargs):
    """Not available: there is no CUDA backend."""
    raise AssertionError("Torch not compiled with CUDA enabled")


@aware
def __repr__(self, *, tensor_contents=None):
    from ._tensor_str import _str
    return _str(self, tensor_contents=tensor_contents)


def __format__(self, spec):
    if self.dim() == 0 and not self.is_meta and type(self) is Tensor:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def __rdiv__(self, other):
    """Python 2's name of `other / self`, which torch keeps."""
    return self.reciprocal() * other


def __iter__(self):
    if self.dim() == 0:
        raise TypeError("iteration over a 0-d tensor")
    return iter(self.unbind(0))


def __reversed__(self):
    return self if self.dim() == 0 else self.flip(0)


def __contains__(self, element):
    if isinstance(element, (_C.Tensor, int, float, complex, bool)):
        return bool((element == self).any().item())
    raise RuntimeError(f"Tensor.__contains__ only supports Tensor or scalar, but you passed in a {type(element)}.")


def __dir__(self):
    return sorted(set(dir(type(self))) | set(self.__dict__))


def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, **kwargs):
    """A new tensor from data, with this one's dtype unless told otherwise."""
    return _C.tensor(data, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad)


def new(self, *args, **kwargs):
    """The old constructor: sizes make an empty tensor, a sequence makes a tensor of it."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)) and not isinstance(args[0], _C.Size):
        return _C.tensor(args[0], dtype=self.dtype)
    if len(args) == 1 and isinstance(args[0], _C.Tensor):
        return args[0].to(self.dtype)
    sizes = args[0] if len(args) == 1 and isinstance(args[0], _C.Size) else args
    return self.new_empty(tuple(sizes) if args else (0,))


def storage(self):
    """The elements of the memory behind the tensor, with a dtype. Deprecated: see untyped_storage."""
    from .storage import warn_of_removal
    warn_of_removal()
    return self._typed_storage()


def _typed_storage(self):
    """storage(), without a warning."""
    from .storage import TypedStorage
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)


def storage_type(self):
    """The class of `storage()`: `torch.FloatStorage` for float32."""
    from . import storage as storages
    return getattr(storages, self._typed_storage().pickle_storage_type())


def ndimension(self):
    return self.dim()


def _write_each(name, self, others, fn):
    """Each element becomes what a Python function makes of it and of the others' elements at its place."""
    for other in others:
        if not isinstance(other, Tensor):
            raise TypeError(f"{name}(): the other arguments must be Tensors, not {type(other).__name__}")
    if self.requires_grad or any(other.requires_grad for other in others):
        raise RuntimeError(f"Can't call {name}() on Variable that requires grad. Use var.detach().{name}() instead.")
    for other in others:
        if other.dtype is not self.dtype:
            raise TypeError(f"{name}: expected {self.type()} for 'other' (got {other.type()})")
    values = zip(*(t.expand(self.shape).reshape(-1).tolist() for t in (self, *others)))
    return self.copy_(_C.tensor([fn(*v) for v in values], dtype=self.dtype).reshape(self.shape))


def apply_(self, fn):
    """Apply a Python function to every element, in place. Slow."""
    return _write_each("apply_", self, (), fn)


def map_(self, other, fn):
    """Each element becomes `fn(element, other's element)`. Slow."""
    return _write_each("map_", self, (other,), fn)


def map2_(self, x, y, fn):
    """Each element becomes `fn(element, x's element, y's element)`. Slow."""
    return _write_each("map2_", self, (x, y), fn)


def fill_diagonal_(self, fill_value, wrap=False):
    """Write a number on the main diagonal, in place. With `wrap`, a tall matrix begins a new diagonal after each row that the last one leaves over."""
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    sizes, strides = self.shape, self.stride()
    if self.dim() > 2 and len(set(sizes)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    step = sum(strides)
    self.as_strided((min(sizes),), (step,), self.storage_offset()).fill_(fill_value)
    if wrap and self.dim() == 2 and sizes[0] > sizes[1] + 1 and sizes[1]:
        rows = -(-sizes[0] // (sizes[1] + 1))                    # diagonals, each with an empty row after it
        for r in range(1, rows):
            self[r * (sizes[1] + 1):].fill_diagonal_(fill_value)
    return self


def dim_order(self, *, ambiguity_check=False):
    """The dimensions from the outermost in memory to the innermost."""
    sizes, strides = self.shape, self.stride()
    formats = {_C.contiguous_format: tuple(range(self.dim()))}
    if self.dim() == 4: formats[_C.channels_last] = (0, 2, 3, 1)
    if self.dim() == 5: formats[_C.channels_last_3d] = (0, 2, 3, 4, 1)
    fits = [order for form, order in formats.items() if self.is_contiguous(memory_format=form)]
    asked = isinstance(ambiguity_check, (list, tuple))
    unique = sum(self.is_contiguous(memory_format=f) for f in ambiguity_check) == 1 if asked else len(set(strides)) == len(strides) and 1 not in sizes
    if ambiguity_check and not unique:
        raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given memory formats.")
    if 0 in strides:
        return formats[_C.contiguous_format]
    return fits[0] if len(fits) == 1 else tuple(sorted(range(self.dim()), key=lambda d: (-strides[d], -sizes[d])))


def pin_memory(self, device=None):
    """There is no accelerator whose copies pinned memory would make faster."""
    raise RuntimeError("Cannot access accelerator device when none is available.")


def is_distributed(self):
    """Whether the tensor is spread over devices: never."""
    return False


def resize(self, *sizes):
    """Deprecated: `view` of as many elements."""
    _C.warn("Tensor.resize is deprecated: view and reshape give another shape, resize_ another size")
    return self.view(*sizes)


def resize_as(self, other):
    """Deprecated: `view_as`."""
    _C.warn("Tensor.resize_as is deprecated: view_as gives another shape, resize_as_ another size")
    return self.view_as(other)


def module_load(self, other, assign=False):
    """What a module's parameter becomes when `other` is loaded into it: itself with the other's numbers, or the other."""
    return other.detach() if assign else self.copy_(other).detach()


def lu(self, pivot=True, get_infos=False):
    """`torch.lu(self)`."""
    from .lowrank import lu as function
    return function(self, pivot, get_infos)


def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.  "
                           "If you were attempting to deepcopy a module, this may be because of a torch.nn.utils.weight_norm usage, "
                           "see https://github.com/pytorch/pytorch/pull/103001")
    if id(self) in memo:
        return memo[id(self)]
    import copy

    from . import serialization  # noqa: F401  (gives storages their copy protocol)
    with _C.no_grad_guard():
        storage = copy.deepcopy(self.untyped_storage(), memo)
        new = _C.tensor_over(storage, self.dtype, self.storage_offset(), tuple(self.size()), tuple(self.stride()))
        if self.is_conj(): new = new.conj().detach()                 # a bit of the layout, not of the storage
        if self.is_neg(): new = registry.find("_neg_view").op.function(new).detach()
        if type(self) is not Tensor:
            new = new.as_subclass(type(self))
        new.requires_grad = self.requires_grad
        if self.grad is not None:
            new.grad = copy.deepcopy(self.grad, memo)
        if self.__dict__:
            new.__dict__.update(copy.deepcopy(self.__dict__, memo))
    memo[id(self)] = new
    return new


def __reduce_ex__(self, protocol):
    from .serialization import reduce_tensor
    return reduce_tensor(self, protocol)


def __setstate__(self, state):
    self.__dict__.update(state)


@classmethod
def __torch_function__(cls, func, types, args=(), kwargs=None):
    """The default for subclasses: run the function on the tensors, and give results the subclass's type."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with _C.disable_torch_function():
        out = func(*args, **(kwargs or {}))
    return _as_subclass(out, cls)


def _as_subclass(out, cls):
    if cls is Tensor:
        return out
    if isinstance(out, _C.Tensor) and not isinstance(out, cls):
        return out.as_subclass(cls)
    if isinstance(out, (tuple, list)) and not isinstance(out, _C.Size):          # named results (values, indices) too
        return type(out)([_as_subclass(o, cls) for o in out])
    return out


def __array_namespace__(self, /, *, api_version=None):
    """The array API standard's functions for tensors: `rushlight.array_api`."""
    from .array_api import namespace
    return namespace(api_version)


def to_device(self, device, /, *, stream=None):
    """The array API standard's name of `to(device)`; there are no streams."""
    if stream is not None:
        raise ValueError(f"to_device: this build of Rushlight has no streams, got stream={stream!r}")
    return self.to(device)


# Python's operators, by the names the C++ slots know, and the operator each runs.
_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder", "pow": "pow", "matmul": "matmul",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    "neg": "neg", "pos": "positive", "abs": "abs", "invert": "bitwise_not",
    "eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
}


def _array_wrap(self, array, context=None, return_scalar=False):
    """What numpy's functions make of a tensor: a tensor again, over the array's memory. A mask becomes uint8, as torch has it."""
    return _C.from_numpy(array.astype("uint8") if array.dtype == bool else array)


def storage_from_file(filename, shared=False, nbytes=0):
    """A storage over a file's bytes, mapped; with `shared`, writing to it writes the file, which is made and grows as needed."""
    import mmap
    import os
    try:
        file = open(filename, "rb") if not shared else os.fdopen(os.open(filename, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
    except OSError as error:
        raise RuntimeError(f"unable to open file <{filename}> in {'read-write' if shared else 'read-only'} mode: {error.strerror} ({error.errno})") from error
    with file:
        size = os.fstat(file.fileno()).st_size
        if size < nbytes and not shared:
            raise RuntimeError(f"file <{filename}> size <{size}> is smaller than the required mapping size <{nbytes}>")
        if size < nbytes: file.truncate(nbytes)
        nbytes = nbytes or size
        mapped = mmap.mmap(file.fileno(), nbytes, access=mmap.ACCESS_WRITE if shared else mmap.ACCESS_COPY)
    return _C.frombuffer(mapped, dtype=_C.uint8).untyped_storage()


def _storage_bytes(storage):
    """A storage as a tensor of its bytes."""
    return _C.tensor_over(storage, _C.uint8, 0, (storage.nbytes(),), (1,))


def _storage_getitem(self, index):
    """One byte, or a storage over some of them."""
    if isinstance(index, slice):
        if index.step not in (None, 1):
            raise RuntimeError(f"Trying to slice with a step of {index.step}, but only a step of 1 is supported")
        return _C.frombuffer(_storage_bytes(self).numpy()[index], dtype=_C.uint8).untyped_storage() if len(range(*index.indices(self.nbytes()))) else _C.tensor(
            [], dtype=_C.uint8).untyped_storage()
    return _storage_byte(self, index)


_storage_byte = _C.UntypedStorage.__getitem__             # one byte, with the storage's own errors


# Methods about sparse layouts: `rushlight.sparse` is read when the first of them is called.
_SPARSE_METHODS = ("to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc to_dense coalesce is_coalesced _coalesced_ indices values _indices _values "
                   "_nnz crow_indices col_indices ccol_indices row_indices sparse_dim dense_dim _dimI _dimV sparse_mask sparse_resize_ sparse_resize_and_clear_ smm sspaddmm")


def _sparse_method(name):
    def method(self, *args, **kwargs):
        from .sparse import methods
        return getattr(methods, name)(self, *args, **kwargs)
    method.__name__, method.__qualname__ = name, f"Tensor.{name}"
    method.__doc__ = "See `rushlight.sparse` and the guide, docs/guide/sparse.md."
    return method


def install():
    """Put everything on the type. Called once, after the operators are registered."""
    for name, function in faces.methods().items():
        setattr(Tensor, name, function)
    for slot, name in _OPERATORS.items():
        _C.bind_operator(slot, registry.find(name).op)
    for name, dtype in _CASTS.items():
        setattr(Tensor, name, _cast_method(name, dtype))
    here = globals()
    for name in ("to", "type_as", "cpu", "cuda", "__repr__", "__format__", "__rdiv__", "__iter__", "__reversed__", "__contains__", "__dir__", "new_tensor", "new",
                 "storage", "_typed_storage", "storage_type", "ndimension", "apply_", "map_", "map2_", "fill_diagonal_", "dim_order", "pin_memory",
                 "is_distributed", "resize", "resize_as", "module_load", "lu", "__deepcopy__", "__reduce_ex__", "__setstate__", "__torch_function__", "__array_namespace__", "to_device"):
        setattr(Tensor, name, here[name])
    for name in _SPARSE_METHODS.split():
        setattr(Tensor, name, _sparse_method(name))
    Tensor.type = type_
    Tensor.const_data_ptr = Tensor.data_ptr
    storage = _C.UntypedStorage
    storage.from_file, storage.untyped, storage.__getitem__ = staticmethod(storage_from_file), lambda self: self, _storage_getitem
    storage.__dlpack__ = lambda self, **options: _storage_bytes(self).__dlpack__(**options)
    storage.__dlpack_device__ = lambda self: (1, 0)
    Tensor.__array_priority__ = 1000
    Tensor.__array_wrap__ = _array_wrap
    Tensor.__name__ = "Tensor"               # in Python's own messages too, which give the C name: unsupported operand … 'Tensor' and 'str'
    Tensor.__module__ = "torch"
