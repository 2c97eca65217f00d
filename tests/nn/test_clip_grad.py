"""Clipping gradients."""
import math

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import utils
from rushlight.testing import assert_close


def with_gradients():
    params = [nn.Parameter(rl.zeros(2)), nn.Parameter(rl.zeros(1)), nn.Parameter(rl.zeros(1))]
    params[0].grad, params[1].grad = rl.tensor([3.0, 0.0]), rl.tensor([4.0])
    return params


def test_norm_of_all_together():
    params = with_gradients()
    assert utils.clip_grad_norm_((param for param in params), 1.0).item() == 5.0
    assert_close(params[0].grad, rl.tensor([0.6, 0.0]))
    assert_close(params[1].grad, rl.tensor([0.8]))
    assert params[2].grad is None


def test_small_gradients_stay():
    params = with_gradients()
    utils.clip_grad_norm_(params, 100.0)
    assert params[1].grad.item() == 4.0


@pytest.mark.parametrize("order, expected", [(1.0, 7.0), (2.0, 5.0), (math.inf, 4.0)])
def test_orders(order, expected):
    assert utils.get_total_norm([param.grad for param in with_gradients() if param.grad is not None],
                                order).item() == pytest.approx(expected)


def test_non_finite():
    params = with_gradients()
    params[0].grad[0] = math.nan
    with pytest.raises(RuntimeError, match="The total norm of order 2.0 for gradients from `parameters` is non-finite"):
        utils.clip_grad_norm_(params, 1.0, error_if_nonfinite=True)
    assert params[1].grad.item() == 4.0


def test_values():
    params = with_gradients()
    params[0].grad[1] = -9.0
    utils.clip_grad_value_(params, 2.0)
    assert params[0].grad.tolist() == [2.0, -2.0] and params[1].grad.tolist() == [2.0]


def test_nothing_to_clip():
    assert utils.clip_grad_norm_([nn.Parameter(rl.ones(1))], 1.0).item() == 0.0


def test_vector_round_trip():
    model = nn.Linear(2, 3)
    vector = utils.parameters_to_vector(model.parameters())
    assert vector.shape == (9,)
    utils.vector_to_parameters(rl.arange(9.0), model.parameters())
    assert model.weight.tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] and model.bias.tolist() == [6.0, 7.0, 8.0]
