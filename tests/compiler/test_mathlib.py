"""mathlib's bounds and special values: float against double, double against stored exact values and, where it is wider, long double."""
import math

import numpy as np
import pytest
from harness import pointwise
from mathlib_samples import POW, SAMPLES

from rushlight.compiler import mathlib

inf, nan = math.inf, math.nan
BITS = {np.float32: np.int32, np.float64: np.int64}
DTYPE = {'float': np.float32, 'double': np.float64}
_functions = {}


def function(name, elem, width=8):
    key = name, elem, width
    if key not in _functions:
        _functions[key] = pointwise(getattr(mathlib, name), elem, width, 2 if name in mathlib.BINARY else 1)
    return _functions[key]


def bound(name, elem):
    return mathlib.ULP[name][elem == 'double']


def ulps(got, want, dtype):
    """|got - want| in units in the last place of want (got of the dtype, want wider)."""
    info = np.finfo(dtype)
    exponent = np.frexp(np.abs(want).astype(np.float64))[1]
    unit = np.ldexp(np.ones_like(want), np.maximum(exponent - info.nmant - 1, info.minexp - info.nmant))
    return np.abs(got.astype(want.dtype) - want) / unit


REFERENCE = {
    'exp': np.exp, 'exp2': np.exp2, 'expm1': np.expm1, 'log': np.log, 'log2': np.log2, 'log10': np.log10, 'log1p': np.log1p, 'sin': np.sin,
    'cos': np.cos, 'tan': np.tan, 'asin': np.arcsin, 'acos': np.arccos, 'atan': np.arctan, 'sinh': np.sinh, 'cosh': np.cosh,
    'tanh': np.tanh,
    'asinh': np.arcsinh, 'acosh': np.arccosh, 'atanh': np.arctanh, 'sqrt': np.sqrt, 'rsqrt': lambda x: 1 / np.sqrt(x),
    'sigmoid': lambda x: 1 / (1 + np.exp(-x)), 'erf': np.vectorize(math.erf, [float]), 'erfc': np.vectorize(math.erfc, [float]),
    'lgamma': np.vectorize(math.lgamma, [float]), 'floor': np.floor, 'ceil': np.ceil, 'trunc': np.trunc, 'round': np.rint,
}
RANGES = {
    'exp': [(-103, 88.7), (-1, 1)], 'exp2': [(-149, 127.9), (-1, 1)], 'expm1': [(-20, 88), (-1, 1), (-1e-2, 1e-2)],
    'log': [(1e-3, 100), (0.5, 2), (1e-44, 1e-37)], 'log2': [(1e-3, 100), (0.5, 2)], 'log10': [(1e-3, 100), (0.5, 2)],
    'log1p': [(-0.99, 10), (-1e-2, 1e-2)], 'sin': [(-7, 7), (-3e4, 3e4), (1e5, 1e30)], 'cos': [(-7, 7), (-3e4, 3e4), (1e5, 1e30)],
    'tan': [(-7, 7), (1e5, 1e30)], 'asin': [(-1, 1), (0.99, 1)], 'acos': [(-1, 1), (0.99, 1)], 'atan': [(-3, 3), (-100, 100)],
    'sinh': [(-3, 3), (-88, 88)], 'cosh': [(-3, 3), (-88, 88)], 'tanh': [(-1, 1), (-10, 10)], 'asinh': [(-1, 1), (-1e3, 1e3)],
    'acosh': [(1, 2), (1, 1e4)], 'atanh': [(-0.999, 0.999), (-0.01, 0.01)], 'sqrt': [(0, 4)], 'rsqrt': [(1e-3, 4)], 'sigmoid': [(-20, 20)],
    'erf': [(-1, 1), (-5, 5)], 'erfc': [(-6, 6), (6, 10)], 'lgamma': [(1e-3, 3), (3, 40), (40, 1e6), (-6, 0)], 'floor': [(-9, 9)],
    'ceil': [(-9, 9)], 'trunc': [(-9, 9)], 'round': [(-9, 9)],
}


def spread(lo, hi, count, dtype, seed=0):
    random = np.random.default_rng(seed)
    if lo > 0 and hi / lo > 1e6:
        return np.exp(random.uniform(math.log(lo), math.log(hi), count)).astype(dtype)
    return np.clip(random.uniform(lo, hi, count), lo, hi).astype(dtype)


