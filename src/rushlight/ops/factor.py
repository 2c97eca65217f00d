"""Factorisations of matrices: Cholesky, LU, QR, LDL. The gradients are matrix formulas over other operators, so they can be differentiated again."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import linear_algebra
from .common import OUT_TENSOR_DTYPE, hint, no_derivative, numel_of, shape_text, underived
from .lapack import (
    adjoint,
    batch_of,
    columns,
    failure,
    kernel_dtype,
    lower,
    matrices,
    need_float,
    need_matrix,
    need_square,
    on_diagonal,
    routine,
    rows,
    smaller,
    transposed,
    unit,
    upper,
)
from .matmul import matmul

NOT_POSITIVE = "The factorization could not be completed because the input is not positive-definite (the leading minor of order {order} is not positive-definite)."


# ------------------------------------------------------------------------------------------------------------- triangular systems
@op("solve_triangular(Tensor self, Tensor B, *, bool upper, bool left=True, bool unitriangular=False) -> Tensor", on="linalg", layout="columns",
    node="LinalgSolveTriangularBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("triangular"))
def linalg_solve_triangular(self, B, upper, left, unitriangular):
    """X of `A @ X = B` (`X @ A = B` without left) for triangular A; the other triangle is not looked at."""
    name = "linalg.solve_triangular"
    if self.dtype != B.dtype:
        raise RuntimeError(f"linalg.solve_triangular: Expected A and B to have the same dtype, but found A of type {T.dtype_word(self.dtype)} and B of type "
                           f"{T.dtype_word(B.dtype)} instead")
    need_solvable(self, B, left, name)
    kernel_dtype(self, "triangular_solve_cpu")
    return _substituted(self, B, upper, left, unitriangular)


def _substituted(a, b, upper, left, unitriangular):
    batch = batch_of(a, b)
    m, n = b.shape[-2], b.shape[-1]
    out, = routine("lapack_triangular", batch, [((n, m), b.dtype)], [columns(a, batch), columns(b, batch)], (m, n, int(left), int(upper), 0, int(unitriangular)))
    return matrices(out, batch)


def need_solvable(a, b, left, name):
    need_square(a, name, "A")
    need_matrix(b, name, "B")
    if not (a.shape[-2] == b.shape[-2] if left else a.shape[-1] == b.shape[-1]):
        raise RuntimeError(f"{name}: Incompatible shapes of A and B for the equation {'AX = B' if left else 'XA = B'} "
                           f"({hint(a.shape[-2])}x{hint(a.shape[-1])} and {hint(b.shape[-2])}x{hint(b.shape[-1])})")


@linalg_solve_triangular.gradient("B")
def _(grad, self, upper, left, unitriangular):
    return linalg_solve_triangular(transposed(self), grad, upper=not upper, left=left, unitriangular=unitriangular)


@linalg_solve_triangular.gradient("self")
def _(grad, self, results, upper, left, unitriangular):
    # Here and above `self` is conjugated already where it is complex, so that its transpose is the adjoint.
    back = linalg_solve_triangular(transposed(self), grad, upper=not upper, left=left, unitriangular=unitriangular)
    solution = adjoint(results[0])
    return -triangle(matmul(back, solution) if left else matmul(solution, back), upper, unitriangular)


def triangle(x, is_upper, strict=False):
    return upper(x, int(strict)) if is_upper else lower(x, -int(strict))


def divide_left(a, b, is_upper, unitriangular=False): return linalg_solve_triangular(a, b, upper=is_upper, unitriangular=unitriangular)
def divide_right(b, a, is_upper, unitriangular=False): return linalg_solve_triangular(a, b, upper=is_upper, left=False, unitriangular=unitriangular)


@op("triangular_solve(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False) -> (Tensor solution, Tensor cloned_coefficient)",
    layout="columns", node="TriangularSolveBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("triangular_solve"))
def triangular_solve(self, A, upper, transpose, unitriangular):
    """X of `A @ X = self` (or with A transposed) for triangular A, and a copy of A."""
    T.warn("triangular_solve is deprecated: linalg.solve_triangular(A, B, upper=...) takes its place, the matrix first, and gives no copy of it", once=True)
    if self.dtype != A.dtype:
        raise RuntimeError(f"triangular_solve: expected b and A to have the same dtype, but found b of type {T.dtype_word(self.dtype)} and A of type {T.dtype_word(A.dtype)} instead.")
    if self.ndim < 2:
        raise RuntimeError(f"torch.triangular_solve: Expected b to have at least 2 dimensions, but it has {self.ndim} dimensions instead")
    if A.ndim < 2:
        raise RuntimeError(f"torch.triangular_solve: Expected A to have at least 2 dimensions, but it has {A.ndim} dimensions instead")
    if not A.shape[-1] == A.shape[-2]:
        raise RuntimeError(f"triangular_solve: A must be batches of square matrices, but they are {hint(A.shape[-2])} by {hint(A.shape[-1])} matrices")
    if not A.shape[-2] == self.shape[-2]:
        raise RuntimeError(f"Incompatible matrix sizes for triangular_solve: each A matrix is {hint(A.shape[-2])} by {hint(A.shape[-1])} but each b matrix is "
                           f"{hint(self.shape[-2])} by {hint(self.shape[-1])}")
    kernel_dtype(self, "triangular_solve_cpu")
    batch = batch_of(self, A)
    turned = transposed(A) if transpose else A
    solution = linalg_solve_triangular(turned, self, upper=upper != transpose, unitriangular=unitriangular)
    return solution, T.copy(T.expand(A, batch + A.shape[-2:]))


# -------------------------------------------------------------------------------------------------------------------- Cholesky
def _cholesky(a, is_upper, check, name):
    if name == "cholesky":                              # the old name takes anything without elements, and knows only its kernel's dtypes
        if numel_of(a.shape) == 0: return T.copy(a), None
        need_square(a, name)
        kernel_dtype(a, "cholesky_cpu")
    need_square(a, "linalg.cholesky")
    need_float(a, "linalg.cholesky", kernel="cholesky_cpu")
    batch, n = a.shape[:-2], a.shape[-1]
    errors = [failure(name, NOT_POSITIVE, a.ndim > 2)] if check else []
    factor, info = routine("lapack_cholesky", batch, [((n, n), a.dtype), ((), "i32")], [columns(a, batch)], (n, int(not is_upper), int(check)), errors)
    return matrices(factor, batch), T.reshape(info, batch)


def _cholesky_gradient(grad, factor, is_upper):
    g, low = (adjoint(grad), adjoint(factor)) if is_upper else (grad, factor)
    x = lower(matmul(adjoint(low), g))
    middle = 0.5 * T.where(on_diagonal(x), x, x + adjoint(x))
    return divide_right(divide_left(adjoint(low), middle, True), low, False)


def _cholesky_op(schema, space, name, layout):
    """cholesky under one of its names: it always raises for a matrix that is not positive definite."""
    @op(schema, on=space, layout=layout, node="LinalgCholeskyExBackward0" if space == "linalg" else "CholeskyBackward0", out=OUT_TENSOR_DTYPE if space == "linalg" else True, samples=linear_algebra("positive"))
    def cholesky(self, upper):
        """The triangular factor L of a positive definite matrix: `A = L @ L.mH` (`U.mH @ U` with upper)."""
        if space != "linalg": T.warn("cholesky is deprecated: linalg.cholesky takes its place (with .mH of it for the upper factor)", once=True)
        return _cholesky(self, upper, True, name)[0]

    @cholesky.gradient("self")
    def _(grad, results, upper):
        return _cholesky_gradient(grad, results[0], upper)
    return cholesky


linalg_cholesky = _cholesky_op("cholesky(Tensor self, *, bool upper=False) -> Tensor", "linalg", "linalg.cholesky", "columns")
cholesky = _cholesky_op("cholesky(Tensor self, bool upper=False) -> Tensor", "torch Tensor", "cholesky", "columns")


@op("cholesky_ex(Tensor self, *, bool upper=False, bool check_errors=False) -> (Tensor L, Tensor info)", on="linalg", layout=("columns", "contiguous"),
    node="LinalgCholeskyExBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("positive"))
def linalg_cholesky_ex(self, upper, check_errors):
    """cholesky that does not raise: info is 0, or the order of the first minor that is not positive definite."""
    return _cholesky(self, upper, check_errors, "linalg.cholesky_ex")


@linalg_cholesky_ex.gradient("self")
def _(grad, results, upper):
    return _cholesky_gradient(grad, results[0], upper)


def _need_factor(b, factor, name):
    if b.ndim < 2:
        raise RuntimeError(f"b should have at least 2 dimensions, but has {b.ndim} dimensions instead")
    if factor.ndim < 2:
        raise RuntimeError(f"u should have at least 2 dimensions, but has {factor.ndim} dimensions instead")
    if factor.dtype != b.dtype:
        raise RuntimeError(f"Expected b and A to have the same dtype, but found b of type {T.dtype_word(b.dtype)} and A of type {T.dtype_word(factor.dtype)} instead")
    if not factor.shape[-1] == factor.shape[-2]:
        raise RuntimeError(f"A must be batches of square matrices, but they are {hint(factor.shape[-2])} by {hint(factor.shape[-1])} matrices")
    if not factor.shape[-1] == b.shape[-2]:
        raise RuntimeError(f"Incompatible matrix sizes for {name}: each A matrix is {hint(factor.shape[-1])} by {hint(factor.shape[-1])} but each b matrix is "
                           f"{hint(b.shape[-2])} by {hint(b.shape[-1])}")
    kernel_dtype(b, f"{name}_cpu")


def _solve_with_factor(b, factor, is_upper):
    if is_upper:
        return divide_left(factor, divide_left(adjoint(factor), b, False), True)
    return divide_left(adjoint(factor), divide_left(factor, b, False), True)


@op("cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", layout="columns", node="CholeskySolveBackward0", samples=linear_algebra("cholesky_solve"))
def cholesky_solve(self, input2, upper):
    """X of `A @ X = self`, given the Cholesky factor of A."""
    _need_factor(self, input2, "cholesky_solve")
    return _solve_with_factor(self, input2, upper)


@cholesky_solve.gradient("self")
def _(grad, input2, upper):
    return cholesky_solve(grad, _plain(input2, grad), upper)


@cholesky_solve.gradient("input2")
def _(grad, input2, results, upper):
    # Of the whole matrix, not of its triangle only: so torch has it.
    factor = _plain(input2, grad)
    return _factor_gradient(matmul(cholesky_solve(grad, factor, upper), adjoint(results[0])), factor, upper)


def _plain(x, grad):
    """An argument as it was: gradient functions get it conjugated beside a complex gradient."""
    return T.conj(x) if T.is_complex(grad.dtype) else x


def _factor_gradient(g, factor, is_upper):
    """Of the factor L of A = L @ L^H from A's, g."""
    both = -(g + adjoint(g))
    return matmul(factor, both) if is_upper else matmul(both, factor)


