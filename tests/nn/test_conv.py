"""Convolution layers: shapes, first values, how they print, what they refuse."""
import copy

import pytest

import rushlight as rl
from rushlight import nn


@pytest.mark.parametrize("layer, shape, result", [
    (nn.Conv1d(2, 3, 3), (4, 2, 9), (4, 3, 7)), (nn.Conv1d(2, 3, 4, padding="same"), (2, 9), (3, 9)),
    (nn.Conv2d(4, 6, (3, 5), stride=(2, 1), padding=1, groups=2), (1, 4, 9, 8), (1, 6, 5, 6)), (nn.Conv3d(1, 2, 3, dilation=2), (2, 1, 6, 7, 8), (2, 2, 2, 3, 4)),
    (nn.ConvTranspose1d(3, 4, 3, 2), (3, 5), (4, 11)), (nn.ConvTranspose2d(3, 4, 3, 2, 1, output_padding=1), (2, 3, 4, 5), (2, 4, 8, 10)),
    (nn.ConvTranspose3d(2, 2, 2, groups=2, bias=False), (1, 2, 3, 3, 3), (1, 2, 4, 4, 4)),
])
def test_shapes(layer, shape, result):
    assert tuple(layer(rl.randn(*shape)).shape) == result


def test_repr():
    assert repr(nn.Conv2d(4, 6, (3, 5), stride=(2, 1), padding=1, dilation=2, groups=2, bias=False, padding_mode="reflect")) == (
        "Conv2d(4, 6, kernel_size=(3, 5), stride=(2, 1), padding=(1, 1), dilation=(2, 2), groups=2, bias=False, padding_mode=reflect)")
    assert repr(nn.Conv1d(2, 3, 3, padding="same")) == "Conv1d(2, 3, kernel_size=(3,), stride=(1,), padding=same)"
    assert repr(nn.ConvTranspose2d(3, 4, 3, 2, 1, output_padding=1)) == (
        "ConvTranspose2d(3, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 1))")


def test_first_values_are_torchs():
    rl.manual_seed(0)
    layer = nn.Conv2d(2, 3, 3)
    assert [round(v, 4) for v in layer.weight.flatten()[:4].tolist()] == [-0.0018, 0.1264, -0.194, -0.1735]
    assert [round(v, 4) for v in layer.bias.tolist()] == [0.158, -0.1388, 0.0439]


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_modes(mode):
    layer = nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode=mode)
    x = rl.randn(1, 2, 6, 7)
    padded = nn.functional.pad(x, (2, 2, 1, 1), mode=mode)
    assert rl.equal(layer(x), nn.functional.conv2d(padded, layer.weight, layer.bias))


def test_output_size_picks_the_padding():
    layer, x = nn.ConvTranspose2d(3, 4, 3, 2), rl.randn(1, 3, 4, 4)
    assert tuple(layer(x, output_size=(10, 9)).shape) == (1, 4, 10, 9)
    assert tuple(layer(x[0], output_size=(4, 9, 10)).shape) == (4, 9, 10)
    with pytest.raises(ValueError, match="requested an output size of"):
        layer(x, output_size=(20, 20))
    with pytest.raises(ValueError, match="output_size must have 2 or 4 elements"):
        layer(x, output_size=(20,))


@pytest.mark.parametrize("make, words", [
    (lambda: nn.Conv2d(3, 4, 3, groups=2), "in_channels must be divisible by groups"), (lambda: nn.Conv2d(4, 3, 3, groups=2), "out_channels must be divisible"),
    (lambda: nn.Conv2d(3, 4, 3, groups=0), "groups must be a positive integer"), (lambda: nn.Conv2d(3, 4, 3, padding="full"), "Invalid padding string 'full'"),
    (lambda: nn.Conv2d(3, 4, 3, padding="same", stride=2), "not supported for strided"), (lambda: nn.Conv2d(3, 4, 3, padding_mode="x"), "padding_mode must be one of"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="circular"), 'Only "zeros" padding mode'),
])
def test_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_trains_and_copies():
    rl.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, stride=2, groups=4), nn.ConvTranspose2d(4, 1, 3, stride=2))
    twin = copy.deepcopy(net)
    x = rl.randn(4, 1, 9, 9)
    target = nn.functional.conv2d(x, rl.full((1, 1, 5, 5), 0.2), padding=2)       # neighbours' mean: smooth enough to be seen at half the size
    optimizer = rl.optim.Adam(net.parameters(), lr=0.02)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = (net(x) - target).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    assert losses[-1] < 0.5 * losses[0]
    twin.load_state_dict(net.state_dict())
    assert rl.equal(net(x), twin(x))
