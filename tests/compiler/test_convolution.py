"""Convolutions: the bits do not depend on layout and threads, gradients of gradients, the number of kernels, what joins them."""
import itertools

import numpy as np
import pytest

import rushlight as rl
from rushlight import plans
from rushlight.nn import functional as F

CASES = {                     # channels, extent, filters, taps, options
    "3x3": (5, (9, 11), 7, (3, 3), {"padding": 1}),
    "strided": (5, (9, 20), 18, (3, 3), {"padding": 1, "stride": 2}),
    "dilated": (4, (12, 12), 6, (3, 2), {"dilation": (2, 3), "stride": (3, 1)}),
    "grouped": (6, (9, 9), 8, (3, 3), {"groups": 2, "padding": 2}),
    "depthwise": (20, (9, 13), 20, (3, 3), {"groups": 20, "padding": 1}),
    "depthwise, strided": (20, (12, 13), 20, (5, 3), {"groups": 20, "padding": 2, "stride": 2}),
    "pointwise": (17, (5, 6), 9, (1, 1), {}),
    "one column": (3, (10, 1), 4, (3, 1), {"padding": (1, 0)}),
    "one column, steps beyond it": (16, (12, 1), 9, (2, 1), {"stride": (1, 3), "padding": (0, 2)}),
    "equal images": (20, (17, 19), 33, (3, 3), {"padding": 1}),
    "no border": (9, (14, 14), 16, (5, 5), {}),
    "few channels": (3, (17, 20), 20, (7, 7), {"stride": 2, "padding": 3}),
    "few filters": (20, (9, 18), 4, (3, 3), {"padding": 1}),
    "one channel": (1, (18, 18), 6, (5, 5), {"padding": 2}),
    "many taps": (10, (9, 21), 15, (3, 9), {"padding": (1, 4)}),
}


