"""A second backward through a graph whose values are gone is refused; where there were none it runs (torch's verdicts, tests/conformance/programs/second_backward.py)."""
import pytest

import rushlight as rl

C = rl.tensor([[1.5, 2.5], [3.5, 0.5]])


def part_written(x):
    z = x + 0
    z[0].add_(3)
    return z


REFUSED = {"times a number": lambda x: x * 2, "number times": lambda x: 2 * x, "over a number": lambda x: x / 2, "in place": lambda x: x.clone().mul_(2),
           "times a constant": lambda x: x * C, "power one": lambda x: x ** 1, "exp": lambda x: x.exp(), "index": lambda x: x[rl.tensor([0])],
           "mm": lambda x: x @ C, "average": lambda x: rl.nn.functional.avg_pool1d(x, 2), "padding": lambda x: rl.nn.functional.pad(x, (1, 1), mode="reflect"),
           "part": part_written, "fft": lambda x: rl.view_as_real(rl.fft.fft(x)), "max": lambda x: x.max(0)[0], "gather": lambda x: x.gather(0, rl.tensor([[0, 1]]))}
ALLOWED = {"plus": lambda x: x + 1, "minus": lambda x: 1 - x, "sum": lambda x: x.sum(), "mean": lambda x: x.mean(0), "view": lambda x: x.view(4), "slice": lambda x: x[1:],
           "expand": lambda x: x.expand(3, 2, 2), "cat": lambda x: rl.cat([x, x]), "clone": lambda x: x.clone(), "neg": lambda x: -x, "cast": lambda x: x.double(),
           "cumsum": lambda x: x.cumsum(0), "zero pad": lambda x: rl.nn.functional.pad(x, (1, 1)), "plus a constant": lambda x: x + C}


def run_once(f):
    x = rl.tensor([[0.3, 0.7], [0.6, 0.2]], requires_grad=True)
    y = f(x)
    y.backward(rl.ones_like(y), retain_graph=True)
    first = x.grad.clone()
    y.backward(rl.ones_like(y))
    assert rl.equal(x.grad, 2 * first)
    return x, y, first


@pytest.mark.parametrize("f", REFUSED.values(), ids=REFUSED)
def test_refused(f):
    x, y, first = run_once(f)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward(rl.ones_like(y))
    assert rl.equal(x.grad, 2 * first)


@pytest.mark.parametrize("f", ALLOWED.values(), ids=ALLOWED)
def test_allowed(f):
    x, y, first = run_once(f)
    y.backward(rl.ones_like(y))
    assert rl.equal(x.grad, 3 * first)
