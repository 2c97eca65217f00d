"""Eigenvalues and singular values, and what is made of them: pseudo-inverses, ranks, matrix norms, condition numbers, least squares; the exponential."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples import linear_algebra
from .common import OUT_TENSOR_DTYPE, broadcast_shapes, numel_of, required, shape_text
from .contraction import matrix_norm
from .factor import linalg_lu_factor_ex
from .lapack import (
    ELEMENT,
    adjoint,
    batch_of,
    columns,
    diagonal_of,
    failure,
    kernel_dtype,
    matrices,
    need_float,
    need_matrix,
    need_square,
    on_diagonal,
    routine,
    same_sizes,
    smaller,
    transposed,
)
from .matmul import matmul
from .solve import linalg_inv_ex, linalg_lu_solve

ILL_CONDITIONED = "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues (error code: {order})."
NOT_CONVERGED = "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular values (error code: {order})."
NOT_FINITE = "The algorithm failed to converge because the input matrix contained non-finite values."


def differences(w):
    """w[j] - w[i] as a matrix, 1 on the diagonal."""
    out = T.unsqueeze(w, w.ndim - 1) - T.unsqueeze(w, w.ndim)
    return T.where(on_diagonal(out), T.const(1, w.dtype), out)


def off_diagonal(x): return T.where(on_diagonal(x), T.const(0, x.dtype), x)
def spread(w, dtype): return T.cast(T.unsqueeze(w, w.ndim - 1), dtype)                  # factors of columns
def down(w, dtype): return T.cast(T.unsqueeze(w, w.ndim), dtype)                        # factors of rows


def embedded(w, dtype):
    n = w.shape[-1]
    i, j = T.iota(n, 0, 2), T.iota(n, 1, 2)
    return T.where(T.prim("eq", i, j), T.cast(T.unsqueeze(w, w.ndim), dtype), T.const(0, dtype))


# ------------------------------------------------------------------------------------------------------------------------ phases
# Complex eigenvectors and singular vectors are free in a factor of size 1 each. A loss that changes with it has no gradient.
EIGENVECTORS = "The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. The specified loss function depends on this quantity, so it is ill-defined."
SINGULAR_VECTORS = ("The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The specified loss function depends on this phase term, "
                    "making it ill-defined.")
PHASE_TOLERANCE = 1e-2


@op("_free_of_phases(Tensor x, Tensor turn, str words) -> Tensor", on="-", out=False)
def _free_of_phases(x, turn, words):
    """x, after testing that the slopes of a loss along the phases of vectors, one for each column of x, are 0."""
    condition = T.prim("le", T.prim("abs", turn), T.const(PHASE_TOLERANCE, turn.dtype))
    return required(T.unsqueeze(condition, turn.ndim - 1), x, ("RuntimeError", words))


# The test has no derivative, and the rest is x itself: stated, so that x is seen to come out linearly.
@_free_of_phases.gradient("x")
def _(grad):
    return grad


@_free_of_phases.gradient("turn")
def _():
    return None


def turn_along(x):
    """The imaginary parts on the diagonal of x = vectors^H @ their gradient: the loss's slopes along the phases."""
    return T.prim("imag", diagonal_of(x))


# ------------------------------------------------------------------------------------------------------------ hermitian matrices
def _eigh(a, uplo, vectors, name="linalg.eigh"):
    need_square(a, name)
    kernel_dtype(a, "linalg_eigh_cpu")
    if uplo.upper() not in ("L", "U") or len(uplo) != 1:
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    batch, n = a.shape[:-2], a.shape[-1]
    w, v, _ = routine("lapack_eigh", batch, [((n,), T.real_dtype(a.dtype)), ((n, n), a.dtype), ((), "i32")], [columns(a, batch)],
                      (n, int(uplo.upper() == "L"), int(vectors), 1), [failure("linalg.eigh", ILL_CONDITIONED, a.ndim > 2)])
    return T.reshape(w, (*batch, n)), matrices(v, batch)


@op("eigh(Tensor self, str UPLO='L') -> (Tensor eigenvalues, Tensor eigenvectors)", on="linalg", layout=("contiguous", "columns"), node="LinalgEighBackward0",
    out=OUT_TENSOR_DTYPE, samples=linear_algebra("positive"))
