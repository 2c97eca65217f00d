"""The pool: same bits for any number of threads, busy pools, forks."""
import os
import threading

import pytest

import rushlight as rl
from rushlight import _C


@pytest.fixture(autouse=True)
def threads():
    before = rl.get_num_threads()
    yield
    rl.set_num_threads(before)


def test_set_num_threads():
    rl.set_num_threads(3)
    assert rl.get_num_threads() == 3
    for bad in (0, -1, 1.5, "2"):
        with pytest.raises(RuntimeError, match="set_num_threads expects"):
            rl.set_num_threads(bad)


def test_same_bits_for_any_number_of_threads():
    rl.manual_seed(0)
    x = rl.randn(700, 900)
    results = []
    for n in (1, 2, 3, 4, 2, 1):
        rl.set_num_threads(n)
        results.append((x.exp().sum().item(), x.sum(0).tolist(), rl.softmax(x, 1).sum(0).tolist(), (x @ x.t())[3].tolist()))
    assert all(r == results[0] for r in results)


def test_many_callers():
    rl.set_num_threads(2)
    x = rl.ones(1 << 19)
    sums = []

    def work():
        for _ in range(10):
            sums.append((x + x).sum().item())
    callers = [threading.Thread(target=work) for _ in range(4)]
    for t in callers: t.start()
    for t in callers: t.join()
    assert sums == [float(1 << 20)] * 40


def test_first_error_wins():
    rl.set_num_threads(4)
    index = rl.zeros(400_000, dtype=rl.int64)
    index[250_000], index[399_999] = 77, 99
    for _ in range(5):
        with pytest.raises(IndexError, match="77"):
            rl.ones(3, 1)[index]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_fork():
    rl.set_num_threads(2)
    x = rl.ones(1 << 19)
    assert (x + x).sum().item() == float(1 << 20)
    child = os.fork()
    if child == 0:
        ok = (x + x).sum().item() == float(1 << 20) and _C.get_num_threads() == 2
        os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
