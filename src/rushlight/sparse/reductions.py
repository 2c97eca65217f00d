"""Sums and softmax over dimensions of a sparse tensor. What is not stored does not take part in a softmax, as if it were minus infinity."""
from __future__ import annotations

import rushlight as rl

from ..autograd.function import Function
from ..functions import _name
from ..ops.common import wrap_dim
from .convert import coalesce, compressed, summed, to_coo
from .dispatch import handles
from .pattern import COO, Pattern, flat_keys, grouped, places_of_keys
from .shapes import unsqueeze
from .tensor import assemble, is_sparse, named, refuse, sparse_like, values_of


@named("SumBackward0")
class _Sum(Function):
    """The sum of all elements, with the gradient of every one."""

    @staticmethod
    def forward(ctx, s):
        ctx.size = s.shape
        return s._stored.sum()

    @staticmethod
    def backward(ctx, grad): return grad.expand(ctx.size)


@handles("sum")
def sum_(input, dim=None, keepdim=False, *, dtype=None):
    input = input if dtype is None else input.to(dtype)
    if dim is None or isinstance(dim, (tuple, list)) and not len(dim):
        if keepdim: refuse("sum", input)
        return _Sum.apply(input) if input.requires_grad else input._stored.sum()
    if input.layout is not COO and not keepdim:
        raise RuntimeError(f"reduction operations on {str(input.layout)[-3:].upper()} tensors with keepdim=False is unsupported")
    dims = sorted(wrap_dim(d, input.dim()) for d in ((dim,) if isinstance(dim, int) else dim))
    out = sparse_sum(to_coo(input), dims)
    if not keepdim: return out
    if not is_sparse(out): out = _as_sparse(out)
    for d in dims: out = unsqueeze(out, d)
    return out if input.layout is COO else compressed(out, input.layout)


def _as_sparse(dense):
    """A dense result as a sparse tensor of no sparse dimensions."""
    return assemble(Pattern(COO, dense.shape, (rl.empty((0, 1), dtype=rl.int64),)), dense.unsqueeze(0))


def sparse_sum(input, dim=None, dtype=None):
    """The sum of the elements along `dim` (all of them: one number). Its gradient is that of the stored elements. What is left of the sparse dimensions stays sparse."""
    if input.layout is not COO: refuse("_sparse_sum", input)
    input = input if dtype is None else input.to(dtype)
    if dim is None or isinstance(dim, (tuple, list)) and not len(dim): return values_of(input).sum()
    dims = [wrap_dim(d, input.dim()) for d in ((dim,) if isinstance(dim, int) else dim)]
    if len(set(dims)) != len(dims): raise RuntimeError(f"dim {dims[0]} appears multiple times in the list of dims")
    pattern, values = input._pattern, values_of(input)
    n, total = pattern.sparse_dim, rl.promote_types(values.dtype, rl.int64) if not (values.dtype.is_floating_point or values.dtype.is_complex) else values.dtype
    inner = [d - n + 1 for d in dims if d >= n]
    values = values.sum(inner) if inner else values.to(total)
    kept = [d for d in range(n) if d not in dims]
    if not kept: return values.sum(0)
    size = [input.shape[d] for d in range(input.dim()) if d not in dims]
    if len(kept) == n: return assemble(pattern.resized(size), values)
    sizes = [input.shape[d] for d in kept]
    keys, order, groups = grouped(flat_keys(pattern.places().index_select(0, rl.tensor(kept)), sizes))
    return assemble(Pattern(COO, size, (places_of_keys(keys, sizes),)), summed(values.index_select(0, order), groups, keys.shape[0]))


# ------------------------------------------------------------------------------------------------------------- softmax
def softmax(input, dim, *, dtype=None):
    """Softmax along a dimension over the stored elements."""
    return _softmax(input, dim, dtype, "softmax")


def log_softmax(input, dim, *, dtype=None):
    """The logarithm of `softmax`."""
    return _softmax(input, dim, dtype, "log_softmax")


def _softmax(input, dim, dtype, name):
    if input.layout is not COO: refuse(f"_sparse_{name}", input)
    s = coalesce(input if dtype is None else input.to(dtype))
    if not s.is_floating_point(): raise NotImplementedError(f"\"{name}\" not implemented for '{_name(s.dtype)}': layout {s.layout}")
    d, n, values = wrap_dim(dim, input.dim()), s._pattern.sparse_dim, values_of(s)
    if d >= n: return sparse_like(s, getattr(rl, name)(values, d - n + 1))
    if s._pattern.nnz == 0: return sparse_like(s, values)
    others = [k for k in range(n) if k != d]
    places = s._pattern.places().index_select(0, rl.tensor(others, dtype=rl.int64)) if others else rl.zeros((1, s._pattern.nnz), dtype=rl.int64)
    keys, groups = rl.unique(flat_keys(places, [input.shape[k] for k in others] or [1]), return_inverse=True)
    count = keys.shape[0]
    at = groups.reshape(-1, *[1] * (values.dim() - 1)).expand(values.shape)
    with rl.no_grad():
        largest = rl.full((count, *values.shape[1:]), -float("inf"), dtype=values.dtype).scatter_reduce(0, at, values.detach(), "amax")
    shifted = values - largest.index_select(0, groups)
    total = summed(shifted.exp(), groups, count).index_select(0, groups)
    return sparse_like(s, shifted.exp() / total if name == "softmax" else shifted - total.log())
