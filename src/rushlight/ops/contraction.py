"""Sums of products of several tensors, and what is made of them: einsum's kernel, chains of matrices, powers, Kronecker products, covariances, crosses."""
from __future__ import annotations

import math

from .. import registry
from ..compiler import trace as T
from ..compiler.promotion import C_NAME, promote_types
from ..registry import op
from ..samples_composite import contractions
from .common import OUT_TENSOR_DTYPE, at_least_1d, broadcast_shapes, drop_dims, hint, numel_of, required, rounded, shape_text, wrap_dim
from .matmul import _batched
from .reduce import _power_norm, cumprod, linalg_vector_norm


# ----------------------------------------------------------------------------------------------------------------- einsum
def _one_dtype(operands, equation):
    first = operands[0].dtype
    for x in operands:
        if x.dtype != first:
            raise RuntimeError(f"expected scalar type {T.dtype_word(first)} but found {T.dtype_word(x.dtype)}")
    if first == "b1":
        raise NotImplementedError("\"bmm\" not implemented for 'Bool'")
    return "match"


@op("_einsum(Tensor[] operands, str equation) -> Tensor", rule=_one_dtype, on="-", layout="contiguous", out=False, node="ViewBackward0",
    samples=contractions("einsum"))
def _einsum(operands, equation):
    """Products of tensors, summed over the labels that the right side of the equation does not name. No label twice in one operand, no
    ellipsis: `sums_of_products.einsum` has taken them out.

    Two operands at a time become one product of matrices; which two is decided by the equation alone, so that the order of summation is too.
    """
    left, result = equation.split("->")
    terms = [(x, labels) for x, labels in zip(operands, left.split(","))]
    sizes = {}
    for x, labels in terms:
        for s, c in zip(x.shape, labels):
            if c not in sizes or sizes[c] == 1:
                sizes[c] = s
    terms = [_without_spread(x, labels, sizes) for x, labels in terms]
    while len(terms) > 1:
        i, j = _next_pair([labels for _, labels in terms], result)
        wanted = set(result).union(*[labels for k, (_, labels) in enumerate(terms) if k not in (i, j)])
        order = result if len(terms) == 2 else "".join(sorted(wanted))
        pair = _product(*terms[i], *terms[j], wanted, sizes, order)
        terms = [t for k, t in enumerate(terms) if k not in (i, j)]
        terms.insert(i, pair)
    x, labels = _summed(*terms[0], set(result))
    return T.permute(x, [labels.index(c) for c in result])


def _without_spread(x, labels, sizes):
    """Without dimensions of size 1 that stand for a larger size: they would only repeat."""
    kept = [d for d, c in enumerate(labels) if not (x.shape[d] == 1 and not sizes[c] == 1)]
    return T.reshape(x, tuple(x.shape[d] for d in kept)), "".join(labels[d] for d in kept)


def _next_pair(labels, result):
    """The two operands whose product has the fewest labels in its loop, then in its result; the leftmost of equals."""
    best = None
    for i in range(len(labels)):
        for j in range(i + 1, len(labels)):
            wanted = set(result).union(*[s for k, s in enumerate(labels) if k not in (i, j)])
            both = set(labels[i]) | set(labels[j])
            cost = len(both), len(both & wanted)
            if best is None or cost < best[0]:
                best = cost, (i, j)
    return best[1]


def _summed(x, labels, wanted):
    dims = tuple(d for d, c in enumerate(labels) if c not in wanted)
    return (drop_dims(T.reduce("sum", x, dims), dims, False), "".join(c for c in labels if c in wanted)) if dims else (x, labels)


