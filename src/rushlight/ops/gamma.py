"""The gamma family beyond lgamma and digamma: the Hurwitz zeta function, polygamma, the incomplete gamma functions, the multivariate log-gamma.
In double throughout; series and continued fractions are scalar loops (compiler/region.py)."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..compiler.primitives import _trigamma
from ..registry import op
from ..samples import Sample, _draw, unary
from . import special_tables as tables
from .approximation import (
    INF,
    NAN,
    absolute,
    at_least,
    at_most,
    erfc,
    exp,
    floor,
    is_nan,
    log,
    number,
    polynomial,
    sqrt,
    wide,
)
from .common import no_derivative, numbered

EPSILON = 2.0 ** -53
# B(2j) / (2j)!: the Bernoulli numbers of the Euler-Maclaurin formula
EULER_MACLAURIN = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600, -3617 / 10670622842880000,
                   43867 / 5109094217170944000, -174611 / 802857662698291200000)


def power(a, b, kind):
    """a ** b for a > 0. For float results by the plain logarithm: what rounding costs the exponent is far below them, and the code is a quarter as long."""
    return T.prim("pow", a, b) if kind == "f64" else exp(log(a) * b)


# ----------------------------------------------------------------------------------------------------------------- zeta
def hurwitz(s, q, kind):
    """The sum of (q + k)^-s over k >= 0, for s > 1 and q > 0: terms one by one until q + k is beyond s + 8, the rest by the Euler-Maclaurin formula. Where
    the terms become negligible before that, there is no rest."""
    first = power(q, -s, kind)

    def unfinished(total, term, w, s):
        return (w <= s + 8.0) & (term > total * EPSILON)

    def add_term(total, term, w, s):
        term = power(w, -s, kind)
        return total + term, term, w + 1.0
    total, term, w = T.loop(unfinished, add_term, [first, first, q + 1.0], [s], trips=200)
    last = power(w, -s, kind)
    rest, factor, inverse = last * w / (s - 1.0) + last * 0.5, s / w, 1.0 / (w * w)
    for j, b in enumerate(EULER_MACLAURIN):
        rest = rest + last * factor * b
        factor = factor * (s + float(2 * j + 1)) * (s + float(2 * j + 2)) * inverse
    return T.where(term > total * EPSILON, total + rest, total)


def zeta_in_double(s, q, kind):
    valid = (s > 1.0) & (s < INF)
    s_safe = T.where(valid, s, 2.0)
    below = q < 0.0
    whole = floor(q)
    fraction = q - whole
    start = T.where(below, T.where(fraction > 0.0, fraction, 0.5), T.where(q > 0.0, q, 1.0))
    direct = T.branch(valid, lambda s, q: hurwitz(s, q, kind), [s_safe, start], number(NAN))        # a branch, for the few lanes at a time: the powers in it are long code
    # the terms below 0 are a finite sum of the same kind, with the sign of (-1)^s
    mirrored = T.branch(below, lambda s, q: hurwitz(s, 1.0 - (q - floor(q)), kind) - hurwitz(s, 1.0 - q, kind), [s_safe, q], number(0.0))
    odd = floor(s * 0.5) * 2.0 != s
    out = T.where(below, direct + T.where(odd, -mirrored, mirrored), direct)
    out = T.where(valid & (absolute(q) < INF), out, NAN)
    pole = (q <= 0.0) & (whole == q)
    out = T.where((q < 0.0) & (floor(s) != s), NAN, out)         # a power of a negative number
    out = T.where(pole & (s > 1.0), INF, out)
    return T.where(s == 1.0, INF, T.where(is_nan(s) | is_nan(q), NAN, out))


def _zeta_samples(seed=0):
    import numpy as np
    rng = np.random.default_rng(seed)
    return [Sample(_draw(rng, a, 1.2, 12), _draw(rng, b, 0.1, 30)) for a, b in (((), ()), ((5,), (5,)), ((3, 1), (1, 40)), ((0,), (0,)), ((33,), ()))]


@op("zeta(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", rule="float", on="special", node=numbered("SpecialZeta", 0, self=1, other=2), refuses="ch", kernel="zeta_cpu", samples=_zeta_samples)
def zeta(self, other):
    """The Hurwitz zeta function, the sum of `(other + k) ** -self` over k from 0 on. There is no derivative with respect to self."""
    (s, kind), (q, _) = wide(self), wide(other)
    return zeta_in_double(s, q, kind)


zeta.gradient("self")(no_derivative("zeta", operator="special_zeta"))


@zeta.gradient("other")
def _(grad, self, other):
    return grad * -self * zeta(self + 1.0, other)


# ------------------------------------------------------------------------------------------------------------ polygamma
@op(["polygamma(int n, Tensor self) -> Tensor", "polygamma(Tensor self, int n) -> Tensor"], rule="float", inplace=True, on="torch Tensor special",
    node="PolygammaBackward0", refuses="c", kernel="polygamma", promote=("self",), samples=lambda seed=0: [Sample(n, s.args[0]) for n in range(5) for s in unary(0.2, 9)(seed)])
def polygamma(n, self):
    """The n-th derivative of `digamma`: `polygamma(0, x)` is digamma itself. As a method: `x.polygamma(n)`."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return T.prim("digamma", self)
    x, kind = wide(self)
    if n == 1:
        return T.where(absolute(x) < INF, _trigamma(x), T.where(x == INF, 0.0, NAN))
    factorial = float(math.factorial(n)) if n <= 170 else INF
    return zeta_in_double(number(float(n + 1)), x, kind) * (factorial if n % 2 else -factorial)


