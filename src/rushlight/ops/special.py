"""torch.special, the differentiable functions of one variable: modified Bessel functions of the first kind, the normal distribution, the scaled error
function, entropies. Approximations are fits of our own (special_tables.py)."""
from __future__ import annotations

import math
import struct

from ..compiler import trace as T
from ..registry import op
from ..samples import binary, unary
from . import special_tables as tables
from .approximation import (
    INF,
    NAN,
    absolute,
    at_least,
    at_most,
    erfc,
    exp,
    is_nan,
    log,
    log1p,
    number,
    polynomial,
    sqrt,
    wide,
)
from .common import numbered
from .elementwise import sgn

SQRT_HALF, SQRT_2_PI = math.sqrt(0.5), math.sqrt(2 * math.pi)


# ------------------------------------------------------------------------------------- modified Bessel functions I0, I1
def scaled_i(x, order, kind):
    """exp(-|x|) I(x) for x >= 0, and I(x) itself where it needs no exponential (x <= 8): (scaled, near, far part)."""
    near_table, far_table = (tables.I0_NEAR, tables.I0_FAR) if order == 0 else (tables.I1_NEAR, tables.I1_FAR)
    b = at_most(x, 8.0)
    near = polynomial(b * b * (1 / 64), near_table, kind)
    if order: near = near * x
    c = at_least(x, 8.0)
    far = polynomial(16.0 / c - 1.0, far_table, kind) / sqrt(c)
    return T.where(x <= 8.0, near * exp(-b), far), near, far


def modified_bessel_i(x, order):
    x, kind = wide(x)
    a = absolute(x)
    _, near, far = scaled_i(a, order, kind)
    out = T.where(a <= 8.0, near, exp(a) * far)
    return T.prim("copysign", out, x) if order else out


def modified_bessel_ie(x, order):
    x, kind = wide(x)
    out, _, _ = scaled_i(absolute(x), order, kind)
    return T.prim("copysign", out, x) if order else out


@op("i0(Tensor self) -> Tensor", rule="float", inplace=True, on="torch Tensor special", node="I0Backward0", refuses="c", kernel="i0_vml_cpu",
    samples=unary(-12, 12, near=[0, 8]))
def i0(x):
    """The modified Bessel function of the first kind of order 0."""
    return modified_bessel_i(x, 0)


@op("i0e(Tensor self) -> Tensor", rule="float", on="special", node="SpecialI0EBackward0", refuses="c", kernel="i0e_cpu", samples=unary(-12, 12, near=[8]))
def i0e(x):
    """`exp(-|x|) * i0(x)`, which does not overflow."""
    return modified_bessel_ie(x, 0)


@op("i1(Tensor self) -> Tensor", rule="float", on="special", node="SpecialI1Backward0", refuses="c", kernel="i1_cpu", samples=unary(-12, 12, near=[0, 8]))
def i1(x):
    """The modified Bessel function of the first kind of order 1."""
    return modified_bessel_i(x, 1)


@op("i1e(Tensor self) -> Tensor", rule="float", on="special", node="SpecialI1EBackward0", refuses="c", kernel="i1e_cpu", samples=unary(-12, 12, near=[8]))
def i1e(x):
    """`exp(-|x|) * i1(x)`, which does not overflow."""
    return modified_bessel_ie(x, 1)


@i0.gradient("self")
def _(grad, self):
    return grad * i1(self)


@i0e.gradient("self")
def _(grad, self):                                       # of |self|, not the result: in half precision its rounding would be all that is left
    return grad * (i1e(self) - sgn(self) * i0e(absolute(self)))


def _away_from_zero(x):
    """x, and 1 where it is nothing: beside it, whether it is. There the quotients of the derivatives have the limit 1/2."""
    small = absolute(x) <= T.epsilon(x.dtype)
    return T.where(small, 1, x), small


@i1.gradient("self")
def _(grad, self):
    x, small = _away_from_zero(self)
    return grad * T.where(small, 0.5, i0(x) - i1(x) / x)


@i1e.gradient("self")
def _(grad, self):
    x, small = _away_from_zero(self)
    return grad * T.where(small, 0.5, i0e(x) - i1e(x) * (sgn(x) + 1 / x))


# ------------------------------------------------------------------------------------------------ the error function, scaled
def scaled_erfc(x, kind):
    """exp(x^2) erfc(x), in double."""
    a = absolute(x)
    b = at_most(a, 8.0)
    near = polynomial((b - 3.0) / (b + 3.0), tables.ERFCX_NEAR, kind) / (b * 2.0 + 1.0)
    c = at_least(a, 8.0)
    ratio = 8.0 / c
    far = polynomial(ratio * ratio * 2.0 - 1.0, tables.ERFCX_FAR, kind) / c
    right = T.where(a <= 8.0, near, far)
    # exp(x^2) with the rounding of the square put back; twice exp(709.5) is infinite, and an infinity must not meet its correction
    d = at_most(a, 28.0)
    square = d * d
    growth = exp(square)
    growth = T.prim("fma", growth, T.prim("fma", d, d, -square), growth)
    growth = T.where(square > 709.5, INF, growth)
    middle = growth * erfc(x)
    return T.where(is_nan(x), x, T.where(x > 0.5, right, T.where(x < -0.5, growth * 2.0 - right, middle)))


