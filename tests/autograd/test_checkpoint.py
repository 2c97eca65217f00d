"""utils.checkpoint: what is computed again, and when; what is refused."""
import gc

import pytest

import rushlight as rl
from rushlight import _C
from rushlight.utils import checkpoint as module
from rushlight.utils.checkpoint import CheckpointError, checkpoint

KINDS = pytest.mark.parametrize("reentrant", [False, True])


def pair():
    return rl.tensor([1.0, 2.0], requires_grad=True), rl.tensor([3.0, 4.0], requires_grad=True)


class Counted:
    def __init__(self, function): self.function, self.calls = function, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


def wave(a, b): return (a * b).sin().exp()


@KINDS
def test_gradients_are_those_without(reentrant):
    a, b = pair()
    want = rl.autograd.grad(wave(a, b).sum(), [a, b])
    f = Counted(wave)
    checkpoint(f, a, b, use_reentrant=reentrant).sum().backward()
    assert f.calls == 2 and rl.equal(a.grad, want[0]) and rl.equal(b.grad, want[1])


def test_nothing_but_the_inputs_is_kept():
    def deep(x):
        for _ in range(20): x = x.exp().log()
        return x

    def held(run):
        x = rl.ones(1000, requires_grad=True)
        gc.collect()
        before = _C.memory_stats()["allocated_bytes"]
        y = run(x)
        return _C.memory_stats()["allocated_bytes"] - before, y

    whole, _ = held(deep)
    part, _ = held(lambda x: checkpoint(deep, x, use_reentrant=False))
    assert part < whole / 5            # the generator's state and the result are among it


def test_closures_in_place_writes_and_structures():
    a, b = pair()
    c = a * 2

    def part(x, *, y):
        z = x.clone()
        z.mul_(y)
        z[0] = c[0]
        return {"z": z, "more": [x * c, 5]}

    def loss(result): return result["z"].sum() + result["more"][0].sum()

    want = rl.autograd.grad(loss(part(a, y=b)), [a, b], retain_graph=True)
    result = checkpoint(part, a, y=b, use_reentrant=False)
    assert result["more"][1] == 5
    got = rl.autograd.grad(loss(result), [a, b])
    assert all(rl.equal(x, y) for x, y in zip(got, want))


def test_nested_parts_and_second_derivatives():
    a, b = pair()

    def outer(x, y): return checkpoint(wave, x, y, use_reentrant=False) * x

    def second(function):
        g, = rl.autograd.grad(function(a, b).sum(), a, create_graph=True)
        return [g, *rl.autograd.grad(g.sum(), [a, b])]

    for got, want in zip(second(lambda x, y: checkpoint(outer, x, y, use_reentrant=False)), second(lambda x, y: wave(x, y) * x)):
        assert rl.allclose(got, want)


def test_a_retained_graph_computes_again_each_time():
    a, b = pair()
    f = Counted(wave)
    out = checkpoint(f, a, b, use_reentrant=False).sum()
    out.backward(retain_graph=True)
    first = a.grad.clone()
    out.backward()
    assert f.calls == 3 and rl.equal(a.grad, 2 * first)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        out.backward()


@pytest.mark.parametrize("stop, reached", [(True, 1), (False, 2)])
def test_early_stop(stop, reached):
    after = Counted(lambda x: x)
    x = rl.ones(2, requires_grad=True)
    with module.set_checkpoint_early_stop(stop):
        out = checkpoint(lambda x: after(x.exp()), x, use_reentrant=False)
    out.sum().backward()
    assert after.calls == reached


def test_random_numbers_and_autocast_are_brought_back():
    x = rl.ones(64, requires_grad=True)
    out = checkpoint(lambda x: rl.nn.functional.dropout(x * x, 0.5), x, use_reentrant=False)
    drawn = rl.rand(3)
    out.sum().backward()
    assert rl.equal(x.grad, 2 * out.detach()) and not rl.equal(rl.rand(3), drawn)
    w = rl.ones(2, 2, requires_grad=True)
    with rl.autocast("cpu"): out = checkpoint(lambda w: w @ w, w, use_reentrant=False)
    out.sum().backward()
    assert out.dtype == rl.bfloat16 and w.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]


def test_a_part_that_computes_something_else_is_noticed():
    x = rl.ones(2, requires_grad=True)

    def changing(first, then):
        turn = iter((first, then))
        return checkpoint(lambda x: next(turn)(x), x, use_reentrant=False, early_stop=False).sum()

    with pytest.raises(CheckpointError, match="trying to save more tensors during recomputation"):
        changing(lambda x: x.exp(), lambda x: x.sin().exp()).backward()
    with pytest.raises(CheckpointError, match="A different number of tensors was saved"):
        changing(lambda x: x.sin().exp(), lambda x: x.exp()).backward()
    with pytest.raises(CheckpointError, match="have different metadata"):
        changing(lambda x: x.exp().sum(), lambda x: x[:1].exp().sum()).backward()
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(wave, x, x, use_reentrant=False, determinism_check="some")


def test_inputs_that_were_written_since_are_refused():
    a, b = pair()
    c = a * 1
    out = checkpoint(wave, c, b, use_reentrant=False)
    c.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_grad_inside_the_part():
    x = rl.tensor([1.0, 2.0], requires_grad=True)

    def part(x):
        y = x.exp()
        g, = rl.autograd.grad(y.sum(), x, retain_graph=True)
        return y * g

    checkpoint(part, x, use_reentrant=False).sum().backward()
    assert rl.allclose(x.grad, x.detach().exp() ** 2)