@pytest.mark.parametrize('name', REFERENCE)
def test_float_bounds(name):
    for lo, hi in RANGES[name]:
        x = spread(lo, hi, 20000, np.float32)
        worst = ulps(function(name, 'float')(x), REFERENCE[name](x.astype(np.float64)), np.float32)
        at = int(np.argmax(worst))
        # the double reference itself is off by about 2^-29 of a float's unit
        assert worst[at] <= bound(name, 'float') + 1e-6, f'{name}({x[at]!r}): {worst[at]:.3f} ulp'


def test_float_of_functions_without_a_double_reference():
    for name in ('erfinv', 'digamma'):
        x = np.array([float.fromhex(s[0]) for s in SAMPLES[name]]).astype(np.float32)
        want = function(name, 'double')(x.astype(np.float64))             # the double form is tested below
        assert ulps(function(name, 'float')(x), want, np.float32).max() <= bound(name, 'float') + 1e-6


@pytest.mark.parametrize('name', SAMPLES)
def test_double_bounds_at_exact_values(name):
    x, high, low = (np.array([float.fromhex(s[i]) for s in SAMPLES[name]]) for i in range(3))
    got = function(name, 'double')(x)
    error = np.abs((got - high) - low)
    unit = np.spacing(np.abs(high))
    negative_gamma = name in ('lgamma', 'digamma')
    for i in range(len(x)):
        if negative_gamma and x[i] < 0:
            assert error[i] <= 1e-14 * max(1.0, abs(high[i])), (name, x[i])
        else:
            assert error[i] <= bound(name, 'double') * unit[i] * 1.001, f'{name}({x[i]!r}): {error[i] / unit[i]:.3f} ulp'


LONG = np.finfo(np.longdouble).nmant >= 63


@pytest.mark.skipif(not LONG, reason='long double is no wider than double here')
@pytest.mark.parametrize('name', [n for n in REFERENCE if n not in ('erf', 'erfc', 'lgamma')])
def test_double_bounds_against_long_double(name):
    for lo, hi in RANGES[name]:
        x = spread(lo, hi, 20000, np.float64)
        want = REFERENCE[name](x.astype(np.longdouble))
        worst = ulps(function(name, 'double')(x), want, np.float64)
        at = int(np.argmax(worst))
        assert worst[at] <= bound(name, 'double') + 2e-3, f'{name}({x[at]!r}): {worst[at]:.3f} ulp'


def test_pow_bounds():
    a, b, high, low = (np.array([float.fromhex(s[i]) for s in POW]) for i in range(4))
    got = function('pow', 'double')(a, b)
    assert (np.abs((got - high) - low) <= bound('pow', 'double') * np.spacing(np.abs(high))).all()
    random = np.random.default_rng(1)
    a, b = np.exp(random.uniform(-8, 8, 20000)).astype(np.float32), random.uniform(-8, 8, 20000).astype(np.float32)
    want = np.power(a.astype(np.float64), b.astype(np.float64))
    assert ulps(function('pow', 'float')(a, b), want, np.float32).max() <= bound('pow', 'float')


@pytest.mark.parametrize('elem', DTYPE)
def test_two_variables(elem):
    random = np.random.default_rng(2)
    dtype = DTYPE[elem]
    wide = np.float64 if elem == 'float' else np.longdouble
    a, b = random.standard_normal(20000).astype(dtype), random.standard_normal(20000).astype(dtype)
    if elem == 'float' or LONG:
        for name, reference in (('atan2', np.arctan2), ('hypot', np.hypot)):
            worst = ulps(function(name, elem)(a, b), reference(a.astype(wide), b.astype(wide)), dtype).max()
            assert worst <= bound(name, elem) + 2e-3, name
    big = (a * dtype(1e12)).astype(dtype)
    for x in (a, big):
        got, want = function('fmod', elem)(x, b), np.fmod(x.astype(np.float64), b.astype(np.float64)).astype(dtype)
        assert (got.view(BITS[dtype]) == want.view(BITS[dtype])).all()
    got = function('remainder', elem)(big, b)
    assert ((got == 0) | (np.signbit(got) == np.signbit(b))).all() and (np.abs(got) <= np.abs(b)).all()


