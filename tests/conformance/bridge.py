"""Between the two libraries: the same values, layouts and dtypes on both sides, and what differs said in words."""
from __future__ import annotations

import numpy as np
import torch

import rushlight as rl

DTYPES = {getattr(torch, n): getattr(rl, n) for n in ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
                                                      "complex64", "complex128", "uint16", "uint32", "uint64")}


def tensor_to_rl(t: torch.Tensor, storages: dict):
    """A rushlight tensor over a copy of the whole storage, with the same sizes, strides, offset, conj and neg bits. Tensors that share a storage
    share its copy, and a tensor given twice is one here too: `storages` remembers both."""
    known = storages.get(("tensor", id(t)))
    if known is None: known = storages["tensor", id(t)] = t, _new_tensor(t, storages)              # torch's is kept alive, so that its id stays its own
    return known[1]


def _new_tensor(t, storages):
    base = t.detach()
    if base.layout is not torch.strided: return sparse_to_rl(base).requires_grad_(t.requires_grad)
    if base.device.type == "meta": return rl.empty_strided(tuple(t.shape), tuple(t.stride()), dtype=DTYPES[t.dtype], device="meta")
    if base.is_neg(): base = torch._neg_view(base)
    if base.is_conj(): base = base.conj()
    key = base.untyped_storage()._cdata
    if key not in storages:
        flat = torch.empty(0, dtype=t.dtype).set_(base.untyped_storage())
        storages[key] = flat, _flat_to_rl(flat)              # torch's is kept alive, so that its address stays its own
    flat = storages[key][1]
    if flat.dtype is not DTYPES[t.dtype]: flat = flat.view(DTYPES[t.dtype])
    out = flat.as_strided(tuple(base.shape), tuple(base.stride()), base.storage_offset())
    if t._base is None: out = out.detach()
    if t.is_conj(): out = out.conj()
    if t.is_neg(): out = rl._neg_view(out)
    return out.requires_grad_(True) if t.requires_grad else out


def parts_of(t) -> list:
    """The indices of a sparse tensor, torch's or ours, and its values."""
    names = {"torch.sparse_coo": ("_indices",), "torch.sparse_csr": ("crow_indices", "col_indices"), "torch.sparse_csc": ("ccol_indices", "row_indices")}[str(t.layout)]
    return [getattr(t, name)() for name in names] + [t._values() if t.is_sparse else t.values()]


def sparse_to_rl(t: torch.Tensor):
    parts = [tensor_to_rl(p, {}) for p in parts_of(t)]
    if t.is_sparse: return rl.sparse_coo_tensor(*parts, tuple(t.shape), is_coalesced=t.is_coalesced())
    return rl.sparse_compressed_tensor(*parts, tuple(t.shape), layout=getattr(rl, str(t.layout)[6:]))


def _flat_to_rl(flat: torch.Tensor):
    """A copy in memory of rushlight's own, so that it can be resized; torch's is cloned first, since .numpy() forbids it that."""
    if flat.dtype == torch.bfloat16: return _flat_to_rl(flat.view(torch.int16)).view(rl.bfloat16)
    return rl.from_numpy(flat.clone().numpy()).clone()


def to_rl(value, storages=None):
    storages = {} if storages is None else storages
    inside = lambda v: to_rl(v, storages)
    if isinstance(value, torch.Tensor): return tensor_to_rl(value, storages)
    if isinstance(value, torch.dtype): return DTYPES[value]
    if isinstance(value, torch.device): return rl.device(str(value))
    if isinstance(value, torch.memory_format): return getattr(rl, str(value).rpartition(".")[2])
    if isinstance(value, torch.layout): return getattr(rl, str(value).rpartition(".")[2])
    if isinstance(value, torch.Size): return rl.Size(value)
    if isinstance(value, torch.nn.Module): return getattr(rl.nn, type(value).__name__)()       # a distance without parameters
    if isinstance(value, tuple) and hasattr(value, "_fields"): return type(value)(*map(inside, value))
    if isinstance(value, (list, tuple)): return type(value)(map(inside, value))
    if isinstance(value, dict): return {k: inside(v) for k, v in value.items()}
    return value


