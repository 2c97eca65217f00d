"""The format torch wrote before its zip files: pickles one after another (a magic number, a version, facts about the machine, the object, the keys
of the storages), then the bytes of each storage behind its length. Read only; by the same restricted unpickler."""
from __future__ import annotations

import pickle
import struct

import rushlight as rl

from .serialization import _TRUST, _bytes_of, _locator, _replaced, _Storage, _StorageType, _swap_bytes, _Unpickler
from .serialization_guard import check_memo_of

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001


class _LegacyUnpickler(_Unpickler):
    """Storages come after the pickle: whatever looks at numbers must wait until they are there."""

    def __init__(self, *args, **options) -> None:
        super().__init__(*args, **options)
        self.unseen: list = []

        def rebuild_sparse(layout, parts):
            from .sparse.construct import rebuilt_unseen
            self.unseen.append(rebuilt_unseen(layout, parts))
            return self.unseen[-1]
        self._known["torch._utils._rebuild_sparse_tensor"] = rebuild_sparse

    def look_through(self) -> None:
        """Sparse tensors are checked now that they have their indices."""
        if not self.unseen: return
        from .sparse.construct import look_through
        for tensor in self.unseen:
            try: look_through(tensor)
            except RuntimeError: raise
            except Exception as error: raise pickle.UnpicklingError(f"a sparse tensor is damaged ({type(error).__name__}: {error})") from error

    def persistent_load(self, reference):
        if isinstance(reference, tuple) and reference and reference[0] == "module": return reference[1]      # a class with its source, which is not run
        if not (isinstance(reference, tuple) and len(reference) == 6 and reference[0] == "storage"):
            raise pickle.UnpicklingError(f"Only persistent_load of storage is allowed, but got {reference!r}")
        _, kind, key, location, numel, view = reference
        if not isinstance(kind, _StorageType) or not isinstance(numel, int) or numel < 0:
            raise pickle.UnpicklingError(f"malformed storage reference {reference!r}")
        root = self._storage(str(key), kind.dtype, numel, location)
        if view is None: return root
        _, start, size = view
        if start < 0 or size < 0 or start + size > numel: raise pickle.UnpicklingError(f"malformed storage reference {reference!r}")
        return _Storage(root.untyped, kind.dtype, root.device, start)      # a part of it, as torch wrote them before 0.4; the same memory


def load_legacy(file, map_location, restricted: bool, options: dict):
    """The object in a file of the old format."""
    def plain():
        check_memo_of(file)
        return _Unpickler(file, None, True, **options).load()
    try: magic = plain()
    except pickle.UnpicklingError as error: raise pickle.UnpicklingError(f"this is neither a zip archive nor a file of torch's older format ({error})") from None
    if magic != MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file? A plain pickle, perhaps: it is not read, because unpickling runs code")
    version, facts = plain(), plain()
    if version != VERSION: raise RuntimeError(f"Invalid protocol version: {version}")
    little = facts.get("little_endian", True) if isinstance(facts, dict) else True
    locate, storages = _locator(map_location), {}
    here = file.tell()
    file.seek(0, 2)
    left = file.tell() - here
    file.seek(here)

    def reserve(key, dtype, numel, location):
        if key not in storages:
            if locate(location) == "meta": storages[key] = _Storage(None, dtype, "meta")
            elif numel * dtype.itemsize > left: raise RuntimeError(f"unexpected EOF: a storage of {numel * dtype.itemsize} bytes, of which the file has {left} at most")
            else: storages[key] = _Storage(_replaced(rl.empty(numel * dtype.itemsize, dtype=rl.uint8).untyped_storage(), map_location, location), dtype)
        return storages[key]
    try:
        if restricted: check_memo_of(file)
        reader = _LegacyUnpickler(file, reserve, restricted, **options)
        result = reader.load()
        keys = plain()
    except pickle.UnpicklingError as error:
        if not restricted: raise
        raise pickle.UnpicklingError(f"Weights only load failed. {_TRUST}\n\tWeightsUnpickler error: {error}") from None
    if not isinstance(keys, list) or any(str(k) not in storages for k in keys): raise RuntimeError("the list of storages is damaged: it names what no tensor has")
    for key in map(str, keys):
        storage = storages[key]
        head = file.read(8)
        if len(head) < 8: raise RuntimeError("unexpected EOF: the file is cut short before its storages")
        (count,) = struct.unpack("<q" if little else ">q", head)
        wanted = storage.untyped.nbytes() if storage.untyped is not None else count * storage.dtype.itemsize
        if not 0 <= wanted <= left: raise RuntimeError(f"unexpected EOF: a storage of {wanted} bytes, of which the file has {left} at most")
        if count * storage.dtype.itemsize != wanted: raise RuntimeError(f"storage has wrong size: expected {wanted // storage.dtype.itemsize} got {count}")
        data = file.read(wanted)
        if len(data) != wanted: raise RuntimeError(f"unexpected EOF, expected {wanted - len(data)} more bytes. The file might be corrupted.")
        if storage.untyped is None: continue
        if wanted: memoryview(_bytes_of(storage.untyped).numpy())[:] = data
        if not little: _swap_bytes(storage.untyped, storage.dtype)
    reader.look_through()
    return result
