"""Type promotion is torch's, for every pair of dtypes and every class of operand."""
import itertools

import pytest

torch = pytest.importorskip('torch')

from rushlight.compiler.graph import DTYPE_OF_TORCH_NAME, TORCH_NAME  # noqa: E402
from rushlight.compiler.promotion import DIMENSIONED, NUMBER, ZERO_DIM, can_cast, promote_types, result_type  # noqa: E402

NAMES = ['b1', 'u8', 'i8', 'i16', 'i32', 'i64', 'f16', 'bf16', 'f32', 'f64', 'c64', 'c128']
NUMBERS = {'b1': True, 'i64': 3, 'f64': 2.5, 'c128': 1j}


def theirs(name): return getattr(torch, TORCH_NAME[name])
def ours(dtype): return DTYPE_OF_TORCH_NAME[str(dtype).split('.')[-1]]


@pytest.mark.parametrize('a, b', list(itertools.product(NAMES, NAMES)))
def test_pairs(a, b):
    assert promote_types(a, b) == ours(torch.promote_types(theirs(a), theirs(b)))
    assert can_cast(a, b) == torch.can_cast(theirs(a), theirs(b))


@pytest.mark.parametrize('default', ['f32', 'f64'])
@pytest.mark.parametrize('levels', list(itertools.product((DIMENSIONED, ZERO_DIM, NUMBER), repeat=2)))
def test_classes_of_operands(levels, default):
    torch.set_default_dtype(theirs(default))
    try:
        pools = [NUMBERS if level == NUMBER else NAMES for level in levels]
        for pair in itertools.product(*pools):
            values = [NUMBERS[n] if level == NUMBER else torch.zeros((2,) if level == DIMENSIONED else (), dtype=theirs(n)) for n,
                level in zip(pair, levels)]
            assert result_type(list(zip(pair, levels)), default) == ours(torch.result_type(*values)), (pair, levels)
    finally: torch.set_default_dtype(torch.float32)
