"""Every optimizer of torch over its own database of settings: the same parameters and state after some steps, the same refusals."""
import inspect

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")
optim_db = pytest.importorskip("torch.testing._internal.common_optimizers").optim_db

INFO = {info.optim_cls.__name__: info for info in optim_db}
# Those for a GPU are the same, and "capturable": there torch's steps are the same numbers, here it refuses them; ours run.
ENTRIES = {name: list(info.optim_inputs_func(device="cpu")) + [e for e in info.optim_inputs_func(device="cuda") if e.kwargs.get("capturable")] for name, info in INFO.items()}
# torch has up to five implementations of an optimizer, which flags choose: every entry is compared with each that the optimizer has, and with sparse gradients where it takes them.
FLAGS = {"foreach": [{"foreach": True}, {"foreach": False}], "fused": [{"fused": True}], "differentiable": [{"differentiable": True}]}


def ways(name, entry):
    info = INFO[name]
    if entry.kwargs.get("capturable"): return ["plain"]
    if info.only_supports_sparse_grads: return ["sparse"]
    return ["plain", *(f"{flag}={value}" for kind in info.supported_impls for choice in FLAGS[kind] for flag, value in choice.items()), *(["sparse"] if info.supports_sparse else [])]


CASES = [pytest.param(name, i, way, id=f"{name}-{i}-{entry.desc}-{way}") for name, entries in ENTRIES.items() for i, entry in enumerate(entries) for way in ways(name, entry)]
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


def run_sparse(library, name, kwargs):
    """Three steps with gradients for some rows, one of them twice."""
    rng = np.random.default_rng(1)
    params = parameters(library, name)[:2]
    optimizer = getattr(library.optim, name)(params, **kwargs)
    for _ in range(3):
        for p in params:
            rows = library.tensor([rng.permutation(p.shape[0])[[0, 1, 0]].tolist()])
            p.grad = library.sparse_coo_tensor(rows, library.tensor(rng.standard_normal((3, *p.shape[1:]))), tuple(p.shape))
        optimizer.step()
    return params, optimizer, []


def run_differentiable(library, name, kwargs):
    """Three recorded steps: what came out, and the gradients to what the parameters were; None of torch's where it wrote over what they need."""
    start = parameters(library, name)
    params = [p.clone() for p in start]
    for p in params: p.retain_grad()
    optimizer = getattr(library.optim, name)(params, **kwargs)
    for step in range(3):
        for i, p in enumerate(params): p.grad = (p + (p * (i + 1 + 0.1 * step)).cos() * (i + 1 + 0.1 * step)).detach()
        optimizer.step()
    try: gradients = library.autograd.grad(sum((p * p).sum() for p in params), start)
    except RuntimeError as error:
        if library is rl or "has been modified by an inplace operation" not in str(error): raise
        gradients = [None] * len(start)
    return [*params, *gradients], optimizer, []


def compare_states(theirs, ours, tolerance):
    assert list(theirs) == list(ours)
    for key, value in theirs.items():
        mine = ours[key]
        if isinstance(value, torch.Tensor):
            assert str(value.dtype) == str(mine.dtype) and tuple(value.shape) == tuple(mine.shape), key
            assert str(value.layout) == str(mine.layout), key
            np.testing.assert_allclose(mine.detach().to_dense().numpy(), value.detach().to_dense().numpy(), rtol=tolerance, atol=tolerance, err_msg=key)


def outcome(call):
    try: return call(), None
    except (RuntimeError, ValueError) as error: return None, error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name, index, way", CASES)
def test_same_steps(name, index, way):
    kwargs = dict(ENTRIES[name][index].kwargs)
    if "=" in way:
        flag, value = way.split("=")
        kwargs[flag] = value == "True"
    mine = {k: converted(v) for k, v in kwargs.items()}
    if way == "sparse": call = run_sparse
    elif kwargs.get("differentiable"): call = run_differentiable
    else:
        def call(library, name, kwargs): return run(library, name, kwargs, steps=3 if name == "LBFGS" else 7)      # each of its steps is up to 20, and rounding grows with them
    kwargs.pop("capturable", None)
    expected, their_error = outcome(lambda: call(torch, name, kwargs))
    found, error = outcome(lambda: call(rl, name, mine))
    if their_error is not None:
        assert type(error) is type(their_error) and str(error)[:30] == str(their_error)[:30]
        return
    if error is not None: raise error
    (theirs, their_optimizer, their_losses), (ours, optimizer, losses) = expected, found
    tolerance = TOLERANCE.get(name, 1e-6)             # bias corrections from float32 step counters
    assert losses == pytest.approx(their_losses, rel=tolerance)
    for p, q in zip(theirs, ours, strict=True):
        if p is not None: np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=tolerance, atol=tolerance)
    if name != "LBFGS":                               # its state is one record with lists
        for state, mine in zip(their_optimizer.state.values(), optimizer.state.values(), strict=True):
            compare_states(state, mine, tolerance)
    a, b = their_optimizer.state_dict(), optimizer.state_dict()
    assert [sorted(g) for g in a["param_groups"]] == [sorted(g) for g in b["param_groups"]]


def test_nothing_is_left_out():
    """Each entry of the database runs at least once, and torch's list of implementations is the one above."""
    assert {(case.values[0], case.values[1]) for case in CASES} == {(name, i) for name, entries in ENTRIES.items() for i in range(len(entries))}
    assert len(CASES) == 389


@pytest.mark.parametrize("name", sorted(INFO))
def test_same_signature_and_refusals(name):
    theirs, ours = (inspect.signature(getattr(library.optim, name).__init__) for library in (torch, rl))
    assert [(p.name, p.kind) for p in theirs.parameters.values()] == [(p.name, p.kind) for p in ours.parameters.values()]
    assert [p.default for p in theirs.parameters.values()] == [p.default for p in ours.parameters.values()]
    for entry in INFO[name].optim_error_inputs_func(device="cpu", dtype=torch.float32):
        kwargs, given = entry.optimizer_error_input.kwargs, entry.optimizer_error_input.params
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

        expected = pytest.warns if issubclass(entry.error_type, Warning) else pytest.raises
        with expected(entry.error_type, match=entry.error_regex):
            optimizer = getattr(rl.optim, name)(same(given), **{k: same(v) for k, v in kwargs.items()})
            if "STEP" in entry.error_on.name:
                for p in same(given): p.grad = rl.ones_like(p)
                optimizer.step()


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