def test_fmod_of_any_magnitudes_is_exact():
    random = np.random.default_rng(3)
    a, b = (random.standard_normal(3000) * 10.0 ** random.integers(-300, 300, 3000) for _ in range(2))
    a[:4], b[:4] = [1e308, 5e-324, 1.0, 3e-310], [5e-324, 1e308, 5e-324, 7e-320]
    want = np.array([math.fmod(x, y) for x, y in zip(a.tolist(), b.tolist())])
    assert (function('fmod', 'double')(a, b) == want).all()


# function: (argument, value) pairs; None stands for NaN. Signs of zeros count.
SPECIAL = {
    'exp': [(-inf, 0.0), (inf, inf), (0.0, 1.0), (-0.0, 1.0), (1000.0, inf), (-1000.0, 0.0)],
    'exp2': [(-inf, 0.0), (inf, inf), (0.0, 1.0), (10.0, 1024.0), (2000.0, inf), (-2000.0, 0.0)],
    'expm1': [(-inf, -1.0), (inf, inf), (0.0, 0.0), (-0.0, -0.0), (1e-40, 1e-40), (1000.0, inf)],
    'log': [(0.0, -inf), (-0.0, -inf), (1.0, 0.0), (inf, inf), (-1.0, None), (-inf, None)],
    'log2': [(0.0, -inf), (1.0, 0.0), (8.0, 3.0), (0.5, -1.0), (inf, inf), (-1.0, None)],
    'log10': [(0.0, -inf), (1.0, 0.0), (1000.0, 3.0), (inf, inf), (-1.0, None)],
    'log1p': [(-1.0, -inf), (0.0, 0.0), (-0.0, -0.0), (inf, inf), (-2.0, None), (1e-40, 1e-40)],
    'sin': [(0.0, 0.0), (-0.0, -0.0), (inf, None), (-inf, None)],
    'cos': [(0.0, 1.0), (-0.0, 1.0), (inf, None)],
    'tan': [(0.0, 0.0), (-0.0, -0.0), (inf, None)],
    'asin': [(0.0, 0.0), (-0.0, -0.0), (1.5, None), (inf, None)],
    'acos': [(1.0, 0.0), (1.5, None), (-1.5, None)],
    'atan': [(0.0, 0.0), (-0.0, -0.0)],
    'sinh': [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf), (1000.0, inf)],
    'cosh': [(0.0, 1.0), (inf, inf), (-inf, inf), (1000.0, inf)],
    'tanh': [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0), (1000.0, 1.0)],
    'asinh': [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-inf, -inf)],
    'acosh': [(1.0, 0.0), (0.5, None), (inf, inf), (-inf, None)],
    'atanh': [(0.0, 0.0), (-0.0, -0.0), (1.0, inf), (-1.0, -inf), (2.0, None)],
    'sqrt': [(0.0, 0.0), (-0.0, -0.0), (inf, inf), (-1.0, None)],
    'rsqrt': [(0.0, inf), (-0.0, -inf), (inf, 0.0), (4.0, 0.5), (-1.0, None)],
    'sigmoid': [(0.0, 0.5), (inf, 1.0), (-inf, 0.0)],
    'erf': [(0.0, 0.0), (-0.0, -0.0), (inf, 1.0), (-inf, -1.0)],
    'erfc': [(0.0, 1.0), (inf, 0.0), (-inf, 2.0)],
    'erfinv': [(0.0, 0.0), (-0.0, -0.0), (1.0, inf), (-1.0, -inf), (1.5, None)],
    'lgamma': [(1.0, 0.0), (2.0, 0.0), (0.0, inf), (-0.0, inf), (-1.0, inf), (-7.0, inf), (inf, inf), (-inf, inf)],
    'digamma': [(0.0, -inf), (-0.0, inf), (-1.0, None), (inf, inf), (-inf, None)],
    'floor': [(-0.5, -1.0), (0.5, 0.0), (-0.0, -0.0), (inf, inf)],
    'ceil': [(-0.5, -0.0), (0.5, 1.0), (-inf, -inf)],
    'trunc': [(-0.5, -0.0), (1.7, 1.0)],
    'round': [(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-2.5, -2.0)],
}