@op("cholesky_inverse(Tensor self, bool upper=False) -> Tensor", layout="columns", node="CholeskyInverseBackward0", samples=linear_algebra("factor"))
def cholesky_inverse(self, upper):
    """The inverse of A, given its Cholesky factor."""
    need_square(self, "cholesky_inverse")
    kernel_dtype(self, "cholesky_inverse_out_cpu")
    return _solve_with_factor(T.expand(unit(self.shape[-1], self.shape[-1], self.dtype), self.shape), _without_zeros(self), upper)


def _without_zeros(factor):
    """A triangular matrix, after testing that its diagonal has no zero."""
    n = factor.shape[-1]
    zero = on_diagonal(factor) & T.prim("eq", factor, T.const(0, factor.dtype))
    order = T.where(zero, T.iota(n, 0, 2) + 1, T.const(0, "i64"))
    error = ("LinAlgError", "cholesky_inverse: The diagonal element {value} is zero, the inversion could not be completed because the input matrix is singular.")
    return T.where(T.prim("eq", T.check(order, 0, 1, error), 0), factor, T.const(0, factor.dtype))       # always the factor: the test must stay in its history


@cholesky_inverse.gradient("self")
def _(grad, self, results, upper):
    return _factor_gradient(matmul(matmul(results[0], grad), results[0]), _plain(self, grad), upper)


