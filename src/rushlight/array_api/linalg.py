"""The standard's extension `linalg`."""
from __future__ import annotations

import rushlight as rl

from . import functions
from .dtypes import together
from .functions import matmul, matrix_transpose, tensordot, vecdot  # noqa: F401

det, eig, eigvals, inv, matrix_power, slogdet, svdvals = (
    getattr(rl.linalg, name) for name in "det eig eigvals inv matrix_power slogdet svdvals".split())


def cholesky(x, /, *, upper=False):
    """The Cholesky factors of matrices: lower triangles unless `upper`."""
    return rl.linalg.cholesky(x, upper=upper)


def cross(x1, x2, /, *, axis=-1):
    """The cross products of vectors of three along an axis."""
    for x in (x1, x2):
        if not -x.ndim <= axis < x.ndim:
            raise ValueError(f"cross: no axis {axis} in an array of {x.ndim} dimension(s)")
        if x.shape[axis] != 3:
            raise ValueError(f"cross: the vectors must have 3 elements, but axis {axis} has {x.shape[axis]}")
    return rl.linalg.cross(*rl.broadcast_tensors(*together(x1, x2)), dim=axis)


def diagonal(x, /, *, offset=0):
    """The diagonals of matrices."""
    return rl.diagonal(x, offset, -2, -1)


def eigh(x, /):
    """Eigenvalues and eigenvectors of symmetric or Hermitian matrices."""
    return rl.linalg.eigh(x)


def eigvalsh(x, /):
    """Eigenvalues of symmetric or Hermitian matrices."""
    return rl.linalg.eigvalsh(x)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """A norm of matrices."""
    return rl.linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_rank(x, /, *, rtol=None):
    """The rank of matrices: how many singular values exceed rtol times the largest."""
    return rl.linalg.matrix_rank(x, rtol=rtol)


def outer(x1, x2, /):
    """The products of each element of one vector with each of another."""
    return rl.outer(*together(x1, x2))


def pinv(x, /, *, rtol=None):
    """The pseudo-inverses of matrices."""
    return rl.linalg.pinv(x, rtol=rtol)


def qr(x, /, *, mode="reduced"):
    """The QR factors of matrices."""
    return rl.linalg.qr(x, mode)


def solve(x1, x2, /):
    """The solutions of systems of equations; x2 is a vector only if it has one dimension."""
    x1, x2 = together(x1, x2)
    right = x2.unsqueeze(-1) if x2.ndim == 1 else x2
    batch = rl.broadcast_shapes(x1.shape[:-2], right.shape[:-2])              # torch would take (n, n) beside (n, n, n) for n vectors
    out = rl.linalg.solve(x1, right.expand(*batch, *right.shape[-2:]))
    return out.squeeze(-1) if x2.ndim == 1 else out


def svd(x, /, *, full_matrices=True):
    """The singular value decompositions of matrices."""
    return rl.linalg.svd(x, full_matrices)


def trace(x, /, *, offset=0, dtype=None):
    """The sums of the diagonals of matrices."""
    return functions.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    """A norm over axes, by default all, as of one vector."""
    return functions._reduced(lambda x, axes, keepdim: rl.linalg.vector_norm(x, ord, axes, keepdim), x, axis, keepdims)


__all__ = sorted("""cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr
    slogdet solve svd svdvals tensordot trace vecdot vector_norm""".split())


def __dir__():
    return __all__
