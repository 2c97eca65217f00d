"""The gradient of a sum is the incoming one, expanded: a view, which nothing is computed for."""
import pytest

import rushlight as rl

x = rl.arange(60.0).reshape(3, 4, 5).requires_grad_()
SUMS = {"all": (lambda: x.sum(), (0, 0, 0)), "one": (lambda: x.sum(1), (5, 0, 1)), "kept": (lambda: x.sum((0, 2), keepdim=True), (0, 1, 0)), "twice": (lambda: x.sum(0).sum(), (0, 0, 0)),
        "to size": (lambda: x.sum_to_size(4, 1), (0, 1, 0)), "permuted": (lambda: x.permute(2, 0, 1).sum(1), (0, 1, 4)), "mean": (lambda: x.mean(), (20, 5, 1)), "double": (lambda: x.sum(dtype=rl.float64), (20, 5, 1))}


@pytest.mark.parametrize("name", SUMS)
def test_strides(name):
    call, strides = SUMS[name]
    y = call()
    incoming = rl.arange(float(y.numel()), dtype=y.dtype).reshape(y.shape)
    grad, = rl.autograd.grad(y, x, incoming)
    assert grad.stride() == strides
    seen = []
    handle = x.register_hook(lambda g: seen.append(g.stride()))
    x.grad = None
    call().backward(incoming)
    handle.remove()
    assert seen == [strides] and x.grad.stride() == x.stride() and rl.equal(x.grad, grad)
    assert x.grad.untyped_storage().data_ptr() != incoming.untyped_storage().data_ptr(), "a leaf's gradient has memory of its own"
    call().backward(incoming)
    assert rl.equal(x.grad, 2 * grad)


def test_it_shares_memory_and_version():
    incoming = rl.ones(3, 5)
    grad, = rl.autograd.grad(x.sum(1), x, incoming)
    version = grad._version
    incoming.mul_(2)
    assert grad.eq(2).all() and grad._version == version + 1
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single memory location"): grad.add_(1)


def test_an_incoming_gradient_that_is_seen_conjugated():
    z = rl.ones(3, dtype=rl.complex64, requires_grad=True)
    incoming = rl.tensor(1 + 2j).conj()
    assert rl.autograd.grad(z.sum(), z, incoming)[0].tolist() == [1 - 2j] * 3


def test_second_derivatives():
    y = x.sum(1)
    incoming = rl.ones(3, 5, requires_grad=True)
    grad, = rl.autograd.grad(y, x, incoming, create_graph=True)
    back, = rl.autograd.grad((grad * x).sum(), incoming)
    assert rl.equal(back, x.detach().sum(1))
    assert rl.autograd.gradgradcheck(lambda t: t.sum(0).exp(), rl.rand(2, 3, dtype=rl.float64, requires_grad=True))


def test_through_further_operators_and_compile():
    w = rl.rand(5, 2, requires_grad=True)
    def step():
        h = (x @ w).relu()
        return rl.autograd.grad(h.sum() + rl.nn.functional.layer_norm(x, (5,)).sum(0).sum(), [x, w])
    plain, compiled = step(), rl.compile(step)()
    assert all(rl.equal(a, b) for a, b in zip(plain, compiled))
    conv = rl.rand(1, 2, 4, 4, requires_grad=True)
    weight = rl.rand(3, 2, 3, 3, requires_grad=True)
    found = rl.autograd.grad(rl.nn.functional.conv2d(conv, weight).sum(), [conv, weight])
    dense = rl.autograd.grad(rl.nn.functional.conv2d(conv, weight), [conv, weight], rl.ones(1, 3, 2, 2))
    assert all(rl.equal(a, b) for a, b in zip(found, dense)), "an expanded gradient gives the bits of a dense one"


def test_a_retained_gradient_is_a_copy_that_may_be_written():
    h = rl.ones(2, 3, requires_grad=True) * 2
    s = h.sum()
    h.retain_grad(), s.retain_grad()
    s.backward()
    assert h.grad.stride() == (3, 1)
    rl.nn.utils.clip_grad_norm_([h], 1.0)
    h.grad.mul_(3)
    leaf = rl.ones(1, requires_grad=True)
    h = leaf * 2
    s = h.sum()
    h.retain_grad(), s.retain_grad()
    s.backward()
    h.grad.mul_(3)
    assert (h.grad.item(), s.grad.item(), leaf.grad.item()) == (3, 1, 2), "what is written to one of them is not seen in the others"
    h = rl.ones(2, 3, requires_grad=True) * 2
    h.retain_grad()
    h.t().contiguous().square().sum().backward(create_graph=True)
    assert h.grad.is_contiguous() and h.grad.requires_grad


def test_it_is_an_inference_tensor_where_the_incoming_one_is():
    y = x.sum(1)
    with rl.inference_mode():
        incoming = rl.ones(3, 5)
        assert rl.autograd.grad(y, x, incoming, retain_graph=True)[0].is_inference()
    assert rl.autograd.grad(y, x, incoming)[0].is_inference()
