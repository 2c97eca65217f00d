"""Many rows of at most 32 elements go side by side (emit/beside.py): the same bits as a few of them, which do not."""
import numpy
import pytest

import rushlight as torch
from rushlight.nn import functional as F

ROWS = 150              # more than one vector of rows, and some left over
FEW = 50                # too few to go side by side

CALLS = {
    'sum': lambda x: x.sum(1), 'mean': lambda x: x.mean(1), 'prod': lambda x: x.prod(1), 'amax': lambda x: x.amax(1), 'amin': lambda x: x.amin(1),
    'argmax': lambda x: x.argmax(1), 'argmin': lambda x: x.argmin(1), 'max': lambda x: x.max(1).values, 'var': lambda x: x.var(1), 'any': lambda x: (x > 0).any(1),
    'softmax': lambda x: F.softmax(x, 1), 'log_softmax': lambda x: F.log_softmax(x, 1), 'logsumexp': lambda x: x.logsumexp(1),
    'layer_norm': lambda x: F.layer_norm(x, x.shape[1:], x[0], x[1]), 'double': lambda x: x.double().sum(1), 'bfloat16': lambda x: x.bfloat16().sum(1).float(),
    'int8': lambda x: (x * 10).nan_to_num(0).to(torch.int8).sum(1), 'complex': lambda x: torch.view_as_real(torch.complex(x, -x).sum(1)),
}


def numbers(rows, length):
    x = numpy.random.default_rng(length).standard_normal((rows, length)).astype('f')
    x[3, -1] = numpy.nan
    x[4, 0] = numpy.inf
    x[5] = -0.0
    x[6, ::2] = 0.0          # which of two zeros is the largest depends on the order
    x[6, 1::2] = -0.0
    return x


def by_parts(call, x): return numpy.concatenate([call(x[i:i + FEW]).numpy() for i in range(0, ROWS, FEW)])


@pytest.mark.parametrize('length', [2, 7, 16, 17, 32])
@pytest.mark.parametrize('name', CALLS)
def test_same_bits_as_a_few_rows(name, length):
    x, call = torch.from_numpy(numbers(ROWS, length)), CALLS[name]
    if name == 'layer_norm':
        w, b = x[0].clone(), x[1].clone()
        call = lambda x: F.layer_norm(x, (length,), w, b)
    expected = by_parts(call, x)
    assert call(x).numpy().tobytes() == expected.tobytes()
    turned = x.t().contiguous().t()
    assert call(turned).numpy().tobytes() == expected.tobytes()
    wide = torch.zeros(ROWS, 3 * length)
    wide[:, ::3] = x
    assert call(wide[:, ::3]).numpy().tobytes() == expected.tobytes()


def test_in_place_result():
    x = torch.from_numpy(numbers(ROWS, 9))
    expected = F.softmax(x, 1)
    out = x.clone()
    torch.softmax(out, 1, out=out)
    assert out.numpy().tobytes() == expected.numpy().tobytes()


def test_rows_of_an_expanded_tensor():
    x = torch.from_numpy(numbers(10, 8))[:1].expand(ROWS, 8)
    assert F.softmax(x, 1).numpy().tobytes() == F.softmax(x.contiguous(), 1).numpy().tobytes()
    assert x.sum(1).numpy().tobytes() == x.contiguous().sum(1).numpy().tobytes()


def test_several_outer_dimensions():
    x = torch.from_numpy(numbers(ROWS * 6, 5)).reshape(6, ROWS, 5)
    assert x.transpose(0, 1).sum(2).numpy().tobytes() == x.sum(2).t().contiguous().numpy().tobytes()
    turned = x.permute(1, 0, 2)
    assert F.softmax(turned, 2).contiguous().numpy().tobytes() == F.softmax(x, 2).permute(1, 0, 2).contiguous().numpy().tobytes()