def to_torch(t) -> torch.Tensor:
    t = t.detach()
    if t.dtype is rl.bfloat16:
        return torch.from_numpy(np.array(t.contiguous().view(rl.int16).numpy())).view(torch.bfloat16)
    return torch.from_numpy(np.array(t.resolve_conj().numpy()))


def flatten(value) -> list:
    """The leaves of nested lists, tuples and dictionaries."""
    if isinstance(value, dict): value = list(value.values())
    return [leaf for item in value for leaf in flatten(item)] if isinstance(value, (list, tuple)) else [value]


# rtol, atol by dtype: torch.testing's own.
TOLERANCE = {torch.float32: (1.3e-6, 1e-5), torch.float64: (1e-7, 1e-7), torch.bfloat16: (1.6e-2, 1e-5), torch.float16: (1e-3, 1e-5),
             torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7)}


def difference(ours, theirs, scale=1, strides=False, values=True, tolerance=TOLERANCE) -> str | None:
    """None if the results agree, else what differs. `values` False: only types, shapes, dtypes and strides. The tolerance is that of the result's
    dtype, times `scale`."""
    if isinstance(theirs, torch.Tensor):
        if not isinstance(ours, rl.Tensor): return f"got {type(ours).__name__}, expected a tensor"
        if tuple(ours.shape) != tuple(theirs.shape): return f"shape {tuple(ours.shape)}, torch has {tuple(theirs.shape)}"
        if str(ours.dtype) != str(theirs.dtype): return f"dtype {ours.dtype}, torch has {theirs.dtype}"
        if str(ours.layout) != str(theirs.layout): return f"layout {ours.layout}, torch has {theirs.layout}"
        if theirs.layout is not torch.strided: return difference(parts_of(ours.detach()), parts_of(theirs.detach()), scale, False, values, tolerance)
        if strides and theirs.numel() > 0:
            want = [s for n, s in zip(theirs.shape, theirs.stride()) if n > 1]
            got = [s for n, s in zip(ours.shape, ours.stride()) if n > 1]
            if want != got: return f"strides {tuple(ours.stride())}, torch has {tuple(theirs.stride())}"
        if not values: return None
        a, b = to_torch(ours), theirs.detach().resolve_conj().resolve_neg()
        if b.dtype.is_floating_point or b.dtype.is_complex:
            rtol, atol = (scale * t for t in tolerance[b.dtype])
            if not torch.allclose(a.to(b.dtype), b, rtol=rtol, atol=atol, equal_nan=True):
                gap = (a.to(torch.complex128) - b.to(torch.complex128)).abs()
                return f"values differ by up to {gap[~gap.isnan()].max().item() if (~gap.isnan()).any() else 'nan'}: {a.reshape(-1)[:4].tolist()} against {b.reshape(-1)[:4].tolist()}"
        elif not torch.equal(a, b): return f"values differ: {a.reshape(-1)[:6].tolist()} against {b.reshape(-1)[:6].tolist()}"
        return None
    if isinstance(theirs, (list, tuple)):
        if len(ours) != len(theirs): return f"{len(ours)} results, torch has {len(theirs)}"
        for i, (x, y) in enumerate(zip(ours, theirs)):
            word = difference(x, y, scale, strides, values, tolerance)
            if word: return f"result {i}: {word}"
        return None
    if isinstance(theirs, float) and isinstance(ours, float):
        same = ours == theirs or abs(ours - theirs) <= 1e-5 * max(1.0, abs(theirs)) or (ours != ours and theirs != theirs)
        return None if same else f"{ours} against {theirs}"
    return None if ours == theirs else f"{ours!r} against {theirs!r}"
