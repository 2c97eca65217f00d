"""Derivatives of factorisations beside differences, forwards and backwards; what has no derivative is refused; layouts and refusals of least squares."""
import math
import re
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight.autograd import forward_ad

L = rl.linalg


def matrix(*shape, complex=False, seed=0):
    generator = rl.Generator().manual_seed(seed)
    return rl.randn(*shape, dtype=rl.complex128 if complex else rl.float64, generator=generator)


def positive(a): return a @ a.mH + rl.eye(a.shape[-1], dtype=a.dtype)


# Functions of factors that do not see signs, phases or an order of vectors.
INVARIANT = {
    "matrix_exp": rl.matrix_exp,
    "eigvals": lambda a: L.eigvals(a).abs().sort(-1)[0],
    "eig": lambda a: (lambda w, v: (v * w.exp().unsqueeze(-2)) @ L.inv(v))(*L.eig(a)),
    "eig_sizes": lambda a: L.eig(a)[1].abs().sum(-1).sort(-1)[0],
    "eigh": lambda a: (lambda w, v: (v * w.sin().to(v.dtype).unsqueeze(-2)) @ v.mH)(*L.eigh(a + a.mH)),
    "eigvalsh": lambda a: L.eigvalsh(a + a.mH),
    "svd": lambda a: (lambda u, s, vh: (u * s.sin().to(u.dtype).unsqueeze(-2)) @ vh)(*L.svd(a, full_matrices=False)),
    "svd_sizes": lambda a: L.svd(a, full_matrices=False)[2].abs(),
    "svdvals": L.svdvals,
    "cholesky": lambda a: L.cholesky(positive(a)),
    "cholesky_inverse": lambda a: rl.cholesky_inverse(L.cholesky(positive(a))),
    "qr": lambda a: L.qr(a)[1].abs(),
    "lu": lambda a: L.lu(a)[1],
    "pinv": L.pinv,
    "slogdet": lambda a: L.slogdet(a)[1],
    "lstsq": lambda a: L.lstsq(a, a[..., :2].sin()).solution,
    "lstsq_residuals": lambda a: L.lstsq(a[..., :2], a[..., 2:].sin(), driver="gels").residuals,
}


def pushed(f, a, t):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(a, t))).tangent


@pytest.mark.parametrize("complex", [False, True])
@pytest.mark.parametrize("name", INVARIANT)
def test_forward_derivative_beside_differences(name, complex):
    f, a, t = INVARIANT[name], matrix(2, 4, 4, complex=complex), matrix(2, 4, 4, complex=complex, seed=1)
    step = 1e-5
    # A central difference of the fourth order: its own error is far below the tolerance.
    slope = (8 * (f(a + step * t) - f(a - step * t)) - (f(a + 2 * step * t) - f(a - 2 * step * t))) / (12 * step)
    got = pushed(f, a, t)
    assert got.shape == slope.shape and got.dtype == slope.dtype
    assert float((got - slope).abs().max()) <= 1e-7 * max(1.0, float(slope.abs().max()))


@pytest.mark.parametrize("name", ["matrix_exp", "eigvals", "eig", "lstsq", "cholesky_inverse"])
def test_second_derivative_beside_differences(name):
    a = matrix(3, 3, seed=2).requires_grad_()
    assert rl.autograd.gradgradcheck(INVARIANT[name], a)


def test_tangent_of_what_nothing_varies_is_zeros_of_its_shape():
    a = matrix(3, 4, 4)
    with forward_ad.dual_level():
        sign, size = L.slogdet(forward_ad.make_dual(a, a))
        tangent = forward_ad.unpack_dual(sign).tangent
        assert tangent.shape == sign.shape and not bool(tangent.any())
        assert bool((forward_ad.unpack_dual(size).tangent - 4).abs().max() < 1e-9)       # d log|det| along A itself is the order


WEIGHTS = matrix(3, 3, complex=True, seed=3)


@pytest.mark.parametrize("call, words", [
    (lambda a: L.eigh(a + a.mH)[1], "linalg_eigh_backward: The eigenvectors in the complex case"),
    (lambda a: L.eig(a)[1], "linalg_eig_backward: The eigenvectors in the complex case"),
    (lambda a: L.svd(a)[0], "svd_backward: The singular vectors in the complex case"),
    (lambda a: L.svd(a)[2], "svd_backward: The singular vectors in the complex case"),
    (lambda a: rl.svd(a)[2], "svd_backward: The singular vectors in the complex case"),
])
def test_losses_that_see_phases_are_refused(call, words):
    a = matrix(3, 3, complex=True).requires_grad_()
    with pytest.raises(RuntimeError, match=words): (call(a) * WEIGHTS).sum().abs().backward()
    call(a).abs().sum().backward()                          # one that does not is not
    assert bool(a.grad.isfinite().all())


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
def test_least_squares_lie_in_the_right_sides_memory(driver):
    a, b = matrix(2, 5, 3), matrix(2, 5, 2, seed=1)
    x = L.lstsq(a, b, driver=driver)
    assert x.solution.stride() == (10, 1, 5)
    assert x.solution.untyped_storage().nbytes() == 2 * 2 * 5 * 8
    assert float((a.mT @ (a @ x.solution - b)).abs().max()) < 1e-12
    assert x.rank.tolist() == ([] if driver == "gels" else [3, 3])
    assert x.singular_values.shape == ((2, 3) if driver in ("gelsd", "gelss") else (0,))
    assert x.residuals.shape == ((0,) if driver in (None, "gelsy") else (2, 2))
    wide = L.lstsq(a.mT, b[:, :3], driver=driver).solution
    assert wide.shape == (2, 5, 2) and wide.stride() == (10, 1, 5)
    vectors = L.lstsq(a, b[..., 0], driver=driver).solution
    assert vectors.shape == (2, 3) and vectors.stride() == (5, 1)