def _product(a, la, b, lb, wanted, sizes, order):
    """(product, labels): shared labels that are wanted are a batch, those that are not are summed over."""
    a, la = _summed(a, la, wanted | set(lb))
    b, lb = _summed(b, lb, wanted | set(la))
    place = lambda c: order.index(c) if c in order else len(order)
    batch = sorted((c for c in la if c in lb and c in wanted), key=place)
    inner = [c for c in la if c in lb and c not in wanted]
    rows, columns = (sorted((c for c in mine if c not in theirs), key=place) for mine, theirs in ((la, lb), (lb, la)))
    if not inner:
        labels = batch + rows + columns
        return _laid(a, la, labels) * _laid(b, lb, labels), "".join(labels)
    extent = lambda group: tuple(sizes[c] for c in group)
    pick = lambda x, own, groups: T.reshape(T.permute(x, [own.index(c) for g in groups for c in g]), tuple(numel_of(extent(g)) for g in groups))
    if batch:
        out = T.matmul(pick(a, la, (batch, rows, inner)), pick(b, lb, (batch, inner, columns)))
    else:
        out = T.matmul(pick(a, la, (rows, inner)), pick(b, lb, (inner, columns)))
    labels = batch + rows + columns
    return T.reshape(out, extent(labels)), "".join(labels)


def _laid(x, own, labels):
    """Dimensions in the order of `labels`, with size 1 for those it lacks."""
    x = T.permute(x, [own.index(c) for c in labels if c in own])
    sizes = iter(x.shape)
    return T.reshape(x, tuple(next(sizes) if c in own else 1 for c in labels))


