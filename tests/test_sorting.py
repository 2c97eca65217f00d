"""Sorting, selecting, counting and looking up, against numpy: every dtype that has an order, ties, NaN, and rows on both sides of each threshold of csrc/sort.cpp."""
import numpy as np
import pytest

import rushlight as rl

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
LENGTHS = [1, 2, 24, 25, 160, 161, 700, 5000]


def row(dtype, n, seed=0, distinct=False):
    rng = np.random.default_rng(seed)
    if dtype == "bool": return rng.integers(0, 2, n).astype(bool)
    if dtype.startswith("float"):
        x = rng.standard_normal(n) * 3
        return (np.round(x, 0 if not distinct else 6)).astype(dtype)
    low, high = (0, 200) if dtype[0] == "u" else (-100, 100)
    return rng.integers(low, high, n).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", LENGTHS)
def test_sort_is_stable(dtype, n):
    x = row(dtype, n)
    values, indices = rl.from_numpy(x).sort()
    order = np.argsort(x, kind="stable")
    assert np.array_equal(indices.numpy(), order) and np.array_equal(values.numpy(), x[order])
    values, indices = rl.from_numpy(x).sort(descending=True)
    wide = -x.astype(np.float64) if dtype not in ("int64", "uint64") else -x.astype(object)
    assert np.array_equal(indices.numpy(), np.argsort(wide, kind="stable")) and np.array_equal(values.numpy(), x[indices.numpy()])


def test_bfloat16_sorts_by_value():
    x = rl.from_numpy(row("float32", 900, distinct=True)).to(rl.bfloat16)
    values, indices = x.sort()
    wide = x.float().numpy()
    assert np.array_equal(indices.numpy(), np.argsort(wide, kind="stable")) and np.array_equal(values.float().numpy(), np.sort(wide))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n", [9, 400])
def test_nan_is_largest_and_zeros_tie(dtype, n):
    x = row(dtype, n)
    x[:6] = [np.nan, 0.0, -0.0, np.inf, -np.inf, -np.nan]
    values, indices = rl.from_numpy(x).sort()
    assert np.array_equal(indices.numpy(), np.argsort(x, kind="stable"))                    # numpy's order: NaN last, equal zeros in place
    assert np.array_equal(np.signbit(values.numpy()), np.signbit(x[indices.numpy()]))       # the sign of zero survives
    down = rl.from_numpy(x).sort(descending=True).indices.numpy()
    assert set(down[:2]) == {0, 5} and list(down[:2]) == [0, 5]
    assert rl.from_numpy(x).topk(2).indices.tolist() == [0, 5]


@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_wide_keys_with_outliers(dtype):
    rng = np.random.default_rng(1)
    x = rng.integers(0, 1 << 20, 3000).astype(dtype)
    if dtype == "int64": x[[5, 900]] = np.iinfo(dtype).min, np.iinfo(dtype).max
    elif dtype == "uint64": x[[5, 900]] = 0, np.iinfo(dtype).max
    else: x[[5, 900]] = -1e300, 1e300
    values, indices = rl.from_numpy(x).sort()
    assert np.array_equal(indices.numpy(), np.argsort(x, kind="stable")) and np.array_equal(values.numpy(), np.sort(x))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
@pytest.mark.parametrize("n, k", [(1, 1), (7, 3), (129, 5), (1000, 10), (5000, 50), (5000, 4000), (9000, 5000)])
def test_topk_is_the_head_of_a_stable_sort(dtype, n, k):
    x = rl.from_numpy(row(dtype, n))
    for largest in (True, False):
        values, indices = x.topk(k, largest=largest)
        sorted_values, sorted_indices = x.sort(descending=largest)
        assert rl.equal(indices, sorted_indices[:k]) and rl.equal(values, sorted_values[:k])


def test_topk_of_an_ascending_row():
    x = rl.arange(100_000.0)
    assert x.topk(3).indices.tolist() == [99_999, 99_998, 99_997] and x.topk(3, largest=False).indices.tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
