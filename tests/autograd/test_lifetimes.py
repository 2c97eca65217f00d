"""What a graph keeps alive, and for how long: deep graphs, cycles, loops of many steps, exceptions, threads."""
import gc
import os
import threading
import weakref

import pytest

import rushlight as rl
from rushlight import _C
from rushlight.autograd import Function

SLOW = os.environ.get("RUSHLIGHT_SLOW_TESTS") == "1"


def leaf(*values):
    return rl.tensor(values, requires_grad=True)


def counters():
    gc.collect()
    stats, memory = _C.stats(), _C.memory_stats()
    return {**{k: v for k, v in stats.items() if k in ("tensors", "nodes", "storages")}, "allocated_bytes": memory["allocated_bytes"]}


# ------------------------------------------------------------------------------------------------------------ deep graphs
def deep(n):
    y = leaf(1.0)
    for _ in range(n): y = y + 1
    return y


def test_a_million_nodes_are_freed_without_recursion():
    before = counters()
    y = deep(1_000_000)
    assert counters()["nodes"] >= before["nodes"] + 1_000_000
    del y
    assert counters() == before


def test_a_deep_graph_freed_by_the_collector():
    before = counters()
    y = deep(100_000)
    y.itself = y
    del y
    assert counters() == before


def test_a_deep_graph_freed_by_an_exception_in_the_middle():
    y = deep(50_000)
    y.register_hook(lambda g: 1 / 0)
    z = y
    for _ in range(50_000): z = z * 1.0
    with pytest.raises(ZeroDivisionError):
        z.sum().backward()
    before = counters()["nodes"]
    del y, z
    assert counters()["nodes"] <= before - 100_000


def test_a_deep_chain_of_functions():
    class Same(Function):
        @staticmethod
        def forward(ctx, x): return x + 0

        @staticmethod
        def backward(ctx, g): return g
    before = counters()
    x = leaf(1.0)
    y = x
    for _ in range(20_000): y = Same.apply(y)
    y.sum().backward()
    assert x.grad.tolist() == [1.0]
    del x, y
    assert counters() == before


def test_deep_views_and_rewritten_history():
    before = counters()
    x = leaf(*[1.0] * 4)
    y = x * 1
    for _ in range(20_000): y[1:3].mul_(1.0)
    y.sum().backward()
    assert x.grad.tolist() == [1.0] * 4
    del x, y
    assert counters() == before


# ----------------------------------------------------------------------------------------------------------------- cycles
def through_tensor_hook():
    x = leaf(1.0)
    x.register_hook(lambda g: x)
    return x


def through_hook_of_a_result():
    y = leaf(1.0) * 2
    y.register_hook(lambda g: y)
    return y


def through_node_hook():
    y = leaf(1.0) * 2
    y.grad_fn.register_hook(lambda inputs, outputs: y and None)
    return y


def through_node_prehook():
    y = leaf(1.0) * 2
    y.grad_fn.register_prehook(lambda g: y and None)
    return y


def through_post_accumulate_hook():
    x = leaf(1.0)
    x.register_post_accumulate_grad_hook(lambda p: x and None)
    return x


def through_metadata():
    y = leaf(1.0) * 2
    y.grad_fn.metadata["me"] = y
    return y


def through_attribute():
    x = leaf(1.0)
    x.other = rl.ones(1)
    x.other.back = x
    return x


def through_view_base():
    x = rl.ones(2)
    x.part = x[0]
    return x


def through_grad():
    x = leaf(1.0)
    x.grad = rl.ones(1)
    x.grad.back = x
    return x


def through_hook_of_a_node_further_down():
    y = (leaf(1.0) * 2).exp()
    y.grad_fn.next_functions[0][0].register_hook(lambda inputs, outputs: y and None)
    return y


def through_ctx():
    class Keep(Function):
        @staticmethod
        def forward(ctx, x):
            result = x * 2
            ctx.result = result
            return result

        @staticmethod
        def backward(ctx, g): return g
    return Keep.apply(leaf(1.0))


def through_saved_output_of_a_function():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, g): return g * ctx.saved_tensors[0]
    return Exp.apply(leaf(1.0))


CYCLES = [through_tensor_hook, through_hook_of_a_result, through_node_hook, through_node_prehook, through_hook_of_a_node_further_down, through_post_accumulate_hook, through_metadata, through_attribute,
          through_view_base, through_grad, through_ctx, through_saved_output_of_a_function]


@pytest.mark.parametrize("make", CYCLES, ids=lambda f: f.__name__)
def test_cycles_are_collected(make):
    before = counters()
    ref = weakref.ref(make())
    assert counters() == before and ref() is None


@pytest.mark.parametrize("make", CYCLES, ids=lambda f: f.__name__)
def test_what_is_held_stays(make):
    """Collecting must not take what is reachable: the same objects, held by a name, survive and still work."""
    x = make()
    ref = weakref.ref(x)
    gc.collect()
    gc.collect()
    assert ref() is x and (x * 1).tolist() == x.tolist()
    if x.requires_grad:
        x.sum().backward()


def test_a_saved_output_makes_no_cycle():
    gc.collect()
    gc.disable()
    try:
        y = leaf(1.0).exp()
        ref = weakref.ref(y)
        del y
        assert ref() is None                                 # by its count alone
    finally:
        gc.enable()


