"""Initialisation: bounds, moments, errors, and torch's own numbers for a few seeds."""
import math

import pytest

import rushlight as rl
from rushlight.nn import init


def test_fans_and_gains():
    assert init._calculate_fan_in_and_fan_out(rl.empty(4, 3, 2, 5)) == (30, 40)
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    assert init.calculate_gain("tanh") == 5 / 3
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"):
        init.xavier_uniform_(rl.empty(3))
    with pytest.raises(ValueError, match="Unsupported nonlinearity what"):
        init.calculate_gain("what")
    with pytest.raises(ValueError, match="Mode fan_up not supported, please use one of"):
        init.kaiming_normal_(rl.empty(2, 2), mode="fan_up")


def test_fills_return_the_tensor_and_record_nothing():
    weight = rl.empty(3, 4, requires_grad=True)
    assert init.uniform_(weight, 2, 3) is weight and weight.is_leaf and weight.grad_fn is None
    assert weight.min().item() >= 2 and weight.max().item() < 3
    assert rl.equal(init.eye_(rl.empty(2, 3)), rl.eye(2, 3))
    assert rl.equal(init.constant_(rl.empty(2), 4), rl.full((2,), 4.0))


@pytest.mark.parametrize("bounds", [(-2.0, 2.0), (-0.1, 0.1), (1.5, 3.0)])
def test_truncated_normal_stays_inside(bounds):
    rl.manual_seed(0)
    values = init.trunc_normal_(rl.empty(5000), 0.0, 1.0, *bounds)
    assert values.min().item() >= bounds[0] and values.max().item() <= bounds[1]
    assert values.std().item() > 0.01


@pytest.mark.parametrize("name, args", [("kaiming_uniform_", ()), ("kaiming_normal_", ()), ("xavier_uniform_", ()), ("xavier_normal_", ())])
def test_moments(name, args):
    rl.manual_seed(1)
    weight = getattr(init, name)(rl.empty(200, 300), *args)
    wanted = {"kaiming": math.sqrt(2 / 300), "xavier": math.sqrt(2 / 500)}[name.split("_")[0]]
    assert abs(weight.std().item() / wanted - 1) < 0.02 and abs(weight.mean().item()) < 1e-3


def test_dirac_is_the_identity_kernel():
    kernel = init.dirac_(rl.empty(4, 2, 3), groups=2)
    assert kernel.sum().item() == 4 and kernel[2, 0, 1].item() == 1 and kernel[3, 1, 1].item() == 1


def test_empty_tensors_warn():
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        init.kaiming_uniform_(rl.empty(0, 3))


def test_old_names_warn():
    with pytest.warns(FutureWarning, match="`nn.init.uniform` is now deprecated in favor of `nn.init.uniform_`."):
        init.uniform(rl.empty(2))
