"""Recording: plans noted instead of run, flushed when a value is needed."""
import contextlib

import pytest

import rushlight as rl
from rushlight import _C


@contextlib.contextmanager
def recording():
    _C.set_guard(_C.G_RECORD, True)
    try:
        yield
    finally:
        _C.set_guard(_C.G_RECORD, False)
        _C.flush()


@pytest.fixture(autouse=True)
def no_flush_hook():
    yield
    _C.flush()


def test_values_appear_when_needed():
    a = rl.tensor([1.0, 2.0, 3.0])
    with recording():
        b = a * 2 + 1
        entries = _C.recording()
        assert [e["op"].name for e in entries] == ["mul", "add"]
        assert [e["buffers"][0][2] for e in entries] == [False, True]       # the product is not held by anybody
        assert b.shape == (3,) and len(_C.recording()) == 2                 # a shape needs no value
        assert b.tolist() == [3.0, 5.0, 7.0] and _C.recording() == []
        c = b - 1
    assert c.tolist() == [2.0, 4.0, 6.0]


def test_in_place_views_and_gradients():
    p = rl.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    with recording():
        y = p * p
        z = y.view(2, 2)[0] * 3
        w = rl.zeros(4)
        w[1:3].add_(5)
        w.mul_(2)
        loss = z.sum() + (w * p).sum()
        loss.backward()
    assert w.tolist() == [0.0, 10.0, 10.0, 0.0]
    assert p.grad.tolist() == [6.0, 22.0, 10.0, 0.0]


def test_same_as_eager():
    rl.manual_seed(0)
    x = rl.randn(5, 7)

    def program(x):
        h = rl.softmax(x * 2, 1)
        h = h + x.mean(0, keepdim=True)
        return (h @ h.t()).relu()
    eager = program(x).tolist()
    with recording():
        later = program(x)
    assert later.tolist() == eager


def test_an_error_surfaces_at_the_flush():
    table = rl.ones(3, 2)
    with recording():
        written = rl.zeros(2)
        bad = table[rl.tensor([0, 9])]
        after = bad + 1
        written.add_(1)
        with pytest.raises(IndexError):
            bad.tolist()
        for lost in (bad, after):
            with pytest.raises(RuntimeError, match="never computed"):
                lost.tolist()
        with pytest.raises(RuntimeError, match="never computed"):
            (after * 2).tolist()
    assert written.tolist() == [0.0, 0.0]
    assert (table + 1).tolist() == [[2.0, 2.0]] * 3


def test_flush_hook_gives_the_program():
    seen = []

    def flush(entries):
        seen.append([e["op"].name for e in entries])
        return [(1, 0), (2, 1)]                                             # each entry by its own plan
    _C.set_hooks(flush=flush)
    try:
        for first in (1.0, 5.0):                                            # the second stream is the first one again: Python is not asked
            a, b = rl.tensor([first, 2.0]), rl.tensor([3.0, 4.0])
            with recording():
                c = (a + b) * 2.5
            assert c.tolist() == [(first + 3.0) * 2.5, 15.0]
        assert seen == [["add", "mul"]]
    finally:
        _C.set_hooks(flush=None)
