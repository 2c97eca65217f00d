"""Tensors from nothing, copies, and conversions."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import joining, unary
from .common import OUT_PARAMETER_DTYPE, broadcast_shapes, converted, hint, shape_text, wrap_dim, wrap_dims

_OPTIONS = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool requires_grad=False"
_LIKE = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool requires_grad=False, MemoryFormat? memory_format=None"


@op(f"empty(SymInt[] size, {_OPTIONS}, MemoryFormat? memory_format=None) -> Tensor", native="empty", differentiable=False, on="torch", out=OUT_PARAMETER_DTYPE)
def empty(size, **options):
    """A tensor whose content is not set."""


@op(f"empty_strided(SymInt[] size, SymInt[] stride, {_OPTIONS}) -> Tensor", native="empty_strided", differentiable=False, on="torch", out=False)
def empty_strided(size, stride, **options):
    """A tensor of given size and strides whose content is not set."""


@op(f"empty_like(Tensor self, {_LIKE}) -> Tensor", native="empty_like", differentiable=False, on="torch", out=False)
def empty_like(self, **options):
    """A tensor like another, its content not set."""


@op(f"new_empty(Tensor self, SymInt[] size, {_OPTIONS}) -> Tensor", native="new_empty", differentiable=False, on="Tensor", out=False)
def new_empty(self, size, **options):
    """A tensor of another's dtype, its content not set."""


def _check_sizes(size):
    for s in size:
        if s < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {hint(s)}: {shape_text(size)}")


def _filled(size, value, dtype):
    _check_sizes(size)
    return T.expand(value if hasattr(value, "shape") else T.const(value, dtype), tuple(size))


def _constant(name, value):
    @op(f"{name}(SymInt[] size, {_OPTIONS}) -> Tensor", rule=None, on="torch", layout="contiguous", differentiable=False, out=OUT_PARAMETER_DTYPE)
    def factory(size, dtype, layout, device, pin_memory, requires_grad):
        dtype = dtype or T.default_dtype()
        for s in size if name == "zeros" else ():
            if s < 0:
                raise RuntimeError(f"zeros: Dimension size must be non-negative. Got {hint(s)} in {shape_text(size)}")
        return T.on_device(_filled(size, value, dtype), device)

    @op(f"{name}_like(Tensor self, {_LIKE}) -> Tensor", rule=None, on="torch", layout="like", differentiable=False, out=False)
    def like(self, dtype, layout, device, pin_memory, requires_grad, memory_format):
        return T.on_device(_filled(self.shape, value, dtype or self.dtype), device)

    @op(f"new_{name}(Tensor self, SymInt[] size, {_OPTIONS}) -> Tensor", rule=None, on="Tensor", layout="contiguous", differentiable=False, out=False)
    def new(self, size, dtype, layout, device, pin_memory, requires_grad):
        return T.on_device(_filled(size, value, dtype or self.dtype), device)

    factory.__doc__ = f"A tensor of {name}."
    like.__doc__ = f"A tensor of {name} in the shape of another."
    new.__doc__ = f"A tensor of {name} with the dtype of another."
    return factory, like, new


zeros, zeros_like, new_zeros = _constant("zeros", 0)
ones, ones_like, new_ones = _constant("ones", 1)


def _dtype_of_number(number):
    return {"b": "b1", "i": "i64", "f": T.default_dtype(), "c": T.default_complex()}[T.scalar_kind(number)]


@op(f"full(SymInt[] size, Scalar fill_value, {_OPTIONS}) -> Tensor", rule=None, on="torch", layout="contiguous", differentiable=False,
    out=OUT_PARAMETER_DTYPE)
def full(size, fill_value, dtype, layout, device, pin_memory, requires_grad):
    """A tensor of one value; its dtype is the value's unless given."""
    dtype = dtype or _dtype_of_number(fill_value)
    return T.on_device(_filled(size, converted(fill_value, dtype), dtype), device)


@op(f"full_like(Tensor self, Scalar fill_value, {_LIKE}) -> Tensor", rule=None, on="torch", layout="like", differentiable=False, out=False)
def full_like(self, fill_value, dtype, layout, device, pin_memory, requires_grad, memory_format):
    """A tensor of one value in the shape and dtype of another."""
    dtype = dtype or self.dtype
    return T.on_device(_filled(self.shape, converted(fill_value, dtype), dtype), device)


