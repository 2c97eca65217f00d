"""Tensors in the safetensors format: a header that says where each tensor lies, then the bytes. Nothing in such a file is ever executed.

    save_file({"weight": w}, "model.safetensors", metadata={"format": "pt"})
    tensors = load_file("model.safetensors")                      # memory-mapped: pages are read when they are used
    with safe_open("model.safetensors") as f: f.keys(); f.get_tensor("weight"); f.get_slice("weight")[:2]

A file is 8 bytes (the length of the header, little endian), the header as JSON, the data. Everything is checked before a tensor is made: offsets
lie side by side within the file, sizes fit shapes and dtypes.
"""
from __future__ import annotations

import json
import mmap
import os
import struct
import tempfile

import rushlight as rl

__all__ = ["SafetensorError", "save_file", "save", "load_file", "load", "safe_open"]

NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "I32": "int32", "U32": "uint32", "I64": "int64", "U64": "uint64",
         "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "C64": "complex64"}
CODES = {name: code for code, name in NAMES.items()}
LONGEST_HEADER = 100_000_000


class SafetensorError(Exception):
    """A file that is not what the format says."""


# --------------------------------------------------------------------------------------------------------------- writing
def _layout(tensors, metadata):
    """(header bytes, tensors in the order of the file)."""
    if not isinstance(tensors, dict): raise ValueError(f"Expected a dict of [str, torch.Tensor] but received {type(tensors)}")
    seen = {}
    for name, t in tensors.items():
        if not isinstance(name, str) or not isinstance(t, rl.Tensor): raise ValueError(f"Key `{name}` is invalid, expected torch.Tensor but received {type(t)}")
        place = (t.untyped_storage().data_ptr(), t.storage_offset() * t.element_size(), t.numel())
        if t.numel() and place[0] in seen:
            raise RuntimeError(f"Some tensors share memory, this will lead to duplicate memory on disk and potential differences when loading them again: "
                               f"{seen[place[0]]!r} and {name!r}. Save clones of them")
        if t.numel(): seen[place[0]] = name
        if str(t.dtype).rpartition(".")[2] not in CODES: raise SafetensorError(f"the format has no code for {t.dtype}")
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))       # wide ones first: all stay aligned
    header, at = {}, 0
    if metadata is not None:
        if any(not isinstance(v, str) for pair in metadata.items() for v in pair): raise TypeError("metadata must be a dict of strings to strings")
        header["__metadata__"] = metadata
    for name, t in ordered:
        size = t.numel() * t.element_size()
        header[name] = {"dtype": CODES[str(t.dtype).rpartition(".")[2]], "shape": list(t.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, ordered


def _bytes(t):
    t = t.detach().resolve_conj().contiguous()
    return memoryview(t.view(-1).view(rl.uint8).numpy()) if t.numel() else b""


def save(tensors, metadata=None) -> bytes:
    """A dictionary of tensors as the bytes of a file."""
    head, ordered = _layout(tensors, metadata)
    return b"".join([head, *(_bytes(t) for _, t in ordered)])


def save_file(tensors, filename, metadata=None) -> None:
    """Write a dictionary of tensors. A crash leaves the file that was there before."""
    head, ordered = _layout(tensors, metadata)
    folder = os.path.dirname(os.path.abspath(filename))
    handle, beside = tempfile.mkstemp(dir=folder, prefix=".", suffix=".safetensors")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(head)
            for _, t in ordered: file.write(_bytes(t))
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, filename)
    except BaseException:
        os.unlink(beside)
        raise


# --------------------------------------------------------------------------------------------------------------- reading
def _checked(data):
    """(tensors by name, metadata, where the data begin) of a file's bytes."""
    if len(data) < 8: raise SafetensorError("Error while deserializing header: header too small")
    (length,) = struct.unpack("<Q", data[:8])
    if length > LONGEST_HEADER: raise SafetensorError("Error while deserializing header: header too large")
    start = 8 + length
    if start > len(data): raise SafetensorError("Error while deserializing header: invalid header length")
    try: header = json.loads(bytes(data[8:start]).decode("utf-8"), object_pairs_hook=_once)
    except (UnicodeDecodeError, ValueError, RecursionError) as error: raise SafetensorError(f"Error while deserializing header: invalid header: {error}") from None
    if not isinstance(header, dict): raise SafetensorError("Error while deserializing header: invalid header: not a dictionary")
    metadata = header.pop("__metadata__", None)
    spans = []
    for name, entry in header.items():
        try:
            dtype, shape, (begin, end) = getattr(rl, NAMES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
            good = all(type(n) is int and n >= 0 for n in [*shape, begin, end])
        except (KeyError, TypeError, ValueError) as error: raise SafetensorError(f"Error while deserializing header: invalid entry {name!r}: {error!r}") from None
        size = dtype.itemsize
        for n in shape if good else (): size *= n
        if not good or begin > end or end > len(data) - start: raise SafetensorError(f"Error while deserializing header: invalid offset for tensor {name!r}")
        if end - begin != size: raise SafetensorError(f"Error while deserializing header: tensor {name!r} has {end - begin} bytes, its shape needs {size}")
        header[name] = (dtype, tuple(shape), start + begin, start + end)
        spans.append((begin, end))
    at = 0
    for begin, end in sorted(spans):
        if begin != at: raise SafetensorError("Error while deserializing header: tensors overlap or leave a hole")
        at = end
    if at != len(data) - start: raise SafetensorError("Error while deserializing header: metadata incomplete buffer: the file is longer or shorter than its tensors")
    return header, metadata


def _once(pairs):
    out = dict(pairs)
    if len(out) != len(pairs): raise ValueError("a name appears twice")
    return out


def _tensor(data, entry):
    dtype, shape, begin, end = entry
    if begin == end: return rl.empty(shape, dtype=dtype)
    piece = rl.frombuffer(data, dtype=rl.uint8, count=end - begin, offset=begin)
    if begin % dtype.itemsize: piece = piece.clone()
    return piece.view(dtype).view(shape)


class safe_open:
    """A file opened for reading tensors one by one. The tensors are views of the mapped file; writing to them changes memory, never the file."""

    def __init__(self, filename, framework="pt", device="cpu"):
        if framework not in ("pt", "torch", "rushlight"): raise SafetensorError(f"framework {framework!r} is not known here; use 'pt'")
        with open(filename, "rb") as file:
            if os.fstat(file.fileno()).st_size < 8: raise SafetensorError("Error while deserializing header: header too small")
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        self._entries, self._metadata = _checked(memoryview(self._data))
        self._device = device

    def __enter__(self): return self
    def __exit__(self, *error): self._entries = {}
    def keys(self): return list(self._entries)
    def offset_keys(self): return sorted(self._entries, key=lambda k: self._entries[k][2])
    def metadata(self): return self._metadata

    def get_tensor(self, name):
        if name not in self._entries: raise SafetensorError(f"File does not contain tensor {name}")
        tensor = _tensor(self._data, self._entries[name])
        return tensor if str(self._device) == "cpu" else tensor.to(self._device)

    def get_slice(self, name): return _Slice(self.get_tensor(name), next(c for c, n in NAMES.items() if getattr(rl, n) is self._entries[name][0]))


class _Slice:
    def __init__(self, tensor, code): self._tensor, self._code = tensor, code
    def __getitem__(self, where): return self._tensor[where].clone()
    def get_shape(self): return list(self._tensor.shape)
    def get_dtype(self): return self._code


def load_file(filename, device="cpu") -> dict:
    """All tensors of a file, memory-mapped."""
    with safe_open(filename, device=device) as file: return {name: file.get_tensor(name) for name in file.keys()}


def load(data: bytes) -> dict:
    """All tensors of a file's bytes."""
    data = bytearray(data)
    entries, _ = _checked(memoryview(data))
    return {name: _tensor(data, entry) for name, entry in entries.items()}
