"""Looking values up, and counting them: searchsorted, isin, quantiles, histograms, unique. The searches and what has a length that depends on the values
are in csrc/unique.cpp; `torch.unique` and the histograms, which decide what to return first, in counting.py."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..compiler.graph import dtype_code
from ..registry import op
from ..samples_order import counting, ordering
from .common import OUT_TENSOR_DTYPE, at_least_1d, no_derivative, numel_of, required, shape_text, underived, wrap_dim
from .elementwise import lerp
from .sort import sort


# ------------------------------------------------------------------------------------------------------------- searching
def _places(rows, values, right, dtype, order=None):
    """Where each value belongs in its sorted row (or in the one row there is)."""
    n = rows.shape[-1]
    per_row = 0 if rows.ndim == 1 else values.shape[-1]
    operands = [rows, values] if order is None else [rows, values, order]
    ints = [dtype_code(rows.dtype), n, per_row, int(right), int(dtype == "i32")]
    return T.native("search_rows" if order is None else "search_ordered_rows", [(values.shape, dtype)], operands, ints, units=values.numel(), grain=1024,
                    cost=values.numel() * 64)[0]


def _searched(rows, values, out_int32, right, sorter=None):
    for x in (rows, values):
        if T.is_complex(x.dtype) or x.dtype == "b1":
            raise NotImplementedError(f"\"searchsorted_out_cpu\" not implemented for '{T.dtype_word(x.dtype)}'")
    dtype, common = "i32" if out_int32 else "i64", T.promote(rows, values)
    if numel_of(values.shape) == 0:
        return T.expand(T.const(0, dtype), values.shape)
    return _places(T.cast(rows, common), T.cast(values, common), right, dtype, sorter)


_OUT = ("torch.searchsorted(): output tensor's dtype is wrong, it can only be Int(int32) or Long(int64) depending on whether out_int32 flag is True, but we got "
        "output tensor's dtype {out} instead of {result}")


@op(["searchsorted(Tensor sorted_sequence, Tensor self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor",
     "searchsorted(Tensor sorted_sequence, Scalar self, *, bool out_int32=False, bool right=False, str? side=None, Tensor? sorter=None) -> Tensor"], rule=None, on="torch",
    differentiable=False, layout="contiguous", out=_OUT, samples=counting("searchsorted"))
def searchsorted(sorted_sequence, self, out_int32, right, side, sorter):
    """Where in sorted rows each value would have to be put to keep them sorted: before equal elements, or (`right`) behind them.

    >>> rushlight.searchsorted(rushlight.tensor([1, 3, 5]), rushlight.tensor([3, 4]))
    tensor([1, 2])
    """
    name, rows = "torch.searchsorted()", sorted_sequence
    if side not in (None, "left", "right"):
        raise RuntimeError(f"{name}: side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(f"{name}: side and right can't be set to opposites, got side of left while right was True")
    if rows.ndim == 0:
        raise RuntimeError(f"{name}: boundaries tensor should have positive dimension, but got 0 dimension")
    if self.ndim == 0 and rows.ndim != 1:
        raise RuntimeError(f"{name}: input value can be a scalar only when boundaries tensor dimension is 1, but we got boundaries tensor dim({rows.ndim}) and "
                           "input value's dim(0) numel(1)")
    if rows.ndim != 1 and (self.ndim != rows.ndim or any(not a == b for a, b in zip(rows.shape[:-1], self.shape[:-1]))):
        raise RuntimeError(f"{name}: boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input value tensor must match, "
                           f"but we got boundaries tensor {shape_text(rows.shape)} and input value tensor {shape_text(self.shape)}")
    if sorter is not None:
        if sorter.ndim != rows.ndim or any(not a == b for a, b in zip(rows.shape, sorter.shape)):
            raise RuntimeError(f"{name}: boundary and sorter must have the same size, but got boundary tensor {shape_text(rows.shape)}and got sorter tensor "
                               f"{shape_text(sorter.shape)}")
        if sorter.dtype != "i64":
            raise RuntimeError(f"{name}: sorter must be a tensor of long dtype but got dtype {T.dtype_word(sorter.dtype)}")
        sorter = T.check(sorter, 0, rows.shape[-1], ("RuntimeError", f"{name}: sorter index out of range: {{value}}"))
    return _searched(rows, self, out_int32, right or side == "right", sorter)


@op(["bucketize(Tensor self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor",
     "bucketize(Scalar self, Tensor boundaries, *, bool out_int32=False, bool right=False) -> Tensor"], rule=None, on="torch", differentiable=False, layout="contiguous", out=_OUT,
    samples=counting("bucketize"))
def bucketize(self, boundaries, out_int32, right):
    """The bucket of each value: how many boundaries are below it (`right`: not above it)."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    return _searched(boundaries, self, out_int32, right)