@polygamma.gradient("self")
def _(grad, self, n):
    return grad * polygamma(n + 1, self)


# ----------------------------------------------------------------------------------------- the incomplete gamma functions
STIRLING = 30.0                                          # from here on three terms of Stirling's series are exact
TEMME = {"f64": 30.0, "mid": 6.0}                        # and from here on Temme's expansion around x = a
SMALL_TERM = {"f64": 2.0 ** -53, "mid": 2.0 ** -31}
# The series of log Gamma(1 + a): -Euler's constant, then (-1)^k zeta(k) / k for k = 2 ...
LGAMMA_1P = (-0.5772156649015329, 0.8224670334241132, -0.40068563438653143, 0.27058080842778454, -0.20738555102867398, 0.1695571769974082,
             -0.1440498967688461, 0.12550966952474304, -0.11133426586956469, 0.1000994575127818, -0.09095401714582904, 0.083353840546109,
             -0.0769325164113522, 0.07143294629536133, -0.06666870588242046, 0.06250095514121304, -0.058823978658684585)


def lgamma_1p(a):
    """log Gamma(1 + a), also where 1 + a is 1."""
    b = at_most(a, 0.1)
    return T.where(a < 0.1, polynomial(b, LGAMMA_1P) * b, T.prim("lgamma", a + 1.0))


def scaled_power(a, x, mu):
    """x^a exp(-x) / Gamma(a + 1); from a = 30 on through mu - log(1 + mu), where x = a (1 + mu), so that nothing large is subtracted."""
    direct = exp(a * log(x) - x - lgamma_1p(a))
    b = at_least(a, STIRLING)
    inverse = 1.0 / b
    square = inverse * inverse
    stirling = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260)))
    far = exp(-(b * (mu - log(x / b))) - stirling) / sqrt(b * (2 * math.pi))
    return T.where(a < STIRLING, direct, far)


def series_p(a, x, active, scale, small):
    """P as scale times the sum of x^k / ((a+1) ... (a+k)): all terms positive."""
    start = T.where(active, number(1.0), 0.0)

    def unfinished(total, term, k, a, x):
        return term > total * small

    def add_term(total, term, k, a, x):
        term = term * x / (a + k)
        return total + term, term, k + 1.0
    total, _, _ = T.loop(unfinished, add_term, [start, start, number(1.0)], [a, x], trips=2000)
    return total * scale


