"""Sums and differences along a dimension: the trapezoid rule, finite differences, the running log-sum-exp."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import Sample, _draw, reduction
from . import elementwise, reduce
from .common import wrap_dim


# -------------------------------------------------------------------------------------------------------- trapezoid rule
def _checked_y(name, y, dim):
    if y.dtype == "b1":
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    if y.ndim == 0:
        if name == "trapezoid": raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
        raise IndexError("slice() cannot be applied to a 0-dim tensor.")
    return wrap_dim(dim, y.ndim)


def _widths(name, y, x, d):
    """The distances between neighbouring points along d, ready to multiply with y's neighbours."""
    if x.dtype == "b1":
        raise RuntimeError(f"{name}: received a bool input for `x`, but bool is not supported")
    if x.ndim == 1 and y.ndim > 1:                       # one coordinate for each sample, along d
        if not x.shape[0] == y.shape[d]:
            raise RuntimeError(f"{name}: There must be one `x` value for each sample point")
        x = T.reshape(x, tuple(x.shape[0] if i == d else 1 for i in range(y.ndim)))
    if x.ndim < y.ndim:
        x = T.reshape(x, (1,) * (y.ndim - x.ndim) + tuple(x.shape))
    along = x.ndim - (y.ndim - d)
    n = x.shape[along]
    if n == 0:
        return x
    return elementwise.sub(T.slice(x, along, 1, n), T.slice(x, along, 0, n - 1))


def _areas(name, y, x, dx, d):
    """Twice the area between each two neighbours, and the factor that is left."""
    n = y.shape[d]
    sums = elementwise.add(T.slice(y, d, 1, n), T.slice(y, d, 0, n - 1))
    if x is not None:
        return elementwise.mul(_widths(name, y, x, d), sums), None
    return sums, dx


def _real_dx(name, dx):
    if dx is not None and T.scalar_kind(dx) in "bc":
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")


def _no_samples(y, dx, x, d):
    """The result's dtype when nothing is summed."""
    dtype = T.promote(y, x) if x is not None else y.dtype
    return dtype if T.is_float(dtype) or T.is_complex(dtype) else T.default_dtype()


def _trapezoid_samples(seed=0):
    import numpy as np
    rng = np.random.default_rng(seed)
    t = lambda *shape: _draw(rng, shape, -2, 2)
    return [Sample(t(6)), Sample(t(3, 40)), Sample(t(2, 5, 3), dim=1), Sample(t(4, 5), dx=2.5), Sample(t(4, 5), t(5)), Sample(t(4, 5), t(4), dim=0), Sample(t(4, 5), t(4, 5)),
            Sample(t(3, 1)), Sample(t(70, 3), dim=0)]


def _trapezoid_schemas(name):
    return [f"{name}(Tensor y, Tensor x, *, int dim=-1) -> Tensor", f"{name}(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor"]


def _half(total):
    return elementwise.div(total, 2.0)


@op(_trapezoid_schemas("trapezoid"), rule=None, on="torch", layout="contiguous", out=False, node="DivBackward0", aliases=("trapz",), samples=_trapezoid_samples)
def trapezoid(y, x=None, dx=None, dim=-1):
    """The integral of y along `dim` by the trapezoid rule, at distances `dx` or at the coordinates x."""
    d = _checked_y("trapezoid", y, dim)
    _real_dx("trapezoid", dx)
    if y.shape[d] == 0:
        return T.expand(T.const(0, _no_samples(y, dx, x, d)), tuple(s for i, s in enumerate(y.shape) if i != d))
    areas, factor = _areas("trapezoid", y, x, dx, d)
    total = reduce.sum(areas, (d if x is None else areas.ndim - (y.ndim - d),))
    return _half(total if factor is None else elementwise.mul(total, factor))


@op(_trapezoid_schemas("cumulative_trapezoid"), rule=None, on="torch", layout="contiguous", out=False, node="DivBackward0", samples=_trapezoid_samples)
def cumulative_trapezoid(y, x=None, dx=None, dim=-1):
    """The running integral of y along `dim` by the trapezoid rule: one value less than samples."""
    d = _checked_y("cumulative_trapezoid", y, dim)
    _real_dx("cumulative_trapezoid", dx)
    if y.shape[d] <= 1:
        return T.expand(T.const(0, _no_samples(y, dx, x, d)), tuple(0 if i == d else s for i, s in enumerate(y.shape)))
    areas, factor = _areas("cumulative_trapezoid", y, x, dx, d)
    if factor is not None:
        return elementwise.mul(reduce.cumsum(areas, d), elementwise.div(factor, 2.0))
    return _half(reduce.cumsum(areas, areas.ndim - (y.ndim - d)))


