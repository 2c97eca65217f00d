"""Windows and geometry: layers against small cases worked out by hand, layouts, and errors. The operators' own samples are in tests/test_operators.py."""
import pytest

import rushlight as rl
from rushlight import nn

F = nn.functional


def image(*shape):
    return rl.arange(float(rl.Size(shape).numel())).reshape(shape)


def test_first_of_equal_maxima_and_every_nan():
    x = rl.tensor([[[1.0, 3.0, 3.0, 0.0], [3.0, 0.0, 0.0, float("nan")]]])
    values, places = F.max_pool2d(x, 2, return_indices=True)
    assert values[0, 0, 0] == 3.0 and places.tolist() == [[[1, 7]]] and values[0, 0, 1].isnan()


def test_all_minus_infinity_has_a_place_inside():
    values, places = F.max_pool2d(rl.full((1, 3, 3), -float("inf")), 3, 2, 1, return_indices=True)
    assert places.tolist() == [[[0, 1], [3, 4]]] and values.max() == -float("inf")


@pytest.mark.parametrize("size, taps", [((3, 5), (2, 3)), ((3, 40), (2, 35)), ((40, 3), (35, 2))])
def test_last_nan_of_windows_that_hang_over(size, taps):
    """A tap outside must not count as a later sight of an earlier NaN."""
    x = rl.zeros(1, 1, *size)
    x[0, 0, -2, 0] = x[0, 0, -1, -1] = float("nan")
    got = F.max_pool2d(x, taps, stride=1, padding=tuple(k // 2 for k in taps), return_indices=True)[1]
    assert got[0, 0, -1, -1] == x.numel() - 1


@pytest.mark.parametrize("size, options", [
    ((1, 5), {"kernel_size": (2, 3), "dilation": (2, 1), "padding": 1}),
    ((1, 5), {"kernel_size": (2, 17), "dilation": (2, 1), "padding": (1, 6), "ceil_mode": True}),
    ((2, 2), {"kernel_size": (1, 40), "dilation": (1, 30), "padding": (0, 1), "stride": (1, 2000), "ceil_mode": True})])
def test_taps_that_step_over_everything(size, options):
    """As torch the lowest value; the gradient goes to some place inside, not (as torch's) past the end."""
    x = rl.ones(1, 2, *size, requires_grad=True)
    y, places = F.max_pool2d(x, return_indices=True, **options)
    y.sum().backward()
    assert (y == -float("inf")).all() and ((places >= 0) & (places < x[0, 0].numel())).all() and x.grad.sum() == y.numel()
    whole = F.max_pool2d(rl.ones(1, 2, *size, dtype=rl.int16), **options)
    assert (whole == -2 ** 15).all()


def test_large_windows_agree_with_small_steps():
    x = rl.randn(1, 2, 40, 41)
    values, places = F.max_pool2d(x, (37, 5), 1, (3, 2), return_indices=True)
    rows = F.max_pool2d(F.max_pool2d(x, (1, 5), 1, (0, 2)), (37, 1), 1, (3, 0))
    assert rl.equal(values, rows)
    assert rl.equal(x.flatten(2).gather(2, places.flatten(2)).view_as(values), values)


def test_mean_counts_padding_but_not_what_hangs_over():
    x = rl.ones(1, 1, 3, 3)
    assert F.avg_pool2d(x, 2, 2, 0, True).tolist() == [[[[1.0, 1.0], [1.0, 1.0]]]]
    assert F.avg_pool2d(x, 2, 2, 1).tolist() == [[[[0.25, 0.5], [0.5, 1.0]]]]
    assert F.avg_pool2d(x, 2, 2, 1, False, False).tolist() == [[[[1.0, 1.0], [1.0, 1.0]]]]


def test_adaptive_windows_cover_and_overlap():
    assert nn.AdaptiveAvgPool1d(3)(image(1, 1, 5)).tolist() == [[[0.5, 2.0, 3.5]]]
    assert nn.AdaptiveAvgPool2d((None, 1))(image(1, 1, 2, 4)).tolist() == [[[[1.5], [5.5]]]]


@pytest.mark.parametrize("mode, expected", [("reflect", [2, 1, 0, 1, 2, 3, 2]), ("replicate", [0, 0, 0, 1, 2, 3, 3]), ("circular", [2, 3, 0, 1, 2, 3, 0])])
def test_padding_modes(mode, expected):
    x = image(1, 1, 4).requires_grad_()
    out = F.pad(x, (2, 1), mode)
    assert out.flatten().tolist() == expected
    out.sum().backward()
    assert x.grad.flatten().tolist() == [float(expected.count(i)) for i in range(4)]


def test_fold_is_the_transpose_of_unfold():
    x = image(1, 2, 5, 5)
    count = F.fold(F.unfold(rl.ones_like(x), 3, 1, 1, 2), (5, 5), 3, 1, 1, 2)
    assert rl.equal(F.fold(F.unfold(x, 3, 1, 1, 2), (5, 5), 3, 1, 1, 2), x * count)


def test_resampling_keeps_what_it_should():
    x = rl.randn(2, 3, 5, 7)
    assert rl.equal(F.interpolate(x, scale_factor=2)[:, :, ::2, ::2], x)
    corners = F.interpolate(x, size=(9, 13), mode="bilinear", align_corners=True)
    assert rl.equal(corners[:, :, ::2, ::2], x)
    flat = F.interpolate(rl.ones(1, 1, 9, 9), size=(4, 5), mode="bicubic", antialias=True)
    assert rl.testing.assert_close(flat, rl.ones(1, 1, 4, 5)) is None


def test_sampling_at_the_pixels_gives_them_back():
    x = rl.randn(2, 3, 4, 5)
    grid = F.affine_grid(rl.tensor([[1.0, 0, 0], [0, 1.0, 0]]).expand(2, 2, 3), (2, 3, 4, 5), align_corners=True)
    assert rl.allclose(F.grid_sample(x, grid, align_corners=True), x, atol=1e-5)
    assert rl.equal(F.grid_sample(x, grid, mode="nearest", align_corners=True), x)


@pytest.mark.parametrize("layer", [nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(3), nn.Upsample(scale_factor=2), nn.ReflectionPad2d(1), nn.ZeroPad2d(2),
                                   nn.Upsample(scale_factor=2, mode="bilinear"), nn.BatchNorm2d(6)], ids=lambda layer: type(layer).__name__)
def test_channels_last_stays(layer):
    x = rl.randn(2, 6, 8, 9)
    y = x.to(memory_format=rl.channels_last)
    out = layer(y)
    assert out.is_contiguous(memory_format=rl.channels_last) and rl.equal(out, layer(x))


def test_representations():
    assert repr(nn.MaxPool2d(3, 2, 1)) == "MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)"
    assert repr(nn.Upsample(scale_factor=2)) == "Upsample(scale_factor=2.0, mode='nearest')"
    assert repr(nn.InstanceNorm2d(3)) == "InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=False, bias=False, track_running_stats=False)"


@pytest.mark.parametrize("call, kind, words", [
    (lambda: F.max_pool2d(rl.randn(1, 2, 4, 4), 2, padding=2), RuntimeError, "pad should be at most half of effective kernel size"),
    (lambda: F.max_pool2d(rl.randn(1, 2, 9, 9), 3, padding=(1, 2), dilation=2), RuntimeError,
     "pad should be smaller than or equal to half of kernel size, but got padW = 2, padH = 1, kW = 3, kH = 3"),
    (lambda: F.max_pool3d(rl.randn(1, 2, 9, 9, 9), (3, 4, 5), padding=(1, 2, 3), dilation=2), RuntimeError,
     "pad should be smaller than or equal to half of kernel size, but got kT: 3 kW: 5 kH: 4 padT: 1 padW: 3 padH: 2"),
    (lambda: F.max_pool1d(rl.randn(1, 2, 9), 3, padding=2, dilation=2), RuntimeError,
     "max_pool1d() padding should be at most half of kernel size, but got padding=2 and kernel_size=3"),
    (lambda: F.max_pool2d(rl.randn(1, 2, 4, 4), 9), RuntimeError, "Given input size: (2x4x4). Calculated output size: (2x0x0)"),
    (lambda: F.pad(rl.randn(1, 1, 4), (4, 0), "reflect"), RuntimeError, "Argument #4: Padding size should be less"),
    (lambda: F.pad(rl.randn(1, 1, 4), (5, 0), "circular"), RuntimeError, "Padding value causes wrapping around more than once."),
    (lambda: F.max_unpool2d(rl.randn(1, 1, 2, 2), rl.full((1, 1, 2, 2), 99), 2), RuntimeError, "Found an invalid max index: 99"),
    (lambda: F.interpolate(rl.randn(1, 1, 4)), ValueError, "either size or scale_factor should be defined"),
    (lambda: nn.InstanceNorm1d(3)(rl.randn(2, 3, 1)), ValueError, "Expected more than 1 spatial element when training"),
])
def test_errors(call, kind, words):
    with pytest.raises(kind) as caught: call()
    assert str(caught.value).startswith(words)


def test_tangent_of_unpooling_where_places_repeat():
    """The last one written counts, in the result and so in its tangent; the gradient, as torch's, counts every one."""
    from rushlight.autograd import forward_ad
    x, indices, t = rl.tensor([[[5.0, 6.0, 7.0]]]), rl.tensor([[[1, 1, 4]]]), rl.tensor([[[0.5, 0.25, 2.0]]])
    with forward_ad.dual_level():
        out = rl.nn.functional.max_unpool1d(forward_ad.make_dual(x, t), indices, 2, output_size=[6])
        assert forward_ad.unpack_dual(out).tangent.tolist() == [[[0.0, 0.25, 0.0, 0.0, 2.0, 0.0]]]
