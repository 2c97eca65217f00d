"""Strides of results of inputs that are not contiguous, as torch's."""
import pytest

import rushlight as rl

KEPT = {"flip": lambda x: x.flip(0), "fliplr": rl.fliplr, "flipud": rl.flipud, "select_scatter": lambda x: x.select_scatter(x[0], 0, 1),
        "slice_scatter": lambda x: x.slice_scatter(x[:1], 0, 1, 2), "diagonal_scatter": lambda x: x.diagonal_scatter(x.diagonal()),
        "put": lambda x: x.put(rl.tensor([0]), rl.tensor([1.0])), "index_put": lambda x: x.index_put((rl.tensor([0]),), rl.tensor(1.0)),
        "index_fill": lambda x: x.index_fill(0, rl.tensor([0]), 1.0)}


@pytest.mark.parametrize("name", KEPT)
def test_memory_order_of_the_input_is_kept(name):
    x = rl.arange(12.0).reshape(3, 4)
    assert KEPT[name](x.t()).stride() == (1, 4) and KEPT[name](x).stride() == (4, 1)
    assert rl.equal(KEPT[name](x.t()), KEPT[name](x.t().contiguous()))


def test_softmax_is_dense():
    x = rl.arange(12.0).reshape(3, 4)
    assert x.t().softmax(0).stride() == x.t().log_softmax(0).stride() == (3, 1)
    image = rl.randn(2, 3, 4, 5).contiguous(memory_format=rl.channels_last)
    assert image.softmax(1).is_contiguous() and rl.equal(image.softmax(1), image.contiguous().softmax(1))
