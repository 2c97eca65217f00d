"""The array API standard: `Tensor.__array_namespace__()`, its functions beside numpy's, and where its rules differ from torch's."""
import inspect

import numpy as np
import pytest

import rushlight as rl
from rushlight import array_api as xp

X = np.arange(24.0).reshape(2, 3, 4) - 7.5
I = np.array([[3, 1, 2], [1, 3, 3]], dtype=np.int8)
M = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.25], [0.5, 0.25, 2.0]])


def same(got, expected):
    """The same dtype, shape and, to rounding, values."""
    expected = np.asarray(expected)
    got = got.numpy()
    assert got.dtype == expected.dtype and got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-12 if expected.dtype.itemsize >= 8 else 1e-6, atol=1e-12)


def test_the_namespace_of_a_tensor():
    x = rl.ones(2)
    assert x.__array_namespace__() is xp is x.__array_namespace__(api_version="2024.12")
    with pytest.raises(ValueError, match="2020.01"):
        x.__array_namespace__(api_version="2020.01")
    assert x.to_device("cpu") is x
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)


def test_every_name_is_there_and_documented():
    for space in (xp, xp.linalg, xp.fft):
        for name in space.__all__:
            value = getattr(space, name)
            if inspect.isroutine(value):
                assert value.__doc__, name
    assert xp.einsum is rl.einsum                            # outside the standard: torch's
    assert not hasattr(xp, "no_such_function")