def linalg_eigh(self, UPLO):
    """Eigenvalues, ascending, and orthonormal eigenvectors (columns) of symmetric or hermitian matrices, of which one triangle is read."""
    return _eigh(self, UPLO, True)


@linalg_eigh.gradient("self")
def _(grads, results):
    (g_w, g_v), (w, v) = grads, results
    inner = None
    if g_v is not None:
        turned = matmul(adjoint(v), g_v)
        if T.is_complex(v.dtype): turned = _free_of_phases(turned, turn_along(turned), f"linalg_eigh_backward: {EIGENVECTORS}")
        inner = off_diagonal(turned / T.cast(differences(w), v.dtype))
        inner = 0.5 * (inner + adjoint(inner))
    if g_w is not None:
        inner = embedded(g_w, v.dtype) if inner is None else inner + embedded(g_w, v.dtype)
    return None if inner is None else matmul(matmul(v, inner), adjoint(v))


@op("eigvalsh(Tensor self, str UPLO='L') -> Tensor", on="linalg", layout="contiguous", node="LinalgEighBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("positive"))
def linalg_eigvalsh(self, UPLO):
    """Eigenvalues, ascending, of symmetric or hermitian matrices."""
    return _eigh(self, UPLO, False)[0]


@linalg_eigvalsh.gradient("self")
def _(grad, self, UPLO):
    _, v = linalg_eigh(self, UPLO)
    return matmul(v * spread(grad, v.dtype), adjoint(v))


# -------------------------------------------------------------------------------------------------------------- general matrices
SMALL = 32             # Up to this order double precision costs little more than single. Eigenvectors of matrices far from normal need its digits; and the gradient of an
                       # SVD divides by the gaps between values, and takes LAPACK's rounding with it.


def _eig(a, vectors):
    if a.dtype not in ELEMENT and not T.is_float(a.dtype):
        raise RuntimeError(f"Unknown Complex ScalarType for {T.dtype_word(a.dtype)}")
    need_square(a, "linalg.eig" if vectors else "linalg.eigvals")
    need_float(a, "linalg.eig", kernel="linalg_eig_out_cpu")
    result = T.complex_dtype(a.dtype)
    if a.shape[-1] <= SMALL: a = T.cast(a, "c128" if T.is_complex(a.dtype) else "f64")
    batch, n, wide = a.shape[:-2], a.shape[-1], T.complex_dtype(a.dtype)
    words = "The algorithm failed to converge; {order} off-diagonal elements of an intermediate tridiagonal form did not converge to zero."
    w, v, _ = routine("lapack_eig", batch, [((n,), wide), ((n, n) if vectors else (1, 1), wide), ((), "i32")], [columns(a, batch)], (n, int(vectors), 1),
                      [failure("linalg.eig", words, a.ndim > 2), ("RuntimeError", "torch.linalg.eig: input tensor should not contain infs or NaNs.")])
    return T.cast(T.reshape(w, (*batch, n)), result), T.cast(matrices(v, batch), result)


@op("eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)", on="linalg", layout=("contiguous", "columns"), node="LinalgEigBackward0",
    out=OUT_TENSOR_DTYPE, samples=linear_algebra("square"))
def linalg_eig(self):
    """Eigenvalues and eigenvectors (columns of length 1) of square matrices; always complex."""
    return _eig(self, True)


@linalg_eig.gradient("self")
def _(grads, results):
    (g_w, g_v), (w, v) = grads, results
    inner, h = None, adjoint(v)
    if g_v is not None:
        turned = matmul(h, g_v)
        turned = _free_of_phases(turned, turn_along(turned), f"linalg_eig_backward: {EIGENVECTORS}")
        along = T.cast(T.prim("real", diagonal_of(turned)), v.dtype)
        inner = off_diagonal((turned - matmul(h, v) * T.unsqueeze(along, along.ndim - 1)) / T.conj(differences(w)))
    if g_w is not None:
        inner = embedded(g_w, v.dtype) if inner is None else inner + embedded(g_w, v.dtype)
    return None if inner is None else divided(h, matmul(inner, h))


@op("eigvals(Tensor self) -> Tensor", on="linalg", layout="contiguous", node="LinalgEigBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("square"))
def linalg_eigvals(self):
    """Eigenvalues of square matrices; always complex."""
    return _eig(self, False)[0]


@linalg_eigvals.gradient("self")
def _(grad, self):
    _, v = linalg_eig(T.conj(self))
    h = adjoint(v)
    return divided(h, down(grad, v.dtype) * h)


def divided(a, b):
    """a^-1 @ b in two steps. linalg.solve returns the factors of a beside the solution, all of them results of one call that takes b: that the solution's
    gradient is linear in b could not be seen from there."""
    lu, pivots, _ = linalg_lu_factor_ex(a)
    return linalg_lu_solve(lu, pivots, b)


# ----------------------------------------------------------------------------------------------------------------------- SVD
SVD_ERRORS = lambda batched: [failure("linalg.svd", NOT_CONVERGED, batched), failure("linalg.svd", NOT_FINITE, batched)]


def _svd(a, full):
    batch, m, n = a.shape[:-2], a.shape[-2], a.shape[-1]
    k = smaller(a)
    wide = T.WIDER.get(a.dtype)
    if wide is not None and m <= SMALL and n <= SMALL:
        u, s, vh = _svd(T.cast(a, wide), full)
        return T.cast(u, a.dtype), T.cast(s, T.real_dtype(a.dtype)), T.cast(vh, a.dtype)
    height, width = (m, n) if full else (k, k)
    u, s, vh, _ = routine("lapack_svd", batch, [((height, m), a.dtype), ((k,), T.real_dtype(a.dtype)), ((n, width), a.dtype), ((), "i32")], [columns(a, batch)],
                          (m, n, int(full), 1), SVD_ERRORS(a.ndim > 2))
    return matrices(u, batch), T.reshape(s, (*batch, k)), matrices(vh, batch)


def _need_svd(a, driver, name="linalg.svd"):
    need_matrix(a, name)
    need_float(a, name, kernel="linalg_svd_cpu")
    if driver is not None:
        raise RuntimeError(f"torch.{name}: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.")


@op("svd(Tensor A, bool full_matrices=True, *, str? driver=None) -> (Tensor U, Tensor S, Tensor Vh)", on="linalg", layout=("columns", "contiguous", "columns"),
    node="LinalgSvdBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("rectangular"))
def linalg_svd(A, full_matrices, driver):
    """`A = U @ diag(S) @ Vh`: orthonormal columns U, singular values, largest first, orthonormal rows Vh."""
    _need_svd(A, driver)
    return _svd(A, full_matrices)


@linalg_svd.gradient("A")
def _(grads, results, full_matrices):
    return _svd_gradient(*grads, *results, full_matrices)


def _svd_gradient(g_u, g_s, g_vh, u, s, vh, full):
    m, n, k = u.shape[-2], vh.shape[-1], s.shape[-1]
    if full and (g_u is not None or g_vh is not None):           # only the first columns have a gradient that is defined
        u, vh = T.slice(u, -1, 0, k), T.slice(vh, -2, 0, k)
        if g_u is not None: g_u = T.slice(g_u, -1, 0, k)
        if g_vh is not None: g_vh = T.slice(g_vh, -2, 0, k)
    elif full:
        u, vh = T.slice(u, -1, 0, k), T.slice(vh, -2, 0, k)
    if g_u is None and g_vh is None:
        return None if g_s is None else matmul(u * spread(g_s, u.dtype), vh)
    skew = lambda x: x - adjoint(x)
    squares = s * s
    gaps = T.cast(differences(squares), u.dtype)
    wide_s, inner = T.cast(s, u.dtype), None
    total = lambda a, b: b if a is None else a + b
    of_u = None if g_u is None else matmul(adjoint(u), g_u)
    of_v = None if g_vh is None else matmul(vh, adjoint(g_vh))
    if T.is_complex(u.dtype):                                    # the phases that a pair of vectors shares
        turn = turn_along(of_u if of_v is None else of_v if of_u is None else of_u + of_v)
        if of_u is not None: of_u = _free_of_phases(of_u, turn, f"svd_backward: {SINGULAR_VECTORS}")
        else: of_v = _free_of_phases(of_v, turn, f"svd_backward: {SINGULAR_VECTORS}")
    if of_u is not None: inner = off_diagonal(skew(of_u) / gaps) * T.unsqueeze(wide_s, s.ndim - 1)
    if of_v is not None: inner = total(inner, T.unsqueeze(wide_s, s.ndim) * off_diagonal(skew(of_v) / gaps))
    if T.is_complex(u.dtype) and of_u is not None:
        # Only the imaginary part on the diagonal; with the gradient of V it cancels for every loss that does not depend on the phases.
        phase = T.prim("make_complex", T.expand(T.const(0, s.dtype), s.shape), turn_along(of_u) / s)
        inner = total(inner, embedded(phase, u.dtype))
    if g_s is not None: inner = total(inner, embedded(g_s, u.dtype))
    out = matmul(matmul(u, inner), vh)
    inverse = T.const(1, s.dtype) / s
    if m > k and g_u is not None:
        scaled = g_u * spread(inverse, u.dtype)
        out = out + matmul(scaled - matmul(u, matmul(adjoint(u), scaled)), vh)
    if n > k and g_vh is not None:
        scaled = down(inverse, u.dtype) * g_vh
        out = out + matmul(u, scaled - matmul(matmul(scaled, adjoint(vh)), vh))
    return out


@op("svdvals(Tensor A, *, str? driver=None) -> Tensor", on="linalg", layout="contiguous", node="LinalgSvdBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("rectangular"))
def linalg_svdvals(A, driver):
    """Singular values, largest first."""
    _need_svd(A, driver)
    return _svdvals(A)


@op("_svdvals(Tensor A) -> Tensor", on="-", out=False)
def _svdvals(A):
    """Singular values; the backward computes the vectors."""
    batch, m, n = A.shape[:-2], A.shape[-2], A.shape[-1]
    k = smaller(A)
    s, _ = routine("lapack_svdvals", batch, [((k,), T.real_dtype(A.dtype)), ((), "i32")], [columns(A, batch)], (m, n, 0, 1), SVD_ERRORS(A.ndim > 2))
    return T.reshape(s, (*batch, k))


@_svdvals.gradient("A")
def _(grad, A):
    u, _, vh = linalg_svd(A, False)
    return matmul(u * spread(grad, u.dtype), vh)


@op("svd(Tensor self, bool some=True, bool compute_uv=True) -> (Tensor U, Tensor S, Tensor V)", layout=("columns", "contiguous", "contiguous"),
    node="LinalgSvdBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("rectangular"))
def svd(self, some, compute_uv):
    """`self = U @ diag(S) @ V.mH`; linalg.svd is the newer form."""
    if self.ndim < 2:
        raise RuntimeError(f"linalg.svd: input should have at least 2 dimensions, but has {self.ndim} dimensions instead")
    need_float(self, "linalg.svd", kernel="linalg_svd_cpu")
    if not compute_uv:
        m, n = self.shape[-2:]
        nothing = lambda size: T.expand(T.const(0, self.dtype), (*self.shape[:-2], size, size))
        return T.constant(nothing(m)), _svdvals(self), T.constant(nothing(n))
    u, s, vh = linalg_svd(self, not some)
    return u, s, adjoint(vh)


# ----------------------------------------------------------------------------------------------------- ranks and pseudo-inverses
TOLERANCES = "Tensor? atol=None, Tensor? rtol=None", "float? atol=None, float? rtol=None"


def _tolerance(x, atol, rtol, largest):
    """max(atol, rtol * largest singular value), with torch's defaults: rtol = max(m, n) * epsilon unless atol is given."""
    real = T.real_dtype(x.dtype)
    as_real = lambda v: T.cast(v, real)
    size = x.shape[-2] if x.shape[-2] >= x.shape[-1] else x.shape[-1]
    usual = T.size(size, real) * T.const(T.epsilon(x.dtype), real)
    if rtol is None and atol is None: rtol = usual
    elif rtol is None: rtol = T.where(as_real(atol) > 0, T.const(0, real), usual)
    absolute = T.const(0, real) if atol is None else as_real(atol)
    relative = as_real(rtol) * largest
    return T.prim("maximum", T.expand(absolute, broadcast_shapes(absolute.shape, relative.shape)), relative)


def _need_tolerance(x, words, argument):
    if x is not None and T.is_complex(x.dtype):
        raise RuntimeError(f"{words}: {argument} tensor of complex type is not supported.")


def _rank(x, atol, rtol, hermitian, name="torch.linalg.matrix_rank"):
    need_matrix(x, name, "input")
    for argument, value in (("atol", atol), ("rtol", rtol)): _need_tolerance(value, name, argument)
    batch = x.shape[:-2]
    if numel_of(x.shape) == 0: return T.expand(T.const(0, "i64"), batch)
    if x.dtype not in ELEMENT:
        raise RuntimeError("This function doesn't handle types other than float and double")
    s = T.prim("abs", linalg_eigvalsh(x)) if hermitian else _svdvals(x)
    largest = T.reshape(T.reduce("amax", s, (s.ndim - 1,)), batch) if hermitian else _at(s, 0)
    limit = _tolerance(x, atol, rtol, largest)
    above = T.cast(s > T.unsqueeze(limit, limit.ndim), "i64")
    return T.reshape(T.reduce("sum", above, (above.ndim - 1,)), above.shape[:-1])


def _at(s, index):
    return T.reshape(T.slice(s, -1, index, index + 1), s.shape[:-1])


@op([f"matrix_rank(Tensor input, *, {t}, bool hermitian=False) -> Tensor" for t in TOLERANCES]
    + ["matrix_rank(Tensor input, float tol, bool hermitian=False) -> Tensor", "matrix_rank(Tensor input, Tensor tol, bool hermitian=False) -> Tensor"],
    on="linalg", layout="contiguous", differentiable=False, samples=linear_algebra("rectangular"))
def linalg_matrix_rank(input, atol=None, rtol=None, hermitian=False, tol=None):
    """How many singular values are above `max(atol, rtol * largest)`; `tol` is an absolute one."""
    if tol is not None:
        return _rank(input, tol, T.const(0.0, "f64"), hermitian)
    return _rank(input, atol, rtol, hermitian)


def _reciprocal(s, limit):
    """1/s where s is above the limit, else 0."""
    big = T.prim("abs", s) > T.unsqueeze(limit, limit.ndim)
    return T.where(big, T.const(1, s.dtype) / T.where(big, s, T.const(1, s.dtype)), T.const(0, s.dtype))


@op("_pseudo_inverse(Tensor self, Tensor? atol, Tensor? rtol, bool hermitian) -> Tensor", on="-", out=False)
def _pseudo_inverse(self, atol, rtol, hermitian):
    """The pseudo-inverse by singular values. Its gradient needs none of their differences."""
    if hermitian:
        w, v = linalg_eigh(self)
        sizes = T.prim("abs", w)
        largest = T.reshape(T.reduce("amax", sizes, (w.ndim - 1,)), w.shape[:-1])
        s = _reciprocal(w, _tolerance(self, atol, rtol, largest))
        return matmul(v * spread(s, v.dtype), adjoint(v))
    u, s, vh = linalg_svd(self, False)
    s = _reciprocal(s, _tolerance(self, atol, rtol, _at(s, 0)))
    return matmul(adjoint(vh) * spread(s, u.dtype), adjoint(u))


def pinv_gradient(grad, x, inverse):
    """Golub and Pereyra's formula, transposed."""
    g, h = adjoint(grad), adjoint(inverse)
    out = -adjoint(matmul(matmul(inverse, g), inverse))
    left = matmul(matmul(g, inverse), h)
    right = matmul(matmul(h, inverse), g)
    out = out + left - matmul(x, matmul(inverse, left))
    return out + right - matmul(matmul(right, inverse), x)


@_pseudo_inverse.gradient("self")
def _(grad, self, results):
    return pinv_gradient(grad, T.conj(self) if T.is_complex(grad.dtype) else self, results[0])


@_pseudo_inverse.gradient("atol", "rtol")
def _():
    return None


def _pinv(x, atol, rtol, hermitian):
    if x.ndim < 2 or x.dtype not in ELEMENT:
        raise RuntimeError(f"linalg.pinv({T.dtype_word(x.dtype)}{{{shape_text(x.shape)}}}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types")
    for argument, value in (("atol", atol), ("rtol", rtol)): _need_tolerance(value, "torch.linalg.pinv", argument)
    if numel_of(x.shape) == 0: return T.expand(T.const(0, x.dtype), (*x.shape[:-2], x.shape[-1], x.shape[-2]))
    if hermitian: need_square(x, "linalg.eigh")
    return _pseudo_inverse(x, atol, rtol, hermitian)


@op([f"pinv(Tensor self, *, {t}, bool hermitian=False) -> Tensor" for t in TOLERANCES]
    + ["pinv(Tensor self, float rcond, bool hermitian=False) -> Tensor", "pinv(Tensor self, Tensor rcond, bool hermitian=False) -> Tensor"],
    on="linalg", once=True, layout="contiguous", node="LinalgPinvBackward0", samples=linear_algebra("rectangular"))
def linalg_pinv(self, atol=None, rtol=None, hermitian=False, rcond=None):
    """The Moore-Penrose inverse: singular values at most `max(atol, rtol * largest)` count as 0."""
    if rcond is not None:
        return _pinv(self, T.const(0.0, "f64"), rcond, hermitian)
    return _pinv(self, atol, rtol, hermitian)


@op("pinverse(Tensor self, float rcond=1e-15) -> Tensor", once=True, layout="contiguous", out=False, node="LinalgPinvBackward0", samples=linear_algebra("rectangular"))
def pinverse(self, rcond):
    """linalg.pinv."""
    return _pinv(self, T.const(0.0, "f64"), rcond, False)


# -------------------------------------------------------------------------------------------------------------- least squares
# gelss is defined as gelsd is, by singular values, and several times slower in this library: gelsd answers for it.
DRIVERS = {"gels": 0, "gelsy": 1, "gelsd": 2, "gelss": 2}


def _is_vector(a, b):
    """Whether b has vectors for right sides: it has one dimension, or the matrices' shapes without their columns."""
    return b.ndim == 1 or b.ndim == a.ndim - 1 and same_sizes(b.shape, a.shape[:-1])


@op("lstsq(Tensor self, Tensor b, float? rcond=None, *, str? driver=None) -> (Tensor solution, Tensor residuals, Tensor rank, Tensor singular_values)", on="linalg",
    layout=lambda given: ("tall vectors" if given["self"].ndim > 1 and _is_vector(given["self"], given["b"]) else "tall columns" if given["self"].ndim > 1 else "contiguous",
                          "contiguous", "contiguous", "contiguous"),
    node="LinalgLstsqBackward0", samples=linear_algebra("lstsq"))
def linalg_lstsq(self, b, rcond, driver):
    """X with the smallest `norm(self @ X - b)`, by LAPACK's gels (full rank), gelsy (the default), gelsd or gelss."""
    return _lstsq(self, b, rcond, driver)


def _lstsq(a, b, rcond, driver):
    name = "torch.linalg.lstsq"
    if a.ndim < 2: raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if b.ndim < 1: raise RuntimeError(f"{name}: other must have at least 1 dimension.")
    if a.dtype != b.dtype:
        raise RuntimeError(f"{name}: Expected input and other to have the same dtype, but got input's dtype {T.dtype_word(a.dtype)} and other's dtype {T.dtype_word(b.dtype)}")
    gap = a.ndim - b.ndim
    if gap not in (0, 1):
        raise RuntimeError(f"{name}: input.dim() must be greater or equal to other.dim() and (input.dim() - other.dim()) <= 1")
    vector = _is_vector(a, b)
    if vector and not a.shape[-2] == b.shape[-1]: raise RuntimeError(f"{name}: input.size(-2) should match other.size(-1)")
    if not vector and not a.shape[-2] == b.shape[-2]: raise RuntimeError(f"{name}: input.size(-2) should match other.size(-2)")
    driver = "gelsy" if driver is None else driver
    if driver not in DRIVERS:
        raise RuntimeError(f"{name}: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)")
    kernel_dtype(a, "linalg_lstsq_cpu")
    right = T.unsqueeze(b, b.ndim) if vector else b
    batch = batch_of(a, right)
    (m, n), k, real = a.shape[-2:], right.shape[-1], T.real_dtype(a.dtype)
    limit = T.size(m if m >= n else n, "f64") * T.const(T.epsilon(a.dtype), "f64") if rcond is None else T.cast(rcond, "f64")
    small, large = (n, m) if m >= n else (m, n)
    errors = [failure(name, "The least squares solution could not be computed because the input matrix does not have full rank (error code: {order}).", bool(batch))]
    a, right = (required(T.prim("eq", x - x, T.const(0, x.dtype)), x, ("RuntimeError", f"{name}: input and other should not contain infs or NaNs.")) for x in (a, right))
    found, rank, s, _ = routine("lapack_lstsq", batch, [((k, large), a.dtype), ((), "i64"), ((small,), real), ((), "i32")],
                                [columns(a, batch), columns(right, batch), limit], (m, n, k, DRIVERS[driver]), errors)
    whole = matrices(found, batch)
    x = T.slice(whole, -2, 0, n)
    nothing = T.expand(T.const(0, real), (0,))
    residuals = nothing
    if m > n and driver != "gelsy":                              # computed: LAPACK's are meaningful for matrices of full rank only
        rest = matmul(a, x) - right
        sizes = T.prim("real", rest * T.conj(rest))
        residuals = T.reshape(T.reduce("sum", sizes, (sizes.ndim - 2,)), (*batch, k))
    return (T.reshape(x, x.shape[:-1]) if vector else x, residuals, T.reshape(rank, batch) if driver != "gels" else T.expand(T.const(0, "i64"), (0,)),
            T.constant(T.reshape(s, (*batch, small)) if driver in ("gelsd", "gelss") else nothing))


@linalg_lstsq.gradient("self")
def _(grads, results, self, b):
    return _lstsq_gradient(grads, results, self, b)[0]


@linalg_lstsq.gradient("b")
def _(grads, results, self, b):
    return _lstsq_gradient(grads, results, self, b)[1]


def _lstsq_gradient(grads, results, a, b):
    """The solution's gradient goes through the pseudo-inverse. The residuals are least where they are: only what is explicit in them has a slope."""
    (g, g_residuals), x = grads[:2], results[0]
    if T.is_complex(x.dtype): a, b = T.conj(a), T.conj(b)
    vector = _is_vector(a, b)
    column = lambda v: None if v is None else T.unsqueeze(v, v.ndim) if vector else v
    g, right, x, given = column(g), column(b), column(x), x.dtype
    if smaller(a) <= SMALL:                                          # cheap in double precision, and the pseudo-inverse's errors would show
        double = lambda v: None if v is None else T.cast(v, T.WIDER.get(v.dtype, v.dtype))
        a, right, x, g, g_residuals = map(double, (a, right, x, g, g_residuals))
    inverse = None if g is None else linalg_pinv(a)
    if inverse is not None and x.dtype != given: x = matmul(inverse, right)
    g_a = g_b = None
    if g is not None:
        # Golub and Pereyra's derivative of the pseudo-inverse P, applied to the right side: dx = P db - P dA x + (I - P A) dA^H P^H x + P P^H dA^H (b - A x).
        # No product is larger than the right side.
        h = adjoint(inverse)
        g_b = matmul(h, g)
        g_a = matmul(right - matmul(a, x), adjoint(matmul(inverse, g_b))) - matmul(g_b, adjoint(x)) + matmul(matmul(h, x), adjoint(g - matmul(inverse, matmul(a, g))))
    if g_residuals is not None and not _is_nothing(results[1]):
        more = 2 * (matmul(a, x) - right) * spread(g_residuals, x.dtype)
        g_a = matmul(more, adjoint(x)) if g_a is None else g_a + matmul(more, adjoint(x))
        g_b = -more if g_b is None else g_b - more
    g_a, g_b = (None if v is None else T.cast(v, given) for v in (g_a, g_b))
    return g_a, g_b if g_b is None or not vector else T.reshape(g_b, g_b.shape[:-1])


def _is_nothing(x): return x.ndim == 1 and isinstance(x.shape[0], int) and x.shape[0] == 0


# ---------------------------------------------------------------------------------------------------------------- condition
@op(["cond(Tensor self, Scalar!? p=None) -> Tensor", "cond(Tensor self, str p) -> Tensor"], on="linalg", layout="contiguous", node="DivBackward0", samples=linear_algebra("cond"))
def linalg_cond(self, p):
    """The condition number: norm(A) * norm(inverse of A), by default of the 2-norm (largest over smallest singular value)."""
    if self.ndim < 2:
        raise RuntimeError(f"linalg.cond(ord={p}): The input tensor A must have at least 2 dimensions." if isinstance(p, str) else
                           "linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is None or p in (2, -2):
        if _is_empty(self): return _zero_norm(self)
        need_float(self, "linalg.svd", kernel="linalg_svd_cpu")
        s = _svdvals(self)
        largest, smallest = _end(s, first=True), _end(s, first=False)
        return smallest / largest if p == -2 else largest / smallest
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf) and not isinstance(p, str):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {_number_text(p)}")
    if not isinstance(p, str) and _is_empty(self): return _zero_norm(self)
    if not isinstance(p, str): need_square(self, f"linalg.cond(ord={_number_text(p)})")
    elif not self.shape[-1] == self.shape[-2]: need_square(self, f"linalg.cond(ord={p})")
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    if _is_empty(self): return _zero_norm(self)
    if p == "nuc": need_float(self, "linalg.svd", kernel="linalg_svd_cpu")
    inverse, info = linalg_inv_ex(self)
    singular = T.prim("gt", info, T.const(0, "i32"))
    result = matrix_norm(self, p) * matrix_norm(_masked(inverse, singular), p)
    infinite = singular if p == "nuc" else singular | T.prim("ne", result, result)           # that of a matrix with NaNs, too
    return T.where(infinite, T.const(math.inf, result.dtype), result)


def _masked(inverse, singular):
    """0 for singular matrices: their condition is infinite whatever the routine left there."""
    mask = T.reshape(singular, (*singular.shape, 1, 1))
    return T.where(mask, T.const(0, inverse.dtype), inverse)


def _is_empty(x): return bool(numel_of(x.shape) == 0)
def _zero_norm(x): return T.expand(T.const(0, T.real_dtype(x.dtype)), x.shape[:-2])


def _end(s, first):
    n = s.shape[-1]
    at = (0, 1) if first else (n - 1, n)
    return T.reshape(T.slice(s, -1, *at), s.shape[:-1])


def _number_text(value):
    return str(int(value)) if isinstance(value, float) and math.isfinite(value) and value == int(value) else str(value)


# ----------------------------------------------------------------------------------------------------------------- exponential
def _exponential_op(schema, on):
    @op(schema, on=on, layout="contiguous", out=False, node="LinalgMatrixExpBackward0", samples=linear_algebra("square"))
    def matrix_exp(self):
        """The exponential of square matrices, `sum(A^k / k!)`."""
        need_square(self, "linalg.matrix_exp")
        need_float(self, "linalg.matrix_exp", low_precision=True)
        return _exponential(self)
    return matrix_exp


@op("_exponential(Tensor self) -> Tensor", rule="float!", on="-", out=False)
def _exponential(self):
    """exp(A), by scaling and squaring in double precision. Its transpose's elements are the transpose of its own: no need for columns."""
    batch, n = self.shape[:-2], self.shape[-1]
    out, = routine("lapack_matrix_exp", batch, [((n, n), self.dtype)], [T.reshape(self, (numel_of(batch), n, n))], (n,))
    return T.reshape(out, self.shape)


@_exponential.gradient("self")
def _(grad, self):
    return _exponential_slope(transposed(self), grad)               # `self` is conjugated already


@op("_exponential_slope(Tensor self, Tensor direction) -> Tensor", rule="float!", on="-", out=False)
def _exponential_slope(self, direction):
    """The derivative of exp at A in a direction E, which is linear in E: the upper right block of exp([[A, E], [0, A]])."""
    n = self.shape[-1]
    return _upper_right(_exponential(_twice(self, direction)), n)


def _twice(a, beside):
    """[[a, beside], [0, a]]"""
    nothing = T.expand(T.const(0, a.dtype), a.shape)
    return T.cat([T.cat([a, beside], -1), T.cat([nothing, a], -1)], -2)


def _upper_right(x, n): return T.slice(T.slice(x, -2, 0, n), -1, n, n + n)


# Stated, though it could be derived through the exponential: so it is seen to be linear in the direction, which forward derivatives need.
@_exponential_slope.gradient("direction")
def _(grad, self):
    return _exponential_slope(transposed(self), grad)


@_exponential_slope.gradient("self")
def _(grad, self, direction):
    # The second derivative in the directions E^H and g: that of the doubled matrix in the direction [[g, 0], [0, g]].
    h, e = transposed(self), transposed(direction)
    nothing = T.expand(T.const(0, h.dtype), h.shape)
    both = T.cat([T.cat([grad, nothing], -1), T.cat([nothing, grad], -1)], -2)
    return _upper_right(_exponential_slope(_twice(h, e), both), self.shape[-1])


linalg_matrix_exp = _exponential_op("matrix_exp(Tensor self) -> Tensor", "linalg")
matrix_exp = _exponential_op("matrix_exp(Tensor self) -> Tensor", "torch Tensor")
