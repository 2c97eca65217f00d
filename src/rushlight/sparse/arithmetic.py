"""Element by element: functions that keep 0, sums, products, and the in-place forms of all of them."""
from __future__ import annotations

import rushlight as rl

from .. import _C
from ..ops.common import wrap_dim
from .convert import coalesce, compressed, looked_up, to_coo, to_dense
from .dispatch import handles
from .pattern import COO, WORDS, Pattern
from .tensor import assemble, check_cast, is_sparse, refuse, sparse_like, values_at, values_of

# f(0) = 0: only the stored values change. The first ones are linear: a place that is there twice may stay so.
LINEAR = ("neg negative positive conj_physical deg2rad rad2deg real conj resolve_conj resolve_neg _to_dtype")
KEEP_ZERO = ("abs absolute angle asin arcsin asinh arcsinh atan arctan atanh arctanh ceil erf erfinv expm1 floor frac isinf isnan isneginf isposinf log1p nan_to_num relu round "
             "sgn sign signbit sin sinh sqrt square tan tanh tanhshrink trunc fix")


def _on_values(name, linear):
    def apply(func, s, *args, **kwargs):
        s = s if linear or s.layout is not COO else coalesce(s)
        return sparse_like(s, func(values_of(s), *args, **kwargs))
    handles(name, with_function=True)(apply)


for _name in LINEAR.split(): _on_values(_name, True)
for _name in KEEP_ZERO.split(): _on_values(_name, False)


def _same_size(name, a, b):
    if a.shape != b.shape:
        raise RuntimeError(f"{name}: expected sizes of 'self' and 'other' to match, but {list(a.shape)} != {list(b.shape)}")


def _number(value) -> bool: return not isinstance(value, _C.Tensor) or value.dim() == 0 and not is_sparse(value)


# -------------------------------------------------------------------------------------------------------------------- sums
def _check_dtypes(function, input, other, alpha) -> None:
    """What the dense operator says about dtypes, asked with no elements."""
    if isinstance(input, _C.Tensor) and isinstance(other, _C.Tensor): function(rl.empty(0, dtype=input.dtype), rl.empty(0, dtype=other.dtype), alpha=alpha)


@handles("add", dense_first=True)
def add(input, other, *, alpha=1):
    if alpha != 1: _check_dtypes(rl.add, input, other, alpha)
    return _sum(input, other, alpha)


def _sum(input, other, alpha):
    if not is_sparse(input):
        if not isinstance(input, _C.Tensor) or input.dim() == 0 and other.dim(): _no_dense_result("add", other)
        return input.add(to_dense(other, masked_grad=False), alpha=alpha)             # its gradient is that of every element
    if not is_sparse(other):
        if input.layout is COO or _number(other): _no_dense_result("add", input)
        return other.add(to_dense(input, masked_grad=False)) if alpha == 1 else to_dense(input, masked_grad=False).add(other, alpha=alpha)
    _same_size("add", input, other)
    if input._pattern.same_as(other._pattern):
        return assemble(input._pattern, values_of(input).add(values_of(other), alpha=alpha))
    if input.layout is not other.layout:
        raise RuntimeError(f"add: expected both tensors to have the same layout, but got {WORDS[input.layout]} and {WORDS[other.layout]}")
    layout, both = input.layout, (to_coo(input), to_coo(other))
    if both[0]._pattern.sparse_dim != both[1]._pattern.sparse_dim:
        raise RuntimeError(f"add: expected sparse_dim() of both tensors to be the same, but got {both[0]._pattern.sparse_dim} and {both[1]._pattern.sparse_dim}")
    dtype = rl.result_type(*both)
    values = rl.cat([values_of(both[0]).to(dtype), values_of(both[1]).to(dtype) * alpha if alpha != 1 else values_of(both[1]).to(dtype)])
    out = assemble(Pattern(COO, input.shape, (rl.cat([s._pattern.places() for s in both], 1),), coalesced=False), values)
    out = coalesce(out) if all(s._pattern.coalesced for s in both) else out
    return out if layout is COO else compressed(out, layout)


def _no_dense_result(name, s):
    if s.layout is COO:
        raise RuntimeError(f"{name}(sparse, dense) is not supported. Use {name}(dense, sparse) instead.")
    refuse(name, s)