def test_least_squares_broadcast_over_a_missing_batch_dimension():
    a, b = matrix(2, 3, 5, 2), matrix(3, 5, 4, seed=1)
    x = L.lstsq(a, b).solution
    assert x.shape == (2, 3, 2, 4)
    assert float((a.mT @ (a @ x - b)).abs().max()) < 1e-12


def test_least_squares_inside_compile():
    a, b = matrix(5, 3), matrix(5, 2, seed=1)
    f = lambda a, b: L.lstsq(a * 2, b + 1).solution * 3
    assert bool((rl.compile(f)(a, b) == f(a, b)).all())


@pytest.mark.parametrize("driver", [None, "gels", "gelsd", "gelss"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_least_squares_of_what_is_not_finite(driver, bad):
    a = matrix(4, 3)
    a[1, 1] = bad
    with pytest.raises(RuntimeError, match="infs or NaNs"): L.lstsq(a, matrix(4, 2), driver=driver)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", [rl.float32, rl.float64, rl.complex64, rl.complex128])
def test_cholesky_sees_what_is_not_finite(dtype, upper):
    a = rl.eye(4, dtype=dtype) * 2
    a[2, 2] = math.nan
    with pytest.raises(L.LinAlgError, match="the leading minor of order 3"): L.cholesky(a, upper=upper)
    assert L.cholesky_ex(a, upper=upper).info.item() == 3
    a = rl.full((3, 3), math.inf, dtype=dtype)
    assert L.cholesky_ex(a, upper=upper).info.item() == 2
    a = rl.eye(3, dtype=dtype)
    a[0, 0] = math.inf                                      # a large number, no reason to fail
    assert L.cholesky_ex(a, upper=upper).info.item() == 0


def test_infinities_have_no_singular_values():
    a = rl.full((3, 2), math.inf)
    assert bool(L.svdvals(a).isnan().all()) and L.matrix_rank(a).item() == 0
    with pytest.raises(L.LinAlgError, match="non-finite"): L.svd(a)
    with pytest.raises(L.LinAlgError, match="non-finite"): L.svdvals(rl.full((3, 2), math.nan))
    assert L.cond(rl.full((3, 3), math.nan), 1).item() == math.inf


@pytest.mark.parametrize("call, kind, words", [
    (lambda: rl.cholesky_inverse(rl.zeros(3, 3)), L.LinAlgError, "cholesky_inverse: The diagonal element 1 is zero"),
    (lambda: L.lu(rl.ones(3)), RuntimeError, "linalg.lu: Expected tensor with 2 or more dimensions"),
    (lambda: L.lu_factor(rl.ones(2, 2, dtype=rl.int64)), NotImplementedError, '"lu_cpu" not implemented'),
    (lambda: L.qr(rl.ones(2, 2, dtype=rl.float16)), NotImplementedError, '"geqrf_cpu" not implemented'),
    (lambda: L.eigvals(rl.ones(2, 3)), RuntimeError, "linalg.eigvals: A must be batches of square matrices"),
    (lambda: L.cond(rl.ones(3), "fro"), RuntimeError, r"linalg.cond\(ord=fro\): The input tensor A"),
])
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words): call()


def test_nothing_in_nothing_out():
    assert L.cond(rl.zeros(0, 4, 2), 1).shape == (0,)
    assert L.matrix_rank(rl.zeros(0, 4, 2), hermitian=True).shape == (0,)
    assert L.pinv(rl.zeros(0, 4, 2), hermitian=True).shape == (0, 2, 4)
    assert rl.cholesky(rl.zeros(0, 3)).shape == (0, 3)
    assert rl.lu(rl.zeros(3, 3))[1].tolist() == [1, 2, 3]


def test_matrix_power_keeps_the_layout_of_one_factor():
    a = matrix(3, 3).mT
    assert L.matrix_power(a, 1).stride() == (1, 3) and L.matrix_power(a, -1).stride() == (1, 3) and L.matrix_power(a, 2).stride() == (3, 1)


def test_the_first_index_of_a_process_carries_its_tangent():
    """The handler of modes is imported when it is first needed: indexing needs it as calls do."""
    program = ("import rushlight as rl; from rushlight.autograd import forward_ad as f\n"
               "with f.dual_level(): print(f.unpack_dual(f.make_dual(rl.ones(3), rl.ones(3))[1:]).tangent.tolist())")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[1.0, 1.0]", done.stderr


@pytest.mark.parametrize("tau, other, left, words", [(2, (3, 1), True, "tau.shape[-1] must be equal to min(other.shape[-2], input.shape[-1])"), (4, (3, 1), True, "tau.shape[-1] must be"),
                                                     (0, (1, 3), False, "tau.shape[-1] must be equal to min(other.shape[-1], input.shape[-1])"),
                                                     (4, (4, 1), True, "other.shape[-2] must be equal to input.shape[-2]")])
def test_ormqr_wants_all_reflections(tau, other, left, words):
    with pytest.raises(RuntimeError, match=re.escape("torch.ormqr: " + words)): rl.ormqr(rl.eye(3), rl.ones(tau), rl.ones(other), left=left)