# (function of a namespace and two arrays): evaluated by numpy and here.
CALLS = {
    "permute_dims": lambda n, a: n.permute_dims(a(X), (2, 0, 1)),
    "concat": lambda n, a: n.concat([a(X), a(X)], axis=1),
    "concat flattened": lambda n, a: n.concat([a(X), a(I)], axis=None),
    "stack": lambda n, a: n.stack([a(X), a(X)], axis=-1),
    "unstack": lambda n, a: n.unstack(a(X), axis=1)[2],
    "expand_dims": lambda n, a: n.expand_dims(a(X), axis=(0, -1)),
    "squeeze": lambda n, a: n.squeeze(n.expand_dims(a(X), axis=1), axis=1),
    "flip": lambda n, a: n.flip(a(X)),
    "flip axis": lambda n, a: n.flip(a(X), axis=(0, 2)),
    "roll": lambda n, a: n.roll(a(X), 2, axis=(0, 2)),
    "roll flattened": lambda n, a: n.roll(a(X), 5),
    "moveaxis": lambda n, a: n.moveaxis(a(X), (0, 1), (2, 0)),
    "repeat": lambda n, a: n.repeat(a(I), 2),
    "repeat axis": lambda n, a: n.repeat(a(I), a(np.array([1, 0, 2], dtype=np.int8)), axis=1),
    "tile": lambda n, a: n.tile(a(I), (2, 1, 2)),
    "matrix_transpose": lambda n, a: n.matrix_transpose(a(X)),
    "broadcast_arrays": lambda n, a: n.broadcast_arrays(a(X), a(X[:1]))[1],
    "sum": lambda n, a: n.sum(a(X), axis=(0, 2), keepdims=True),
    "sum of nothing": lambda n, a: n.sum(a(X), axis=()),
    "sum of int8": lambda n, a: n.sum(a(I)),
    "sum of uint8": lambda n, a: n.sum(a(I.astype(np.uint8)), axis=0),
    "sum of uint16": lambda n, a: n.sum(a(I.astype(np.uint16)), axis=()),
    "sum as float32": lambda n, a: n.sum(a(I), dtype=n.float32),
    "prod": lambda n, a: n.prod(a(I), axis=(0, 1), keepdims=True),
    "prod of uint8": lambda n, a: n.prod(a(I.astype(np.uint8)), axis=1),
    "prod of one number": lambda n, a: n.prod(a(np.array(3, dtype=np.int16))),
    "prod of nothing": lambda n, a: n.prod(a(X), axis=()),
    "max": lambda n, a: n.max(a(X), axis=(0, 1)),
    "min": lambda n, a: n.min(a(X), axis=-1, keepdims=True),
    "max of nothing": lambda n, a: n.max(a(X), axis=()),
    "mean": lambda n, a: n.mean(a(X), axis=1),
    "std": lambda n, a: n.std(a(X), axis=(0, 1), correction=0.5),
    "var": lambda n, a: n.var(a(X), correction=1, keepdims=True),
    "var of nothing": lambda n, a: n.var(a(X), axis=()),
    "any": lambda n, a: n.any(a(I > 2), axis=0),
    "all": lambda n, a: n.all(a(I), axis=(0, 1), keepdims=True),
    "count_nonzero": lambda n, a: n.count_nonzero(a(I - 1), axis=1),
    "argmax": lambda n, a: n.argmax(a(I)),
    "argmin": lambda n, a: n.argmin(a(I), axis=1, keepdims=True),
    "cumulative_sum": lambda n, a: n.cumulative_sum(a(I), axis=1, include_initial=True),
    "cumulative_prod": lambda n, a: n.cumulative_prod(a(X), axis=0),
    "diff": lambda n, a: n.diff(a(X), axis=1, n=2),
    "argsort": lambda n, a: n.argsort(a(I), axis=1, stable=True),
    "sort": lambda n, a: n.sort(a(I), axis=0),
    "searchsorted": lambda n, a: n.searchsorted(a(np.array([1.0, 2.0, 2.0])), a(np.array([2.0, 0.5])), side="right"),
    "take": lambda n, a: n.take(a(X), a(np.array([2, 0])), axis=1),
    "take from the end": lambda n, a: n.take(a(X[0, 0]), a(np.array([-1, 1]))),
    "take_along_axis": lambda n, a: n.take_along_axis(a(X), a(np.array([[[-1], [0], [2]]])), axis=2),
    "where": lambda n, a: n.where(a(I > 1), a(I), a(np.array(2, dtype=np.int32))),
    "nonzero": lambda n, a: n.nonzero(a(I > 2))[1],
    "isin": lambda n, a: n.isin(a(I), a(np.array([1, 7])), invert=True),
    "clip": lambda n, a: n.clip(a(X), -3.0, 4.0),
    "clip by arrays": lambda n, a: n.clip(a(X), a(np.full((4,), -1.0)), 2.0),
    "clip below": lambda n, a: n.clip(a(X), min=1.0),
    "bitwise_invert": lambda n, a: n.bitwise_invert(a(I)),
    "pow": lambda n, a: n.pow(a(np.abs(X)), 1.5),
    "maximum of a number": lambda n, a: n.maximum(a(X), 0.5),
    "copysign of a number": lambda n, a: n.copysign(a(X), a(np.float64(-1.0))),
    "equal": lambda n, a: n.equal(a(I), a(I.T[:, :1].T)),
    "astype": lambda n, a: n.astype(a(X), n.int32),
    "linspace": lambda n, a: n.linspace(0, 1, 5, dtype=n.float64, endpoint=False),
    "linspace of complex numbers": lambda n, a: n.linspace(0, 1 - 2j, 5, dtype=n.complex128),
    "arange": lambda n, a: n.arange(5, 1, -2, dtype=n.int16),
    "arange of nothing": lambda n, a: n.arange(5, 1, dtype=n.float64),
    "eye": lambda n, a: n.eye(3, 4, k=-1, dtype=n.int64),
    "eye outside": lambda n, a: n.eye(3, 4, k=4, dtype=n.int64),
    "full": lambda n, a: n.full(3, 2**64 - 1, dtype=n.uint64),
    "tril": lambda n, a: n.tril(a(X), k=1),
    "meshgrid": lambda n, a: n.meshgrid(a(X[0, 0]), a(X[0, :, 0]))[0],
    "tensordot": lambda n, a: n.tensordot(a(M), a(M), axes=([0], [1])),
    "vecdot": lambda n, a: n.vecdot(a(X * 1j), a(X + 2j), axis=1),
    "vecdot of integers": lambda n, a: n.vecdot(a(I), a(I)),
    "matmul": lambda n, a: n.matmul(a(M), a(M)),
    "linalg.solve": lambda n, a: n.linalg.solve(a(np.stack([M] * 3)), a(M)),
    "linalg.matrix_norm": lambda n, a: n.linalg.matrix_norm(a(X), ord=1, keepdims=True),
    "linalg.vector_norm": lambda n, a: n.linalg.vector_norm(a(X), axis=(0, 2), ord=3),
    "linalg.trace": lambda n, a: n.linalg.trace(a(M), offset=1),
    "linalg.diagonal": lambda n, a: n.linalg.diagonal(a(X), offset=1),
    "linalg.cross": lambda n, a: n.linalg.cross(a(M), a(M[::-1].copy())),
    "linalg.outer": lambda n, a: n.linalg.outer(a(I[0]), a(I[1])),
    "linalg.qr": lambda n, a: n.abs(n.linalg.qr(a(M)).R),
    "linalg.svd": lambda n, a: n.linalg.svd(a(M), full_matrices=False).S,
    "linalg.cholesky": lambda n, a: n.linalg.cholesky(a(M), upper=True),
    "fft.fft": lambda n, a: n.fft.fft(a(X + 0j), axis=1, n=5),
    "fft.irfftn": lambda n, a: n.fft.irfftn(a(X + 1j), axes=(0, 2)),
    "fft.fftshift": lambda n, a: n.fft.fftshift(a(X), axes=(1,)),
    "fft.rfftfreq": lambda n, a: n.fft.rfftfreq(7, d=0.5),
}
# numpy's functions are called otherwise here than the standard says.
NUMPY = {
    "expand_dims": np.expand_dims(X, (0, -1)),
    "unstack": X[:, 2],
    "tensordot": np.tensordot(M, M, ([0], [1])),
    "vecdot": np.sum(np.conj(X * 1j) * (X + 2j), axis=1),
    "vecdot of integers": np.sum(I * I, axis=1, dtype=np.int8),
    "linalg.solve": np.stack([np.eye(3)] * 3),
    "sum of uint16": I.astype(np.uint64),
    "cumulative_sum": np.concatenate([np.zeros((2, 1), np.int64), np.cumsum(I, axis=1, dtype=np.int64)], axis=1),
    "cumulative_prod": np.cumprod(X, axis=0),
    "var of nothing": np.zeros_like(X),
    "fft.rfftfreq": np.fft.rfftfreq(7, 0.5).astype(np.float32),
    "concat flattened": np.concatenate([X.ravel(), I.ravel()]),
}


