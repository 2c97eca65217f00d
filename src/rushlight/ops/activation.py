"""Activation functions and the softmax family."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples import channels, reduction, unary
from .common import FOUND_DTYPE, INTEGER_RANGE, hint, wrap_dim
from .elementwise import exp, log1p, neg, sigmoid, tanh, where

_NO_COMPLEX_CLAMP = NotImplementedError("clamp is not supported for complex types")


@op("relu(Tensor self) -> Tensor", rule="same", inplace=True, on="torch Tensor", node="ReluBackward0", out=False,
    refuses={"b": RuntimeError("Boolean inputs not supported for relu"), "c": _NO_COMPLEX_CLAMP}, samples=unary(near=[0]))
def relu(x):
    """The element where it is above zero, zero elsewhere; NaN stays."""
    zero = T.const(0, x.dtype)
    return T.where(T.prim("le", x, zero), zero, x)


@relu.gradient("self")
def _(grad, result):
    return T.where(T.prim("le", result, T.const(0, result.dtype)), 0, grad)


@op("hardtanh(Tensor self, Scalar! min_val=-1, Scalar! max_val=1) -> Tensor", rule="same", inplace=True, on="F", node="HardtanhBackward0",
    saves="self", refuses={"b": RuntimeError("Bool inputs not supported for hardtanh"), "c": _NO_COMPLEX_CLAMP}, samples=unary(near=[-1, 1]))
def hardtanh(x, min_val, max_val):
    """Each element moved into [min_val, max_val]; no gradient at the ends."""
    if x.dtype == "u8" and (min_val < 0 or max_val < 0):
        raise RuntimeError("cannot do hardtanh on an unsigned type with negative limits")
    if x.dtype in INTEGER_RANGE:
        low, high, word = INTEGER_RANGE[x.dtype]
        if not (low <= min_val <= high and low <= max_val <= high):
            raise RuntimeError(f"value cannot be converted to type {word} without overflow")
    return T.prim("minimum", T.prim("maximum", x, min_val), max_val)


@hardtanh.gradient("self")
def _(grad, self, min_val, max_val):
    out = T.prim("le", self, min_val) | T.prim("le", max_val, self)
    return T.where(out, 0, grad)


@op("leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor", rule="float!", inplace=True, on="F", node="LeakyReluBackward0",
    refuses="c", kernel="leaky_relu_cpu", samples=unary(near=[0]))
def leaky_relu(x, negative_slope):
    """The element above zero, `negative_slope` times it elsewhere."""
    return T.where(T.prim("lt", T.const(0, x.dtype), x), x, x * negative_slope)


@op("elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor", rule="float!", inplace=True, on="F",
    node="EluBackward0", refuses="c", kernel="elu_cpu", samples=unary(near=[0]))
def elu(x, alpha, scale, input_scale):
    """x above zero, `alpha * (exp(x) - 1)` below."""
    low = T.prim("expm1", T.prim("minimum", x, T.const(0, x.dtype)) * input_scale) * (alpha * scale)
    return T.where(T.prim("le", x, T.const(0, x.dtype)), low, x * scale)


@elu.gradient("self")
def _(grad, self, alpha, scale, input_scale):
    low = grad * (input_scale * (alpha * scale)) * T.prim("exp", T.prim("minimum", self, T.const(0, self.dtype)) * input_scale)
    return T.where(T.prim("le", self, T.const(0, self.dtype)), low, grad * scale)


SELU_ALPHA, SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@op("selu(Tensor self) -> Tensor", rule="float!", inplace=True, on="torch", node="EluBackward0", out=False, refuses="c", kernel="elu_cpu",
    samples=unary(near=[0]))
def selu(x):
    """elu with the constants that keep mean and variance."""
    return elu(x, T.const(SELU_ALPHA, x.dtype), T.const(SELU_SCALE, x.dtype), T.const(1, x.dtype))


@op("celu(Tensor self, Scalar! alpha=1.0) -> Tensor", rule="float!", inplace=True, on="torch", node="CeluBackward0", out=False, refuses="c",
    kernel="elu_cpu", samples=unary(near=[0]))
def celu(x, alpha):
    """x above zero, `alpha * (exp(x / alpha) - 1)` below."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    alpha = T.const(float(alpha), x.dtype)
    return elu(x, alpha, T.const(1, x.dtype), T.const(1, x.dtype) / alpha)