@handles("sub", "subtract", dense_first=True)
def sub(input, other, *, alpha=1):
    _check_dtypes(rl.sub, input, other, alpha)
    return _sum(input, other, -alpha)


@handles("add_", dense_first=True)
def add_(input, other, *, alpha=1):
    if alpha != 1: _check_dtypes(rl.add, input, other, alpha)
    return _sum_in_place(input, other, alpha)


def _sum_in_place(input, other, alpha):
    if is_sparse(input):
        if not is_sparse(other): _no_dense_result("add", input)
        return input._become(_sum(input, other, alpha))
    _same_size("add", input, other)
    check_cast(rl.result_type(input, other), input.dtype)
    pattern, values = other._pattern, values_of(other)
    values = (values if alpha == 1 else values * alpha).to(input.dtype)
    if pattern.sparse_dim == 1: return input.index_add_(0, pattern.places()[0], values)
    if pattern.sparse_dim == 0: return input.add_(values.sum(0))
    return input.index_put_(tuple(pattern.places()), values, accumulate=True)


@handles("sub_", "subtract_", dense_first=True)
def sub_(input, other, *, alpha=1):
    _check_dtypes(rl.sub, input, other, alpha)
    return _sum_in_place(input, other, -alpha)


# ----------------------------------------------------------------------------------------------------------- products
@handles("mul", "multiply", dense_first=True)
def mul(input, other):
    s, o = (input, other) if is_sparse(input) else (other, input)
    if is_sparse(o): return _intersection(s, o)
    if _number(o): return sparse_like(s, values_of(s) * o)
    if rl.broadcast_shapes(s.shape, o.shape) != s.shape:
        raise NotImplementedError(f"mul(): a tensor of layout {s.layout} and shape {list(s.shape)} is not spread to the shape of the dense one, {list(o.shape)}")
    return sparse_like(s, values_of(s) * values_at(o.expand(s.shape), s._pattern))


def _intersection(a, b):
    if a.shape != b.shape:
        raise RuntimeError(f"mul(sparse, sparse): operands have incompatible sizes; self has size {list(a.shape)} but other has size {list(b.shape)}")
    if a.layout is not b.layout:
        raise RuntimeError(f"mul(sparse, sparse): expected both tensors to have the same layout, but got {WORDS[a.layout]} and {WORDS[b.layout]}")
    layout = a.layout
    if layout is COO: a, b = coalesce(a), coalesce(b)
    if a._pattern.same_as(b._pattern): return sparse_like(a, values_of(a) * values_of(b))
    a, b = coalesce(to_coo(a)), coalesce(to_coo(b))
    if a._pattern.sparse_dim != b._pattern.sparse_dim: refuse("mul", a)
    kept = rl.isin(a._pattern.keys(), b._pattern.keys()).nonzero().squeeze(1)
    pattern = Pattern(COO, a.shape, (a._pattern.places().index_select(1, kept),))
    out = assemble(pattern, values_of(a).index_select(0, kept) * looked_up(b, pattern))
    return out if layout is COO else compressed(out, layout)


def _divided(func, input, other, **kwargs):
    if not is_sparse(input) or is_sparse(other) or not _number(other):
        raise RuntimeError("Sparse division requires a scalar or zero-dim dense tensor divisor (got shape "
                           f"{list(other.shape) if isinstance(other, _C.Tensor) else []} for divisor)")
    s = coalesce(input) if input.layout is COO and kwargs.get("rounding_mode") is not None else input
    return sparse_like(s, func(values_of(s), other, **kwargs))


for _name in ("div", "divide", "true_divide"): handles(_name, with_function=True, dense_first=True)(_divided)
handles("floor_divide", with_function=True, dense_first=True)(lambda func, input, other: _divided(rl.div, input, other, rounding_mode="floor"))


@handles("pow", dense_first=True)
def pow(input, exponent):
    if not is_sparse(input) or not _number(exponent): refuse("pow", input if is_sparse(input) else exponent)
    if exponent == 0:
        raise RuntimeError("pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense")
    if not exponent > 0: refuse("pow", input)
    s = coalesce(input) if input.layout is COO else input
    return sparse_like(s, values_of(s) ** exponent)


