"""From one layout to another: dense, COO, CSR, CSC; and `coalesce`."""
from __future__ import annotations

import math

import rushlight as rl

from .. import _C
from ..autograd.function import Function
from .pattern import COMPRESSED, COO, CSC, CSR, WORDS, Pattern, grouped, outer_of, places_of_keys
from .tensor import assemble, bare, is_sparse, layout_error, named, refuse, values_at, values_of


def summed(values, groups, count):
    """Rows of values added up by the number of their group; of truth values, whether any is true."""
    if values.dtype is rl.bool:
        return summed(values.to(rl.uint8), groups, count) != 0
    return rl.zeros((count, *values.shape[1:]), dtype=values.dtype).index_add(0, groups, values)


# ---------------------------------------------------------------------------------------------------------------- COO
def coalesce(s):
    """Each place once, in order; what a place had several times is added up."""
    if s.layout is not COO:
        layout_error("coalesce", "sparse coordinate", s)
    return s if s._pattern.coalesced else _merged(s)


def _merged(s):
    pattern, values = s._pattern, values_of(s)
    if pattern.nnz < 2:
        return assemble(pattern.resized(pattern.size, coalesced=True), values)
    keys, order, groups = grouped(pattern.keys())
    values = values.index_select(0, order)
    if keys.shape[0] < values.shape[0]: values = summed(values, groups, keys.shape[0])
    return assemble(Pattern(COO, pattern.size, (places_of_keys(keys, pattern.size[:pattern.sparse_dim]),)), values)


def looked_up(s, pattern: Pattern):
    """The values of `s` at the places of another pattern; 0 where it has none."""
    s = coalesce(to_coo(s))
    values = values_of(s)
    if s._pattern.nnz == 0:
        return rl.zeros(pattern.value_shape(), dtype=s.dtype)
    keys, wanted = s._pattern.keys(), pattern.keys()
    at = rl.searchsorted(keys, wanted).clamp(max=keys.shape[0] - 1)
    hit = keys[at] == wanted
    return rl.where(hit.reshape(-1, *[1] * (values.dim() - 1)), values.index_select(0, at), rl.zeros((), dtype=values.dtype))


# -------------------------------------------------------------------------------------------------------------- to dense
@named("ToDenseBackward0")
class _Dense(Function):
    """As a dense tensor. `masked`: the gradient of the places that are stored; otherwise of all."""

    @staticmethod
    def forward(ctx, s, masked):
        ctx.set_materialize_grads(False)
        ctx.pattern, ctx.masked = s._pattern, masked
        return filled(s._pattern, s._stored)

    @staticmethod
    def backward(ctx, grad):
        if grad is None or not ctx.masked: return grad, None
        return assemble(ctx.pattern, values_at(grad, ctx.pattern)), None


def filled(pattern: Pattern, values):
    """Zeros with the values at their places."""
    if pattern.sparse_dim == 0:
        return values.sum(0).to(values.dtype) if values.dtype is not rl.bool else values.any(0)
    total = math.prod(pattern.size[:pattern.sparse_dim])
    if pattern.sparse_dim == 1 or total == 0:
        return summed(values, pattern.places()[0], total).reshape(pattern.size) if total else rl.zeros(pattern.size, dtype=values.dtype)
    return summed(values, pattern.keys(), total).reshape(pattern.size)


def to_dense(s, dtype=None, *, masked_grad=None):
    if not is_sparse(s):
        return s if dtype is None else s.to(dtype)
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return _Dense.apply(s, masked_grad is not False) if s.requires_grad else filled(s._pattern, s._stored)


# ------------------------------------------------------------------------------------------------------------ from dense
class _Sparsified(Function):
    """The stored elements of a dense tensor. Its gradient is that of all elements: those that are 0 would be stored if they were not."""

    @staticmethod
    def forward(ctx, x, pattern):
        ctx.set_materialize_grads(False)
        return bare(pattern, values_at(x, pattern))

    @staticmethod
    def backward(ctx, grad): return to_dense(grad) if grad is not None else None, None


# torch has a node for each way to call it.
_SPARSIFIED = {word: named(f"ToSparse{word}")(type("_Sparsified", (_Sparsified,), {})) for word in ("Backward0", "Backward1", "CsrBackward0", "CscBackward0")}


def _dense_to_coo(x, sparse_dim):
    if x.dim() and sparse_dim == 0:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    if not 0 <= sparse_dim <= x.dim():
        raise RuntimeError(f"dense_to_sparse: sparse_dim argument must be in [0,{x.dim()}] range, but {sparse_dim} is given")
    with rl.no_grad():
        present = x != 0
        if x.dim() > sparse_dim:
            present = present.flatten(sparse_dim).any(-1)
        places = present.nonzero().t().contiguous() if x.dim() else rl.empty((0, int(present.item())), dtype=rl.int64)
    return Pattern(COO, x.shape, (places,))


def _from_dense(x, layout, sparse_dim, node):
    pattern = _dense_to_coo(x, sparse_dim)
    if layout is not COO:
        pattern = compressed(bare(pattern, rl.zeros(pattern.value_shape())), layout)._pattern
    return _SPARSIFIED[node].apply(x, pattern) if x.requires_grad else bare(pattern, values_at(x, pattern))