# ---------------------------------------------------------------------------------------------------- chains and powers
def _chain_rule(tensors):
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    for i, x in enumerate(tensors[1:], 1):
        if x.dtype != tensors[0].dtype:
            raise RuntimeError(f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {C_NAME[tensors[0].dtype]} and tensor {i} {C_NAME[x.dtype]}")
    return "match"


@op("multi_dot(Tensor[] tensors) -> Tensor", rule=_chain_rule, on="linalg", layout="contiguous", refuses="b", kernel="addmm_impl_cpu_",
    out="multi_dot(): expected out tensor to have dtype {result_c} but got {out_c}", samples=contractions("multi_dot"))
def multi_dot(tensors):
    """The product of a chain of matrices in the order that needs the fewest multiplications. The first and the last may be vectors."""
    for x, which in ((tensors[0], "first"), (tensors[-1], "last")):
        if not 1 <= x.ndim <= 2:
            raise RuntimeError(f"multi_dot(): the {which} tensor must be 1D or 2D but got {x.ndim}D")
    for i, x in enumerate(tensors[1:-1], 1):
        if x.ndim != 2:
            raise RuntimeError(f"multi_dot(): tensor {i} must be 2D but got {x.ndim}D")
    chain = list(tensors)
    if chain[0].ndim == 1:
        chain[0] = T.reshape(chain[0], (1, chain[0].shape[0]))
    if chain[-1].ndim == 1:
        chain[-1] = T.reshape(chain[-1], (chain[-1].shape[0], 1))
    for i, (a, b) in enumerate(zip(chain, chain[1:])):
        if not a.shape[1] == b.shape[0]:
            raise RuntimeError(f"multi_dot(): tensors {i} and {i + 1} with shapes {shape_text(tensors[i].shape)} and {shape_text(tensors[i + 1].shape)} "
                               "cannot be multiplied")
    out = _chain(chain)
    lost = [d for d, x in ((0, tensors[0]), (1, tensors[-1])) if x.ndim == 1]
    return T.reshape(out, tuple(s for d, s in enumerate(out.shape) if d not in lost))


def _chain(chain):
    """The classical table: the cheapest way to multiply chain[i..j], for ever longer stretches."""
    n = len(chain)
    size = [x.shape[0] for x in chain] + [chain[-1].shape[1]]
    cost, cut = {(i, i): 0 for i in range(n)}, {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            for k in range(i, j):
                this = cost[i, k] + cost[k + 1, j] + size[i] * size[k + 1] * size[j + 1]
                if k == i or this < cost[i, j]:
                    cost[i, j], cut[i, j] = this, k

    def multiply(i, j):
        return chain[i] if i == j else T.matmul(multiply(i, cut[i, j]), multiply(cut[i, j] + 1, j))
    return multiply(0, n - 1)


def _power_rule(self, n):
    if n < 0 and not (T.is_float(self.dtype) or T.is_complex(self.dtype)):
        raise RuntimeError(f"linalg.inv: Expected a floating point or complex tensor as input. Got {T.dtype_word(self.dtype)}")
    return "keep"


def _power_out(given):
    """Where nothing is multiplied any out= will do that can hold the result."""
    if given["n"] in (0, 1):
        return RuntimeError("matrix_power: Expected result to be safely castable from {result} dtype, but got result with dtype {out}")
    return OUT_TENSOR_DTYPE


@op("matrix_power(Tensor self, int n) -> Tensor", rule=_power_rule, on="linalg torch Tensor",
    layout=lambda given: {1: "like", -1: "columns"}.get(given["n"], "contiguous"), out=_power_out, refuses="b", kernel="addmm_impl_cpu_", samples=contractions("matrix_power"))
def matrix_power(self, n):
    """A square matrix multiplied with itself: n factors by repeated squaring, the identity for 0, powers of the inverse for negative n."""
    if self.ndim < 2:
        raise RuntimeError("linalg.matrix_power: The input tensor A must have at least 2 dimensions.")
    if not self.shape[-1] == self.shape[-2]:
        raise RuntimeError(f"linalg.matrix_power: A must be batches of square matrices, but they are {hint(self.shape[-2])} by {hint(self.shape[-1])} matrices")
    size = self.shape[-1]
    if n == 0:
        one = T.prim("eq", T.iota(size, 0, 2), T.iota(size, 1, 2))
        return T.expand(T.cast(one, self.dtype), self.shape)
    square, result = (_inverse(self) if n < 0 else self), None
    n = abs(n)
    while n:
        if n & 1:
            result = square if result is None else _batched(result, square)
        n >>= 1
        if n:
            square = _batched(square, square)
    return T.copy(result)


def _inverse(x):
    try:
        inverse = registry.find("linalg_inv")
    except KeyError:
        raise NotImplementedError("linalg.matrix_power: negative powers need linalg.inv, which is not there yet") from None
    return inverse(x)


# -------------------------------------------------------------------------------------------------------------- norms
def _norm_dtype(name, x, dtype):
    """(compute, result) of a norm with a `dtype=`, or torch's refusals."""
    if not (T.is_float(x.dtype) or T.is_complex(x.dtype)):
        raise RuntimeError(f"{name}: Expected a floating point or complex tensor as input. Got {T.dtype_word(x.dtype)}")
    if dtype is None:
        return T.compute_dtype(x.dtype), T.real_dtype(x.dtype)
    if not (T.is_float(dtype) or T.is_complex(dtype)):
        raise RuntimeError(f"{name}: dtype should be floating point or complex, but got {T.dtype_word(dtype)}")
    if T.is_complex(dtype) != T.is_complex(x.dtype):
        kind, other = ("complex", "complex") if T.is_complex(x.dtype) else ("real", "real")
        raise RuntimeError(f"{name}: dtype should be {kind} for {other} inputs, but got {T.dtype_word(dtype)}")
    if T.promote(T.const(0, x.dtype), T.const(0, dtype)) != dtype:
        raise RuntimeError(f"{name}: the dtype of the input ({T.dtype_word(x.dtype)}) should be convertible without narrowing to the specified dtype "
                           f"({T.dtype_word(dtype)})")
    return T.compute_dtype(dtype), T.real_dtype(dtype)


def _matrix_norm_rule(self, ord, dim, keepdim, dtype):
    if self.ndim < 2:
        raise RuntimeError("linalg.matrix_norm: The input tensor A must have at least 2 dimensions.")
    if isinstance(ord, str) and ord not in ("fro", "nuc") or not isinstance(ord, str) and abs(ord) not in (1, 2, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {', '.join(map(str, dim))}")
    first, second = (wrap_dim(d, self.ndim) for d in dim)
    if first == second:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return _norm_dtype("linalg.matrix_norm", self, dtype)


@op([f"matrix_norm(Tensor self, {ord}, int[] dim=[-2, -1], bool keepdim=False, *, ScalarType? dtype=None) -> Tensor" for ord in ("str ord='fro'", "Scalar! ord")], rule=_matrix_norm_rule,
    on="linalg", layout="contiguous", node="LinalgVectorNormBackward0", out=OUT_TENSOR_DTYPE, samples=contractions("matrix_norm"))
def matrix_norm(self, ord, dim, keepdim, dtype):
    """A norm of matrices: 'fro' (root of the sum of squares), 'nuc' (sum of the singular values), 2 and -2 (the largest and the smallest of them),
    1 and -1 (the largest and the smallest column sum of absolute values), inf and -inf (the same of rows)."""
    return _matrix_norm(self, ord, dim, keepdim)


def _matrix_norm(self, ord, dim, keepdim):
    rows, columns = (wrap_dim(d, self.ndim) for d in dim)
    dims = tuple(sorted((rows, columns)))
    if ord == "fro":
        return drop_dims(_power_norm(self, 2, dims), dims, keepdim)
    if ord == "nuc" or abs(ord) == 2:
        return _spectral_norm(self, ord, rows, columns, dims, keepdim)
    summed, searched = (rows, columns) if abs(ord) == 1 else (columns, rows)
    totals = rounded(T.reduce("sum", T.prim("abs", self), (summed,)))          # as a result is: its gradient looks for it among them
    return drop_dims(_extreme(totals, searched, ord > 0), dims, keepdim)


def _extreme(x, d, largest):
    """The largest or the smallest along a dimension; of nothing the largest is 0."""
    if x.shape[d] == 0:
        if not largest:
            raise IndexError(f"amin(): Expected reduction dim {d} to have non-zero size.")
        return T.expand(T.const(0, x.dtype), x.shape[:d] + (1,) + x.shape[d + 1:])
    return T.reduce("amax" if largest else "amin", x, (d,))


def _spectral_norm(x, ord, rows, columns, dims, keepdim):
    try:
        values_of = registry.find("linalg_svdvals")
    except KeyError:
        raise NotImplementedError(f"linalg.matrix_norm: order {ord} needs linalg.svd, which is not there yet") from None
    rest = [d for d in range(x.ndim) if d not in dims]
    values = values_of(T.permute(x, rest + [rows, columns]))
    last = values.ndim - 1
    found = T.reduce("sum", values, (last,)) if ord == "nuc" else _extreme(values, last, ord > 0)
    shape = tuple(1 if d in dims else x.shape[d] for d in range(x.ndim)) if keepdim else tuple(x.shape[d] for d in rest)
    return T.reshape(found, shape)


def _norm_rule(self, ord, dim, keepdim, dtype):
    if dim is not None and ord is not None and not 1 <= len(dim) <= 2:
        raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dim)}")
    if dim is None and ord is not None and not isinstance(ord, str) and not 1 <= self.ndim <= 2:
        raise RuntimeError(f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {self.ndim}D.")
    if _is_matrix_norm(self, ord, dim):
        return _matrix_norm_rule(self, ord, dim if dim is not None else (-2, -1), keepdim, dtype)
    return _norm_dtype("linalg.vector_norm", self, dtype)


def _is_matrix_norm(x, ord, dim):
    return isinstance(ord, str) or ord is not None and (len(dim) if dim is not None else x.ndim) == 2


@op([f"norm(Tensor self, {ord}, int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor" for ord in ("Scalar!? ord=None", "str ord")], once=True, unreached=True, rule=_norm_rule, on="linalg",
    layout="contiguous", node="LinalgVectorNormBackward0", out=OUT_TENSOR_DTYPE, samples=contractions("norm"))
def linalg_norm(self, ord, dim, keepdim, dtype):
    """`vector_norm` along one dimension or of everything, `matrix_norm` over two dimensions with an order."""
    if _is_matrix_norm(self, ord, dim):
        return _matrix_norm(self, ord, dim if dim is not None else (-2, -1), keepdim)
    return linalg_vector_norm(self, 2 if ord is None else ord, dim, keepdim)


# --------------------------------------------------------------------------------------------------- products of all pairs
def _vecdot_rule(self, other, dim):
    if not (T.is_float(self.dtype) or T.is_complex(self.dtype)):
        raise RuntimeError(f"linalg.vecdot: Expected a floating point or complex tensor as input. Got {T.dtype_word(self.dtype)}")
    if self.dtype != other.dtype:
        raise RuntimeError(f"linalg.vecdot: Expected x and y to have the same dtype, but found x of type {T.dtype_word(self.dtype)} and y of type "
                           f"{T.dtype_word(other.dtype)} instead")
    return "same"


@op("vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor", rule=_vecdot_rule, on="linalg", layout="contiguous", node="SumBackward1",
    out="linalg.vecdot: Expected out of dtype {result} but found {out}", samples=contractions("vecdot"))
def vecdot(x, y, dim):
    """Sums of products of two vectors along a dimension, the first conjugated; the other dimensions broadcast."""
    product = T.conj(x) * y if broadcast_shapes(x.shape, y.shape) else at_least_1d(T.conj(x) * y)
    d = wrap_dim(dim, max(x.ndim, y.ndim))
    return drop_dims(T.reduce("sum", product, (d,)), (d,), False)


@op("kron(Tensor self, Tensor other) -> Tensor", rule=None, layout="contiguous", node="UnsafeViewBackward0", samples=contractions("kron"))
def kron(self, other):
    """The Kronecker product: every element of self times the whole of other, block by block."""
    dtype = promote_types(self.dtype, other.dtype)       # torch gives both dimensions first: a tensor without any counts like the other
    self, other = T.cast(self, dtype), T.cast(other, dtype)
    rank = max(self.ndim, other.ndim)
    pad = lambda x: (1,) * (rank - x.ndim) + tuple(x.shape)
    a, b = pad(self), pad(other)
    left = T.reshape(self, tuple(s for n in a for s in (n, 1)))
    right = T.reshape(other, tuple(s for n in b for s in (1, n)))
    return T.reshape(left * right, tuple(m * n for m, n in zip(a, b)))


@op("_block_diag(Tensor[] tensors) -> Tensor", rule="same", on="-", layout="contiguous", node="BlockDiagBackward0", out=False,
    samples=contractions("block_diag"))
def _block_diag(tensors):
    """Matrices along the diagonal of one that is zero elsewhere."""
    for i, x in enumerate(tensors):
        if x.ndim > 2:
            raise RuntimeError(f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {x.ndim} dimensions")
    blocks = [x if x.ndim == 2 else T.reshape(x, (1, x.numel())) for x in tensors]
    width, before, rows = 0, 0, []
    for x in blocks:
        width = width + x.shape[1]
    for x in blocks:
        rows.append(T.pad(x, 1, before, width - before - x.shape[1]))
        before = before + x.shape[1]
    return T.cat(rows, 0)


def _cross(a, b, d):
    at = T.iota(3, d, a.ndim)
    turn = lambda by: T.prim("fmod", at + by, T.const(3, "i64"))
    pick = lambda x, index: T.load(x, [index if k == d else T.iota(s, k, x.ndim) for k, s in enumerate(x.shape)])
    return pick(a, turn(1)) * pick(b, turn(2)) - pick(a, turn(2)) * pick(b, turn(1))


def _cross_rule(self, other, dim):
    if self.dtype != other.dtype:
        raise RuntimeError(f"expected scalar type {T.dtype_word(self.dtype)} but found {T.dtype_word(other.dtype)}")
    return "match"


@op("cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor", rule=_cross_rule, on="linalg", layout="contiguous", node="LinalgCrossBackward0", refuses="b",
    kernel="cross", out=OUT_TENSOR_DTYPE, samples=contractions("cross"))
def linalg_cross(self, other, dim):
    """The cross product of vectors of three elements along a dimension; the other dimensions broadcast."""
    if self.ndim != other.ndim:
        raise RuntimeError("linalg.cross: inputs must have the same number of dimensions.")
    d = wrap_dim(dim, self.ndim)
    if not (self.ndim and self.shape[d] == 3 and other.shape[d] == 3):
        sizes = [hint(x.shape[d]) if x.ndim else 1 for x in (self, other)]
        raise RuntimeError(f"linalg.cross: inputs dimension {dim} must have length 3. Got {sizes[0]} and {sizes[1]}")
    shape = broadcast_shapes(self.shape, other.shape)
    return _cross(T.expand(self, shape), T.expand(other, shape), d)


@linalg_cross.gradient("self")
def _(grad, self, other, dim):
    return T.sum_to(_cross(T.expand(other, grad.shape), grad, wrap_dim(dim, grad.ndim)), self.shape)


@linalg_cross.gradient("other")
def _(grad, self, other, dim):
    return T.sum_to(_cross(grad, T.expand(self, grad.shape), wrap_dim(dim, grad.ndim)), other.shape)


@op("cross(Tensor self, Tensor other, int? dim=None) -> Tensor", rule=_cross_rule, layout="contiguous", node="LinalgCrossBackward0", refuses="b",
    kernel="cross", out=OUT_TENSOR_DTYPE, samples=contractions("cross"))
def cross(self, other, dim):
    """`linalg.cross`; without a `dim` along the first dimension of size 3."""
    if dim is None:
        found = [d for d, s in enumerate(self.shape) if s == 3]
        if not found:
            raise RuntimeError("no dimension of size 3 in input")
        dim = found[0]
        T.warn("cross() without a dim is deprecated: it takes the first dimension of size 3. Say dim=, or take linalg.cross, whose dim is -1.", once=True)
    return linalg_cross(self, other, dim=dim)


def _powers(x, count):
    """1, x, x², ... along a new last dimension."""
    shape = tuple(x.shape) + (count,)
    first = T.prim("eq", T.iota(count, x.ndim, x.ndim + 1), 0)
    return cumprod(T.where(first, 1, T.expand(T.reshape(x, tuple(x.shape) + (1,)), shape)), x.ndim)


def _vander_rule(x, N):
    if x.dtype == "b1":
        raise RuntimeError("linalg.vander supports floating point, complex, and integer tensors, but got Bool")
    return "acc"


@op("vander(Tensor x, *, SymInt? N=None) -> Tensor", rule=_vander_rule, on="linalg", layout="contiguous", node="CumprodBackward0", out=False,
    samples=contractions("vander"))
def linalg_vander(x, N):
    """Rows of powers: `x ** 0, x ** 1, ...`, as many as x is long unless N says."""
    x = at_least_1d(x)
    count = N if N is not None else x.shape[-1]
    if not count > 1:
        raise RuntimeError("N must be greater than 1.")
    return _powers(x, count)


@op("vander(Tensor x, SymInt? N=None, bool increasing=False) -> Tensor", rule="acc", on="torch", layout="contiguous", node="FlipBackward0", out=False,
    samples=contractions("vander"))
def vander(x, N, increasing):
    """A matrix of powers of a vector, falling from left to right unless `increasing`."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError("N must be non-negative.")
    if count == 0 or x.shape[0] == 0:
        return T.expand(T.const(0, x.dtype), (x.shape[0], count))
    powers = _powers(x, count)
    return powers if increasing else T.flip(powers, (1,))


# ------------------------------------------------------------------------------------------------------------ covariance
def _covariance_rule(self, correction=1, fweights=None, aweights=None):
    for name, w, kind in (("fweights", fweights, "integral"), ("aweights", aweights, "floating point")):
        if w is None:
            continue
        if w.ndim > 1:
            raise RuntimeError(f"cov(): expected {name} to have one or fewer dimensions but got {name} with {w.ndim} dimensions")
        whole = not T.is_float(w.dtype) and not T.is_complex(w.dtype) and w.dtype != "b1"
        if not (whole if kind == "integral" else T.is_float(w.dtype)):
            raise RuntimeError(f"cov(): expected {name} to have {kind} dtype but got {name} with {T.dtype_word(w.dtype)} dtype")
    if self.dtype == "b1":
        raise RuntimeError("cov(): bool dtype is not supported for input")
    return "float"


@op("cov(Tensor self, *, SymInt correction=1, Tensor? fweights=None, Tensor? aweights=None) -> Tensor", rule=_covariance_rule, promote=("self", "aweights"),
    layout="contiguous", node="SqueezeBackward0", out=False, samples=contractions("cov"))
def cov(self, correction, fweights, aweights):
    """The covariances of variables, which are rows, over observations, which are columns. `fweights` says how often each observation was
    made, `aweights` how much it counts."""
    if self.ndim > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions")
    x = self if self.ndim == 2 else T.reshape(self, (1, self.numel()))
    observations, real = x.shape[1], T.real_dtype(x.dtype)
    fweights = _observation_weights(fweights, "fweights", observations)
    aweights = _observation_weights(aweights, "aweights", observations)
    weight = None
    for w in (fweights, aweights):
        if w is not None:
            w = T.cast(w, real)
            weight = w if weight is None else weight * w
    if weight is None:
        if observations <= correction:
            T.warn("cov(): the correction leaves no degrees of freedom (it is not less than the number of observations)")
        total = T.size(observations, real)
        degrees = T.prim("maximum", total - T.size(correction, real), T.const(0, real))
        weighted = x
    else:
        total = T.reduce_all("sum", weight)
        total = required(T.prim("ne", total, 0), total, ("RuntimeError", "cov(): weights sum to zero, can't be normalized"))
        lost = T.size(correction, real)
        if aweights is not None:
            lost = lost * T.reduce_all("sum", weight * T.cast(aweights, real)) / total
        degrees = total - lost
        degrees = T.where(degrees < 0, 0, degrees)
        weighted = x * T.cast(weight, x.dtype)
    centred = x - T.reduce("sum", weighted, (1,)) / T.cast(total, x.dtype)
    left = centred if weight is None else centred * T.cast(weight, x.dtype)
    out = T.matmul(left, T.conj(T.permute(centred, (1, 0)))) / T.cast(degrees, x.dtype)
    return T.reshape(out, ()) if x.shape[0] == 1 else out


def _observation_weights(w, name, observations):
    if w is None:
        return None
    if not w.numel() == observations:
        raise RuntimeError(f"cov(): expected {name} to have the same numel as there are observations in the input but got {hint(w.numel())} != {hint(observations)}")
    w = T.prim("real", w)
    w = required(~(w < 0), w, ("RuntimeError", f"cov(): {name} cannot be negative"))
    return T.reshape(w, (1, w.numel()))


@op("corrcoef(Tensor self) -> Tensor", rule=_covariance_rule, layout="contiguous", node="ClampBackward1", out=False, samples=contractions("corrcoef"))
def corrcoef(self):
    """Covariances over the product of the two standard deviations, in [-1, 1]."""
    if self.ndim > 2:
        raise RuntimeError(f"corrcoef(): expected input to have two or fewer dimensions but got an input with {self.ndim} dimensions")
    c = cov(self)
    if c.ndim == 0:
        return c / c
    n = c.shape[0]
    deviation = T.prim("sqrt", T.prim("real", T.load(c, [T.iota(n, 0, 1), T.iota(n, 0, 1)])))
    deviation = T.cast(deviation, c.dtype)
    r = c / T.reshape(deviation, (n, 1)) / T.reshape(deviation, (1, n))
    if not T.is_complex(r.dtype):
        return _clipped(r)
    return T.prim("make_complex", _clipped(T.prim("real", r)), _clipped(T.prim("imag", r)))


def _clipped(x):
    return T.where(x < -1, -1, T.where(x > 1, 1, x))


