"""exp, log and what is made of them: bodies in IR for float and double, any width.

Every body takes a `kind`: the arithmetic is `float` for 'f32', `double` for 'f64' and 'mid' ('mid' has the short
polynomials: its result is about to be rounded to float). Nothing here is reached from outside except through mathlib.py.
"""
from rushlight.compiler import mathlib_tables as tables

INT = {'float': 'i32', 'double': 'i64'}
MANTISSA = {'float': 23, 'double': 52}
BIAS = {'float': 127, 'double': 1023}
KIND = {'float': 'f32', 'double': 'f64'}
ROUND = {'float': 1.5 * 2.0**23, 'double': 1.5 * 2.0**52}    # adding it leaves the rounded integer in the low bits
INF, NAN = float('inf'), float('nan')
LN2 = {'float': (0.6931471824645996, -1.9046542121259336e-09), 'double': (0.6931471805599453, 2.3190468138462996e-17)}
LN2_SHORT = {'float': (0.693359375, -2.12194440e-4),          # few enough bits that exponent * high part is exact
             'double': (0.6931471804855391, 7.440617110012397e-11)}
LOG2E = {'float': (1.4426950216293335, 1.925963033500011e-08), 'double': (1.4426950408889634, 2.0355273740931033e-17)}
LOG10E = {'float': (0.4342944920063019, -1.0103049952192578e-08), 'double': (0.4342944819032518, 1.098319650216765e-17)}
LOG10_2 = {'float': (0.301025390625, 4.605038981195214e-06), 'double': (0.30102999560767785, 5.630334806675098e-11)}
TINY = {'float': 2.0**-126, 'double': 2.0**-1022}
EXP_RANGE = {'float': (-105.0, 89.0), 'double': (-746.0, 710.0)}     # beyond these: exactly 0 and inf
EXP2_RANGE = {'float': (-151.0, 129.0), 'double': (-1076.0, 1025.0)}


def const(f, x, value):
    return f.const(value, x.elem, x.width)


def bits(f, x):
    return f.convert('bitcast', x, INT[x.elem])


def from_bits(f, n, elem):
    return f.convert('bitcast', n, elem)


def integer(f, x, value):
    """An integer constant of x's width and size."""
    return f.const(value, INT[x.elem], x.width)


def negate(f, x):
    return f.emit(f'fneg {x.type} {x.name}', x.elem, x.width)


def absolute(f, x):
    return f.call('fabs', x)


def at_least(f, x, low):
    """max(x, low) that keeps NaN (the compare is false)."""
    return f.select(x < low, low, x)


def at_most(f, x, high):
    return f.select(x > high, high, x)


def polynomial(f, x, coefficients, kind=None):
    """Horner's rule; the coefficients are numbers or values, the constant first. For 'mid', which has bits to spare, by pairs."""
    if kind == 'mid' and len(coefficients) > 5: return polynomial_by_pairs(f, x, x * x, coefficients)
    *rest, total = coefficients
    if isinstance(total, float): total = const(f, x, total)
    for c in reversed(rest):
        total = f.fma(total, x, c)
    return total


def polynomial_by_pairs(f, x, square, coefficients):
    """The same from pairs of terms, by powers of the square: as many operations where the square is wanted anyway, and half as many that wait for each other
    (a processor looks ahead over two or three vectors only)."""
    pairs = [coefficients[i:i + 2] for i in range(0, len(coefficients), 2)]
    return polynomial(f, square, [const(f, x, p[0]) if len(p) == 1 else f.fma(const(f, x, p[1]), x, p[0]) for p in pairs])


def any_lane(f, mask):
    """One i1: is any lane of the mask set?"""
    if mask.width == 1:
        return mask
    packed = f.emit(f'bitcast {mask.type} {mask.name} to i{mask.width}', f'i{mask.width}')
    return f.emit(f'icmp ne i{mask.width} {packed.name}, 0', 'i1')


def power_of_two(f, n, elem):
    """2^n for the integer in the low bits of n (high bits are ignored); n + bias must stay inside the exponent."""
    shift, bias = MANTISSA[elem], BIAS[elem]
    return from_bits(f, (n << shift) + (bias << shift), elem)


def two_powers(f, n, elem):
    """2^n in two exact factors: no overflow before the result does, one rounding into the denormals, and NaN * anything is NaN."""
    half = n >> 1
    return power_of_two(f, n - half, elem), power_of_two(f, half, elem)


def scale(f, p, n):
    """p * 2^n."""
    first, second = two_powers(f, n, p.elem)
    return p * first * second


def scale_above_one(f, q, n):
    """(1 + q) * 2^n; the sum and its first factor are one operation, which rounds as the sum would."""
    first, second = two_powers(f, n, q.elem)
    return f.fma(q, first, first) * second


