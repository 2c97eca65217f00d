"""Sparse tensors: coordinates (`torch.sparse_coo`) and compressed rows or columns (`torch.sparse_csr`, `torch.sparse_csc`).

A sparse tensor is a pattern of places with values (`tensor.py`); everything is computed with ordinary operators on the two, which also gives the gradients. In the order
things are built: pattern, tensor, dispatch, convert, arithmetic, products, shapes, reductions, construct, methods.
"""
from __future__ import annotations

import rushlight as _rl

from ..functions import _name
from . import arithmetic, methods, products, reductions, shapes  # noqa: F401  (they register what operators do)
from .construct import (
    check_sparse_tensor_invariants,
    legacy,
    sparse_bsc_tensor,
    sparse_bsr_tensor,
    sparse_compressed_tensor,
    sparse_coo_tensor,
    sparse_csc_tensor,
    sparse_csr_tensor,
)
from .pattern import COO as _COO
from .pattern import INDICES as _INDICES
from .pattern import WORDS as _WORDS
from .pattern import Pattern as _Pattern
from .products import hspmm, sampled_addmm, smm, spmm, sspaddmm
from .products import sparse_addmm as addmm
from .products import sparse_mm as mm
from .reductions import log_softmax, softmax
from .reductions import sparse_sum as sum
from .tensor import SparseTensor
from .tensor import assemble as _assemble
from .tensor import values_at as _values_at

dsmm, hsmm = spmm, hspmm
FloatTensor, DoubleTensor, HalfTensor, BFloat16Tensor, LongTensor, IntTensor, ShortTensor, CharTensor, ByteTensor = (
    legacy(name, dtype) for name, dtype in (("FloatTensor", _rl.float32), ("DoubleTensor", _rl.float64), ("HalfTensor", _rl.float16), ("BFloat16Tensor", _rl.bfloat16),
                                            ("LongTensor", _rl.int64), ("IntTensor", _rl.int32), ("ShortTensor", _rl.int16), ("CharTensor", _rl.int8), ("ByteTensor", _rl.uint8)))


def spdiags(diagonals, offsets, shape, layout=None):
    """A matrix with the rows of `diagonals` as its diagonals at `offsets`; the element of column j comes from the row's place j."""
    if diagonals.dim() not in (1, 2): raise RuntimeError("Diagonals must be vector or matrix")
    if len(shape) != 2: raise RuntimeError("Output shape must be 2d")
    if layout not in (None, *_INDICES): raise RuntimeError(f"Only output layouts (Sparse, SparseCsc, SparseCsr) are supported, got {_WORDS[layout]}")
    if offsets.dtype is not _rl.int64: raise RuntimeError(f"Offset Tensor must have dtype Long but got {_name(offsets.dtype)}")
    diagonals, offsets = _rl.atleast_2d(diagonals), offsets.reshape(-1)
    if offsets.shape[0] != diagonals.shape[0]:
        raise RuntimeError(f"Number of diagonals ({diagonals.shape[0]}) does not match the number of offsets ({offsets.shape[0]})")
    if offsets.unique().shape[0] != offsets.shape[0]: raise RuntimeError("Offset tensor contains duplicate values")
    columns = _rl.arange(min(diagonals.shape[1], shape[1])).expand(offsets.shape[0], -1)
    rows = columns - offsets.unsqueeze(1)
    inside = (rows >= 0) & (rows < shape[0])
    places = _rl.stack([rows[inside], columns[inside]])
    out = _assemble(_Pattern(_COO, tuple(shape), (places,), coalesced=False), diagonals[:, :columns.shape[1]][inside])
    return out if layout is None or layout is _COO else out.to_sparse(layout=layout)


def as_sparse_gradcheck(gradcheck):
    """`gradcheck` for functions that take or return sparse tensors: it varies their values. `masked`: only what is stored; otherwise every element is."""
    def check(function, inputs, *args, masked=False, **kwargs):
        inputs = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        patterns = [_checked_pattern(x, masked) if isinstance(x, SparseTensor) and x.requires_grad else None for x in inputs]
        varied = [x if p is None else _values_at(x.detach(), p).requires_grad_() for x, p in zip(inputs, patterns)]

        def dense(*given):
            results = function(*(x if p is None else _assemble(p, x) for x, p in zip(given, patterns)))
            as_dense = lambda r: r.to_dense(masked_grad=masked) if isinstance(r, SparseTensor) else r
            return tuple(map(as_dense, results)) if isinstance(results, (tuple, list)) else as_dense(results)
        return gradcheck(dense, varied, *args, **kwargs)
    return check


def _checked_pattern(x, masked):
    if masked: return x._pattern
    like = x._pattern
    return (_rl.ones(x.shape).to_sparse(like.sparse_dim) if like.layout is _COO else _rl.ones(x.shape).to_sparse(layout=like.layout, dense_dim=like.dense_dim))._pattern


__all__ = ["SparseTensor", "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "hspmm", "log_softmax", "mm", "sampled_addmm", "smm", "softmax", "spdiags", "spmm",
           "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor", "sspaddmm", "sum"]
