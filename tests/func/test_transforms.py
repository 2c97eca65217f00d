"""torch.func: transforms against derivatives written out by hand, alone and nested."""
import pytest

import rushlight as rl
from rushlight.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, stack_module_state, vjp, vmap

CLOSE = dict(rtol=1e-5, atol=1e-6)


def tensors(seed=0):
    rl.manual_seed(seed)
    return rl.randn(3, 4), rl.randn(4), rl.randn(5, 4)


def energy(w, x): return (w @ x).sin().sum()
def slope(w, x): return w.T @ (w @ x).cos()
def curvature(w, x): return -w.T @ rl.diag((w @ x).sin()) @ w
def close(a, b): rl.testing.assert_close(a, b, **CLOSE)


def test_gradient_and_value():
    w, x, _ = tensors()
    gradient, value = grad_and_value(energy, argnums=1)(w, x)
    close(gradient, slope(w, x))
    close(value, energy(w, x))
    assert not gradient.requires_grad and not value.requires_grad and x.grad is None
    both, aux = grad(lambda a, b: (energy(a, b), a.sum()), argnums=(0, 1), has_aux=True)(w, x)
    close(both[1], slope(w, x))
    close(aux, w.sum())
    close(grad(lambda d: energy(d["w"], d["x"]))({"w": w, "x": x})["x"], slope(w, x))


def test_gradient_keeps_the_graph_of_outer_tensors():
    w, x, _ = tensors()
    w.requires_grad_()
    gradient = grad(lambda v: energy(w, v))(x)
    assert gradient.requires_grad
    gradient.sum().backward()
    assert w.grad is not None


def test_vjp_and_jvp():
    w, x, _ = tensors()
    out, back = vjp(lambda v: (w @ v).sin(), x)
    close(out, (w @ x).sin())
    close(back(rl.ones(3))[0], slope(w, x))
    t = rl.randn(4)
    value, tangent = jvp(lambda v: (w @ v).sin(), (x,), (t,))
    close(value, (w @ x).sin())
    close(tangent, (w @ x).cos() * (w @ t))
    out, forward = linearize(lambda v: (w @ v).sin(), x)
    close(forward(t), tangent)


def test_jacobians_and_hessian():
    w, x, rows = tensors()
    want = (w @ x).cos()[:, None] * w
    f = lambda v: (w @ v).sin()
    close(jacrev(f)(x), want)
    close(jacfwd(f)(x), want)
    second = lambda v: energy(w, v)
    for h in (hessian(second), jacrev(jacrev(second)), jacfwd(jacfwd(second)), jacrev(jacfwd(second))): close(h(x), curvature(w, x))
    close(vmap(hessian(second))(rows), rl.stack([curvature(w, r) for r in rows]))


def test_gradients_of_each_example():
    w, _, rows = tensors()
    close(vmap(grad(energy), (None, 0))(w, rows), rl.stack([rl.outer((w @ r).cos(), r) for r in rows]))
    close(grad(lambda a: vmap(energy, (None, 0))(a, rows).sum())(w), sum(rl.outer((w @ r).cos(), r) for r in rows))


@pytest.mark.parametrize("name, f", [
    ("views", lambda a: rl.cat([a[1:].reshape(-1, 1).T.expand(2, 3), a.view(2, 2).sum(1).unsqueeze(0).expand(2, 2)], 1)[0].softmax(0)),
    ("permutes", lambda a: a.view(2, 2).permute(1, 0).transpose(0, 1).mT.flatten()), ("pieces", lambda a: sum(p.sum() for p in a.split(3))),
    ("unbind", lambda a: a.view(2, 2).unbind(1)[1]), ("in place", lambda a: a.clone().mul_(2).add_(a[0])), ("scan", lambda a: a.cumsum(0).flip(0)),
    ("written", lambda a: set_first(a.clone())), ("sorted", lambda a: a.sort(descending=True).values), ("rows", lambda a: rl.nn.functional.layer_norm(a, (4,))),
    ("stacked", lambda a: rl.stack([a, a + 1]).amax(1)), ("choice", lambda a: rl.where(a > 0, a, a * 0.1)), ("promoted", lambda a: a.sum() + rl.ones(2, dtype=rl.float64)),
    ("picked", lambda a: a.gather(0, rl.tensor([3, 0]))), ("diagonal", lambda a: rl.outer(a, a).diagonal()), ("solved", lambda a: rl.linalg.inv(rl.outer(a, a) + rl.eye(4))),
])
def test_vmap_is_a_loop(name, f):
    _, _, rows = tensors()
    close(vmap(f)(rows), rl.stack([f(r) for r in rows]))


def set_first(a):
    a[0] = a[1] * 2
    return a


def test_vmap_of_several_dimensions_and_chunks():
    _, x, rows = tensors()
    close(vmap(vmap(lambda a, b: a * b, (0, None)), (None, 0))(x, x), rl.outer(x, x).T)
    close(vmap(lambda a: a * 2, in_dims=1, out_dims=1)(rows), rows * 2)
    close(vmap(lambda a: a.sum(), chunk_size=2)(rows), rows.sum(1))
    value, index = vmap(lambda a: a.max(0))(rows)
    close(value, rows.max(1).values)
    assert rl.equal(index, rows.argmax(1))


