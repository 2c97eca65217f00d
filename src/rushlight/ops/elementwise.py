"""Arithmetic, mathematics, comparison, logic and bits, element by element.

Each body is a scalar formula over `compiler.primitives`; gradients are derived from theirs, and stated here only where
torch's differ at ties, zeros or infinities.
"""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples import binary, unary
from .common import FOUND_DTYPE, converted, factor, numbered, required, rounded, underived

INF = math.inf


# ---------------------------------------------------------------------------------------------------------- arithmetic
@op(["add(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
     "add(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha) -> Tensor", "add(Tensor self, Scalar alpha, Tensor other) -> Tensor", "add(Tensor self, Scalar other, Scalar alpha) -> Tensor"],
    numbers=True, rule="same", inplace=True, node="AddBackward0", samples=binary())
def add(self, other, alpha=None):
    """`self + other`, or `self + alpha * other`, with broadcasting and type promotion.

    >>> rushlight.add(rushlight.tensor([1, 2]), 0.5)
    tensor([1.5000, 2.5000])
    """
    if alpha is not None:
        other = T.prim("mul", other, _check_alpha(alpha, self))
    return T.prim("add", self, other)


def _check_alpha(alpha, self):
    kind = T.scalar_kind(alpha)
    if kind == "f" and not T.is_float(self.dtype) and not T.is_complex(self.dtype):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if kind == "b" and self.dtype != "b1":
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if kind == "c" and not T.is_complex(self.dtype):
        raise RuntimeError("For non-complex input tensors, argument alpha must not be a complex number.")
    return rounded(alpha)


def _no_bools(a, b):
    """torch subtracts no bools: a mask is turned over with ~."""
    bools = [T.scalar_kind(x) == "b" or T.scalar_kind(x) is None and x.dtype == "b1" for x in (a, b)]
    if bools == [True, True]:
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. "
                           "Use the `^` or `logical_xor()` operator instead.")
    if True in bools:
        raise RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported. "
                           "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.")
    return "same"


@op(["sub(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
     "sub(Tensor|Scalar self, Tensor|Scalar other, *, Scalar alpha) -> Tensor", "sub(Tensor self, Scalar alpha, Tensor other) -> Tensor", "sub(Tensor self, Scalar other, Scalar alpha) -> Tensor"],
    numbers=True, rule=lambda self, other, alpha=None: _no_bools(self, other), inplace=True, aliases=("subtract",), samples=binary(),
    node=lambda given: "SubBackward0" if T.scalar_kind(given["self"]) is None else "RsubBackward1")
def sub(self, other, alpha=None):
    """`self - other`, or `self - alpha * other`."""
    if alpha is not None:
        other = T.prim("mul", other, _check_alpha(alpha, self))
    return T.prim("sub", self, other)


@op(["rsub(Tensor self, Tensor|Scalar other) -> Tensor", "rsub(Tensor self, Tensor|Scalar other, Scalar alpha) -> Tensor"],
    rule=lambda self, other, alpha=None: _no_bools(self, other), node=lambda given: "RsubBackward0" if T.scalar_kind(given["other"]) is None else "RsubBackward1", samples=binary())
def rsub(self, other, alpha=None):
    """`other - self`."""
    return T.prim("sub", other, self if alpha is None else T.prim("mul", self, _check_alpha(alpha, self)))


@op("mul(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", once=True, numbers=True, rule="same", inplace=True, node="MulBackward0",
    aliases=("multiply",), samples=binary())
def mul(self, other):
    """`self * other`."""
    return T.prim("mul", self, other)


def _div_node(given):
    if given.get("rounding_mode") is not None: return "DivBackward2"
    return "DivBackward0" if T.scalar_kind(given["self"]) is None else "MulBackward0"      # torch: number * reciprocal


@op(["div(Tensor|Scalar self, Tensor|Scalar other) -> Tensor",
     "div(Tensor|Scalar self, Tensor|Scalar other, *, str? rounding_mode) -> Tensor"], once=True,
    numbers=True, rule=lambda a, b, mode=None: "float" if mode is None else "same", inplace=True, node=_div_node, saves="self other",
    aliases=("divide",), samples=binary(nonzero=True))
def div(self, other, rounding_mode=None):
    """`self / other`; `rounding_mode` "trunc" rounds towards zero, "floor" down."""
    if rounding_mode is None:
        return T.prim("div", self, other)
    if rounding_mode == "floor":
        return floor_divide_body(self, other)
    if rounding_mode == "trunc":
        if T.is_float(self.dtype):
            return T.prim("trunc", rounded(T.prim("div", self, other)))
        return T.prim("idiv", self, _nonzero(other))
    raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{rounding_mode}'")


@op("true_divide(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", once=True, numbers=True, rule="float", inplace=True, node="DivBackward0", saves="self other",
    samples=binary(nonzero=True))
def true_divide(self, other):
    """The same as `div` without a rounding mode."""
    return T.prim("div", self, other)


