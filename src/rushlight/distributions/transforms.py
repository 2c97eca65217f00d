"""Transforms: invertible maps with the logarithm of how much they stretch. `t(x)`, `t.inv(y)`, `t.log_abs_det_jacobian(x, y)`."""
from __future__ import annotations

import functools
import math
import numbers
import operator
import weakref

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import Tensor

from . import constraints
from .utils import _sum_rightmost, broadcast_all, lacks, lazy_property, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform", "ExpTransform",
           "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform",
           "SoftplusTransform", "TanhTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "Transform", "identity_transform"]


class Transform:
    """`domain` and `codomain` are constraints; `bijective`: has an inverse; `sign`: of the slope, where there is one."""

    bijective = False
    domain: constraints.Constraint
    codomain: constraints.Constraint

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size, self._inv = cache_size, None
        if cache_size == 1:
            self._cached_x_y = None, None
        super().__init__()

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_inv"] = None
        return state

    @property
    def event_dim(self) -> int:
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse."""
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> int: raise lacks(self, "sign")

    def with_cache(self, cache_size: int = 1):
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other) -> bool: return self is other
    def __hash__(self) -> int: return id(self)
    def __ne__(self, other) -> bool: return not self.__eq__(other)

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        x_old, y_old = self._cached_x_y
        if x is x_old:
            return y_old
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        x_old, y_old = self._cached_x_y
        if y is y_old:
            return x_old
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x): raise lacks(self, "_call")
    def _inverse(self, y): raise lacks(self, "_inverse")
    def log_abs_det_jacobian(self, x, y): raise lacks(self, "log_abs_det_jacobian")
    def __repr__(self) -> str: return self.__class__.__name__ + "()"
    def forward_shape(self, shape): return shape
    def inverse_shape(self, shape): return shape


class _InverseTransform(Transform):
    """The inverse of another transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self): return self._inv.codomain
    @constraints.dependent_property(is_discrete=False)
    def codomain(self): return self._inv.domain
    @property
    def bijective(self): return self._inv.bijective
    @property
    def sign(self): return self._inv.sign
    @property
    def inv(self): return self._inv
    def with_cache(self, cache_size=1): return self.inv.with_cache(cache_size).inv
    def __eq__(self, other): return isinstance(other, _InverseTransform) and self._inv == other._inv
    __hash__ = Transform.__hash__
    def __repr__(self): return f"{self.__class__.__name__}({self._inv!r})"
    def __call__(self, x): return self._inv._inv_call(x)
    def _inv_call(self, y): return self._inv(y)
    def log_abs_det_jacobian(self, x, y): return -self._inv.log_abs_det_jacobian(y, x)
    def forward_shape(self, shape): return self._inv.inverse_shape(shape)
    def inverse_shape(self, shape): return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """One after the other."""

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other): return isinstance(other, ComposeTransform) and self.parts == other.parts
    __hash__ = Transform.__hash__

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        if not self.parts:
            return constraints.real
        domain = self.parts[0].domain
        event_dim = self.parts[-1].codomain.event_dim               # how many dimensions one event has at the start, seen from the end
        for part in reversed(self.parts):
            event_dim += part.domain.event_dim - part.codomain.event_dim
            event_dim = max(event_dim, part.domain.event_dim)
        if event_dim > domain.event_dim:
            domain = constraints.independent(domain, event_dim - domain.event_dim)
        return domain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        if not self.parts:
            return constraints.real
        codomain = self.parts[-1].codomain
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim += part.codomain.event_dim - part.domain.event_dim
            event_dim = max(event_dim, part.codomain.event_dim)
        if event_dim > codomain.event_dim:
            codomain = constraints.independent(codomain, event_dim - codomain.event_dim)
        return codomain

    @lazy_property
    def bijective(self): return all(p.bijective for p in self.parts)
    @lazy_property
    def sign(self): return functools.reduce(operator.mul, (p.sign for p in self.parts), 1)

    @property
    def inv(self):
        inverse = self._inv() if self._inv is not None else None
        if inverse is None:
            inverse = ComposeTransform([p.inv for p in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size=1): return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return rl.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms, event_dim = [], self.domain.event_dim
        for part, before, after in zip(self.parts, values[:-1], values[1:]):
            terms.append(_sum_rightmost(part.log_abs_det_jacobian(before, after), event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self): return self.__class__.__name__ + "(\n    " + ",\n    ".join(p.__repr__() for p in self.parts) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last dimensions count as one event."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform.with_cache(cache_size), reinterpreted_batch_ndims

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self): return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)
    @constraints.dependent_property(is_discrete=False)
    def codomain(self): return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)
    @property
    def bijective(self): return self.base_transform.bijective
    @property
    def sign(self): return self.base_transform.sign

    def _call(self, x):
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y):
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y): return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)
    def __repr__(self): return f"{self.__class__.__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"
    def forward_shape(self, shape): return self.base_transform.forward_shape(shape)
    def inverse_shape(self, shape): return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Another shape of the event."""

    bijective = True

    def __init__(self, in_shape, out_shape, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = rl.Size(in_shape), rl.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self): return constraints.independent(constraints.real, len(self.in_shape))
    @constraints.dependent_property
    def codomain(self): return constraints.independent(constraints.real, len(self.out_shape))
    def with_cache(self, cache_size=1): return self if self._cache_size == cache_size else ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)
    def _call(self, x): return x.reshape(x.shape[:x.dim() - len(self.in_shape)] + self.out_shape)
    def _inverse(self, y): return y.reshape(y.shape[:y.dim() - len(self.out_shape)] + self.in_shape)
    def log_abs_det_jacobian(self, x, y): return x.new_zeros(x.shape[:x.dim() - len(self.in_shape)])

    def _moved(self, shape, before, after):
        cut = len(shape) - len(before)
        if cut < 0:
            raise ValueError("Too few dimensions on input")
        if tuple(shape[cut:]) != tuple(before):
            raise ValueError(f"Shape mismatch: expected {tuple(shape[cut:])} but got {before}")
        return rl.Size(shape[:cut]) + after

    def forward_shape(self, shape): return self._moved(shape, self.in_shape, self.out_shape)
    def inverse_shape(self, shape): return self._moved(shape, self.out_shape, self.in_shape)


class _Plain(Transform):
    """Transforms without parameters are equal when they are of one class."""

    def __eq__(self, other): return type(self) is type(other)
    __hash__ = Transform.__hash__


class _Rising(_Plain):
    """Of single numbers, one to one, and larger for larger ones."""

    bijective, sign = True, 1


class ExpTransform(_Rising):
    """y = exp(x)."""
    domain, codomain = constraints.real, constraints.positive
    def _call(self, x): return x.exp()
    def _inverse(self, y): return y.log()
    def log_abs_det_jacobian(self, x, y): return x


class PowerTransform(Transform):
    """y = x ** exponent, of positive numbers."""

    domain, codomain, bijective = constraints.positive, constraints.positive, True

    def __init__(self, exponent, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.exponent, = broadcast_all(exponent)

    def with_cache(self, cache_size=1): return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)
    @lazy_property
    def sign(self): return self.exponent.sign()
    def __eq__(self, other): return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all())
    __hash__ = Transform.__hash__
    def _call(self, x): return x.pow(self.exponent)
    def _inverse(self, y): return y.pow(1 / self.exponent)
    def log_abs_det_jacobian(self, x, y): return (self.exponent * y / x).abs().log()
    def forward_shape(self, shape): return rl.broadcast_shapes(shape, self.exponent.shape)
    inverse_shape = forward_shape


class SigmoidTransform(_Rising):
    """y = 1 / (1 + exp(-x))."""
    domain, codomain = constraints.real, constraints.unit_interval
    def _call(self, x): return _clipped_sigmoid(x)

    def _inverse(self, y):
        info = rl.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y): return -F.softplus(-x) - F.softplus(x)


def _clipped_sigmoid(x):
    info = rl.finfo(x.dtype)
    return rl.clamp(rl.sigmoid(x), min=info.tiny, max=1.0 - info.eps)


class SoftplusTransform(_Rising):
    """y = log(1 + exp(x))."""
    domain, codomain = constraints.real, constraints.positive
    def _call(self, x): return F.softplus(x)
    def _inverse(self, y): return (-y).expm1().neg().log() + y
    def log_abs_det_jacobian(self, x, y): return -F.softplus(-x)


class TanhTransform(_Rising):
    """y = tanh(x)."""
    domain, codomain = constraints.real, constraints.interval(-1.0, 1.0)
    def _call(self, x): return x.tanh()
    def _inverse(self, y): return rl.atanh(y)
    def log_abs_det_jacobian(self, x, y): return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|; its inverse gives the positive one."""
    domain, codomain = constraints.real, constraints.positive
    def __eq__(self, other): return isinstance(other, AbsTransform)
    __hash__ = Transform.__hash__
    def _call(self, x): return x.abs()
    def _inverse(self, y): return y