@op(["isin(Tensor elements, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor",
     "isin(Tensor elements, Scalar test_element, *, bool assume_unique=False, bool invert=False) -> Tensor",
     "isin(Scalar element, Tensor test_elements, *, bool assume_unique=False, bool invert=False) -> Tensor"], rule=None, on="torch", differentiable=False,
    layout="contiguous", out=OUT_TENSOR_DTYPE, samples=counting("isin"))
def isin(elements=None, test_elements=None, assume_unique=False, invert=False, element=None, test_element=None):
    """Whether each element is one of the test elements (`invert`: none of them). A NaN is in nothing."""
    x, tests = elements if elements is not None else element, test_elements if test_elements is not None else test_element
    for v in (x, tests):
        if v.kind is None and (T.is_complex(v.dtype) or v.dtype == "b1"):
            raise RuntimeError(f"Unsupported input type encountered for isin(): {T.dtype_word(v.dtype)}")
    common = T.promote(x, tests)
    x, tests = T.cast(x, common), T.reshape(T.cast(tests, common), (tests.numel(),))
    if numel_of(tests.shape) == 0 or numel_of(x.shape) == 0:
        return T.expand(T.const(invert, "b1"), x.shape)
    found = T.prim("eq", tests, x) if tests.shape[0] == 1 else _among(x, sort(tests)[0])
    found = T.reshape(found, x.shape)
    return ~found if invert else found


def _among(x, ordered):
    at, n = _places(ordered, x, False, "i64"), T.size(ordered.shape[0], "i64")
    inside = at < n
    return inside & T.prim("eq", T.load(ordered, [T.where(inside, at, 0)]), x)


@op("nonzero_static(Tensor self, *, SymInt size, SymInt fill_value=-1) -> Tensor", rule=None, differentiable=False, layout="contiguous",
    out="nonzero_static: Expected out tensor to have scalar type {result} but got scalar type {out}", samples=counting("nonzero_static"))
def nonzero_static(self, size, fill_value):
    """The positions of the first `size` elements that are not zero, a row each; `fill_value` in rows that are left over."""
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    fill, rank = T.size(fill_value, "i64"), self.ndim
    if size == 0 or rank == 0 or numel_of(self.shape) == 0:
        return T.expand(fill, (size, rank))
    n = self.numel()
    hit = T.reshape(T.prim("ne", self, 0), (n,))
    place = T.scan("sum", T.cast(hit, "i64"), 0) - 1
    kept = hit & (place < T.size(size, "i64"))
    # One entry more than asked for takes what is not kept.
    flat = T.scatter(T.expand(T.const(-1, "i64"), (size + 1,)), [T.where(kept, place, T.size(size, "i64"))], T.iota(n, 0, 1), "set")
    flat = T.reshape(T.slice(flat, 0, 0, size, 1), (size, 1))
    columns, left = [], flat
    for d in reversed(range(rank)):
        extent = T.size(self.shape[d], "i64")
        columns.append(T.prim("fmod", left, extent))
        left = T.prim("idiv", left, extent)
    return T.where(flat < 0, fill, T.cat(columns[::-1], 1))


# -------------------------------------------------------------------------------------------------------------- quantiles
_HOW = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(name, ignore_nan, doc):
    def body(self, q, dim, keepdim, interpolation):
        if numel_of(self.shape) == 0:
            raise RuntimeError(f"{name}() input tensor must be non-empty")
        number = q.kind is not None
        if q.ndim > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
        if self.dtype not in ("f32", "f64"):
            raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
        if not number and q.dtype != self.dtype:
            raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
        if interpolation not in _HOW:
            raise RuntimeError(f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}")
        inside = T.prim("le", T.const(0, q.dtype), q) & T.prim("le", q, T.const(1, q.dtype))
        words = "q must be in the range [0, 1] but it is not" if number else "q values must be in the range [0, 1]"
        q = T.cast(required(inside, q, ("RuntimeError", f"{name}() {words}")), self.dtype)
        q = q if interpolation == "linear" else T.stop(q)
        d = None if dim is None else wrap_dim(dim, self.ndim)
        if d is None or self.ndim == 0:
            rows, others = T.reshape(self, (self.numel(),)), ()
            kept = (1,) * self.ndim
        else:
            rows, others = T.permute(self, [k for k in range(self.ndim) if k != d] + [d]), self.shape[:d] + self.shape[d + 1:]
            kept = self.shape[:d] + (1,) + self.shape[d + 1:]
        out = _at_rank(sort(rows)[0], at_least_1d(q), interpolation, ignore_nan)             # [q, *others]
        return T.reshape(out, ((q.shape[0],) if q.ndim else ()) + (kept if keepdim else others))
    body.__name__, body.__doc__ = name, doc
    return op([f"{name}(Tensor self, Tensor q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor",
               f"{name}(Tensor self, float q, int? dim=None, bool keepdim=False, *, str interpolation='linear') -> Tensor"], rule=None,
              layout=lambda given: "first innermost" if given["q"].ndim else "contiguous", out=f"{name}() out tensor must be same dtype as the input tensor", unreached=True, samples=ordering("quantile"))(body)


