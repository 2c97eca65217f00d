"""The methods of Tensor that are about sparse layouts; a dense tensor has them too, to convert itself or to refuse."""
from __future__ import annotations

import rushlight as rl

from . import arithmetic, products, reductions, shapes  # noqa: F401  (they register what operators do)
from .convert import coalesce as _coalesce
from .convert import sparse_mask, to_dense, to_sparse  # noqa: F401  (methods as they are)
from .pattern import COO, CSC, CSR, INDICES, Pattern, check_coo, check_dims
from .products import smm, sspaddmm  # noqa: F401
from .tensor import bare, is_sparse, layout_error, refuse, values_of


def to_sparse_coo(self): return to_sparse(self)
def to_sparse_csr(self, dense_dim=None): return to_sparse(self, layout=CSR, dense_dim=dense_dim)
def to_sparse_csc(self, dense_dim=None): return to_sparse(self, layout=CSC, dense_dim=dense_dim)
def to_sparse_bsr(self, blocksize, dense_dim=None): return to_sparse(self, layout=rl.sparse_bsr, blocksize=blocksize)
def to_sparse_bsc(self, blocksize, dense_dim=None): return to_sparse(self, layout=rl.sparse_bsc, blocksize=blocksize)


def _coo(self, name):
    if not is_sparse(self) or self.layout is not COO: layout_error(name, "sparse coordinate", self)
    return self._pattern


def coalesce(self):
    _coo(self, "coalesce")
    return _coalesce(self)


def is_coalesced(self): return _coo(self, "is_coalesced").coalesced


def indices(self):
    if not _coo(self, "indices").coalesced:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return self._pattern.indices[0]


def values(self):
    if not is_sparse(self): layout_error("values", "sparse", self)
    if not self._pattern.coalesced:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return values_of(self) if self.requires_grad else self._stored.detach()


def _only_sparse(self, name):
    if not is_sparse(self): refuse(name, self)
    return self


def _indices(self): return _coo(_only_sparse(self, "_indices"), "_indices").indices[0]
def _values(self): return _only_sparse(self, "_values")._stored.detach()
def _nnz(self): return _only_sparse(self, "_nnz")._pattern.nnz


def _part(name, layout, which, words):
    def part(self):
        if not is_sparse(self) or self.layout is not layout: layout_error(name, words, self)
        return self._pattern.indices[which]
    part.__name__ = name
    return part


crow_indices, col_indices = (_part(n, CSR, k, "sparse row compressed") for k, n in enumerate(INDICES[CSR]))
ccol_indices, row_indices = (_part(n, CSC, k, "sparse column compressed") for k, n in enumerate(INDICES[CSC]))


def sparse_dim(self): return self._pattern.sparse_dim if is_sparse(self) else 0
def dense_dim(self): return self._pattern.dense_dim if is_sparse(self) else self.dim()
_dimI, _dimV = sparse_dim, dense_dim


def _coalesced_(self, coalesced):
    """Say that the tensor is coalesced, or that it is not."""
    pattern = _coo(self, "_coalesced_")
    self._pattern = pattern.resized(pattern.size, coalesced=bool(coalesced))
    return self


def _resized(self, size, sparse_dims, dense_dims, name):
    pattern = _coo(_only_sparse(self, name), name)
    check_dims(size, sparse_dims, dense_dims)
    return pattern


def sparse_resize_(self, size, sparse_dim, dense_dim):
    """Another size; what is stored must fit into it."""
    pattern, size = _resized(self, size, sparse_dim, dense_dim, "sparse_resize_"), tuple(size)
    if pattern.nnz and sparse_dim != pattern.sparse_dim:
        raise RuntimeError(f"changing the number of sparse dimensions (from {pattern.sparse_dim} to {sparse_dim}) on a non-empty sparse tensor is not supported.")
    if not pattern.nnz: return sparse_resize_and_clear_(self, size, sparse_dim, dense_dim)
    check_coo(pattern.indices[0], self._stored, size)
    return self._become(bare(pattern.resized(size), self._stored), resize=True)


def sparse_resize_and_clear_(self, size, sparse_dim, dense_dim):
    """Another size, and nothing stored."""
    _resized(self, size, sparse_dim, dense_dim, "sparse_resize_and_clear_")
    empty = rl.empty((0, *tuple(size)[sparse_dim:]), dtype=self.dtype)
    return self._become(bare(Pattern(COO, tuple(size), (rl.empty((sparse_dim, 0), dtype=rl.int64),)), empty), resize=True)
