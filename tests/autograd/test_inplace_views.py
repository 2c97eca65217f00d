"""In-place writes: into leaves, bases and views, and what happens to the histories around them."""
import pytest

import rushlight as rl


def leaf(*values):
    return rl.tensor(values, requires_grad=True)


def test_in_place_on_a_leaf_is_refused():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation."):
        x.mul_(2)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation."):
        x[0].mul_(2)
    assert x.tolist() == [1.0, 2.0] and x._version == 0
    with rl.no_grad():
        x.mul_(2)
        x[0].add_(1)
    assert x.tolist() == [3.0, 4.0]


def test_in_place_chain():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.add_(1).mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]


def test_in_place_makes_a_plain_tensor_part_of_the_graph():
    x = leaf(1.0, 2.0)
    y = rl.zeros(2)
    y.add_(x)
    assert y.requires_grad and not y.is_leaf
    (y * y).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_write_into_a_view_rewrites_the_base():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    v = y[1:]
    v.mul_(10)
    assert y.tolist() == [1.0, 20.0, 30.0] and type(y.grad_fn).__name__ == "CopySlices"
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 10.0, 10.0]


def test_write_into_a_view_of_a_plain_base():
    x = leaf(5.0)
    y = rl.zeros(3)
    first, rest = y[0:1], y[1:]
    first.copy_(x)
    assert y.requires_grad and first.requires_grad and rest.requires_grad
    (y * y).sum().backward()
    assert x.grad.tolist() == [10.0]


def test_assignment():
    x = leaf(1.0, 2.0)
    y = rl.zeros(2, 2)
    y[0] = x
    y[:, 1] = x * 10
    y.sum().backward()
    assert y.tolist() == [[1.0, 10.0], [0.0, 20.0]]
    assert x.grad.tolist() == [11.0, 10.0]


def test_other_views_see_the_write():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    a, b = y[:2], y[1:]
    a.mul_(10)
    (b * b).sum().backward()
    assert b.tolist() == [20.0, 3.0]
    assert x.grad.tolist() == [0.0, 400.0, 6.0]


def test_write_into_the_base_reaches_its_views():
    x = leaf(1.0, 2.0)
    y = x * 1
    v = y[0]
    y.mul_(5)
    assert v.item() == 5.0
    v.backward()
    assert x.grad.tolist() == [5.0, 0.0]


def test_views_of_views():
    x = rl.ones(2, 3, requires_grad=True)
    y = x * 1
    y.t()[1:][:, 0].mul_(4)
    y.sum().backward()
    assert x.grad.tolist() == [[1.0, 4.0, 4.0], [1.0, 1.0, 1.0]]


def test_double_backward_through_a_written_view():
    x = leaf(1.0, 2.0)
    y = x * x
    y[0].mul_(x[1])
    g, = rl.autograd.grad(y.sum(), x, create_graph=True)
    assert g.tolist() == [4.0, 5.0]
    gg, = rl.autograd.grad(g.sum(), x)
    assert gg.tolist() == [6.0, 4.0]


def test_multi_output_views_are_not_written():
    y = leaf(1.0, 2.0) * 1
    a, _ = y.unbind()
    with pytest.raises(RuntimeError, match="Output 0 of Unbind is a view and is being modified inplace. This view is the output of a "
                                           "function that returns multiple views."):
        a.mul_(2)
    a, _ = y.chunk(2)
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        a.mul_(2)


def test_views_made_under_no_grad():
    y = leaf(1.0, 2.0) * 1
    with rl.no_grad():
        v = y[0]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and is being modified inplace with grad mode enabled."):
        v.mul_(2)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode and its base or another view of its base has been "
                                           "modified inplace"):
        _ = v.grad_fn


def test_out_does_not_differentiate():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"functions with out=... arguments don't support automatic differentiation, but one of the "
                                           r"arguments "
                       "requires grad."):
        rl.add(x, x, out=rl.empty(2))


def test_detach_shares_the_version():
    x = leaf(1.0, 2.0) * 1
    d = x.detach()
    assert not d.requires_grad and d.is_leaf
    d.add_(1)
    assert x._version == d._version == 1 and x.tolist() == [2.0, 3.0]
    y = x * 1
    y.detach_()
    assert not y.requires_grad and y.grad_fn is None


@pytest.mark.parametrize("view", [
    lambda x: x.view(3, 2), lambda x: x.reshape(-1), lambda x: x.t(), lambda x: x.permute(1, 0), lambda x: x.expand(4, 2, 3),
        lambda x: x[1], lambda x: x[:, 1:],
    lambda x: x[:, ::2], lambda x: x.unsqueeze(1), lambda x: x.unsqueeze(0).squeeze(0), lambda x: x.diagonal(),
        lambda x: x.as_strided((2, 2), (1, 2), 1),
    lambda x: x.unfold(1, 2, 1), lambda x: x.narrow(1, 1, 2), lambda x: x.view_as(x), lambda x: x.select(1, 2), lambda x: x.flatten(),
])
def test_gradients_of_views(view):
    x = rl.arange(6, dtype=rl.float64).reshape(2, 3).requires_grad_()
    assert rl.autograd.gradcheck(lambda x: view(x) * 1.5, (x,))
    assert rl.autograd.gradgradcheck(lambda x: view(x) * view(x), (x,))
