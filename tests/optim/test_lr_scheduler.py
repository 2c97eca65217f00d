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
    "warm restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, 3), "cyclic 2": lambda s, o: s.CyclicLR(o, 0.01, 0.3, 4, mode="triangular2", cycle_momentum=False),
    "cyclic exp": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "one cycle": lambda s, o: s.OneCycleLR(o, 0.3, 30), "one cycle 3": lambda s, o: s.OneCycleLR(o, 0.3, epochs=10, steps_per_epoch=3,
                                                                                                  three_phase=True, anneal_strategy="linear"),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.5, 4), s.ExponentialLR(o, 0.9)]),
    "sequential": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 10)], [5]),
}


def rates(library, make, epochs=25):
    param = library.nn.Parameter(library.ones(1))
    optimizer = library.optim.SGD([{"params": [param], "lr": 0.5}, {"params": [library.nn.Parameter(library.ones(1))]}], lr=0.1, momentum=0.9)
    schedule, out = make(library.optim.lr_scheduler, optimizer), []
    for _ in range(epochs):
        out.append([group[name] for group in optimizer.param_groups for name in ("lr", "momentum")])
        param.grad = library.ones(1)
        optimizer.step()
        schedule.step()
    assert schedule.get_last_lr() == [group["lr"] for group in optimizer.param_groups]
    return out


def test_step_and_cosine_by_hand():
    assert [rate[2] for rate in rates(rl, CASES["step"], 7)] == pytest.approx([0.1] * 3 + [0.05] * 3 + [0.025])
    cosine = [rate[2] for rate in rates(rl, CASES["cosine"], 17)]
    assert cosine == pytest.approx([0.01 + 0.09 * (1 + math.cos(math.pi * epoch / 8)) / 2 for epoch in range(17)])


@pytest.mark.parametrize("name", CASES)
def test_same_rates_as_torch(name):
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert rates(rl, CASES[name]) == rates(torch, CASES[name])


@pytest.mark.parametrize("name", [name for name in CASES if name != "chained"])       # its state is that of its parts
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


@pytest.mark.parametrize("options", [{}, {"mode": "max"}, {"threshold_mode": "abs", "threshold": 0.2, "cooldown": 2}, {"min_lr": [0.05, 0.01], "patience": 1}])
def test_plateau_beside_torch(options):
    torch = pytest.importorskip("torch")
    seen = []
    for library in (torch, rl):
        parameters = [library.nn.Parameter(library.ones(1)) for _ in range(2)]
        optimizer = library.optim.SGD([{"params": [parameters[0]], "lr": 0.5}, {"params": [parameters[1]]}], lr=0.1)
        schedule = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **{"patience": 2, **options})
        rates = []
        for metric in [3.0, 2.0, 2.1, 2.0, 1.95, 2.2, 2.3, 2.4, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 2, 2, 2, 2, 2]:
            schedule.step(metric)
            rates.append([group["lr"] for group in optimizer.param_groups])
        assert schedule.get_last_lr() == rates[-1]
        seen.append(rates)
    assert seen[0] == seen[1]


def test_averaged_model_and_swalr_beside_torch():
    torch = pytest.importorskip("torch")
    results = []
    for library in (torch, rl):
        swa = library.optim.swa_utils
        model = library.nn.Linear(2, 1)
        with library.no_grad():
            model.weight.fill_(1.0)
            model.bias.fill_(0.5)
        plain, ema = swa.AveragedModel(model), swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.5))
        optimizer = library.optim.SGD(model.parameters(), lr=0.4)
        schedule = swa.SWALR(optimizer, 0.1, anneal_epochs=3)
        rates = []
        for step in range(6):
            model.weight.grad, model.bias.grad = library.full((1, 2), 0.1 * step), library.ones(1)
            optimizer.step()
            schedule.step()
            plain.update_parameters(model)
            ema.update_parameters(model)
            rates.append(optimizer.param_groups[0]["lr"])
        results.append(rates + plain.module.weight.flatten().tolist() + ema.module.weight.flatten().tolist() + [int(plain.n_averaged)])
    assert results[1] == pytest.approx(results[0], rel=1e-6)