# ---------------------------------------------------------------------------------------------------------- long loops
def train_steps(count):
    w, b = rl.ones(3, 2, requires_grad=True), leaf(0.5, 0.5)
    x = rl.ones(4, 3)
    for _ in range(count):
        loss = ((x @ w + b).relu() ** 2).mean()
        loss.backward()
        with rl.no_grad():
            w -= 1e-6 * w.grad
            b.sub_(b.grad, alpha=1e-6)
        w.grad = b.grad = None


def test_no_leak_in_a_loop():
    train_steps(50)
    before = counters()
    train_steps(1_000_000 if SLOW else 20_000)
    assert counters() == before


def test_no_leak_in_odd_steps():
    """Hooks, double backward, failed and refused calls, views, in-place: a hundred thousand steps in all."""
    class Fails(Function):
        @staticmethod
        def forward(ctx, x): return x * 2

        @staticmethod
        def backward(ctx, g): raise KeyError

    def step():
        x = leaf(1.0, 2.0)
        y = x * x
        handle = y.register_hook(lambda g: g * 2)
        g, = rl.autograd.grad(y.sum(), x, create_graph=True)
        g.sum().backward()
        handle.remove()
        y[0].mul_(2)
        with pytest.raises(KeyError):
            Fails.apply(y).sum().backward()
        with pytest.raises(RuntimeError):
            y + rl.ones(3)
        with pytest.raises(IndexError):
            y[5]
        with pytest.raises(TypeError):
            rl.mul(y, "a")
    for _ in range(50): step()
    before = counters()
    for _ in range(100_000 if SLOW else 3000): step()
    assert counters() == before


# ------------------------------------------------------------------------------------------------- one graph, many runs
def test_hook_that_differentiates_the_graph_it_is_in_deeply():
    x = leaf(1.0, 2.0)
    y = x * x
    z = (y * y).sum()
    depth, inner = [], []

    def hook(grad):
        if len(depth) < 5:
            depth.append(None)
            inner.append(rl.autograd.grad(z, x, retain_graph=True)[0].tolist())

    y.register_hook(hook)
    z.backward(retain_graph=True)
    assert inner == [[4.0, 32.0]] * 5 and x.grad.tolist() == [4.0, 32.0]


def test_threads_on_one_retained_graph_get_the_same_gradients():
    x = rl.arange(1000.0).requires_grad_()
    y = x
    for _ in range(5): y = y * 1.5 + x
    z = y.sum()
    expected = rl.autograd.grad(z, x, retain_graph=True)[0].tolist()
    wrong = []

    def run():
        for _ in range(30):
            if rl.autograd.grad(z, x, retain_graph=True)[0].tolist() != expected: wrong.append(1)
    threads = [threading.Thread(target=run) for _ in range(2)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not wrong


def test_a_failed_run_leaves_nothing_behind():
    x = leaf(1.0, 2.0)
    y = x * x
    z = (y * y).sum() + (y * 3).sum()
    before = counters()
    for _ in range(10):
        handle = y.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            z.backward(retain_graph=True)
        handle.remove()
        del handle
    assert counters() == before and x.grad is None
    z.backward()
    assert x.grad.tolist() == [10.0, 44.0]


def test_a_function_that_runs_backward_inside_backward():
    class Inner(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            x, = ctx.saved_tensors
            with rl.enable_grad():
                inner = x.detach().requires_grad_()
                (inner * inner).sum().backward()
            return g * inner.grad
    x = leaf(3.0)
    y = x
    for _ in range(3): y = Inner.apply(y)
    y.sum().backward()
    assert x.grad.tolist() == [8 * 3.0 ** 7]


# -------------------------------------------------------------------------------------------------------- the graph's shape
def test_next_functions_name_the_whole_graph():
    x, w = leaf(1.0), rl.ones(1)
    y = (x * w + x).exp().sum()
    names, todo = [], [y.grad_fn]
    while todo:
        node = todo.pop(0)
        names.append(node.name())
        todo += [n for n, _ in node.next_functions if n is not None]
    assert names == ["SumBackward0", "ExpBackward0", "AddBackward0", "MulBackward0", "torch::autograd::AccumulateGrad", "torch::autograd::AccumulateGrad"]
    assert y.grad_fn.next_functions[0][0].next_functions[0][0].next_functions[0][0].next_functions[1] == (None, 0)       # w needs no gradient


def test_once_differentiable_and_needs_input_grad():
    from rushlight.autograd.function import once_differentiable
    seen = []

    class Twice(Function):
        @staticmethod
        def forward(ctx, x, k):
            ctx.k = k
            return x * k

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            seen.append((ctx.needs_input_grad, rl.is_grad_enabled()))
            return g * ctx.k, None
    x = leaf(1.0)
    g, = rl.autograd.grad(Twice.apply(x, 2.0), x, leaf(1.0), create_graph=True)
    assert seen == [((True, False), False)]
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once_differentiable"):
        (g * x).sum().backward()


@pytest.mark.parametrize("function", [lambda x: (x * x).sum(), lambda x: rl.softmax(x, 1).pow(2).sum(), lambda x: x.t() @ x, lambda x: x[:, 1:].exp() + x[:, :1],
                                      lambda x: rl.nn.functional.layer_norm(x, (3,)), lambda x: x.clone().mul_(x).view(6)[::2]])
def test_second_derivatives(function):
    rl.manual_seed(0)
    x = rl.randn(2, 3, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(function, (x,)) and rl.autograd.gradgradcheck(function, (x,))