def _at_rank(ordered, q, how, ignore_nan):
    """What stands at q of the way through sorted rows; the quantiles come first in the result."""
    n, dtype, rank = ordered.shape[-1], ordered.dtype, ordered.ndim
    absent = T.prim("ne", ordered, ordered)
    q = T.reshape(q, (q.shape[0],) + (1,) * rank)
    last = T.size(n - 1, dtype)
    if ignore_nan:
        present = T.reduce("sum", T.cast(~absent, dtype), (rank - 1,)) - 1
        place = q * T.where(present < 0, 0, present)
    else:                                              # NaNs are last: a row that has one gives it
        place = T.where(T.reduce("any", absent, (rank - 1,)), last, q * last)
    below = T.prim({"higher": "ceil", "nearest": "round"}.get(how, "floor"), place)

    def load(at):
        at = T.cast(T.stop(at), "i64")
        return T.load(ordered, [*[T.iota(s, k + 1, rank + 1) for k, s in enumerate(ordered.shape[:-1])], at])
    low = load(below)
    if how in ("lower", "higher", "nearest"):
        return low
    weight = T.const(0.5, dtype) if how == "midpoint" else place - T.stop(below)
    return lerp(low, load(T.prim("ceil", place)), weight)


quantile = _quantile("quantile", False, """The value that a share `q` of the elements (along `dim`) lies below, between two elements by `interpolation`; NaN if there is one.

    >>> rushlight.quantile(rushlight.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
    tensor(1.5000)
    """)
nanquantile = _quantile("nanquantile", True, "`quantile` of the elements that are not NaN.")


# ------------------------------------------------------------------------------------------------------------- histograms
@op("histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor", rule=None, differentiable=False, layout="contiguous", out=OUT_TENSOR_DTYPE,
    refuses={"c": NotImplementedError("\"aminmax_cpu\" not implemented for 'ComplexFloat'"), "i": NotImplementedError("\"histogram_cpu\" not implemented for 'Long'"),
             "b": NotImplementedError("\"linspace_cpu\" not implemented for 'Bool'")}, samples=counting("histc"))
def histc(self, bins, min, max):
    """How many elements lie in each of `bins` equal bins from `min` to `max`, or over the range of the data if these are equal. Others are not counted."""
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins} for dimension 0")
    dtype = T.compute_dtype(self.dtype)
    x, lo, hi = T.cast(T.reshape(self, (self.numel(),)), dtype), T.cast(min, dtype), T.cast(max, dtype)
    if numel_of(self.shape) != 0:
        given = T.prim("ne", lo, hi)
        lo, hi = T.where(given, lo, T.reduce_all("amin", x)), T.where(given, hi, T.reduce_all("amax", x))
    flat = T.prim("eq", lo, hi)
    lo, hi = T.where(flat, lo - 1, lo), T.where(flat, hi + 1, hi)
    finite = T.prim("lt", T.prim("abs", lo), T.const(math.inf, dtype)) & T.prim("lt", T.prim("abs", hi), T.const(math.inf, dtype))
    lo = required(finite, lo, ("RuntimeError", "torch.histc: range of the bins is not finite"))
    lo = required(T.prim("lt", lo, hi), lo, ("RuntimeError", "torch.histc: max must be larger than min"))
    inside = T.prim("le", lo, x) & T.prim("le", x, hi)
    at = T.cast(T.where(inside, x - lo, 0) * T.const(bins, dtype) / (hi - lo), "i64")
    at = T.where(inside, T.prim("minimum", at, T.const(bins - 1, "i64")), T.const(bins, "i64"))
    counts = T.scatter(T.expand(T.const(0, "i64"), (bins + 1,)), [at], T.const(1, "i64"), "add")
    return T.cast(T.slice(counts, 0, 0, bins, 1), self.dtype)


@op("histogram(Tensor self, Tensor edges, Tensor? weight=None, bool density=False, bool even=False) -> (Tensor hist, Tensor bin_edges)", rule=None, on="-", differentiable=False, out=False)
def _histogram(self, edges, weight, density, even):
    """A histogram over given edges, which are returned with it. `torch.histogram` (counting.py) finds the edges."""
    return _histogramdd(T.reshape(self, (self.numel(), 1)), [edges], weight, density, even), T.alias(edges)


