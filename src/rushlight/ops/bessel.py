"""torch.special, the Bessel and Airy functions, which have no derivative in torch. Each is a table near the origin (the logarithm and the zeros taken out)
and an asymptotic form with tables for its slow parts beyond. In double throughout."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples import unary
from . import special_tables as tables
from .approximation import INF, NAN, absolute, at_least, at_most, cos, exp, is_nan, log, number, polynomial, sin, sqrt, wide
from .special import modified_bessel_i

TWO_OVER_PI = 2 / math.pi
SQRT_HALF = math.sqrt(0.5)


def _function(name, doc, low, high, body):
    """One function of a real variable without a derivative."""
    def apply(x):
        return body(*wide(x))
    apply.__doc__ = doc
    return op(f"{name}(Tensor self) -> Tensor", rule="float", on="special", differentiable=False, refuses="ch", kernel=f"{name}_cpu", samples=unary(low, high))(apply)


# -------------------------------------------------------------------------------------------------- J0, J1, Y0, Y1
def near_j(a, order, kind):
    """J(a) for 0 <= a <= 8: the first two zeros as factors, so that it is accurate beside them."""
    square = a * a
    table, zeros = (tables.J0_NEAR, tables.J0_ZEROS) if order == 0 else (tables.J1_NEAR, tables.J1_ZEROS)
    out = polynomial(square * (1 / 32) - 1.0, table, kind)
    for high, low in zeros:
        out = out * ((square - high) - low)
    return out * a if order else out


def far_parts(a, order, kind):
    """Hankel's form for a >= 8: sqrt(2 / (pi a)), P, Q, and the sine and cosine of a - (order/2 + 1/4) pi."""
    ratio = 8.0 / a
    t = ratio * ratio * 2.0 - 1.0
    p_table, q_table = (tables.JY0_P, tables.JY0_Q) if order == 0 else (tables.JY1_P, tables.JY1_Q)
    p, q = polynomial(t, p_table, kind), polynomial(t, q_table, kind) / a
    s, c = sin(a), cos(a)
    minus, plus = (s - c) * SQRT_HALF, (s + c) * SQRT_HALF       # the sine and cosine of a - pi/4
    sine, cosine = (minus, plus) if order == 0 else (-plus, minus)
    return sqrt(TWO_OVER_PI / a), p, q, sine, cosine


def bessel_j(x, order, kind):
    def far(a):
        scale, p, q, sine, cosine = far_parts(a, order, kind)
        return scale * (p * cosine - q * sine)
    a = absolute(x)
    out = T.branch(a > 8.0, far, [a], near_j(at_most(a, 8.0), order, kind))
    return T.where(x < 0.0, -out, T.where(x == 0.0, x, out)) if order else out          # of -0 it is -0


def bessel_y(x, order, kind):
    b = at_most(x, 8.0)
    b = T.where(b > 0.0, b, 1.0)
    t = b * b * (1 / 32) - 1.0
    if order == 0:
        near = polynomial(t, tables.Y0_NEAR, kind) + log(b) * near_j(b, 0, kind) * TWO_OVER_PI
    else:
        near = polynomial(t, tables.Y1_NEAR, kind) * b + (log(b) * near_j(b, 1, kind) - 1.0 / b) * TWO_OVER_PI
    def far(x):
        scale, p, q, sine, cosine = far_parts(x, order, kind)
        return scale * (p * sine + q * cosine)
    out = T.branch((x > 8.0) | is_nan(x), far, [x], near)
    return T.where(x == 0.0, -INF, T.where(x < 0.0, NAN, out))


bessel_j0 = _function("bessel_j0", "The Bessel function of the first kind of order 0.", -30, 30, lambda x, kind: bessel_j(x, 0, kind))
bessel_j1 = _function("bessel_j1", "The Bessel function of the first kind of order 1.", -30, 30, lambda x, kind: bessel_j(x, 1, kind))
bessel_y0 = _function("bessel_y0", "The Bessel function of the second kind of order 0; NaN below 0.", 0.05, 30, lambda x, kind: bessel_y(x, 0, kind))
bessel_y1 = _function("bessel_y1", "The Bessel function of the second kind of order 1; NaN below 0.", 0.05, 30, lambda x, kind: bessel_y(x, 1, kind))


