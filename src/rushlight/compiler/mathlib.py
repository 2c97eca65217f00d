"""The functions of a real variable, as LLVM IR: `NAME(f, x)` takes and returns an `ir.Val` of elem `float` or `double` and any width.

A scalar and a lane of a vector get the same bits: there is one body, no fast-math flag, and fma only where it is written. No body calls
anything outside the module. Bodies are in mathlib_exp (exponentials, logarithms), mathlib_trig, mathlib_special (erf, gamma) and
mathlib_arith (pow, fmod, hypot); here are the public names, their float forms and the bounds they keep.

Functions that float arithmetic alone cannot get right cheaply are computed in double with short polynomials and rounded once.
"""
from rushlight.compiler import mathlib_arith, mathlib_exp, mathlib_special, mathlib_trig

# Largest error in units in the last place, (float, double), over the whole range including denormal results; the tests hold them to it.
# lgamma below 0 and digamma below 0 are bounded absolutely near their zeros (1e-14 in double).
ULP = {
    'exp': (1, 1), 'exp2': (1, 1), 'expm1': (2, 2), 'log': (1, 1), 'log2': (1, 1), 'log10': (1, 1), 'log1p': (1, 1),
    'sin': (2, 1), 'cos': (2, 1), 'tan': (1, 2), 'asin': (1, 1), 'acos': (1, 1), 'atan': (1, 1), 'atan2': (1, 2),
    'sinh': (1, 2), 'cosh': (1, 2), 'tanh': (2, 2), 'asinh': (1, 2), 'acosh': (1, 2), 'atanh': (1, 2),
    'sqrt': (0.5, 0.5), 'rsqrt': (2, 2), 'sigmoid': (2, 2), 'erf': (2, 2), 'erfc': (1, 3), 'erfinv': (1, 2),
    'lgamma': (1, 3), 'digamma': (1, 3), 'pow': (1, 1), 'fmod': (0, 0), 'remainder': (0.5, 0.5), 'hypot': (1, 1),
    'floor': (0, 0), 'ceil': (0, 0), 'trunc': (0, 0), 'round': (0, 0),
}


def _native(body):
    """The same arithmetic for float and double."""
    def function(f, *args):
        return body(f, *args)
    function.__name__, function.__doc__ = body.__name__, body.__doc__
    return function


IN_DOUBLE = set()                # names of what is computed in double, for whoever rounds the result further


def _widened(body, kind='mid'):
    """Float operands are computed in double and rounded once."""
    IN_DOUBLE.add(body.__name__)

    def function(f, *args):
        if args[0].elem == 'double':
            return body(f, *args)
        wide = [f.convert('fpext', a, 'double') for a in args]
        return f.convert('fptrunc', body(f, *wide, kind), 'float')
    function.__name__, function.__doc__ = body.__name__, body.__doc__
    return function


exp = _native(mathlib_exp.exp)
exp2 = _native(mathlib_exp.exp2)
expm1 = _native(mathlib_exp.expm1)
log = _native(mathlib_exp.log)
log2 = _native(mathlib_exp.log2)
log10 = _native(mathlib_exp.log10)
log1p = _native(mathlib_exp.log1p)
tanh = _native(mathlib_exp.tanh)
sigmoid = _native(mathlib_exp.sigmoid)
sin = _native(mathlib_trig.sin)
cos = _native(mathlib_trig.cos)
erf = _native(mathlib_special.erf)

sinh = _widened(mathlib_exp.sinh)
cosh = _widened(mathlib_exp.cosh)
asinh = _widened(mathlib_exp.asinh)
acosh = _widened(mathlib_exp.acosh)
atanh = _widened(mathlib_exp.atanh)
tan = _widened(mathlib_trig.tan)
asin = _widened(mathlib_trig.asin)
acos = _widened(mathlib_trig.acos)
atan = _widened(mathlib_trig.atan)
atan2 = _widened(mathlib_trig.atan2)
erfc = _widened(mathlib_special.erfc)
erfinv = _widened(mathlib_special.erfinv)
lgamma = _widened(mathlib_special.lgamma, 'f64')        # the short forms would lose the zeros
digamma = _widened(mathlib_special.digamma, 'f64')
pow = _widened(mathlib_arith.pow)
fmod = _native(mathlib_arith.fmod)
remainder = _native(mathlib_arith.remainder)
hypot = _widened(mathlib_arith.hypot)


def sqrt(f, x):
    return f.call('sqrt', x)


def rsqrt(f, x):
    """1 / sqrt(x), each rounded."""
    return 1.0 / f.call('sqrt', x)


def floor(f, x):
    return f.call('floor', x)


def ceil(f, x):
    return f.call('ceil', x)


def trunc(f, x):
    return f.call('trunc', x)


def round(f, x):
    """To the nearest integer, halves to even."""
    return f.call('roundeven', x)


UNARY = ('exp', 'exp2', 'expm1', 'log', 'log2', 'log10', 'log1p', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'sinh', 'cosh', 'tanh',
         'asinh', 'acosh', 'atanh', 'sqrt', 'rsqrt', 'sigmoid', 'erf', 'erfc', 'erfinv', 'lgamma', 'digamma', 'floor', 'ceil', 'trunc',
         'round')
BINARY = ('pow', 'atan2', 'fmod', 'remainder', 'hypot')
