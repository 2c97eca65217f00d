"""The error functions, log-gamma and digamma: bodies in IR, any width. Kinds as in mathlib_exp.py."""
from rushlight.compiler import mathlib_tables as tables
from rushlight.compiler.emit.ir import Var
from rushlight.compiler.mathlib_arith import both
from rushlight.compiler.mathlib_exp import (
    INF,
    KIND,
    NAN,
    ROUND,
    absolute,
    any_lane,
    at_least,
    at_most,
    bits,
    const,
    exp,
    exp_normal,
    exp_reduce,
    log_of,
    log_tail,
    negate,
    polynomial,
    power_of_two,
    scale,
)
from rushlight.compiler.mathlib_trig import cosine, sine

TWO_OVER_SQRT_PI = 1.1283791670955126
LOG2_E = 1.4426950408889634


# ---------------------------------------------------------------------------------------------------- error functions
def erf(f, x, kind=None):
    kind = kind or KIND[x.elem]
    a, s = absolute(f, x), x * x
    near = f.fma(polynomial(f, s, tables.ERF[kind], kind), x, x)
    if kind == 'f32':                            # 1 - exp(polynomial): the tail is below 2^-24 of the result from 4 on
        edge = 0.927734375
        t = at_most(f, a, 4.0)
        power = polynomial(f, t, [c * LOG2_E for c in tables.ERFTAIL[kind]]) * t
        whole = power + ROUND[x.elem]
        d = power - (whole - ROUND[x.elem])
        tail = f.fma(polynomial(f, d, tables.EXP2SHORT[kind], kind), d, 1.0)         # short: its error counts less than a quarter
        far = f.fma(negate(f, tail), power_of_two(f, bits(f, whole), x.elem), 1.0)
    else:
        edge = 1.0
        far = 1.0 - erfc_far(f, at_most(f, a, 6.5), kind)
    return f.select(a > edge, f.call('copysign', far, x), near)        # NaN is not above the edge, and near is NaN then


def erfc_far(f, a, kind):
    """erfc(a) for 0.45 <= a <= 28 (mid: 0 <= a <= 11) as exp(-a^2) * polynomial((a-3)/(a+3)) / (1+2a); the rounding of a^2 goes into the exponential."""
    plus, twice, square = a + 3.0, f.fma(a, 2.0, 1.0), a * a
    if kind == 'mid':                            # a float's square is an exact double, and there are bits to spare for one division instead of two
        inverse = 1.0 / (plus * twice)
        return exp_normal(f, negate(f, square), kind) * polynomial(f, (a - 3.0) * twice * inverse, tables.ERFC[kind], kind) * (plus * inverse)
    p = polynomial(f, (a - 3.0) / plus, tables.ERFC[kind], kind) / twice
    lost = f.fma(a, a, negate(f, square))
    q, n = exp_reduce(f, negate(f, square), kind, negate(f, lost))
    return scale(f, f.fma(p, q, p), n)           # p (1 + q) with one rounding less


def erfc(f, x, kind=None):
    kind = kind or KIND[x.elem]
    a = absolute(f, x)
    low, high = (0.0, 11.0) if kind == 'mid' else (0.45, 28.0)               # beyond: 0
    far = erfc_far(f, at_most(f, at_least(f, a, low) if low else a, high), kind)
    far = f.select(x < 0.0, 2.0 - far, far)
    if kind == 'mid': return far                                             # rounded to a float it is right around 0 too
    near = 1.0 - f.fma(polynomial(f, x * x, tables.ERF[kind], kind), x, x)
    return f.select(a < 0.46875, near, far)


def erfinv(f, x, kind=None):
    """A polynomial in -log(1 - x^2) or its root; for double one Halley step on top of it."""
    kind = kind or KIND[x.elem]
    a = absolute(f, x)
    w = negate(f, log_of(f, (1.0 - a) * (a + 1.0), 'mid'))
    y = Var(f, polynomial(f, w, tables.ERFINVC['mid'], kind))
    far = w >= 5.0
    with f.when(any_lane(f, far)):               # 1 - |x| below 0.0034: most vectors have no such lane
        y.set(f.select(far, polynomial(f, f.call('sqrt', at_least(f, w, 4.0)), tables.ERFINVT[kind], kind), y.get()))
    y = y.get() * a
    if kind == 'f64':
        s = y * y
        inner = f.fma(polynomial(f, s, tables.ERF['f64']), y, y) - a
        outer = (1.0 - a) - erfc_far(f, at_most(f, at_least(f, y, 0.45), 28.0), 'f64')
        u = f.select(a < 0.8, inner, outer)               # y is below 0.907 there: inside the polynomial's range
        u = u / (exp(f, negate(f, s), 'f64') * TWO_OVER_SQRT_PI)
        y = y - u / f.fma(y, u, 1.0)
    y = f.select(a < 1e-160, a * 0.886226925452758, y)            # where the squares underflow
    y = f.select(a < 1.0, y, f.select(a.eq(1.0), INF, const(f, x, NAN)))
    return f.call('copysign', y, x)


# ---------------------------------------------------------------------------------------------------- gamma functions
HALF_LOG_2PI = 0.9189385332046728
# Stirling's series of log-gamma in 1/x^2, times 1/x; and of digamma, times 1/x^2
STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)
DIGAMMA_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160)
SQRT_HALF, SQRT_TWO = 0.7071067811865476, 1.4142135623730951
STEPS = 10                                       # so many steps of the recurrence at most; beyond, Stirling's series is exact enough


