"""The pointwise primitives: for each its loop body and its gradient line. Structural vjps are in `structural.py`.

    primitive(name, arity, emit=..., vjp=..., result=...)

emit(f, dtype, *values) -> value: the body. f is the IR builder, dtype the graph's name of the operands' type (it tells signed from
    unsigned), values are `ir.Val`: b1 is i1, integers their own width, f32 'float', f64 'double' (half types never reach a body:
    the graph computes them in f32). Complex operands are pairs of Val; `emit_complex` has the same signature on pairs.
vjp(g, y, *args) -> a cotangent per argument (None: none). Written as for reals; the differentiator conjugates arguments and result for
    complex dtypes (holomorphic rules). `holomorphic=False`: the rule handles complex numbers itself.
result: 'same' (as the operands), 'bool', 'real' (the real type of a complex operand), 'complex'.

Rules name what they need: a rule that uses y makes the result the value kept for backward, as torch does.
"""
import math

from . import trace as T


class Primitive:
    __slots__ = ('name', 'arity', 'emit', 'vjp', 'result', 'holomorphic', 'emit_complex', 'commutes')

    def __init__(self, name, arity, emit, vjp, result, holomorphic, emit_complex, commutes):
        self.name, self.arity, self.emit, self.vjp, self.result = name, arity, emit, vjp, result
        self.holomorphic, self.emit_complex, self.commutes = holomorphic, emit_complex, commutes

    def __repr__(self): return f'<primitive {self.name}>'


PRIMITIVES = {}
NONE = lambda g, y, *args: (None,) * len(args)


def zeros(g, y, *args): return tuple(T.const(0, a.dtype) if T.is_float(a.dtype) else None for a in args)


def primitive(name, arity, emit, vjp=NONE, result='same', holomorphic=True, emit_complex=None, commutes=False):
    PRIMITIVES[name] = Primitive(name, arity, emit, vjp, result, holomorphic, emit_complex, commutes)


def is_unsigned(dtype): return dtype[0] == 'u'
def floating(dtype): return dtype[0] == 'f'


# ------------------------------------------------------------------------------------------------------- arithmetic
def _emit_add(f, d, a, b): return a | b if d == 'b1' else a + b
def _emit_mul(f, d, a, b): return a & b if d == 'b1' else a * b


def _emit_neg(f, d, a): return a if d == 'b1' else -a


def _emit_abs(f, d, a):
    if floating(d): return f.call('fabs', a)
    return a if d == 'b1' or is_unsigned(d) else f.select(a < 0, -a, a)


def _emit_maximum(f, d, a, b):
    if d == 'b1': return a | b
    if is_unsigned(d): return f.select(a.ugt(b), a, b)
    return f.select((a > b) | a.ne(a), a, b) if floating(d) else f.select(a > b, a, b)


def _emit_minimum(f, d, a, b):
    if d == 'b1': return a & b
    if is_unsigned(d): return f.select(a.ult(b), a, b)
    return f.select((a < b) | a.ne(a), a, b) if floating(d) else f.select(a < b, a, b)


def _safe_divisor(f, d, a, b):
    """Divisors of 0 were refused by a check before; lanes that are switched off, and INT_MIN / -1, must not trap."""
    b = f.select(b.eq(0), f.const(1, b.elem, b.width), b)
    if is_unsigned(d) or d == 'b1': return b, None
    minus = b.eq(-1)
    return f.select(minus, f.const(1, b.elem, b.width), b), minus