def arrays(case, dtype="float32"):
    channels, extent, filters, taps, options = CASES[case]
    rng = np.random.default_rng(3)
    draw = lambda *shape: rng.standard_normal(shape).astype(dtype)
    return draw(2, channels, *extent), draw(filters, channels // options.get("groups", 1), *taps), draw(filters), options


def everything(case, x_last=False, w_last=False, gradient_last=False, threads=1):
    """The result and all gradients, as bytes in logical order."""
    x, w, b, options = arrays(case)
    place = lambda a, last: (rl.from_numpy(a).to(memory_format=rl.channels_last) if last else rl.from_numpy(a)).detach().requires_grad_()
    x, w, b = place(x, x_last), place(w, w_last), place(b, False)
    before = rl.get_num_threads()
    rl.set_num_threads(threads)
    try:
        y = F.conv2d(x, w, b, **options)
        g = rl.from_numpy(np.random.default_rng(4).standard_normal(tuple(y.shape)).astype("float32"))
        y.backward(g.to(memory_format=rl.channels_last) if gradient_last else g)
    finally:
        rl.set_num_threads(before)
    return [t.detach().contiguous().numpy().tobytes() for t in (y, x.grad, w.grad, b.grad)]


def reference(x, w, b, stride=1, padding=0, dilation=1, groups=1):
    """In float64, one window after the other."""
    pair = lambda v: v if isinstance(v, tuple) else (v, v)
    (sh, sw), (ph, pw), (dh, dw) = pair(stride), pair(padding), pair(dilation)
    x, w = np.pad(x.astype("float64"), ((0, 0), (0, 0), (ph, ph), (pw, pw))), w.astype("float64")
    height, width = (x.shape[2] - dh * (w.shape[2] - 1) - 1) // sh + 1, (x.shape[3] - dw * (w.shape[3] - 1) - 1) // sw + 1
    out = np.zeros((x.shape[0], w.shape[0], height, width))
    each = w.shape[0] // groups
    for f, i, j in itertools.product(range(w.shape[0]), range(height), range(width)):
        channels = slice(f // each * w.shape[1], (f // each + 1) * w.shape[1])
        window = x[:, channels, i * sh:i * sh + dh * (w.shape[2] - 1) + 1:dh, j * sw:j * sw + dw * (w.shape[3] - 1) + 1:dw]
        out[:, f, i, j] = (window * w[f]).sum((1, 2, 3)) + b[f]
    return out


@pytest.mark.parametrize("case", CASES)
def test_values(case):
    x, w, b, options = arrays(case)
    y = F.conv2d(rl.from_numpy(x), rl.from_numpy(w), rl.from_numpy(b), **options)
    want = reference(x, w, b, **options)
    assert np.abs(y.numpy() - want).max() < 2e-6 * np.abs(want).max()


@pytest.mark.parametrize("case", CASES)
def test_layout_and_threads_do_not_change_bits(case):
    want = everything(case)
    for x_last, w_last, gradient_last in itertools.product((False, True), repeat=3):
        assert everything(case, x_last, w_last, gradient_last) == want, (x_last, w_last, gradient_last)
    assert everything(case, threads=2) == want
    assert everything(case, x_last=True, threads=2) == want


@pytest.mark.parametrize("case", ["strided", "grouped", "depthwise, strided"])
def test_gradients_of_gradients(case):
    x, w, b, options = arrays(case, "float64")
    x, w, b = (rl.from_numpy(a) for a in (x[:1, :, :6, :5], w, b))
    x, w, b = (t.contiguous().requires_grad_() for t in (x, w, b))
    convolve = lambda x, w, b: F.conv2d(x, w, b, **options)
    assert rl.autograd.gradcheck(convolve, (x, w, b), fast_mode=True)
    assert rl.autograd.gradgradcheck(convolve, (x, w, b), fast_mode=True)


@pytest.mark.parametrize("stride, output_padding", [(1, 0), (2, 1), (3, 2)])
def test_transposed_is_the_transpose(stride, output_padding):
    """<conv(x), y> = <x, conv_transpose(y)>."""
    rng = np.random.default_rng(0)
    w, y = rl.from_numpy(rng.standard_normal((4, 3, 3, 2))), rl.from_numpy(rng.standard_normal((2, 4, 5, 4)))
    up = F.conv_transpose2d(y, w, stride=stride, padding=1, output_padding=output_padding)
    x = rl.from_numpy(rng.standard_normal(tuple(up.shape)))
    down = F.conv2d(x, w, stride=stride, padding=1)
    assert down.shape == y.shape
    assert float((down * y).sum() - (x * up).sum()) == pytest.approx(0, abs=1e-10)


def test_sizes_share_kernels():
    """Batch, image, channels, stride and padding are integers of the kernel: other ones compile nothing but integer programs."""
    def run(n, c, size, f, stride, padding):
        x, w = rl.randn(n, c, size, size + 1, requires_grad=True), rl.randn(f, c, 3, 3, requires_grad=True)
        y = F.conv2d(x, w, None, stride, padding)
        y.backward(rl.randn(*y.shape))
    run(2, 5, 9, 6, 2, 2)
    known = len(plans.ADDRESSES)
    for n, c, size, f in ((3, 7, 12, 9), (4, 33, 17, 40), (2, 3, 30, 130)):
        for stride, padding in ((2, 2), (3, 3), (2, 4)):
            run(n, c, size, f, stride, padding)
    assert len(plans.ADDRESSES) == known


@pytest.mark.parametrize("last", [False, True])
def test_bias_joins_the_convolution(last, capsys):
    x, w, b = rl.randn(2, 5, 8, 8), rl.randn(6, 5, 3, 3), rl.randn(6)
    if last: x = x.to(memory_format=rl.channels_last)
    rl.explain(F.conv2d, x, w, b, stages="loops")
    assert "loops: 2 launches" in capsys.readouterr().out                # the filter is packed, the rest is one kernel


@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("groups", [1, 2])
def test_batches_of_convolutions(in_dims, groups):
    """vmap of the result and of both gradients is what the examples give one by one."""
    shapes = (2, 4, 7, 6), (6, 4 // groups, 3, 3)
    x, w = (rl.randn(*((3, *shape) if d == 0 else shape), dtype=rl.float64) for shape, d in zip(shapes, in_dims))

    def all_of_it(x, w):
        y = F.conv2d(x, w, stride=2, padding=1, groups=groups)
        gradients = rl.func.grad(lambda x, w: F.conv2d(x, w, stride=2, padding=1, groups=groups).square().sum(), argnums=(0, 1))(x, w)
        return y, *gradients
    together = rl.func.vmap(all_of_it, in_dims)(x, w)
    for i in range(3):
        for got, want in zip(together, all_of_it(*(v[i] if d == 0 else v for v, d in zip((x, w), in_dims)))):
            assert rl.allclose(got[i], want, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["bool", "uint16", "uint32", "uint64"])
def test_dtypes_without_a_kernel(name):
    x, w = (rl.ones(*shape).to(getattr(rl, name)) for shape in ((1, 2, 4, 4), (2, 2, 3, 3)))
    with pytest.raises(NotImplementedError, match="slow_conv2d_cpu.* not implemented for"):
        F.conv2d(x, w)


def test_special_values():
    x = rl.full((1, 2, 4, 4), float("inf"))
    assert F.conv2d(x, rl.ones(1, 2, 3, 3)).isinf().all()
    assert F.conv2d(x, rl.zeros(1, 2, 3, 3)).isnan().all()
    assert F.conv2d(rl.zeros(2, 0, 4, 4), rl.zeros(3, 0, 3, 3), rl.tensor([1.0, 2.0, 3.0]))[0, :, 0, 0].tolist() == [1, 2, 3]
    assert F.conv2d(rl.zeros(0, 2, 4, 4), rl.zeros(3, 2, 3, 3)).shape == (0, 3, 2, 2)


@pytest.mark.parametrize("channels, size, taps, stride, padding, dilation, groups", [(8, 7, 3, 1, 1, 1, 1), (8, 7, 3, 2, 1, 1, 2), (4, 5, 3, 1, 2, 2, 1), (3, 1, 1, 1, 0, 1, 1), (4, 6, 4, 3, 2, 1, 1)])
def test_images_that_share_panels(channels, size, taps, stride, padding, dilation, groups):
    """Few pixels an image: panels go on from one image to the next (conv.joins_images). The bits are those of each image alone, in any order of memory."""
    x, w = rl.randn(5, channels, size, size), rl.randn(12, channels // groups, taps, taps)
    args = None, stride, padding, dilation, groups
    def run(images):
        images = images.detach().requires_grad_()
        y = F.conv2d(images, w, *args)
        y.backward(rl.cos(y.detach()))
        return y, images.grad
    whole = run(x)
    for order in (x, x.permute(1, 0, 2, 3).contiguous().permute(1, 0, 2, 3), rl.cat([x, x], 3)[..., :size]):
        for a, b in zip(whole, run(order)): assert rl.equal(a, b)
    for part, alone in zip(whole, zip(*[run(x[i:i + 1]) for i in range(5)])): assert rl.equal(part, rl.cat(alone))


def test_weights_whose_results_take_turns():
    """Blocks of results that fit the cache together take turns at each block of pixels (conv_weight.TOGETHER): each is still the sum over images in order."""
    x, g = rl.randn(3, 40, 9, 9), rl.randn(3, 70, 9, 9)
    grad = rl.nn.grad.conv2d_weight(x, (70, 40, 3, 3), g, padding=1)
    wide = rl.nn.grad.conv2d_weight(x.double(), (70, 40, 3, 3), g.double(), padding=1)
    rl.testing.assert_close(grad.double(), wide, rtol=1e-4, atol=1e-4)
    empty = rl.nn.grad.conv2d_weight(x[:0], (70, 40, 3, 3), g[:0], padding=1)
    assert empty.shape == grad.shape and not empty.any()
    before = rl.get_num_threads()
    try:
        for threads in (1, 2):
            rl.set_num_threads(threads)
            assert rl.equal(grad, rl.nn.grad.conv2d_weight(x, (70, 40, 3, 3), g, padding=1))
    finally: rl.set_num_threads(before)