@pytest.mark.parametrize("name", CALLS)
def test_beside_numpy(name):
    call = CALLS[name]
    same(call(xp, xp.asarray), NUMPY[name] if name in NUMPY else call(np, np.asarray))


def test_promotion_looks_at_dtypes_only():
    small, wide = rl.ones(2, dtype=rl.float32), rl.ones((), dtype=rl.float64)
    assert (small + wide).dtype is rl.float32                # torch's rule for operators
    assert xp.add(small, wide).dtype is rl.float64
    assert xp.where(rl.tensor(True), small, wide).dtype is rl.float64
    assert xp.add(small, 1j).dtype is rl.complex64 and xp.subtract(1.5, rl.ones(2, dtype=rl.int8)).dtype is rl.float32
    for name, a in xp.__array_namespace_info__().dtypes(kind="integral").items():
        for other, b in xp.__array_namespace_info__().dtypes(kind="integral").items():
            expected = np.promote_types(name, other)
            if expected.kind == "f":                          # uint64 with a signed one
                with pytest.raises(TypeError, match="uint64"):
                    xp.result_type(a, b)
                continue
            assert xp.result_type(a, b) is getattr(xp, expected.name)
            assert xp.can_cast(a, b) == np.can_cast(name, other)
            same(xp.add(rl.ones(2, dtype=a), rl.ones((), dtype=b)), np.full(2, 2, expected))
    assert xp.result_type(rl.int8, 3, rl.uint8) is rl.int16
    with pytest.raises(ValueError):
        xp.result_type(1, 2)


def test_kinds_and_limits_of_dtypes():
    assert xp.isdtype(rl.int8, "signed integer") and xp.isdtype(rl.float64, ("integral", "real floating")) and xp.isdtype(rl.bool, rl.bool)
    assert not xp.isdtype(rl.uint8, "signed integer") and not xp.isdtype(rl.bool, "numeric")
    with pytest.raises(ValueError, match="integer"):
        xp.isdtype(rl.int8, "integer")
    facts = xp.finfo(rl.complex64)
    assert (facts.bits, facts.eps, facts.dtype) == (32, 2.0**-23, rl.float32)
    assert xp.iinfo(rl.ones(1, dtype=rl.uint16)) == (16, 65535, 0, rl.uint16)
    info = xp.__array_namespace_info__()
    assert info.default_dtypes() == {"real floating": rl.float32, "complex floating": rl.complex64, "integral": rl.int64, "indexing": rl.int64}
    assert info.dtypes(kind=("bool", "real floating")) == {"bool": rl.bool, "float32": rl.float32, "float64": rl.float64}
    assert info.default_device() == rl.device("cpu") == info.devices()[0]


