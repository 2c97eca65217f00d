"""Temporaries of channels_last images: what reads them dense gets them dense, with the same bits as from contiguous inputs."""
import pytest

import rushlight as rl
from rushlight.nn import functional as F


def both(*shape):
    rl.manual_seed(0)
    x = rl.randn(*shape)
    return x, x.contiguous(memory_format=rl.channels_last)


@pytest.mark.parametrize("last", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 1)])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(last, causal):
    rl.manual_seed(1)
    dense = [rl.randn(2, 4, n, 8, requires_grad=True) for n in (3, 6, 6)]
    laid = [x.detach().contiguous(memory_format=rl.channels_last).requires_grad_() if as_image else x.detach().clone().requires_grad_() for x, as_image in zip(dense, last)]
    a, b = F.scaled_dot_product_attention(*dense, is_causal=causal), F.scaled_dot_product_attention(*laid, is_causal=causal)
    assert rl.equal(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    for x, y in zip(dense, laid): assert rl.equal(x.grad, y.grad)


ROUTINES = {"sort": lambda x: x.sort(-1)[0], "sort of a sum": lambda x: (x + x).sort(1)[0], "inverse": rl.linalg.inv, "det": rl.linalg.det, "fft": lambda x: rl.fft.fft(x).abs(),
            "topk": lambda x: x.topk(2)[0], "median": lambda x: x.median(2)[0], "svdvals": rl.linalg.svdvals, "unique": lambda x: rl.unique(x), "cumsum": lambda x: x.cumsum(1),
            "searchsorted": lambda x: rl.searchsorted(x.sort(-1)[0], x), "histc": lambda x: rl.histc(x, 5), "mode": lambda x: x.mode(1)[0],
            "kthvalue": lambda x: x.kthvalue(2, 1)[0], "solve": lambda x: rl.linalg.solve(x, x.flip(0)), "logcumsumexp": lambda x: x.logcumsumexp(2)}


@pytest.mark.parametrize("name", ROUTINES)
def test_routines_of_the_runtime(name):
    x, y = both(2, 3, 4, 4)
    assert rl.equal(ROUTINES[name](x), ROUTINES[name](y))


@pytest.mark.parametrize("reduce", [lambda x: (x > 0).any((1, 3)), lambda x: x.all((1, 3)), lambda x: x.count_nonzero((1, 3)), lambda x: rl.linalg.vector_norm(x, 6, (0, 1, 2, 3)),
                                    lambda x: x.sigmoid().sum((1, 3)), lambda x: (x * 2).amax((0, 3))])
@pytest.mark.parametrize("shape", [(3, 2, 1, 2), (2, 3, 4, 5), (2, 3, 1, 1), (1, 2, 3, 1)])
def test_reductions_over_channels_and_pixels(reduce, shape):
    x, y = both(*shape)
    assert rl.equal(reduce(x), reduce(y))


@pytest.mark.parametrize("dim", [0, 1, 2, 3])
def test_values_beside_the_reduction_of_their_rows(dim):
    """The result and the temporary in its place lie as the image; rows that run over several of its dimensions want neither."""
    x, y = both(2, 4, 4, 6)
    assert rl.equal(x.renorm(2, dim, 1.0), y.renorm(2, dim, 1.0))