# ----------------------------------------------------------------------------------------------------- finite differences
def _between(x, d, start, stop):
    return T.slice(x, d, start, stop)


def _uniform(x, d, step, edge_order):
    """Central differences at distance `step`; at the edges one-sided ones of first or second order."""
    n = x.shape[d]
    at = lambda i: T.slice(x, d, i, i + 1)
    middle = (_between(x, d, 2, n) - _between(x, d, 0, n - 2)) / (step * 2.0)
    if edge_order == 1:
        first, last = (at(1) - at(0)) / step, (at(n - 1) - at(n - 2)) / step
    else:
        first = (at(0) * -1.5 + at(1) * 2.0 - at(2) * 0.5) / step
        last = (at(n - 1) * 1.5 - at(n - 2) * 2.0 + at(n - 3) * 0.5) / step
    return T.cat([first, middle, last], d)


def _uneven(x, d, points, edge_order):
    """Differences at given coordinates: the derivative of the parabola through three neighbours."""
    n = x.shape[d]
    h = T.reshape(points, tuple(n if i == d else 1 for i in range(x.ndim)))
    at, near = lambda i: T.slice(x, d, i, i + 1), lambda i: T.slice(h, d, i, i + 1)
    left = _between(h, d, 1, n - 1) - _between(h, d, 0, n - 2)
    right = _between(h, d, 2, n) - _between(h, d, 1, n - 1)
    a, b, c = -(right / (left * (left + right))), (right - left) / (left * right), left / (right * (left + right))
    middle = a * _between(x, d, 0, n - 2) + b * _between(x, d, 1, n - 1) + c * _between(x, d, 2, n)
    if edge_order == 1:
        first = (at(1) - at(0)) / (near(1) - near(0))
        last = (at(n - 1) - at(n - 2)) / (near(n - 1) - near(n - 2))
    else:
        p, q = near(1) - near(0), near(2) - near(1)
        first = -((p * 2.0 + q) / (p * (p + q))) * at(0) + ((p + q) / (p * q)) * at(1) - (p / (q * (p + q))) * at(2)
        p, q = near(n - 2) - near(n - 3), near(n - 1) - near(n - 2)
        last = (q / (p * (p + q))) * at(n - 3) - ((p + q) / (p * q)) * at(n - 2) + ((p + q * 2.0) / (q * (p + q))) * at(n - 1)
    return T.cat([first, middle, last], d)


@op(["_gradient(Tensor self, int dim, Scalar step, int edge_order) -> Tensor", "_gradient(Tensor self, int dim, Tensor points, int edge_order) -> Tensor"], rule=None, on="-",
    layout="contiguous", out=False, node="CatBackward0", samples=lambda seed=0: _gradient_samples(seed))
def _gradient(self, dim, edge_order, step=None, points=None):
    """The derivative along one dimension by finite differences (`torch.gradient` calls it for each)."""
    dtype = self.dtype if T.is_float(self.dtype) or T.is_complex(self.dtype) else T.default_dtype()
    if points is not None:
        dtype = T.promote(T.cast(self, dtype), points)
    work = T.compute_dtype(dtype)
    x = T.cast(self, work)
    out = _uniform(x, dim, T.cast(step, work), edge_order) if points is None else _uneven(x, dim, T.cast(points, work), edge_order)
    return T.cast(out, dtype)


def _gradient_samples(seed):
    import numpy as np
    rng = np.random.default_rng(seed)
    t = lambda *shape: _draw(rng, shape, -2, 2)
    points = lambda n: np.cumsum(_draw(rng, (n,), 0.2, 1)).astype("float32")
    return [Sample(t(5), 0, 2.0, 1), Sample(t(4, 40), 1, 0.5, 2), Sample(t(70, 3), 0, 1.0, 1), Sample(t(5, 6), 1, points(6), 1), Sample(t(5, 6), 0, points(5), 2)]


# ---------------------------------------------------------------------------------------------------------- logcumsumexp
@op("logcumsumexp(Tensor self, int dim) -> Tensor", once=True, rule="float!", layout="pointwise contiguous", node="LogcumsumexpBackward0", kernel="logcumsumexp_out_cpu",
    out="expected scalar_type {result} but found {out}", samples=reduction(dim_required=True, keepdim=False))
def logcumsumexp(self, dim):
    """The logarithm of the running sum of exponentials along `dim`, without overflow."""
    d = wrap_dim(dim, self.ndim)
    return self if self.ndim == 0 else T.scan("logaddexp", self, d)