def series_q(a, x):
    """Q for small a and x, without 1 - P: 1 - x^a / Gamma(1+a) is an expm1, the rest an alternating sum."""
    def unfinished(total, fac, k, a, x):
        return absolute(fac) > EPSILON * 0.01

    def add_term(total, fac, k, a, x):
        fac = -(fac * x) / k
        return total + fac / (a + k), fac, k + 1.0
    total, _, _ = T.loop(unfinished, add_term, [number(0.0), number(1.0), number(1.0)], [a, x], trips=200)
    shifted = a * log(x) - lgamma_1p(a)
    return -T.prim("expm1", shifted) - exp(shifted) * a * total


def fraction_q(a, x, active, scale, small):
    """Q as a continued fraction (Lentz), for x >= a + 1."""
    b = x + 1.0 - a
    d = 1.0 / T.where(active, b, 1.0)

    def unfinished(h, b, c, d, i, change, a):
        return absolute(change - 1.0) > small * 4

    def go_on(h, b, c, d, i, change, a):
        an = -(i * (i - a))
        b = b + 2.0
        d = 1.0 / T.prim("fma", an, d, b)
        c = b + an / c
        change = d * c
        return h * change, b, c, d, i + 1.0, change
    start = [d, b, number(1e300), d, number(1.0), T.where(active, number(2.0), 1.0)]
    h = T.loop(unfinished, go_on, start, [a], trips=2000)[0]
    return h * scale * a


def temme(a, mu, upper):
    """Both functions for large a and x near a: an error function and a correction, a double series in 1/a and eta."""
    ratio = mu * (1 / 0.45)
    eta = mu * sqrt(polynomial(ratio, tables.LOG1P_TAIL["f64"]) * 2.0)
    inverse = 1.0 / a
    total = number(0.0)
    for row in tables.TEMME[::-1]:
        total = T.prim("fma", total, inverse, polynomial(eta, row))
    correction = exp(a * eta * eta * -0.5) / sqrt(a * (2 * math.pi)) * total
    half = erfc((eta if upper else -eta) * sqrt(a * 0.5)) * 0.5
    return half + correction if upper else half - correction


def by_region(a, x, kind, upper):
    """P (or Q, if upper) of positive finite a and x: each region by the form that is accurate and short there."""
    least = SMALL_TERM[kind]
    mu = (x - a) / a
    near = (a >= TEMME[kind]) & (absolute(mu) < 0.4)
    small = (a <= 1.0) & (x <= 1.1)
    series = (x < a + 1.0) & ~near
    series = series & ~small if upper else series | small
    fraction = ~(series | near | small)
    scale = scaled_power(a, x, mu)
    p = series_p(a, x, series, scale, least)
    q = fraction_q(a, x, fraction, scale, least)
    around = T.branch(near, lambda a, mu: temme(a, mu, upper), [a, mu], number(0.0))
    if not upper:
        return T.where(near, around, T.where(fraction, 1.0 - q, p))
    return T.where(near, around, T.where(fraction, q, T.where(small, T.branch(small, series_q, [a, x], number(0.0)), 1.0 - p)))


def incomplete_gamma(self, other, upper):
    """P (or Q, if upper): by region where both are positive and finite, elsewhere by the limits."""
    (a, kind), (x, _) = wide(self), wide(other)
    inside = (a > 0.0) & (x > 0.0) & (a < INF) & (x < INF)
    out = T.branch(inside, lambda a, x: by_region(a, x, kind, upper), [a, x], number(0.0))
    above, below = number(1.0 if upper else 0.0), number(0.0 if upper else 1.0)
    limit = T.where((x == 0.0) | (a == INF), above, below)                 # x = 0 or a = inf: all of it is above x; a = 0 or x = inf: below
    outside = (a < 0.0) | (x < 0.0) | is_nan(a) | is_nan(x) | (a == 0.0) & (x == 0.0) | (a == INF) & (x == INF)
    return T.where(outside, NAN, T.where(inside, out, limit))


# ------------------------------------------------------------------------------------------------------ the incomplete beta function
SLOPE_TRIPS = 10_000_000                                 # some ten times the root of the parameters, except for draws that hardly ever happen