# ------------------------------------------------------------------------------------------------------- exponentials
def exp_reduce(f, x, kind, low=None):
    """exp(x + low) = (1 + q) * 2^n: q, and an integer whose low bits are n."""
    t = f.fma(x, LOG2E[x.elem][0], ROUND[x.elem])
    n = t - ROUND[x.elem]
    high, rest = LN2[x.elem]
    r = f.fma(n, -high, x)                              # exact
    r = f.fma(n, -rest, r)
    if low is not None:
        r = r + low
    square = r * r
    return f.fma(polynomial_by_pairs(f, r, square, tables.EXP[kind]), square, r), bits(f, t)


def exp(f, x, kind=None, low=None):
    lo, hi = EXP_RANGE[x.elem]
    q, n = exp_reduce(f, at_most(f, at_least(f, x, lo), hi), kind or KIND[x.elem], low)
    return scale_above_one(f, q, n)


def exp_normal(f, x, kind=None):
    """exp where the caller knows the result to be a normal number."""
    q, n = exp_reduce(f, x, kind or KIND[x.elem])
    power = power_of_two(f, n, x.elem)
    return f.fma(q, power, power)


def exp2(f, x, kind=None):
    lo, hi = EXP2_RANGE[x.elem]
    x = at_most(f, at_least(f, x, lo), hi)
    t = x + ROUND[x.elem]
    d = x - (t - ROUND[x.elem])
    high, rest = LN2[x.elem]
    r = f.fma(d, high, d * rest)
    square = r * r
    q = f.fma(polynomial_by_pairs(f, r, square, tables.EXP[kind or KIND[x.elem]]), square, r)
    return scale_above_one(f, q, bits(f, t))


def expm1(f, x, kind=None):
    lo, hi = {'float': (-18.0, 89.0), 'double': (-40.0, 710.0)}[x.elem]        # below: exactly -1
    y = at_most(f, at_least(f, x, lo), hi)
    q, n = exp_reduce(f, y, kind or KIND[x.elem])
    half = power_of_two(f, n - integer(f, x, 1), x.elem)                       # 2^n itself overflows one step too early
    big = f.fma(q, half, half - 0.5) * 2.0
    tiny = absolute(f, x) < (2.0**-25 if x.elem == 'float' else 2.0**-54)      # also keeps -0 and denormals
    return f.select(tiny, x, big)


def sigmoid(f, x):
    """1 / (1 + exp(-x)), from exp(-|x|), so that neither tail overflows."""
    e = exp(f, negate(f, absolute(f, x)))
    total = e + 1.0
    y = f.select(x < 0.0, e, 1.0) / total
    return f.fma(y, (total - 1.0) - e, y)                # what rounding 1 + e added or lost


def tanh(f, x, kind=None):
    kind = kind or KIND[x.elem]
    a = absolute(f, x)
    e = exp_normal(f, at_most(f, a, 10.0 if x.elem == 'float' else 22.0) * 2.0, kind)
    big = f.call('copysign', 1.0 - 2.0 / (e + 1.0), x)
    s = x * x
    small = f.fma(polynomial(f, s, tables.TANH[kind], kind) * s, x, x)
    small = f.select(a < 2.0**-27, x, small)                                   # -0, and no denormal products
    return f.select(a > 0.625, big, f.select(x.eq(x), small, x))


def half_exp(f, a, kind):
    """exp(a) / 2 for a >= 0, which overflows only where cosh does."""
    q, n = exp_reduce(f, at_most(f, a, EXP_RANGE[a.elem][1] + 1.0), kind)
    return scale_above_one(f, q, n - integer(f, a, 1))


def cosh(f, x, kind=None):
    e = half_exp(f, absolute(f, x), kind or KIND[x.elem])
    return e + 0.25 / e


def sinh(f, x, kind=None):
    kind = kind or KIND[x.elem]
    a = absolute(f, x)
    t = at_most(f, a, 1.0)
    s = t * t
    small = f.fma(polynomial(f, s, tables.SINH[kind], kind) * s, t, t)
    e = half_exp(f, a, kind)
    y = f.select(a > 1.0, e - 0.25 / e, small)
    y = f.select(a < 2.0**-28, a, y)
    return f.call('copysign', f.select(x.eq(x), y, x), x)


# --------------------------------------------------------------------------------------------------------- logarithms
def log_split(f, x):
    """x = 2^e * (1 + m) with 1 + m in [sqrt(1/2), sqrt(2)): m, and e as a float. x is positive and finite, or the result is not used."""
    mantissa = MANTISSA[x.elem]
    lift = 2.0 ** (mantissa + 1)
    tiny = x < TINY[x.elem]
    y = f.select(tiny, x * lift, x)
    b = bits(f, y)
    root_half = 0x3f3504f3 if x.elem == 'float' else 0x3fe6a09e667f3bcd
    e = (b - root_half) >> mantissa
    m = from_bits(f, b - (e << mantissa), x.elem) - 1.0
    e = f.convert('sitofp', e, x.elem)
    return m, f.select(tiny, e - (mantissa + 1.0), e)


