"""Functions of complex numbers: error bounds over the plane, C99's special values, branch cuts, gradients, matrix products."""
import math

import numpy as np
import pytest

import rushlight as rl

inf, nan = math.inf, math.nan
NUMPY = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}
# Largest error beside the size of the result, in units of eps: (complex64, complex128). Each part by itself is as good unless it nearly cancels.
BOUNDS = {"exp": (2, 2), "exp2": (1, 4), "expm1": (1, 3), "log": (1, 2), "log2": (1, 3), "log10": (1, 3), "log1p": (1, 3), "sin": (2, 2), "cos": (2, 2),
          "tan": (1, 3), "asin": (1, 3), "acos": (1, 3), "atan": (1, 3), "sinh": (2, 2), "cosh": (2, 2), "tanh": (1, 3), "asinh": (1, 3), "acosh": (1, 3),
          "atanh": (1, 3), "sqrt": (1, 1.5)}
WIDER = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant


@np.errstate(all="ignore")
def reference(name, z):
    z = z.astype(np.clongdouble)
    if name == "exp2": return np.exp(z * np.log(np.longdouble(2)))
    if name == "log2": return np.log(z) / np.log(np.longdouble(2))
    if name == "log10": return np.log(z) / np.log(np.longdouble(10))
    if name == "log1p":                                   # numpy's own loses small arguments; half of log1p(|1+z|^2 - 1) does not
        x, y = z.real, z.imag
        near = np.abs(z) < 0.5
        return np.where(near, np.log1p(np.where(near, x * (2 + x) + y * y, 0)) / 2, np.log(np.abs(1 + z))) + 1j * np.arctan2(y, 1 + x)
    return getattr(np, NUMPY.get(name, name))(z)


def points(dtype):
    rng = np.random.default_rng(0)
    plane = lambda: rng.standard_normal(500) + 1j * rng.standard_normal(500)
    tiny, huge = (1e-30, 1e30) if dtype is np.complex64 else (1e-200, 1e300)
    circle = np.exp(1j * rng.uniform(-np.pi, np.pi, 500))
    parts = [plane() * s for s in (tiny, 1e-8, 1e-3, 0.5, 1, 3, 30, 1e4, 1e15, huge)]
    return np.concatenate(parts + [circle * (1 + rng.standard_normal(500) * 1e-6), circle - 1, 1 + 1e-6 * plane(), -1 + 1e-6 * plane()]).astype(dtype)


@pytest.mark.skipif(not WIDER, reason="long double is no wider than double here")
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", BOUNDS)
def test_error_bounds(name, dtype):
    z = points(dtype)
    got, want = getattr(rl, name)(rl.from_numpy(z)).numpy(), reference(name, z)
    size, info = np.abs(want), np.finfo(dtype)
    fits = np.isfinite(want) & (size < info.max)
    error = np.abs(got[fits] - want[fits]) / np.maximum(size[fits], info.tiny) / info.eps
    assert np.isfinite(error).all() and error.max() <= BOUNDS[name][dtype is np.complex128], (error.max(), z[fits][error.argmax()])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", BOUNDS)
def test_special_values(name, dtype):
    """Annex G as numpy has it. Signs of zeros and infinities count where all other parts are numbers; elsewhere C leaves many open."""
    parts = [-inf, -1.5, -0.0, 0.0, 1.5, inf, nan]
    z = np.empty(len(parts) ** 2, dtype)
    z.real, z.imag = np.repeat(parts, len(parts)), np.tile(parts, len(parts))
    got = getattr(rl, name)(rl.from_numpy(z)).numpy()
    with np.errstate(all="ignore"): want = getattr(np, NUMPY.get(name, name))(z.astype(np.complex128))
    for x, g, w in zip(z.tolist(), got.tolist(), want.tolist()):
        if name == "log1p" and (math.isnan(x.real) or math.isnan(x.imag)): continue          # not in C
        open_sign = any(map(math.isnan, (w.real, w.imag))) or not (math.isfinite(x.real) and math.isfinite(x.imag))
        for a, b in ((g.real, w.real), (g.imag, w.imag)):
            if abs(b) == inf and open_sign: a, b = abs(a), abs(b)
            assert a != a if b != b else a == pytest.approx(b, rel=1e-5, abs=0), (x, g, w)
            if b == 0 and not open_sign: assert math.copysign(1, a) == math.copysign(1, b), (x, g, w)