@op("gelu(Tensor self, *, str approximate='none') -> Tensor", rule="float!", inplace=False, on="F", node="GeluBackward0",
    saves="self", out=FOUND_DTYPE, refuses="c", kernel="GeluKernelImpl", samples=unary(near=[0]))
def gelu(x, approximate):
    """x times the normal distribution's probability of being below x; 'tanh' approximates it."""
    if approximate == "none":
        return x * 0.5 * (1.0 + T.prim("erf", x * math.sqrt(0.5)))
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x))
        return 0.5 * x * (1.0 + T.prim("tanh", inner))
    raise RuntimeError("approximate argument must be either none or tanh.")


@op("silu(Tensor self) -> Tensor", rule="float!", inplace=True, on="F", node="SiluBackward0", saves="self", kernel="silu_cpu", out=FOUND_DTYPE,
    samples=unary(near=[0]))
def silu(x):
    """`x * sigmoid(x)`."""
    return x / (1.0 + T.prim("exp", -x))


@silu.gradient("self")
def _(grad, self):
    s = T.prim("sigmoid", self)
    return grad * (s * (1.0 + self * (1.0 - s)))


@op("mish(Tensor self) -> Tensor", rule="float!", inplace=True, on="F", node="MishBackward0", saves="self", refuses="c", kernel="mish_cpu",
    samples=unary(near=[0]))
def mish(x):
    """`x * tanh(softplus(x))`."""
    big = x > 20.0
    return x * tanh(where(big, x, log1p(exp(where(big, 0, x)))))


@op("softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor", rule="float!", on="F", saves="self",
    node="SoftplusBackward0", refuses="c", kernel="softplus_cpu", out=FOUND_DTYPE, samples=unary(near=[0, 20]))
def softplus(x, beta, threshold):
    """Smooth relu: `log(1 + exp(beta*x)) / beta`, and x itself past the threshold."""
    z = x * beta
    big = z > threshold
    return where(big, x, log1p(exp(where(big, 0, z))) / beta)   # guard the input: where does not protect a gradient


@op("logsigmoid(Tensor self) -> Tensor", rule="float!", on="F", saves="self", node="LogSigmoidBackward0", refuses="c", kernel="log_sigmoid_cpu",
    out="expected scalar type {result} but found {out}", samples=unary(near=[0]))
def logsigmoid(x):
    """`log(sigmoid(x))` without overflow."""
    return T.prim("minimum", x, T.const(0, x.dtype)) - T.prim("log1p", T.prim("exp", -T.prim("abs", x)))


@logsigmoid.gradient("self")
def _(grad, self):
    return grad * T.prim("sigmoid", -self)


@op("hardsigmoid(Tensor self) -> Tensor", rule="float!", inplace=True, on="F", saves="self", node="HardsigmoidBackward0", refuses="c",
    kernel="hardsigmoid_cpu", out=FOUND_DTYPE, samples=unary(near=[-3, 3]))
def hardsigmoid(x):
    """`clamp(x + 3, 0, 6) / 6`."""
    return T.prim("minimum", T.prim("maximum", x + 3.0, T.const(0, x.dtype)), T.const(6, x.dtype)) / 6.0


@hardsigmoid.gradient("self")
def _(grad, self):
    return T.where((self > -3.0) & (self < 3.0), grad / 6.0, 0)


@op("hardswish(Tensor self) -> Tensor", rule="float!", inplace=True, on="F", saves="self", node="HardswishBackward0", refuses="c",
    kernel="hardswish_cpu", samples=unary(near=[-3, 3]))
def hardswish(x):
    """`x * hardsigmoid(x)`."""
    return x * T.prim("minimum", T.prim("maximum", x + 3.0, T.const(0, x.dtype)), T.const(6, x.dtype)) / 6.0


@hardswish.gradient("self")
def _(grad, self):
    return T.where(T.prim("le", self, T.const(-3, self.dtype)), 0, T.where(self < 3.0, grad * (self / 3.0 + 0.5), grad))