def log_tail(f, m, kind):
    """log(1 + m) - m."""
    if kind == 'f32':
        z = m * m
        return f.fma(z, -0.5, polynomial(f, m, tables.LOG32[kind], kind) * m * z)
    s = m / (m + 2.0)
    z = s * s
    r = polynomial(f, z, tables.LOG[kind], kind) * z
    h = m * m * 0.5
    return f.fma(s, h + r, negate(f, h))


def log_of(f, x, kind, low=None):
    """log(x) + low for positive finite x; `low` is a small correction to be added before the last rounding."""
    m, e = log_split(f, x)
    high, rest = LN2_SHORT[x.elem]
    r = f.fma(e, rest, log_tail(f, m, kind))
    if low is not None:
        r = r + low
    return f.fma(e, high, r + m)


def log_special(f, x, r):
    """What every logarithm does at 0, below 0, at infinity and NaN."""
    r = f.select(x.eq(INF), x, r)
    r = f.select(x.eq(0.0), -INF, r)
    r = f.select(x < 0.0, NAN, r)
    return f.select(x.eq(x), r, x)


def log(f, x, kind=None):
    return log_special(f, x, log_of(f, x, kind or KIND[x.elem]))


def log_scaled(f, x, factor, exponent_factor, kind):
    """log(x) in another base: (e ln 2 + log(1+m)) * factor, where e * ln 2 * factor = e * (exponent_factor: high, low)."""
    m, e = log_split(f, x)
    tail = log_tail(f, m, kind)
    h = m * factor[0]
    low = f.fma(m, factor[0], negate(f, h))             # what rounding h lost
    low = f.fma(m, factor[1], low)
    low = f.fma(tail, factor[0], low)
    low = f.fma(e, exponent_factor[1], low)
    t = f.fma(e, exponent_factor[0], h)                 # |e * high| >= 0.3 > |h| unless e is 0: the lost part is exact below
    lost = f.fma(e, exponent_factor[0], negate(f, t)) + h
    return log_special(f, x, t + (lost + low))


def log2(f, x, kind=None):
    return log_scaled(f, x, LOG2E[x.elem], (1.0, 0.0), kind or KIND[x.elem])


def log10(f, x, kind=None):
    return log_scaled(f, x, LOG10E[x.elem], LOG10_2[x.elem], kind or KIND[x.elem])


def log1p(f, x, kind=None):
    kind = kind or KIND[x.elem]
    u = x + 1.0
    lost = f.select(x > 1.0, 1.0 - (u - x), x - (u - 1.0))       # what rounding 1 + x threw away
    r = log_special(f, u, log_of(f, u, kind, lost / u))
    return f.select(u.eq(1.0), x, r)


def asinh(f, x, kind=None):
    kind = kind or KIND[x.elem]
    a = absolute(f, x)
    big = a > 2.0**28
    s = at_most(f, a, 2.0**28)
    s2 = s * s
    inner = s + s2 / (f.call('sqrt', s2 + 1.0) + 1.0)
    # beyond 2^28 asinh is log(a) + log(2): both through one logarithm
    y = log1p_or_log(f, inner, a, big, kind)
    y = f.select(a < 2.0**-28, a, y)
    return f.call('copysign', y, x)


def acosh(f, x, kind=None):
    kind = kind or KIND[x.elem]
    big = x > 2.0**28
    t = at_most(f, x, 2.0**28) - 1.0
    inner = t + f.call('sqrt', f.fma(t, t, t * 2.0))
    return f.select(x < 1.0, NAN, log1p_or_log(f, inner, x, big, kind))


def log1p_or_log(f, inner, a, big, kind):
    """log(1 + inner), or log(a) + log(2) where big."""
    u = inner + 1.0
    lost = f.select(inner > 1.0, 1.0 - (u - inner), inner - (u - 1.0))
    y = log_of(f, f.select(big, a, u), kind, f.select(big, 0.0, lost / u))
    y = f.select(big, y + LN2['double'][0], y)
    y = f.select(u.eq(1.0), inner, y)
    y = f.select(a.eq(INF), a, y)
    return f.select(a.eq(a), y, a)


def atanh(f, x, kind=None):
    kind = kind or KIND[x.elem]
    a = absolute(f, x)
    if kind == 'mid':                                        # double has bits to spare for the plain formula, except near 0
        ratio = (a + 1.0) / (1.0 - a)
        y = log_special(f, ratio, log_of(f, ratio, kind)) * 0.5
        return f.call('copysign', f.select(a < 2.0**-9, f.fma(a * a * a, 1 / 3, a), y), x)
    y = log1p(f, (a + a) / (1.0 - a), kind) * 0.5
    y = f.select(a < 2.0**-28, a, y)
    return f.call('copysign', y, x)
