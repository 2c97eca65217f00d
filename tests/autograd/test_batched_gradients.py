"""grad(is_grads_batched=True): one gradient for each row of grad_outputs."""
import pytest

import rushlight as rl


def test_rows_of_a_jacobian():
    x, unused = rl.tensor([1.0, 2.0, 3.0], requires_grad=True), rl.ones(2, requires_grad=True)
    y = x * x
    got = rl.autograd.grad(y, [x, unused], rl.eye(3), is_grads_batched=True, allow_unused=True, retain_graph=True)
    assert got[1] is None and rl.equal(got[0], rl.diag(2 * x.detach()))
    got, = rl.autograd.grad(y, x, rl.eye(3), is_grads_batched=True, create_graph=True)
    assert rl.autograd.grad(got.sum(), x)[0].tolist() == [2.0, 2.0, 2.0]


def test_the_graph_is_freed_after_the_last_row():
    x = rl.ones(2, requires_grad=True)
    y = x.exp()
    rl.autograd.grad(y, x, rl.eye(2), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        rl.autograd.grad(y, x, rl.eye(2), is_grads_batched=True)


def test_shapes_are_checked():
    x = rl.ones(2, requires_grad=True)
    y = x.exp()
    with pytest.raises(RuntimeError, match="If `is_grads_batched=True`, we interpret the first dimension"):
        rl.autograd.grad(y, x, rl.ones(3, 4), is_grads_batched=True)
    with pytest.raises(RuntimeError, match="needs a first dimension"):
        rl.autograd.grad(y.sum(), x, is_grads_batched=True)
    with pytest.raises(RuntimeError, match="needs a first dimension"):
        rl.autograd.grad(y, x, rl.tensor(1.0), is_grads_batched=True)