@pytest.mark.parametrize("n", [1, 2, 513, 6000])
def test_kthvalue_and_median(dtype, n):
    x = rl.from_numpy(row(dtype, n))
    values, indices = x.sort()
    for k in {1, n, (n + 1) // 2}:
        value, index = x.kthvalue(k)
        assert value.item() == values[k - 1].item() and index.item() == indices[k - 1].item()
    assert x.median().item() == values[(n - 1) // 2].item() and x.median(0).indices.item() == indices[(n - 1) // 2].item()


def test_medians_and_nan():
    x = rl.tensor([[3.0, float("nan"), 1.0, 2.0], [5.0, 4.0, 6.0, 7.0]])
    assert x.median(1).indices.tolist() == [1, 0] and x.nanmedian(1).values.tolist() == [2.0, 5.0]
    assert rl.tensor([float("nan")] * 3).nanmedian(0).indices.item() == 0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("n", [513, 1040, 5001])
def test_selecting_from_rows_with_extremes(dtype, n):
    """Buckets between the least and the greatest key: outliers on both ends (the greatest key of all is that of NaN), and many equal elements in the middle."""
    x = row(dtype, n, distinct=True)
    if dtype == "int64": x[[3, 7]] = np.iinfo(dtype).min, np.iinfo(dtype).max
    else: x[[3, 7, 11, 400]] = -np.inf, np.inf, np.nan, -0.0
    x[20:400] = x[19]
    order = np.argsort(x, kind="stable")
    for k in (1, 2, n // 2, n - 1, n): assert rl.from_numpy(x).kthvalue(k).indices.item() == order[k - 1]
    nan = int(np.isnan(x).sum())
    assert rl.from_numpy(x).median(0).indices.item() == (11 if nan else order[(n - 1) // 2])
    assert rl.from_numpy(x).nanmedian(0).indices.item() == order[(n - nan - 1) // 2]


def test_mode_is_the_smallest_of_the_most_frequent_and_last():
    assert [t.item() for t in rl.tensor([2, 1, 2, 1, 3]).mode()] == [1, 3]
    assert [t.item() for t in rl.tensor([float("nan")] * 3 + [1.0, 1.0]).mode()] == [1.0, 4]


def test_median_shares_its_gradient_and_sort_gives_it_back():
    x = rl.tensor([1.0, 2.0, 2.0, 3.0], requires_grad=True)
    x.median().backward()
    assert x.grad.tolist() == [0.0, 0.5, 0.5, 0.0]
    y = rl.tensor([3.0, 1.0, 2.0], requires_grad=True)
    (y.sort().values * rl.tensor([10.0, 20.0, 30.0])).sum().backward()
    assert y.grad.tolist() == [30.0, 10.0, 20.0]


# -------------------------------------------------------------------------------------------------------------------- counting
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 30, 900])
def test_unique(dtype, n):
    x = row(dtype, n)
    values, inverse, counts = rl.unique(rl.from_numpy(x), return_inverse=True, return_counts=True)
    want, want_inverse, want_counts = np.unique(x, return_inverse=True, return_counts=True)
    assert np.array_equal(values.numpy(), want) and np.array_equal(inverse.numpy(), want_inverse) and np.array_equal(counts.numpy(), want_counts)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_unique_entries(dim):
    x = np.random.default_rng(0).integers(0, 2, (6, 5, 2))
    values, inverse, counts = rl.unique(rl.from_numpy(x), return_inverse=True, return_counts=True, dim=dim)
    want, want_inverse, want_counts = np.unique(x, return_inverse=True, return_counts=True, axis=dim)
    assert np.array_equal(values.numpy(), want) and np.array_equal(inverse.numpy(), want_inverse.reshape(-1)) and np.array_equal(counts.numpy(), want_counts)


def test_unique_nan_and_consecutive():
    nan = float("nan")
    assert rl.unique(rl.tensor([nan, 1.0, nan]), return_counts=True)[1].tolist() == [1, 1, 1]
    values, inverse, counts = rl.unique_consecutive(rl.tensor([1, 1, 2, 1]), return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 2, 1], [0, 0, 1, 2], [2, 1, 1])
    assert rl.unique_consecutive(rl.tensor([[1, 2], [1, 2], [0, 2]]), dim=0).tolist() == [[1, 2], [0, 2]]
    with pytest.raises(RuntimeError, match="0 sized dimensions"): rl.unique(rl.empty(0, 2), dim=1)
    with pytest.raises(NotImplementedError, match="unique"): rl.unique(rl.ones(2, dtype=rl.complex64))


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "float16", "uint16"])
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(dtype, right):
    rows, values = np.sort(row(dtype, 60)), row(dtype, 200, seed=1)
    got = rl.searchsorted(rl.from_numpy(rows), rl.from_numpy(values), right=right)
    assert np.array_equal(got.numpy(), np.searchsorted(rows, values, side="right" if right else "left"))
    order = np.random.default_rng(0).permutation(60)
    shuffled, sorter = rows[order], np.argsort(rows[order], kind="stable")
    assert rl.equal(rl.searchsorted(rl.from_numpy(shuffled), rl.from_numpy(values), right=right, sorter=rl.from_numpy(sorter)), got)


def test_a_bad_sorter_is_refused():
    with pytest.raises(RuntimeError, match="sorter index out of range"): rl.searchsorted(rl.tensor([1.0, 2.0]), rl.tensor([1.0]), sorter=rl.tensor([0, 2]))


def test_isin_bincount_histograms():
    rng = np.random.default_rng(0)
    x, tests = rng.integers(0, 50, (20, 30)), rng.integers(0, 50, 17)
    assert np.array_equal(rl.isin(rl.from_numpy(x), rl.from_numpy(tests)).numpy(), np.isin(x, tests))
    assert not rl.isin(rl.tensor([float("nan")]), rl.tensor([float("nan"), 1.0])).item()
    flat, weights = x.reshape(-1), rng.standard_normal(600)
    assert np.array_equal(rl.bincount(rl.from_numpy(flat), minlength=60).numpy(), np.bincount(flat, minlength=60))
    assert np.array_equal(rl.bincount(rl.from_numpy(flat), rl.from_numpy(weights)).numpy(), np.bincount(flat, weights))
    with pytest.raises(RuntimeError, match="non-negative"): rl.bincount(rl.tensor([1, -1]))
    y = rng.standard_normal(500)
    hist, edges = rl.histogram(rl.from_numpy(y), 7, range=(-2.0, 1.5))
    want, want_edges = np.histogram(y, 7, (-2, 1.5))
    assert np.array_equal(hist.numpy(), want) and np.allclose(edges.numpy(), want_edges)
    assert np.array_equal(rl.histc(rl.from_numpy(y), 7, -2, 1.5).numpy(), want)
    density, _ = rl.histogram(rl.from_numpy(y), rl.tensor([-1.0, 0.0, 2.0], dtype=rl.float64), weight=rl.from_numpy(np.abs(y)), density=True)
    assert np.allclose(density.numpy(), np.histogram(y, [-1.0, 0.0, 2.0], weights=np.abs(y), density=True)[0])
    pairs = rng.standard_normal((200, 2))
    hist, edges = rl.histogramdd(rl.from_numpy(pairs), [3, 4])
    want, want_edges = np.histogramdd(pairs, [3, 4])
    assert np.array_equal(hist.numpy(), want) and all(np.allclose(a.numpy(), b) for a, b in zip(edges, want_edges))


def test_quantile():
    x = np.random.default_rng(0).standard_normal((5, 40))
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        got = rl.quantile(rl.from_numpy(x), rl.tensor([0.0, 0.31, 1.0], dtype=rl.float64), 1, interpolation=how)
        assert np.allclose(got.numpy(), np.quantile(x, [0.0, 0.31, 1.0], axis=1, method=how)), how
    x[2, 3] = np.nan
    assert np.isnan(rl.quantile(rl.from_numpy(x), 0.5, 1).numpy()).tolist() == [False, False, True, False, False]
    assert np.allclose(rl.nanquantile(rl.from_numpy(x), 0.5, 1).numpy(), np.nanquantile(x, 0.5, axis=1))
    with pytest.raises(RuntimeError, match=r"quantile\(\) q must be in the range"): rl.quantile(rl.from_numpy(x), 1.5)


def test_inside_compile():
    """Sorting is recorded like any other operator, and gives the same."""
    def f(x): return (x * 2).sort(0).values.cumsum(0) + x.topk(3).values.sum()
    x = rl.randn(40)
    assert rl.equal(rl.compile(f)(x), f(x))


def test_threads_agree():
    x = rl.randn(64, 3000)
    before = rl.get_num_threads()
    try:
        rl.set_num_threads(1)
        one = x.sort(1)
        rl.set_num_threads(2)
        two = x.sort(1)
    finally: rl.set_num_threads(before)
    assert rl.equal(one.values, two.values) and rl.equal(one.indices, two.indices)