class AffineTransform(Transform):
    """y = loc + scale * x."""

    bijective = True

    def __init__(self, loc, scale, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self): return self._event_dim
    @constraints.dependent_property(is_discrete=False)
    def domain(self): return constraints.real if self.event_dim == 0 else constraints.independent(constraints.real, self.event_dim)
    codomain = domain
    def with_cache(self, cache_size=1): return self if self._cache_size == cache_size else AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

    def __eq__(self, other):
        def same(a, b): return a == b if isinstance(a, numbers.Number) and isinstance(b, numbers.Number) else bool((rl.as_tensor(a) == rl.as_tensor(b)).all())
        return isinstance(other, AffineTransform) and same(self.loc, other.loc) and same(self.scale, other.scale)
    __hash__ = Transform.__hash__

    @property
    def sign(self): return self.scale.sign() if isinstance(self.scale, Tensor) else (1 if float(self.scale) > 0 else -1 if float(self.scale) < 0 else 0)
    def _call(self, x): return self.loc + self.scale * x
    def _inverse(self, y): return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        shape, scale = x.shape, self.scale
        result = rl.full_like(x, math.log(abs(scale))) if isinstance(scale, numbers.Real) else rl.abs(scale).log()
        if self.event_dim:
            result = result.view(result.size()[:-self.event_dim] + (-1,)).sum(-1)
            shape = shape[:-self.event_dim]
        return result.expand(shape)

    def forward_shape(self, shape): return rl.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))
    inverse_shape = forward_shape


