"""Windows whose rows are long enough for vectors along their taps (emit/taps.py): the place of the largest element, beside a loop in Python."""
import itertools
import math

import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F

SIZES = {1: [(2, 3, 40), (1, 2, 8), (3, 1, 71)], 2: [(2, 3, 5, 24), (1, 2, 9, 50), (2, 1, 16, 31)], 3: [(1, 3, 4, 6, 24), (2, 1, 3, 5, 37)]}


def filled(kind, shape, dtype):
    rng = np.random.default_rng(len(shape) * 7 + shape[-1])
    if kind == "ties": return rng.integers(-2, 2, shape).astype(dtype)
    x = rng.standard_normal(shape).astype(dtype)
    if kind == "nan": x[rng.random(shape) < 0.05] = math.nan
    if kind == "nothing": x[...] = np.where(rng.random(shape) < 0.02, math.nan, -math.inf)
    return x


def by_hand(x, outs):
    """Values and places: the first of equals, the last NaN, place 0 of the window if nothing is above -inf."""
    sizes = x.shape[2:]
    values, places = np.empty((*x.shape[:2], *outs), x.dtype), np.empty((*x.shape[:2], *outs), np.int64)
    for at in itertools.product(*map(range, values.shape)):
        ranges = [range(i * n // m, -(-(i + 1) * n // m)) for i, n, m in zip(at[2:], sizes, outs)]
        best, place = -math.inf, [r[0] for r in ranges]
        for p in itertools.product(*ranges):
            v = x[(*at[:2], *p)]
            if v > best or v != v: best, place = v, p
        values[at], places[at] = x[(*at[:2], *place)], np.ravel_multi_index(tuple(place), sizes)
    return values, places


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["any", "ties", "nan", "nothing"])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_largest_of_long_windows(dims, kind, dtype):
    pool = getattr(F, f"adaptive_max_pool{dims}d")
    for shape in SIZES[dims]:
        x = filled(kind, shape, dtype)
        for last in (1, 2, 3, 5):                            # windows that share elements, that do not, and rows of less than a vector
            outs = (*[2] * (dims - 1), last)
            want = by_hand(x, outs)
            got = pool(torch.from_numpy(x), outs, return_indices=True)
            for a, b in zip(got, want): np.testing.assert_array_equal(a.numpy(), b)


def test_same_bits_for_other_strides():
    x = torch.from_numpy(filled("nan", (2, 3, 20, 34), "float32"))
    wide = torch.zeros(2, 3, 22, 70)
    wide[:, :, 1:21, 2:70:2] = x
    want = F.adaptive_max_pool2d(x, (3, 2), return_indices=True)
    for y in (x.to(memory_format=torch.channels_last), wide[:, :, 1:21, 2:70:2], x.transpose(2, 3).contiguous().transpose(2, 3)):
        for a, b in zip(F.adaptive_max_pool2d(y, (3, 2), return_indices=True), want): np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_threads_agree():
    x = torch.from_numpy(filled("ties", (8, 16, 60, 64), "float32"))
    before = torch.get_num_threads()
    try:
        found = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append([t.numpy() for t in F.adaptive_max_pool2d(x, (4, 3), return_indices=True)])
    finally: torch.set_num_threads(before)
    for a, b in zip(*found): np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("outs", [(2, 1), (4, 1), (3, 2)])
@pytest.mark.parametrize("order", [(0, 1, 3, 2), (3, 2, 1, 0), (0, 3, 1, 2)])
def test_windows_of_permuted_tensors(order, outs):
    """Across windows two loops go over a window, and what the inner one needs of the outer one must be there."""
    for size in ((2, 1, 1, 8), (2, 3, 9, 8), (2, 3, 30, 17)):
        x = np.random.default_rng(3).standard_normal(size).astype("f")
        t = torch.from_numpy(x).permute(*order).contiguous().permute(*(order.index(i) for i in range(4)))
        got = F.adaptive_max_pool2d(t, outs, return_indices=True)
        for mine, want in zip(got, by_hand(x, outs)): np.testing.assert_array_equal(mine.numpy(), want)
