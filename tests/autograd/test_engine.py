"""backward() and grad(): accumulation, graphs kept and freed, hooks, reentrancy, threads, errors."""
import gc
import threading
import warnings
import weakref

import pytest

import rushlight as rl


def leaf(*values):
    return rl.tensor(values, requires_grad=True)


def test_gradients_accumulate_in_the_leaf():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    first = x.grad
    assert first.tolist() == [2.0, 4.0]
    (x * 3).sum().backward()
    assert x.grad is first and x.grad.tolist() == [5.0, 7.0]
    assert not x.grad.requires_grad


def test_one_leaf_used_many_times():
    x = leaf(2.0)
    y = x * x + x * 3 + x
    y.sum().backward()
    assert x.grad.tolist() == [8.0]


def test_gradient_of_the_user_is_not_taken():
    x = leaf(1.0, 2.0)
    given = rl.tensor([1.0, 1.0])
    (x + 0).backward(given)
    x.grad.add_(1)
    assert given.tolist() == [1.0, 1.0]


def test_two_leaves_do_not_share_a_gradient():
    x, y = leaf(1.0), leaf(2.0)
    (x + y).backward(rl.tensor([1.0]))
    x.grad.add_(5)
    assert y.grad.tolist() == [1.0]


def test_gradient_lies_in_memory_as_its_leaf():
    x = rl.ones(3, 4).t().requires_grad_()
    (x * 2).sum().backward()
    assert x.grad.stride() == x.stride()


def test_second_backward_is_refused_and_retained_one_is_not():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_graph_without_saved_values_may_be_run_again():
    x = leaf(1.0)
    y = (x + 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [2.0]


def test_grad_leaves_dot_grad_alone():
    x, y = leaf(3.0), leaf(4.0)
    gx, gy = rl.autograd.grad((x * y).sum(), [x, y])
    assert (gx.tolist(), gy.tolist()) == ([4.0], [3.0])
    assert x.grad is None and y.grad is None


def test_grad_of_intermediate_and_of_the_output_itself():
    x = leaf(3.0)
    m = x * x
    y = m * m
    gm, gx, gy = rl.autograd.grad(y.sum(), [m, x, y])
    assert (gm.tolist(), gx.tolist(), gy.tolist()) == ([18.0], [108.0], [1.0])


def test_grad_unused_input():
    x, y = leaf(3.0), leaf(4.0)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        rl.autograd.grad((x * 2).sum(), y)
    assert rl.autograd.grad((x * 2).sum(), y, allow_unused=True) == (None,)
    zero, = rl.autograd.grad((x * 2).sum(), y, materialize_grads=True)
    assert zero.tolist() == [0.0]


def test_backward_inputs():
    x, y = leaf(3.0), leaf(4.0)
    m = x * y
    (m * m).sum().backward(inputs=[x, m])
    assert x.grad.tolist() == [96.0] and m.grad.tolist() == [24.0] and y.grad is None
    with pytest.raises(RuntimeError, match="`inputs` argument to `backward\\(\\)` cannot be empty"):
        (x * y).sum().backward(inputs=[])


def test_several_roots():
    x = leaf(1.0, 2.0)
    a, b = x * 2, x * x
    rl.autograd.backward([a.sum(), b], [None, rl.tensor([1.0, 10.0])])
    assert x.grad.tolist() == [4.0, 42.0]


def test_more_arguments_than_a_mask_has_bits():
    xs = [rl.ones(2, requires_grad=i % 2 == 0) for i in range(100)]
    (rl.cat(xs) * 3).sum().backward()
    assert all((x.grad.tolist() == [3.0, 3.0]) if x.requires_grad else x.grad is None for x in xs)


def test_zero_by_structure_is_zero_and_unused_is_none():
    x, y = leaf(1.0), leaf(2.0)
    z = x * y
    z.zero_()
    z.sum().backward()
    assert x.grad.tolist() == [0.0] and y.grad.tolist() == [0.0]
    assert rl.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)[1] is None


def test_create_graph():
    x = leaf(2.0)
    y = (x * x * x).sum()
    g, = rl.autograd.grad(y, x, create_graph=True)
    gg, = rl.autograd.grad(g.sum(), x, create_graph=True)
    ggg, = rl.autograd.grad(gg.sum(), x)
    assert (g.tolist(), gg.tolist(), ggg.tolist()) == ([12.0], [12.0], [6.0])


