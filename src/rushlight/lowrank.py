"""Approximate factorisations of low rank by random projections, and the old `lu`: they decide in Python and call operators."""
from __future__ import annotations

from . import _C, registry


def _op(name): return registry.find(name).op.function


def _range(A, q, niter, M):
    """An orthonormal basis of (nearly) the range of A - M, by Halko, Martinsson and Tropp's subspace iteration."""
    H = A.mH if M is None else (A - M).mH
    X = A if M is None else A - M
    R = _op("randn")(A.shape[-1], q, dtype=A.dtype)
    Q = _op("linalg_qr")(X @ R)[0]
    for _ in range(niter):
        Q = _op("linalg_qr")(H @ Q)[0]
        Q = _op("linalg_qr")(X @ Q)[0]
    return Q


def svd_lowrank(A, q=6, niter=2, M=None):
    """(U, S, V) of a matrix of rank about q or less: `A` (or `A - M`) is near `U @ diag(S) @ V.mH`."""
    q = 6 if q is None else q
    m, n = A.shape[-2:]
    if M is not None: M = M.expand(A.shape)
    # The smaller side is searched: of a wide matrix its adjoint's.
    if m < n:
        A, M = A.mH, None if M is None else M.mH
    Q = _range(A, q, niter, M)
    B = Q.mH @ A if M is None else Q.mH @ (A - M)
    U, S, Vh = _op("linalg_svd")(B, False)
    V = Vh.mH
    U = Q @ U
    return (V, S, U) if m < n else (U, S, V)


def pca_lowrank(A, q=None, center=True, niter=2):
    """The first q principal components: svd_lowrank of A with its columns' means taken off."""
    m, n = A.shape[-2:]
    if q is None: q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if not (A.is_floating_point() or A.is_complex()):
        raise ValueError(f"input must be a float or complex tensor, got {A.dtype}")
    if not center: return svd_lowrank(A, q, niter=niter)
    if A.layout is not _C.strided: A = A.to_dense()              # without its means it is dense
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True), q, niter=niter)


def lu(A, pivot=True, get_infos=False, out=None):
    """LU with row exchanges, packed, and the pivots; with get_infos also LAPACK's info. linalg.lu_factor is the newer form."""
    _C.warn("lu is deprecated: linalg.lu_factor (linalg.lu_factor_ex for get_infos=True) takes its place", once=True)
    found = _op("linalg_lu_factor_ex")(A, pivot=pivot, check_errors=False)
    found = tuple(found) if get_infos else tuple(found)[:2]
    if out is None: return found
    if not isinstance(out, (tuple, list)):
        raise TypeError(f"argument 'out' must be tuple of Tensors, not {type(out).__name__}")
    if len(out) != len(found):
        raise TypeError(f"expected tuple of {len(found)} elements but got {len(out)}")
    for destination, value in zip(out, found): destination.resize_as_(value).copy_(value)
    return out