def _nonzero(divisor):
    """Integer division by zero is an error that must come before anything is written."""
    return T.check_nonzero(divisor, ("RuntimeError", "ZeroDivisionError"))


def floor_divide_body(a, b):
    if not T.is_float(a.dtype):
        q = T.prim("idiv", a, _nonzero(b))
        inexact = T.prim("ne", T.prim("mul", q, b), a)
        opposite = T.prim("ne", T.prim("lt", a, T.const(0, a.dtype)), T.prim("lt", b, T.const(0, b.dtype)))
        return T.where(inexact & opposite, q - 1, q)
    zero = T.const(0.0, a.dtype)
    m = T.prim("fmod", a, b)
    q = (a - m) / b
    q = T.where(T.prim("ne", m, zero) & T.prim("ne", b < zero, m < zero), q - 1.0, q)
    f = T.prim("floor", q)
    f = T.where(q - f > 0.5, f + 1.0, f)
    ratio = a / b
    f = T.where(T.prim("eq", q, zero), T.prim("copysign", zero, ratio), f)
    return T.where(T.prim("eq", b, zero), ratio, f)


@op("floor_divide(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", numbers=True, rule="same", inplace=True,
    refuses="bc", kernel="div_floor_cpu", samples=binary(nonzero=True))
def floor_divide(self, other):
    """The quotient rounded down, as Python's `//`."""
    return floor_divide_body(self, other)


floor_divide.gradient("self", "other")(underived("floor_divide"))


@op("remainder(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", rule="same", inplace=True, node=numbered("Remainder", 1, other=0),
    refuses="bc", kernel="remainder_cpu", samples=binary(nonzero=True))
def remainder(self, other):
    """Python's `%`: the sign of the divisor."""
    if not T.is_float(self.dtype):
        other = _nonzero(other)
    m = T.prim("fmod", self, other)
    zero = T.const(0, self.dtype)
    wrong = T.prim("ne", m, zero) & T.prim("ne", T.prim("lt", other, zero), T.prim("lt", m, zero))
    return T.where(wrong, T.prim("add", m, other), m)


@remainder.gradient("self")
def _(grad):
    return grad


@remainder.gradient("other")
def _(grad, self, other):
    return -(grad * T.prim("floor", self / other))


@op("fmod(Tensor self, Tensor|Scalar other) -> Tensor", rule="same", inplace=True, node=numbered("Fmod", 1, other=0),
    refuses="bc", kernel="fmod_cpu", samples=binary(nonzero=True))
def fmod(self, other):
    """C's remainder: the sign of the dividend."""
    if not T.is_float(self.dtype):
        other = _nonzero(other)
    return T.prim("fmod", self, other)


@op("pow(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor", rule="same", inplace=True, node=numbered("Pow", 1, self=2, exponent=0),
    refuses="b", converts=True, samples=binary(positive=True))
def pow(self, exponent):
    """`self ** exponent`."""
    if not T.is_float(self.dtype) and not T.is_complex(self.dtype) and T.scalar_kind(exponent) is not None:
        exponent = T.check_range(T.cast(exponent, "i64"), 0, None, ("RuntimeError", "Integers to negative integer powers are not allowed."))
        exponent = converted(exponent, self.dtype)
    return T.prim("pow", self, exponent)


@op("float_power(Tensor|Scalar self, Tensor|Scalar exponent) -> Tensor", rule=None, node=numbered("Pow", 1, self=2, exponent=0), samples=binary(positive=True),
    inplace="the base given to float_power_ has dtype {self} but the operation's result requires dtype {result}",
    out="the output given to float_power has dtype {out} but the operation's result requires dtype {result}")
def float_power(self, exponent):
    """`pow` computed in double precision."""
    dtype = "c128" if T.is_complex(self.dtype) or T.is_complex(exponent.dtype) else "f64"
    return T.prim("pow", T.cast(self, dtype), T.cast(exponent, dtype))


@op("neg(Tensor self) -> Tensor", rule="same", inplace=True, aliases=("negative",), node="NegBackward0", out=FOUND_DTYPE, samples=unary())
def neg(x):
    """`-self`."""
    if x.dtype == "b1":
        raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported. "
                           "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead.")
    return T.prim("neg", x)


@op("positive(Tensor self) -> Tensor", native="positive")
def positive(x):
    """`+self`: the tensor itself."""


@op("abs(Tensor self) -> Tensor", rule="real", inplace="In-place abs is not supported for complex tensors.", aliases=("absolute",), node="AbsBackward0", out=FOUND_DTYPE, refuses="b",
    kernel="abs_cpu", samples=unary(near=[0], plane=True))
def abs(x):
    """The absolute value."""
    return T.prim("abs", x)


@op("sign(Tensor self) -> Tensor", rule="same", inplace=True, node="SignBackward0", out=FOUND_DTYPE, samples=unary(near=[0]),
    refuses={"c": NotImplementedError("Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead.")})
