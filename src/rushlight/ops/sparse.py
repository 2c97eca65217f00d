"""Products with a matrix that is given by its nonzeros: places (rows, columns) and values. `rushlight.sparse` builds sparse tensors upon them.

Each is a gather and a sum that the compiler fuses, so nothing of the size of nonzeros times columns is stored; gradients are derived.
"""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples_composite import places_and_matrices

_ROWS = ("IndexError", "row {value} is out of range for a sparse matrix of {size} rows")
_COLUMNS = ("IndexError", "column {value} is out of range for a sparse matrix of {size} columns")


@op("_sparse_dense_mm(Tensor rows, Tensor columns, Tensor values, Tensor dense, SymInt count) -> Tensor", rule="same", promote=("values", "dense"), on="-",
    layout="contiguous", out=False, node="SparseAddmmBackward0", samples=places_and_matrices("product"))
def _sparse_dense_mm(rows, columns, values, dense, count):
    """The product of a sparse matrix of `count` rows with a dense one: each nonzero adds a multiple of a row of `dense` to a row of the result."""
    n, width = rows.shape[0], dense.shape[1]
    at = T.reshape(T.check(T.cast(rows, "i64"), 0, count, _ROWS), (n, 1))
    of = T.reshape(T.check(T.cast(columns, "i64"), 0, dense.shape[0], _COLUMNS), (n, 1))
    across = T.iota(width, 1, 2)
    return T.scatter(T.expand(T.const(0, dense.dtype), (count, width)), [at, across], T.reshape(values, (n, 1)) * T.load(dense, [of, across]), "add")


@op("_sparse_sampled_mm(Tensor rows, Tensor columns, Tensor left, Tensor right) -> Tensor", rule="same", promote=("left", "right"), on="-",
    layout="contiguous", out=False, node="SparseSampledAddmmBackward0", samples=places_and_matrices("sampled"))
def _sparse_sampled_mm(rows, columns, left, right):
    """The elements of `left @ right` at some places only."""
    n = rows.shape[0]
    at = T.reshape(T.check(T.cast(rows, "i64"), 0, left.shape[0], _ROWS), (n, 1))
    of = T.reshape(T.check(T.cast(columns, "i64"), 0, right.shape[1], _COLUMNS), (n, 1))
    along = T.iota(left.shape[1], 1, 2)
    return T.reshape(T.reduce("sum", T.load(left, [at, along]) * T.load(right, [along, of]), (1,)), (n,))
