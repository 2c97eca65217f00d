"""SGD, Adam, AdamW: numbers by hand, groups, state, closures, hooks, errors; beside torch when it is there."""
import copy
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

CASES = {
    "sgd": ("SGD", dict(lr=0.1)), "sgd momentum": ("SGD", dict(lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01)),
    "sgd nesterov": ("SGD", dict(lr=0.1, momentum=0.9, nesterov=True, maximize=True)), "adam": ("Adam", {}),
    "adam decay": ("Adam", dict(weight_decay=0.1)),
    "adamw": ("AdamW", dict(lr=0.01)), "amsgrad": ("AdamW", dict(amsgrad=True, maximize=True)), "beta 0": ("Adam", dict(betas=(0.0, 0.9))),
}


def one_parameter(value=1.0, gradient=0.5):
    param = nn.Parameter(rl.full((3,), value))
    param.grad = rl.full((3,), gradient)
    return param


def test_sgd_by_hand():
    param = one_parameter()
    optim.SGD([param], lr=0.1, weight_decay=0.2).step()
    assert param.tolist() == pytest.approx([1 - 0.1 * (0.5 + 0.2)] * 3)


def test_momentum_by_hand():
    param = one_parameter()
    optimizer = optim.SGD([param], lr=0.1, momentum=0.5, dampening=0.25)
    optimizer.step()
    assert optimizer.state[param]["momentum_buffer"].tolist() == [0.5] * 3       # the first gradient itself
    optimizer.step()
    assert optimizer.state[param]["momentum_buffer"].tolist() == pytest.approx([0.5 * 0.5 + 0.75 * 0.5] * 3)


def test_adamw_by_hand():
    param = one_parameter()
    optim.AdamW([param], lr=0.1, weight_decay=0.5, eps=0.0).step()
    assert param.tolist() == pytest.approx([1 * (1 - 0.05) - 0.1] * 3)           # the first step is the sign of the gradient


@pytest.mark.parametrize("name", CASES)
def test_a_step_writes_nothing_into_gradients(name):
    kind, options = CASES[name]
    param = one_parameter()
    getattr(optim, kind)([param], **options).step()
    assert param.grad.tolist() == [0.5] * 3 and param.is_leaf and param.grad_fn is None


def test_parameters_without_gradient_are_left_alone():
    first, second = one_parameter(), nn.Parameter(rl.ones(2))
    optimizer = optim.Adam([first, second])
    optimizer.step()
    assert second.tolist() == [1.0, 1.0] and second not in optimizer.state
    second.grad = rl.ones(2)
    optimizer.step()
    assert optimizer.state[first]["step"].item() == 2 and optimizer.state[second]["step"].item() == 1


def test_step_counters_are_tensors_of_their_own():
    params = [one_parameter() for _ in range(3)]
    optimizer = optim.Adam(params)
    for _ in range(4):
        optimizer.step()
    steps = [optimizer.state[param]["step"] for param in params]
    assert [(step.dtype, step.shape, step.item()) for step in steps] == [(rl.float32, rl.Size([]), 4.0)] * 3
    steps[0].zero_()
    assert [step.item() for step in steps] == [0.0, 4.0, 4.0]
    optimizer.step()
    assert [step.item() for step in steps] == [1.0, 5.0, 5.0]


def test_groups_have_their_own_options():
    slow, fast = one_parameter(), one_parameter()
    optimizer = optim.SGD([{"params": [slow]}, {"params": fast, "lr": 1.0}], lr=0.1)
    optimizer.step()
    assert slow.tolist() == pytest.approx([0.95] * 3) and fast.tolist() == [0.5] * 3
    optimizer.param_groups[0]["lr"] = 0.0
    optimizer.step()
    assert slow.tolist() == pytest.approx([0.95] * 3)
    late = one_parameter()
    optimizer.add_param_group({"params": late, "lr": 2.0})
    optimizer.step()
    assert late.tolist() == [0.0] * 3


