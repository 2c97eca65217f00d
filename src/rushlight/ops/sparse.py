"""Products with a matrix that is given by its nonzeros: places (rows, columns) and values. `rushlight.sparse` builds sparse tensors upon them.

Each is a gather and a sum that the compiler fuses, so nothing of the size of nonzeros times columns is stored; gradients are derived.
"""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples_composite import places_and_matrices

_ROWS = ("IndexError", "row {value} is out of range for a sparse matrix of {size} rows")
_COLUMNS = ("IndexError", "column {value} is out of range for a sparse matrix of {size} columns")


@op("_sparse_dense_mm(Tensor rows, Tensor columns, Tensor values, Tensor dense, SymInt count) -> Tensor", rule="same", promote=("values", "dense"), on="-",
    layout="contiguous", out=False, node="SparseAddmmBackward0", samples=places_and_matrices("product"))
def _sparse_dense_mm(rows, columns, values, dense, count):
    """The product of a sparse matrix of `count` rows with a dense one: each nonzero adds a multiple of a row of `dense` to a row of the result."""
    at, _, across, terms = _products(rows, columns, values, dense, count)
    return T.scatter(T.expand(T.const(0, dense.dtype), (count, dense.shape[1])), [at, across], terms, "add")


def _products(rows, columns, values, dense, count):
    """(row, column of each nonzero, the columns of the result, values times rows of `dense`)"""
    n = rows.shape[0]
    at = T.reshape(T.check(T.cast(rows, "i64"), 0, count, _ROWS), (n, 1))
    of = T.reshape(T.check(T.cast(columns, "i64"), 0, dense.shape[0], _COLUMNS), (n, 1))
    across = T.iota(dense.shape[1], 1, 2)
    return at, of, across, T.reshape(values, (n, 1)) * T.load(dense, [of, across])


@op("_sparse_dense_extreme(Tensor rows, Tensor columns, Tensor values, Tensor dense, SymInt count, bool largest) -> Tensor", rule="same", promote=("values", "dense"),
    on="-", layout="contiguous", out=False, node="SparseMmReduceImplBackward0", samples=places_and_matrices("extreme"))
def _sparse_dense_extreme(rows, columns, values, dense, count, largest):
    """As the product of a sparse matrix with a dense one, with the largest or smallest of the terms instead of their sum; 0 where there are none."""
    at, _, across, terms = _products(rows, columns, values, dense, count)
    shape, worst = (count, dense.shape[1]), T.const(-math.inf if largest else math.inf, dense.dtype)
    found = T.scatter(T.expand(worst, shape), [at, across], terms, "max" if largest else "min")
    lengths = T.scatter(T.expand(T.const(0, "i64"), (count, 1)), [at, T.const(0, "i64")], T.const(1, "i64"), "add")
    return T.where(T.prim("eq", lengths, 0), 0, found)


def _shares(grad, result, rows, columns, values, dense, count):
    """What of the gradient each term has: of equal ones the first has it all."""
    at, of, across, terms = _products(rows, columns, values, dense, count)
    end, place = T.size(rows.shape[0], "i64"), T.iota(rows.shape[0], 0, 2)
    hit = T.prim("eq", terms, T.load(result, [at, across])) | T.prim("ne", terms, terms)
    first = T.scatter(T.expand(end, result.shape), [at, across], T.where(hit, place, end), "min")
    return T.where(hit & T.prim("eq", T.load(first, [at, across]), place), T.load(grad, [at, across]), 0), of, across


@_sparse_dense_extreme.gradient("values")
def _(grad, result, rows, columns, values, dense, count):
    share, of, across = _shares(grad, result, rows, columns, values, dense, count)
    return T.reshape(T.reduce("sum", share * T.load(dense, [of, across]), (1,)), values.shape)


@_sparse_dense_extreme.gradient("dense")
def _(grad, result, rows, columns, values, dense, count):
    share, of, across = _shares(grad, result, rows, columns, values, dense, count)
    return T.scatter(T.expand(T.const(0, dense.dtype), dense.shape), [of, across], share * T.reshape(values, (rows.shape[0], 1)), "add")


@op("_sparse_sampled_mm(Tensor rows, Tensor columns, Tensor left, Tensor right) -> Tensor", rule="same", promote=("left", "right"), on="-",
    layout="contiguous", out=False, node="SparseSampledAddmmBackward0", samples=places_and_matrices("sampled"))
def _sparse_sampled_mm(rows, columns, left, right):
    """The elements of `left @ right.T` at some places only. (Rows of both: memory is read as it lies.)"""
    n = rows.shape[0]
    at = T.reshape(T.check(T.cast(rows, "i64"), 0, left.shape[0], _ROWS), (n, 1))
    of = T.reshape(T.check(T.cast(columns, "i64"), 0, right.shape[0], _COLUMNS), (n, 1))
    along = T.iota(left.shape[1], 1, 2)
    return T.reshape(T.reduce("sum", T.load(left, [at, along]) * T.load(right, [of, along]), (1,)), (n,))


@op("_sparse_sparse_terms(Tensor outer, Tensor inner, Tensor other_outer, Tensor other_inner, SymInt columns) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    native="_sparse_sparse_terms", on="-", out=False, differentiable=False)
def _sparse_sparse_terms(outer, inner, other_outer, other_inner, columns):
    """Which values a product of two sparse matrices (CSR) multiplies, where each term goes, and the pattern of the result: see `csrc/sparse.cpp`."""


@op("_sparse_term_sums(Tensor left, Tensor right, Tensor places, Tensor values, Tensor others, SymInt count) -> Tensor", rule="same", promote=("values", "others"), on="-",
    layout="contiguous", out=False, node="SparseSparseMatmulBackward0", samples=places_and_matrices("terms"))
def _sparse_term_sums(left, right, places, values, others, count):
    """`count` sums of products `values[left] * others[right]`, each added to the one at its place."""
    inside = lambda index, size, what: T.check(T.cast(index, "i64"), 0, size, ("IndexError", f"{what} {{value}} is out of range for {{size}}"))
    terms = T.load(values, [inside(left, values.shape[0], "value")]) * T.load(others, [inside(right, others.shape[0], "value")])
    return T.scatter(T.expand(T.const(0, values.dtype), (count,)), [inside(places, count, "place")], terms, "add")
