"""What is done to values saved for backward: hooks, their nesting and errors, `_saved_*`, gradient edges, multi-gradient hooks, mutation."""
import contextlib
import gc
import os
import threading
import weakref

import pytest

import rushlight as rl
from rushlight import _C
from rushlight.autograd import Function, graph
from rushlight.autograd.graph import saved_tensors_hooks


def pair():
    return rl.tensor([1.0, 2.0], requires_grad=True), rl.tensor([3.0, 4.0], requires_grad=True)


def keep(tensor):
    return tensor.detach()


def same(value):
    return value


class Count:
    """Hooks that count, and hold copies."""

    def __init__(self): self.packed, self.unpacked = [], 0

    def pack(self, tensor):
        self.packed.append(tensor)
        return tensor.detach().clone()

    def unpack(self, value):
        self.unpacked += 1
        return value

    def __call__(self): return saved_tensors_hooks(self.pack, self.unpack)


# ------------------------------------------------------------------------------------------------------- built-in operators
def test_pack_sees_what_is_saved_and_unpack_gives_it_back():
    x, y = pair()
    hooks = Count()
    with hooks():
        z = (x * y).exp()
    assert {id(t) for t in hooks.packed} >= {id(x), id(y), id(z)} and len(hooks.packed) == 3 and hooks.unpacked == 0
    assert hooks.packed[-1].grad_fn is z.grad_fn
    z.sum().backward()
    assert hooks.unpacked == 3
    assert rl.allclose(x.grad, (z * y).detach()) and rl.allclose(y.grad, (z * x).detach())


def test_hooks_count_when_saving_not_when_running_backward():
    x, y = pair()
    hooks = Count()
    z = x * y
    with hooks(): z.sum().backward()
    assert not hooks.packed and not hooks.unpacked


def test_the_value_may_be_anything(tmp_path):
    def to_file(tensor):
        name = os.path.join(tmp_path, f"{len(os.listdir(tmp_path))}.pt")
        rl.save(tensor.detach(), name)
        return name

    x, y = pair()
    with saved_tensors_hooks(to_file, rl.load):
        loss = ((x * y).sin() * x).sum()
    assert len(os.listdir(tmp_path)) >= 4
    got = rl.autograd.grad(loss, [x, y])
    want = rl.autograd.grad(((x * y).sin() * x).sum(), [x, y])
    assert all(rl.equal(a, b) for a, b in zip(got, want))


def test_the_hook_decides_the_value():
    x, y = pair()
    with saved_tensors_hooks(lambda t: t.detach() * 10, same):
        z = x * y
    assert rl.autograd.grad(z.sum(), x)[0].tolist() == [30.0, 40.0]


def test_innermost_hooks_win():
    x, y = pair()
    outer, inner = Count(), Count()
    with outer():
        a = x * y
        with inner(): b = x * y
        c = x * y
    assert len(outer.packed) == 4 and len(inner.packed) == 2
    (a + b + c).sum().backward()
    assert outer.unpacked == 4 and inner.unpacked == 2


def test_grad_mode_is_off_in_pack_and_as_in_backward_in_unpack():
    modes = []

    def unpack(value):
        modes.append(rl.is_grad_enabled())
        return value

    x, y = pair()
    with saved_tensors_hooks(lambda t: modes.append(rl.is_grad_enabled()) or t.detach(), unpack):
        z = x * y
    rl.autograd.grad(z.sum(), x, retain_graph=True)
    rl.autograd.grad(z.sum(), x, create_graph=True)
    assert modes[:2] == [False, False] and modes[2] is False and modes[-1] is True


def test_hidden_intermediates_are_packed_too():
    x = rl.randn(4, 8, requires_grad=True)
    weight, bias = rl.ones(8, requires_grad=True), rl.zeros(8, requires_grad=True)
    hooks = Count()
    with hooks(): y = rl.nn.functional.layer_norm(x, (8,), weight, bias)
    assert len(hooks.packed) >= 2
    got = rl.autograd.grad((y * y).sum(), [x, weight, bias])
    y = rl.nn.functional.layer_norm(x, (8,), weight, bias)
    want = rl.autograd.grad((y * y).sum(), [x, weight, bias])
    assert all(rl.equal(a, b) for a, b in zip(got, want))


def test_double_backward_through_packed_values():
    x, y = pair()
    def second(context):
        with context: z = (x * y).exp() * x
        g, = rl.autograd.grad(z.sum(), x, create_graph=True)
        return rl.autograd.grad(g.sum(), [x, y])
    assert all(rl.equal(a, b) for a, b in zip(second(saved_tensors_hooks(keep, same)), second(contextlib.nullcontext())))