def beta_slope(x, a, b):
    """How a draw x of Beta(a, b) moves with a, over 1 - x: -dI/da / density / (1 - x), where I is the distribution function.

    I is the density times x (1 - x) / a times the sum of t(n) = (a+b)_n / (a+1)_n x^n, and the logarithmic derivative of each t(n) is a sum of n fractions, so the density cancels.
    The same holds from the other end, with b and 1 - x. Each sum is all of one sign near its own end and loses as many digits as its end is improbable: the
    one in the smaller of x and 1 - x is taken unless that is far out.
    """
    y, total = 1.0 - x, a + b
    deviation = sqrt(a * b / (total * total * (total + 1.0)))
    mean = a / total
    below = T.where(x < 0.5, x < mean + deviation * 4.0 + 8.0 / (b + 1.0), y > 1.0 - mean + deviation * 4.0 + 8.0 / (a + 1.0))
    base = T.where(below, x, y)
    lower = T.where(below, a, b) + 1.0
    first = log(T.where(x > 0.0, x, 1.0)) + T.prim("digamma", total) - T.prim("digamma", T.where(below, a + 1.0, a))
    share = T.where(below, number(1.0), 0.0)             # the denominators of t(n) depend on a only in the sum from below

    def unfinished(moved, terms, term, slope, n, base, total, lower, share):
        return term > terms * (EPSILON * 0.01)

    def add_term(moved, terms, term, slope, n, base, total, lower, share):
        term = term * base * (total + n) / (lower + n)
        slope = slope + 1.0 / (total + n) - share / (lower + n)
        return moved + term * slope, terms + term, term, slope, n + 1.0
    moved = T.loop(unfinished, add_term, [first, number(1.0), number(1.0), first, number(0.0)], [base, total, lower, share], trips=SLOPE_TRIPS)[0]
    moves = b > 0.0                                       # it is 0 where a + b rounds to a: all draws are 1 then
    return T.where(below, -(moved * x / a), T.where(moves, moved * x, 0.0) / T.where(moves, b, 1.0))


def _gamma_samples(seed=0):
    import numpy as np
    rng = np.random.default_rng(seed)
    out = [Sample(_draw(rng, a, 0.1, high), _draw(rng, b, 0.1, high)) for high in (2, 20, 80) for a, b in (((), ()), ((5,), (5,)), ((3, 1), (1, 40)), ((33,), ()))]
    return [*out, Sample(_draw(rng, (0,), 1, 2), _draw(rng, (0,), 1, 2))]


@op("igamma(Tensor self, Tensor other) -> Tensor", rule="float!", inplace=True, node="IgammaBackward0", kernel="igamma_cpu", refuses="c", aliases=("special.gammainc",),
    samples=_gamma_samples)
def igamma(self, other):
    """The regularised lower incomplete gamma function: the part of Gamma(self)'s integral that lies below `other`. No derivative with respect to self."""
    return incomplete_gamma(self, other, False)


@op("igammac(Tensor self, Tensor other) -> Tensor", rule="float!", inplace=True, node="IgammacBackward0", kernel="igammac_cpu", refuses="c", aliases=("special.gammaincc",),
    samples=_gamma_samples)
def igammac(self, other):
    """The regularised upper incomplete gamma function, `1 - igamma(self, other)`. No derivative with respect to self."""
    return incomplete_gamma(self, other, True)


def _density(self, other):
    return T.prim("exp", (self - 1.0) * T.prim("log", other) - other - T.prim("lgamma", self))


igamma.gradient("self")(no_derivative("igamma: input", operator="igamma"))


@igamma.gradient("other")
def _(grad, self, other):
    return grad * _density(self, other)


igammac.gradient("self")(no_derivative("igammac: input", operator="igammac"))


@igammac.gradient("other")
def _(grad, self, other):
    return -grad * _density(self, other)


# ------------------------------------------------------------------------------------------------- multivariate log-gamma
@op("mvlgamma(Tensor self, int p) -> Tensor", rule="float", layout="contiguous", inplace=True, aliases=("special.multigammaln",), node="MvlgammaBackward0", refuses="c", kernel="arange_cpu",
    samples=unary(3, 9, extra=(3,)))
def mvlgamma(self, p):
    """The logarithm of the multivariate gamma function of dimension p: a sum of `lgamma(self - i/2)` and a constant."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    total = T.prim("lgamma", self)
    for i in range(1, p):
        total = total + T.prim("lgamma", self - i / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)