@KINDS
def test_sequential(reentrant):
    rl.manual_seed(0)
    net = rl.nn.Sequential(rl.nn.Linear(2, 3), rl.nn.Tanh(), rl.nn.Linear(3, 2), rl.nn.Tanh())
    x = rl.ones(3, 2, requires_grad=True)
    want = rl.autograd.grad(net(x).sum(), [x, *net.parameters()])
    module.checkpoint_sequential(net, 2, x, use_reentrant=reentrant).sum().backward()
    assert all(rl.equal(p.grad, g) for p, g in zip([x, *net.parameters()], want))


# ------------------------------------------------------------------------------------------------------------------ some results are kept
def block(x, w, v):
    hidden = rl.nn.functional.linear(x, w, v).tanh()
    return (hidden @ w).sigmoid().mul(rl.nn.functional.dropout(x @ w.t(), 0.5)) * hidden.exp()


class Seen(rl.overrides.TorchFunctionMode):
    """The names of the calls that really run."""

    def __init__(self): self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def run_block(context_fn=module.noop_context_fn, **options):
    rl.manual_seed(0)
    leaves = [rl.randn(4, 4, requires_grad=True), rl.randn(4, 4, requires_grad=True), rl.randn(4, requires_grad=True)]
    out = checkpoint(block, *leaves, use_reentrant=False, context_fn=context_fn, **options)
    with Seen() as seen: gradients = rl.autograd.grad(out.sum(), leaves, retain_graph=True)
    return out, leaves, gradients, seen.names


MM, ADDMM = rl.ops.aten.mm.default, rl.ops.aten.addmm.default


@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("keep", [[], [MM], [ADDMM], [MM, ADDMM, rl.ops.aten.tanh.default, rl.ops.aten.exp.default, rl.ops.aten._dropout.default]])
def test_kept_results_are_not_computed_again(keep, early_stop):
    _, _, want, _ = run_block()
    out, leaves, got, ran = run_block(lambda: module.create_selective_checkpoint_contexts(keep), early_stop=early_stop)
    for a, b in zip(got, want): rl.testing.assert_close(a, b, rtol=0, atol=0)
    assert ("matmul" in ran) == (MM not in keep) and ("linear" in ran) == (ADDMM not in keep) and "sigmoid" in ran
    for a, b in zip(rl.autograd.grad(out.sum(), leaves), want): rl.testing.assert_close(a, b, rtol=0, atol=0)          # and a second time


def test_a_policy_sees_operators_and_says_what_is_kept():
    calls = []

    def policy(context, operator, *args, **kwargs):
        calls.append((context.is_recompute, operator))
        return module.CheckpointPolicy.PREFER_SAVE if operator is MM else module.CheckpointPolicy.MUST_RECOMPUTE
    run_block(lambda: module.create_selective_checkpoint_contexts(policy))
    assert (False, MM) in calls and (True, MM) in calls and (False, ADDMM) in calls
    with pytest.raises(RuntimeError, match="not found in storage"): run_block(lambda: module.create_selective_checkpoint_contexts(lambda context, *rest, **more: context.is_recompute))
    with pytest.raises(TypeError, match="policy_fn_or_list must be either"): module.create_selective_checkpoint_contexts(3)
    with pytest.raises(ValueError, match="Expected op in `op_list`"): module.create_selective_checkpoint_contexts([rl.mm])


def test_a_kept_result_that_was_written_over_is_an_error():
    def careless(x):
        product = x @ x
        result = product.sin()
        with rl.no_grad(): product.mul_(2)
        return result * 2
    for allow in (False, True):
        x = rl.ones(2, 2, requires_grad=True)
        out = checkpoint(careless, x, use_reentrant=False, context_fn=lambda allow=allow: module.create_selective_checkpoint_contexts([MM], allow_cache_entry_mutation=allow))
        if allow: out.sum().backward()
        else:
            with pytest.raises(RuntimeError, match="has been mutated"): out.sum().backward()


def test_backward_passes_of_a_group_share_one_computation():
    a, _ = pair()
    f = Counted(lambda x: (x.sin(), x.exp()))
    first, second = checkpoint(f, a, use_reentrant=False, early_stop=False)
    with module.GraphExecGroup():
        first.sum().backward()
        second.sum().backward()
    assert f.calls == 2
    rl.testing.assert_close(a.grad, a.detach().cos() + a.detach().exp())


@pytest.mark.parametrize("keep", [[], [MM], [rl.ops.aten.index.default, rl.ops.aten.slice.Tensor]])
def test_indexing_inside_a_selective_part(keep):
    def block(x):
        y = x @ x
        z = y[rl.tensor([0, 2])][:, 1:] * len(y)
        z[0] = 1.0
        return (z.sin() * y[y > 0].sum()).sum()
    x = rl.randn(3, 3, requires_grad=True)
    out = checkpoint(block, x, use_reentrant=False, context_fn=lambda: module.create_selective_checkpoint_contexts(keep))
    for a, b in zip(rl.autograd.grad(out, x), rl.autograd.grad(block(x), x)): rl.testing.assert_close(a, b, rtol=0, atol=0)