# ------------------------------------------------------------------------------------------------------------------------- LU
def lu_factored(a, check, name, pivot=True, words=None):
    """(LU, pivots, info) of any matrices."""
    need_lu(a, "torch.lu_factor")
    if not pivot:
        raise RuntimeError("linalg.lu_factor: LU without pivoting is not implemented on the CPU")
    batch, m, n = a.shape[:-2], a.shape[-2], a.shape[-1]
    k = smaller(a)
    errors = [] if not check else [failure(name, words or "U[{order},{order}] is zero and using it on lu_solve would result in a division by zero. If you still want to perform the "
                      "factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)", a.ndim > 2, "LinAlgError" if words else "RuntimeError")]
    lu, pivots, info = routine("lapack_lu", batch, [((n, m), a.dtype), ((k,), "i32"), ((), "i32")], [columns(a, batch)], (m, n, int(check)), errors)
    return matrices(lu, batch), T.reshape(pivots, (*batch, k)), T.reshape(info, batch)


def need_lu(a, name):
    if a.ndim < 2:
        raise RuntimeError(f"{name}: Expected tensor with 2 or more dimensions. Got size: {shape_text(a.shape)} instead")
    kernel_dtype(a, "lu_cpu")


def row_order(pivots, size, inverse=False):
    """The rows' order after LAPACK's exchanges: A[order] = L @ U; `inverse`: where each row went."""
    batch = pivots.shape[:-1]
    given = rows(pivots, batch)
    out, = T.native("linalg_row_order", [((given.shape[0], size), "i64")], [given], (size, pivots.shape[-1], int(inverse)), units=given.shape[0],
                    errors=[("RuntimeError", "pivots given to lu_solve must all be greater or equal to 1 and at most the number of rows.")])
    return T.reshape(out, (*batch, size))