def _emit_idiv(f, d, a, b):
    if d == 'b1': return a
    b, minus = _safe_divisor(f, d, a, b)
    if minus is None: return a.udiv(b)
    return f.select(minus, -a, a // b)


def _emit_pair_first(f, d, k, n):
    """The first member of pair k of n things, pairs counted as (0, 1), (0, 2) … (1, 2) …: from the number of pairs behind it, a triangular number whose root is exact enough in
    double. Rows that run through all pairs count instead: emit/pairs.py."""
    behind = f.convert('sitofp', ((n * (n - 1)) >> 1) - 1 - k, 'double')
    rank = f.call('floor', (f.call('sqrt', behind * 8.0 + 1.0) - 1.0) * 0.5)
    return n - 2 - f.convert('fptosi', rank, 'i64')


def _emit_pair_second(f, d, k, n):
    first = _emit_pair_first(f, d, k, n)
    return k + 1 + ((first * (first + 3 - (n + n))) >> 1)            # first + 1 + (k - the pairs before (first, first + 1))


def _emit_fmod(f, d, a, b):
    if floating(d): return _mathlib().fmod(f, a, b)
    if d == 'b1': return f.const(0, a.elem, a.width)
    b, minus = _safe_divisor(f, d, a, b)
    if minus is None: return a.urem(b)
    return f.select(minus, f.const(0, a.elem, a.width), a % b)


def _emit_pow(f, d, a, b):
    return _mathlib().pow(f, a, b) if floating(d) else _integer_power(f, d, a, b)


def _integer_power(f, d, a, b):
    """Squaring by the bits of the exponent, wrapping; a negative exponent gives 0, except for bases 1 and -1."""
    if d == 'b1': return a | ~b
    from .emit.ir import Var
    one, zero = f.const(1, a.elem, a.width), f.const(0, a.elem, a.width)
    out, base, left = Var(f, one), Var(f, a), Var(f, b)
    with f.loop(f.const(0), f.const(int(a.elem[1:]))):
        square, rest = base.get(), left.get()
        out.set(f.select((rest & 1).ne(0), out.get() * square, out.get()))
        base.set(square * square)
        left.set(rest.lshr(1))
    if is_unsigned(d): return out.get()
    sign = f.select((b & 1).ne(0), f.const(-1, a.elem, a.width), one)
    inverse = f.select(a.eq(1), one, f.select(a.eq(-1), sign, zero))
    return f.select(b < 0, inverse, out.get())


def _complex_mul(f, d, a, b): return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _complex_div(f, d, a, b):
    """Smith's scaling: divide by the larger part, so that the squares do not overflow."""
    wide = ~(f.call('fabs', b[0]) < f.call('fabs', b[1]))
    big, small = f.select(wide, b[0], b[1]), f.select(wide, b[1], b[0])
    zero = b[0].eq(0.0) & b[1].eq(0.0)
    ratio = small / big
    scale = big + small * ratio
    ar, ai = f.select(wide, a[0], a[1]), f.select(wide, a[1], a[0])
    re = (ar + ai * ratio) / scale
    im = f.select(wide, a[1] - a[0] * ratio, a[1] * ratio - a[0]) / scale
    nothing = f.const(0.0, big.elem, big.width)                  # by 0: each part for itself, so 1/0 is inf + nan i as in torch
    return f.select(zero, a[0] / nothing, re), f.select(zero, a[1] / nothing, im)


primitive('add', 2, _emit_add, lambda g, y, a, b: (g, g), commutes=True,
          emit_complex=lambda f, d, a, b: (a[0] + b[0], a[1] + b[1]))
primitive('sub', 2, lambda f, d, a, b: a - b, lambda g, y, a, b: (g, -g),
          emit_complex=lambda f, d, a, b: (a[0] - b[0], a[1] - b[1]))
primitive('mul', 2, _emit_mul, lambda g, y, a, b: (g * b, g * a), emit_complex=_complex_mul, commutes=True)
primitive('div', 2, lambda f, d, a, b: a / b, lambda g, y, a, b: (g / b, -(g * (y / b))), emit_complex=_complex_div)
primitive('neg', 1, _emit_neg, lambda g, y, a: (-g,), emit_complex=lambda f, d, a: (-a[0], -a[1]))
primitive('abs', 1, _emit_abs, lambda g, y, a: (_abs_vjp(g, y, a),), result='real', holomorphic=False,
          emit_complex=lambda f, d, a: _mathlib().hypot(f, a[0], a[1]))
primitive('floor', 1, lambda f, d, a: f.call('floor', a) if floating(d) else a, zeros)
primitive('ceil', 1, lambda f, d, a: f.call('ceil', a) if floating(d) else a, zeros)
primitive('trunc', 1, lambda f, d, a: f.call('trunc', a) if floating(d) else a, zeros)
primitive('round', 1, lambda f, d, a: f.call('roundeven', a) if floating(d) else a, zeros)
primitive('fmod', 2, _emit_fmod, lambda g, y, a, b: (g, -(g * T.prim('trunc', a / b))))
primitive('idiv', 2, _emit_idiv)
primitive('pair_first', 2, _emit_pair_first)
primitive('pair_second', 2, _emit_pair_second)
primitive('fma', 3, lambda f, d, a, b, c: f.fma(a, b, c) if floating(d) else a * b + c, lambda g, y, a, b, c: (g * b, g * a, g),
          emit_complex=lambda f, d, a, b, c: tuple(x + z for x, z in zip(_complex_mul(f, d, a, b), c)))
primitive('copysign', 2, lambda f, d, a, b: f.call('copysign', a, b), lambda g, y, a, b: (_copysign_vjp(g, y, a), T.const(0, b.dtype)))


def _abs_vjp(g, y, a):
    if T.is_complex(a.dtype):
        whole = T.where(T.prim('eq', y, 0), 1, y)
        return T.cast(g, a.dtype) * T.where(T.prim('eq', y, 0), T.const(0, a.dtype), a / T.cast(whole, a.dtype))
    return g * _sign(a)


def _sign(a):
    return T.where(T.prim('lt', 0, a), T.const(1, a.dtype), T.where(T.prim('lt', a, 0), T.const(-1, a.dtype), T.const(0, a.dtype)))


def _copysign_vjp(g, y, a):
    return T.where(T.prim('eq', a, 0), 0, g * (y / T.where(T.prim('eq', a, 0), 1, a)))


def _pow_vjp(g, y, a, b):
    """0 where b is 0, and d/db is 0 where a is 0 and b >= 0: the plain formulas give NaN there."""
    zero_b = T.prim('eq', b, 0)
    da = T.where(zero_b, 0, g * (b * T.prim('pow', a, b - 1)))
    dead = T.prim('eq', a, 0) if T.is_complex(a.dtype) else T.prim('eq', a, 0) & T.prim('le', 0, b)
    db = T.where(dead, 0, g * (y * T.prim('log', T.where(dead, 1, a))))
    return da, db


def _tie_vjp(wins):
    """maximum, minimum: ties get half each, and where either is NaN both get all of it."""
    def rule(g, y, a, b):
        nan = T.prim('ne', a, a) | T.prim('ne', b, b)
        half = g * 0.5
        tie = T.prim('eq', a, b)
        ga = T.where(nan, g, T.where(tie, half, T.where(wins(a, b), g, 0)))
        gb = T.where(nan, g, T.where(tie, half, T.where(wins(b, a), g, 0)))
        return ga, gb
    return rule


primitive('pow', 2, _emit_pow, _pow_vjp)
primitive('maximum', 2, _emit_maximum, _tie_vjp(lambda a, b: T.prim('lt', b, a)))
primitive('minimum', 2, _emit_minimum, _tie_vjp(lambda a, b: T.prim('lt', a, b)))


def _atan2_vjp(g, y, a, b):
    size = a * a + b * b
    flat = T.prim('eq', size, 0)
    scale = T.where(flat, 0, g / T.where(flat, 1, size))
    return scale * b, -(scale * a)


# ------------------------------------------------------------------------------------------------- mathematical leaves
def _mathlib():
    from . import mathlib
    return mathlib


def leaf(name, vjp, arity=1):
    """A function whose body mathlib has under the same name."""
    primitive(name, arity, lambda f, d, *values: getattr(_mathlib(), name)(f, *values), vjp)


LN2, LN10, TWO_OVER_SQRT_PI = math.log(2), math.log(10), 2 / math.sqrt(math.pi)


def _rsqrt(x): return 1 / T.prim('sqrt', x)


def _acosh_slope(x):
    """Of a complex number the two roots apart: their product's sign changes across the imaginary axis, that of one root does not."""
    if T.is_complex(x.dtype): return _rsqrt(x - 1) * _rsqrt(x + 1)
    return _rsqrt(x * x - 1)


leaf('exp', lambda g, y, x: (g * y,))
leaf('exp2', lambda g, y, x: (g * y * LN2,))
leaf('expm1', lambda g, y, x: (g * (y + 1),))
leaf('log', lambda g, y, x: (g / x,))
leaf('log2', lambda g, y, x: (g / (x * LN2),))
leaf('log10', lambda g, y, x: (g / (x * LN10),))
leaf('log1p', lambda g, y, x: (g / (x + 1),))
leaf('sin', lambda g, y, x: (g * T.prim('cos', x),))
leaf('cos', lambda g, y, x: (-(g * T.prim('sin', x)),))
leaf('tan', lambda g, y, x: (g * (y * y + 1),))
leaf('asin', lambda g, y, x: (g * _rsqrt(1 - x * x),))
leaf('acos', lambda g, y, x: (-(g * _rsqrt(1 - x * x)),))
leaf('atan', lambda g, y, x: (g / (x * x + 1),))
leaf('sinh', lambda g, y, x: (g * T.prim('cosh', x),))
leaf('cosh', lambda g, y, x: (g * T.prim('sinh', x),))
leaf('tanh', lambda g, y, x: (g * (1 - y * y),))
leaf('asinh', lambda g, y, x: (g * _rsqrt(x * x + 1),))
leaf('acosh', lambda g, y, x: (g * _acosh_slope(x),))
leaf('atanh', lambda g, y, x: (g / (1 - x * x),))
leaf('sqrt', lambda g, y, x: (g / (2 * y),))
leaf('sigmoid', lambda g, y, x: (g * ((1 - y) * y),))
leaf('erf', lambda g, y, x: (g * (T.prim('exp', -(x * x)) * TWO_OVER_SQRT_PI),))
leaf('erfc', lambda g, y, x: (g * (T.prim('exp', -(x * x)) * -TWO_OVER_SQRT_PI),))
leaf('erfinv', lambda g, y, x: (g * (T.prim('exp', y * y) * (0.5 * math.sqrt(math.pi))),))
leaf('lgamma', lambda g, y, x: (g * T.prim('digamma', x),))
leaf('digamma', lambda g, y, x: (g * _trigamma(x),))
leaf('atan2', _atan2_vjp, 2)
leaf('hypot', lambda g, y, a, b: (g * (a / y), g * (b / y)), 2)


def _trigamma(x):
    """The second derivative of lgamma: reflected to x >= 1/2, moved up by 12, then the asymptotic series. In double: near the poles the sine
    of a float is too rough."""
    if x.dtype == 'f32': return T.cast(_trigamma(T.cast(x, 'f64')), 'f32')
    low = x < 0.5
    y, total = T.where(low, 1 - x, x), None
    for _ in range(12):
        term = 1 / (y * y)
        total = term if total is None else total + term
        y = y + 1
    r = 1 / y
    r2 = r * r
    series = r + r2 * 0.5 + r * r2 * (1 / 6 - r2 * (1 / 30 - r2 * (1 / 42 - r2 * (1 / 30 - r2 * (5 / 66)))))
    total = total + series
    sine = T.prim('sin', math.pi * (x - T.prim('round', x)))
    return T.where(low, (math.pi ** 2) / (sine * sine) - total, total)


# ------------------------------------------------------------------------------------------------ logic, bits, selection
def _emit_lt(f, d, a, b): return a.ult(b) if is_unsigned(d) else (~a & b) if d == 'b1' else a < b
def _emit_le(f, d, a, b): return a.ule(b) if is_unsigned(d) else (~a | b) if d == 'b1' else a <= b


def _shift_bounds(f, a, b):
    bits = int(a.elem[1:])
    return (b < 0) | (b > bits - 1), f.const(bits - 1, a.elem, a.width)


def _emit_shl(f, d, a, b):
    if d == 'b1': return a & ~b
    out, _ = _shift_bounds(f, a, b)
    zero = f.const(0, a.elem, a.width)
    return f.select(out, zero, a << f.select(out, zero, b))


def _emit_shr(f, d, a, b):
    if d == 'b1': return a & ~b
    out, most = _shift_bounds(f, a, b)
    zero = f.const(0, a.elem, a.width)
    if is_unsigned(d): return f.select(out, zero, a.lshr(f.select(out, zero, b)))
    return a >> f.select(out, most, b)


primitive('eq', 2, lambda f, d, a, b: a.eq(b), result='bool', commutes=True, emit_complex=lambda f, d, a, b: a[0].eq(b[0]) & a[1].eq(b[1]))
primitive('ne', 2, lambda f, d, a, b: a.ne(b), result='bool', commutes=True, emit_complex=lambda f, d, a, b: a[0].ne(b[0]) | a[1].ne(b[1]))
primitive('lt', 2, _emit_lt, result='bool')
primitive('le', 2, _emit_le, result='bool')
primitive('bit_and', 2, lambda f, d, a, b: a & b, commutes=True)
primitive('bit_or', 2, lambda f, d, a, b: a | b, commutes=True)
primitive('bit_xor', 2, lambda f, d, a, b: a ^ b, commutes=True)
primitive('bit_not', 1, lambda f, d, a: ~a)
primitive('shl', 2, _emit_shl)
primitive('shr', 2, _emit_shr)
primitive('where', 3, lambda f, d, c, a, b: f.select(c, a, b),
          lambda g, y, c, a, b: (None, T.where(c, g, 0), T.where(c, 0, g)), holomorphic=False,
          emit_complex=lambda f, d, c, a, b: (f.select(c, a[0], b[0]), f.select(c, a[1], b[1])))

# ------------------------------------------------------------------------------------------------------------- complex
# These take or give parts; the emitter hands complex operands over as pairs.
primitive('conj', 1, lambda f, d, a: a, lambda g, y, a: (T.prim('conj', g),), holomorphic=False,
          emit_complex=lambda f, d, a: (a[0], -a[1]))
primitive('real', 1, lambda f, d, a: a, lambda g, y, a: (T.cast(g, a.dtype),), result='real', holomorphic=False,
          emit_complex=lambda f, d, a: a[0])
primitive('imag', 1, lambda f, d, a: f.const(0, a.elem, a.width),
          lambda g, y, a: (T.prim('make_complex', T.const(0, g.dtype), g),), result='real', holomorphic=False,
          emit_complex=lambda f, d, a: a[1])
primitive('make_complex', 2, lambda f, d, a, b: (a, b), lambda g, y, a, b: (T.prim('real', g), T.prim('imag', g)), result='complex',
          holomorphic=False)
# The identity with no gradient (T.stop). Taken out by `decompose`.
primitive('stop', 1, lambda f, d, a: a)
