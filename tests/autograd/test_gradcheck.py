"""gradcheck finds wrong gradients and accepts right ones; functional derivatives."""
import pytest

import rushlight as rl
from rushlight.autograd import Function, gradcheck, gradgradcheck
from rushlight.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp


def double(*shape):
    return rl.randn(*shape, dtype=rl.float64).requires_grad_()


def test_right_gradients_pass():
    x, y = double(2, 3), double(3)
    assert gradcheck(lambda x, y: rl.tanh(x) * y + x.sum(), (x, y))
    assert gradgradcheck(lambda x, y: rl.tanh(x) * y + x.sum(), (x, y))


def test_wrong_gradients_fail():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = double(2)
    with pytest.raises(RuntimeError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(Wrong.apply, (x,))
    assert gradcheck(Wrong.apply, (x,), raise_exception=False) is False


def test_an_input_is_needed():
    with pytest.raises(ValueError, match="gradcheck expects at least one input tensor to require gradient"):
        gradcheck(rl.exp, (rl.ones(2, dtype=rl.float64),))


def test_functional():
    x = rl.tensor([1.0, 2.0, 3.0])

    def cube(x):
        return x * x * x

    assert jacobian(cube, x).tolist() == [[3.0, 0.0, 0.0], [0.0, 12.0, 0.0], [0.0, 0.0, 27.0]]
    assert hessian(lambda x: cube(x).sum(), x).tolist() == [[6.0, 0.0, 0.0], [0.0, 12.0, 0.0], [0.0, 0.0, 18.0]]
    v = rl.tensor([1.0, 10.0, 100.0])
    assert vjp(cube, x, v)[1].tolist() == [3.0, 120.0, 2700.0]
    assert jvp(cube, x, v)[1].tolist() == [3.0, 120.0, 2700.0]
    for product in (vhp, hvp):
        value, result = product(lambda x: cube(x).sum(), x, v)
        assert value.item() == 36.0 and result.tolist() == [6.0, 120.0, 1800.0]
    a, b = jacobian(lambda x, y: x * y, (x, v))
    assert a.diagonal().tolist() == v.tolist() and b.diagonal().tolist() == x.tolist()