def test_double_backward_through_saved_output():
    x = leaf(0.5)
    g, = rl.autograd.grad(x.exp().sum(), x, create_graph=True)
    gg, = rl.autograd.grad(g.sum(), x)
    assert gg.item() == pytest.approx(rl.exp(rl.tensor(0.5)).item())


def test_errors_before_anything_runs():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad and does not have a grad_fn"):
        rl.ones(2).sum().backward()
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of torch.Size\(\[3\]\)"):
        (x * 2).backward(rl.ones(3))
    with pytest.raises(TypeError, match="gradients can be either Tensors or None, but got int"):
        rl.autograd.backward([x.sum()], [1])
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
        rl.autograd.grad(x.sum(), rl.ones(2))
    assert x.grad is None


def test_version_counter():
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.mul_(2)
    with pytest.raises(RuntimeError, match="one of the variables needed for gradient computation has been modified by an inplace "
                                           "operation: "
                       r"\[torch.FloatTensor \[2\]\], which is output 0 of Exp"):
        y.sum().backward()
    w = rl.ones(2)
    z = (x * w).sum()
    w.add_(1)
    with pytest.raises(RuntimeError, match=r"\[torch.FloatTensor \[2\]\] is at version 1; expected version 0 instead"):
        z.backward()


# --------------------------------------------------------------------------------------------------------------- hooks
def test_tensor_hooks_replace_and_can_be_removed():
    x = leaf(1.0)
    y = x * 2
    handle = y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g + 1)
    y.sum().backward()
    assert x.grad.tolist() == [21.0]
    handle.remove()
    x.grad = None
    (x * 2).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_hook_errors():
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: rl.ones(3))
    with pytest.raises(RuntimeError, match="has changed the size of value"):
        x.sum().backward()
    with pytest.raises(RuntimeError, match="cannot register a hook on a tensor that doesn't require gradient"):
        rl.ones(2).register_hook(print)


def test_retain_grad():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    assert y.retains_grad
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0]
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        rl.ones(1).retain_grad()


def test_retain_grad_follows_an_in_place_write():
    x = leaf(1.0)
    y = x * 2
    y.retain_grad()
    y.mul_(5)
    y.sum().backward()
    assert y.grad.tolist() == [1.0] and x.grad.tolist() == [10.0]


def test_node_hooks():
    x = leaf(1.0)
    y = x * 2
    order = []
    y.grad_fn.register_prehook(lambda grads: order.append("pre"))
    y.grad_fn.register_hook(lambda inputs, outputs: order.append("post") or tuple(None if g is None else g * 7 for g in inputs))
    y.sum().backward()
    assert order == ["pre", "post"] and x.grad.tolist() == [14.0]


def test_post_accumulate_hook():
    x = leaf(1.0)
    seen = []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    (x * 2).sum().backward()
    assert seen == [[2.0]]
    with pytest.raises(RuntimeError, match="post accumulate grad hooks cannot be registered on non-leaf tensors"):
        (x * 2).register_post_accumulate_grad_hook(print)


def test_hook_that_differentiates_the_same_graph():
    x = leaf(1.0, 2.0)
    y = x * x
    z = (y * y).sum()
    inner = []

    def hook(grad):
        if not inner:
            inner.append(None)
            inner[0] = rl.autograd.grad(z, x, retain_graph=True)[0].tolist()

    y.register_hook(hook)
    z.backward(retain_graph=True)
    assert inner == [[4.0, 32.0]] and x.grad.tolist() == [4.0, 32.0]


def test_exception_half_way_then_backward_again():
    x = leaf(1.0, 2.0)
    y = x * x
    handle = y.register_hook(lambda g: 1 / 0)
    z = (y * y).sum()
    with pytest.raises(ZeroDivisionError):
        z.backward(retain_graph=True)
    handle.remove()
    z.backward()
    assert x.grad.tolist() == [4.0, 32.0]


def test_threads_share_a_retained_graph():
    x = rl.ones(1000, requires_grad=True)
    y = (x * x).sum()

    def run():
        for _ in range(50):
            y.backward(retain_graph=True)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert x.grad[0].item() == 400.0


# --------------------------------------------------------------------------------------------------------------- nodes
def test_grad_fn():
    x = leaf(1.0)
    y = x * 2
    assert y.grad_fn is y.grad_fn and y.grad_fn.name() == "MulBackward0"
    (node, slot), *_ = y.grad_fn.next_functions
    assert type(node).__name__ == "AccumulateGrad" and slot == 0 and node.variable is x
    y.grad_fn.metadata["mark"] = 1
    assert y.grad_fn.metadata == {"mark": 1}
    assert x.grad_fn is None and x.is_leaf and not y.is_leaf


