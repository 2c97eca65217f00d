"""Forward mode: tangents against hand-written derivatives, views, in-place calls, levels, bad input. tests/conformance compares every operator."""
import pytest

import rushlight as rl
from rushlight.autograd import forward_ad as fwd


def pushed(f, x, t):
    with fwd.dual_level(): return fwd.unpack_dual(f(fwd.make_dual(x, t)))


X, D = rl.tensor([[0.3, -1.2, 2.0], [0.7, 0.1, -0.4]]), rl.tensor([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])


@pytest.mark.parametrize("f, derivative", [
    (lambda x: x.sin() * 2, lambda x, t: 2 * x.cos() * t), (lambda x: x.T.reshape(-1)[1:4], lambda x, t: t.T.reshape(-1)[1:4]),
    (lambda x: (x * x).sum(1), lambda x, t: (2 * x * t).sum(1)), (lambda x: x.clone().mul_(3).add_(x), lambda x, t: 4 * t),
    (lambda x: x.max(1).values, lambda x, t: t.gather(1, x.argmax(1, keepdim=True))[:, 0]), (lambda x: rl.cat([x, x.exp()]), lambda x, t: rl.cat([t, x.exp() * t])),
    (lambda x: x @ x.mT, lambda x, t: t @ x.mT + x @ t.mT), (lambda x: x.sort().values, lambda x, t: t.gather(1, x.argsort(1))), (lambda x: x.detach(), None),
    (lambda x: x > 0, None),
])
def test_tangents(f, derivative):
    out = pushed(f, X, D)
    assert rl.equal(out.primal, f(X))
    if derivative is None: assert out.tangent is None
    else: rl.testing.assert_close(out.tangent, derivative(X, D))


def test_views_share_the_tangent():
    with fwd.dual_level():
        x = fwd.make_dual(X.clone(), D.clone())
        row = x[0]
        row.mul_(5)
        assert rl.equal(fwd.unpack_dual(x).tangent[0], D[0] * 5) and rl.equal(fwd.unpack_dual(x).tangent[1], D[1])


def test_reverse_over_forward():
    x = X.clone().requires_grad_()
    out = pushed(lambda v: (v ** 3).sum(), x, D)
    out.tangent.backward()
    rl.testing.assert_close(x.grad, 6 * X * D)


def test_bad_input():
    with pytest.raises(RuntimeError, match="no level exists"): fwd.make_dual(X, D)
    with fwd.dual_level():
        with pytest.raises(RuntimeError, match="Nested forward mode AD"): fwd.enter_dual_level()
        with pytest.raises(RuntimeError, match="different size"): fwd.make_dual(X, D[0])
        with pytest.raises(ValueError, match="floating point"): fwd.make_dual(X.long(), D)
        with pytest.raises(ValueError, match="tangent"): fwd.make_dual(X, D.long())
    with pytest.raises(RuntimeError, match="no level was entered"): fwd.exit_dual_level()


@pytest.mark.parametrize("name, f", [
    ("special_zeta", lambda x: rl.special.zeta(x, rl.full((2,), 2.0))), ("igamma", lambda x: rl.igamma(x, rl.ones(2))), ("geqrf", lambda x: rl.geqrf(x.reshape(2, 1))[0]),
    ("aten::linalg_ldl_solve", lambda x: rl.linalg.ldl_solve(rl.eye(2), rl.tensor([1, 2], dtype=rl.int32), x.reshape(2, 1))), ("aten::floor_divide", lambda x: x // 2),
    ("aten::_dirichlet_grad", lambda x: rl._dirichlet_grad(x / 9, x, x + 1))])
def test_a_derivative_that_is_not_there_is_no_tangent_of_zero(name, f):
    """Tangents are derived from gradients: what refuses the one refuses the other."""
    x, t = rl.tensor([2.5, 3.0]), rl.ones(2)
    for ask in (lambda: rl.func.jvp(f, (x,), (t,)), lambda: rl.func.vmap(lambda t: rl.func.jvp(f, (x,), (t,)))(t.reshape(1, 2))):
        with pytest.raises(NotImplementedError, match=f"Trying to use forward AD with {name} that does not support it"): ask()
    with pytest.raises(RuntimeError, match="is not implemented"): rl.func.grad(lambda x: f(x).sum())(x)
    assert rl.func.jvp(lambda q: rl.special.zeta(x, q), (rl.full((2,), 2.0),), (t,))[1].abs().min() > 0.1         # the other operand has one


@pytest.mark.parametrize("name, f", [("_unique2", rl.unique), ("unique_consecutive", rl.unique_consecutive), ("aten::bincount", lambda x: rl.bincount(rl.tensor([1, 0]), weights=x))])
def test_routines_without_a_derivative_have_no_tangent(name, f):
    """Of views and selections the tangent is the same call on the tangent: not so of these."""
    with pytest.raises(NotImplementedError, match=f"Trying to use forward AD with {name} that does not support it"): rl.func.jvp(f, (rl.tensor([2.5, 3.0]),), (rl.tensor([20.0, 10.0]),))


def test_what_is_drawn_or_made_anew_has_no_tangent():
    x, t = rl.full((3,), 0.5), rl.ones(3)
    for f in (lambda x: (x * 2).uniform_(), lambda x: (x * 2).bernoulli_(x), lambda x: x.new_empty_strided((3,), (1,)), lambda x: x.new_empty(3), rl.empty_like, rl.bernoulli):
        assert rl.func.jvp(f, (x,), (t,))[1].tolist() == [0, 0, 0]