@op("softsign(Tensor self) -> Tensor", rule="float", on="F", out=False, node="DivBackward0", saves="self", refuses="b", kernel="abs_cpu", samples=unary(near=[0]))
def softsign(x):
    """`x / (1 + abs(x))`."""
    return x / (T.prim("abs", x) + 1.0)


@op("tanhshrink(Tensor self) -> Tensor", rule="float", on="F", node="SubBackward0", out=False, samples=unary(near=[0]),
    refuses={"b": RuntimeError("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the "
                               "`~` or `logical_not()` operator instead.")})
def tanhshrink(x):
    """`x - tanh(x)`."""
    return x - T.prim("tanh", x)


@op("hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor", rule="float!", on="F torch Tensor", node="HardshrinkBackward0",
    refuses="c", kernel="hardshrink_cpu", out=FOUND_DTYPE, samples=unary(near=[0.5, -0.5]))
def hardshrink(x, lambd):
    """0 within `lambd` of zero, the element elsewhere."""
    return T.where(T.prim("le", -lambd, x) & T.prim("le", x, lambd), 0, x)


@op("softshrink(Tensor self, Scalar! lambd=0.5) -> Tensor", rule="float!", on="F", node="SoftshrinkBackward0", refuses="c",
    kernel="softshrink_check", out=FOUND_DTYPE, samples=unary(near=[0.5, -0.5]))
def softshrink(x, lambd):
    """The element moved `lambd` towards zero, 0 within."""
    if not lambd >= 0:
        raise RuntimeError(f"lambda must be in range [0, 3.40282e+38] for input dtype {T.dtype_word(T.result_dtype(x))}, but found {lambd}")
    return T.where(x > lambd, x - lambd, T.where(x < -lambd, x + lambd, x * 0))


@op("threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor", rule="same", inplace=True, on="F torch",
    node="ThresholdBackward0", refuses="bc", kernel="threshold_cpu", samples=unary(near=[0.5], extra=(0.5, -2.0)))
def threshold(x, threshold, value):
    """The element where it is above the threshold, `value` elsewhere."""
    return T.where(T.prim("le", x, threshold), value, x)


def _prelu_rule(x, weight):
    if x.dtype != weight.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {T.dtype_word(x.dtype)} and {T.dtype_word(weight.dtype)}")
    return "float!"


@op("prelu(Tensor self, Tensor weight) -> Tensor", rule=_prelu_rule, on="torch Tensor F", node="PreluKernelBackward0", out=False, refuses="c",
    kernel="prelu_cpu", samples=channels("prelu"))
def prelu(x, weight):
    """leaky_relu with a learned slope, one for all channels or one each."""
    if weight.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight.ndim}")
    if not weight.numel() == 1:
        if x.ndim == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = x.shape[1] if x.ndim > 1 else 1
        if not weight.shape[0] == channels:
            raise RuntimeError(f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {hint(weight.shape[0])} and channel "
                               f"size = {hint(channels)}.")
        weight = T.reshape(weight, tuple(weight.shape[0] if d == 1 else 1 for d in range(x.ndim)))
    else:
        weight = T.reshape(weight, ())
    return T.where(T.prim("lt", T.const(0, x.dtype), x), x, x * weight)


@op("glu(Tensor self, int dim=-1) -> Tensor", rule="float!", on="F", layout="narrowed", node="GluBackward0", refuses="c", kernel="glu_cpu",
    samples=channels("glu"))
def glu(x, dim):
    """The first half times the sigmoid of the second."""
    if x.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    d = wrap_dim(dim, x.ndim)
    n = x.shape[d]
    if not n % 2 == 0:
        raise RuntimeError(f"Halving dimension must be even, but dimension {d} is size {n}")
    return T.slice(x, d, 0, n // 2, 1) * T.prim("sigmoid", T.slice(x, d, n // 2, n, 1))


# ------------------------------------------------------------------------------------------------------------ softmax
def _shifted(x, d):
    return x - T.stop(T.reduce("amax", x, (d,)))


def log_softmax_rows(x, d):
    """The formula without a stated gradient, for operators that go on from it: what they derive keeps two numbers a row, not the row."""
    z = _shifted(x, d)
    return z - T.prim("log", T.reduce("sum", T.prim("exp", z), (d,)))


def _needs_float(x, name, d):
    if not T.is_float(x.dtype):
        kernel = f"{name}_lastdim_kernel_impl" if d == x.ndim - 1 else f"{name}_kernel_impl"
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{T.dtype_word(x.dtype)}': {name} needs a floating point tensor; "
                                  "pass dtype= to convert first")


