"""What several operator families need: dimension arithmetic, and the words of the errors about it."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..dtypes import whole_limits

# torch's words for an out= tensor that has not exactly the result's dtype (registry: `out`).
FOUND_DTYPE = "Found dtype {out} but expected {result}"
OUT_TENSOR_DTYPE = "Expected out tensor to have dtype {result_c}, but got {out_c} instead"
OUT_PARAMETER_DTYPE = "dtype {result} does not match dtype of out parameter ({out})"


def wrap_dim(dim: int, ndim: int) -> int:
    """A dimension as a number from 0, or torch's IndexError. A 0-dim tensor counts as having one dimension."""
    rank = ndim if ndim > 0 else 1
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim + rank if dim < 0 else dim


def wrap_dims(dims, ndim: int, name: str = "dim") -> tuple[int, ...]:
    """`dims` as a sorted tuple; None and () mean all of them. Repeats are an error, as in torch."""
    if dims is None:
        return tuple(range(ndim))
    if isinstance(dims, int):
        dims = (dims,)
    if len(dims) == 0:
        return tuple(range(ndim))
    out = [wrap_dim(d, ndim) for d in dims]
    for d in out:
        if out.count(d) > 1:
            raise RuntimeError(f"{name} {d} appears multiple times in the list of dims")
    return tuple(sorted(out)) if ndim else ()


def drop_dims(x, dims, keepdim: bool):
    """A reduction leaves its dimensions with size 1; without keepdim they go."""
    if keepdim or not dims:
        return x
    return T.reshape(x, tuple(s for i, s in enumerate(x.shape) if i not in dims))


def numel_of(shape):
    n = 1
    for s in shape:
        n = n * s
    return n


def broadcast_shapes(*shapes):
    """torch's broadcasting, right-aligned, or its error."""
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for i in range(rank):
        for s in shapes:
            k = i - (rank - len(s))
            if k < 0:
                continue
            size = s[k]
            if size == 1:
                continue
            if out[i] == 1:
                out[i] = size
            elif out[i] != size:
                raise RuntimeError(
                    f"The size of tensor a ({hint(out[i])}) must match the size of tensor b ({hint(size)}) at non-singleton dimension {i}")
    return tuple(out)


def hint(size) -> int:
    """The number behind a symbolic size, for messages only."""
    return getattr(size, "hint", size)


def shape_text(shape) -> str:
    return "[" + ", ".join(str(hint(s)) for s in shape) + "]"


INTEGER_RANGE = {code: whole_limits(name) for code, name in (("u8", "uint8"), ("i8", "int8"), ("i16", "int16"), ("i32", "int32"), ("i64", "int64"))}
_FLOAT_RANGE = {"f16": (-65504.0, 65504.0, "c10::Half")}


def numbered(stem, otherwise, **numbers):
    """A node's name where torch has one for each signature: by the first of these parameters that is a number."""
    return lambda given: f"{stem}Backward{next((n for p, n in numbers.items() if given[p] is not None and T.scalar_kind(given[p]) is not None), otherwise)}"


def factor(value, dtype):
    """A number that a tensor of a dtype is multiplied by: real where the tensor is."""
    return converted(value, dtype) if T.scalar_kind(value) == "c" and not T.is_complex(dtype) else value


def converted(value, dtype):
    """A number that fills memory of a dtype; torch refuses one that does not fit (not beyond float32: there it would cost a test at each call)."""
    kind = T.scalar_kind(value)
    if kind is None:
        return T.cast(value, dtype)
    words = {**INTEGER_RANGE, **_FLOAT_RANGE, "f32": (0, 0, "float"), "f64": (0, 0, "double"), "bf16": (0, 0, "c10::BFloat16")}
    if kind == "c" and not T.is_complex(dtype) and dtype != "b1":
        raise RuntimeError(f"value cannot be converted to type {words[dtype][2]} without overflow")
    limits = INTEGER_RANGE.get(dtype) or _FLOAT_RANGE.get(dtype)
    if limits is None or kind == "b" or kind == "i" and dtype == "i64":
        return T.cast(value, dtype)
    low, high, word = limits
    wide = T.cast(value, "i64" if kind == "i" else "f64")
    fits = T.prim("le", T.const(low, wide.dtype), wide) & T.prim("le", wide, T.const(high, wide.dtype))
    if T.is_float(dtype) and kind == "f":
        fits = fits | T.prim("eq", T.prim("abs", wide), T.const(math.inf, "f64")) | T.prim("ne", wide, wide)
    return T.cast(required(fits, wide, ("RuntimeError", f"value cannot be converted to type {word} without overflow")), dtype)


def rounded(x):
    """A value inside an operator rounded to its result's dtype, where torch's half kernels round before they go on."""
    dtype = T.result_dtype(x)
    return T.cast(T.cast(x, dtype), x.dtype) if dtype in T.HALF else x


def required(condition, x, error, underived=None):
    """x, after testing that the condition holds everywhere; the error is raised before anything is written."""
    tested = T.check(T.cast(~condition, "i64"), 0, 1, error, underived)
    return T.where(T.prim("eq", tested, 0), x, T.const(0, x.dtype))       # always x: the test must stay in the value's history


def no_derivative(name, kind="NotImplementedError", words="the derivative for '{}' is not implemented.", operator=None):
    """The gradient of a parameter with respect to which nobody knows the derivative: torch's error, when the backward runs and not before; and when a tangent
    is asked for, which would be derived from it."""
    def rule(grad):
        return required(T.const(False, "b1"), T.const(1, grad.dtype), (kind, words.format(name)), operator or name)    # not 0: that would be what a failed test gives, and no test
    rule.unknown = operator or name                      # the generated tests do not ask for it, and tangents of routines neither
    return rule


def underived(name):
    """The same for an operator that torch has no derivative of at all, in its words for that."""
    return no_derivative(f"aten::{name}", "RuntimeError", "derivative for {} is not implemented")


def at_least_1d(x):
    return T.reshape(x, (1,)) if x.ndim == 0 else x
