"""Tables with room for eight: everything that is thrown away is found or made again, what is in use stays, and the counters say so."""
import gc
import threading

import pytest

import rushlight as rl
from rushlight import _C


@pytest.fixture
def room_for_eight():
    plans, layouts = _C.set_plan_cap(8), _C.set_layout_cap(8)
    yield
    _C.set_plan_cap(plans)
    _C.set_layout_cap(layouts)


def program(n):
    """Many kinds of calls and layouts, forward, backward and twice."""
    x = rl.arange(float(2 * n)).reshape(2, n).requires_grad_()
    w = rl.full((n, 3), 0.5, requires_grad=True)
    h = (x @ w).relu() + x[:, :1] * 2
    h = rl.cat([h, h.t().contiguous().t() - 1], 1)
    y = (h * h).mean(0).sum() + x.max(1).values.sum() + x.t()[1:].exp().mul(1e-9).sum()
    gx, = rl.autograd.grad(y, x, create_graph=True)
    (gx * gx).sum().backward()
    return [y.item(), gx.tolist(), x.grad.tolist(), w.grad.tolist()]


def test_the_same_results_with_room_for_eight(room_for_eight):
    kinds = (2, 3, 5, 17, 4)
    first = [program(n) for n in kinds]
    before = _C.stats()
    again = [program(n) for n in kinds + kinds]
    after = _C.stats()
    assert again == first + first
    assert after["plan_evictions"] > before["plan_evictions"] and after["layout_evictions"] > before["layout_evictions"]
    assert after["plans"] <= 8


def test_what_was_evicted_is_not_compiled_again(room_for_eight):
    program(6)
    before = rl.stats()
    for _ in range(5): program(6)
    after = rl.stats()
    assert after["compiles"] == before["compiles"] and after["found"] > before["found"]      # Python is asked, and has it


def test_a_graph_outlives_its_plans(room_for_eight):
    x = rl.arange(6.0).requires_grad_()
    y = (x.exp() * x).sum()
    for n in range(2, 40): (rl.ones(n) + n).sum().tolist()  # throws away every plan y was made by
    y.backward()
    assert x.grad.tolist() == pytest.approx((x.exp() * (1 + x)).tolist(), rel=1e-6)


def test_layouts_in_use_stay(room_for_eight):
    held = [rl.zeros(n, 2) for n in range(1, 100)]
    assert [t.shape for t in held] == [(n, 2) for n in range(1, 100)] and len({t._layout_id for t in held}) == 99
    assert _C.stats()["layouts"] >= 99                      # the cap bounds what is kept for nothing
    del held
    gc.collect()
    for n in range(1, 60): rl.zeros(3, n)
    assert _C.stats()["layouts"] < 99


def test_threads_with_room_for_eight(room_for_eight):
    expected, wrong = {n: program(n) for n in (2, 5)}, []

    def run(n):
        for _ in range(10):
            if program(n) != expected[n]: wrong.append(n)
    threads = [threading.Thread(target=run, args=(n,)) for n in (2, 5)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not wrong


def test_counters_are_counters():
    before = _C.stats()
    x = rl.ones(3)
    for _ in range(10): x + x
    after = _C.stats()
    assert all(isinstance(v, int) for v in after.values()) and after["launches"] >= before["launches"] + 10
    assert after["plan_hits"] + after["plan_table_hits"] >= before["plan_hits"] + before["plan_table_hits"] + 9
    assert set(rl.stats()) >= set(after)