def test_copies_where_asked_for():
    x = rl.arange(6.0)
    assert xp.asarray(x) is x and xp.astype(x, rl.float32, copy=False) is x
    for copy in (xp.asarray(x, copy=True), xp.astype(x, rl.float32), xp.reshape(x, (2, 3), copy=True), xp.from_dlpack(x, copy=True)):
        copy.fill_(9)
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    xp.reshape(x, (2, 3), copy=False).fill_(1)
    assert x.tolist() == [1] * 6
    with pytest.raises(ValueError):
        xp.reshape(x.reshape(2, 3).mT, (6,), copy=False)
    with pytest.raises(ValueError):
        xp.asarray([1, 2], copy=False)


@pytest.mark.parametrize("dtype", ["float32", "int16", "complex64"])
def test_unique(dtype):
    data = np.array([[3, 1, -2], [1, 0, 3]], dtype)
    if dtype == "complex64":
        data[0] += 1j
        data[1, 0] = 1 + 1j
        data[1, 1] = complex(-0.0, 0.0)
    x = xp.asarray(data)
    values, indices, inverse, counts = xp.unique_all(x)
    expected = np.unique(data, return_index=True, return_inverse=True, return_counts=True)
    for got, want in zip((values, indices, inverse, counts), expected):
        same(got, want.reshape(got.shape))
    same(values[inverse], data)
    assert [list(r.tolist()) for r in xp.unique_counts(x)] == [values.tolist(), counts.tolist()]
    assert xp.unique_inverse(x).inverse_indices.tolist() == inverse.tolist() and xp.unique_values(x).tolist() == values.tolist()


def test_each_nan_is_a_value_of_its_own():
    values, indices, inverse, counts = xp.unique_all(xp.asarray([np.nan, 1.0, np.nan]))
    assert np.isnan(values.numpy()).tolist() == [False, True, True]
    assert (indices.tolist(), inverse.tolist(), counts.tolist()) == ([1, 0, 2], [1, 0, 2], [1, 1, 1])


def test_signs_of_zero_and_nan():
    assert np.isnan(xp.sign(xp.asarray([np.nan])).numpy()).all()
    of_complex = xp.sign(xp.asarray([complex(-0.0, -0.0), 3 + 4j])).numpy()
    np.testing.assert_allclose(of_complex, np.array([0, 0.6 + 0.8j], "complex64"))
    assert not np.signbit(of_complex.real[0]) and not np.signbit(of_complex.imag[0])


@pytest.mark.parametrize("call, error", [
    (lambda: xp.squeeze(rl.ones(2, 3), 1), ValueError),
    (lambda: xp.sum(rl.ones(2), axis=1), IndexError),
    (lambda: xp.sum(rl.ones(2, 2), axis=(0, -2)), ValueError),
    (lambda: xp.nonzero(rl.tensor(1)), ValueError),
    (lambda: xp.cumulative_sum(rl.ones(2, 2)), ValueError),
    (lambda: xp.take(rl.ones(2, 2), rl.tensor([0])), ValueError),
    (lambda: xp.broadcast_shapes((2,), (3,)), ValueError),
    (lambda: xp.matrix_transpose(rl.ones(2)), ValueError),
    (lambda: xp.vecdot(rl.ones(3), rl.ones(1)), ValueError),
    (lambda: xp.linalg.cross(rl.ones(2, 3), rl.ones(2)), ValueError),
    (lambda: xp.isdtype(rl.int8, (("bool",),)), TypeError),
    (lambda: xp.linspace(0, 1j, 3, dtype=rl.float32), RuntimeError),
])
def test_what_is_refused(call, error):
    with pytest.raises(error):
        call()


def test_gradients_pass_through():
    x = rl.tensor([1.0, -2.0], requires_grad=True)
    xp.sum(xp.multiply(xp.astype(x, xp.float64), xp.asarray([3.0, 4.0], dtype=xp.float64)), axis=0).backward()
    assert x.grad.tolist() == [3.0, 4.0]