@op("_histogramdd(Tensor self, Tensor[] edges, Tensor? weight=None, bool density=False, bool even=False) -> Tensor", rule=None, on="-", layout="contiguous", out=False)
def _histogramdd(self, edges, weight, density, even):
    """How many rows of a matrix (what weight) fall into each cell of a grid that has one vector of edges for each column. The last edge belongs to its bin.
    `even`: the edges are evenly spaced."""
    dtype, at, inside, total = self.dtype, T.const(0, "i64"), None, 1
    count = self.shape[0]
    for k, e in enumerate(edges):
        x = T.reshape(T.slice(self, 1, k, k + 1, 1), (count,))
        bins = e.shape[0] - 1
        first, last = T.load(e, [T.const(0, "i64")]), T.load(e, [T.size(bins, "i64")])
        fits = T.prim("le", first, x) & T.prim("le", x, last)
        inside = fits if inside is None else inside & fits
        place = T.expand(T.const(0, "i64"), (0,)) if count == 0 else _bin_near(e, x, fits, first, last, bins) if even else _places(e, x, True, "i64") - 1
        place = T.prim("minimum", place, T.size(bins - 1, "i64"))
        at, total = at * T.size(bins, "i64") + place, total * bins
    at = T.where(inside, at, T.size(total, "i64"))
    if weight is None:
        hist = T.cast(T.scatter(T.expand(T.const(0, "i64"), (total + 1,)), [at], T.const(1, "i64"), "add"), dtype)
    else:
        hist = T.scatter(T.expand(T.const(0, dtype), (total + 1,)), [at], weight, "add")
    shape = tuple(e.shape[0] - 1 for e in edges)
    hist = T.reshape(T.slice(hist, 0, 0, total, 1), shape)
    if not density:
        return hist
    hist = hist / T.reduce_all("sum", hist)
    for k, e in enumerate(edges):
        n = e.shape[0]
        width = T.slice(e, 0, 1, n, 1) - T.slice(e, 0, 0, n - 1, 1)
        hist = hist / T.reshape(width, tuple(n - 1 if j == k else 1 for j in range(len(edges))))
    return hist


_histogramdd.gradient("self", "edges", "weight")(underived("histogram"))


def _bin_near(e, x, fits, first, last, bins):
    """The bin of each value that fits, between evenly spaced edges: computed, then moved by one where the edges, which are rounded, say so."""
    guess = T.cast(T.where(fits, x - first, 0) * T.size(bins, x.dtype) / (last - first), "i64")
    guess = T.prim("maximum", T.prim("minimum", guess, T.size(bins - 1, "i64")), T.const(0, "i64"))
    below, above = T.load(e, [guess]), T.load(e, [guess + 1])
    return guess - T.cast(T.prim("lt", x, below), "i64") + T.cast(T.prim("le", above, x), "i64")


# --------------------------------------------------------------------- how many depends on the values: in C++ (csrc/unique.cpp)
def _refuses_derivative(native, parameter, rule):
    """Torch has no derivative with respect to this parameter, and says so when one is asked for. C++ puts what it made of a tensor that requires gradients into the graph by the operator
    defined here, `_NAME_of`."""
    name = native.name.strip("_")
    native.gradient(parameter)(rule)                                     # forward mode reads it there

    def body(result, of): return T.copy(result)
    body.__doc__ = f"The result of `{name}`, in the graph of its operand."
    definition = op(f"_{name}_of(Tensor result, Tensor of) -> Tensor", rule=None, on="-", layout="like", out=False, node=native.node)(body)
    definition.gradient("result")(lambda grad: None)
    definition.gradient("of")(rule)


@op("_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)", native="_unique2", on="torch", out=False,
    differentiable=False)
def _unique2(self, sorted, return_inverse, return_counts):
    """The different values, ascending; the place of each element among them; how often each occurs. What is not asked for is empty."""


@op("unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool return_counts=False) -> (Tensor, Tensor, Tensor)", native="unique_dim", on="-", out=False,
    differentiable=False)
def unique_dim(self, dim, sorted, return_inverse, return_counts):
    """`_unique2` of the entries along a dimension."""


@op("_unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, int? dim=None) -> (Tensor, Tensor, Tensor)", native="_unique_consecutive", on="-", out=False,
    differentiable=False)
def _unique_consecutive(self, return_inverse, return_counts, dim):
    """The first element (entry) of each run of equal ones."""


for _native, _torchs in ((_unique2, "_unique2"), (unique_dim, "unique_dim"), (_unique_consecutive, "unique_consecutive")):
    _refuses_derivative(_native, "self", no_derivative(_torchs))


@op("bincount(Tensor self, Tensor? weights=None, SymInt minlength=0) -> Tensor", native="bincount", out=False, differentiable=False, samples=counting("bincount"))
def bincount(self, weights, minlength):
    """How often each integer from 0 to the largest (at least up to minlength) occurs, or the sum of the weights of its occurrences.

    >>> rushlight.bincount(rushlight.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """


_refuses_derivative(bincount, "weights", underived("bincount"))
