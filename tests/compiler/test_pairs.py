"""The pairs of n things, found from their number (`pair_first`, `pair_second`) or counted along (emit/pairs.py): pdist beside a loop in numpy."""
import numpy as np
import pytest

import rushlight as torch
from rushlight.nn import functional as F


def by_hand(x): return np.concatenate([np.sqrt(((x[i] - x[i + 1:]) ** 2).sum(1)) for i in range(len(x) - 1)])


@pytest.mark.parametrize("columns", [1, 2, 7, 16, 17, 32, 40, 5000])      # one: a map; up to 32: one masked vector; more: blocks
def test_pairs_of_rows(columns):
    for n in (2, 3, 9, 40) if columns > 40 else (2, 3, 10, 33, 150):
        x = np.random.default_rng(n).standard_normal((n, columns))
        np.testing.assert_allclose(F.pdist(torch.from_numpy(x)).numpy(), by_hand(x), rtol=1e-12)


def test_threads_begin_anywhere():
    """A thread's first pair is found from its number, the next ones are counted: the same bits."""
    x = torch.from_numpy(np.random.default_rng(1).standard_normal((400, 24)).astype("f"))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = F.pdist(x).numpy()
        torch.set_num_threads(2)
        assert F.pdist(x).numpy().tobytes() == alone.tobytes()
    finally: torch.set_num_threads(before)


def test_many_pairs():
    """Far beyond what a float counts: every last pair of a row, and the first of the next."""
    n = 6000
    got = F.pdist(torch.arange(n).to(torch.float64)[:, None]).numpy()
    ends = np.cumsum(np.arange(n - 1, 0, -1))
    assert np.array_equal(got[ends - 1], np.arange(n - 1, 0, -1)) and np.array_equal(got[ends[:-1]], np.ones(n - 2))