# -------------------------------------------------------------------------------------------------- I0, I1, K0, K1
def bessel_k(x, order, kind, scaled):
    """K(x), or exp(x) K(x) if scaled."""
    b = at_most(x, 2.0)
    b = T.where(b > 0.0, b, 1.0)
    t = b * b * 0.25
    i = polynomial(b * b * (1 / 64), tables.I0_NEAR if order == 0 else tables.I1_NEAR, kind)
    if order == 0:
        near = polynomial(t, tables.K0_NEAR, kind) - log(b * 0.5) * i
    else:
        near = polynomial(t, tables.K1_NEAR, kind) / b + log(b * 0.5) * (i * b)
    c = at_least(x, 2.0)
    far = polynomial(4.0 / c - 1.0, tables.K0_FAR if order == 0 else tables.K1_FAR, kind) / sqrt(c)
    out = T.where(x <= 2.0, near * exp(b), far) if scaled else T.where(x <= 2.0, near, far * exp(-c))
    return T.where(x == 0.0, INF, T.where(x < 0.0, NAN, out))


modified_bessel_i0 = _function("modified_bessel_i0", "The modified Bessel function of the first kind of order 0.", -12, 12, lambda x, kind: modified_bessel_i(x, 0))
modified_bessel_i1 = _function("modified_bessel_i1", "The modified Bessel function of the first kind of order 1.", -12, 12, lambda x, kind: modified_bessel_i(x, 1))
modified_bessel_k0 = _function("modified_bessel_k0", "The modified Bessel function of the second kind of order 0; NaN below 0.", 0.05, 12,
                               lambda x, kind: bessel_k(x, 0, kind, False))
modified_bessel_k1 = _function("modified_bessel_k1", "The modified Bessel function of the second kind of order 1; NaN below 0.", 0.05, 12,
                               lambda x, kind: bessel_k(x, 1, kind, False))
scaled_modified_bessel_k0 = _function("scaled_modified_bessel_k0", "`exp(x) * modified_bessel_k0(x)`, which does not vanish.", 0.05, 12,
                                      lambda x, kind: bessel_k(x, 0, kind, True))
scaled_modified_bessel_k1 = _function("scaled_modified_bessel_k1", "`exp(x) * modified_bessel_k1(x)`, which does not vanish.", 0.05, 12,
                                      lambda x, kind: bessel_k(x, 1, kind, True))


# -------------------------------------------------------------------------------------------------------------- others
def _spherical_j0(x, kind):
    small = absolute(x) < 1e-4                           # there 1 - x^2/6 is exact
    b = T.where(small, 1.0, x)
    out = T.where(small, 1.0 - x * x * (1 / 6), sin(b) / b)
    return T.where(absolute(x) == INF, 0.0, out)


spherical_bessel_j0 = _function("spherical_bessel_j0", "The spherical Bessel function of order 0, `sin(x) / x`.", -20, 20, _spherical_j0)


def _airy(x, kind):
    """A polynomial on [-4, 2]; beyond, exponentials and waves of z = 2/3 |x|^(3/2) times slow parts."""
    middle = polynomial((T.where(x > 2.0, 2.0, T.where(x < -4.0, -4.0, x)) + 1.0) * (1 / 3), tables.AIRY_MIDDLE, kind)
    r = at_least(x, 2.0)
    root = sqrt(r)
    z = r * root * (2 / 3)
    edge = 2 / 3 * 2 ** 1.5
    right = polynomial(edge * 2.0 / z - 1.0, tables.AIRY_RIGHT, kind) * exp(-z) / sqrt(root) * (0.5 / math.sqrt(math.pi))
    s = at_least(-x, 4.0)
    root = sqrt(s)
    z = s * root * (2 / 3)
    ratio = (16 / 3) / z
    t = ratio * ratio * 2.0 - 1.0
    p, q = polynomial(t, tables.AIRY_P, kind), polynomial(t, tables.AIRY_Q, kind) / z
    sine, cosine = sin(z), cos(z)
    wave = p * (sine + cosine) - q * (cosine - sine)     # times sqrt(1/2): the angle is z + pi/4
    left = wave / sqrt(root) * (SQRT_HALF / math.sqrt(math.pi))
    return T.where(absolute(x) == INF, number(NAN), T.where(x > 2.0, right, T.where(x < -4.0, left, middle)))


airy_ai = _function("airy_ai", "The Airy function Ai.", -15, 10, _airy)