def sign(x):
    """-1, 0 or 1; 0 for NaN."""
    zero = T.const(0, x.dtype)
    if x.dtype == "b1":
        return x
    up, down = T.prim("lt", zero, x), T.prim("lt", x, zero)
    one = T.const(1, x.dtype)
    return T.where(up, one, T.where(down, T.prim("sub", zero, one), zero))


@op("sgn(Tensor self) -> Tensor", once=True, rule="same", inplace=True, node="SgnBackward0", out=FOUND_DTYPE, samples=unary(near=[0], plane=True))
def sgn(x):
    """`sign` for reals; `self / abs(self)` for complex numbers, 0 at 0."""
    if T.is_complex(x.dtype):
        size = T.prim("abs", x)
        nothing = T.const(0, size.dtype)
        zero = T.prim("eq", size, nothing)
        whole = T.where(zero, T.const(1, size.dtype), size)
        parts = [T.where(zero, nothing, T.prim(part, x) / whole) for part in ("real", "imag")]           # 0 of -0 too
        return T.prim("make_complex", *parts)
    return sign(x)


@op("square(Tensor self) -> Tensor", rule=lambda x: ("i64", "i64") if x.dtype == "b1" else "same", inplace=True, node="PowBackward0", samples=unary())
def square(x):
    """`self * self`."""
    return T.prim("mul", x, x)


@square.gradient("self")
def _(grad, self):
    return grad * (self * 2)


@op("reciprocal(Tensor self) -> Tensor", rule="float", inplace=True, node="ReciprocalBackward0", samples=unary(0.1, 5, plane=True))
def reciprocal(x):
    """`1 / self`."""
    return T.const(1, x.dtype) / x


@reciprocal.gradient("self")
def _(grad, result):
    return -(grad * (result * result))


@op("rsqrt(Tensor self) -> Tensor", rule="float", inplace=True, node="RsqrtBackward0", samples=unary(0.1, 5, plane=True))
def rsqrt(x):
    """`1 / sqrt(self)`, exactly so, not an estimate."""
    return T.const(1, x.dtype) / T.prim("sqrt", x)


@rsqrt.gradient("self")
def _(grad, result):
    return grad * (result * result * result) * -0.5


# -------------------------------------------------------------------------------------------------------- mathematics
def _leaf(name, doc, low=-3.0, high=3.0, near=(), **more):
    """A unary op whose body is one primitive of the same name."""
    def body(x):
        return T.prim(name, x)
    body.__name__, body.__doc__ = name, doc
    if name in ("erf", "erfc", "erfinv", "lgamma", "digamma"):
        more.update(refuses="c", kernel=name if name == "digamma" else f"{name}_vml_cpu")
    node = more.pop("node", f"{name.capitalize()}Backward0")
    samples = unary(low, high, near=list(near), plane="refuses" not in more)
    return op(f"{name}(Tensor self) -> Tensor", rule="float", inplace=True, node=node, samples=samples, **more)(body)


exp = _leaf("exp", "e to the power of each element.", near=[0, 88, -88])
exp2 = _leaf("exp2", "2 to the power of each element.", on="torch Tensor special")
expm1 = _leaf("expm1", "`exp(self) - 1`, accurate near zero.", near=[0], on="torch Tensor special")
log = _leaf("log", "The natural logarithm.", 0.01, 10)
log2 = _leaf("log2", "The logarithm to base 2.", 0.01, 10)
log10 = _leaf("log10", "The logarithm to base 10.", 0.01, 10)
log1p = _leaf("log1p", "`log(1 + self)`, accurate near zero.", -0.9, 10, near=[0], node="Log1PBackward0", on="torch Tensor special")
sin = _leaf("sin", "The sine.")
cos = _leaf("cos", "The cosine.")
tan = _leaf("tan", "The tangent.", -1, 1)
asin = _leaf("asin", "The inverse sine.", -0.99, 0.99, aliases=("arcsin",))
acos = _leaf("acos", "The inverse cosine.", -0.99, 0.99, aliases=("arccos",))
atan = _leaf("atan", "The inverse tangent.", aliases=("arctan",))
sinh = _leaf("sinh", "The hyperbolic sine.")
cosh = _leaf("cosh", "The hyperbolic cosine.")
tanh = _leaf("tanh", "The hyperbolic tangent.", -6, 6, near=[0, 1e-7])
asinh = _leaf("asinh", "The inverse hyperbolic sine.", aliases=("arcsinh",))
acosh = _leaf("acosh", "The inverse hyperbolic cosine.", 1.01, 5, aliases=("arccosh",))
atanh = _leaf("atanh", "The inverse hyperbolic tangent.", -0.95, 0.95, aliases=("arctanh",))
sqrt = _leaf("sqrt", "The square root.", 0.01, 10)
sigmoid = _leaf("sigmoid", "`1 / (1 + exp(-self))`.", on="torch Tensor F special", aliases=("special.expit",))
erf = _leaf("erf", "The error function.", near=[0], on="torch Tensor special")
erfc = _leaf("erfc", "`1 - erf(self)`, accurate in the tail.", on="torch Tensor special")
erfinv = _leaf("erfinv", "The inverse of `erf`.", -0.95, 0.95, on="torch Tensor special", saves="self")
lgamma = _leaf("lgamma", "The logarithm of the absolute value of the gamma function.", 0.1, 10, aliases=("special.gammaln",))
digamma = _leaf("digamma", "The derivative of `lgamma`.", 0.2, 10, on="torch Tensor special", aliases=("special.psi",))


