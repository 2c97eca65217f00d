"""pow, fmod, remainder and hypot: bodies in IR, any width. Kinds as in mathlib_exp.py."""
from rushlight.compiler import mathlib_tables as tables
from rushlight.compiler.emit.ir import Var
from rushlight.compiler.mathlib_exp import (
    INF,
    KIND,
    LN2_SHORT,
    NAN,
    absolute,
    any_lane,
    at_least,
    at_most,
    bits,
    const,
    exp,
    integer,
    log_of,
    log_split,
    negate,
    polynomial,
    power_of_two,
)


def both(f, a, b):
    return f.emit(f'and {a.type} {a.name}, {b.name}', 'i1', a.width)


def either(f, a, b):
    return f.emit(f'or {a.type} {a.name}, {b.name}', 'i1', a.width)


def two_sum(f, a, b):
    """a + b as the rounded sum and what it lost, for |a| >= |b| (or a == 0)."""
    s = a + b
    return s, b - (s - a)


def log_pair(f, x):
    """log(x) as high + low with about 68 bits, for positive finite double x."""
    m, e = log_split(f, x)
    d = m + 2.0                                  # m is exact; its sum is not
    d_low = (2.0 - d) + m
    s = m / d
    s_low = f.fma(negate(f, s), d, m) - s * d_low
    s_low = s_low / d
    z = s * s
    # log(1+m) = 2s + 2/3 s^3 + s^5 R(z): the first two terms with their rounding errors
    third, third_low = 0.6666666666666666, 3.700743415417188e-17
    z_low = f.fma(s, s, negate(f, z)) + s * s_low * 2.0
    c = z * s
    c_low = f.fma(z, s, negate(f, c)) + f.fma(z_low, s, z * s_low)
    t = c * third
    t_low = f.fma(c, third, negate(f, t)) + f.fma(c_low, third, c * third_low)
    t_low = f.fma(polynomial(f, z, tables.LOGDD['f64']), z * c, t_low)
    high, low = two_sum(f, s * 2.0, t)
    low = low + (t_low + s_low * 2.0)
    e_high, e_low = LN2_SHORT['double']
    base = e * e_high                            # exact
    total, lost = two_sum(f, base, high)
    lost = lost + (low + e * e_low)
    return two_sum(f, total, lost)


def pow(f, a, b, kind=None):
    kind = kind or KIND[a.elem]
    magnitude = absolute(f, a)
    finite = at_most(f, magnitude, 1.7976931348623157e308)
    finite = f.select(magnitude.eq(0.0), 1.0, finite)
    if kind == 'f64':
        high, low = log_pair(f, finite)
        bounded = at_most(f, at_least(f, b, -1e300), 1e300)            # b * log(a) must not become inf - inf
        p = bounded * high
        p_low = f.fma(bounded, high, negate(f, p)) + bounded * low
        p_low = f.select(absolute(f, p) < 800.0, p_low, 0.0)           # beyond, the result is 0 or inf anyway
        r = exp(f, p, kind, low=p_low)
    else:
        p = at_most(f, at_least(f, b, -1e300), 1e300) * log_of(f, finite, kind)
        r = exp(f, p, kind)
    # the ends: |a| is 0 or inf, b is inf. |a| == 1 has log 0, so b = inf gives exp(0) already.
    zero, infinite = magnitude.eq(0.0), magnitude.eq(INF)
    grows = f.select(b > 0.0, infinite, f.select(b < 0.0, zero, f.const(0, 'i1', a.width)))
    shrinks = f.select(b > 0.0, zero, f.select(b < 0.0, infinite, f.const(0, 'i1', a.width)))
    r = f.select(grows, INF, f.select(shrinks, 0.0, r))
    whole = f.call('trunc', b).eq(b)
    half = b * 0.5
    odd = both(f, whole, f.call('trunc', half).ne(half))
    negative = bits(f, a) < 0
    r = f.select(both(f, negative, odd), negate(f, r), r)
    undefined = both(f, both(f, a < 0.0, a.ne(-INF)), b.compare('', 'une', f.call('trunc', b)))
    r = f.select(undefined, NAN, r)
    r = f.select(either(f, a.compare('', 'uno', a), b.compare('', 'uno', b)), NAN, r)
    return f.select(either(f, a.eq(1.0), b.eq(0.0)), 1.0, r)


