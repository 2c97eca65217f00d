"""Reductions over the rows of narrow matrices run with vectors across blocks of rows or across matrices (emit/narrow.py): the same bits as those of wider ones."""
import numpy
import pytest

import rushlight as torch

WIDE = 20               # columns that fill vectors themselves

CALLS = {
    'sum': lambda x, d: x.sum(d), 'amax': lambda x, d: x.amax(d), 'amin': lambda x, d: x.amin(d), 'prod': lambda x, d: x.prod(d), 'var': lambda x, d: x.var(d),
    'any': lambda x, d: (x > 3).any(d), 'double': lambda x, d: x.double().sum(d), 'int8': lambda x, d: (x * 10).nan_to_num(0).to(torch.int8).sum(d),
    'bfloat16': lambda x, d: x.bfloat16().sum(d).float(),
}


def numbers(*shape):
    x = numpy.random.default_rng(sum(shape)).standard_normal(shape).astype('f')
    x[..., 5, 0] = numpy.nan
    x[..., 0, 1:] = 0.0
    x[..., 1, 1:] = -0.0
    return x


@pytest.mark.parametrize('shape', [(4096, 2), (5001, 3), (6500, 6), (70, 64, 3), (65, 130, 5), (3, 4100, 2)])
@pytest.mark.parametrize('name', CALLS)
def test_same_bits_as_a_wide_matrix(name, shape):
    call, dim = CALLS[name], len(shape) - 2
    x = torch.from_numpy(numbers(*shape[:-1], WIDE))
    expected = call(x, dim).numpy()[..., :shape[-1]]
    narrow = x[..., :shape[-1]]
    assert call(narrow, dim).numpy().tobytes() == expected.tobytes()
    assert call(narrow.contiguous(), dim).numpy().tobytes() == expected.tobytes()