def _rounding(name, doc, **more):
    def body(x):
        return T.prim(name, x) if T.is_float(x.dtype) else x
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor self) -> Tensor", rule="same", inplace=True, node=f"{name.capitalize()}Backward0", out=FOUND_DTYPE,
              refuses={"b": None, "c": NotImplementedError(f"{name} is not supported for complex inputs")}, kernel=f"{name}_vml_cpu",
              samples=unary(near=[0, 0.5, 1.5, -0.5]), **more)(body)


floor = _rounding("floor", "The largest integer not above each element.")
ceil = _rounding("ceil", "The smallest integer not below each element.")
trunc = _rounding("trunc", "Each element without its fraction.", aliases=("fix",))


@op(["round(Tensor self) -> Tensor", "round(Tensor self, *, int decimals) -> Tensor"], rule="same", inplace=True, on="torch Tensor special", node="RoundBackward0",
    out=FOUND_DTYPE, refuses="bc", kernel="round_vml_cpu", samples=unary(near=[0.5, 1.5, -0.5]))
def round(self, decimals=0):
    """The nearest integer, halves to even; `decimals` digits after the point are kept."""
    if not T.is_float(self.dtype):
        return self
    if decimals == 0:
        return T.prim("round", self)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    if decimals > 0:
        return T.prim("round", self * scale) / scale
    return T.prim("round", self / scale) * scale


@op("frac(Tensor self) -> Tensor", rule="same", inplace=True, node="FracBackward0", out=FOUND_DTYPE, refuses="bic", kernel="frac_cpu",
    samples=unary())
def frac(x):
    """The fraction, with the sign of the element."""
    return x - T.prim("trunc", x)


@frac.gradient("self")
def _(grad):
    return grad


@op("atan2(Tensor self, Tensor other) -> Tensor", rule="float", inplace=True, node="Atan2Backward0", aliases=("arctan2",), refuses="c",
    kernel="atan2_cpu", samples=binary())
def atan2(self, other):
    """The angle of the point (other, self)."""
    return T.prim("atan2", self, other)


@op("hypot(Tensor self, Tensor other) -> Tensor", rule="float!", inplace=True, node="HypotBackward0", refuses="c", kernel="hypot_cpu",
    samples=binary())
def hypot(self, other):
    """`sqrt(self**2 + other**2)` without overflow."""
    return T.prim("hypot", self, other)


def _no_complex(name):
    return {"c": RuntimeError(f"{name} not implemented for complex tensors.")}


@op(["maximum(Tensor self, Tensor other) -> Tensor"], rule="same", node="MaximumBackward0", refuses=_no_complex("maximum"), samples=binary())
def maximum(self, other):
    """The larger of two elements; NaN if either is."""
    return T.prim("maximum", self, other)


@op(["minimum(Tensor self, Tensor other) -> Tensor"], rule="same", node="MinimumBackward0", refuses=_no_complex("minimum"), samples=binary())
def minimum(self, other):
    """The smaller of two elements; NaN if either is."""
    return T.prim("minimum", self, other)


def _pick(self, other, better):
    """fmax, fmin: NaN loses, ties go to the first."""
    nan_other = T.prim("ne", other, other)
    return T.where(better | nan_other, self, other)


@op("fmax(Tensor self, Tensor other) -> Tensor", rule="same", node="FmaxBackward0", refuses=_no_complex("fmax"), samples=binary())
def fmax(self, other):
    """The larger of two elements, ignoring NaN."""
    return _pick(self, other, T.prim("le", other, self))


@op("fmin(Tensor self, Tensor other) -> Tensor", rule="same", node="FminBackward0", refuses=_no_complex("fmin"), samples=binary())
def fmin(self, other):
    """The smaller of two elements, ignoring NaN."""
    return _pick(self, other, T.prim("le", self, other))


_CLAMP_REFUSES = {"c": NotImplementedError("clamp is not supported for complex types")}


@op(["clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
     "clamp(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor"],
    rule="same", promote=("self", "min", "max"), inplace=True, node=numbered("Clamp", 0, min=1, max=1), aliases=("clip",), refuses=_CLAMP_REFUSES,
    samples=unary(extra=(-1.5, 2.0)))