class CorrCholeskyTransform(Transform):
    """A vector of D*(D-1)/2 numbers to the Cholesky factor of a D x D correlation matrix."""

    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    def _call(self, x):
        x = rl.tanh(x)
        eps = rl.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r ** 2).sqrt().cumprod(-1)
        r = r + rl.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        left = 1 - rl.cumsum(y * y, dim=-1)
        shifted = F.pad(left[..., :-1], [1, 0], value=1)
        vector, root = tril_matrix_to_vec(y, diag=-1), tril_matrix_to_vec(shifted, diag=-1).sqrt()
        t = vector / root
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        left = 1 - (y * y).cumsum(dim=-1)
        stick = tril_matrix_to_vec(left, diag=-2)
        return 0.5 * (stick + rl.finfo(y.dtype).tiny).log().sum(-1) - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(dim=-1)

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (d, d)

    def inverse_shape(self, shape):
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class SoftmaxTransform(_Plain):
    """Numbers to probabilities; not one to one."""
    domain, codomain = constraints.real_vector, constraints.simplex
    def _call(self, x):
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)
    def _inverse(self, y): return y.log()
    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape
    inverse_shape = forward_shape


class StickBreakingTransform(_Plain):
    """K - 1 numbers to K probabilities, one to one."""

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, True

    def _call(self, x):
        offset = x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)
        z = _clipped_sigmoid(x - offset.log())
        return F.pad(z, [0, 1], value=1) * F.pad((1 - z).cumprod(-1), [1, 0], value=1)

    def _inverse(self, y):
        crop = y[..., :-1]
        offset = y.shape[-1] - y.new_ones(crop.shape[-1]).cumsum(-1)
        left = rl.clamp(1 - crop.cumsum(-1), min=rl.finfo(y.dtype).tiny)
        return crop.log() - left.log() + offset.log()

    def log_abs_det_jacobian(self, x, y):
        x = x - (x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape): return shape[:-1] + (shape[-1] + 1,)
    def inverse_shape(self, shape): return shape[:-1] + (shape[-1] - 1,)


