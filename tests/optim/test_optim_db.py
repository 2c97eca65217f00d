"""Every optimizer of torch over its own database of settings: the same parameters and state after some steps, the same refusals."""
import inspect
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
optim_db = pytest.importorskip("torch.testing._internal.common_optimizers").optim_db

CASES = [pytest.param(info.optim_cls.__name__, i, id=f"{info.optim_cls.__name__}-{i}-{entry.desc}")
         for info in optim_db if info.optim_cls.__name__ != "SparseAdam" for i, entry in enumerate(info.optim_inputs_func(device="cpu"))]
INFO = {info.optim_cls.__name__: info for info in optim_db}
ONLY_MATRICES = ("Muon",)
# Muon's iteration runs in bfloat16: what the parameters share is its accuracy, times the step.
TOLERANCE = {"Muon": 3e-4}


def converted(value):
    if isinstance(value, torch.Tensor):
        return rl.tensor(value.item())
    return type(value)(converted(v) for v in value) if isinstance(value, (tuple, list)) else value


def parameters(library, name, dtype="float64"):
    rng = np.random.default_rng(0)
    shapes = [(4, 3), (3, 5)] if name in ONLY_MATRICES else [(4, 3), (5,), (2, 2, 2)]
    return [library.nn.Parameter(library.tensor(rng.standard_normal(s), dtype=getattr(library, dtype))) for s in shapes]


def closure_of(library, params, optimizer, step):
    def closure():
        optimizer.zero_grad()
        loss = sum(((p * p).sum() * 0.5 + (p * (i + 1 + 0.1 * step[0])).sin().sum()) for i, p in enumerate(params))
        loss.backward()
        return loss
    return closure


def run(library, name, kwargs, dtype="float64", steps=7):
    params = parameters(library, name, dtype)
    optimizer = getattr(library.optim, name)(params, **kwargs)
    step = [0]
    losses = []
    for step[0] in range(steps):
        losses.append(float(optimizer.step(closure_of(library, params, optimizer, step))))
    return params, optimizer, losses


def compare_states(theirs, ours, tolerance):
    assert list(theirs) == list(ours)
    for key, value in theirs.items():
        mine = ours[key]
        if isinstance(value, torch.Tensor):
            assert str(value.dtype) == str(mine.dtype) and tuple(value.shape) == tuple(mine.shape), key
            np.testing.assert_allclose(mine.detach().numpy(), value.detach().numpy(), rtol=tolerance, atol=tolerance, err_msg=key)


@pytest.mark.parametrize("name, index", CASES)
def test_same_steps(name, index):
    kwargs = dict(INFO[name].optim_inputs_func(device="cpu")[index].kwargs)
    if kwargs.get("capturable"):
        pytest.skip("torch refuses capturable on the CPU")
    params = kwargs.pop("params", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        steps = 3 if name == "LBFGS" else 7           # each of its steps is up to 20, and rounding grows with them
        theirs, their_optimizer, their_losses = run(torch, name, kwargs, steps=steps)
        ours, optimizer, losses = run(rl, name, {k: converted(v) for k, v in kwargs.items()}, steps=steps)
    assert params is None or isinstance(params, list)
    tolerance = TOLERANCE.get(name, 1e-6)             # bias corrections from float32 step counters
    assert losses == pytest.approx(their_losses, rel=tolerance)
    for p, q in zip(theirs, ours):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=tolerance, atol=tolerance)
    if name != "LBFGS":                               # its state is one record with lists
        for p, q in zip(theirs, ours):
            compare_states(their_optimizer.state[p], optimizer.state[q], tolerance)
    a, b = their_optimizer.state_dict(), optimizer.state_dict()
    assert [sorted(g) for g in a["param_groups"]] == [sorted(g) for g in b["param_groups"]]


@pytest.mark.parametrize("name", sorted(INFO))
def test_same_signature_and_refusals(name):
    theirs, ours = (inspect.signature(getattr(library.optim, name).__init__) for library in (torch, rl))
    assert [(p.name, p.kind) for p in theirs.parameters.values()] == [(p.name, p.kind) for p in ours.parameters.values()]
    assert [p.default for p in theirs.parameters.values()] == [p.default for p in ours.parameters.values()]
    for entry in INFO[name].optim_error_inputs_func(device="cpu", dtype=torch.float32):
        kwargs, given = entry.optimizer_error_input.kwargs, entry.optimizer_error_input.params
        if "CONSTRUCTION" not in entry.error_on.name or entry.error_type is UserWarning:
            continue
        def mine(value):
            if isinstance(value, torch.Tensor):
                tensor = rl.tensor(value.detach().to_dense().numpy())
                if value.is_sparse: return tensor.to_sparse()
                return rl.nn.Parameter(tensor) if value.requires_grad else tensor
            if isinstance(value, dict):
                return {k: mine(v) for k, v in value.items()}
            return type(value)(mine(v) for v in value) if isinstance(value, (list, tuple)) else value

        seen: dict = {}

        def same(value):                              # one torch parameter, one of ours
            if isinstance(value, torch.Tensor):
                return seen.setdefault(id(value), mine(value))
            if isinstance(value, dict):
                return {k: same(v) for k, v in value.items()}
            return type(value)(same(v) for v in value) if isinstance(value, (list, tuple)) else value

        with pytest.raises(entry.error_type, match=entry.error_regex):
            getattr(rl.optim, name)(same(given), **{k: same(v) for k, v in kwargs.items()})


@pytest.mark.parametrize("name", ["Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"])
def test_differentiable_is_the_same_and_has_a_gradient(name):
    """The recorded step gives the fused step's values, and a gradient to what the first parameter was made from."""
    plain, _, _ = run(rl, name, {}, steps=3)
    start = [p.detach().clone().requires_grad_() for p in parameters(rl, name)]
    params = [p.clone() for p in start]
    for p in params:
        p.retain_grad()
    optimizer = getattr(rl.optim, name)(params, differentiable=True)
    for step in range(3):
        for i, p in enumerate(params):
            p.grad = (p + (p * (i + 1 + 0.1 * step)).cos() * (i + 1 + 0.1 * step)).detach()
        optimizer.step()
    for p, q in zip(plain, params):
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-6)
    gradient, = rl.autograd.grad(params[0].sum(), start[0])
    assert gradient.shape == start[0].shape and bool((gradient != 0).all())


@pytest.mark.parametrize("name", ["Adadelta", "Adagrad", "Adamax", "NAdam", "RAdam", "RMSprop"])
def test_complex_parameters(name):
    def step(library):
        value = library.tensor([1 + 2j, -0.5 + 0.25j], dtype=library.complex128)
        param = library.nn.Parameter(value)
        optimizer = getattr(library.optim, name)([param], lr=0.1)
        for _ in range(3):
            param.grad = (param * (0.5 - 1j)).detach()
            optimizer.step()
        return param.detach().numpy()
    np.testing.assert_allclose(step(rl), step(torch), rtol=1e-6)


def test_strong_wolfe():
    for library, out in ((torch, theirs := []), (rl, ours := [])):
        x = library.nn.Parameter(library.tensor([-1.5, 2.0], dtype=library.float64))
        optimizer = library.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=10)

        def closure(x=x, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
            loss.backward()
            return loss
        out += [float(optimizer.step(closure)) for _ in range(4)] + x.tolist()
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-9)


def test_sparse_adam_refuses_dense_gradients():
    p = rl.nn.Parameter(rl.ones(2))
    p.grad = rl.ones(2)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"):
        rl.optim.SparseAdam([p]).step()