def test_a_value_written_by_its_own_operation_is_right():
    x, y = pair()
    hooks = Count()
    with hooks():
        a = x.clone()
        a.mul_(y)
        a.exp_()
    a.sum().backward()
    assert rl.allclose(x.grad, (y * (x * y).exp()).detach())


def test_a_write_after_packing_a_copy_is_allowed():
    x, y = pair()
    a = x * 1
    with saved_tensors_hooks(lambda t: t.detach().clone(), same): z = a * y
    a.zero_()
    z.sum().backward()
    assert y.grad.tolist() == [1.0, 2.0]


def test_another_dtype_comes_back_as_the_saved_one():
    x, y = pair()
    with saved_tensors_hooks(lambda t: t.to(rl.bfloat16), same): z = x * y
    z.sum().backward()
    assert x.grad.dtype == rl.float32 and x.grad.tolist() == [3.0, 4.0]


def test_hooks_belong_to_their_thread():
    x, y = pair()
    hooks = Count()
    with hooks():
        thread = threading.Thread(target=lambda: x * y)
        thread.start()
        thread.join()
    assert not hooks.packed


# ------------------------------------------------------------------------------------------------------------------- errors
def test_errors_of_hooks():
    x, y = pair()
    with pytest.raises(RuntimeError, match="A saved tensor pack hook is modifying its input in place"), saved_tensors_hooks(lambda t: t.mul_(2), same):
        (x * 1) * y
    with saved_tensors_hooks(keep, lambda value: 5): z = x * y
    with pytest.raises(TypeError, match="Output of saved tensor unpack_hook expected to be a Tensor but got result of type int"):
        z.sum().backward()
    with saved_tensors_hooks(keep, lambda value: rl.ones(3)): z = x * y
    with pytest.raises(RuntimeError, match="The size of"):
        z.sum().backward()
    with pytest.raises(ZeroDivisionError), saved_tensors_hooks(lambda t: 1 / 0, same):
        x * y
    with saved_tensors_hooks(keep, lambda value: 1 / 0): z = x * y
    with pytest.raises(ZeroDivisionError):
        z.sum().backward()
    with pytest.raises(TypeError), saved_tensors_hooks(1, 2):
        pass
    x, y = pair()                                                 # nothing is left behind
    z = x * y
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


def test_freed_values_are_refused_once_more():
    x, y = pair()
    with saved_tensors_hooks(keep, same): z = x * y
    z.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        z.sum().backward()


def test_disable_refuses_hooks_with_its_words():
    with graph.disable_saved_tensors_hooks("not here"):
        with pytest.raises(RuntimeError, match="not here"), saved_tensors_hooks(keep, same):
            pass
        with pytest.raises(RuntimeError, match="not here"), graph.save_on_cpu():
            pass
        with graph.disable_saved_tensors_hooks("nor there"): pass
        with pytest.raises(RuntimeError, match="not here"), saved_tensors_hooks(keep, same):
            pass
    with saved_tensors_hooks(keep, same), pytest.raises(RuntimeError, match="too late"), graph.disable_saved_tensors_hooks("too late"):
        pass
    with saved_tensors_hooks(keep, same): pass


@pytest.mark.parametrize("pin", [False, True])
def test_save_on_cpu(pin):
    x, y = pair()
    with graph.save_on_cpu(pin_memory=pin): z = x * y
    z.sum().backward()
    assert x.grad.tolist() == [3.0, 4.0]


# ------------------------------------------------------------------------------------------------------------- own Functions
class Product(Function):
    @staticmethod
    def forward(ctx, a, b):
        result = a * b
        ctx.save_for_backward(a, b, result, None)
        return result

    @staticmethod
    def backward(ctx, grad):
        a, b, result, nothing = ctx.saved_tensors
        assert nothing is None and result.grad_fn is not None and a.requires_grad
        return grad * b, grad * a


def test_hooks_apply_to_save_for_backward():
    x, y = pair()
    hooks = Count()
    with hooks(): z = Product.apply(x, y)
    assert hooks.packed[0] is x and hooks.packed[1] is y and len(hooks.packed) == 3
    z.sum().backward()
    assert hooks.unpacked == 3 and x.grad.tolist() == [3.0, 4.0]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        z.sum().backward()


