"""autograd.Function: contexts, saved tensors, dirty and non-differentiable results, errors."""
import gc
import weakref

import pytest

import rushlight as rl
from rushlight.autograd import Function
from rushlight.autograd.function import once_differentiable


def leaf(*values):
    return rl.tensor(values, requires_grad=True)


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad):
        result, = ctx.saved_tensors
        return grad * result


def test_forward_backward_and_double_backward():
    x = leaf(0.5, 1.0)
    y = Exp.apply(x)
    assert type(y.grad_fn).__name__ == "ExpBackward" and y.grad_fn.name() == "ExpBackward"
    g, = rl.autograd.grad(y.sum(), x, create_graph=True)
    gg, = rl.autograd.grad(g.sum(), x)
    assert rl.allclose(g, x.exp()) and rl.allclose(gg, x.exp())


def test_saved_input_is_the_same_object():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            x, = ctx.saved_tensors
            seen.append(x)
            return 2 * grad * x

    seen = []
    x = leaf(3.0)
    Square.apply(x).sum().backward()
    assert seen[0] is x and x.grad.tolist() == [6.0]


def test_saved_tensors_are_guarded():
    x = leaf(1.0)
    y = Exp.apply(x)
    z = y.sum()
    y.detach().mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    y = Exp.apply(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_setup_context_attributes_and_needs_input_grad():
    class Scale(Function):
        @staticmethod
        def forward(x, factor, y):
            return x * factor + y

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]
            assert output.shape == inputs[0].shape

        @staticmethod
        def backward(ctx, grad):
            needs.append(ctx.needs_input_grad)
            return grad * ctx.factor, None, None

    needs = []
    x = leaf(1.0)
    Scale.apply(x, 3.0, rl.ones(1)).sum().backward()
    assert x.grad.tolist() == [3.0] and needs == [(True, False, False)]


def test_several_outputs_and_absent_gradients():
    class Both(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3, "text"

        @staticmethod
        def backward(ctx, a, b, nothing):
            seen.append((None if a is None else a.tolist(), None if b is None else b.tolist(), nothing))
            return (0 if a is None else a * 2) + (0 if b is None else b * 3), None

    seen = []
    x = leaf(1.0)
    a, b, text = Both.apply(x, True)
    assert text == "text"
    a.sum().backward()
    Both.apply(x, False)[1].sum().backward()
    assert seen == [([1.0], [0.0], None), (None, [1.0], None)] and x.grad.tolist() == [5.0]


def test_mark_dirty():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(1.0, 2.0)
    y = x * 1
    z = Double.apply(y)
    assert z is y and y.tolist() == [2.0, 4.0]
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad has been used in an in-place operation"):
        Double.apply(leaf(1.0))


def test_mark_dirty_on_a_view():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    x = leaf(1.0, 2.0, 3.0)
    y = x * 1
    Double.apply(y[1:])
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 2.0]


def test_dirty_must_be_returned():
    class Forgets(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x + 1

        @staticmethod
        def backward(ctx, grad):
            return grad

    with pytest.raises(RuntimeError, match="Some elements marked as dirty during the forward method were not returned as output"):
        Forgets.apply(leaf(1.0) * 1)


def test_non_differentiable_and_input_returned():
    class Pair(Function):
        @staticmethod
        def forward(ctx, x):
            index = x + 0
            ctx.mark_non_differentiable(index)
            return x, index

        @staticmethod
        def backward(ctx, grad, unused):
            return grad * 3

    x = leaf(1.0)
    y, index = Pair.apply(x)
    assert y is not x and y.requires_grad and not index.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_once_differentiable():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            return grad * 2

    x = leaf(1.0)
    y = Once.apply(x)
    g, = rl.autograd.grad((y * y).sum(), x, create_graph=True)
    assert g.tolist() == [8.0]
    with pytest.raises(RuntimeError, match="trying to differentiate twice a function that was marked with @once_differentiable"):
        g.sum().backward()


def returning(value):
    class F(Function):
        @staticmethod
        def forward(ctx, x, n):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return value

    return F.apply(leaf(1.0, 2.0), 3).sum()


@pytest.mark.parametrize("value, words", [
    ((rl.ones(2),), r"function FBackward returned an incorrect number of gradients \(expected 2, got 1\)"),
    ((rl.ones(2), rl.ones(2)), "returned a gradient different than None at position 2, but the corresponding forward input was not a "
                               "Variable"),
    ((rl.ones(3), None), r"Function FBackward returned an invalid gradient at index 0 - got \[3\] but expected shape compatible with "
                         r"\[2\]"),
    ((3, None), r"expected Variable or None \(got int\)"),
])
def test_wrong_answers_of_backward(value, words):
    with pytest.raises(RuntimeError, match=words):
        returning(value).backward()


def test_gradient_is_summed_and_cast_to_the_input():
    class Wide(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return rl.ones(4, 2, dtype=rl.float64)

    x = leaf(1.0, 2.0)
    Wide.apply(x).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0] and x.grad.dtype is rl.float32


def test_save_for_backward_takes_tensors_only():
    class Bad(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)
            return x * 2

    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 0 is of type int"):
        Bad.apply(leaf(1.0))


def test_not_recorded_under_no_grad():
    x = leaf(1.0)
    with rl.no_grad():
        assert not Exp.apply(x).requires_grad
    assert not Exp.apply(rl.ones(1)).requires_grad


def test_cycle_through_ctx_is_collected():
    class Keeps(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    y = Keeps.apply(leaf(1.0))
    y.grad_fn.result = y
    ref = weakref.ref(y)
    del y
    gc.collect()
    assert ref() is None


def test_keywords_of_apply_get_their_place_from_forward():
    class Scale(rl.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor=2, other=None):
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor, None
    x = rl.ones(2, requires_grad=True)
    Scale.apply(x, factor=3).sum().backward()
    assert x.grad.tolist() == [3, 3]
    with pytest.raises(TypeError, match="missing required argument: 'factor'"): Scale.apply(x, other=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'wrong'"): Scale.apply(x, 1, None, wrong=1)
