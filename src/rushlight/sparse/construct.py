"""Making sparse tensors from indices and values."""
from __future__ import annotations

import rushlight as rl

from .. import _C
from .convert import zeros
from .pattern import COMPRESSED, COO, CSC, CSR, WORDS, Pattern, check_compressed, check_coo
from .tensor import assemble, values_of

_checking = {"on": False}


class check_sparse_tensor_invariants:
    """Check every property of what the constructors are given: `enable()`, `disable()`, or a block. Places are always checked; this adds that they are in order."""

    def __init__(self, enable=True): self._enable, self._before = enable, None
    @staticmethod
    def is_enabled() -> bool: return _checking["on"]
    @staticmethod
    def enable() -> None: _checking["on"] = True
    @staticmethod
    def disable() -> None: _checking["on"] = False

    def __enter__(self):
        if self._before is not None:
            raise RuntimeError("This context manager instance is already activated. Use a different context manager instance for context nesting.")
        self._before, _checking["on"] = _checking["on"], self._enable

    def __exit__(self, *exc): _checking["on"], self._before = self._before, None

    def __call__(self, function):
        import functools

        @functools.wraps(function)
        def inside(*args, **kwargs):
            with type(self)(self._enable): return function(*args, **kwargs)
        return inside


def _as_tensor(data, dtype=None):
    return data if isinstance(data, _C.Tensor) and dtype in (None, data.dtype) else _C.as_tensor(data, dtype=dtype)


def _values(values, dtype, requires_grad):
    """As torch: asked for a gradient, the tensor is a leaf of its own."""
    values = _as_tensor(values, dtype)
    return values.detach() if requires_grad else values


def _checked(check_invariants) -> bool: return _checking["on"] if check_invariants is None else check_invariants


def _on_cpu(device) -> None:
    if device is not None and _C.device(device).type != "cpu":
        raise NotImplementedError(f"sparse tensors are on the CPU only, not on {device}")


def sparse_coo_tensor(indices=None, values=None, size=None, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, check_invariants=None,
                      is_coalesced=None):
    """A tensor of `values` at `indices` ([dimensions, elements]); the last dimensions of `values` are dense ones. A place may be there more than once.

    >>> rushlight.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 0.]])
    """
    _on_cpu(device)
    if values is None:
        if indices is not None and size is None: indices, size = None, indices
        if isinstance(size, _C.Tensor):
            raise TypeError("sparse_coo_tensor(): argument 'size' (position 1) must be tuple of ints, not Tensor")
        if size is None or indices is not None:
            raise TypeError("sparse_coo_tensor() missing 1 required positional arguments: \"values\"")
        return zeros(tuple(size), COO, dtype, requires_grad)
    indices, values = _as_tensor(indices).to(rl.int64), _values(values, dtype, requires_grad)
    if values.dim() == 0: values = values.reshape(1)
    if size is None:
        if indices.dim() != 2:
            raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
        size = ([max(n + 1, 0) for n in indices.amax(1).tolist()] if indices.numel() else [0] * indices.shape[0]) + list(values.shape[1:])
    if indices.dim() == 1: indices = indices.unsqueeze(1 if values.dim() == 1 and values.shape[0] == 1 else 0).expand(indices.shape[0], values.shape[0])
    check_coo(indices, values, tuple(size), coalesced=bool(is_coalesced) and _checked(check_invariants))
    out = assemble(Pattern(COO, size, (indices.detach(),), coalesced=bool(is_coalesced) or indices.shape[1] == 0), values)
    return out.requires_grad_() if requires_grad else out


def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False,
                             check_invariants=None):
    """A matrix given row by row (`layout=torch.sparse_csr`) or column by column (`torch.sparse_csc`)."""
    _on_cpu(device)
    if layout not in COMPRESSED:
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout but got {'none' if layout is None else WORDS.get(layout, layout)}")
    if layout not in (CSR, CSC):
        raise NotImplementedError(f"sparse_compressed_tensor(): blocks are not available: layout={layout}; use torch.sparse_csr or torch.sparse_csc")
    outer, inner, values = _as_tensor(compressed_indices), _as_tensor(plain_indices), _values(values, dtype, requires_grad)
    if size is None:
        count, width = max(outer.shape[-1] - 1, 0), int(inner.max().item()) + 1 if inner.numel() else 0
        size = ((count, width) if layout is CSR else (width, count)) + tuple(values.shape[1:])
    check_compressed(layout, outer, inner, values, tuple(size), ordered=_checked(check_invariants))
    out = assemble(Pattern(layout, size, (outer.detach(), inner.detach())), values)
    return out.requires_grad_() if requires_grad else out


def sparse_csr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, check_invariants=None):
    """A matrix given row by row: row i has the elements `crow_indices[i]` up to `crow_indices[i + 1]` of `values`, in the columns `col_indices`."""
    return sparse_compressed_tensor(crow_indices, col_indices, values, size, dtype=dtype, layout=CSR, device=device, requires_grad=requires_grad,
                                    check_invariants=check_invariants)


def sparse_csc_tensor(ccol_indices, row_indices, values, size=None, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, check_invariants=None):
    """A matrix given column by column."""
    return sparse_compressed_tensor(ccol_indices, row_indices, values, size, dtype=dtype, layout=CSC, device=device, requires_grad=requires_grad,
                                    check_invariants=check_invariants)


def _no_blocks(name):
    def make(*args, **kwargs):
        raise NotImplementedError(f"{name}(): blocks are not available; use torch.sparse_csr_tensor or torch.sparse_csc_tensor")
    make.__name__ = name
    return make


sparse_bsr_tensor, sparse_bsc_tensor = _no_blocks("sparse_bsr_tensor"), _no_blocks("sparse_bsc_tensor")


def rebuilt(layout, parts):
    """A tensor from what torch writes into files: COO (indices, values, size, is_coalesced), else (outer, inner, values, size)."""
    made = rebuilt_unseen(layout, parts)
    look_through(made)
    return made


def rebuilt_unseen(layout, parts):
    """The same over memory that is filled afterwards: `look_through` what was made then, before anyone uses it."""
    *indices, values, size = parts[:3] if layout is COO else parts
    if layout is COO and indices[0].dtype is not rl.int64: raise RuntimeError(f"indices must be an int64 tensor, but got {indices[0].dtype}")
    coalesced = layout is not COO or indices[0].shape[1] == 0 or bool(parts[3:] and parts[3])
    return assemble(Pattern(layout, size, tuple(i.detach() for i in indices), coalesced=coalesced), values)


def look_through(sparse) -> None:
    """Are all places inside, and in the order that the layout wants?"""
    pattern, values = sparse._pattern, values_of(sparse)
    if pattern.layout is COO: check_coo(*pattern.indices, values, tuple(pattern.size), coalesced=pattern.coalesced and _checked(None))
    else: check_compressed(pattern.layout, *pattern.indices, values, tuple(pattern.size), ordered=_checked(None))


def legacy(name, dtype):
    """`torch.sparse.FloatTensor(indices, values, size)`, the constructors of old."""
    def make(*args, **kwargs):
        if not args: return zeros((0,), COO, dtype)
        if isinstance(args[0], _C.Tensor): return sparse_coo_tensor(*args, dtype=dtype, **kwargs)
        return zeros(tuple(args[0] if isinstance(args[0], (tuple, list)) else args), COO, dtype)
    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A sparse tensor of {dtype}; use torch.sparse_coo_tensor."
    make._legacy_dtype = dtype
    return make
