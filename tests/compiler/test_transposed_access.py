"""The gradient of an affine access is a gather (compiler/transpose.py): it is the transpose, exactly, and nothing is scattered."""
import pytest

import rushlight as rl

F = rl.nn.functional

ACCESSES = {
    "crop and pad": lambda x: F.pad(x, (-1, 3, 2, -2)),
    "pad": lambda x: F.pad(x, (1, 2, 3, 4), value=5.0),
    "windows side by side": lambda x: F.avg_pool2d(x, 2, divisor_override=1),
    "windows that overlap": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=1),
    "windows with gaps": lambda x: F.avg_pool2d(x, 2, 3, divisor_override=1),
    "columns": lambda x: F.unfold(x, (3, 2), dilation=(1, 2), padding=1, stride=(2, 1)),
    "columns of a large step": lambda x: F.unfold(x, 2, stride=3),
}


@pytest.mark.parametrize("name", ACCESSES)
def test_gradient_is_the_transpose(name):
    access = ACCESSES[name]
    x = rl.arange(1.0, 2 * 3 * 9 * 8 + 1).reshape(2, 3, 9, 8).requires_grad_()
    offset = access(rl.zeros(2, 3, 9, 8))                      # what is read beside x (the padding value)
    y = access(x)
    g = rl.arange(1.0, y.numel() + 1).reshape(y.shape).remainder(7) - 3
    (back,) = rl.autograd.grad(y, [x], [g])
    assert float(((y - offset) * g).sum(dtype=rl.float64)) == float((x * back).sum(dtype=rl.float64))      # integers: exact


@pytest.mark.parametrize("name", ACCESSES)
def test_nothing_is_scattered(name, capfd):
    def run(x):
        y = ACCESSES[name](x)
        return rl.autograd.grad(y, [x], [rl.ones_like(y)])
    text = rl.explain(run, rl.randn(2, 3, 9, 8, requires_grad=True), stages="loops")
    text = (text or "") + capfd.readouterr().out
    assert "kernel" in text and "scatter" not in text


@pytest.mark.parametrize("shape", [(3, 40, 9, 11), (2, 33, 70, 70), (1, 5, 3, 2), (4, 8, 1, 50)])
@pytest.mark.parametrize("reduce", [lambda x: x.sum((2, 3)), lambda x: x.amax((2, 3)), lambda x: x.mean((0, 2, 3)), lambda x: x.prod(3),
                                    lambda x: F.batch_norm(x, None, None, None, None, True)], ids=["sum", "amax", "mean", "prod", "batch_norm"])
def test_rows_read_side_by_side_give_the_same_bits(shape, reduce):
    """Reductions of channels_last images run across the channels (emit/across.py), in the order of every row reduction."""
    x = rl.randn(shape, generator=rl.Generator().manual_seed(1))
    y = x.to(memory_format=rl.channels_last)
    assert rl.equal(reduce(x), reduce(y))


def test_rows_read_side_by_side_keep_nan():
    x = rl.randn(2, 9, 5, 7)
    x[1, 3, 2, 4] = float("nan")
    out = x.to(memory_format=rl.channels_last).amax((2, 3))
    assert out.isnan().nonzero().tolist() == [[1, 3]]
    assert rl.equal(out[0], x.amax((2, 3))[0])
