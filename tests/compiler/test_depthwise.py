"""Depthwise convolutions: values and gradients at the edges of their blocks, the same bits in every layout."""
import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F

CASES = {                     # batch, channels, extent, taps, options
    "7x7, one image": (1, 24, (7, 7), (3, 3), {"padding": 1}),
    "7x7, more images than are summed together": (13, 20, (7, 7), (3, 3), {"padding": 1}),
    "fewer pixels than a vector": (2, 19, (2, 3), (3, 3), {"padding": 1}),
    "two pixels to a phase": (2, 9, (3, 5), (3, 3), {"padding": 1, "stride": 3}),
    "one pixel": (3, 9, (1, 1), (3, 3), {"padding": 1}),
    "narrow": (2, 17, (12, 2), (3, 1), {"padding": (1, 0)}),
    "more padding than taps": (2, 33, (5, 4), (3, 2), {"padding": (5, 3)}),
    "fewer taps than the stride": (2, 18, (11, 13), (1, 2), {"stride": 3}),
    "dilated and strided": (2, 33, (14, 21), (3, 3), {"padding": (2, 1), "dilation": 2, "stride": (1, 3)}),
    "several blocks of rows": (2, 9, (75, 66), (3, 3), {"padding": 1}),
    "several blocks of rows, strided": (1, 9, (140, 67), (5, 3), {"padding": 2, "stride": 2}),
    "a row wider than a block": (1, 5, (4, 4200), (3, 3), {"padding": 1}),
    "49 taps": (2, 12, (9, 10), (7, 7), {"padding": 3}),
    "more channels than take turns": (2, 300, (5, 6), (3, 3), {"padding": 1}),
    "line": (3, 20, (29,), (5,), {"padding": 2, "stride": 2}),
    "volume": (2, 12, (4, 5, 6), (3, 2, 3), {"padding": 1, "stride": (1, 2, 1)}),
    "volume, dilated": (2, 9, (6, 5, 7), (2, 3, 2), {"padding": (2, 0, 1), "dilation": (3, 1, 2)}),
}


def each(value, count):
    return value if isinstance(value, tuple) else (value,) * count


def reference(x, w, g, stride=1, padding=0, dilation=1):
    """In float64, tap by tap: the result, the gradients of x and w."""
    n = x.ndim - 2
    stride, padding, dilation = (each(v, n) for v in (stride, padding, dilation))
    x, w, g = (a.astype("float64") for a in (x, w, g))
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    y, dx, dw = np.zeros(g.shape), np.zeros(padded.shape), np.zeros(w.shape)
    for tap in itertools.product(*(range(t) for t in w.shape[2:])):
        at = (..., *(slice(t * d, t * d + (e - 1) * s + 1, s) for t, d, e, s in zip(tap, dilation, g.shape[2:], stride)))
        weight = w[(slice(None), 0, *tap)].reshape(-1, *(1,) * n)
        y += padded[at] * weight
        dx[at] += g * weight
        dw[(slice(None), 0, *tap)] = (padded[at] * g).sum((0, *range(2, 2 + n)))
    return y, dx[(..., *(slice(p, p + e) for p, e in zip(padding, x.shape[2:])))], dw


def sliced(a):
    """The same numbers inside a larger tensor."""
    out = rl.zeros(*(s + 3 for s in a.shape), dtype=a.dtype)
    inner = tuple(slice(1, 1 + s) for s in a.shape)
    out[inner] = a
    return out[inner]


def run(x, w, g, options, x_placed, g_placed, threads=1):
    x, w, g = x_placed(rl.from_numpy(x)).detach().requires_grad_(), rl.from_numpy(w).requires_grad_(), g_placed(rl.from_numpy(g))
    before = rl.get_num_threads()
    rl.set_num_threads(threads)
    try:
        y = {3: F.conv1d, 4: F.conv2d, 5: F.conv3d}[x.dim()](x, w, groups=x.shape[1], **options)
        y.backward(g)
    finally:
        rl.set_num_threads(before)
    return [t.detach().contiguous().numpy() for t in (y, x.grad, w.grad)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_values_and_bits(case, dtype):
    batch, channels, extent, taps, options = CASES[case]
    rng = np.random.default_rng(5)
    draw = lambda *shape: rng.standard_normal(shape).astype(dtype)
    x, w = draw(batch, channels, *extent), draw(channels, 1, *taps)
    stride, padding, dilation = (each(options.get(name, default), len(extent)) for name, default in (("stride", 1), ("padding", 0), ("dilation", 1)))
    g = draw(batch, channels, *((e + 2 * p - d * (t - 1) - 1) // s + 1 for e, p, d, t, s in zip(extent, padding, dilation, taps, stride)))
    as_it_is = lambda t: t
    got = run(x, w, g, options, as_it_is, as_it_is)
    for mine, want in zip(got, reference(x, w, g, **options)):
        assert mine.shape == want.shape
        assert np.abs(mine - want).max() <= (2e-5 if dtype == "float32" else 1e-13) * max(1, np.abs(want).max())
    layouts = [as_it_is, sliced]
    if len(extent) > 1:
        layouts.append(lambda t: t.to(memory_format=rl.channels_last if len(extent) == 2 else rl.channels_last_3d))
    for x_placed, g_placed, threads in itertools.product(layouts, layouts, (1, 2)):
        for mine, want in zip(run(x, w, g, options, x_placed, g_placed, threads), got):
            assert mine.tobytes() == want.tobytes()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("side", [7, 70])
def test_bias_and_activation_join(side, last):
    x, w, b = rl.randn(2, 20, side, side), rl.randn(20, 1, 3, 3), rl.randn(20)
    if last: x = x.to(memory_format=rl.channels_last)
    want = F.relu(F.conv2d(x, w, None, 1, 1, 1, 20) + b.view(-1, 1, 1))
    assert rl.equal(F.relu(F.conv2d(x, w, b, 1, 1, 1, 20)), want)
    assert rl.equal(rl.compile(lambda x: F.relu(F.conv2d(x, w, b, 1, 1, 1, 20)))(x), want)


@pytest.mark.parametrize("name", ["int8", "int16", "int64"])
def test_integers(name):
    x, w = rl.randint(-9, 9, (2, 20, 9, 10)), rl.randint(-3, 3, (20, 1, 3, 3))
    want = F.conv2d(x.double(), w.double(), None, 2, 1, 1, 20).to(getattr(rl, name))
    x, w = (t.to(getattr(rl, name)) for t in (x, w))
    assert rl.equal(F.conv2d(x, w, None, 2, 1, 1, 20), want)
    assert rl.equal(F.conv2d(x.to(memory_format=rl.channels_last), w, None, 2, 1, 1, 20), want)