def clamp(self, min=None, max=None):
    """Each element moved into [min, max]. `min` above `max` gives `max`."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    out = self
    if min is not None:
        out = T.prim("maximum", out, _bound(min, self))
    if max is not None:
        out = T.prim("minimum", out, _bound(max, self))
    return out


def _bound(value, x):
    """A bound in the tensor's dtype: a number that whole dtypes do not hold is refused."""
    return converted(value, x.dtype) if T.scalar_kind(value) == "i" and not T.is_float(x.dtype) else value


def _clamp_mask(self, min, max):
    inside = None
    for low, high in ((min, self), (self, max)):
        if low is None or high is None:
            continue
        test = T.prim("le", low, high)
        inside = test if inside is None else inside & test
    return inside


@clamp.gradient("self")
def _(grad, self, min, max):
    return T.where(_clamp_mask(self, min, max), grad, 0)


@clamp.gradient("min")
def _(grad, self, min, max):
    below = self < min
    if max is not None:
        below = below & T.prim("lt", min, max)
    return T.where(below, grad, 0)


@clamp.gradient("max")
def _(grad, self, min, max):
    above = T.prim("lt", max, self)
    if min is not None:
        above = above | T.prim("lt", max, min)
    return T.where(above, grad, 0)


@op(["clamp_min(Tensor self, Tensor|Scalar min) -> Tensor"], rule="same", converts=True, inplace=True, node=numbered("ClampMin", 1, min=0), refuses=_CLAMP_REFUSES,
    samples=unary(extra=(-1.5,)))
def clamp_min(self, min):
    """`clamp(self, min=min)`."""
    return T.prim("maximum", self, _bound(min, self))


@clamp_min.gradient("self")
def _(grad, self, min):
    return T.where(T.prim("le", min, self), grad, 0)


@clamp_min.gradient("min")
def _(grad, self, min):
    return T.where(self < min, grad, 0)


@op(["clamp_max(Tensor self, Tensor|Scalar max) -> Tensor"], rule="same", converts=True, inplace=True, node=numbered("ClampMax", 1, max=0), refuses=_CLAMP_REFUSES,
    samples=unary(extra=(1.5,)))
def clamp_max(self, max):
    """`clamp(self, max=max)`."""
    return T.prim("minimum", self, _bound(max, self))


@clamp_max.gradient("self")
def _(grad, self, max):
    return T.where(T.prim("le", self, max), grad, 0)


@clamp_max.gradient("max")
def _(grad, self, max):
    return T.where(T.prim("lt", max, self), grad, 0)


def _lerp_rule(self, end, weight):
    """Tensors of one floating dtype; a number may be any real."""
    words = {"f32": "float", "f64": "double", "f16": "c10::Half", "bf16": "c10::BFloat16", "i64": "long", "i32": "int", "c64": "c10::complex<float>",
             "c128": "c10::complex<double>"}
    for name, x in (("end", end), ("weight", weight)):
        if T.scalar_kind(x) is None and x.dtype != self.dtype:
            raise RuntimeError(f"expected dtype {words.get(self.dtype, self.dtype)} for `{name}` but got dtype {words.get(x.dtype, x.dtype)}")
    if not T.is_float(self.dtype) and not T.is_complex(self.dtype):
        kernel = "lerp_kernel_tensor" if T.scalar_kind(weight) is None else "lerp_kernel_scalar"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{T.dtype_word(self.dtype)}'")
    return "keep"


@op(["lerp(Tensor self, Tensor end, Tensor|Scalar weight) -> Tensor"], rule=_lerp_rule, inplace=True,
    node=numbered("Lerp", 1, weight=0), samples=binary(count=3),
    out=lambda given: isinstance(given["weight"], str) or FOUND_DTYPE)         # beside a number as weight torch takes any out= that can hold the result
def lerp(self, end, weight):
    """`self + weight * (end - self)`, exact at both ends."""
    d = end - self
    near = T.prim("fma", weight, d, self)
    far = T.prim("fma", -d, 1 - weight, end)
    return T.where(T.prim("abs", weight) < 0.5, near, far)


@lerp.gradient("self")
def _(grad, weight):
    return grad * (1 - weight)


@lerp.gradient("end")
def _(grad, weight):
    return grad * weight


@lerp.gradient("weight")
def _(grad, self, end):
    return grad * (end - self)


@op(["addcmul(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
     "addcmul(Tensor self, Scalar value, Tensor tensor1, Tensor tensor2) -> Tensor"],          # torch's order of old
    rule="same", inplace=True, node="AddcmulBackward0",
    refuses="b", kernel="addcmul_cpu_out", samples=binary(count=3))
def addcmul(self, tensor1, tensor2, value):
    """`self + value * tensor1 * tensor2`."""
    return self + factor(value, self.dtype) * tensor1 * tensor2


