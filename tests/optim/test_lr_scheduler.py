"""Schedules by hand, and beside torch when it is there."""
import math
import warnings

import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.optim import lr_scheduler

CASES = {
    "step": lambda s, o: s.StepLR(o, 3, 0.5), "lambda": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9 ** epoch),
    "multiplicative": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9), "multi step": lambda s, o: s.MultiStepLR(o, [3, 7, 7, 9]),
    "constant": lambda s, o: s.ConstantLR(o), "linear": lambda s, o: s.LinearLR(o, total_iters=7), "exponential": lambda s,
    o: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o: s.PolynomialLR(o, 10, 2.0), "cosine": lambda s, o: s.CosineAnnealingLR(o, 8, 0.01),
    "sequential": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 10)], [5]),
}


def rates(library, make, epochs=25):
    param = library.nn.Parameter(library.ones(1))
    optimizer = library.optim.SGD([{"params": [param], "lr": 0.5}, {"params": [library.nn.Parameter(library.ones(1))]}], lr=0.1)
    schedule, out = make(library.optim.lr_scheduler, optimizer), []
    for _ in range(epochs):
        out.append([group["lr"] for group in optimizer.param_groups])
        param.grad = library.ones(1)
        optimizer.step()
        schedule.step()
    assert schedule.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
    return out


def test_step_and_cosine_by_hand():
    assert [rate[1] for rate in rates(rl, CASES["step"], 7)] == pytest.approx([0.1] * 3 + [0.05] * 3 + [0.025])
    cosine = [rate[1] for rate in rates(rl, CASES["cosine"], 17)]
    assert cosine == pytest.approx([0.01 + 0.09 * (1 + math.cos(math.pi * epoch / 8)) / 2 for epoch in range(17)])


@pytest.mark.parametrize("name", CASES)
def test_same_rates_as_torch(name):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert rates(rl, CASES[name]) == rates(torch, CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_state_dict_resumes(name):
    optimizer = optim.SGD([nn.Parameter(rl.ones(1))], lr=0.1)
    schedule = CASES[name](lr_scheduler, optimizer)
    optimizer.step()
    for _ in range(4):
        schedule.step()
    other = CASES[name](lr_scheduler, optim.SGD([nn.Parameter(rl.ones(1))], lr=0.1))
    other.load_state_dict(schedule.state_dict())
    assert other.last_epoch == schedule.last_epoch and other.get_last_lr() == schedule.get_last_lr()


def test_order_of_steps_is_noticed():
    schedule = lr_scheduler.StepLR(optim.SGD([nn.Parameter(rl.ones(1))]), 3)
    with pytest.warns(UserWarning, match=r"Detected call of `lr_scheduler.step\(\)` before `optimizer.step\(\)`"):
        schedule.step()


def test_needs_an_optimizer():
    with pytest.raises(TypeError, match="int is not an Optimizer"):
        lr_scheduler.ExponentialLR(3, 0.5)
