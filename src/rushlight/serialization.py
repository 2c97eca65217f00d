"""save and load: torch's zip format, both ways.

A file is an uncompressed zip archive: `data.pkl` is a pickle in which every storage is a reference to the record `data/N`, whose
bytes start at a multiple of 64. Names in the pickle are torch's, so that each library reads the other's files.

`load` executes nothing by default: its unpickler knows the few names that tensors, parameters and plain containers need and refuses
every other. `weights_only=False` is the caller's explicit word that the file is trusted; it unpickles anything.

Decisions: records are checked against their CRC when read; `save` to a path writes beside it and renames, so that a crash leaves
the old file; the format torch used before its zip files is read (serialization_legacy.py), never written.
"""
from __future__ import annotations

import copyreg
import io
import os
import pickle
from collections import OrderedDict
from contextlib import contextmanager

import rushlight as rl
from rushlight import Tensor

from .serialization_guard import Unchanged, check_memo

__all__ = ["save", "load", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "safe_globals", "reduce_tensor"]

_ALIGNMENT = 64
MAP_LOCATION = object                  # of annotations: a device, a dictionary of locations, or a function of (storage, location)
FILE_LIKE = object
DEFAULT_PROTOCOL = 2
_STORAGE_NAMES = {
    "float32": "FloatStorage", "float64": "DoubleStorage", "float16": "HalfStorage", "bfloat16": "BFloat16Storage", "int64": "LongStorage",
    "int32": "IntStorage", "int16": "ShortStorage", "int8": "CharStorage", "uint8": "ByteStorage", "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage", "complex128": "ComplexDoubleStorage",
}
_DTYPE_NAMES = (*_STORAGE_NAMES, "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "complex32")


def _dtype_name(dtype) -> str:
    return str(dtype).rpartition(".")[2]


def _bytes_of(storage) -> Tensor:
    """A storage as a tensor of its bytes."""
    return rl.empty(0, dtype=rl.uint8).set_(storage, 0, (storage.nbytes(),), (1,))


# ---------------------------------------------------------------------------------------------------------- rebuilding
# The functions that a pickle names. They have torch's names: a tensor pickled by either library is rebuilt by the other's function.
def _rebuild_tensor_v2(storage, storage_offset, size, stride, requires_grad, backward_hooks, metadata=None):
    tensor = _tensor_over(storage, storage.dtype, storage_offset, size, stride)
    if metadata:
        tensor = tensor.conj() if metadata.get("conj") else tensor
        tensor = tensor._neg_view() if metadata.get("neg") else tensor
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_tensor(storage, storage_offset, size, stride):
    return _tensor_over(storage, storage.dtype, storage_offset, size, stride)


def _rebuild_tensor_v3(storage, storage_offset, size, stride, requires_grad, backward_hooks, dtype, metadata=None):
    tensor = _tensor_over(storage, dtype, storage_offset, size, stride)
    tensor.requires_grad = requires_grad
    return tensor


def _rebuild_meta_tensor_no_storage(dtype, size, stride, requires_grad):
    return rl.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta", requires_grad=requires_grad)


def _get_layout(name: str):
    """A layout by the name that torch writes: "torch.sparse_coo"."""
    layout = getattr(rl, name.removeprefix("torch."), None)
    if not isinstance(layout, rl.layout):
        raise pickle.UnpicklingError(f"there is no layout {name!r}")
    return layout


def _rebuild_sparse_tensor(layout, data):
    from .sparse.construct import rebuilt
    return rebuilt(layout, data)


def _rebuild_parameter(data, requires_grad, backward_hooks):
    from rushlight.nn import Parameter
    return Parameter(data, requires_grad)


def _rebuild_parameter_with_state(data, requires_grad, backward_hooks, state):
    param = _rebuild_parameter(data, requires_grad, backward_hooks)
    param.__dict__.update(state[0] if isinstance(state, tuple) else state)
    return param


def _rebuild_from_type_v2(func, new_type, args, state):
    new_type = new_type.cls if isinstance(new_type, _KnownClass) else new_type
    result = func(*args)
    if new_type is not None and type(result) is not new_type:
        result = result.as_subclass(new_type)
    if isinstance(state, tuple):
        state = state[0] or {}
    if state:
        result.__dict__.update(state)
    return result


def _tensor_over(storage, dtype, offset: int, size, stride) -> Tensor:
    """A tensor over loaded bytes, after checking that it stays inside them."""
    size, stride, offset = tuple(size), tuple(stride), storage.start + offset
    if storage.device == "meta":
        return rl.empty_strided(size, stride, dtype=dtype, device="meta")
    reach = 0 if 0 in size else 1 + sum((n - 1) * s for n, s in zip(size, stride))
    needed = (offset + reach) * dtype.itemsize if reach else 0
    if offset < 0 or any(s < 0 for s in stride) or needed > storage.untyped.nbytes():
        raise RuntimeError(f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize "
                           f"{dtype.itemsize} "
                           f"requiring a storage size of {needed} are out of bounds for storage of size {storage.untyped.nbytes()}")
    return rl.empty(0, dtype=dtype).set_(storage.untyped, offset, size, stride)


class _KnownClass:
    """A class as a restricted file sees it: it can be called and named, not changed (an unpickler may set attributes on what it finds)."""

    __slots__ = ("cls",)

    def __init__(self, cls) -> None:
        object.__setattr__(self, "cls", cls)

    def __call__(self, *args):
        return self.cls(*args)

    def __setattr__(self, name, value) -> None:
        raise pickle.UnpicklingError(f"a file may not change {self.cls.__name__}")


class _Storage:
    """A storage and, for files, the dtype and device its record was written with. Old files have parts of storages: `start` is where one begins, in elements."""

    __slots__ = ("untyped", "dtype", "device", "start")

    def __init__(self, untyped, dtype=None, device: str = "cpu", start: int = 0) -> None:
        self.untyped, self.dtype, self.device, self.start = untyped, dtype, device, start


# -------------------------------------------------------------------------------------------- plain pickling and copying
def object_state(tensor) -> dict:
    """The attributes a user hung on a tensor."""
    return dict(getattr(tensor, "__dict__", None) or {})


def _storage_from_bytes(data: bytes):
    holder = rl.empty(len(data), dtype=rl.uint8)
    if data:
        memoryview(holder.numpy())[:] = data
    return holder.untyped_storage()


def _reduce_storage(storage):
    return _storage_from_bytes, (bytes(_bytes_of(storage).numpy()),)


def _rebuild_from_storage(untyped, dtype, offset, size, stride, requires_grad, bits=()):
    tensor = _tensor_over(_Storage(untyped, dtype), dtype, offset, size, stride)
    tensor = tensor.conj() if "conj" in bits else tensor
    tensor = tensor._neg_view() if "neg" in bits else tensor
    tensor.requires_grad = requires_grad
    return tensor


def reduce_tensor(tensor: Tensor, protocol):
    """`Tensor.__reduce_ex__`: the storage is pickled as an object of its own, so that tensors that share it go on sharing."""
    kind, state = type(tensor), object_state(tensor)
    if tensor.is_meta:
        func, args = _rebuild_meta_tensor_no_storage, (tensor.dtype, tuple(tensor.size()), tuple(tensor.stride()), tensor.requires_grad)
    else:
        func = _rebuild_from_storage
        args = (tensor.untyped_storage(), tensor.dtype, tensor.storage_offset(), tuple(tensor.size()), tuple(tensor.stride()),
                tensor.requires_grad, _view_bits(tensor))
    if kind is Tensor and not state:
        return func, args
    # Tensor itself is left out: it calls itself torch.Tensor, which another library may answer to.
    return _rebuild_from_type_v2, (func, None if kind is Tensor else kind, args, state)


def _sparse_parts(tensor) -> tuple:
    """What torch writes of a sparse tensor: (layout, (indices …, values, size, whether coalesced))."""
    pattern, size = tensor._pattern, rl.Size(tensor.shape)
    return tensor.layout, (*pattern.indices, tensor._values(), size, *([pattern.coalesced] if tensor.layout is rl.sparse_coo else []))


def reduce_sparse(tensor):
    """`__reduce_ex__` of a sparse tensor."""
    if tensor.__dict__.get("_is_param"):
        return _rebuild_parameter, (tensor.data, tensor.requires_grad, OrderedDict())
    return _rebuild_sparse_tensor, _sparse_parts(tensor)


def _view_bits(tensor) -> tuple[str, ...]:
    return tuple(name for name, is_set in (("conj", tensor.is_conj()), ("neg", tensor.is_neg())) if is_set)


def _register_storage_pickling() -> None:
    kind = type(rl.empty(0).untyped_storage())
    if getattr(kind, "__module__", "").startswith("rushlight"):
        copyreg.pickle(kind, _reduce_storage)


_register_storage_pickling()


# ------------------------------------------------------------------------------------------------------------- writing
class _TorchName:
    """A name to be written into the pickle as it stands, without looking whether it can be imported here."""

    __slots__ = ("module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name


class _StorageReference:
    __slots__ = ("key", "kind", "numel")

    def __init__(self, key: str, kind: _TorchName, numel: int) -> None:
        self.key, self.kind, self.numel = key, kind, numel


_UTILS = "torch._utils"


def _torch_names() -> dict:
    """Objects of this library that torch knows by another module's name."""
    names = {
        _rebuild_parameter: _TorchName(_UTILS, "_rebuild_parameter"),
        _rebuild_parameter_with_state: _TorchName(_UTILS, "_rebuild_parameter_with_state"),
        _rebuild_from_type_v2: _TorchName("torch._tensor", "_rebuild_from_type_v2"),
        rl.Size: _TorchName("torch", "Size"), rl.device: _TorchName("torch", "device"), Tensor: _TorchName("torch", "Tensor"),
    }
    return names


class _Pickler(pickle._Pickler):
    """Python's own pickler (the C one cannot write a name it cannot import), with tensors and names as torch writes them."""

    dispatch = dict(pickle._Pickler.dispatch)

    def __init__(self, file, protocol: int) -> None:
        super().__init__(file, protocol)
        self.storages: list[Tensor] = []            # byte tensors, by record number; keeping them keeps their addresses unique
        self._keys: dict[tuple, str] = {}
        self._interned: dict[tuple, _TorchName] = {}
        self._names = {id(key): value for key, value in _torch_names().items()}

    def _name(self, module: str, name: str) -> _TorchName:
        return self._interned.setdefault((module, name), _TorchName(module, name))

    def persistent_id(self, obj):
        if type(obj) is _StorageReference:
            return ("storage", obj.kind, obj.key, "cpu", obj.numel)
        return None

    def reducer_override(self, obj):
        kind = type(obj)
        if isinstance(obj, Tensor):
            return self._reduce_tensor(obj)
        if kind is rl.Size:
            return self._name("torch", "Size"), (tuple(obj),)
        if kind is rl.layout:
            return self._name("torch.serialization", "_get_layout"), (str(obj),)
        if kind is rl.device:
            return self._name("torch", "device"), (obj.type,) if obj.index is None else (obj.type, obj.index)
        return NotImplemented

    def _reduce_tensor(self, tensor: Tensor):
        from rushlight.nn import Parameter
        if tensor.layout is not rl.strided:
            if tensor.__dict__.get("_is_param"):
                return self._name(_UTILS, "_rebuild_parameter"), (tensor.data, tensor.requires_grad, OrderedDict())
            return self._name(_UTILS, "_rebuild_sparse_tensor"), _sparse_parts(tensor)
        kind, state = type(tensor), object_state(tensor)
        if kind is Parameter:
            data = tensor.detach()
            if state:
                return self._name(_UTILS, "_rebuild_parameter_with_state"), (data, tensor.requires_grad, OrderedDict(), state)
            return self._name(_UTILS, "_rebuild_parameter"), (data, tensor.requires_grad, OrderedDict())
        func, args = self._rebuild_call(tensor)
        if kind is Tensor and not state:
            return func, args
        return self._name("torch._tensor", "_rebuild_from_type_v2"), (func, kind, args, state)

    def _rebuild_call(self, tensor: Tensor):
        dtype = _dtype_name(tensor.dtype)
        size, stride = tuple(tensor.size()), tuple(tensor.stride())
        if tensor.is_meta:
            return self._name(_UTILS, "_rebuild_meta_tensor_no_storage"), (tensor.dtype, size, stride, tensor.requires_grad)
        place = (tensor.storage_offset(), size, stride, tensor.requires_grad, OrderedDict())
        bits = {name: True for name in _view_bits(tensor)}
        if dtype in _STORAGE_NAMES:
            reference = self._reference(tensor, "torch", _STORAGE_NAMES[dtype], tensor.dtype.itemsize)
            return self._name(_UTILS, "_rebuild_tensor_v2"), (reference, *place, bits) if bits else (reference, *place)
        reference = self._reference(tensor, "torch.storage", "UntypedStorage", 1)
        return self._name(_UTILS, "_rebuild_tensor_v3"), (reference, *place, tensor.dtype)

    def _reference(self, tensor: Tensor, module: str, name: str, itemsize: int) -> _StorageReference:
        storage = tensor.untyped_storage()
        nbytes = storage.nbytes()
        address = (storage.data_ptr(), nbytes) if nbytes else ("empty", len(self.storages))
        key = self._keys.get(address)
        if key is None:
            key = self._keys[address] = str(len(self.storages))
            self.storages.append(_bytes_of(storage))
        return _StorageReference(key, self._name(module, name), nbytes // itemsize)

    def _write_name(self, module: str, name: str, obj) -> None:
        self.write(pickle.GLOBAL + f"{module}\n{name}\n".encode())
        self.memoize(obj)

    def save_global(self, obj, name=None) -> None:
        known = self._names.get(id(obj))
        module = getattr(obj, "__module__", None) or ""
        if known is not None:
            self._write_name(known.module, known.name, obj)
        elif isinstance(obj, rl.dtype):
            self._write_name("torch", _dtype_name(obj), obj)
        elif isinstance(obj, type) and module.startswith("rushlight.nn.modules."):
            # a whole model: its layers are classes that torch has too
            self._write_name("torch" + module[len("rushlight"):], obj.__qualname__, obj)
        elif isinstance(obj, rl._C.OpFunction):
            self._write_name("torch" + module[len("rushlight"):], obj.__qualname__, obj)        # an activation that a layer keeps
        else:
            super().save_global(obj, name)

    def _save_torch_name(self, obj) -> None:
        self._write_name(obj.module, obj.name, obj)

    def _save_type(self, obj) -> None:
        if id(obj) in self._names or getattr(obj, "__module__", "").startswith("rushlight."):
            self.save_global(obj)
        else:
            self.save_type(obj)

    def save_reduce(self, func, args, *rest, obj=None, **more) -> None:
        # Protocol 2 writes callables through save(); a _TorchName is not callable, which the base class would refuse.
        if isinstance(func, _TorchName):
            self.save(func)
            self.save(args)
            self.write(pickle.REDUCE)
            if obj is not None:
                self.memoize(obj)
            return
        super().save_reduce(func, args, *rest, obj=obj, **more)

    dispatch[_TorchName] = _save_torch_name
    dispatch[type] = _save_type


def _save_dtype(pickler, dtype) -> None:
    pickler.save_global(dtype)


_Pickler.dispatch[rl.dtype] = _save_dtype


def save(obj, f, pickle_module=None, pickle_protocol: int = 2, _use_new_zipfile_serialization: bool = True) -> None:
    """Write an object and its tensors to a path or a file object, in torch's zip format."""
    if not _use_new_zipfile_serialization:
        raise RuntimeError("save: the format from before zip files is not supported; leave out _use_new_zipfile_serialization=False")
    if isinstance(f, (str, os.PathLike)):
        _save_atomically(obj, os.fspath(f), pickle_protocol)
    elif hasattr(f, "write"):
        _write_archive(obj, f, "archive", pickle_protocol)
    else:
        raise AttributeError(f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, but got {type(f).__name__}")


def _save_atomically(obj, path, protocol: int) -> None:
    path = os.path.realpath(path)
    folder, base = os.path.split(path)
    stem = os.path.splitext(base)[0] or "archive"
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    if os.path.exists(path) and not os.path.isfile(path):       # a pipe or a device cannot be replaced
        with open(path, "wb") as file:
            _write_archive(obj, file, stem, protocol)
        return
    temporary = os.path.join(folder, f".{base}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        with open(temporary, "xb") as file:
            _write_archive(obj, file, stem, protocol)
            file.flush()
            os.fsync(file.fileno())
        if os.path.exists(path):
            os.chmod(temporary, os.stat(path).st_mode & 0o7777)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _write_archive(obj, file, stem: str, protocol: int) -> None:
    import sys
    import zipfile
    import zlib
    program = io.BytesIO()
    pickler = _Pickler(program, protocol)
    pickler.dump(obj)                            # first: an object that cannot be pickled leaves nothing behind
    records = [("data.pkl", program.getvalue()), (".format_version", b"1"), (".storage_alignment", str(_ALIGNMENT).encode()),
               ("byteorder", sys.byteorder.encode())]
    records += [(f"data/{i}", storage) for i, storage in enumerate(pickler.storages)]
    check = 0
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, content in records:
            data = memoryview(content) if isinstance(content, bytes) else memoryview(content.numpy())
            check = zlib.crc32(data, zlib.crc32(name.encode(), check))
            _write_record(archive, f"{stem}/{name}", data)
        _write_record(archive, f"{stem}/version", b"3\n")
        # Identifies the content; torch writes forty digits made from hashes of names and of data.
        _write_record(archive, f"{stem}/.data/serialization_id", f"{check:020d}{sum(len(name) for name, _ in records):020d}".encode())


def _write_record(archive, name: str, data) -> None:
    import struct
    import zipfile
    info = zipfile.ZipInfo(name)                 # its date is the format's zero: equal content gives an equal file
    size = len(data)
    zip64 = 20 if size * 1.05 > zipfile.ZIP64_LIMIT else 0
    start = archive.fp.tell() + 30 + len(name.encode()) + zip64 + 4
    padding = -start % _ALIGNMENT
    info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
    info.file_size = size
    with archive.open(info, "w", force_zip64=bool(zip64)) as record:
        record.write(data)
    info.extra = b""                             # padding belongs to the local header, not to the directory


# ------------------------------------------------------------------------------------------------------------- reading
_user_safe_globals: dict[str, object] = {}


def _qualified(obj) -> str:
    return f"{obj.__module__}.{obj.__qualname__}"


def add_safe_globals(safe_globals: list) -> None:
    """Let `load(weights_only=True)` use these classes and functions; an entry may be (object, "module.name")."""
    for entry in safe_globals:
        obj, name = entry if isinstance(entry, tuple) else (entry, _qualified(entry))
        _user_safe_globals[name] = obj
        if name.startswith("rushlight."):                # files name our classes as torch does
            _user_safe_globals["torch" + name[len("rushlight"):]] = obj


def clear_safe_globals() -> None:
    _user_safe_globals.clear()


def get_safe_globals() -> list:
    return list(dict.fromkeys(_user_safe_globals.values()))


@contextmanager
def safe_globals(safe_globals: list):
    """`add_safe_globals` for a while."""
    before = dict(_user_safe_globals)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _user_safe_globals.clear()
        _user_safe_globals.update(before)


class _StorageType:
    """What `torch.FloatStorage` in a file stands for."""

    __slots__ = ("dtype",)

    def __init__(self, dtype) -> None:
        self.dtype = dtype


def _known_names() -> dict:
    """Everything a file may name without the user's word, by torch's names."""
    from collections import Counter, defaultdict, deque

    from rushlight.nn import Parameter

    def encode(text, encoding="latin1"):             # how protocol 2 writes bytes
        return text.encode(encoding)

    known = {
        "collections.OrderedDict": OrderedDict, "collections.Counter": Counter, "collections.defaultdict": defaultdict,
        "collections.deque": deque, "_codecs.encode": encode, "builtins.set": set, "builtins.frozenset": frozenset,
        "builtins.bytearray": bytearray, "builtins.complex": complex, "builtins.dict": dict, "builtins.list": list,
        "__builtin__.set": set, "__builtin__.frozenset": frozenset, "__builtin__.bytearray": bytearray, "__builtin__.complex": complex,
        "torch.Size": _KnownClass(rl.Size), "torch.device": _KnownClass(rl.device), "torch.Tensor": _KnownClass(Tensor),
        "torch.nn.parameter.Parameter": _KnownClass(Parameter),
        "torch.storage.UntypedStorage": _StorageType(rl.uint8), "torch.UntypedStorage": _StorageType(rl.uint8),
        "torch._utils._rebuild_tensor": _rebuild_tensor, "torch._utils._rebuild_tensor_v2": _rebuild_tensor_v2,
        "torch._utils._rebuild_tensor_v3": _rebuild_tensor_v3, "torch._utils._rebuild_parameter": _rebuild_parameter,
        "torch._utils._rebuild_parameter_with_state": _rebuild_parameter_with_state,
        "torch._utils._rebuild_sparse_tensor": _rebuild_sparse_tensor, "torch.serialization._get_layout": _get_layout,
        "torch._utils._rebuild_meta_tensor_no_storage": _rebuild_meta_tensor_no_storage,
        "torch._tensor._rebuild_from_type_v2": _rebuild_from_type_v2,
    }
    for name in ("strided", "sparse_coo", "sparse_csr", "sparse_csc"):
        known[f"torch.{name}"] = getattr(rl, name)
    for name in _DTYPE_NAMES:
        dtype = getattr(rl, name, None)
        if dtype is not None:
            known[f"torch.{name}"] = dtype
            if name in _STORAGE_NAMES:
                known[f"torch.{_STORAGE_NAMES[name]}"] = _StorageType(dtype)
    return known


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, read_storage, restricted: bool, **options) -> None:
        super().__init__(file, **options)
        self._read_storage = read_storage
        self._restricted = restricted
        self._known, self._named, self._from_storages = _known_names(), Unchanged(), None

    def load(self):
        """The object. Of a restricted file only its bytes decide what happens, so whatever they made Python raise says that they are damaged."""
        if not self._restricted: return super().load()
        try:
            with self._named: return super().load()
        except (pickle.UnpicklingError, RuntimeError): raise
        except Exception as error:
            if error is self._from_storages: raise
            raise pickle.UnpicklingError(f"the pickle is damaged ({type(error).__name__}: {error})") from error

    def _storage(self, *reference):
        """What a reference to a storage stands for; the caller's map_location may have errors of its own."""
        try: return self._read_storage(*reference)
        except Exception as error:
            self._from_storages = error
            raise

    def find_class(self, module: str, name: str):
        full = f"{module}.{name}"
        if full in self._known:
            known = self._known[full]
            return self._named.watch(known) if self._restricted else known.cls if isinstance(known, _KnownClass) else known
        if full in _user_safe_globals:
            return self._named.watch(_user_safe_globals[full]) if self._restricted else _user_safe_globals[full]
        if self._restricted:
            raise pickle.UnpicklingError(
                f"Unsupported global: GLOBAL {full} was not an allowed global by default. Please use "
                f"`torch.serialization.add_safe_globals([{name}])` or the `torch.serialization.safe_globals([{name}])` context manager to "
                "allowlist this global if you trust this class/function.")
        if full == "torch._C._VariableFunctionsClass":      # torch writes `torch.arctan` as an attribute of this
            return rl
        space = module.removeprefix("torch._C._")
        if space != module and space in ("nn", "linalg", "special", "fft"):      # torch keeps the functions of its namespaces there: `torch._C._linalg.linalg_inv`
            module, name = "rushlight.nn.functional" if space == "nn" else f"rushlight.{space}", name.removeprefix(f"{space}_")
        elif module == "torch" or module.startswith("torch."):
            module = "rushlight" + module[len("torch"):]       # a model saved by torch: the same class here
        return super().find_class(module, name)

    def persistent_load(self, reference):
        if not (isinstance(reference, tuple) and len(reference) == 5 and reference[0] == "storage"):
            raise pickle.UnpicklingError(f"Only persistent_load of storage is allowed, but got {reference!r}")
        _, kind, key, location, numel = reference
        if not isinstance(kind, _StorageType) or not isinstance(key, str) or not isinstance(numel, int):
            raise pickle.UnpicklingError(f"malformed storage reference {reference!r}")
        return self._storage(key, kind.dtype, numel, location)


_TRUST = ("Re-running `torch.load` with `weights_only` set to `False` will likely succeed, but it can result in arbitrary code execution. "
          "Do it only if you got the file from a trusted source.")


def load(f, map_location=None, pickle_module=None, *, weights_only: bool | None = None, mmap: bool | None = None, **pickle_load_args):
    """Read what `save`, here or in torch, wrote to a path or a file object.

    `weights_only` (the default) refuses anything but tensors and plain containers. `map_location` says where storages go: a device,
    a dictionary of locations, or a function `(storage, location) -> storage or None`.
    """
    if pickle_module is not None and weights_only:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    restricted = weights_only is not False
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _load_archive(file, map_location, restricted, bool(mmap), pickle_load_args)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not (hasattr(f, "read") and hasattr(f, "seek") and hasattr(f, "tell")):
        missing = next((name for name in ("read", "seek", "tell") if not hasattr(f, name)), "read")
        raise AttributeError(f"'{type(f).__name__}' object has no attribute '{missing}'. You can only torch.load from a file that is "
                             "seekable. "
                             "Please pre-load the data into a buffer like io.BytesIO and try to load from it instead.")
    return _load_archive(f, map_location, restricted, False, pickle_load_args)


def _open_archive(file):
    import zipfile
    start = file.tell()
    head = file.read(4)
    file.seek(start)
    if not head:
        raise EOFError("Ran out of input: the file is empty")
    if head[:1] == b"\x80":
        return None                              # the format before zip files, or a plain pickle
    if head != b"PK\x03\x04":
        raise pickle.UnpicklingError(f"invalid load key, {chr(head[0])!r}: this is not a file written by save (a zip archive starts with "
                                     "'PK')")
    try:
        return zipfile.ZipFile(file, "r")
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError, ValueError) as error:      # versions, names and offsets that no archive has
        raise RuntimeError("PytorchStreamReader failed reading zip archive: failed finding central directory. "
                           f"The file is cut short or damaged ({error}); it cannot be read") from None


class _Records:
    """The records of an archive: their bytes, checked."""

    def __init__(self, archive, file, use_mmap: bool) -> None:
        self.archive, self.file = archive, file
        names = archive.namelist()
        pickles = [name for name in names if name.endswith("/data.pkl") or name == "data.pkl"]
        if not pickles:
            raise RuntimeError("PytorchStreamReader failed locating file data.pkl: file not found. "
                               f"The archive holds {', '.join(names[:5]) or 'nothing'}")
        self.root = pickles[0][: -len("data.pkl")]
        if self.root + "constants.pkl" in names:
            raise RuntimeError("this file is a TorchScript archive (it has constants.pkl), not one written by save")
        self.mapped = None
        if use_mmap:
            import mmap
            self.mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)

    def _info(self, name: str):
        try:
            return self.archive.getinfo(self.root + name)
        except KeyError:
            raise RuntimeError(f"PytorchStreamReader failed locating file {name}: file not found") from None

    def read(self, name: str, default: bytes | None = None) -> bytes:
        if default is not None and self.root + name not in self.archive.NameToInfo:
            return default
        info = self._info(name)
        try:
            return self.archive.read(info)
        except Exception as error:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: file read failed ({error})") from None

    def storage(self, name: str, nbytes: int):
        """A record as a storage, read straight into its memory (or mapped)."""
        import zlib
        info = self._info(name)
        if info.file_size != nbytes:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: the record has {info.file_size} bytes, the tensors need "
                               f"{nbytes}")
        if nbytes == 0:
            return rl.empty(0, dtype=rl.uint8).untyped_storage()
        if self.mapped is not None and info.compress_type == 0:
            start = self._data_offset(info)
            if start + nbytes > len(self.mapped):
                raise RuntimeError(f"PytorchStreamReader failed reading file {name}: the file ends before the record does")
            return rl.frombuffer(memoryview(self.mapped)[start:start + nbytes], dtype=rl.uint8).untyped_storage()
        holder = rl.empty(nbytes, dtype=rl.uint8)
        target = memoryview(holder.numpy())
        try:
            with self.archive.open(info) as record:
                record._expected_crc = None          # checked below, in one call over the whole
                done = 0
                while done < nbytes:
                    piece = record.read(min(nbytes - done, 1 << 24))
                    if not piece:
                        break
                    target[done:done + len(piece)] = piece
                    done += len(piece)
        except Exception as error:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: file read failed ({error})") from None
        if done != nbytes or zlib.crc32(target) != info.CRC:
            raise RuntimeError(f"PytorchStreamReader failed reading file {name}: file read failed (its checksum does not match: the file "
                               "is damaged)")
        return holder.untyped_storage()

    def _data_offset(self, info) -> int:
        import struct
        self.file.seek(info.header_offset)
        head = self.file.read(30)
        if len(head) < 30 or head[:4] != b"PK\x03\x04":
            raise RuntimeError("PytorchStreamReader failed reading zip archive: a record is not where the directory says")
        name_length, extra_length = struct.unpack("<HH", head[26:])
        return info.header_offset + 30 + name_length + extra_length


def _load_archive(file, map_location, restricted: bool, use_mmap: bool, options: dict):
    import sys
    archive = _open_archive(file)
    if archive is None:
        if use_mmap:
            raise RuntimeError("mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True)`, please torch.save your checkpoint with "
                               "this option in order to use mmap.")
        from .serialization_legacy import load_legacy
        return load_legacy(file, map_location, restricted, options)
    records = _Records(archive, file, use_mmap)
    byteorder = records.read("byteorder", default=b"little").decode()
    if byteorder not in ("little", "big"):
        raise ValueError(f"Unknown endianness type: {byteorder}")
    locate = _locator(map_location)
    loaded: dict[str, _Storage] = {}

    def read_storage(key: str, dtype, numel: int, location: str) -> _Storage:
        if key not in loaded:
            device = locate(location)
            if device == "meta":
                loaded[key] = _Storage(None, dtype, "meta")
            else:
                untyped = records.storage(f"data/{key}", numel * dtype.itemsize)
                if byteorder != sys.byteorder:
                    _swap_bytes(untyped, dtype)
                loaded[key] = _Storage(_replaced(untyped, map_location, location), dtype)
        storage = loaded[key]
        return storage if storage.dtype is dtype else _Storage(storage.untyped, dtype, storage.device)

    program = records.read("data.pkl")
    try:
        if restricted: check_memo(program)
        return _Unpickler(io.BytesIO(program), read_storage, restricted, **options).load()
    except pickle.UnpicklingError as error:
        if not restricted:
            raise
        raise pickle.UnpicklingError(f"Weights only load failed. {_TRUST}\n\tWeightsUnpickler error: {error}") from None


def _replaced(untyped, map_location, location: str):
    """The storage, or what a map_location that is a function gives in its place."""
    given = map_location(untyped, location) if callable(map_location) else None
    return untyped if given is None else given


def _swap_bytes(untyped, dtype) -> None:
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if width > 1:
        _bytes_of(untyped).numpy().view(f"u{width}").byteswap(inplace=True)


def _locator(map_location):
    """location -> "cpu" or "meta", or torch's error for a device that is not here."""
    def check(location: str) -> str:
        kind = str(location).split(":")[0]
        if kind in ("cpu", "meta"):
            return kind
        if kind == "cuda":
            raise RuntimeError("Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are "
                               "running on a "
                               "CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the "
                               "CPU.")
        raise RuntimeError(f"don't know how to restore data location of torch.storage.UntypedStorage (tagged with {location}); "
                           "pass map_location='cpu'")

    if map_location is None:
        return check
    if isinstance(map_location, dict):
        return lambda location: check(map_location.get(location, location))
    if isinstance(map_location, (str, rl.device)):
        fixed = check(str(map_location))
        return lambda location: fixed
    if callable(map_location):
        return lambda location: "cpu"
    raise TypeError(f"map_location must be a device, a string, a dict or a function, not {type(map_location).__name__}")
