"""Linear algebra and Fourier transforms: what the generated operator tests cannot say. Factors multiply back, errors, the library is opened late and survives fork."""
import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight as rl

rng = np.random.default_rng(0)
DTYPES = ("float32", "float64", "complex64", "complex128")
CLOSE = {"float32": 2e-5, "complex64": 2e-5, "float64": 1e-12, "complex128": 1e-12}


def random(dtype, *shape):
    x = rng.standard_normal(shape) + (1j * rng.standard_normal(shape) if dtype.startswith("c") else 0)
    return x.astype(dtype)


def near(a, b, dtype): np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=CLOSE[dtype] * max(1.0, np.abs(b).max()), rtol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (2, 6, 4)])
def test_factors_multiply_back(dtype, shape):
    a = random(dtype, *shape)
    t = rl.from_numpy(a)
    q, r = rl.linalg.qr(t)
    near((q @ r).numpy(), a, dtype)
    near((q.mH @ q).resolve_conj().numpy(), np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1])), dtype)
    u, s, vh = rl.linalg.svd(t, full_matrices=False)
    near((u * s.to(u.dtype).unsqueeze(-2) @ vh).numpy(), a, dtype)
    assert bool((s[..., :-1] >= s[..., 1:]).all())
    p, low, up = rl.linalg.lu(t)
    near((p @ low @ up).numpy(), a, dtype)
    inverse = rl.linalg.pinv(t)
    near((t @ inverse @ t).numpy(), a, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_square_matrices(dtype):
    a = random(dtype, 3, 5, 5)
    t = rl.from_numpy(a)
    h = t + t.mH
    w, v = rl.linalg.eigh(h)
    near((v * w.to(v.dtype).unsqueeze(-2) @ v.mH).resolve_conj().numpy(), h.resolve_conj().numpy(), dtype)
    w, v = rl.linalg.eig(t)
    near((t.to(v.dtype) @ v).numpy(), (v * w.unsqueeze(-2)).numpy(), dtype)
    b = rl.from_numpy(random(dtype, 3, 5, 2))
    near((t @ rl.linalg.solve(t, b)).numpy(), b.numpy(), dtype)
    near((t @ rl.linalg.inv(t)).numpy(), np.broadcast_to(np.eye(5), (3, 5, 5)), dtype)
    near(rl.linalg.det(t).numpy(), np.linalg.det(a), dtype)
    positive = t @ t.mH + rl.eye(5).to(t.dtype)
    low = rl.linalg.cholesky(positive)
    near((low @ low.mH).numpy(), positive.numpy(), dtype)


@pytest.mark.parametrize("call, words", [
    (lambda m: rl.linalg.cholesky(-rl.eye(3)), "linalg.cholesky: The factorization could not be completed because the input is not positive-definite"),
    (lambda m: rl.linalg.inv(m), "linalg.inv: The diagonal element 1 is zero"),
    (lambda m: rl.linalg.inv(m.expand(2, 3, 3)), r"linalg.inv: \(Batch element 0\): The diagonal element 1 is zero"),
    (lambda m: rl.linalg.solve(m, rl.ones(3)), "torch.linalg.solve: The solver failed because the input matrix is singular"),
    (lambda m: rl.linalg.svd(m * float("nan")), "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values"),
])
def test_matrices_without_an_answer(call, words):
    with pytest.raises(rl.linalg.LinAlgError, match=words): call(rl.zeros(3, 3))


def test_out_is_untouched_by_an_error():
    out = rl.full((3, 3), 7.0)
    with pytest.raises(rl.linalg.LinAlgError): rl.linalg.inv(rl.zeros(3, 3), out=out)
    assert bool((out == 7).all())


def test_results_do_not_depend_on_threads():
    t = rl.from_numpy(random("float32", 40, 30, 30))
    before = rl.get_num_threads()
    try:
        found = []
        for n in (1, 2):
            rl.set_num_threads(n)
            found.append([x.numpy().tobytes() for x in (*rl.linalg.svd(t), rl.linalg.inv(t), rl.fft.fft2(t), rl.fft.fft(t, dim=0))])
    finally: rl.set_num_threads(before)
    assert found[0] == found[1]


PROGRAM = """
import os, sys
import rushlight as rl
loaded = lambda: any("openblas" in line and "scipy" in line for line in open("/proc/self/maps")) if os.path.exists("/proc/self/maps") else None
before = loaded()
a = rl.eye(40) * 2 + rl.ones(40, 40)
first = rl.linalg.inv(a)
child = os.fork()
if child == 0:
    again = rl.linalg.inv(a.expand(8, 40, 40))
    os._exit(0 if bool((again[3] == first).all()) else 1)
_, status = os.waitpid(child, 0)
print(before, status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_library_opens_late_and_survives_fork():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, env={**os.environ})
    assert ran.returncode == 0, ran.stderr
    before, status = ran.stdout.split()
    assert before in ("False", "None") and status == "0"


@pytest.mark.parametrize("n", [1, 2, 3, 8, 13, 17, 30, 49, 64, 97, 210, 256, 1009, 1024])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_fourier_against_numpy(n, dtype):
    x = random(dtype, 3, n)
    t = rl.from_numpy(x)
    limit = 1e-6 if dtype == "complex64" else 1e-14
    for ours, theirs in ((rl.fft.fft(t), np.fft.fft(x)), (rl.fft.ifft(t), np.fft.ifft(x)), (rl.fft.fft(t.mT.contiguous(), dim=0).mT, np.fft.fft(x)),
                         (rl.fft.rfft(t.real), np.fft.rfft(x.real)), (rl.fft.irfft(t, n), np.fft.irfft(x, n)), (rl.fft.fft(t.real), np.fft.fft(x.real))):
        assert np.abs(ours.numpy() - theirs).max() <= limit * max(1e-3, np.abs(theirs).max()) * 2


def test_short_time_transform_and_back():
    x = rl.from_numpy(rng.standard_normal((2, 400)).astype("float32"))
    window = rl.hann_window(64)
    spectrum = rl.stft(x, 64, 16, window=window, return_complex=True)
    assert tuple(spectrum.shape) == (2, 33, 26)
    back = rl.istft(spectrum, 64, 16, window=window, length=400)
    np.testing.assert_allclose(back.numpy(), x.numpy(), atol=2e-6)