def test_randomness():
    rows = rl.zeros(4, 3)
    with pytest.raises(RuntimeError, match="randomness error mode"): vmap(lambda a: a + rl.rand(3))(rows)
    same, different = (vmap(lambda a: a + rl.rand(3), randomness=r)(rows) for r in ("same", "different"))
    assert rl.equal(same[0], same[1]) and not rl.equal(different[0], different[1])


@pytest.mark.parametrize("f", [lambda a: a if a.sum() > 0 else -a, lambda a: a.sum().item(), lambda a: a.numpy(), lambda a: a.tolist()])
def test_an_example_has_no_value(f):
    with pytest.raises(RuntimeError, match="vmap"): vmap(f)(rl.ones(2, 3))


@pytest.mark.parametrize("call, error, words", [
    (lambda: vmap(lambda a, b: a)(rl.ones(2), rl.ones(3)), ValueError, "same size in the mapped dimension"),
    (lambda: vmap(lambda a: a, in_dims=2)(rl.ones(2)), ValueError, "in_dim=2"), (lambda: vmap(lambda a: a)(3), ValueError, "non-Tensor"),
    (lambda: vmap(lambda a: 1)(rl.ones(2)), ValueError, "must only return Tensors"), (lambda: vmap(lambda a: a[a > 0])(rl.ones(2, 3)), RuntimeError, "vmap"),
    (lambda: grad(lambda a: a)(rl.ones(2)), RuntimeError, "to return a scalar Tensor, got tensor with 1 dims"), (lambda: grad(lambda a: 1.0)(rl.ones(2)), RuntimeError, "return a Tensor"),
    (lambda: jvp(rl.sin, (rl.ones(2),), (rl.ones(3),)), RuntimeError, "Trying to set a forward gradient that has a different size"), (lambda: vmap(lambda a: a, randomness="no"), RuntimeError, "randomness"),
])
def test_refused(call, error, words):
    with pytest.raises(error, match=words): call()


def test_an_ensemble_of_models():
    models = [rl.nn.Linear(4, 2) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    x = rl.randn(5, 4)
    out = vmap(lambda p: rl.nn.functional.linear(x, p["weight"], p["bias"]))(parameters)
    close(out, rl.stack([m(x) for m in models]))
    assert not buffers


@pytest.mark.parametrize("call, words", [
    (lambda x: rl.func.jvp(lambda: x, (), ()), "Expected primals to contain at least one Tensor"),
    (lambda x: rl.func.jvp(lambda x: 3, (x,), (x,)), "to return only tensors, got unsupported type <class 'int'>"),
    (lambda x: rl.func.vjp(lambda x: 3, x), "to return only tensors, got unsupported type <class 'int'>")])
def test_misuse_is_named(call, words):
    with pytest.raises(RuntimeError, match=words): call(rl.ones(2))


def test_batch_norms_without_statistics_and_other_helpers():
    norm = rl.nn.Sequential(rl.nn.BatchNorm1d(2), rl.nn.Linear(2, 2))
    assert rl.func.replace_all_batch_norm_modules_(norm) is norm and not norm[0].track_running_stats and not list(norm.buffers())
    x = rl.arange(12.0).reshape(3, 2, 2)
    rl.testing.assert_close(rl.func.vmap(norm)(x), rl.stack([norm(one) for one in x]))
    seen = []
    rl.func.vmap(lambda a: seen.append((rl.func.debug_unwrap(a), a.shape)) or a)(x)
    assert seen[0][1] == (2, 2) and rl.equal(seen[0][0], x) and rl.func.debug_unwrap(x) is x
    doubled = rl.func.functionalize(lambda a: a.mul_(2))
    assert doubled(x) is x and x[0, 0, 1].item() == 2
    with pytest.raises(RuntimeError, match="received invalid argument for remove=views"): rl.func.functionalize(doubled, remove="views")


# --------------------------------------------------------------------- vmap of what was differentiated outside
def test_vmap_of_the_function_of_vjp_and_of_linearize():
    w, x, _ = tensors()
    out, back = vjp(lambda w, x: (w * x).sin(), w, x)
    marks = rl.randn(6, *out.shape)
    for batched, single in zip(vmap(back)(marks), zip(*[back(m) for m in marks])): close(batched, rl.stack(single))
    close(vmap(vmap(back))(marks[None])[0][0], vmap(back)(marks)[0])
    out, forth = linearize(lambda x: (w * x).sin(), x)
    tangents = rl.randn(6, 4)
    close(vmap(forth)(tangents), rl.stack([forth(t) for t in tangents]))
    close(grad(lambda w: vmap(vjp(lambda x: (w * x).sin(), x)[1])(marks)[0].sum())(w), grad(lambda w: sum(vjp(lambda x: (w * x).sin(), x)[1](m)[0].sum() for m in marks))(w))


def test_autograd_in_vmap_of_a_graph_made_outside():
    x = rl.arange(6.0).reshape(2, 3).requires_grad_()
    y = (x * x).sum(1)
    found = vmap(lambda g: rl.autograd.grad(y, x, g, retain_graph=True)[0] * g.sum())(rl.eye(2))
    assert rl.equal(found, rl.autograd.grad(y, x, rl.eye(2), is_grads_batched=True, retain_graph=True)[0])
    for call in (lambda g: y.backward(g), lambda g: rl.autograd.backward(y, g)):
        with pytest.raises(RuntimeError, match="backward\\(\\) called inside a functorch transform"): vmap(call)(rl.eye(2))
    assert x.grad is None
