"""Systems of linear equations, inverses and determinants: an LU factorisation that the backward uses again, and what is built on it."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import linear_algebra
from .common import OUT_TENSOR_DTYPE, hint, numel_of
from .elementwise import sign
from .factor import lu_factor_gradient, lu_factored, need_solvable, permuted_rows, row_order, unpacked
from .lapack import (
    adjoint,
    batch_of,
    columns,
    diagonal_matrix,
    diagonal_of,
    kernel_dtype,
    lower,
    matrices,
    need_float,
    need_square,
    on_diagonal,
    routine,
    rows,
    same_dtypes,
    same_sizes,
    transposed,
    unit,
    upper,
)
from .matmul import matmul
from .reduce import prod

SINGULAR = "The solver failed because the input matrix is singular."
NOT_INVERTIBLE = "The diagonal element {order} is zero, the inversion could not be completed because the input matrix is singular."
COLUMNS_IF_LEFT = lambda values: "columns" if values["left"] else "contiguous"


# -------------------------------------------------------------------------------------------------------------------- lu_solve
def _lu_divided(lu, pivots, b, left, conjugated):
    """op(A)^-1 @ b, or b @ op(A)^-1, given the factors of A; op takes the adjoint if `conjugated`."""
    if not left:                     # the transposed system; of an adjoint that leaves the conjugate of A
        if conjugated: return T.conj(transposed(_lu_divided(lu, pivots, T.conj(transposed(b)), True, False)))
        return transposed(_lu_call(lu, pivots, transposed(b), 1))
    return _lu_call(lu, pivots, b, 2 if conjugated else 0)


def _lu_call(lu, pivots, b, turned):
    batch, (n, k) = batch_of(lu, b), b.shape[-2:]
    out, = routine("lapack_lu_solve", batch, [((k, n), b.dtype)], [columns(lu, batch), rows(pivots, batch), columns(b, batch)], (n, k, turned))
    return matrices(out, batch)


@op("lu_solve(Tensor LU, Tensor pivots, Tensor B, *, bool left=True, bool adjoint=False) -> Tensor", on="linalg", layout=COLUMNS_IF_LEFT,
    node="LinalgLuSolveBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("lu_solve"))
def linalg_lu_solve(LU, pivots, B, left, adjoint):
    """X of `A @ X = B` (`X @ A = B` without left; A's adjoint with adjoint), given lu_factor's results for A."""
    name = "linalg.lu_solve"
    need_float(LU, name)
    same_dtypes_of(name, LU, B, "LU", "B")
    if pivots.dtype != "i32":
        raise RuntimeError("linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32")
    need_square(LU, name, "LU")
    need_solvable(LU, B, left, name)
    if not LU.shape[-1] == pivots.shape[-1]:
        raise RuntimeError("linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix")
    if not same_sizes(LU.shape[:-1], pivots.shape):
        raise RuntimeError("linalg.lu_solve: Expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
                           f"[{', '.join(str(hint(s)) for s in pivots.shape)}] instead")
    return _lu_divided(LU, pivots, B, left, adjoint)


def same_dtypes_of(name, a, b, first, second):
    try: same_dtypes(a, b, first, second)
    except RuntimeError as error: raise RuntimeError(f"{name}: {error}") from None


@linalg_lu_solve.gradient("B")
def _(grad, LU, pivots, left, adjoint):
    return linalg_lu_solve(_plain(LU, grad), pivots, grad, left=left, adjoint=not adjoint)


def _plain(x, grad):
    """An argument as it was: gradient functions get it conjugated beside a complex gradient."""
    return T.conj(x) if T.is_complex(grad.dtype) else x


@linalg_lu_solve.gradient("LU")
def _(grad, LU, pivots, results, left, adjoint):
    lu, x = _plain(LU, grad), results[0]
    back = linalg_lu_solve(lu, pivots, grad, left=left, adjoint=not adjoint)
    inner = _matrix_gradient(back, x, left, adjoint)
    low, up = unpacked(lu)
    inner = permuted_rows(inner, row_order(pivots, lu.shape[-1]))
    return lower(matmul(inner, _h(up)), -1) + upper(matmul(_h(low), inner))


_h = adjoint


def _matrix_gradient(back, x, left, conjugated=False):
    """The gradient of A in A X = B (and its three relatives), `back` being that of B."""
    if left: return -matmul(x, _h(back)) if conjugated else -matmul(back, _h(x))
    return -matmul(_h(back), x) if conjugated else -matmul(_h(x), back)


@op("lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor", layout="columns", node="LinalgLuSolveBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("old_lu_solve"))
def lu_solve(self, LU_data, LU_pivots):
    """linalg.lu_solve with the right side first."""
    T.warn("lu_solve is deprecated: linalg.lu_solve(LU, pivots, B) takes its place, the right side last", once=True)
    return linalg_lu_solve(LU_data, LU_pivots, self)


# ------------------------------------------------------------------------------------------------------------------------ solve
@op("_solve_with_lu(Tensor A, Tensor B, bool left, bool check, str name) -> (Tensor result, Tensor LU, Tensor pivots, Tensor info)", on="-", out=False)
def _solve_with_lu(A, B, left, check, name):
    """X of `A @ X = B`, and the factors of A for the backward."""
    lu, pivots, info = lu_factored(A, check, name, words=SINGULAR)
    return _lu_divided(lu, pivots, B, left, False), lu, pivots, info


@_solve_with_lu.gradient("B")
def _(grad, results, left):
    return linalg_lu_solve(results[1], results[2], grad, left=left, adjoint=True)


@_solve_with_lu.gradient("A")
def _(grad, grads, results, left):
    out = _matrix_gradient(linalg_lu_solve(results[1], results[2], grad, left=left, adjoint=True), results[0], left) if grads[0] is not None else None
    return _plus_factor(out, grads[1], results[1], results[2])


def _plus_factor(out, g_lu, lu, pivots):
    """In a second derivative the factors kept for the first one have a gradient of their own."""
    if g_lu is None: return out
    more = lu_factor_gradient(g_lu, lu, pivots)
    return more if out is None else out + more


def _solved(a, b, left, check, name):
    need_float(a, "linalg.solve", kernel="lu_cpu")
    need_square(a, "linalg.solve")
    vector = b.ndim == 1 or a.ndim - 1 == b.ndim and same_sizes(b.shape, a.shape[:-1])
    if vector and not left:
        raise RuntimeError("linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)")
    same_dtypes_of("linalg.solve", a, b, "A", "B")
    b = T.unsqueeze(b, b.ndim) if vector else b
    need_solvable(a, b, left, "linalg.solve")
    x, _, _, info = _solve_with_lu(a, b, left, check, name)
    return (T.reshape(x, x.shape[:-1]) if vector else x), info


@op("solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", on="linalg", layout=COLUMNS_IF_LEFT, node="LinalgSolveExBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("solve"))
def linalg_solve(A, B, left):
    """X of `A @ X = B` (`X @ A = B` without left) for square A that is not singular. B may be a vector."""
    return _solved(A, B, left, True, "torch.linalg.solve")[0]


@op("solve_ex(Tensor A, Tensor B, *, bool left=True, bool check_errors=False) -> (Tensor result, Tensor info)", on="linalg",
    layout=lambda values: (COLUMNS_IF_LEFT(values), "contiguous"), node="LinalgSolveExBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("solve"))
def linalg_solve_ex(A, B, left, check_errors):
    """solve that does not raise: info is 0, or where U of the factorisation has its first zero."""
    return _solved(A, B, left, check_errors, "torch.linalg.solve_ex")


# --------------------------------------------------------------------------------------------------------------------- inverse
def _inverse(a, check, name):
    need_square(a, "linalg.inv")
    need_float(a, "linalg.inv")
    lu, pivots, info = lu_factored(a, check, name, words=NOT_INVERTIBLE)
    return _lu_divided(lu, pivots, T.expand(unit(a.shape[-1], a.shape[-1], a.dtype), a.shape), True, False), info


def _inverse_op(schema, on, name, check):
    @op(schema, on=on, layout="columns" if check else ("columns", "contiguous"), node="LinalgInvExBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("square"))
    def inverse(A, check_errors=True):
        """The inverse of square matrices. A singular one is an error (inv_ex: only on demand; info tells)."""
        out = _inverse(A, check_errors, name)
        return out[0] if check else out

    @inverse.gradient(next(iter(inverse.params)))
    def _(grad, results):
        h = adjoint(results[0])
        return -matmul(matmul(h, grad), h)
    return inverse


linalg_inv = _inverse_op("inv(Tensor A) -> Tensor", "linalg", "linalg.inv", True)
linalg_inv_ex = _inverse_op("inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", "linalg", "linalg.inv_ex", False)
inverse = _inverse_op("inverse(Tensor self) -> Tensor", "torch Tensor", "linalg.inv", True)


@op("tensorinv(Tensor self, int ind=2) -> Tensor", on="linalg", layout=lambda given: f"columns {max(given['self'].ndim - given['ind'], 0)}", node="LinalgInvExBackward0", samples=linear_algebra("tensorinv"))
def linalg_tensorinv(self, ind):
    """The inverse of a tensor as a map from its last dimensions to its first `ind`."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, last = self.shape[:ind], self.shape[ind:]
    m, n = numel_of(last), numel_of(first)
    if not m == n:
        raise RuntimeError(f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {hint(m)} != {hint(n)}")
    return T.reshape(linalg_inv(T.reshape(self, (n, n))), (*last, *first))


@op("tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor", on="linalg", layout="contiguous", node="ViewBackward0", samples=linear_algebra("tensorsolve"))
def linalg_tensorsolve(self, other, dims):
    """X of `tensordot(self, X, X.ndim) = other`; `dims` of self are moved to its end first."""
    x = self
    if dims is not None:
        moved = [d % x.ndim for d in dims]
        x = T.permute(x, [d for d in range(x.ndim) if d not in moved] + moved)
    first, last = x.shape[:other.ndim], x.shape[other.ndim:]
    m, n = numel_of(last), numel_of(first)
    if not m == n:
        raise RuntimeError("Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
                           f"but got {hint(m)} != {hint(n)}")
    return T.reshape(linalg_solve(T.reshape(x, (n, n)), T.reshape(other, (n,))), last)


# ----------------------------------------------------------------------------------------------------------------- determinants
def _exchange_sign(pivots, dtype):
    """1 or -1: an odd number of row exchanges turns the sign."""
    moved = T.cast(T.prim("ne", pivots, T.cast(T.iota(pivots.shape[-1], pivots.ndim - 1, pivots.ndim) + 1, "i32")), "i64")
    count = T.reduce("sum", moved, (pivots.ndim - 1,))
    count = T.reshape(count, pivots.shape[:-1])
    return T.where(T.prim("eq", count - (count >> 1) * 2, 0), T.const(1, dtype), T.const(-1, dtype))


def _product(x): return prod(x, x.ndim - 1)


def _need_determinant(a, name):
    need_square(a, name)
    need_float(a, name, low_precision=True)
    kernel_dtype(a, "lu_cpu")


@op("_det_with_lu(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", on="-", out=False)
def _det_with_lu(A):
    """The determinant, and the factors of A for the backward."""
    lu, pivots, _ = lu_factored(A, False, "linalg.det")
    return _product(diagonal_of(lu)) * _exchange_sign(pivots, A.dtype), lu, pivots


@_det_with_lu.gradient("A")
def _(grads, results):
    det, lu, pivots = results
    out = _divided_diagonal(grads[0] * T.conj(det), lu, pivots) if grads[0] is not None else None
    return _plus_factor(out, grads[1], lu, pivots)


def _divided_diagonal(d, lu, pivots):
    """d * A^-H. A singular A is taken for its neighbour with the smallest number in place of U's zeros, as torch does."""
    tiny = T.const(T.epsilon(lu.dtype), lu.dtype)
    near = T.where(on_diagonal(lu) & T.prim("eq", lu, T.const(0, lu.dtype)), tiny, lu)
    n = lu.shape[-1]
    wanted = diagonal_matrix(T.expand(T.unsqueeze(d, d.ndim), (*d.shape, n)))
    return linalg_lu_solve(near, pivots, T.cast(wanted, lu.dtype), adjoint=True)


def _det_op(schema, on):
    @op(schema, on=on, layout="contiguous", node="LinalgDetBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("square"))
    def det(A):
        """The determinant of square matrices."""
        _need_determinant(A, "linalg.det")
        return _det_with_lu(A)[0]
    return det


linalg_det = _det_op("det(Tensor A) -> Tensor", "linalg")
det = _det_op("det(Tensor self) -> Tensor", "torch Tensor")


@op("_slogdet_with_lu(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)", on="-", out=False)
def _slogdet_with_lu(A):
    """Sign and logarithm of the determinant's size, and the factors of A for the backward."""
    lu, pivots, _ = lu_factored(A, False, "linalg.slogdet")
    diagonal = diagonal_of(lu)
    size = T.prim("abs", diagonal)
    if T.is_complex(A.dtype):
        scale = T.where(T.prim("eq", size, T.const(0, size.dtype)), T.const(1, size.dtype), size)
        signs = T.prim("make_complex", T.prim("real", diagonal) / scale, T.prim("imag", diagonal) / scale)
    else:
        signs = sign(diagonal)
    last = (size.ndim - 1,)
    logs = T.reshape(T.reduce("sum", T.prim("log", size), last), size.shape[:-1])
    return _product(signs) * _exchange_sign(pivots, A.dtype), logs, lu, pivots


@_slogdet_with_lu.gradient("A")
def _(grads, results):
    unit_, _, lu, pivots = results
    g_sign, g_log = grads[:2]
    if T.is_complex(lu.dtype):
        real = T.real_dtype(lu.dtype)
        zero = T.expand(T.const(0, real), unit_.shape)
        turn = zero if g_sign is None else -T.prim("imag", T.conj(g_sign) * unit_)
        g = None if g_sign is None and g_log is None else T.prim("make_complex", zero if g_log is None else g_log, turn)
    else:
        g = g_log                                            # the sign of a real number has no slope
    return _plus_factor(None if g is None else _divided_diagonal(g, lu, pivots), grads[2], lu, pivots)


def _slogdet_op(schema, on):
    @op(schema, on=on, layout="contiguous", node="LinalgSlogdetBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("square"))
    def slogdet(A):
        """The determinant as a sign (or a complex number of size 1) and the logarithm of its size; of a singular matrix 0 and -inf."""
        need_square(A, "linalg.slogdet")
        need_float(A, "linalg.slogdet")
        return _slogdet_with_lu(A)[:2]
    return slogdet


linalg_slogdet = _slogdet_op("slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", "linalg")
slogdet = _slogdet_op("slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", "torch Tensor")


@op("logdet(Tensor self) -> Tensor", layout="contiguous", node="WhereBackward0", out=False, samples=linear_algebra("positive"))
def logdet(self):
    """The logarithm of the determinant: NaN for a negative one."""
    need_square(self, "logdet")
    need_float(self, "logdet")
    turn, logs, _, _ = _slogdet_with_lu(self)
    if T.is_complex(self.dtype):
        return T.prim("make_complex", logs, T.prim("atan2", T.prim("imag", turn), T.prim("real", turn)))
    return T.where(T.prim("eq", turn, T.const(-1, turn.dtype)), T.const(float("nan"), turn.dtype), logs)


