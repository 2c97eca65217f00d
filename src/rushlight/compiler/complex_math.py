"""Functions of a complex variable, as algebra over the real leaves: each body takes the parts of its operands and gives those of its result.

`expand(name, operands)` is what `decompose` puts in the place of a complex node, after differentiation: the gradient of `exp` is that of the
holomorphic function, not of these formulas. No emitter has a body of its own for any of them.

Parts of complex64 are computed in double and rounded once, unless NATIVE names the function: squares of floats are exact there, and nothing
overflows before the result does. For complex128 the formulas avoid cancellation and overflow themselves (W. Kahan, "Branch Cuts for Complex
Elementary Functions", 1987). Infinities, NaN and signed zeros give what C99's Annex G says, which is also what torch gives.
"""
import math

from . import trace as T
from .promotion import complex_dtype, real_dtype

INF, NAN, PI = math.inf, math.nan, math.pi
LN2, LN2_REST = 0.6931471805599453, 2.3190468138462996e-17
FEW = 4096                                                  # products of elements: below, no matrix product is worth its template
NATIVE = {'exp', 'sin', 'cos', 'sinh', 'cosh'}      # no cancellation: as good in float
FAR = {'f32': (80.0, 20.0), 'f64': (700.0, 20.0)}           # beyond the first, exp is taken of x less the second, and the rest multiplied in later


def expand(name, operands):
    """The value of a complex primitive, from its operands (Syms)."""
    dtype = operands[0].dtype
    part = real_dtype(dtype)
    work = part if name in NATIVE else 'f64'
    pairs = [(T.cast(T.prim('real', x), work), T.cast(T.prim('imag', x), work)) for x in operands]
    re, im = BODY[name](*[v for pair in pairs for v in pair])
    out = T.prim('make_complex', T.cast(re, part), T.cast(im, part))
    assert out.dtype == complex_dtype(part)
    return out


def product(a, b):
    """A matrix product as one of real matrices: a's memory is [M, 2K] real numbers, and b becomes [2K, 2N], each row beside i times itself, so
    that the result's memory is [M, N] complex numbers. With a single row or column, or few elements, the copy of b would cost more than the
    product: `fuse` then sums the products of the elements."""
    *batch, m, k = a.shape
    n = b.shape[-1]
    if any(isinstance(d, int) and d == 1 for d in (m, k, n)) or m * k * n <= FEW: return T.matmul(a, b)
    b = T.reshape(b, (*batch, k, 1, n))
    turned_b = T.prim('make_complex', -T.prim('imag', b), T.prim('real', b))
    right = T.reshape(T.as_real(T.cat([b, turned_b], len(batch) + 1)), (*batch, 2 * k, 2 * n))
    left = T.reshape(T.as_real(a), (*batch, m, 2 * k))
    return T.as_complex(T.reshape(T.matmul(left, right), (*batch, m, n, 2)))


# --------------------------------------------------------------------------------------------------------------- pieces
def number(like, value): return T.const(value, like.dtype)
def fabs(x): return T.prim('abs', x)
def is_inf(x): return T.prim('eq', fabs(x), number(x, INF))
def is_nan(x): return T.prim('ne', x, x)
def is_zero(x): return T.prim('eq', x, number(x, 0))
def finite(x): return T.prim('lt', fabs(x), number(x, INF))
def signed(size, sign): return T.prim('copysign', size, sign)
def where(c, a, b): return T.where(c, a, b)


def square_error(x):
    """x*x, and what rounding it lost."""
    s = x * x
    return s, T.prim('fma', x, x, -s)


def grown(x):
    """exp(x) in two factors, so that a sine between them may still bring the result into range."""
    limit, step = FAR[x.dtype]
    far = T.prim('lt', number(x, limit), x)
    return T.prim('exp', where(far, x - step, x)), where(far, number(x, math.exp(step)), number(x, 1))


def hyperbolic(x):
    """cosh(x), sinh(x) and a factor of both, again in two factors."""
    limit, step = FAR[x.dtype]
    far = T.prim('lt', number(x, limit), fabs(x))
    big = T.prim('exp', fabs(x) - step)
    near = where(far, 0, x)
    return (where(far, big, T.prim('cosh', near)), where(far, signed(big, x), T.prim('sinh', near)),
            where(far, number(x, math.exp(step) / 2), number(x, 1)))


def wave(x, y):
    """cos(y) and sin(y), where the cosine that multiplies an infinity has a sign even if y is not finite."""
    cosine = where(~finite(y) & is_inf(x), 1, T.prim('cos', y))
    return cosine, T.prim('sin', y)


# ---------------------------------------------------------------------------------------------------------- exponentials
def exp(x, y):
    e, rest = grown(x)
    cosine, sine = wave(x, y)
    vanished = T.prim('eq', x, number(x, -INF)) & ~finite(y)
    return where(vanished, 0, e * cosine * rest), where(is_zero(y), y, where(vanished, 0, e * sine * rest))