@pytest.mark.parametrize('elem', DTYPE)
@pytest.mark.parametrize('name', mathlib.UNARY)
def test_special_values(name, elem):
    table = [*SPECIAL[name], (nan, None)]
    x = np.array([row[0] for row in table], DTYPE[elem])
    for (value, want), got in zip(table, function(name, elem)(x).tolist()):
        if want is None:
            assert math.isnan(got), f'{name}({value}) is {got}'
        else:
            want = float(DTYPE[elem](want))
            assert got == want and math.copysign(1, got) == math.copysign(1, want), f'{name}({value}) is {got}, not {want}'


def test_special_values_of_pow():
    table = [(nan, 0, 1), (1, nan, 1), (nan, 1, None), (2, nan, None), (0, -1, inf), (-0.0, -1, -inf), (-0.0, 3, -0.0),
             (-0.0, 2, 0), (0, 0, 1), (-1, inf, 1), (-1, -inf, 1), (0.5, inf, 0), (2, inf, inf), (2, -inf, 0), (inf, -1, 0),
             (-inf, 3, -inf), (-inf, 2, inf), (-inf, -3, -0.0), (-inf, 0.5, inf), (-2, 0.5, None), (-2, 3, -8), (-2, 2, 4),
             (2, 10, 1024), (3, 4, 81), (1e-30, 20, 0), (1e30, 20, inf)]
    for elem, dtype in DTYPE.items():
        a, b = (np.array([row[i] for row in table], dtype) for i in range(2))
        for row, got in zip(table, function('pow', elem)(a, b).tolist()):
            if row[2] is None:
                assert math.isnan(got), row
            else:
                assert got == row[2] and math.copysign(1, got) == math.copysign(1, row[2]), (row, got)


def test_special_values_of_atan2_and_fmod():
    for elem, dtype in DTYPE.items():
        for y, x in ((0.0, 1.0), (-0.0, 1.0), (0.0, -1.0), (-0.0, -1.0), (1.0, 0.0), (-1.0, -0.0), (0.0, 0.0), (0.0, -0.0),
                     (-0.0, -0.0), (inf, inf), (inf, -inf), (-inf, -inf), (1.0, inf), (1.0, -inf), (-inf, 1.0), (1e-15, 1e15),
                     (1e30, 1e30), (-1e-30, -1e30)):
            got, = function('atan2', elem)(np.array([y], dtype), np.array([x], dtype)).tolist()
            want = math.atan2(y, x)
            assert math.isclose(got, want, rel_tol=1e-6, abs_tol=0) and math.copysign(1, got) == math.copysign(1, want), (y, x, got)
        assert np.isnan(function('atan2', elem)(np.array([nan, 1], dtype), np.array([1, nan], dtype))).all()
        a, b = np.array([1, inf, 5, -5, 5, nan], dtype), np.array([0, 1, inf, 3, -3, 1], dtype)
        got = function('fmod', elem)(a, b)
        assert np.isnan(got[[0, 1, 5]]).all() and got[2:5].tolist() == [5, -2, 2]
        assert function('remainder', elem)(a, b)[2:5].tolist() == [5, 1, -1]


@pytest.mark.parametrize('elem', DTYPE)
@pytest.mark.parametrize('name', mathlib.UNARY + mathlib.BINARY)
def test_a_scalar_and_a_lane_get_the_same_bits(name, elem):
    random = np.random.default_rng(4)
    dtype = DTYPE[elem]
    x = (random.standard_normal(1024) * 10.0 ** random.integers(-12, 12, 1024)).astype(dtype)
    x[:9] = [nan, inf, -inf, 0.0, -0.0, 1.0, -1.0, 1e-40, 1e30]
    args = (x, np.roll(x, 7)) if name in mathlib.BINARY else (x,)
    first = function(name, elem, 1)(*args)
    for width in (8, 32):
        other = function(name, elem, width)(*args)
        same = (first.view(BITS[dtype]) == other.view(BITS[dtype])) | (np.isnan(first) & np.isnan(other))
        assert same.all(), f'{name}{args[0][~same][0]!r}, width {width}'