@op(f"new_full(Tensor self, SymInt[] size, Scalar fill_value, {_OPTIONS}) -> Tensor", rule=None, on="Tensor", layout="contiguous",
    differentiable=False, out=False)
def new_full(self, size, fill_value, dtype, layout, device, pin_memory, requires_grad):
    """A tensor of one value with the dtype of another."""
    dtype = dtype or self.dtype
    return T.on_device(_filled(size, converted(fill_value, dtype), dtype), device)


@op(f"scalar_tensor(Scalar s, {_OPTIONS}) -> Tensor", rule=None, on="torch", layout="contiguous", differentiable=False, out=False)
def scalar_tensor(s, dtype, layout, device, pin_memory, requires_grad):
    """A 0-dimensional tensor of one number."""
    return T.on_device(T.cast(s, dtype or T.default_dtype()), device)


# The count of an arange is a function of the numbers, so it is worked out before the call; the op itself gets it as a run-time integer.
@op("_arange(SymInt count, Scalar start, Scalar step, *, ScalarType dtype, Device? device=None, bool requires_grad=False) -> Tensor", rule=None, on="-",
    layout="contiguous", differentiable=False)
def _arange(count, start, step, dtype, device, requires_grad):
    """`start + i * step`, in float64 for floats and int64 for integers, then cast."""
    if dtype == "b1" or T.is_complex(dtype):
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{T.dtype_word(dtype)}'")
    wide = "f64" if T.is_float(dtype) or T.scalar_kind(start) == "f" or T.scalar_kind(step) == "f" else "i64"
    i = T.cast(T.iota(count, 0, 1), wide)
    return T.on_device(T.cast(T.cast(start, wide) + i * T.cast(step, wide), dtype), device)


@op("_linspace(SymInt steps, Scalar start, Scalar end, *, ScalarType dtype, Device? device=None, bool requires_grad=False) -> Tensor", rule=None, on="-",
    layout="contiguous", differentiable=False)
def _linspace(steps, start, end, dtype, device, requires_grad):
    """From both ends to the middle, so that it is symmetric: `start + i*step`, then `end - (n-1-i)*step`. Complex numbers: each part for itself."""
    if dtype == "b1":
        raise NotImplementedError("\"linspace_cpu\" not implemented for 'Bool'")
    if T.is_complex(dtype):
        ends = [T.cast(e, "c128" if dtype == "c128" else "c64") for e in (start, end)]
        parts = [_spaced(steps, *(T.prim(part, e) for e in ends)) for part in ("real", "imag")]
        return T.on_device(T.cast(T.prim("make_complex", *parts), dtype), device)
    wide = dtype if dtype in ("f32", "f64") else "f64" if not T.is_float(dtype) else "f32"
    if not T.is_float(dtype):                          # the ends are integers first
        start, end = T.cast(start, dtype), T.cast(end, dtype)
    return T.on_device(T.cast(_spaced(steps, T.cast(start, wide), T.cast(end, wide), dtype), dtype), device)


