"""More functions of one or two elements: composites of `elementwise`, whose gradients are derived or, at singular points, stated."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples import binary, unary
from .common import converted
from .elementwise import truth


@op("logit(Tensor self, float? eps=None) -> Tensor", rule="float", inplace=True, on="torch Tensor special", node="LogitBackward0", refuses="c",
    kernel="logit_cpu", samples=unary(0.05, 0.95))
def logit(x, eps):
    """`log(x / (1 - x))`; with `eps`, x is first moved into [eps, 1 - eps]."""
    one = T.const(1, x.dtype)
    if eps is not None:
        eps = T.cast(eps, x.dtype)
        x = T.prim("minimum", T.prim("maximum", x, eps), one - eps)
    return T.prim("log", x / (one - x))


@logit.gradient("self")
def _(grad, self, eps):
    one = T.const(1, self.dtype)
    slope = grad / (self * (one - self))
    if eps is None:
        outside = T.prim("lt", self, T.const(0, self.dtype)) | T.prim("lt", one, self)
        return T.where(outside, T.const(math.nan, self.dtype), slope)
    low = T.cast(eps, self.dtype)
    return T.where(T.prim("lt", self, low) | T.prim("lt", one - low, self), 0, slope)


@op("sinc(Tensor self) -> Tensor", rule="float", inplace=True, on="torch Tensor special", node="SincBackward0", samples=unary(near=[0], plane=True))
def sinc(x):
    """`sin(pi x) / (pi x)`, 1 at 0."""
    zero = T.prim("eq", x, T.const(0, x.dtype))
    angle = math.pi * T.where(zero, 1, x)
    return T.where(zero, 1, T.prim("sin", angle) / angle)


@sinc.gradient("self")
def _(grad, self):
    zero = T.prim("eq", self, T.const(0, self.dtype))
    x = T.where(zero, 1, self)
    angle = math.pi * x
    return T.where(zero, 0, grad * ((angle * T.prim("cos", angle) - T.prim("sin", angle)) / (angle * x)))


@op("logaddexp2(Tensor self, Tensor other) -> Tensor", rule="float!", node="Logaddexp2Backward0", saves="self other", kernel="logaddexp2_cpu", samples=binary())
def logaddexp2(self, other):
    """`log2(2**self + 2**other)` without overflow."""
    same = T.prim("eq", self, other) & T.prim("eq", T.prim("abs", self), T.const(math.inf, self.dtype))
    top = T.prim("maximum", self, other)
    part = T.prim("log1p", T.prim("exp2", -T.prim("abs", self - other))) * (1 / math.log(2))
    return T.where(same, self, top + part)


@logaddexp2.gradient("self")
def _(grad, self, result):
    return grad * T.prim("exp2", self - result)


@logaddexp2.gradient("other")
def _(grad, other, result):
    return grad * T.prim("exp2", other - result)


@op("ldexp(Tensor self, Tensor other) -> Tensor", rule="float", inplace=True, node="LdexpBackward0", samples=binary())
def ldexp(self, other):
    """`self * 2**other`."""
    return self * T.prim("exp2", other)


@op("angle(Tensor self) -> Tensor", rule=lambda x: "real" if T.is_complex(x.dtype) else "float", node="AngleBackward0", samples=unary(plane=True))
def angle(x):
    """The angle of a number in the plane: 0 or pi for reals, NaN for NaN."""
    if T.is_complex(x.dtype):
        return T.prim("atan2", T.prim("imag", x), T.prim("real", x))
    turned = T.where(T.prim("lt", x, T.const(0, x.dtype)), T.const(math.pi, x.dtype), T.const(0, x.dtype))
    return T.where(T.prim("ne", x, x), x, turned)


@angle.gradient("self")
def _(grad, self):
    if T.is_complex(self.dtype):
        x, y = T.prim("real", self), T.prim("imag", self)
        size = x * x + y * y
        flat = T.prim("eq", size, T.const(0, size.dtype))
        slope = T.where(flat, 0, grad / T.where(flat, 1, size))
        return T.prim("make_complex", -(slope * y), slope * x)
    return T.where(T.prim("ne", self, self), T.const(math.nan, self.dtype), 0 * grad)


@op("isreal(Tensor self) -> Tensor", rule="bool", differentiable=False, out=False, samples=unary())
def isreal(x):
    """Where the imaginary part is zero."""
    if T.is_complex(x.dtype):
        return T.prim("bit_not", truth(T.prim("imag", x)))
    return T.expand(T.const(True, "b1"), x.shape)


@op("fill(Tensor self, Scalar value) -> Tensor", rule=None, on="torch", node="FillBackward0", out=False, samples=unary(extra=(2.5,)))
def fill(self, value):
    """A tensor of one value, of self's shape and dtype."""
    return T.expand(converted(value, self.dtype), self.shape)