def test_a_leaf_lives_as_long_as_its_graph():
    def graph():
        w = leaf(2.0)
        w.register_hook(lambda g: seen.append(g.tolist()))
        return (w * w).sum(), weakref.ref(w)

    seen = []
    y, w = graph()
    y.backward()
    assert seen == [[4.0]] and w() is not None
    del y
    gc.collect()
    assert w() is None


def test_deep_graph_is_run_and_freed_without_recursion():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    del y
    assert x.grad.tolist() == [1.0]


def cycle_through_hook():
    x = leaf(1.0)
    x.register_hook(lambda g: x)
    return x


def cycle_through_hook_of_result():
    y = leaf(1.0) * 2
    y.register_hook(lambda g: y)
    return y


def cycle_through_leaf_hook_and_graph():
    x = leaf(1.0)
    y = x * 2
    x.register_hook(lambda g: y)
    return x


def cycle_through_attribute():
    x = leaf(1.0)
    x.self = x
    return x


def cycle_through_view_base():
    x = rl.ones(2)
    x.view_of_me = x[0]
    return x


@pytest.mark.parametrize("make", [cycle_through_hook, cycle_through_hook_of_result, cycle_through_attribute, cycle_through_view_base])
def test_cycles_are_collected(make):
    ref = weakref.ref(make())
    gc.collect()
    assert ref() is None


def test_anomaly_mode_names_the_forward_line():
    x = leaf(-1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with rl.autograd.detect_anomaly():
            y = rl.sqrt(x)  # the line to be named
            with pytest.raises(RuntimeError, match="Function 'SqrtBackward0' returned nan values in its 0th output."):
                y.sum().backward()
    text = "".join(str(w.message) for w in caught)
    assert "Error detected in SqrtBackward0. Traceback of forward call that caused the error" in text
    assert "the line to be named" in text


def test_inference_tensors_have_no_version():
    with rl.inference_mode(): x = rl.ones(2)
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"): x._version  # noqa: B018 - the access raises


def test_an_operator_without_derivative_is_refused_when_it_is_differentiated():
    x = (rl.eye(3) + 0.1).requires_grad_()
    factors, pivots, _ = rl.linalg.ldl_factor_ex(x.detach())
    for y, words in ((x // 2, "floor_divide"), (2 // x, "floor_divide"), (rl.heaviside(x, x), "heaviside"), (rl.linalg.ldl_factor(x)[0], "linalg_ldl_factor_ex"),
                     (rl.linalg.ldl_solve(factors, pivots, x), "linalg_ldl_solve"), (rl.histogram(x, 4)[0], "histogram")):
        with pytest.raises(RuntimeError, match=f"derivative for aten::{words} is not implemented"): (y.sum() + x.sum()).backward()
    with pytest.raises(RuntimeError, match="derivative for aten::bincount is not implemented"): rl.bincount(rl.tensor([1, 1, 0]), x[0]).sum().backward()
    for y, words in ((rl.geqrf(x)[0], "geqrf"), (rl.unique(x), "_unique2"), (rl.unique(x, dim=0, return_counts=True)[0], "unique_dim"), (x.unique_consecutive(), "unique_consecutive"),
                     (x.unique_consecutive(dim=1), "unique_consecutive")):
        with pytest.raises(NotImplementedError, match=f"the derivative for '{words}' is not implemented"): (y.sum() + x.sum()).backward()


def test_what_a_result_does_not_depend_on_has_zeros_or_none_as_in_torch():
    x, q = rl.arange(6.0).requires_grad_(), rl.tensor(0.4).requires_grad_()
    assert rl.autograd.grad(x.sign().sum(), x)[0].tolist() == [0.0] * 6
    for how, none in (("linear", False), ("lower", True), ("midpoint", True)):
        found = rl.autograd.grad(rl.quantile(x, q, interpolation=how), (x, q), allow_unused=True)
        assert found[0] is not None and (found[1] is None) is none
    assert rl.autograd.grad(rl.linalg.vector_norm(x, 0), x, allow_unused=True) == (None,)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"): rl.autograd.grad(rl.linalg.vector_norm(x, 0), x)
    rl.diff(x, n=0, prepend=q.reshape(1)).sum().backward()
    assert q.grad is None and x.grad.tolist() == [1.0] * 6
