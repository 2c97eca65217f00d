"""Matrix products in which a factor is sparse.

`torch.mm` and `@` have the gradient of every element of a sparse factor (a dense one, beside a dense factor); `torch.sparse.mm` and `addmm` that of its stored elements.
"""
from __future__ import annotations

import functools

import rushlight as rl

from .. import registry
from ..autograd.function import Function
from ..functions import _name
from .convert import compressed, to_coo, zeros
from .dispatch import handles, written
from .pattern import COO, CSR, Pattern
from .tensor import assemble, is_sparse, named, refuse, sparse_like, values_of


def _sparse_dense(rows, columns, values, dense, count): return registry.find("_sparse_dense_mm").op.function(rows, columns, values, dense, count)
def _sampled(rows, columns, left, right): return registry.find("_sparse_sampled_mm").op.function(rows, columns, left, right)


def _check(a, b):
    for name, m in (("mat1", a), ("mat2", b)):
        if m.dim() != 2:
            raise RuntimeError(f"{name} must be a matrix, got {m.dim()}-D tensor")
        if is_sparse(m) and m._pattern.sparse_dim != 2:
            raise RuntimeError(f"addmm: matrices expected, got {m._pattern.sparse_dim}D sparse tensor and {m._pattern.dense_dim} dense dimensions")
    if a.shape[1] != b.shape[0]:
        if is_sparse(a) and a.layout is COO and not is_sparse(b):
            raise RuntimeError(f"addmm: Argument #3 (dense): Expected dim 0 size {a.shape[1]}, got {b.shape[0]}")
        raise RuntimeError(f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected scalar type {_name(a.dtype)} but found {_name(b.dtype)}")


def product(a, b):
    """a @ b; the gradient of a sparse factor is that of its stored elements."""
    _check(a, b)
    if is_sparse(a) and is_sparse(b): return _sparse_sparse(a, b)
    if is_sparse(a):
        rows, columns = a._pattern.places()
        return _sparse_dense(rows, columns, values_of(a), b, a.shape[0])
    if not is_sparse(b): return rl.mm(a, b)
    rows, columns = b._pattern.places()
    return _sparse_dense(columns, rows, values_of(b), a.t(), b.shape[1]).t().contiguous()


@named("MmBackward0")
class _Product(Function):
    """The same, with the gradient of every element."""

    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(a, b)
        return product(a.detach(), b.detach())

    @staticmethod
    def backward(ctx, grad):
        if grad is None: return None, None
        a, b = ctx.saved_tensors
        return (full_product(grad, _adjoint(b)) if ctx.needs_input_grad[0] else None), (full_product(_adjoint(a), grad) if ctx.needs_input_grad[1] else None)


def _adjoint(m):
    turned = m.transpose(0, 1)
    return turned.conj_physical() if m.dtype.is_complex else turned


def full_product(a, b):
    return _Product.apply(a, b) if any(is_sparse(m) and m.requires_grad for m in (a, b)) else product(a, b)


def _sparse_sparse(a, b):
    """Each stored (i, k) of a meets the stored elements of row k of b; what falls on one place is added up."""
    layout = COO if COO in (a.layout, b.layout) else CSR
    a, b = compressed(a, CSR), compressed(b, CSR)
    rows = [i.to(rl.int64) for s in (a, b) for i in s._pattern.indices]
    left, right, places, outer, inner = registry.find("_sparse_sparse_terms").op.function(*rows, b.shape[1])
    values = registry.find("_sparse_term_sums").op.function(left, right, places, values_of(a), values_of(b), inner.shape[0])
    out = assemble(Pattern(CSR, (a.shape[0], b.shape[1]), (outer, inner)), values)
    return out if layout is CSR else to_coo(out)


# ------------------------------------------------------------------------------------------------------ torch's names
@handles("mm", "spmm", dense_first=True)
def mm(input, mat2): return full_product(input, mat2)


@handles("mv", dense_first=True)
def mv(input, vec):
    if is_sparse(vec): refuse("mv", vec)
    if vec.dim() != 1: raise RuntimeError(f"mv: expected a vector, got a tensor of {vec.dim()} dimensions")
    return full_product(input, vec.unsqueeze(1)).squeeze(1)


@handles("addmv", dense_first=True)
def addmv(input, mat, vec, *, beta=1, alpha=1): return _added(input, mv(mat, vec), beta, alpha)


@handles("bmm", dense_first=True)
def bmm(input, mat2):
    if not is_sparse(input) or is_sparse(mat2) or input.layout is not COO or input._pattern.sparse_dim != 3: refuse("bmm", input if is_sparse(input) else mat2)
    if mat2.dim() != 3 or mat2.shape[0] != input.shape[0] or mat2.shape[1] != input.shape[2]:
        raise RuntimeError(f"bmm_sparse: Tensor 'mat2' must have the shape [{input.shape[0]}, {input.shape[2]}, *], but it has {list(mat2.shape)}")
    batch, rows, columns = input._pattern.places()
    count, n, m = input.shape
    flat = _sparse_dense(batch * n + rows, batch * m + columns, values_of(input), mat2.reshape(count * m, mat2.shape[2]), count * n)
    return flat.reshape(count, n, mat2.shape[2])


@handles("matmul", dense_first=True)
def matmul(input, other):
    if input.dim() == 2 and other.dim() == 2: return full_product(input, other)
    if input.dim() == 2 and other.dim() == 1: return mv(input, other)
    if input.dim() == 3 and other.dim() == 3: return bmm(input, other)
    if input.dim() == 1 and other.dim() == 2 and not is_sparse(input): return full_product(input.unsqueeze(0), other).squeeze(0)
    refuse("matmul", input if is_sparse(input) else other)


@handles("addmm", dense_first=True)
def addmm(input, mat1, mat2, *, beta=1, alpha=1): return _added(input, full_product(mat1, mat2), beta, alpha)


def _added(input, made, beta, alpha):
    made = made if alpha == 1 else made * alpha
    if beta == 0: return made if is_sparse(made) else made.clone()
    if is_sparse(input) and not is_sparse(made): refuse("addmm", input)
    input = input if beta == 1 else input * beta
    return input.expand(made.shape) + made if not is_sparse(input) else input + made


@handles("linear", dense_first=True)
def linear(input, weight, bias=None):
    if is_sparse(input): out = matmul(input, weight.t())
    elif weight.dim() != 2: refuse("linear", weight)
    else: out = full_product(input.reshape(-1, input.shape[-1]), weight.t()).reshape(*input.shape[:-1], weight.shape[0])
    return out if bias is None else out + bias


@handles("matrix_power")
def matrix_power(input, n):
    if n < 1: refuse("matrix_power", input)
    return functools.reduce(full_product, [input] * n)


@handles("multi_dot")
def multi_dot(tensors): return functools.reduce(rl.matmul, tensors)


# ------------------------------------------------------------------------------------------------------- torch.sparse
def sparse_mm(mat1, mat2, reduce=None):
    """`mat1 @ mat2` where a factor is sparse; a sparse factor's gradient has its pattern.

    With `reduce` ("sum", "mean", "amax", "amin"; `mat1` CSR) the products of a row are reduced in that way, and only the stored elements count.
    """
    if reduce is None: return product(mat1, mat2)
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, mean, amax or amin, got {reduce}")
    if not is_sparse(mat1) or mat1.layout is not CSR:
        raise RuntimeError(f"Expected sparse CSR tensor as mat1 of a product with reduce=, but got {mat1.layout}")
    if is_sparse(mat2):
        raise RuntimeError(f"Expected dense tensor as mat2 of a product with reduce=, but got {mat2.layout}")
    _check(mat1, mat2)
    if reduce == "sum": return product(mat1, mat2)
    if reduce == "mean":
        lengths = mat1._pattern.indices[0].diff().to(rl.int64)
        return product(mat1, mat2) / lengths.clamp(min=1).to(mat2.dtype).unsqueeze(1)
    rows, columns = mat1._pattern.places()
    return registry.find("_sparse_dense_extreme").op.function(rows, columns, values_of(mat1), mat2, mat1.shape[0], reduce == "amax")


def sparse_addmm(mat, mat1, mat2, *, beta=1.0, alpha=1.0):
    """`beta * mat + alpha * (mat1 @ mat2)` where `mat1` is sparse; its gradient has its pattern."""
    return _added(mat, product(mat1, mat2), beta, alpha)


def sampled_addmm(input, mat1, mat2, *, beta=1.0, alpha=1.0, out=None):
    """`beta * input + alpha * (mat1 @ mat2)` at the places of `input`, a CSR matrix, only.

    >>> s = rushlight.eye(2).to_sparse_csr()
    >>> rushlight.sparse.sampled_addmm(s, rushlight.ones(2, 3), rushlight.ones(3, 2)).to_dense()
    tensor([[4., 0.],
            [0., 4.]])
    """
    if not is_sparse(input) or input.layout is not CSR:
        raise RuntimeError(f"Expected 'self' to have sparse csr layout: sampled_addmm(): got {input.layout}")
    for name, m in (("mat1", mat1), ("mat2", mat2)):
        if is_sparse(m):
            raise RuntimeError(f"sampled_addmm: Expected {name} to have strided layout, but got {m.layout}")
        if m.dtype is not input.dtype:
            raise RuntimeError(f"sampled_addmm: Expected {name} and self to have the same dtype, but got {m.dtype} and {input.dtype}")
        if m.dim() != 2:
            raise RuntimeError(f"sampled_addmm: Expected {name} to be a matrix, got {m.dim()}-D tensor")
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({mat1.shape[0]}x{mat1.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})")
    if (mat1.shape[0], mat2.shape[1]) != tuple(input.shape):
        raise RuntimeError(f"sampled_addmm: self shape {list(input.shape)} must be that of the product, {[mat1.shape[0], mat2.shape[1]]}")
    rows, columns = input._pattern.places()
    sampled = _sampled(rows, columns, mat1, mat2.t().contiguous())
    sampled = sampled if alpha == 1 else sampled * alpha
    made = sparse_like(input, sampled if beta == 0 else sampled + (values_of(input) if beta == 1 else values_of(input) * beta))
    return made if out is None else written("sampled_addmm", out, made)


def hspmm(mat1, mat2):
    """The product of a COO matrix with a dense one, of which only the rows that have elements are stored."""
    _need_sparse_and_dense("hspmm", mat1, mat2)
    _check(mat1, mat2)
    rows, places = rl.unique(mat1._pattern.places()[0], return_inverse=True)
    values = _sparse_dense(places, mat1._pattern.places()[1], values_of(mat1), mat2, rows.shape[0])
    return assemble(Pattern(COO, (mat1.shape[0], mat2.shape[1]), (rows.unsqueeze(0),)), values)


def _need_sparse_and_dense(name, mat1, mat2):
    if not is_sparse(mat1) or is_sparse(mat2):
        raise RuntimeError(f"{name}: Argument #2: matrices expected, a sparse one and a dense one, got the layouts {mat1.layout} and {mat2.layout}")


def sspaddmm(input, mat1, mat2, *, beta=1, alpha=1):
    """`beta * input + alpha * (mat1 @ mat2)` as a sparse tensor: `mat2` is dense, the others are sparse."""
    _need_sparse_and_dense("sspaddmm", mat1, mat2)
    rows = hspmm(mat1, mat2)
    places = rl.cartesian_prod(rows._pattern.places()[0], rl.arange(mat2.shape[1])).reshape(-1, 2).t()
    made = assemble(Pattern(COO, rows.shape, (places,), coalesced=False), values_of(rows).reshape(-1))
    return input * beta + made * alpha


def smm(input, mat):
    """The product of a sparse matrix with a dense one as a sparse tensor."""
    return sspaddmm(zeros((input.shape[0], mat.shape[1]), COO, input.dtype), input, mat, beta=0)


def spmm(input, mat2):
    """`torch.mm`: a matrix product in which a factor may be sparse."""
    return rl.mm(input, mat2)


__all__ = ["full_product", "hspmm", "product", "sampled_addmm", "smm", "sparse_addmm", "sparse_mm", "spmm", "sspaddmm"]
