"""Custom Functions under vmap and forward mode: the derivative is the one the Function states, over a batch too."""
import pytest

import rushlight as rl
from rushlight.autograd import Function
from rushlight.autograd import forward_ad as fw
from rushlight.func import grad, jacrev, jvp, vmap


class Doubled(Function):
    """sin, with twice its derivative: what the operators inside would give is not what is asked for."""
    generate_vmap_rule = True

    @staticmethod
    def forward(x): return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)
        ctx.save_for_forward(inputs[0], output)

    @staticmethod
    def backward(ctx, g): return 2 * g * ctx.saved_tensors[0].cos()

    @staticmethod
    def jvp(ctx, t): return 2 * t * ctx.saved_tensors[0].cos()


class Scaled(Function):
    """x * n with a vmap of its own."""
    calls = []

    @staticmethod
    def forward(x, n): return x * n

    @staticmethod
    def setup_context(ctx, inputs, output): ctx.n = inputs[1]

    @staticmethod
    def backward(ctx, g): return 3 * g * ctx.n, None

    @staticmethod
    def vmap(info, in_dims, x, n):
        Scaled.calls.append((info.batch_size, info.randomness, in_dims, tuple(x.shape)))
        return Scaled.apply(x, n), in_dims[0]


X = rl.tensor([1.0, 2.0])


def test_generated_rule():
    assert rl.equal(vmap(Doubled.apply)(X), X.sin())
    want = 2 * X.cos()
    rl.testing.assert_close(vmap(grad(lambda x: Doubled.apply(x)))(X), want)
    rl.testing.assert_close(vmap(grad(lambda x: 3 * Doubled.apply(2 * x)))(X), 12 * (2 * X).cos())
    rl.testing.assert_close(grad(lambda x: vmap(Doubled.apply)(x).sum())(X), want)
    rl.testing.assert_close(jacrev(Doubled.apply)(X), rl.diag(want))
    rl.testing.assert_close(vmap(grad(grad(lambda x: Doubled.apply(x))))(X), -2 * X.sin())
    rl.testing.assert_close(vmap(vmap(grad(lambda x: Doubled.apply(x))))(X.expand(3, 2)), want.expand(3, 2))


def test_generated_rule_sums_over_what_is_shared():
    class Product(Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, w): return x * w, x + 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            x, w = ctx.saved_tensors
            return g * w, g * x

    x, w = rl.tensor([[1.0, 2.0], [3.0, 4.0]]), rl.tensor([5.0, 6.0], requires_grad=True)
    out, more = vmap(Product.apply, (0, None))(x, w)
    assert rl.equal(out, x * w) and rl.equal(more, x + 1) and out.requires_grad and not more.requires_grad
    out.sum().backward()
    assert w.grad.tolist() == [4.0, 6.0]


def test_own_rule():
    Scaled.calls.clear()
    assert vmap(Scaled.apply, (0, None))(X, 3.0).tolist() == [3.0, 6.0]
    assert Scaled.calls == [(2, "error", (0, None), (2,))]
    assert vmap(grad(lambda x: Scaled.apply(x, 2.0)))(X).tolist() == [6.0, 6.0]
    assert vmap(lambda y: Scaled.apply(rl.ones(3), 2.0) * y)(X).shape == (2, 3) and len(Scaled.calls) == 2         # nothing varies: no batch


def test_jvp_is_the_function_s():
    want = 2 * X.cos()
    rl.testing.assert_close(jvp(Doubled.apply, (X,), (rl.ones(2),)), (X.sin(), want))
    rl.testing.assert_close(vmap(lambda x: jvp(Doubled.apply, (x,), (rl.ones(()),))[1])(X), want)
    rl.testing.assert_close(jvp(vmap(Doubled.apply), (X,), (rl.ones(2),))[1], want)
    with fw.dual_level():
        dual = Doubled.apply(fw.make_dual(X, rl.ones(2)))
        rl.testing.assert_close(fw.unpack_dual(dual).tangent, want)
    with pytest.raises(NotImplementedError, match="You must implement the jvp function"): jvp(lambda x: Scaled.apply(x, 1.0), (X,), (X,))


def test_refusals():
    class Old(Function):
        @staticmethod
        def forward(ctx, x): return x * 2

        @staticmethod
        def backward(ctx, g): return g * 2

    class Bare(Function):
        @staticmethod
        def forward(x): return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output): pass

    class Both(Bare):
        generate_vmap_rule = True

        @staticmethod
        def vmap(info, in_dims, x): return x, 0

    for cls, words in ((Old, "In order to use an autograd.Function with functorch transforms"), (Bare, "does not have vmap support"), (Both, "has both generate_vmap_rule=True")):
        with pytest.raises(RuntimeError, match=words): vmap(cls.apply)(X)