def fmod(f, a, b):
    """The exact remainder with a's sign. While the quotient is below 2^22 (2^51) its integer part is known up to one, the fused
    subtraction is exact, and one correction is enough; larger ones are first brought down by `fmod_far`."""
    far = FMOD_FAR[a.elem]
    d = absolute(f, b)
    valid = both(f, absolute(f, a) < INF, d > 0.0)                # false for NaN; d = inf is fine
    r = Var(f, f.select(valid, absolute(f, a), 0.0))
    large = both(f, (r.get() / d) >= far, valid)
    with f.when(any_lane(f, large)):
        if a.elem == 'double':
            fmod_far(f, r, d)
        else:                                                     # denormal floats are normal doubles, and the result is a float again
            wide = Var(f, f.convert('fpext', r.get(), 'double'))
            fmod_far(f, wide, f.convert('fpext', d, 'double'))
            r.set(f.convert('fptrunc', wide.get(), 'float'))
    now = r.get()
    rest = f.fma(negate(f, f.call('trunc', now / d)), d, now)
    rest = f.select(rest < 0.0, rest + d, rest)                   # the division rounded up to the next integer
    rest = f.select(now < d, now, rest)                           # also where d is infinite
    return f.select(valid, f.call('copysign', rest, a), NAN)


FMOD_FAR = {'float': 2.0**22, 'double': 2.0**51}


def fmod_far(f, r, d):
    """Subtract multiples of d from r (both double, r >= 0) until r < d: each round takes off a multiple of d 2^k
    with a quotient below 2^52."""
    tiny = d < 2.0**-1000
    exponent = (bits(f, f.select(tiny, d * 2.0**60, d)) >> 52) - f.select(tiny, integer(f, d, 60), integer(f, d, 0))
    with f.loop_while(lambda: any_lane(f, r.get() >= d)):
        now = r.get()
        live = now >= d
        shift = (bits(f, now) >> 52) - exponent - integer(f, d, 51)
        shift = f.select(both(f, live, shift > 0), shift, integer(f, d, 0))
        third = shift // 3                                        # 2^shift may be beyond the range of a double by itself
        scaled = d * power_of_two(f, third, 'double') * power_of_two(f, third, 'double') * power_of_two(f, shift - third * 2, 'double')
        rest = f.fma(negate(f, f.call('trunc', now / scaled)), scaled, now)
        rest = f.select(rest < 0.0, rest + scaled, rest)
        r.set(f.select(live, rest, now))


def remainder(f, a, b):
    """fmod moved to b's sign; the move rounds, in the operands' own precision."""
    m = fmod(f, a, b)
    move = both(f, m.compare('', 'une', 0.0), (m < 0.0).ne(b < 0.0))
    return f.select(move, m + b, m)


def hypot(f, a, b, kind=None):
    x, y = absolute(f, a), absolute(f, b)
    infinite = either(f, x.eq(INF), y.eq(INF))
    if kind == 'mid':                                             # floats' squares are exact doubles
        return f.select(infinite, INF, f.call('sqrt', f.fma(x, x, y * y)))
    swap = x < y
    big, small = f.select(swap, y, x), f.select(swap, x, y)
    # scaled by powers of two so that the squares neither overflow nor vanish
    up = f.select(big > 1e150, 2.0**-600, f.select(big < 1e-150, 2.0**600, const(f, a, 1.0)))
    down = f.select(big > 1e150, 2.0**600, f.select(big < 1e-150, 2.0**-600, const(f, a, 1.0)))
    p, q = big * up, small * up
    square = p * p
    lost = f.fma(p, p, negate(f, square))
    total = f.fma(q, q, square)
    lost = lost + f.fma(q, q, square - total)
    h = f.call('sqrt', total)
    h = f.select(h > 0.0, h + (f.fma(negate(f, h), h, total) + lost) / (h + h), h)
    r = h * down
    nan = either(f, x.compare('', 'uno', x), y.compare('', 'uno', y))
    return f.select(infinite, INF, f.select(nan, NAN, r))