# -------------------------------------------------------------------------------------------------------- between layouts
def to_coo(s):
    if s.layout is COO:
        return s
    in_order = s.layout is CSR and _in_order(s._pattern.keys())            # columns one after the other are not in COO's order: as they lie, not coalesced
    return assemble(Pattern(COO, s.shape, (s._pattern.places(),), coalesced=in_order), values_of(s))


def _in_order(keys) -> bool: return keys.shape[0] < 2 or bool((keys[1:] > keys[:-1]).all())


def compressed(s, layout):
    """COO, CSR or CSC as CSR or CSC."""
    if s.layout is layout:
        return s
    s = coalesce(to_coo(s))
    if s._pattern.sparse_dim != 2:
        raise RuntimeError(f"coo_to_sparse_{str(layout)[-3:]}: conversion from Sparse to {WORDS[layout]} for input tensors with sparse_dim()!=2 is not supported")
    (rows, columns), values = s._pattern.places(), values_of(s)
    if layout is CSR:
        return assemble(Pattern(CSR, s.shape, (outer_of(rows, s.shape[0]), columns.contiguous())), values)
    order = columns.argsort(stable=True)
    return assemble(Pattern(CSC, s.shape, (outer_of(columns, s.shape[1]), rows.index_select(0, order))), values.index_select(0, order))


def to_sparse(x, sparse_dim=None, *, layout=None, blocksize=None, dense_dim=None):
    """`x` with only what is not 0 stored."""
    if sparse_dim is not None and (layout is not None or blocksize is not None or dense_dim is not None):
        raise TypeError("to_sparse() takes 0 positional arguments but 1 was given: sparse_dim goes without layout, blocksize and dense_dim")
    layout = COO if layout is None else layout
    if layout is x.layout:
        if is_sparse(x) and sparse_dim not in (None, x.sparse_dim()):
            raise RuntimeError("to_sparse: conversion from Sparse to Sparse with sparse_dim argument !=self.sparse_dim() is not supported")
        return x
    if layout in COMPRESSED and layout not in (CSR, CSC):
        raise NotImplementedError(f"to_sparse(): blocks are not available: layout={layout}; use torch.sparse_csr or torch.sparse_csc")
    if blocksize is not None:
        raise RuntimeError(f"dense_to_sparse: conversion from {WORDS[x.layout]} to {WORDS[layout]} with blocksize argument given is not supported")
    if layout not in (COO, CSR, CSC):
        raise RuntimeError(f"to_sparse: conversion from {WORDS[x.layout]} to {layout} is not supported")
    if is_sparse(x):
        if sparse_dim not in (None, 2):
            raise RuntimeError(f"to_sparse: conversion from {WORDS[x.layout]} to Sparse with sparse_dim argument given is not supported")
        return to_coo(x) if layout is COO else compressed(x, layout)
    if layout is COO:
        return _from_dense(x, COO, x.dim() - (dense_dim or 0) if sparse_dim is None else sparse_dim, f"Backward{int(sparse_dim is None)}")
    dense_dim = dense_dim or 0
    if x.dim() - dense_dim < 2:
        raise IndexError(f"to_sparse_{str(layout)[-3:]}(): a matrix is needed, but the tensor has the shape {list(x.shape)} and {dense_dim} dense dimensions")
    if x.dim() - dense_dim > 2:
        raise NotImplementedError(f"to_sparse_{str(layout)[-3:]}(): batches of {layout} matrices are not available: the tensor has the shape {list(x.shape)}")
    return _from_dense(x, layout, 2, "CsrBackward0" if layout is CSR else "CscBackward0")


# ---------------------------------------------------------------------------------------------------------------- masks
def sparse_mask(x, mask):
    """The elements of `x` at the places of a sparse tensor, whatever that one's values are."""
    if not is_sparse(mask):
        raise RuntimeError("sparse_mask expects the mask to be sparse: sparse_mask(): the mask is strided")
    if x.shape != mask.shape:
        raise RuntimeError(f"sparse_mask(): operands have incompatible sizes; self has size {list(x.shape)} but mask has size {list(mask.shape)}")
    if mask.layout is COO and is_sparse(x) and x.layout is COO:
        mask = coalesce(mask.detach())
    if is_sparse(x) and x.layout is not mask.layout:
        refuse("sparse_mask", x)
    return assemble(mask._pattern, values_at(x, mask._pattern))


def zeros(size, layout, dtype=None, requires_grad=False):
    """A tensor of a sparse layout that stores nothing."""
    dtype = dtype or _C.get_default_dtype()
    if layout is COO:
        pattern = Pattern(COO, size, (rl.empty((len(size), 0), dtype=rl.int64),), coalesced=True)
    elif layout in (CSR, CSC) and len(size) == 2:
        lines = size[0] if layout is CSR else size[1]
        pattern = Pattern(layout, size, (rl.zeros(lines + 1, dtype=rl.int64), rl.empty(0, dtype=rl.int64)))
    else:
        raise NotImplementedError(f"zeros(): a tensor of the shape {list(size)} and layout {layout} is not available")
    return bare(pattern, rl.empty(0, dtype=dtype)).requires_grad_(requires_grad)