@pytest.mark.parametrize("name", ["sigmoid", "rsqrt", "reciprocal"])
def test_composites_against_numpy(name):
    z = points(np.complex128)[1000:3500]
    want = {"sigmoid": lambda z: 1 / (1 + np.exp(-z)), "rsqrt": lambda z: 1 / np.sqrt(z), "reciprocal": lambda z: 1 / z}[name](z.astype(np.clongdouble))
    got = getattr(rl, name)(rl.from_numpy(z)).numpy()
    fits = np.isfinite(want) & (np.abs(want) > 1e-290)
    assert (np.abs(got - want)[fits] <= 1e-13 * np.abs(want)[fits]).all()


def test_powers():
    z = points(np.complex128)[1500:3000]
    for w in (2 + 0j, -1.5 + 0.5j, 0.5j, 3.0 + 0j):
        got, want = rl.pow(rl.from_numpy(z), rl.tensor(w, dtype=rl.complex128)).numpy(), z.astype(np.clongdouble) ** w
        assert (np.abs(got - want) <= 1e-12 * np.abs(want)).all()
    zero = rl.tensor([0j, 0j, 0j], dtype=rl.complex128)
    assert rl.pow(zero, rl.tensor([0j, 2 + 1j, 1 + 0j], dtype=rl.complex128)).tolist() == [1, 0, 0]
    assert rl.pow(rl.tensor([1 + 2j]), 1).tolist() == [1 + 2j] and rl.pow(rl.tensor([1 + 2j]), 2).tolist() == [-3 + 4j]


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "tanh", "asin", "acosh", "atan", "sigmoid", "log1p", "angle", "abs", "sgn", "prod", "cumprod", "logsumexp"])
def test_gradients(name):
    z = rl.tensor([0.3 + 0.4j, -1.2 + 0.7j, 2.0 - 0.5j], dtype=rl.complex128, requires_grad=True)
    function = (lambda x: getattr(rl, name)(x, 0)) if name in ("cumprod", "logsumexp") else getattr(rl, name)
    assert rl.autograd.gradcheck(function, (z,)) and rl.autograd.gradgradcheck(function, (z,))


@pytest.mark.parametrize("m, k, n", [(3, 4, 5), (1, 40, 7), (40, 7, 1), (33, 17, 20), (70, 65, 40)])
def test_products(m, k, n):
    rng = np.random.default_rng(0)
    a, b = ((rng.standard_normal(s) + 1j * rng.standard_normal(s)).astype("complex64") for s in ((2, m, k), (2, k, n)))
    want = a.astype(complex) @ b.astype(complex)
    dense = (rl.from_numpy(a) @ rl.from_numpy(b)).numpy()
    assert np.abs(dense - want).max() < 1e-6 * k * 4
    turned = lambda x: rl.from_numpy(np.ascontiguousarray(x.swapaxes(-1, -2))).transpose(-1, -2)
    assert np.array_equal((turned(a) @ turned(b)).numpy(), dense)                              # any strides, the same bits
    assert np.array_equal((rl.from_numpy(a.conj()).conj() @ rl.from_numpy(b)).numpy(), dense)  # a conjugate view too


def test_product_gradient():
    rng = np.random.default_rng(1)
    a, b = (rl.from_numpy(rng.standard_normal(s) + 1j * rng.standard_normal(s)).requires_grad_() for s in ((18, 17), (17, 19)))
    g = rng.standard_normal((18, 19)) + 1j * rng.standard_normal((18, 19))
    ga, gb = rl.autograd.grad(a @ b, (a, b), rl.from_numpy(g))
    A, B = a.detach().numpy(), b.detach().numpy()
    assert np.allclose(ga.numpy(), g @ B.conj().T, rtol=1e-12) and np.allclose(gb.numpy(), A.conj().T @ g, rtol=1e-12)


def test_compiled_bits():
    rng = np.random.default_rng(2)
    z = rl.from_numpy((rng.standard_normal(1000) + 1j * rng.standard_normal(1000)).astype("complex64"))
    f = lambda z: rl.tanh(rl.log1p(z) * 2) + rl.sqrt(z).abs()
    assert rl.equal(rl.compile(f)(z), f(z))
