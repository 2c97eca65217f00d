"""Strides of results of inputs that are not contiguous, where torch does not follow the usual rule of pointwise operators."""
import pytest

import rushlight as rl

F = rl.nn.functional
DENSE = {"cumsum": lambda x: x.cumsum(1), "cumprod": lambda x: x.cumprod(1), "logcumsumexp": lambda x: x.logcumsumexp(1), "tril": rl.tril, "triu": rl.triu,
         "masked_fill": lambda x: x.masked_fill(x > 0, 1.0), "renorm": lambda x: x.renorm(2, 0, 1.0), "bernoulli": lambda x: rl.bernoulli(x.sigmoid()),
         "rrelu": lambda x: F.rrelu(x, training=True)}


@pytest.mark.parametrize("name", DENSE)
def test_dense_whatever_the_input_is(name):
    for x in (rl.randn(4, 5, 6).permute(2, 0, 1), rl.randn(2, 3, 4, 5).to(memory_format=rl.channels_last)):
        assert DENSE[name](x).is_contiguous()


@pytest.mark.parametrize("function", [lambda x: F.glu(x, 0), lambda x: x.diff(dim=0)])
def test_parts_of_the_input_keep_its_order(function):
    x = rl.randn(4, 5, 6).permute(2, 0, 1)
    n = function(x).shape[0]
    assert function(x).stride() == (1, 5 * n, n)
    assert function(rl.randn(2, 3, 4, 5).to(memory_format=rl.channels_last)).is_contiguous(memory_format=rl.channels_last)


def test_group_norm_keeps_channels_last():
    x = rl.randn(2, 4, 3, 5)
    y = F.group_norm(x.to(memory_format=rl.channels_last), 2)
    assert y.is_contiguous(memory_format=rl.channels_last) and rl.equal(y, F.group_norm(x, 2))


def test_masked_fill_in_place_refuses_a_larger_mask():
    x = rl.zeros(3)
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"): x.masked_fill_(rl.ones(2, 3, dtype=rl.bool), 1.0)
    assert not x.any()
