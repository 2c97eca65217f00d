"""Type promotion is torch's, for every pair of dtypes and every class of operand."""
import itertools

import pytest

torch = pytest.importorskip('torch')

import rushlight as rl  # noqa: E402
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


# ------------------------------------------------------------------------------------------------------ what operators make of it
SHAPES = {DIMENSIONED: (2,), ZERO_DIM: ()}


def operand(module, name, level):
    """A number, or a tensor of a dtype: ours on the meta device, where nothing is computed; torch's meta device would accept what its CPU refuses."""
    device = 'cpu' if module is torch else 'meta'
    return NUMBERS[name] if level == NUMBER else module.ones(SHAPES[level], dtype=getattr(module, TORCH_NAME[name]), device=device)


def outcome(module, call, pair, levels):
    """The dtype of the result, or the type of the exception."""
    try: return str(call(module, *[operand(module, n, level) for n, level in zip(pair, levels)]).dtype).split('.')[-1]
    except (RuntimeError, TypeError) as error: return type(error).__name__


def agree(call, pair, levels):
    expected, got = outcome(torch, call, pair, levels), outcome(rl, call, pair, levels)
    assert got == expected, f'{pair} {levels}: {got}, torch has {expected}'


FEW = ['b1', 'u8', 'i64', 'f16', 'bf16', 'f32', 'f64', 'c64']           # add has met every pair; of the others one of each kind and width is enough
LEVELS = [pair for pair in itertools.product((DIMENSIONED, ZERO_DIM, NUMBER), repeat=2) if pair != (NUMBER, NUMBER)]


@pytest.mark.parametrize('levels', LEVELS)
@pytest.mark.parametrize('name', ['add', 'result_type'])
def test_add_of_every_class(name, levels):
    call = (lambda m, a, b: m.zeros((), dtype=m.result_type(a, b))) if name == 'result_type' else lambda m, a, b: a + b
    pools = [list(NUMBERS) if level == NUMBER else NAMES for level in levels]
    for pair in itertools.product(*pools):
        agree(call, pair, levels)


@pytest.mark.parametrize('name', ['sub', 'mul', 'div', 'floor_divide', 'remainder', 'fmod', 'maximum', 'atan2', 'copysign', 'eq', 'lt', 'logical_and', 'bitwise_and', 'hypot'])
def test_pairs_of_tensors(name):
    for pair in itertools.product(FEW, FEW):
        call = lambda m, a, b: getattr(m, name)(a, b)
        agree(call, pair, (DIMENSIONED, DIMENSIONED))


# torch has no pow of bools but takes pow_(True), and no clamp_min_(True) of them though it takes a tensor's. Of a complex bound it says first that the result does not fit
# (RuntimeError), here that there is no such clamp (NotImplementedError, which is one).
LEFT_OUT = {('pow_', ('b1', 'b1'), NUMBER), ('clamp_min_', ('b1', 'b1'), NUMBER)}


@pytest.mark.parametrize('name', ['add_', 'mul_', 'div_', 'pow_', 'clamp_min_', 'eq_', 'copy_'])
def test_in_place_keeps_the_dtype_or_refuses(name):
    call = lambda m, a, b: getattr(a, name)(b)
    for levels in ((DIMENSIONED, DIMENSIONED), (DIMENSIONED, ZERO_DIM), (DIMENSIONED, NUMBER)):
        if name == 'copy_' and NUMBER in levels: continue
        names = NAMES if name == 'add_' else FEW
        for pair in itertools.product(names, NUMBERS if levels[1] == NUMBER else names):
            if (name, pair, levels[1]) in LEFT_OUT or name == 'clamp_min_' and pair[1] == 'c64' != pair[0]: continue
            agree(call, pair, levels)


@pytest.mark.parametrize('name', ['sum', 'prod', 'mean', 'cumsum', 'amax', 'argmax', 'any', 'var', 'exp', 'sqrt', 'abs', 'neg', 'floor', 'sign', 'relu', 'softmax', 'isnan', 'square',
                                  'reciprocal', 'bitwise_not'])
def test_unary(name):
    extra = {'cumsum': (0,), 'softmax': (0,)}.get(name, ())
    for dtype in NAMES:
        call = lambda m, a, _: getattr(m, name)(a, *extra)
        agree(call, (dtype, 'i64'), (DIMENSIONED, NUMBER))