def permuted_rows(x, order):
    """Rows of x in an order of its own for each matrix."""
    batch = batch_of(x, T.unsqueeze(order, order.ndim))
    x, order = T.expand(x, (*batch, *x.shape[-2:])), T.expand(order, (*batch, order.shape[-1]))
    places = [T.iota(s, d, x.ndim) for d, s in enumerate(x.shape)]
    places[-2] = T.unsqueeze(order, order.ndim)
    return T.load(x, places, shape=x.shape)


def unpacked(lu):
    """(L, U) of matrices packed by LAPACK."""
    k = smaller(lu)
    low, up = T.slice(lu, -1, 0, k), T.slice(lu, -2, 0, k)
    return T.where(on_diagonal(low), T.const(1, lu.dtype), lower(low)), upper(up)


def lu_gradient(g_low, g_up, low, up, back):
    """The gradient of A from those of L and U (None: zero). back: the rows' order that undoes the exchanges."""
    m, n, k = low.shape[-2], up.shape[-1], low.shape[-1]
    square_low, square_up = T.slice(low, -2, 0, k), T.slice(up, -1, 0, k)
    inner = None
    tall, wide = not m == k, not n == k
    part = lambda g, dim, start, stop: None if g is None else T.slice(g, dim, start, stop)
    total = lambda a, b: b if a is None else a if b is None else a + b
    g1 = part(g_low, -2, 0, k)
    if g1 is not None: inner = lower(matmul(adjoint(square_low), g1), -1)
    if g_up is not None:
        gu1 = part(g_up, -1, 0, k)
        inner = total(inner, upper(matmul(gu1, adjoint(square_up))))
        if wide: inner = total(inner, -lower(matmul(part(g_up, -1, k, n), adjoint(T.slice(up, -1, k, n))), -1))
    if tall and g_low is not None:
        inner = total(inner, -upper(matmul(adjoint(T.slice(low, -2, k, m)), part(g_low, -2, k, m))))
    adjoint_low, adjoint_up = adjoint(square_low), adjoint(square_up)
    out = divide_right(divide_left(adjoint_low, inner, True, True), adjoint_up, False)
    if wide:
        more = part(g_up, -1, k, n)
        beside = divide_left(adjoint_low, more, True, True) if more is not None else T.expand(T.const(0, low.dtype), (*low.shape[:-1], n - k))
        out = T.cat([out, beside], -1)
    if tall:
        more = part(g_low, -2, k, m)
        below = divide_right(more, adjoint_up, False) if more is not None else T.expand(T.const(0, low.dtype), (*low.shape[:-2], m - k, k))
        out = T.cat([out, below], -2)
    return permuted_rows(out, back)


