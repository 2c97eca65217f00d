"""Complex numbers from their parts, and the operators on the bits of numbers: gcd, lcm, nextafter, frexp, hash_tensor."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples import binary, reduction, unary
from .common import FOUND_DTYPE, drop_dims, wrap_dims

_COMPLEX_OUT = "Expected object of scalar type {result} but got scalar type {out} for argument 'out'"


@op("conj_physical(Tensor self) -> Tensor", rule="same", inplace=True, out=FOUND_DTYPE, node="ConjPhysicalBackward0", samples=unary(dtype="c64"))
def conj_physical(x):
    """The conjugate, computed now (`conj` only marks the tensor); a real tensor is returned as it is.

    >>> rushlight.conj_physical(rushlight.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return T.prim("conj", x) if T.is_complex(x.dtype) else T.alias(x)


def _parts_rule(a, b, _=None):
    """Two tensors of one floating dtype; their complex dtype."""
    if a.dtype not in ("f16", "f32", "f64") or b.dtype not in ("f16", "f32", "f64"):
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {T.dtype_word(a.dtype)} and {T.dtype_word(b.dtype)}")
    if a.dtype != b.dtype:
        raise RuntimeError(f"Expected object of scalar type {T.dtype_word(a.dtype)} but got scalar type {T.dtype_word(b.dtype)} for second argument")
    return T.compute_dtype(a.dtype), T.complex_dtype(a.dtype)


@op("complex(Tensor real, Tensor imag) -> Tensor", once=True, rule=_parts_rule, on="torch", out=_COMPLEX_OUT, node="ComplexBackward0", samples=binary())
def complex(real, imag):
    """Complex numbers from their real and imaginary parts.

    >>> rushlight.complex(rushlight.tensor([1.0]), rushlight.tensor([2.0]))
    tensor([1.+2.j])
    """
    return T.prim("make_complex", real, imag)


def _polar_rule(abs, angle):
    if abs.dtype == "f16" and angle.dtype == "f16":
        raise NotImplementedError("\"polar_cpu\" not implemented for 'Half'")
    return _parts_rule(abs, angle)


@op("polar(Tensor abs, Tensor angle) -> Tensor", rule=_polar_rule, on="torch", out=_COMPLEX_OUT, node="PolarBackward0", samples=binary(positive=True))
def polar(abs, angle):
    """Complex numbers from their lengths and angles."""
    return T.prim("make_complex", abs * T.prim("cos", angle), abs * T.prim("sin", angle))


# -------------------------------------------------------------------------------------------------------------- integers
def _common_divisor(a, b):
    """Euclid's algorithm on sizes. Its longest run is on neighbouring Fibonacci numbers: 92 of them fit in 64 bits."""
    start = [T.prim("abs", x) for x in (a, b)]
    zero = T.const(0, a.dtype)
    _, out = T.loop(lambda a, b: T.prim("ne", a, T.const(0, a.dtype)), lambda a, b: (T.prim("fmod", b, a), a), start, trips=93)
    return T.where(T.prim("ne", out, zero), T.prim("abs", out), zero)


@op("gcd(Tensor self, Tensor other) -> Tensor", rule="same", inplace=True, differentiable=False, refuses="bfc", kernel="gcd_cpu",
    samples=binary(dtype="i64"))
def gcd(self, other):
    """The greatest common divisor, not negative; `gcd(0, 0)` is 0.

    >>> rushlight.gcd(rushlight.tensor([12, -8]), rushlight.tensor([18, 12]))
    tensor([6, 4])
    """
    return _common_divisor(self, other)


@op("lcm(Tensor self, Tensor other) -> Tensor", rule="same", inplace=True, differentiable=False, refuses="bfc", kernel="lcm_cpu",
    samples=binary(dtype="i64"))
def lcm(self, other):
    """The least common multiple, not negative; 0 where either is 0."""
    divisor = _common_divisor(self, other)
    none = T.prim("eq", divisor, T.const(0, divisor.dtype))
    whole = T.prim("idiv", self, T.where(none, T.const(1, divisor.dtype), divisor))
    return T.where(none, T.const(0, divisor.dtype), T.prim("abs", whole * other))


# ------------------------------------------------------------------------------------------------------ the bits of floats
_BITS = {"f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}


def _nextafter_rule(self, other):
    dtype = T.promote(self, other)
    if dtype not in _BITS:
        raise NotImplementedError(f"\"nextafter_cpu\" not implemented for '{T.dtype_word(dtype)}'")
    return None


@op("nextafter(Tensor self, Tensor other) -> Tensor", rule=_nextafter_rule, inplace=True, node="NextafterBackward0", samples=binary())
def nextafter(self, other):
    """The next floating number after `self` in the direction of `other`."""
    dtype = T.promote(self, other)
    x, y = T.cast(self, dtype), T.cast(other, dtype)
    word = _BITS[dtype]
    bits, one = T.bitcast(x, word), T.const(1, word)
    zero = T.const(0, dtype)
    outward = T.prim("eq", T.prim("lt", x, y), T.prim("lt", zero, x))
    step = T.bitcast(T.where(outward, bits + one, bits - one), dtype)
    smallest = T.bitcast(T.expand(one, step.shape), dtype)
    step = T.where(T.prim("eq", x, zero), T.prim("copysign", smallest, y), step)
    step = T.where(T.prim("eq", x, y), y, step)
    return T.where(T.prim("ne", x, x) | T.prim("ne", y, y), T.const(math.nan, dtype), step)


@nextafter.gradient("self")
def _(grad, self, other):
    return T.where(T.prim("eq", self, other), 0, grad)           # a step of one unit: the slope is 1, but for those that are there already


@nextafter.gradient("other")
def _(grad):
    return T.const(0, grad.dtype)


def _frexp_rule(x):
    if not T.is_float(x.dtype):
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return T.compute_dtype(x.dtype), (x.dtype, "i32")


@op("frexp(Tensor self) -> (Tensor mantissa, Tensor exponent)", rule=_frexp_rule, node="FrexpBackward0",
    out="torch.frexp() expects mantissa to have dtype {result_c} but got {out_c}", samples=unary(near=[0, 1]))
def frexp(x):
    """`self = mantissa * 2**exponent` with the mantissa in [0.5, 1), and 0 for zeros, infinities and NaN."""
    word, mantissa, bias = ("i32", 23, 126) if x.dtype == "f32" else ("i64", 52, 1022)
    size = T.prim("abs", x)
    tiny = T.prim("lt", size, T.const(2.0 ** (2 - bias), x.dtype))
    raised = T.where(tiny, x * T.const(2.0 ** (mantissa + 2), x.dtype), x)
    bits = T.bitcast(raised, word)
    field = (1 << (62 - mantissa if word == "i64" else 30 - mantissa)) * 2 - 1
    exponent = T.prim("bit_and", T.prim("shr", bits, T.const(mantissa, word)), T.const(field, word)) - T.const(bias, word)
    exponent = exponent - T.where(tiny, T.const(mantissa + 2, word), T.const(0, word))
    kept = T.prim("bit_and", bits, T.const(-1 - (field << mantissa), word))
    fraction = T.bitcast(T.prim("bit_or", kept, T.const(bias << mantissa, word)), x.dtype)
    plain = T.prim("eq", x, T.const(0, x.dtype)) | ~T.prim("lt", size, T.const(math.inf, x.dtype))
    return T.where(plain, x, fraction), T.cast(T.where(plain, T.const(0, word), exponent), "i32")


@frexp.gradient("self")
def _(grad_mantissa, exponent):
    return grad_mantissa / T.prim("exp2", T.cast(exponent, grad_mantissa.dtype))


# ------------------------------------------------------------------------------------------------------------------ hashes
@op("hash_tensor(Tensor self, int[1]? dim=[], *, bool keepdim=False, int mode=0) -> Tensor", rule=None, differentiable=False, layout="contiguous",
    refuses="c", kernel="xor_sum_cpu", out="Expected result to be of dtype uint64, but got {out}", samples=reduction(keepdim=False))
def hash_tensor(x, dim, keepdim, mode):
    """The exclusive or of the bits of all elements, floats as float64 and integers as int64."""
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    dims = wrap_dims(dim, x.ndim)
    if not dim and x.ndim and x.numel() == 0:
        raise RuntimeError("hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the 'dim' argument.")
    if dim:
        for d in dims:
            if x.ndim and x.shape[d] == 0:
                raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    words = T.bitcast(T.cast(x, "f64" if T.is_float(x.dtype) else "i64"), "u64")
    return drop_dims(T.reduce("xor", words, dims), dims, keepdim)