def sine_pi(f, a):
    """sin(pi a) and cos(pi a) for a >= 0, up to the common sign (-1)^round(a)."""
    r = a - f.call('roundeven', a)               # exact, |r| <= 1/2
    b = absolute(f, r)
    turned = b > 0.25
    angle = f.select(turned, 0.5 - b, b)
    high = angle * 3.141592653589793
    low = f.fma(angle, 3.141592653589793, negate(f, high)) + angle * 1.2246467991473532e-16
    s, c = sine(f, high, low, 'f64'), cosine(f, high, low, 'f64')
    return f.call('copysign', f.select(turned, c, s), r), f.select(turned, s, c)


def lgamma(f, x, kind=None):
    """log |Gamma(x)|. Around 1 and 2, where it vanishes, a polynomial times the distance; up to 10 by the recurrence, Stirling's
    series beyond, reflection below 0 (where near the zeros of the function the error is absolute, about 1e-15)."""
    a = absolute(f, x)
    # lgamma(2 + y) = y P(y) for sqrt(2) - 2 <= y <= 1/2; from there down (a < sqrt 2) or up (a > 2.5) by the logarithm of one product
    product = const(f, x, 1.0)
    y = at_most(f, a, STEPS + 3.0)
    for _ in range(STEPS):
        over = y >= 2.5
        y = f.select(over, y - 1.0, y)
        product = f.select(over, product * y, product)
    below_half, below_one, below = a < 0.5, a < SQRT_HALF, a < SQRT_TWO
    argument = f.select(below_half, f.fma(a, a, a), f.select(below, a, f.select(a > STEPS + 2.5, a, product)))
    logarithm = log_of(f, argument, 'f64')
    y = f.select(below_half, a, f.select(below, a - 1.0, y - 2.0))
    core = polynomial(f, y, tables.LGAMMA['f64'])
    # around 1 lgamma(a) = y P(y) - log(1 + y): the terms in y nearly cancel, so they are taken together
    around_one = f.fma(core - 1.0, y, negate(f, log_tail(f, y, 'f64')))
    near = f.fma(core, y, f.select(below_one, negate(f, logarithm), f.select(a > 2.0, logarithm, 0.0)))
    near = f.select(both(f, a >= SQRT_HALF, below), around_one, near) + 0.0          # not -0 at 1 and 2
    far = stirling(f, a, logarithm)
    r = f.select(a > STEPS + 2.5, far, near)
    r = f.select(a.eq(INF), INF, r)
    # reflection: |Gamma(-a)| = pi / (a sin(pi a) Gamma(a)). Below 2^-60 the product underflows and lgamma is -log a.
    s, _ = sine_pi(f, a)
    mirrored = negate(f, log_of(f, absolute(f, s) * a * 0.3183098861837907, 'f64')) - r
    whole = f.call('trunc', x).eq(x)
    mirrored = f.select(whole, INF, mirrored)
    tiny = a < 2.0**-60
    r = f.select(x < 0.0, f.select(tiny, r, mirrored), r)
    r = f.select(a.eq(0.0), INF, r)
    return f.select(x.eq(x), r, x)


def stirling(f, a, logarithm):
    inverse = 1.0 / a
    series = polynomial(f, inverse * inverse, STIRLING) * inverse + HALF_LOG_2PI
    half = a - 0.5
    main = half * (logarithm - 1.0)
    lost = f.fma(half, logarithm - 1.0, negate(f, main))
    return f.select(main.eq(INF), INF, main + (lost + (series - 0.5)))


DIGAMMA_ROOT = (1.4616321449683622, 9.549995429965697e-17)


def digamma(f, x, kind=None):
    """On [1, 2] a polynomial times the distance to the root; the recurrence up to 10; the asymptotic series beyond; reflection below 0."""
    negative = x < 0.0
    a = f.select(negative, 1.0 - x, x)
    t = at_most(f, a, STEPS + 3.0)
    y = t
    numerator, denominator = const(f, x, 0.0), const(f, x, 1.0)           # the sum of 1/(a-1), 1/(a-2), ... as one fraction
    for _ in range(STEPS + 1):
        over = y > 2.0
        y = f.select(over, y - 1.0, y)
        numerator = f.select(over, f.fma(numerator, y, denominator), numerator)
        denominator = f.select(over, denominator * y, denominator)
    below = a < 1.0
    y = f.select(below, a + 1.0, y)
    numerator = f.select(below, -1.0, numerator)
    denominator = f.select(below, a, denominator)
    distance = f.select(below, ((a - DIGAMMA_ROOT[0]) + 1.0) - DIGAMMA_ROOT[1], (y - DIGAMMA_ROOT[0]) - DIGAMMA_ROOT[1])
    near = distance * polynomial(f, y - 1.5, tables.DIGAMMA['f64']) + numerator / denominator
    inverse = 1.0 / a
    square = inverse * inverse
    far = log_of(f, a, 'f64') - f.fma(polynomial(f, square, DIGAMMA_SERIES), square, inverse * 0.5)
    far = f.select(a.eq(INF), INF, far)
    r = f.select(a > STEPS + 2.0, far, near)
    # digamma(x) = digamma(1 - x) - pi / tan(pi x)
    s, c = sine_pi(f, absolute(f, x))
    mirrored = r + c / s * 3.141592653589793
    mirrored = f.select(f.call('trunc', x).eq(x), NAN, mirrored)
    r = f.select(negative, mirrored, r)
    r = f.select(x.eq(0.0), f.call('copysign', const(f, x, INF), negate(f, x)), r)
    r = f.select(x.eq(-INF), NAN, r)
    return f.select(x.eq(x), r, x)