def lu_factor_gradient(grad, lu, pivots):
    low, up = unpacked(lu)
    k = low.shape[-1]
    return lu_gradient(lower(T.slice(grad, -1, 0, k), -1), upper(T.slice(grad, -2, 0, k)), low, up, row_order(pivots, lu.shape[-2], inverse=True))


@op("lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> (Tensor LU, Tensor pivots, Tensor info)", on="linalg",
    layout=("columns", "contiguous", "contiguous"), node="LinalgLuFactorExBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("rectangular"))
def linalg_lu_factor_ex(A, pivot, check_errors):
    """LU with row exchanges, packed in one matrix; pivots count from 1. info is 0, or where U has its first zero."""
    return lu_factored(A, check_errors, "torch.linalg.lu_factor_ex" if check_errors else "torch.linalg.lu_factor", pivot)


@op("lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", on="linalg", layout=("columns", "contiguous"),
    node="LinalgLuFactorExBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("rectangular"))
def linalg_lu_factor(A, pivot):
    """LU with row exchanges, packed in one matrix; pivots count from 1. A zero on U's diagonal is an error."""
    return lu_factored(A, True, "torch.linalg.lu_factor", pivot)[:2]


@linalg_lu_factor_ex.gradient("A")
def _(grad, results):
    return lu_factor_gradient(grad, results[0], results[1])


@linalg_lu_factor.gradient("A")
def _(grad, results):
    return lu_factor_gradient(grad, results[0], results[1])


def _permutation(order, dtype):
    """P of A = P @ L @ U: column i has its 1 in row order[i]."""
    m = order.shape[-1]
    rank = order.ndim + 1
    return T.where(T.prim("eq", T.iota(m, rank - 2, rank), T.unsqueeze(order, order.ndim - 1)), T.const(1, dtype), T.const(0, dtype))


def _none(dtype): return T.expand(T.const(0, dtype), (0,))


@op("lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)", on="torch", layout="contiguous",
    node="LuUnpackBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("lu_unpack"))
def lu_unpack(LU_data, LU_pivots, unpack_data, unpack_pivots):
    """P, L and U of a packed factorisation; what is not asked for is empty."""
    if LU_pivots.dtype != "i32" and unpack_pivots:
        raise RuntimeError("torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.\n"
                           "Note: this function is intended to be used with the output produced by torch.linalg.lu_factor")
    need_matrix(LU_data, "torch.lu_unpack")
    low, up = unpacked(LU_data) if unpack_data else (_none(LU_data.dtype), _none(LU_data.dtype))
    if not unpack_pivots:
        return T.constant(_none(LU_data.dtype)), low, up
    return T.constant(_permutation(row_order(LU_pivots, LU_data.shape[-2]), LU_data.dtype)), low, up


@op("lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", on="linalg", layout="contiguous", node="LinalgLuBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("rectangular"))
def linalg_lu(A, pivot):
    """P, L, U with `A = P @ L @ U`, L with ones on its diagonal."""
    need_lu(A, "linalg.lu")
    if not pivot:
        raise RuntimeError("linalg.lu: LU without pivoting is not implemented on the CPU")
    lu, pivots, _ = linalg_lu_factor_ex(A)
    low, up = unpacked(lu)
    return T.constant(_permutation(row_order(pivots, A.shape[-2]), A.dtype)), low, up


# ------------------------------------------------------------------------------------------------------------------------- QR
def _reflectors(a, name):
    batch, m, n = a.shape[:-2], a.shape[-2], a.shape[-1]
    kernel_dtype(a, name)
    packed, tau = routine("lapack_qr", batch, [((n, m), a.dtype), ((smaller(a),), a.dtype)], [columns(a, batch)], (m, n))
    return matrices(packed, batch), T.reshape(tau, (*batch, smaller(a)))


@op("geqrf(Tensor self) -> (Tensor a, Tensor tau)", layout=("columns", "contiguous"), samples=linear_algebra("rectangular"))
def geqrf(self):
    """QR as LAPACK packs it: R above the diagonal, the vectors of the reflections below it, their factors in tau."""
    if self.ndim < 2:
        raise RuntimeError("torch.geqrf: input must have at least 2 dimensions.")
    return _reflectors(self, "geqrf_cpu")


geqrf.gradient("self")(no_derivative("geqrf"))


def _compact(packed, tau, k):
    """(V, T) of a product of k reflections, I - V @ T @ V^H. With S the strict upper triangle of V^H V, T = diag(tau) (I + S diag(tau))^-1."""
    v = T.slice(packed, -1, 0, k)
    v = T.where(on_diagonal(v), T.const(1, v.dtype), lower(v))
    scale = T.unsqueeze(tau, tau.ndim - 1)                         # of columns
    between = upper(matmul(adjoint(v), v), 1) * scale + unit(k, k, v.dtype)
    return v, divide_right(diagonal_scaled(tau, k), between, True, True)


def diagonal_scaled(tau, k):
    i, j = T.iota(k, 0, 2), T.iota(k, 1, 2)
    return T.where(T.prim("eq", i, j), T.unsqueeze(tau, tau.ndim), T.const(0, tau.dtype))


@op("householder_product(Tensor input, Tensor tau) -> Tensor", once=True, unreached=True, on="linalg", layout="columns", node="LinalgHouseholderProductBackward0", samples=linear_algebra("reflectors"))
def linalg_householder_product(input, tau):
    """The first columns of the product of the reflections that geqrf returns."""
    _need_reflectors(input, tau)
    return reflected(input, tau, input.shape[-1])


def reflected(packed, tau, count):
    """The first `count` columns of the product of reflections."""
    m, k = packed.shape[-2], tau.shape[-1]
    if k == 0:
        return T.expand(unit(m, count, packed.dtype), (*packed.shape[:-2], m, count))
    v, t = _compact(packed, tau, k)
    some = T.slice(v, -2, 0, count) if not same(count, m) else v
    return unit(m, count, packed.dtype) - matmul(matmul(v, t), adjoint(some))


def same(a, b): return bool(a == b)


def _need_reflectors(input, tau, name="torch.linalg.householder_product"):
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if not input.shape[-2] >= input.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if not input.shape[-1] >= tau.shape[-1]:
        raise RuntimeError(f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    if input.ndim - tau.ndim != 1:
        raise RuntimeError(f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and input.ndim is equal to {input.ndim}")
    if input.ndim > 2 and not all(bool(a == b) for a, b in zip(input.shape[:-2], tau.shape[:-1])):
        raise RuntimeError(f"{name}: Expected batch dimensions of tau to be equal to input.shape[:-2], but got {shape_text(tau.shape[:-1])}")
    if tau.dtype != input.dtype:
        raise RuntimeError(f"{name}: tau dtype {T.dtype_word(tau.dtype)} does not match input dtype {T.dtype_word(input.dtype)}")
    kernel_dtype(input, "orgqr_cpu")


@op("orgqr(Tensor self, Tensor input2) -> Tensor", layout="columns", node="LinalgHouseholderProductBackward0", samples=linear_algebra("reflectors"))
def orgqr(self, input2):
    """Another name of linalg.householder_product."""
    return linalg_householder_product(self, input2)


@op("ormqr(Tensor self, Tensor input2, Tensor input3, bool left=True, bool transpose=False) -> Tensor", once=True, unreached=True, layout="columns", node="OrmqrBackward0",
    out="torch.ormqr: Expected input and result to have the same dtype, but input has dtype {result} and result has dtype {out}",
    samples=linear_algebra("ormqr"))
def ormqr(self, input2, input3, left, transpose):
    """`Q @ input3` or `input3 @ Q` (with transpose: Q^H), Q being the whole product of the reflections in self and input2."""
    tau, other = input2, input3
    _need_ormqr(self, tau, other, left)
    if numel_of(tau.shape) == 0:
        return T.copy(other)
    v, t = _compact(self, tau, tau.shape[-1])
    if transpose: t = adjoint(t)
    if left:
        return other - matmul(v, matmul(t, matmul(adjoint(v), other)))
    return other - matmul(matmul(matmul(other, v), t), adjoint(v))


def _need_ormqr(a, tau, other, left):
    name, side = "torch.ormqr", -2 if left else -1
    if a.ndim < 2: raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if other.ndim < 2: raise RuntimeError(f"{name}: other must have at least 2 dimensions.")
    if not other.shape[side] == a.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if not tau.shape[-1] == (a.shape[-1] if a.shape[-1] <= other.shape[side] else other.shape[side]):
        raise RuntimeError(f"{name}: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    if a.ndim - tau.ndim != 1:
        raise RuntimeError(f"{name}: Expected tau to have one dimension less than input, but got tau.ndim equal to {tau.ndim} and input.ndim is equal to {a.ndim}")
    if a.ndim != other.ndim:
        raise RuntimeError(f"{name}: Expected other to have the same number of dimensions as input, but got other.ndim equal to {other.ndim} and input.ndim is equal to {a.ndim}")
    for word, x, batch in (("tau", tau, tau.shape[:-1]), ("other", other, other.shape[:-2])):
        if a.ndim > 2 and not all(bool(s == t) for s, t in zip(a.shape[:-2], batch)):
            raise RuntimeError(f"{name}: Expected batch dimensions of {word} to be equal to input.shape[:-2], but got {shape_text(batch)}")
        if x.dtype != a.dtype:
            raise RuntimeError(f"{name}: Expected input and {word} to have the same dtype, but input has dtype {T.dtype_word(a.dtype)} and {word} has dtype {T.dtype_word(x.dtype)}")
    kernel_dtype(a, "ormqr_cpu")


def _qr(a, mode):
    need_matrix(a, "linalg.qr")
    need_float(a, "linalg.qr", kernel="geqrf_cpu")
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    packed, tau = _reflectors(a, "geqrf_cpu")
    m, k = a.shape[-2], smaller(a)
    height = m if mode == "complete" else k
    r = upper(T.slice(packed, -2, 0, height))
    if mode == "r":
        return _none(a.dtype), r
    return reflected(packed, tau, height), r


def _qr_op(schema, space, mode_of):
    @op(schema, on=space, layout="columns", node="LinalgQrBackward0", out=OUT_TENSOR_DTYPE, samples=linear_algebra("rectangular"))
    def qr(A, mode):
        """Q with orthonormal columns and upper triangular R, `A = Q @ R`. 'reduced' (some): as many columns as A has, or rows if these are fewer."""
        if space != "linalg": T.warn("qr is deprecated: linalg.qr takes its place, with mode='reduced' for some=True and mode='complete' for some=False", once=True)
        return _qr(A, mode_of(mode))

    @qr.gradient(next(iter(qr.params)))
    def _(grads, results, mode=None, some=None):
        return _qr_gradient(grads, results, mode_of(mode if some is None else some))
    return qr


def _qr_gradient(grads, results, mode):
    if mode == "r":
        raise RuntimeError("The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use linalg.qr(A, mode='reduced') if you are going to "
                           "require gradients from this function.")
    (g_q, g_r), (q, r) = grads, results
    m, n, k = q.shape[-2], r.shape[-1], r.shape[-2]
    if mode == "complete" and m > n:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols")
    if g_q is None and g_r is None: return None
    wide = n > k
    square, beside = r, None
    if wide:                       # A = [X Y] with X = Q R1 and Y = Q R2, so that R2 = Q^H Y
        square = T.slice(r, -1, 0, k)
        if g_r is not None:
            rest, g_rest = T.slice(r, -1, k, n), T.slice(g_r, -1, k, n)
            more = matmul(q, matmul(rest, adjoint(g_rest)))
            g_q = more if g_q is None else g_q + more
            beside = matmul(q, g_rest)
            g_r = T.slice(g_r, -1, 0, k)
        else:
            beside = T.expand(T.const(0, q.dtype), (*q.shape[:-1], n - k))
    middle = None
    if g_r is not None: middle = matmul(square, adjoint(upper(g_r)))
    if g_q is not None: middle = -matmul(adjoint(g_q), q) if middle is None else middle - matmul(adjoint(g_q), q)
    below = lower(middle, -1)
    middle = below + adjoint(below) + T.where(on_diagonal(middle), T.cast(T.prim("real", middle), middle.dtype), T.const(0, middle.dtype))
    left = matmul(q, middle)
    if g_q is not None: left = left + g_q
    out = divide_right(left, adjoint(square), False)
    return T.cat([out, beside], -1) if wide else out


linalg_qr = _qr_op("qr(Tensor A, str mode='reduced') -> (Tensor Q, Tensor R)", "linalg", lambda mode: mode)
qr = _qr_op("qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", "torch Tensor", lambda some: "reduced" if some else "complete")


# ------------------------------------------------------------------------------------------------------------------------ LDL
def _ldl(a, hermitian, check, name):
    need_square(a, "torch.linalg.ldl_factor_ex")
    need_float(a, "torch.linalg.ldl_factor_ex", kernel="ldl_factor_kernel_cpu")
    batch, n = a.shape[:-2], a.shape[-1]
    words = "The factorization could not be completed because the input is singular (the diagonal element {order} of D is exactly zero)."
    factor, pivots, info = routine("lapack_ldl", batch, [((n, n), a.dtype), ((n,), "i32"), ((), "i32")], [columns(a, batch)],
                                   (n, int(hermitian and T.is_complex(a.dtype)), int(check)), [failure(name, words, a.ndim > 2)] if check else [])
    return matrices(factor, batch), T.reshape(pivots, (*batch, n)), T.reshape(info, batch)


@op("ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)", on="linalg", layout=("columns", "contiguous"),
    out=OUT_TENSOR_DTYPE, samples=linear_algebra("positive"))
def linalg_ldl_factor(self, hermitian):
    """The factors of a symmetric (hermitian) matrix, packed: L below the diagonal, D with blocks of one or two on it."""
    return _ldl(self, hermitian, True, "torch.linalg.ldl_factor")[:2]


@op("ldl_factor_ex(Tensor self, *, bool hermitian=False, bool check_errors=False) -> (Tensor LD, Tensor pivots, Tensor info)", on="linalg",
    layout=("columns", "contiguous", "contiguous"), out=OUT_TENSOR_DTYPE, samples=linear_algebra("positive"))
def linalg_ldl_factor_ex(self, hermitian, check_errors):
    """ldl_factor that does not raise: info is 0, or where D has its first zero."""
    return _ldl(self, hermitian, check_errors, "torch.linalg.ldl_factor_ex")


for definition in (linalg_ldl_factor, linalg_ldl_factor_ex):
    definition.gradient("self")(underived("linalg_ldl_factor_ex"))


@op("ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor", on="linalg", layout="columns",
    out=OUT_TENSOR_DTYPE, samples=linear_algebra("ldl_solve"))
def linalg_ldl_solve(LD, pivots, B, hermitian):
    """X of `A @ X = B`, given ldl_factor's results for A."""
    name = "torch.linalg.ldl_solve"
    need_square(LD, name, "LD")
    need_float(LD, name)
    need_matrix(B, name, "B")
    if not LD.shape[-1] == B.shape[-2]:
        raise RuntimeError(f"{name}: Incompatible shapes of A and B for the equation AX = B ({hint(LD.shape[-2])}x{hint(LD.shape[-1])} and {hint(B.shape[-2])}x{hint(B.shape[-1])})")
    if pivots.ndim != LD.ndim - 1 or not all(bool(a == b) for a, b in zip(pivots.shape, LD.shape)):
        raise RuntimeError(f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {shape_text(pivots.shape)} instead")
    if pivots.dtype not in ("i32", "i64", "i16", "i8", "u8"):
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {T.dtype_word(pivots.dtype)}")
    if LD.dtype != B.dtype:
        raise RuntimeError(f"{name}: LD dtype {T.dtype_word(LD.dtype)} does not match b dtype {T.dtype_word(B.dtype)}")
    batch, (n, k) = batch_of(LD, B), B.shape[-2:]
    out, = routine("lapack_ldl_solve", batch, [((k, n), B.dtype)], [columns(LD, batch), rows(T.cast(pivots, "i32"), batch), columns(B, batch)],
                   (n, k, int(hermitian and T.is_complex(LD.dtype))))
    return matrices(out, batch)


linalg_ldl_solve.gradient("LD", "pivots", "B")(underived("linalg_ldl_solve"))