@handles("float_power")
def float_power(input, exponent): return pow(input.to(rl.complex128 if input.dtype.is_complex else rl.float64), exponent)


@handles("ldexp")
def ldexp(input, other): return mul(input, 2.0 ** other)


@handles("dist", dense_first=True)
def dist(input, other, p=2): return rl.norm(input - other, p)


# --------------------------------------------------------------------------------------------------- copies and fillings
@handles("clone")
def clone(input, *, memory_format=None):
    pattern = input._pattern
    return assemble(pattern.resized(pattern.size, tuple(i.clone() for i in pattern.indices)), values_of(input).clone())


@handles("detach")
def detach(input): return input.data


@handles("zero_")
def zero_(input): return input._become(_empty_like(input))


def _empty_like(s, dtype=None):
    pattern = s._pattern
    if s.layout is not COO:
        outer, inner = pattern.indices
        return assemble(pattern.resized(s.shape, (rl.zeros_like(outer), inner[:0])), rl.empty(pattern.value_shape(0), dtype=dtype or s.dtype))
    return assemble(Pattern(COO, s.shape, (rl.empty((pattern.sparse_dim, 0), dtype=rl.int64),)), rl.empty(pattern.value_shape(0), dtype=dtype or s.dtype))


def _filled(func, input, *args, requires_grad=False, **kwargs):
    """What is stored becomes something else. (Of a COO tensor torch does not do it: zeros that are not stored would be expected to change.)"""
    if input.layout is COO: refuse(func.__name__, input)
    return sparse_like(input, func(values_of(input), *args, **kwargs)).requires_grad_(requires_grad)


for _name in ("fill", "full_like", "ones_like", "rand_like", "randn_like"): handles(_name, with_function=True)(_filled)


@handles("empty_like")
def empty_like(input, **options):
    return zeros_like(input, **options) if input.layout is COO or options.get("layout") is not None else _filled(rl.empty_like, input, **options)


@handles("zeros_like")
def zeros_like(input, *, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False, memory_format=None):
    if layout is _C.strided: return rl.zeros(input.shape, dtype=dtype or input.dtype, requires_grad=requires_grad)
    if layout is not None and layout is not input.layout: refuse("zeros_like", input)
    return _empty_like(input, dtype).requires_grad_(requires_grad)


@handles("new_zeros", "new_empty")
def new_zeros(input, *size, dtype=None, layout=None, device=None, pin_memory=False, requires_grad=False):
    from .convert import zeros
    size = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    return zeros(size, input.layout, dtype or input.dtype, requires_grad)


@handles("copy_", dense_first=True)
def copy_(input, src, non_blocking=False):
    if is_sparse(input) != is_sparse(src):
        raise RuntimeError("copy_() between dense and sparse Tensors is not implemented! Found self type = "
                           f"{WORDS[input.layout]} and src type = {WORDS[src.layout]}")
    _same_size("copy_", input, src)
    if input.layout is not src.layout: refuse("copy_", src)
    return input._become(clone(src.data).to(input.dtype))


@handles("contiguous")
def contiguous(input, memory_format=None): raise RuntimeError("unsupported memory format option Contiguous: a sparse tensor has no strides")


@handles("any")
def any(input, *args, **kwargs):
    if args or kwargs: refuse("any", input)
    return values_of(input).any()


@handles("norm")
def norm(input, p="fro", dim=None, keepdim=False, dtype=None):
    if keepdim or dtype is not None or dim not in (None, ()) and sorted(wrap_dim(d, input.dim()) for d in ((dim,) if isinstance(dim, int) else dim)) != list(range(input.dim())):
        raise RuntimeError(f"norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all dimensions of the input: norm of layout {input.layout}, "
                           f"dim={dim}, keepdim={keepdim}, dtype={dtype}")
    s = coalesce(input) if input.layout is COO else input
    return values_of(s).reshape(-1).norm(2 if p == "fro" else p)


@handles("linalg_vector_norm", "vector_norm")
def vector_norm(input, ord=2, dim=None, keepdim=False, *, dtype=None): return norm(input, ord, dim, keepdim, dtype)
