"""What the operators of linear algebra share: where the library is, batches of matrices on their way to LAPACK and back, torch's checks and words.

LAPACK's matrices are column-major, so a routine is handed the transpose in rows (`columns`), and what it returns is read transposed (`matrices`): for
tensors whose columns are dense, which these operators return, neither is a copy.
"""
from __future__ import annotations

import importlib.util
import os

from ..compiler import trace as T
from .common import broadcast_shapes, hint, numel_of

ELEMENT = {"f32": 0, "f64": 1, "c64": 2, "c128": 3}


def library_path() -> str:
    """The shared library of the scipy-openblas32 package. The package is not imported: that would load the library for every other user in the process."""
    found = importlib.util.find_spec("scipy_openblas32")
    folder = os.path.join(found.submodule_search_locations[0], "lib") if found and found.submodule_search_locations else ""
    names = [n for n in sorted(os.listdir(folder)) if n.startswith("libscipy_openblas") and n.endswith((".so", ".dylib", ".dll"))] if os.path.isdir(folder) else []
    if not names:
        raise ImportError("linear algebra needs the package scipy-openblas32 (LAPACK), which is not installed: pip install scipy-openblas32")
    return os.path.join(folder, names[0])


# ------------------------------------------------------------------------------------------------------------ matrices of Syms
def transposed(x): return T.transpose(x, -1, -2)
def adjoint(x): return T.conj(T.transpose(x, -1, -2))
def smaller(x): return _minimum(x.shape[-2], x.shape[-1])


def _minimum(a, b):
    """The smaller of two sizes; which one it is becomes a guard."""
    return a if a <= b else b


def rows_and_columns(x):
    """Indices of the last two dimensions."""
    return T.iota(x.shape[-2], 0, 2), T.iota(x.shape[-1], 1, 2)


def lower(x, diagonal=0):
    """x on and below a diagonal, 0 above."""
    i, j = rows_and_columns(x)
    return T.where(j - i <= diagonal, x, T.const(0, x.dtype))


def upper(x, diagonal=0):
    i, j = rows_and_columns(x)
    return T.where(j - i >= diagonal, x, T.const(0, x.dtype))


def on_diagonal(x):
    i, j = rows_and_columns(x)
    return T.prim("eq", i, j)


def unit(rows, columns, dtype):
    """Ones on the diagonal."""
    i, j = T.iota(rows, 0, 2), T.iota(columns, 1, 2)
    return T.where(T.prim("eq", i, j), T.const(1, dtype), T.const(0, dtype))


def diagonal_of(x):
    k = smaller(x)
    rank = x.ndim - 1
    places = [T.iota(s, d, rank) for d, s in enumerate(x.shape[:-2])]
    along = T.iota(k, rank - 1, rank)
    return T.load(x, [*places, along, along], shape=x.shape[:-2] + (k,))


def diagonal_matrix(d):
    """Square matrices with the vectors of the last dimension as diagonals."""
    k = d.shape[-1]
    i, j = T.iota(k, 0, 2), T.iota(k, 1, 2)
    return T.where(T.prim("eq", i, j), T.unsqueeze(d, d.ndim), T.const(0, d.dtype))


def batch_of(*xs): return broadcast_shapes(*[x.shape[:-2] for x in xs])


def columns(x, batch):
    """Matrices as LAPACK reads them: [count, columns, rows], dense."""
    x = T.expand(transposed(x), batch + (x.shape[-1], x.shape[-2]))
    return T.reshape(x, (numel_of(batch), *x.shape[-2:]))


def rows(x, batch, rank=1):
    """Vectors (rank 1) or numbers (rank 0) of a batch: [count, ...], dense."""
    tail = x.shape[x.ndim - rank:] if rank else ()
    return T.reshape(T.expand(x, batch + tail), (numel_of(batch), *tail))


def matrices(x, batch):
    """What LAPACK wrote, as matrices again."""
    return transposed(T.reshape(x, (*batch, *x.shape[1:])))


def routine(name, batch, outputs, inputs, ints, errors=()):
    """T.native of a LAPACK routine over a batch; outputs without their batch dimension. The work of a matrix product counts for the cut over threads."""
    count = numel_of(batch)
    outputs = [((count, *shape), dtype) for shape, dtype in outputs]
    work = count
    for s in inputs[0].shape[1:]: work = work * s
    return T.native(name, outputs, inputs, (ELEMENT[inputs[0].dtype], *ints), units=count, cost=16 * work + 64 * count, errors=errors)


# ------------------------------------------------------------------------------------------------------------------- checks
def need_float(x, name, low_precision=False, kernel=None):
    """torch's refusals of other dtypes; with `kernel` the half types are refused by that kernel's dispatch."""
    if not (T.is_float(x.dtype) or T.is_complex(x.dtype)):
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {T.dtype_word(x.dtype)}")
    if kernel is not None: kernel_dtype(x, kernel)
    if x.dtype not in ELEMENT and not low_precision:
        raise RuntimeError(f"{name}: Low precision dtypes not supported. Got {T.dtype_word(x.dtype)}")


def need_matrix(x, name, argument="A"):
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor {argument} must have at least 2 dimensions.")


def need_square(x, name, argument="A"):
    need_matrix(x, name, argument)
    if not x.shape[-1] == x.shape[-2]:
        raise RuntimeError(f"{name}: {argument} must be batches of square matrices, but they are {hint(x.shape[-2])} by {hint(x.shape[-1])} matrices")


def kernel_dtype(x, kernel):
    """torch's error of a dispatch over the four element types."""
    if x.dtype not in ELEMENT:
        raise NotImplementedError(f'"{kernel}" not implemented for \'{T.dtype_word(x.dtype)}\'')


def same_dtypes(a, b, first="A", second="B"):
    if a.dtype != b.dtype:
        raise RuntimeError(f"Expected {first} and {second} to have the same dtype, but found {first} of type {T.dtype_word(a.dtype)} and {second} of type "
                           f"{T.dtype_word(b.dtype)} instead")


def failure(name, words, batched, kind="LinAlgError"):
    """An entry of a routine's error list; `{order}` in the words is LAPACK's info."""
    return (kind, f"{name}: {'(Batch element {element}): ' if batched else ''}{words}")


def same_sizes(a, b):
    """Whether two shapes are equal (sizes that are only equal in this call become guards)."""
    return len(a) == len(b) and all(bool(x == y) for x, y in zip(a, b))