@op("softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", rule="dtype", on="torch Tensor special", layout="contiguous",
    node="SoftmaxBackward0", out="Expected out tensor to have dtype {result_c}, but got {out_c} instead", saves="result", samples=reduction(dim_required=True, keepdim=False))
def softmax(x, dim, dtype):
    """`exp(x) / sum(exp(x))` along `dim`, in one kernel."""
    d = wrap_dim(dim, x.ndim)
    _needs_float(x, "softmax", d)
    if x.ndim and x.shape[d] == 0:
        return x
    e = T.prim("exp", _shifted(x, d))
    return e / T.reduce("sum", e, (d,))


@softmax.gradient("self")
def _(grad, result, dim):
    d = wrap_dim(dim, result.ndim)
    return result * (grad - T.reduce("sum", grad * result, (d,)))


@op("log_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor", rule="dtype", on="torch Tensor special", layout="contiguous",
    node="LogSoftmaxBackward0", out="Expected out tensor to have dtype {result_c}, but got {out_c} instead", saves="result", samples=reduction(dim_required=True, keepdim=False))
def log_softmax(x, dim, dtype):
    """`log(softmax(x))` along `dim`, in one kernel."""
    d = wrap_dim(dim, x.ndim)
    _needs_float(x, "log_softmax", d)
    if x.ndim and x.shape[d] == 0:
        return x
    return log_softmax_rows(x, d)


@log_softmax.gradient("self")
def _(grad, result, dim):
    d = wrap_dim(dim, result.ndim)
    return grad - T.prim("exp", result) * T.reduce("sum", grad, (d,))


@op("softmax(Tensor input, int? dim=None, int _stacklevel=3, ScalarType? dtype=None) -> Tensor", name="nn.softmax", rule="dtype", on="F", layout="contiguous",
    node="SoftmaxBackward0", out=False)
def nn_softmax(x, dim, _stacklevel, dtype):
    """softmax with torch's old default for `dim`."""
    return softmax(x, _implicit_dim("softmax", dim, x.ndim))


@op("log_softmax(Tensor input, int? dim=None, int _stacklevel=3, ScalarType? dtype=None) -> Tensor", name="nn.log_softmax", rule="dtype", on="F",
    layout="contiguous", node="LogSoftmaxBackward0", out=False)
def nn_log_softmax(x, dim, _stacklevel, dtype):
    """log_softmax with torch's old default for `dim`."""
    return log_softmax(x, _implicit_dim("log_softmax", dim, x.ndim))


@op("softmin(Tensor input, int? dim=None, int _stacklevel=3, ScalarType? dtype=None) -> Tensor", rule=None, on="F", layout="contiguous",
    node="SoftmaxBackward0", out=False)
def softmin(x, dim, _stacklevel, dtype):
    """`softmax(-x)`: negated first, then converted, as torch does (an unsigned integer wraps)."""
    return softmax(neg(x), _implicit_dim("softmin", dim, x.ndim), dtype=dtype)


def _implicit_dim(name, dim, ndim):
    """Without a dim: the first for 0, 1 and 3 dimensions, else the second."""
    if dim is not None: return dim
    chosen = 0 if ndim in (0, 1, 3) else 1
    T.warn(f"{name} without a dim is deprecated. For {ndim} dimensions dim={chosen} was chosen.")
    return chosen


__all__ = ["relu", "hardtanh", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "logsigmoid", "hardsigmoid", "hardswish", "softsign",
           "tanhshrink", "hardshrink", "softshrink", "threshold", "prelu", "glu", "softmax", "log_softmax", "sigmoid", "tanh"]