def _spaced(steps, start, end, dtype=None):
    """The numbers of a linspace, in the real dtype of its ends. Torch has no fused steps in the half types: each rounds."""
    wide, i = start.dtype, T.iota(steps, 0, 1)
    if steps == 1:
        return T.expand(start, (1,))
    back = T.cast(T.size(steps - 1, "i64") - i, wide)
    if dtype in ("f16", "bf16"):
        def rounded(v): return T.cast(T.cast(v, dtype), wide)
        start, end = rounded(start), rounded(end)
        step = rounded(rounded(end - start) / rounded(T.size(steps - 1, wide)))
        low, high = start + rounded(rounded(T.cast(i, wide)) * step), end - rounded(rounded(back) * step)
    else:
        step = (end - start) / T.size(steps - 1, wide)
        low, high = T.prim("fma", T.cast(i, wide), step, start), T.prim("fma", -back, step, end)
    first_half = T.prim("lt", i, T.size(steps // 2, "i64"))
    return T.where(first_half, low, high)


@op(f"eye(SymInt n, SymInt? m=None, {_OPTIONS}) -> Tensor", rule=None, on="torch", layout="contiguous", differentiable=False,
    out=OUT_PARAMETER_DTYPE)
def eye(n, m, dtype, layout, device, pin_memory, requires_grad):
    """Ones on the diagonal, zeros elsewhere."""
    m = n if m is None else m
    if n < 0 or m < 0:
        raise RuntimeError(f"{'n' if n < 0 else 'm'} must be greater or equal to 0, got {hint(n if n < 0 else m)}")
    same = T.prim("eq", T.iota(n, 0, 2), T.iota(m, 1, 2))
    return T.on_device(T.cast(same, dtype or T.default_dtype()), device)


# ------------------------------------------------------------------------------------------------------- copies, casts
@op("clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor", rule=None, layout="format", node="CloneBackward0", out=False, samples=unary())
def clone(self, memory_format):
    """A copy with memory of its own."""
    return T.copy(self)


@op("_to_dtype(Tensor self, ScalarType dtype, MemoryFormat? memory_format=None) -> Tensor", rule=None, layout="format", on="-", node="ToCopyBackward0",
    out=False)
def _to_dtype(self, dtype, memory_format):
    """A copy in another dtype."""
    T.lose_parts(self, dtype)
    return T.copy(T.cast(self, dtype))


@op("_to_device(Tensor self, Device device) -> Tensor", rule=None, layout="format", on="-", out=False, node="ToCopyBackward0")
def _to_device(self, device):
    """A copy on another device."""
    return T.on_device(T.copy(self), device)


@op("copy_(Tensor(a!) self, Tensor|Scalar other, bool non_blocking=False) -> Tensor", rule=None, on="Tensor", layout="pointwise", node="CopyBackwards", out=False)
def copy_(self, other, non_blocking):
    """Write the elements of `other`, broadcast and cast, into self."""
    _fits(self, other)
    T.lose_parts(other, self.dtype)
    other = T.prim("real", other) if T.is_complex(other.dtype) and not T.is_complex(self.dtype) and self.dtype != "b1" else other
    return T.expand(T.cast(other, self.dtype), self.shape)


@copy_.gradient("self")
def _(grad):
    return None


@copy_.gradient("other")
def _(grad, other):
    return grad


def _fits(self, src):
    shape = broadcast_shapes(self.shape, src.shape)
    if len(shape) != self.ndim or not all_equal(shape, self.shape):
        raise RuntimeError(f"output with shape {shape_text(self.shape)} doesn't match the broadcast shape {shape_text(shape)}")


@op(["fill_(Tensor(a!) self, Scalar value) -> Tensor", "fill_(Tensor(a!) self, Tensor value) -> Tensor"], rule=None, layout="pointwise", on="torch Tensor",
    node="FillBackward0", out=False, one_value=True)
def fill_(self, value):
    """Set every element to one value."""
    if value.ndim != 0:
        raise RuntimeError(f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions.")
    return T.expand(converted(value, self.dtype), self.shape)


@fill_.gradient("self")
def _(grad):
    return None


@fill_.gradient("value")
def _(grad):
    return T.reduce_all("sum", grad)


@op("zero_(Tensor(a!) self) -> Tensor", rule=None, layout="pointwise", on="torch Tensor", node="ZeroBackward0", out=False, one_value=True)
def zero_(self):
    """Set every element to zero."""
    return T.expand(T.const(0, self.dtype), self.shape)


@zero_.gradient("self")
def _(grad):
    return None


def _triangle(name, keep, doc):
    def body(x, diagonal):
        if x.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        i, j = T.iota(x.shape[-2], x.ndim - 2, x.ndim), T.iota(x.shape[-1], x.ndim - 1, x.ndim)
        return T.where(keep(j - i, T.size(diagonal, "i64")), x, 0)
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor self, SymInt diagonal=0) -> Tensor", rule="same", inplace=True, layout="pointwise contiguous", node=f"{name.capitalize()}Backward0",
              out="Expected out tensor to have dtype {result_c}, but got {out_c} instead", samples=joining("triangle"))(body)


tril = _triangle("tril", lambda off, k: T.prim("le", off, k), "The part on and below a diagonal, zeros above.")
triu = _triangle("triu", lambda off, k: T.prim("le", k, off), "The part on and above a diagonal, zeros below.")


# ------------------------------------------------------------------------------------------------------------- joining
NOT_CASTABLE = TypeError("torch.cat(): input types can't be cast to the desired output type {out}")


@op("cat(Tensor[] tensors, int dim=0) -> Tensor", rule=None, layout="joined", on="torch", aliases=("concat", "concatenate"), node="CatBackward0",
    separate=True, out=NOT_CASTABLE, samples=joining("cat"))
def cat(tensors, dim):
    """Tensors joined along a dimension they have."""
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    dtype = T.promote(*tensors)
    # A 1-D tensor of no elements joins anything: torch keeps this for old programs.
    real = [(n, x) for n, x in enumerate(tensors) if not (x.ndim == 1 and x.shape[0] == 0)] or [(0, tensors[0])]
    first = real[0][1]
    for n, x in enumerate(tensors):
        if x.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {n}) cannot be concatenated")
    d = wrap_dim(dim, first.ndim)
    for n, x in real:
        if x.ndim != first.ndim:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {first.ndim} and {x.ndim}")
        for k in range(x.ndim):
            if k != d and not x.shape[k] == first.shape[k]:
                raise RuntimeError(f"Sizes of tensors must match except in dimension {d}. Expected size {hint(first.shape[k])} but got size "
                                   f"{hint(x.shape[k])} for tensor number {n} in the list.")
    return T.cat([T.cast(x, dtype) for _, x in real], d)