def test_closure_runs_with_gradients():
    param = nn.Parameter(rl.tensor([2.0]))
    optimizer = optim.SGD([param], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (param ** 2).sum()
        loss.backward()
        return loss

    with rl.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert param.item() == 0.0


def test_zero_grad():
    param = one_parameter()
    optimizer = optim.SGD([param])
    optimizer.zero_grad(set_to_none=False)
    assert param.grad.tolist() == [0.0] * 3
    optimizer.zero_grad()
    assert param.grad is None


def test_step_hooks():
    seen, param = [], one_parameter()
    optimizer = optim.SGD([param])
    handles = [register_optimizer_step_pre_hook(lambda o, a, k: seen.append("global pre")),
               register_optimizer_step_post_hook(lambda o, a, k: seen.append("global post"))]
    optimizer.register_step_pre_hook(lambda o, a, k: seen.append("pre"))
    optimizer.register_step_post_hook(lambda o, a, k: seen.append("post"))
    optimizer.step()
    for handle in handles:
        handle.remove()
    assert seen == ["global pre", "pre", "post", "global post"]
    optimizer.register_step_pre_hook(lambda o, a, k: 3)
    with pytest.raises(RuntimeError, match=r"must return None or a tuple of \(new_args, new_kwargs\), but got 3."):
        optimizer.step()


@pytest.mark.parametrize("name", CASES)
def test_state_dict_continues_where_it_was(name):
    kind, options = CASES[name]
    first, second = one_parameter(), one_parameter()
    a = getattr(optim, kind)([first], **options)
    b = getattr(optim, kind)([second], **options)
    a.step()
    b.load_state_dict(copy.deepcopy(a.state_dict()))
    with rl.no_grad():
        second.copy_(first)
    for optimizer in (a, b):
        optimizer.step()
        optimizer.step()
    assert rl.equal(first, second)


def test_pickle():
    param = one_parameter()
    optimizer = optim.AdamW([param])
    optimizer.step()
    again = pickle.loads(pickle.dumps(optimizer))
    assert repr(again) == repr(optimizer)
    assert again.state[again.param_groups[0]["params"][0]]["step"].item() == 1.0


def test_repr():
    assert repr(optim.SGD([one_parameter()], lr=0.01, momentum=0.9)) == (
        "SGD (\nParameter Group 0\n    dampening: 0\n    differentiable: False\n    foreach: None\n    fused: None\n    lr: 0.01\n"
        "    maximize: False\n    momentum: 0.9\n    nesterov: False\n    weight_decay: 0\n)")


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_differentiable_steps_have_gradients(kind):
    start = rl.ones(3, requires_grad=True)
    param = start * 1
    param.retain_grad()
    param.grad = rl.tensor([1.0, 2.0, 3.0])
    optimizer = getattr(optim, kind)([param], lr=0.1, weight_decay=0.5, differentiable=True)
    optimizer.step()
    (gradient,) = rl.autograd.grad(param.sum(), start)
    # Adam's first step is the sign of the gradient, so its coupled decay has almost no effect on the slope.
    expected = {"SGD": 1 - 0.1 * 0.5, "AdamW": 1 - 0.1 * 0.5, "Adam": 1.0}[kind]
    assert gradient.tolist() == pytest.approx([expected] * 3, abs=1e-4)


@pytest.mark.parametrize("make, error, text", [
    (lambda p: optim.SGD(p), TypeError, "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                                        "torch.FloatTensor"),
    (lambda p: optim.SGD([]), ValueError, "optimizer got an empty parameter list"),
    (lambda p: optim.SGD([3]), TypeError, "optimizer can only optimize Tensors, but one of the params is int"),
    (lambda p: optim.SGD([p * 2]), ValueError, "can't optimize a non-leaf Tensor"),
    (lambda p: optim.SGD([{"params": [p]}, {"params": [p]}]), ValueError, "some parameters appear in more than one parameter group"),
    (lambda p: optim.SGD([p], lr=-1), ValueError, "Invalid learning rate: -1"),
    (lambda p: optim.SGD([p], nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero dampening"),
    (lambda p: optim.Adam([p], betas=(0.9, 2.0)), ValueError, "Invalid beta parameter at index 1: 2.0"),
    (lambda p: optim.Adam([p], fused=True, foreach=True), RuntimeError, "`fused` and `foreach` cannot be `True` together."),
    (lambda p: optim.SGD([p]).add_param_group({"params": {p}}), TypeError, "optimizer parameters need to be organized in ordered "
                                                                           "collections"),
    (lambda p: optim.SGD([("a", p), one_parameter()]), ValueError, "all optimizer params should be with/without names"),
    (lambda p: optim.SGD([p]).load_state_dict(optim.SGD([p, one_parameter()]).state_dict()), ValueError,
     "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"),
])
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make(one_parameter())


# -------------------------------------------------------------------------------------------------------- beside torch
def train(library, kind, options, late):
    library.manual_seed(0)
    model = library.nn.Sequential(library.nn.Linear(4, 8), library.nn.Tanh(), library.nn.Linear(8, 3))
    optimizer = getattr(library.optim, kind)(model.parameters(), **options)
    for step in range(6):
        if late:
            model[2].requires_grad_(step >= 2)
        optimizer.zero_grad()
        (model(library.randn(16, 4)) ** 2).mean().backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("late", [False, True], ids=["together", "one joins late"])
@pytest.mark.parametrize("name", CASES)
def test_training_equals_torchs(name, late):
    torch = pytest.importorskip("torch")
    kind, options = CASES[name]
    ours, our_optimizer = train(rl, kind, options, late)
    theirs, their_optimizer = train(torch, kind, options, late)
    for a, b in zip(ours.parameters(), theirs.parameters()):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-4, atol=2e-6)
    a, b = our_optimizer.state_dict(), their_optimizer.state_dict()
    assert a["param_groups"] == b["param_groups"] and repr(our_optimizer) == repr(their_optimizer)
    assert {key: list(value) for key, value in a["state"].items()} == {key: list(value) for key, value in b["state"].items()}
    for key, entries in a["state"].items():
        for name_, value in entries.items():
            np.testing.assert_allclose(value.numpy(), b["state"][key][name_].numpy(), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_a_complex_parameter_is_two_real_ones(kind, amsgrad):
    start = [1 + 1j, 2 - 1j]
    whole = rl.tensor(start, requires_grad=True)
    parts = rl.view_as_real(rl.tensor(start)).clone().requires_grad_()
    optimizers = [getattr(rl.optim, kind)([p], lr=0.1, amsgrad=amsgrad) for p in (whole, parts)]
    for _ in range(3):
        for p, optimizer in zip((whole, parts), optimizers):
            optimizer.zero_grad()
            (p.abs() ** 2 if p is whole else p.square().sum(-1)).sum().backward()
            optimizer.step()
    assert rl.allclose(rl.view_as_real(whole.detach()), parts, rtol=1e-6)
    assert whole.detach()[0].real != 1