def test_hooks_of_one_saved_value_of_a_function():
    x, y = pair()
    z = Product.apply(x, y)
    raw = z.grad_fn._raw_saved_tensors
    raw[1].register_hooks(lambda t: t * 2, same)
    with pytest.raises(RuntimeError, match="with value None is forbidden"):
        raw[3].register_hooks(keep, same)
    with pytest.raises(RuntimeError, match="hooks have already been set"):
        raw[1].register_hooks(keep, same)
    z.sum().backward()
    assert x.grad.tolist() == [6.0, 8.0] and y.grad.tolist() == [1.0, 2.0]


# --------------------------------------------------------------------------------------------------------------- lifetimes
def test_a_pack_hook_that_keeps_its_argument_makes_a_cycle_that_is_collected():
    gc.collect()
    before = _C.stats()["nodes"]
    x, _ = pair()
    with saved_tensors_hooks(same, same):
        y = x.exp()                              # the node keeps y itself
    gone = weakref.ref(y)
    del y
    gc.collect()
    assert gone() is None
    del x
    gc.collect()
    assert _C.stats()["nodes"] == before


def test_packed_values_are_freed_with_the_graph_and_after_backward():
    class Box:
        def __init__(self, tensor): self.tensor = tensor.detach()

    boxes = []

    def pack(tensor):
        box = Box(tensor)
        boxes.append(weakref.ref(box))
        return box

    x, y = pair()
    with saved_tensors_hooks(pack, lambda box: box.tensor):
        z, w = x * y, x * y
    assert all(b() is not None for b in boxes)
    z.sum().backward()
    assert sum(b() is None for b in boxes) == 2
    del w
    assert all(b() is None for b in boxes)


# ------------------------------------------------------------------------------------------------------------------ _saved_*
def test_saved_attributes():
    x, y = pair()
    z = (x * y).exp()
    product = z.grad_fn.next_functions[0][0]
    assert product._saved_self.tolist() == [1.0, 2.0] and product._saved_other.tolist() == [3.0, 4.0]
    assert z.grad_fn._saved_result.tolist() == z.tolist() and "_saved_result" in dir(z.grad_fn)
    assert x.sum(0, keepdim=True).grad_fn._saved_keepdim is True
    with pytest.raises(AttributeError, match="'ExpBackward0' object has no attribute '_saved_other'"):
        assert z.grad_fn._saved_other
    raw = product._raw_saved_self
    raw.register_hooks(lambda t: t + 1, same)
    assert product._saved_self.tolist() == [2.0, 3.0]
    with pytest.raises(TypeError, match="incompatible function arguments"):
        z.grad_fn._raw_saved_result.register_hooks(1, 2)
    with pytest.raises(RuntimeError, match="A saved tensor pack hook is modifying its input in place"):
        z.grad_fn._raw_saved_result.register_hooks(lambda t: t.add_(1), same)
    w = (x * y).exp()
    w.sum().backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        assert w.grad_fn._saved_result
    with pytest.raises(RuntimeError, match="Calling register_hooks on a saved tensor after it has been freed"):
        w.grad_fn._raw_saved_result.register_hooks(keep, same)


# ------------------------------------------------------------------------------------------------------------ gradient edges
def test_named_tuples_of_tensors_are_not_edges():
    x = (rl.diag(rl.tensor([1.0, 2.0, 3.0])) + 0.1).requires_grad_()
    parts = rl.linalg.svd(x)                                  # three tensors, as an edge has three fields
    grads = rl.autograd.grad(parts, x, (rl.zeros(3, 3), rl.ones(3), rl.zeros(3, 3)))[0]
    rl.linalg.svdvals(x).sum().backward()
    assert rl.allclose(grads, x.grad)


def test_gradient_edges_stand_for_tensors():
    x, y = pair()
    z = x * y
    total = z.sum()
    edge, middle, leaf = map(graph.get_gradient_edge, (total, z, x))
    assert edge.node.name() == "SumBackward0" and leaf.node.name() == "torch::autograd::AccumulateGrad" and isinstance(middle.node, graph.Node)
    got = rl.autograd.grad(total, [middle, leaf], retain_graph=True)
    assert got[0].tolist() == [1.0, 1.0] and got[1].tolist() == [3.0, 4.0]
    assert rl.autograd.grad(edge, x, rl.tensor(2.0), retain_graph=True)[0].tolist() == [6.0, 8.0]
    assert rl.autograd.grad(edge, x, retain_graph=True)[0].tolist() == [3.0, 4.0]
    rl.autograd.backward(edge, inputs=[leaf], retain_graph=True)
    assert x.grad.tolist() == [3.0, 4.0] and y.grad is None
    total.backward(inputs=leaf)
    assert x.grad.tolist() == [6.0, 8.0]
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        rl.autograd.grad(graph.get_gradient_edge(x * y), x)
    with pytest.raises(RuntimeError, match="Mismatch in shape"):
        rl.autograd.grad(graph.get_gradient_edge(x * y), x, rl.ones(3))
    with pytest.raises(RuntimeError, match="It is not possible to get the gradient edge for a Tensor that does not require gradients"):
        graph.get_gradient_edge(rl.ones(2))
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        rl.autograd.grad(y.sum(), [leaf])


