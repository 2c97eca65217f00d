"""Order along a dimension: sorting, the k largest, medians, quantiles. The routines are in csrc/sort.cpp; rows are dense when they get them.

NaN counts as the largest value, -0 equals 0, and of equal elements the one that comes first stays first, whether a stable order is asked for or not.
"""
from __future__ import annotations

from ..compiler import trace as T
from ..compiler.graph import dtype_code, itemsize
from ..registry import op
from ..samples_order import ordering
from .common import OUT_TENSOR_DTYPE, at_least_1d, drop_dims, numel_of, wrap_dim


def _along_rows(routine, x, d, kept, ints, scratch):
    """(values, indices) of a routine of csrc/sort.cpp along dimension d, which `kept` entries are left of. x has at least one dimension."""
    order = [k for k in range(x.ndim) if k != d] + [d]
    back = sorted(range(x.ndim), key=order.__getitem__)
    rows = T.permute(x, order)
    shape, n = rows.shape[:-1] + (kept,), x.shape[d]
    values, indices = T.native(routine, [(shape, x.dtype), (shape, "i64")], [rows], [dtype_code(x.dtype), n, *ints], units=numel_of(rows.shape[:-1]),
                               grain=1 + 4096 // n, scratch=scratch * n + 64, cost=x.numel() * 64)
    return T.permute(values, back), T.permute(indices, back)


def _is_empty(x):
    for s in x.shape:
        if s == 0:
            return True
    return False


def _nothing(x, d, kept):
    """The results of an empty tensor."""
    shape = x.shape[:d] + (kept,) + x.shape[d + 1:]
    return T.expand(T.const(0, x.dtype), shape), T.expand(T.const(0, "i64"), shape)


def spread_back(grad, indices, self, d):
    """The gradient of picking elements along a dimension: each goes where it was picked from, the others get 0."""
    if self.ndim == 0:
        return T.reshape(grad, ())
    return T.scatter_dim(T.expand(T.const(0, grad.dtype), self.shape), d, indices, grad)


def _kept(x, self, dim):
    """A result without its dimension, with it again as 1."""
    d = wrap_dim(dim, self.ndim)
    return T.reshape(x, tuple(1 if k == d else s for k, s in enumerate(self.shape)))


# -------------------------------------------------------------------------------------------------------------- sorting
_COMPLEX = " Sort does not support complex dtypes on CPU"           # torch's message begins with a space


@op(["sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)",
     "sort(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> (Tensor values, Tensor indices)"], rule=None,
    node=lambda given: f"SortBackward{int('stable' in given)}", out=OUT_TENSOR_DTYPE, refuses={"c": RuntimeError(_COMPLEX)}, samples=ordering("sort"))
def sort(self, dim, descending, stable=None):
    """The elements along `dim` in ascending (or descending) order, and where each of them was.

    >>> rushlight.sort(rushlight.tensor([3, 1, 2])).indices
    tensor([1, 2, 0])
    """
    d, x = wrap_dim(dim, self.ndim), at_least_1d(self)
    if _is_empty(x):
        return _nothing(x, d, x.shape[d])
    values, indices = _along_rows("sort_rows", x, d, x.shape[d], [int(descending)], 24)
    return T.reshape(values, self.shape), T.reshape(indices, self.shape)


@sort.gradient("self")
def _(grad, self, dim, indices):
    return spread_back(grad, indices, self, wrap_dim(dim, self.ndim))


@op(["argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor", "argsort(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> Tensor",
     "argsort(Tensor self, int dim, bool descending, bool stable) -> Tensor"], rule=None,
    differentiable=False, out=OUT_TENSOR_DTYPE, refuses={"c": RuntimeError(_COMPLEX)}, samples=ordering("argsort"))
def argsort(self, dim=-1, descending=False, stable=False):
    """Where the elements along `dim` are, in ascending (or descending) order of their values."""
    return sort(self, dim, descending)[1]


@op("msort(Tensor self) -> Tensor", rule=None, node="SortBackward0", out=OUT_TENSOR_DTYPE, refuses={"c": RuntimeError(_COMPLEX)}, samples=ordering("msort"))
def msort(self):
    """The elements along the first dimension in ascending order."""
    return sort(self, 0)[0]


# ------------------------------------------------------------------------------------------------------------- selecting
@op("topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> (Tensor values, Tensor indices)", once=True, rule=None, node="TopkBackward0",
    layout="contiguous", out=OUT_TENSOR_DTYPE, refuses={"c": RuntimeError(" topk does not support complex dtypes on CPU"), "b": RuntimeError("topk does not support bool dtypes on CPU")},
    samples=ordering("topk"))
def topk(self, k, dim, largest, sorted):
    """The k largest (or smallest) elements along `dim`, best first, and where they are."""
    d, x = wrap_dim(dim, self.ndim), at_least_1d(self)
    if k < 0 or k > x.shape[d]:
        raise RuntimeError("selected index k out of range")
    values, indices = _nothing(x, d, k) if _is_empty(x) or k == 0 else _along_rows("topk_rows", x, d, k, [k, int(largest)], 24)
    shape = self.shape if self.ndim == 0 and k == 1 else values.shape
    return T.reshape(values, shape), T.reshape(indices, shape)


@topk.gradient("self")
def _(grad, self, dim, indices):
    return spread_back(grad, indices, self, wrap_dim(dim, self.ndim))


def _need_entries(x, d, name):
    if x.shape[d] == 0:
        raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _picked(self, d, keepdim, name, routine, ints, scratch):
    """values and indices of one element along d."""
    x = at_least_1d(self)
    _need_entries(x, d, name)
    values, indices = _nothing(x, d, 1) if _is_empty(x) else _along_rows(routine, x, d, 1, ints, scratch)
    if self.ndim == 0:
        return T.reshape(values, ()), T.reshape(indices, ())
    return drop_dims(values, (d,), keepdim), drop_dims(indices, (d,), keepdim)


def _picked_gradient(grad, self, dim, indices):
    return spread_back(_kept(grad, self, dim), _kept(indices, self, dim), self, wrap_dim(dim, self.ndim))


@op("kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", once=True, rule=None, node="KthvalueBackward0", layout="contiguous",
    refuses="bc", kernel="kthvalue_cpu", separate=True, out="output values must be of same type as input", samples=ordering("kthvalue"))
def kthvalue(self, k, dim, keepdim):
    """The k-th smallest element along `dim`, counted from 1, and where it is."""
    d, x = wrap_dim(dim, self.ndim), at_least_1d(self)
    _need_entries(x, d, "kthvalue")
    if k < 1 or k > x.shape[d]:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {d}")
    return _picked(self, d, keepdim, "kthvalue", "kth_rows", [k - 1, 0], 16)


@kthvalue.gradient("self")
def _(grad, self, dim, indices):
    return _picked_gradient(grad, self, dim, indices)


_TENSOR_TYPE = "Expected tensor for 'values' to have the same type as tensor for argument #2 'self'; but it has not (while checking arguments for median)"


def _median(name, which, doc):
    """which: what csrc/sort.cpp calls it. Of two middle elements the lower counts."""
    def body(self, dim=None, keepdim=False):
        if dim is not None:
            return _picked(self, wrap_dim(dim, self.ndim), keepdim, name, "kth_rows", [0, which], 16)
        x = T.reshape(self, (self.numel(),))
        if x.shape[0] == 0:
            return T.const(float("nan") if T.is_float(x.dtype) else -2 ** (8 * itemsize(x.dtype) - 1) if x.dtype[0] == "i" else 0, x.dtype)
        return T.reshape(_along_rows("kth_rows", x, 0, 1, [0, which], 16)[0], ())
    body.__name__, body.__doc__ = name, doc
    definition = op([f"{name}(Tensor self) -> Tensor", f"{name}(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"], rule=None, once=True, layout="contiguous",
                    node=lambda given: f"{name.capitalize()}Backward{int('dim' in given)}", refuses="bc", kernel="median_cpu", out=(True, _TENSOR_TYPE),
                    samples=ordering("median"))(body)

    @definition.gradient("self")
    def _(grad, self, results, dim=None):
        if dim is not None:
            return _picked_gradient(grad, self, dim, results[1])
        # Shared evenly between all elements that equal the median; they are all NaN if it is.
        same = T.prim("eq", self, results[0]) | (T.prim("ne", self, self) & T.prim("ne", results[0], results[0]))
        share = T.cast(same, grad.dtype)
        return share * (grad / T.reduce_all("sum", share))
    return definition


median = _median("median", 1, "The middle element of all, or along `dim` with its index: the lower of two; NaN if there is one.")
nanmedian = _median("nanmedian", 2, "The middle element of those that are not NaN, of all or along `dim`; NaN if there are no others.")


@op("mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)", once=True, rule=None, node="ModeBackward0", layout="contiguous",
    refuses="c", kernel="mode_cpu", out="expected scalar type '{result}' but got '{out}' for values output", samples=ordering("mode"))
def mode(self, dim, keepdim):
    """The most frequent value along `dim`, the smallest of several, and where it is last."""
    return _picked(self, wrap_dim(dim, self.ndim), keepdim, "mode", "mode_rows", [], 24)


@mode.gradient("self")
def _(grad, self, dim, indices):
    return _picked_gradient(grad, self, dim, indices)