@op("stack(Tensor[] tensors, int dim=0) -> Tensor", rule=None, layout="contiguous", on="torch", node="StackBackward0", separate=True,
    out=NOT_CASTABLE, samples=joining("stack"))
def stack(tensors, dim):
    """Tensors of one shape joined along a new dimension."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    d = wrap_dim(dim, first.ndim + 1)
    for n, x in enumerate(tensors):
        if x.ndim != first.ndim or not all_equal(x.shape, first.shape):
            raise RuntimeError(f"stack expects each tensor to be equal size, but got {shape_text(first.shape)} at entry 0 and {shape_text(x.shape)} at entry {n}")
    dtype = T.promote(*tensors)
    return T.cat([T.reshape(T.cast(x, dtype), x.shape[:d] + (1,) + x.shape[d:]) for x in tensors], d)


def all_equal(a, b):
    for x, y in zip(a, b):
        if not x == y:
            return False
    return True


@op("repeat(Tensor self, SymInt[] repeats) -> Tensor", rule=None, layout="contiguous", on="Tensor", node="RepeatBackward0", out=False,
    samples=joining("repeat"))
def repeat(x, repeats):
    """The tensor laid side by side with itself, `repeats[i]` times along dimension i."""
    if len(repeats) < x.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * (len(repeats) - x.ndim) + tuple(x.shape)
    spread, wide = [], []
    for r, s in zip(repeats, shape):
        spread += [1, s]
        wide += [r, s]
        if r * s < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {hint(r * s)}: {shape_text([a * b for a, b in zip(repeats, shape)])}")
    out = T.expand(T.reshape(x, tuple(spread)), tuple(wide))
    return T.reshape(out, tuple(r * s for r, s in zip(repeats, shape)))


@op("flip(Tensor self, int[1] dims) -> Tensor", rule=None, layout="like", node="FlipBackward0", out=False, samples=joining("flip"))
def flip(x, dims):
    """The elements in reverse order along `dims`."""
    return T.flip(x, wrap_dims(dims, x.ndim)) if dims and x.ndim else x


@op("roll(Tensor self, SymInt[1] shifts, int[1]? dims=[]) -> Tensor", rule=None, layout="contiguous", node="RollBackward0", out=False,
    samples=joining("roll"))
def roll(x, shifts, dims):
    """The elements moved along `dims`, what falls off comes back at the other end."""
    if not shifts:
        raise RuntimeError("`shifts` required")
    if dims and x.ndim == 0:
        raise IndexError(f"Dimension specified as {dims[0]} but tensor has no dimensions")
    if not dims:
        if len(shifts) != 1:
            raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:0")
        return T.reshape(_roll(T.reshape(x, (x.numel(),)), shifts[0], 0), x.shape)
    if len(dims) != len(shifts):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    for shift, d in zip(shifts, dims):
        x = _roll(x, shift, wrap_dim(d, x.ndim))
    return x


def _roll(x, shift, dim):
    n = x.shape[dim]
    if n == 0:
        return x
    cut = (n - shift % n) % n
    return T.cat([T.slice(x, dim, cut, n, 1), T.slice(x, dim, 0, cut, 1)], dim)