@op(["addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
     "addcdiv(Tensor self, Scalar value, Tensor tensor1, Tensor tensor2) -> Tensor"], once=True,          # torch's order of old
    rule="same", inplace=True, node="AddcdivBackward0",
    samples=binary(count=3, nonzero=True))
def addcdiv(self, tensor1, tensor2, value):
    """`self + value * tensor1 / tensor2`."""
    if not T.is_float(tensor1.dtype) and not T.is_complex(tensor1.dtype):
        raise RuntimeError("Integer division with addcdiv is no longer supported, and in a future release addcdiv will perform a true "
                           "division of tensor1 and tensor2. The historic addcdiv behavior can be implemented as "
                           "(self + value * torch.trunc(tensor1 / tensor2)).to(self.dtype) for integer inputs")
    return self + factor(value, self.dtype) * tensor1 / tensor2


@op("nan_to_num(Tensor self, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor", rule="same", inplace=True,
    out="nan_to_num: dtype of out: {out} should be same as input: {result}", node="NanToNumBackward0", samples=unary())
def nan_to_num(self, nan, posinf, neginf):
    """NaN and infinities replaced: by 0 and the largest finite numbers unless given."""
    if not T.is_float(self.dtype):
        return self
    low, high = T.finite_range(T.result_dtype(self))
    nan = T.const(0.0, self.dtype) if nan is None else T.cast(nan, self.dtype)
    posinf = T.const(high, self.dtype) if posinf is None else T.cast(posinf, self.dtype)
    neginf = T.const(low, self.dtype) if neginf is None else T.cast(neginf, self.dtype)
    out = T.where(T.prim("ne", self, self), nan, self)
    out = T.where(T.prim("eq", self, T.const(INF, self.dtype)), posinf, out)
    return T.where(T.prim("eq", self, T.const(-INF, self.dtype)), neginf, out)


@nan_to_num.gradient("self")
def _(grad, self):
    return T.where(T.prim("abs", self) < INF, grad, 0)


# ------------------------------------------------------------------------------------------------ comparison and logic
def _comparison(name, formula, doc, **more):
    def body(self, other):
        return formula(self, other)
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor self, Tensor|Scalar other) -> Tensor", rule="bool", inplace=True, differentiable=False, samples=binary(),
              refuses="" if name in ("eq", "ne") else "c", kernel=f"{name}_cpu", **more)(body)


eq = _comparison("eq", lambda a, b: T.prim("eq", a, b), "Where the elements are equal.")
ne = _comparison("ne", lambda a, b: T.prim("ne", a, b), "Where the elements differ.", aliases=("not_equal",))
lt = _comparison("lt", lambda a, b: T.prim("lt", a, b), "Where self is less.", aliases=("less",))
le = _comparison("le", lambda a, b: T.prim("le", a, b), "Where self is not greater.", aliases=("less_equal",))
gt = _comparison("gt", lambda a, b: T.prim("lt", b, a), "Where self is greater.", aliases=("greater",))
ge = _comparison("ge", lambda a, b: T.prim("le", b, a), "Where self is not less.", aliases=("greater_equal",))


def truth(x):
    """`x != 0`, as a b1 value."""
    return x if x.dtype == "b1" else T.prim("ne", x, T.const(0, x.dtype))


def _logical(name, formula, doc):
    def body(self, other):
        return formula(truth(self), truth(other))
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor self, Tensor other) -> Tensor", rule="bool", inplace=True, differentiable=False, samples=binary())(body)


logical_and = _logical("logical_and", lambda a, b: a & b, "Where both are not zero.")
logical_or = _logical("logical_or", lambda a, b: a | b, "Where either is not zero.")
logical_xor = _logical("logical_xor", lambda a, b: a ^ b, "Where just one is not zero.")


@op("logical_not(Tensor self) -> Tensor", rule="bool", inplace=True, differentiable=False, samples=unary(near=[0]))
def logical_not(x):
    """Where the element is zero."""
    return T.prim("bit_not", truth(x))


def _bitwise(name, prim, doc, refuses="fc", kernel=None, **more):
    def body(self, other):
        return T.prim(prim, self, other)
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", rule="same", inplace=True, differentiable=False,
              refuses=refuses, kernel=kernel or f"{name}_cpu", samples=binary(dtype="i64"), **more)(body)


bitwise_and = _bitwise("bitwise_and", "bit_and", "Bits set in both; `and` for bool.")
bitwise_or = _bitwise("bitwise_or", "bit_or", "Bits set in either; `or` for bool.")
bitwise_xor = _bitwise("bitwise_xor", "bit_xor", "Bits set in just one.")
bitwise_left_shift = _bitwise("bitwise_left_shift", "shl", "Bits moved left; 0 when moved out.", "bfc", "lshift_cpu")
bitwise_right_shift = _bitwise("bitwise_right_shift", "shr", "Bits moved right, keeping the sign.", "bfc", "rshift_cpu")