def exp2(x, y):
    far = T.prim('lt', number(x, 1000), x)
    size, rest = T.prim('exp2', where(far, x - 60, x)), where(far, number(x, 2.0 ** 60), number(x, 1))
    angle = y * LN2
    lost = T.prim('fma', y, number(y, LN2), -angle) + y * LN2_REST            # of y log 2, which a far turn would show
    lost = where(finite(y), lost, 0)
    cosine, sine = wave(x, angle)
    cosine, sine = cosine - lost * sine, sine + lost * cosine
    vanished = T.prim('eq', x, number(x, -INF)) & ~finite(y)
    infinite = is_inf(x) & ~finite(y)
    return (where(vanished, 0, where(infinite, size, size * cosine * rest)),
            where(is_zero(y), y, where(vanished, 0, size * sine * rest)))


def expm1(x, y):
    half = T.prim('sin', y * 0.5)
    return T.prim('expm1', x) * T.prim('cos', y) - 2 * half * half, T.prim('exp', x) * T.prim('sin', y)


def sinh(x, y):
    c, s, rest = hyperbolic(x)
    cosine, sine = wave(x, y)
    return where(is_zero(x) & ~finite(y), x, s * cosine * rest), where(is_zero(y), y, c * sine * rest)


def cosh(x, y):
    c, s, rest = hyperbolic(x)
    cosine, sine = wave(x, y)
    flat = signed(number(x, 0), x) * signed(number(y, 1), y)
    return c * cosine * rest, where(is_zero(x) | is_zero(y), flat, s * sine * rest)


def tanh(x, y):
    far = ~T.prim('lt', fabs(x), number(x, 22))
    near = where(far, 0, x)
    t = T.prim('tan', y)
    beta, s = t * t + 1, T.prim('sinh', near)
    below = beta * (s * s) + 1
    re = beta * T.prim('sqrt', s * s + 1) * s / below
    tail = 4 * (T.prim('sin', y) * T.prim('cos', y)) * T.prim('exp', -2 * fabs(x))
    im = where(far, where(is_inf(x) & ~finite(y), 0, tail), t / below)
    re = where(far, where(is_nan(x), x, where(is_inf(x) | finite(y), signed(number(x, 1), x), y * 0)), re)
    return where(is_zero(x), x, re), where(is_zero(y), y, im)


def sigmoid(x, y):
    """1 / (1 + exp(-z)), from exp(-|x|), so that neither tail overflows."""
    left = T.prim('lt', x, number(x, 0))
    e = T.prim('exp', -fabs(x))
    gone = is_inf(x) & ~finite(y)
    c, s = (where(gone, 0, e * T.prim(f, y)) for f in ('cos', 'sin'))        # exp of z or -z, whichever shrinks: (c, s or -s)
    s = where(left, s, -s)
    below = (1 + c) * (1 + c) + s * s
    # left: e / (1 + e); right: 1 / (1 + e)
    re = where(left, c * (1 + c) + s * s, 1 + c) / below
    im = where(left, s, -s) / below
    return re, im


# ------------------------------------------------------------------------------------------------------------ logarithms
def log_size(x, y):
    """log of sqrt(x*x + y*y), exact where that is near 1."""
    a, b = fabs(x), fabs(y)
    big, small = where(T.prim('lt', a, b), b, a), where(T.prim('lt', a, b), a, b)
    huge, tiny = T.prim('lt', number(x, 2.0 ** 1000), big), T.prim('lt', big, number(x, 2.0 ** -1000))
    scale = where(huge, 2.0 ** -60, where(tiny, 2.0 ** 60, number(x, 1)))
    plain = T.prim('log', T.prim('hypot', x * scale, y * scale)) - T.prim('log', scale)
    (p, p_lost), (q, q_lost) = square_error(big), square_error(small)
    excess = ((p - 1) + q) + (p_lost + q_lost)
    return where(T.prim('lt', number(x, 0.5), p) & T.prim('lt', p + q, number(x, 3)), T.prim('log1p', excess) * 0.5, plain)


def log(x, y): return log_size(x, y), T.prim('atan2', y, x)


def log2(x, y):
    re, im = log(x, y)
    return re * (1 / math.log(2)), im * (1 / math.log(2))


def log10(x, y):
    re, im = log(x, y)
    return re * (1 / math.log(10)), im * (1 / math.log(10))


def log1p(x, y):
    (p, p_lost), (q, q_lost) = square_error(x), square_error(y)
    twice = x * 2
    # twice + p + q, larger ones first, with what each sum loses
    s1 = twice + q
    part = s1 - twice
    lost = (twice - (s1 - part)) + (q - part)
    excess = (s1 + p) + (lost + (p_lost + q_lost))
    near = T.prim('lt', fabs(excess), number(x, 0.5))
    re = where(near, T.prim('log1p', where(near, excess, 0)) * 0.5, log_size(x + 1, y))
    return re, T.prim('atan2', y, x + 1)