class LowerCholeskyTransform(_Plain):
    """A matrix to a lower triangular one with a positive diagonal."""
    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky
    def _call(self, x): return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()
    def _inverse(self, y): return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """A matrix to a positive definite one."""
    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite
    def _call(self, x):
        x = LowerCholeskyTransform()(x)
        return x @ x.mT
    def _inverse(self, y): return LowerCholeskyTransform().inv(rl.linalg.cholesky(y))


class CatTransform(Transform):
    """Several transforms on pieces along a dimension."""

    def __init__(self, tseq, dim: int = 0, lengths=None, cache_size: int = 0) -> None:
        tseq = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        super().__init__(cache_size=cache_size)
        self.transforms, self.dim = tseq, dim
        self.lengths = [1] * len(tseq) if lengths is None else list(lengths)

    @lazy_property
    def event_dim(self): return max(t.event_dim for t in self.transforms)
    @lazy_property
    def length(self): return sum(self.lengths)
    def with_cache(self, cache_size=1): return self if self._cache_size == cache_size else CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, value):
        start = 0
        for length in self.lengths:
            yield value.narrow(self.dim, start, length)
            start += length

    def _call(self, x): return rl.cat([t(piece) for t, piece in zip(self.transforms, self._pieces(x))], dim=self.dim)
    def _inverse(self, y): return rl.cat([t.inv(piece) for t, piece in zip(self.transforms, self._pieces(y))], dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = []
        for t, a, b in zip(self.transforms, self._pieces(x), self._pieces(y)):
            term = t.log_abs_det_jacobian(a, b)
            terms.append(_sum_rightmost(term, self.event_dim - t.event_dim) if t.event_dim < self.event_dim else term)
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        return rl.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @property
    def bijective(self): return all(t.bijective for t in self.transforms)
    @constraints.dependent_property
    def domain(self): return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)
    @constraints.dependent_property
    def codomain(self): return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """One transform for each entry of a dimension."""

    def __init__(self, tseq, dim: int = 0, cache_size: int = 0) -> None:
        tseq = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        super().__init__(cache_size=cache_size)
        self.transforms, self.dim = tseq, dim

    def with_cache(self, cache_size=1): return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)
    def _slice(self, z): return [z.select(self.dim, i) for i in range(z.size(self.dim))]
    def _call(self, x): return rl.stack([t(piece) for t, piece in zip(self.transforms, self._slice(x))], dim=self.dim)
    def _inverse(self, y): return rl.stack([t.inv(piece) for t, piece in zip(self.transforms, self._slice(y))], dim=self.dim)
    def log_abs_det_jacobian(self, x, y):
        return rl.stack([t.log_abs_det_jacobian(a, b) for t, a, b in zip(self.transforms, self._slice(x), self._slice(y))], dim=self.dim)
    @property
    def bijective(self): return all(t.bijective for t in self.transforms)
    @constraints.dependent_property
    def domain(self): return constraints.stack([t.domain for t in self.transforms], self.dim)
    @constraints.dependent_property
    def codomain(self): return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = the distribution's cdf of x."""

    bijective, codomain, sign = True, constraints.unit_interval, +1

    def __init__(self, distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self): return self.distribution.support
    def _call(self, x): return self.distribution.cdf(x)
    def _inverse(self, y): return self.distribution.icdf(y)
    def log_abs_det_jacobian(self, x, y): return self.distribution.log_prob(x)
    def with_cache(self, cache_size=1): return self if self._cache_size == cache_size else CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