@op("erfcx(Tensor self) -> Tensor", rule="float", on="special", node="SpecialErfcxBackward0", refuses="ch", kernel="erfcx_cpu",
    samples=unary(-4, 12, near=[0.5, -0.5, 8]))
def erfcx(x):
    """The scaled complementary error function `exp(x * x) * erfc(x)`, which does not vanish in the tail."""
    return scaled_erfc(*wide(x))


@erfcx.gradient("self")
def _(grad, self, result):
    return grad * (2 * self * result - 2 / math.sqrt(math.pi))


# --------------------------------------------------------------------------------------------------- the normal distribution
@op("ndtr(Tensor self) -> Tensor", rule="float", on="special", node="MulBackward1", refuses="c", kernel="erf_vml_cpu", samples=unary(near=[0]))
def ndtr(x):
    """The normal distribution: the part of it that lies below x."""
    if x.dtype == "f64":
        return T.prim("erfc", x * -SQRT_HALF) * 0.5
    # In single precision the rounding of z would cost z * z units of the result, far out: what it lost is put back, by erfc's slope -2 z erfc there.
    z = x * -SQRT_HALF
    high = struct.unpack("f", struct.pack("f", SQRT_HALF))[0]
    lost = T.prim("fma", x, T.const(-high, "f32"), -z) - x * (SQRT_HALF - high)
    slope = T.stop(T.where((z > 0) & (z < 16), z * lost * -2.0, 0))
    value = T.prim("erfc", z)
    return T.prim("fma", value, slope, value) * 0.5


@op("log_ndtr(Tensor self) -> Tensor", rule="float", on="special", node="SpecialLogNdtrBackward0", refuses="ch", kernel="log_ndtr_cpu", samples=unary(-12, 6, near=[-1]))
def log_ndtr(x):
    """The logarithm of `ndtr`, accurate where that vanishes."""
    x, kind = wide(x)
    t = x * SQRT_HALF
    low = log(scaled_erfc(at_least(-t, 0.0), kind) * 0.5) - x * x * 0.5
    return T.where(x < -1.0, low, log1p(erfc(t) * -0.5))


@log_ndtr.gradient("self")
def _(grad, self):
    return grad * (math.sqrt(2 / math.pi) / erfcx(self * -SQRT_HALF))


@op("ndtri(Tensor self) -> Tensor", rule="float", on="special", node="SpecialNdtriBackward0", refuses="ch", kernel="ndtri_cpu", samples=unary(0.001, 0.999))
def ndtri(x):
    """The inverse of `ndtr`: the x below which a part `self` of the normal distribution lies."""
    p, kind = wide(x)
    q = T.where(p > 0.5, 1.0 - p, p)                     # the lower tail
    u = p - 0.5
    centre = polynomial(u * u * (1 / 0.06125) - 1.0, tables.NDTRI_CENTRE, kind) * u
    out = T.branch((q > 0.0) & (q < 0.15), lambda p, q: _ndtri_tail(p, q, kind), [p, q], centre)
    ends = T.where(p == 0.0, number(-INF), T.where(p == 1.0, number(INF), number(NAN)))
    return T.where((q > 0.0) & (q <= 0.5), out, ends)


def _ndtri_tail(p, q, kind):
    w = sqrt(log(q) * -2.0)
    near = polynomial((at_most(w, 6.0) - 3.95) * (1 / 2.05), tables.NDTRI_NEAR, kind)
    rest = T.branch(w > 6.0, lambda w: polynomial((6.0 / w - 0.575) * (1 / 0.425), tables.NDTRI_FAR, kind), [w], near)
    tail = w - (log(w) + rest) / w
    return T.where(p > 0.5, tail, -tail)


@ndtri.gradient("self")
def _(grad, result):
    return grad * (SQRT_2_PI * T.prim("exp", result * result * 0.5))


# ------------------------------------------------------------------------------------------------------------- entropies
@op("entr(Tensor self) -> Tensor", rule="float", on="special", node="SpecialEntrBackward0", refuses="c", kernel="entr_cpu", samples=unary(0.05, 5))
def entr(x):
    """`-x * log(x)`, 0 at 0 and -inf below."""
    positive = x > 0
    inside = T.where(positive, x, 1)
    return T.where(is_nan(x), x, T.where(positive, -inside * log(inside), T.where(x == 0, T.const(0, x.dtype), T.const(-INF, x.dtype))))


@entr.gradient("self")
def _(grad, self):
    positive = self > 0
    slope = -log(T.where(positive, self, 1)) - 1
    return grad * T.where(positive, slope, T.where(self == 0, T.const(INF, self.dtype), T.const(NAN, self.dtype)))


@op("xlog1py(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", rule="float", on="special", node=numbered("SpecialXlog1Py", 0, self=1, other=2), refuses="c", kernel="xlog1py_cpu",
    samples=binary(positive=True))
def xlog1py(self, other):
    """`self * log1p(other)`, 0 where self is 0."""
    out = T.where(self == 0, 0, self * log1p(other))
    return T.where(is_nan(other), other, out)


@xlog1py.gradient("self")
def _(grad, self, other):
    dead = (self == 0) & (other <= -1)
    return T.where(dead, 0, grad * log1p(T.where(dead, 0, other)))


@xlog1py.gradient("other")
def _(grad, self, other):
    return grad * self / (other + 1)