@op("bitwise_not(Tensor self) -> Tensor", rule="same", inplace=True, differentiable=False, refuses="fc", kernel="bitwise_not_cpu",
    samples=unary(dtype="i64"))
def bitwise_not(x):
    """Every bit turned over; `not` for bool."""
    return T.prim("bit_not", x)


def _test(name, formula, doc, **more):
    def body(x):
        if not T.is_float(x.dtype) and not T.is_complex(x.dtype):
            return T.expand(T.const(name == "isfinite", "b1"), x.shape)
        return formula(x)
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor self) -> Tensor", rule="bool", differentiable=False, samples=unary(near=[0]), **more)(body)


isnan = _test("isnan", lambda x: T.prim("ne", x, x), "Where the element is NaN.")
isinf = _test("isinf", lambda x: T.prim("eq", T.prim("abs", x), T.const(INF, T.real_dtype(x.dtype))), "Where the element is infinite.")
isfinite = _test("isfinite", lambda x: T.prim("lt", T.prim("abs", x), T.const(INF, T.real_dtype(x.dtype))), "Where the element is a finite number.")
isposinf = _test("isposinf", lambda x: T.prim("eq", x, T.const(INF, x.dtype)), "Where the element is +inf.",
                 refuses={"c": RuntimeError("isposinf does not support complex inputs.")}, out="isposinf does not support non-boolean outputs.")
isneginf = _test("isneginf", lambda x: T.prim("eq", x, T.const(-INF, x.dtype)), "Where the element is -inf.",
                 refuses={"c": RuntimeError("isneginf does not support complex inputs.")}, out="isneginf does not support non-boolean outputs.")


@op("signbit(Tensor self) -> Tensor", rule="bool", differentiable=False, out="signbit does not support non-boolean outputs.",
    refuses={"c": NotImplementedError("signbit is not implemented for complex tensors.")}, samples=unary(near=[0]))
def signbit(x):
    """Where the sign is negative, also of zero and NaN."""
    if T.is_float(x.dtype):
        return T.prim("lt", T.prim("copysign", T.const(1, x.dtype), x), T.const(0, x.dtype))
    return T.prim("lt", x, T.const(0, x.dtype)) if x.dtype != "b1" else T.expand(T.const(False, "b1"), x.shape)


@op("copysign(Tensor self, Tensor|Scalar other) -> Tensor", rule="float", inplace=True, refuses="c",
    node=numbered("Copysign", 0, other=1), kernel="copysign_cpu", samples=binary())
def copysign(self, other):
    """The size of self with the sign of other."""
    return T.prim("copysign", self, other)


def _not_negative(number, name, x):
    """x, after testing a tolerance. (torch's message ends with the number, which is not known here.)"""
    number = T.cast(number, "f64")
    return required(T.prim("le", T.const(0, "f64"), number), x, ("RuntimeError", f"{name} must be greater than or equal to zero"))


def _isclose_rule(self, other, *_):
    if self.dtype != other.dtype:
        raise RuntimeError(f"{T.dtype_word(self.dtype)} did not match {T.dtype_word(other.dtype)}")
    return "bool"


@op("isclose(Tensor self, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) -> Tensor", rule=_isclose_rule,
    differentiable=False, samples=binary())
def isclose(self, other, rtol, atol, equal_nan):
    """Where `abs(self - other) <= atol + rtol * abs(other)`; equal infinities are close."""
    close = T.prim("eq", self, other)
    self = _not_negative(rtol, "rtol", _not_negative(atol, "atol", self))
    real = T.is_float(self.dtype)
    if equal_nan and real:
        close = close | (T.prim("ne", self, self) & T.prim("ne", other, other))
    a, b = (self, other) if real or T.is_complex(self.dtype) else (T.cast(self, "f64"), T.cast(other, "f64"))
    wide = T.real_dtype(a.dtype)
    allowed = T.cast(atol, wide) + T.cast(rtol, wide) * T.prim("abs", b)
    gap = T.prim("abs", a - b)
    return close | (T.prim("lt", gap, T.const(INF, wide)) & T.prim("le", gap, allowed))


# ------------------------------------------------------------------------------------------------------------ selection
@op(["where(Tensor condition, Tensor|Scalar self, Tensor|Scalar other) -> Tensor", "where(Tensor condition) -> Tensor[]"], rule=None,
    layout="pointwise", node="WhereBackward0", on="torch", method_of="self", native=("where_positions", 1),
    out="Expected out type to be {result} but got {out}", samples=binary(condition=True))
def where(condition, self, other):
    """`self` where the condition holds, `other` elsewhere. With the condition alone: the positions where it holds, a tensor for each dimension."""
    if condition.dtype not in ("b1", "u8"):
        raise RuntimeError(f"where expected condition to be a boolean tensor, but got a tensor with dtype {T.dtype_word(condition.dtype)}")
    if condition.dtype == "u8": T.warn("where(): a condition of dtype uint8 is deprecated; it should be of dtype bool", once=True)
    dtype = T.promote(self, other)
    return T.where(truth(condition), T.cast(self, dtype), T.cast(other, dtype))