# ----------------------------------------------------------------------------------------------------------------- powers
def sqrt(x, y):
    a, b = fabs(x), fabs(y)
    big = where(T.prim('lt', a, b), b, a)
    huge, tiny = T.prim('lt', number(x, 2.0 ** 1000), big), T.prim('lt', big, number(x, 2.0 ** -960))
    scale = where(huge, 2.0 ** -4, where(tiny, 2.0 ** 108, number(x, 1)))    # even powers of two: their roots are exact
    back = where(huge, 2.0 ** 2, where(tiny, 2.0 ** -54, number(x, 1)))
    p, q = a * scale, b * scale
    root = T.prim('sqrt', (p + T.prim('hypot', p, q)) * 0.5)
    zero = is_zero(root)
    other = where(zero, 0, q / (where(zero, 1, root) * 2)) * back
    root = root * back
    right = ~T.prim('lt', x, number(x, 0))
    re, im = where(right, root, other), signed(where(right, other, root), y)
    return where(is_inf(y), INF, re), where(is_inf(y), y, im)


def power(x, y, u, v):
    """exp(w log z): 1 where w is 0, and 0 to what has a positive real part is 0. First and second powers are exact, as far as products are."""
    length, angle = log(x, y)
    # 0 to a real power needs no angle: its products with the infinite logarithm would be NaN
    re = u * length - where(is_zero(v), 0, v * angle)
    im = where(is_zero(v), 0, v * length) + u * angle
    re, im = exp(re, im)
    nothing, none = is_zero(x) & is_zero(y), is_zero(u) & is_zero(v)
    zero = nothing & T.prim('lt', number(u, 0), u)
    lost = nothing & ~T.prim('lt', number(u, 0), u)
    re = where(none, 1, where(zero, 0, where(lost, where(T.prim('lt', u, number(u, 0)), INF, NAN), re)))
    im = where(none | zero, 0, where(lost, NAN, im))
    first, second = is_zero(v) & T.prim('eq', u, number(u, 1)), is_zero(v) & T.prim('eq', u, number(u, 2))
    return where(first, x, where(second, x * x - y * y, re)), where(first, y, where(second, x * y + y * x, im))


# ---------------------------------------------------------------------------------------------------------------- inverses
def roots(x, y):
    """sqrt(1 - z) and sqrt(1 + z)."""
    return sqrt(1 - x, -y), sqrt(1 + x, y)


def asin(x, y):
    (ar, ai), (br, bi) = roots(x, y)
    far = is_inf(x) | is_inf(y)
    re = T.prim('atan2', x, where(far, fabs(y), ar * br - ai * bi))
    im = T.prim('asinh', ar * bi - ai * br)
    return where(is_zero(x), x, re), where(far, signed(number(y, INF), y), im)


def acos(x, y):
    (ar, ai), (br, bi) = roots(x, y)
    far = is_inf(x) | is_inf(y)
    re = where(far, T.prim('atan2', fabs(y), x), 2 * T.prim('atan2', ar, br))
    im = T.prim('asinh', br * ai - bi * ar)
    return where(is_zero(x), PI / 2, re), where(far, signed(number(y, INF), -y), im)


def asinh(x, y):
    re, im = asin(-y, x)
    return im, -re


def acosh(x, y):
    re, im = acos(x, y)
    return fabs(im), signed(re, y)


def atanh(x, y):
    a = fabs(x)
    h = T.prim('hypot', 1 - a, y)
    close = T.prim('lt', h, number(x, 1e-100))
    ratio = a / where(close, 1, h) / where(close, 1, h) * 4
    re = where(close, (math.log(2) - T.prim('log', h)) * 0.5, T.prim('log1p', ratio) * 0.25)
    q, q_lost = square_error(y)
    p, p_lost = square_error(a)
    far = is_inf(x) | is_inf(y)
    beside = T.prim('lt', fabs(p) + q, number(x, 4))                         # near the circle the difference must not cancel
    below = where(beside, ((1 - where(T.prim('lt', p, q), q, p)) - where(T.prim('lt', p, q), p, q)) - (p_lost + q_lost), (1 - a) * (1 + a) - q)
    im = T.prim('atan2', 2 * y, below) * 0.5
    re = where(far, 0, re)
    im = where(far, where(is_nan(y), y, signed(number(y, PI / 2), y)), im)
    return where(is_zero(x), x, signed(re, x)), im


def turned(f):
    """g(z) = -i f(iz): sin from sinh, tan from tanh, atan from atanh."""
    def g(x, y):
        re, im = f(-y, x)
        return im, -re
    return g


BODY = {
    'exp': exp, 'exp2': exp2, 'expm1': expm1, 'log': log, 'log2': log2, 'log10': log10, 'log1p': log1p, 'sqrt': sqrt, 'pow': power,
    'sin': turned(sinh), 'cos': lambda x, y: cosh(-y, x), 'tan': turned(tanh), 'asin': asin, 'acos': acos, 'atan': turned(atanh),
    'sinh': sinh, 'cosh': cosh, 'tanh': tanh, 'asinh': asinh, 'acosh': acosh, 'atanh': atanh, 'sigmoid': sigmoid,
}