def test_an_edge_keeps_the_node_of_a_function_alive():
    x, y = pair()
    edge = graph.get_gradient_edge(Product.apply(x, y))
    gc.collect()
    assert rl.autograd.grad(edge, x, rl.ones(2))[0].tolist() == [3.0, 4.0]


# ---------------------------------------------------------------------------------------------------------- several gradients
@pytest.mark.parametrize("mode", ["all", "any"])
def test_multi_grad_hooks_wait_for_what_the_pass_computes(mode):
    x, y = pair()
    u, v, w = x * 2, y * 3, x * y
    seen = []

    def note(g):
        seen.append(g.tolist() if mode == "any" else [None if t is None else t.tolist() for t in g])

    handle = graph.register_multi_grad_hook((u, v, w), note, mode=mode)
    (u.sum() + v.sum()).backward(retain_graph=True)
    rl.autograd.grad(w.sum(), x, retain_graph=True)
    rl.autograd.grad((u * v * w).sum(), [x], retain_graph=True)
    handle.remove()
    rl.autograd.grad((u * v * w).sum(), [y], retain_graph=True)
    if mode == "all": assert seen == [[[1.0, 1.0], [1.0, 1.0], None], [None, None, [1.0, 1.0]], [[27.0, 96.0], None, [18.0, 48.0]]]
    else: assert seen == [[1.0, 1.0], [1.0, 1.0], [18.0, 48.0]]
    with pytest.raises(ValueError, match="Expects mode to be one of"):
        graph.register_multi_grad_hook((u,), note, mode="some")
    with pytest.raises(AssertionError, match="Expected gradient function to be set"):
        graph.register_multi_grad_hook((rl.ones(1),), note)


def test_increment_version():
    x, _ = pair()
    y = x.exp()
    graph.increment_version([y, y])
    assert y._version == 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(RuntimeError, match="increment_version expect a Iterable"):
        graph.increment_version(3)


# ----------------------------------------------------------------------------------------------------------------- mutation
def test_saved_values_may_be_written_inside_the_block():
    with graph.allow_mutation_on_saved_tensors():
        x = rl.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.clone()
        column = y.view(3, 1)
        out = (y ** 2).sum() + column.exp().sum()
        with rl.no_grad(): column.mul_(3)
        y[0] = 7
        rl.add(rl.ones(3), 1, out=y.detach())
        column.zero_()
        out.backward()
    assert rl.allclose(x.grad, 2 * x.detach() + x.detach().exp())


def test_a_leaf_may_be_stepped_between_forward_and_backward():
    with graph.allow_mutation_on_saved_tensors():
        w, x = rl.tensor([1.0, 2.0], requires_grad=True), rl.ones(2)
        first = (w * x).sum()
        x.add_(5)
        with rl.no_grad(): w.mul_(4)
        second = (w * x * w).sum()
        (first + second).backward()
    assert w.grad.tolist() == [1 + 2 * 6 * 4.0, 1 + 2 * 6 * 8.0]


def test_only_what_is_written_is_copied():
    with graph.allow_mutation_on_saved_tensors() as context:
        x = rl.ones(4, requires_grad=True)
        y, z = x.exp(), x.sin()
        out = (y * y).sum() + (z * z).sum()
        held = [v for values in context._held.values() for v in values]
        y.zero_()
        copied = [v for v in held if v.tensor.data_ptr() not in (x.data_ptr(), y.data_ptr(), z.data_ptr())]
        assert 0 < len(copied) < len(held)
        out.backward()


def test_the_block_ends_and_does_not_nest():
    with graph.allow_mutation_on_saved_tensors():
        x, y = pair()
        out = (x * y).sum()
        with pytest.raises(RuntimeError, match="contexts cannot be nested"), graph.allow_mutation_on_saved_tensors():
            pass
    with pytest.raises(AssertionError, match="Trying to backward outside of the 'allow_mutation_on_saved_tensors'"):
        out.backward()
    x, y = pair()
    a = x * 1
    out = a * y
    a.zero_()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()
