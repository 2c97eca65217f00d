"""dtypes that few operators meet: 8-bit floats, complex32, wide unsigned integers."""
import numpy as np
import pytest

import rushlight as rl

FORMATS = {"float8_e4m3fn": (3, 7, 448.0, 448.0), "float8_e5m2": (2, 15, 57344.0, float("inf"))}      # mantissa bits, bias, largest, what overflows


def decoded(name):
    """All 256 values, from the format's definition."""
    mantissa, bias, _, _ = FORMATS[name]
    codes = np.arange(256)
    exponent, fraction = (codes & 0x7f) >> mantissa, codes & ((1 << mantissa) - 1)
    size = np.where(exponent > 0, (1 + fraction / 2.0 ** mantissa) * 2.0 ** (exponent - bias), fraction / 2.0 ** mantissa * 2.0 ** (1 - bias))
    if name == "float8_e4m3fn": size[(codes & 0x7f) == 0x7f] = np.nan
    else: size[(codes & 0x7f) == 0x7c], size[(codes & 0x7f) > 0x7c] = np.inf, np.nan
    return np.where(codes & 0x80, -size, size).astype("float32")


@pytest.mark.parametrize("name", FORMATS)
def test_float8_to_float(name):
    got = rl.from_numpy(np.arange(256, dtype="uint8")).view(getattr(rl, name)).float().numpy()
    assert np.array_equal(got, decoded(name), equal_nan=True) and np.array_equal(np.signbit(got), np.signbit(decoded(name)))


@pytest.mark.parametrize("name", FORMATS)
def test_float_to_float8(name):
    """The nearest of all finite values, ties to the even code, beyond the last tie what the format has for it."""
    mantissa, _, top, beyond = FORMATS[name]
    values = decoded(name)
    finite = np.sort(values[:0x80][np.isfinite(values[:0x80])].astype("float64"))
    x = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, np.linspace(0, top, 5001), np.geomspace(1e-9, top, 3001)]).astype("float32")
    codes = np.arange(len(finite))
    right = np.clip(np.searchsorted(finite, x), 1, len(finite) - 1)
    low, high = x - finite[right - 1], finite[right] - x
    want = finite[np.where((low < high) | (low == high) & (codes[right] % 2 == 1), right - 1, right)]
    dtype = getattr(rl, name)
    for sign in (1, -1): assert np.array_equal(rl.from_numpy(sign * x).to(dtype).float().numpy(), (sign * want).astype("float32"))
    far = rl.tensor([top * 1.2, 1e30, float("inf"), -float("inf")]).to(dtype).float().tolist()
    assert far == [beyond, beyond, beyond, -beyond]
    assert rl.tensor([float("nan")]).to(dtype).isnan().all() and rl.tensor([1e300, 2.0], dtype=rl.float64).to(dtype).float().tolist() == [beyond, 2.0]


@pytest.mark.parametrize("name", FORMATS)
def test_float8_is_for_storage(name):
    x = rl.tensor([1.0, 2.0, -3.0]).to(getattr(rl, name))
    assert rl.cat([x, x.flip(0)]).tolist() == [1, 2, -3, -3, 2, 1] and (x == x).all() and rl.where(x == x, x, x).tolist() == [1, 2, -3]
    for bad in (lambda: x + x, lambda: x.exp(), lambda: x.sum(), lambda: x.sort(), lambda: -x):
        with pytest.raises(NotImplementedError, match="not implemented for 'Float8"): bad()
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"): x + rl.ones(3)


def test_complex32():
    rng = np.random.default_rng(0)
    z = (rng.standard_normal(70) + 1j * rng.standard_normal(70)).astype("complex64")
    half = rl.from_numpy(z).chalf()
    parts = z.view("float32").astype("float16")
    assert half.dtype is rl.complex32 and np.array_equal(rl.view_as_real(half).numpy().ravel(), parts)
    wide = half.to(rl.complex64)
    assert np.array_equal(wide.numpy().view("float32"), parts.astype("float32"))
    assert rl.equal((half * half).to(rl.complex64), (wide * wide).chalf().to(rl.complex64)) and half.abs().dtype is rl.float16
    assert rl.complex(rl.ones(2).half(), rl.zeros(2).half()).dtype is rl.complex32


@pytest.mark.parametrize("name, top", [("uint16", 2 ** 16 - 1), ("uint32", 2 ** 32 - 1), ("uint64", 2 ** 64 - 1)])
def test_wide_unsigned(name, top):
    dtype = getattr(rl, name)
    x, y = rl.tensor([1, 2, top], dtype=dtype), rl.tensor([3, 2, 1], dtype=dtype)
    assert (x + y).tolist() == [4, 4, 0] and (x * y).tolist() == [3, 4, top] and (x // y).tolist() == [0, 1, top]
    assert (x > y).tolist() == [False, False, True] and x.max().item() == top and x.sort(descending=True)[0].tolist() == [top, 2, 1]
    assert x.double().tolist() == [1.0, 2.0, float(top)] and x.to(rl.int8).tolist() == [1, 2, -1] and rl.tensor([-1]).to(dtype).tolist() == [top]
    for other in (rl.ones(3, dtype=rl.int32), rl.ones(3, dtype=rl.bool), rl.ones(3, dtype=rl.complex64)):
        with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"): x + other
    assert (x + 1.5).dtype is rl.float32 and (x + 1j).dtype is rl.complex64 and (x + True).dtype is dtype


def test_hashes():
    x = np.array([[1.5, -2.0, 3.25], [0.0, 1e300, -7.0]])
    want = np.bitwise_xor.reduce(x.view("uint64"), axis=1)
    assert rl.hash_tensor(rl.from_numpy(x), 1).tolist() == want.tolist() and rl.hash_tensor(rl.from_numpy(x)).item() == int(want[0] ^ want[1])
    assert rl.hash_tensor(rl.tensor([1, -1], dtype=rl.int8)).item() == 2 ** 64 - 2