@op(["masked_fill(Tensor self, Tensor mask, Scalar value) -> Tensor", "masked_fill(Tensor self, Tensor mask, Tensor value) -> Tensor"],
    rule=None, inplace=True, layout="pointwise contiguous", node=numbered("MaskedFill", 1, value=0), samples=binary(condition="second"))
def masked_fill(self, mask, value):
    """`value` where the mask holds, `self` elsewhere."""
    if mask.dtype != "b1":
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {T.dtype_word(mask.dtype)}")
    if value.ndim != 0:
        raise RuntimeError("masked_fill_ only supports a 0-dimensional value tensor, but got tensor "
                           f"with {value.ndim} dimension(s).")
    return T.where(mask, converted(value, self.dtype), self)


_HEAVISIDE_DTYPES = "heaviside is not yet implemented for tensors with different dtypes."


def _heaviside_rule(self, values):
    if self.dtype != values.dtype:
        raise RuntimeError(_HEAVISIDE_DTYPES)
    return "same"


@op("heaviside(Tensor self, Tensor values) -> Tensor", rule=_heaviside_rule, inplace=True, out=_HEAVISIDE_DTYPES,
    refuses={"c": RuntimeError("heaviside is not yet implemented for complex tensors.")}, samples=binary())
def heaviside(self, values):
    """0 below zero, 1 above, `values` at zero."""
    zero = T.const(0, self.dtype)
    step = T.where(T.prim("lt", zero, self), T.const(1, self.dtype), zero)
    return T.where(T.prim("eq", self, zero), values, step)


heaviside.gradient("self", "values")(underived("heaviside"))


@op("xlogy(Tensor|Scalar self, Tensor|Scalar other) -> Tensor", rule="float", inplace=True, on="torch Tensor special", refuses="c",
    kernel="xlogy_cpu", node=numbered("Xlogy", 0, self=1, other=2), samples=binary(positive=True))
def xlogy(self, other):
    """`self * log(other)`, 0 where self is 0."""
    out = T.where(T.prim("eq", self, T.const(0, self.dtype)), 0, self * T.prim("log", other))
    return T.where(T.prim("ne", other, other), other, out)


@xlogy.gradient("self")
def _(grad, self, other):
    dead = T.prim("eq", self, T.const(0, self.dtype)) & T.prim("le", other, T.const(0, other.dtype))
    return T.where(dead, 0, grad * T.prim("log", T.where(dead, 1, other)))


@xlogy.gradient("other")
def _(grad, self, other):
    return grad * self / other


@op(["logaddexp(Tensor self, Tensor other) -> Tensor"], rule="float!", node="LogaddexpBackward0", kernel="logaddexp_cpu", samples=binary())
def logaddexp(self, other):
    """`log(exp(self) + exp(other))` without overflow."""
    if T.is_complex(self.dtype):
        return _complex_logaddexp(self, other)
    same = T.prim("eq", self, other) & T.prim("eq", T.prim("abs", self), T.const(INF, self.dtype))
    m = T.prim("maximum", self, other)
    return T.where(same, self, m + T.prim("log1p", T.prim("exp", -T.prim("abs", self - other))))


def _complex_logaddexp(a, b):
    """The one with the smaller real part is added to the other. Equal infinities: of -inf nothing is left, of +inf the angles still count."""
    x, y = T.prim("real", a), T.prim("real", b)
    swap = T.prim("lt", x, y)
    top, low = T.where(swap, b, a), T.where(swap, a, b)
    tied = T.prim("eq", x, y) & T.prim("eq", T.prim("abs", x), T.const(INF, x.dtype))
    plain = top + T.prim("log1p", T.prim("exp", low - T.where(tied, 0, top)))
    lost = T.where(T.prim("lt", x, T.const(0, x.dtype)), a, T.prim("log", T.prim("exp", a) + T.prim("exp", b)))
    return T.where(tied, lost, plain)


@logaddexp.gradient("self")
def _(grad, self, other):
    return grad / (1 + T.prim("exp", other - self))              # not through the result, which half precision has rounded


@logaddexp.gradient("other")
def _(grad, self, other):
    return grad / (1 + T.prim("exp", self - other))


def _scale(name, factor, doc):
    def body(x):
        return x * factor
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor self) -> Tensor", rule="float", inplace=True, samples=unary(),
              refuses={"c": RuntimeError(f"{name} is not supported for complex tensors.")})(body)


deg2rad = _scale("deg2rad", math.pi / 180, "Degrees to radians.")
rad2deg = _scale("rad2deg", 180 / math.pi, "Radians to degrees.")

__all__ = [name for name in dir() if not name.startswith("_") and name not in ("annotations", "math", "T", "op", "binary", "unary", "INF", "FOUND_DTYPE", "converted", "required", "rounded")]
