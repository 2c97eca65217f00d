"""Constraints: sets of values that parameters and samples of distributions lie in. `constraint.check(value)` says of each whether it does.

`event_dim` is the number of trailing dimensions that one answer is about.
"""
from __future__ import annotations

import rushlight as rl
from rushlight import Tensor

from .utils import lacks

__all__ = ["Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than", "greater_than_eq", "independent",
           "integer_interval", "interval", "half_open_interval", "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "MixtureSameFamilyConstraint",
           "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_semidefinite", "positive_definite", "positive_integer",
           "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval"]


class Constraint:
    """A set. `is_discrete`: of separate values."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """For each value whether it is in the set."""
        raise lacks(self, "check")

    def __repr__(self) -> str: return type(self).__name__.lstrip("_") + "()"


class _Dependent(Constraint):
    """Depends on other parameters: what it is, a property of the distribution says."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim
        super().__init__()

    @property
    def is_discrete(self):
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self):
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, x): raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint) -> bool: return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property of a distribution that is a constraint; on the class it is a dependent one."""

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented) -> None:
        super().__init__(fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn): return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """A constraint over more trailing dimensions: all of them must hold."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self): return self.base_constraint.is_discrete
    @property
    def event_dim(self): return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        result = self.base_constraint.check(value)
        if result.dim() < self.reinterpreted_batch_ndims:
            expected = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        return result.reshape(result.shape[:result.dim() - self.reinterpreted_batch_ndims] + (-1,)).all(-1)

    def __repr__(self): return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Of a mixture: that of its components."""

    def __init__(self, base_constraint) -> None: self.base_constraint = base_constraint
    @property
    def is_discrete(self): return self.base_constraint.is_discrete
    @property
    def event_dim(self): return self.base_constraint.event_dim

    def check(self, value):
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        return result[..., 0] if self.event_dim == 0 else result.squeeze(-1)

    def __repr__(self): return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


def _constraint(name: str, test, event_dim: int = 0, is_discrete: bool = False) -> Constraint:
    """A constraint without parameters, by its test: an instance of a class of its own, which programs derive from."""
    kind = type(f"_{name}", (Constraint,), {"check": lambda self, value: test(value), "event_dim": event_dim, "is_discrete": is_discrete,
                                            "__module__": __name__, "__qualname__": f"_{name}", "__doc__": f"The constraint {name}."})
    globals()[f"_{name}"] = kind                    # where pickle finds it
    return kind()


class _Bounded(Constraint):
    """A constraint with bounds. They may be tensors."""

    def __init__(self, **bounds) -> None: self.__dict__.update(bounds)

    def __repr__(self):
        shown = ", ".join(f"{k}={v}" for k, v in self.__dict__.items())
        return f"{type(self).__name__[1:]}({shown})"


class _GreaterThan(_Bounded):
    """Above a bound."""
    def __init__(self, lower_bound) -> None: super().__init__(lower_bound=lower_bound)
    def check(self, value): return self.lower_bound < value


class _GreaterThanEq(_Bounded):
    """At or above a bound."""
    def __init__(self, lower_bound) -> None: super().__init__(lower_bound=lower_bound)
    def check(self, value): return self.lower_bound <= value


class _LessThan(_Bounded):
    """Below a bound."""
    def __init__(self, upper_bound) -> None: super().__init__(upper_bound=upper_bound)
    def check(self, value): return value < self.upper_bound


class _Interval(_Bounded):
    """Between two bounds, both included."""
    def __init__(self, lower_bound, upper_bound) -> None: super().__init__(lower_bound=lower_bound, upper_bound=upper_bound)
    def check(self, value): return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    """Between two bounds, the upper excluded."""
    def check(self, value): return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    """A whole number between two bounds, both included."""
    is_discrete = True
    def check(self, value): return (value % 1 == 0) & (self.lower_bound <= value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_Bounded):
    """A whole number at or above a bound."""
    is_discrete = True
    def __init__(self, lower_bound) -> None: super().__init__(lower_bound=lower_bound)
    def check(self, value): return (value % 1 == 0) & (value >= self.lower_bound)


class _IntegerLessThan(_Bounded):
    """A whole number at or below a bound."""
    is_discrete = True
    def __init__(self, upper_bound) -> None: super().__init__(upper_bound=upper_bound)
    def check(self, value): return (value % 1 == 0) & (value <= self.upper_bound)


class _Multinomial(_Bounded):
    """Counts that add up to at most a number."""
    is_discrete, event_dim = True, 1
    def __init__(self, upper_bound) -> None: super().__init__(upper_bound=upper_bound)
    def check(self, x): return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)
    __repr__ = Constraint.__repr__


class _Cat(Constraint):
    """Several constraints on pieces along a dimension."""

    def __init__(self, cseq, dim: int = 0, lengths=None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    @property
    def is_discrete(self): return any(c.is_discrete for c in self.cseq)
    @property
    def event_dim(self): return max(c.event_dim for c in self.cseq)

    def check(self, value):
        parts, start = [], 0
        for constraint, length in zip(self.cseq, self.lengths):
            parts.append(constraint.check(value.narrow(self.dim, start, length)))
            start += length
        return rl.cat(parts, self.dim)


class _Stack(Constraint):
    """One constraint for each entry of a dimension."""

    def __init__(self, cseq, dim: int = 0) -> None: self.cseq, self.dim = list(cseq), dim
    @property
    def is_discrete(self): return any(c.is_discrete for c in self.cseq)

    @property
    def event_dim(self):
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value): return rl.stack([c.check(value.select(self.dim, i)) for i, c in enumerate(self.cseq)], self.dim)


def _is_simplex(value): return (value >= 0).all(dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)
def _is_one_hot(value): return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)
def _is_lower(value): return (value.tril() == value).reshape(value.shape[:-2] + (-1,)).all(-1)
def _is_square(value): return rl.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=rl.bool)
def _is_symmetric(value): return _is_square(value) if value.shape[-2] != value.shape[-1] else rl.isclose(value, value.mT, atol=1e-6).all(-2).all(-1)


def _is_lower_cholesky(value): return _is_lower(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


def _is_corr_cholesky(value):
    tolerance = rl.finfo(value.dtype).eps * value.size(-1) * 10
    return _is_lower_cholesky(value) & (rl.linalg.norm(value.detach(), dim=-1) - 1).abs().le(tolerance).all(dim=-1)


def _is_positive_definite(value):
    symmetric = _is_symmetric(value)
    return rl.linalg.cholesky_ex(value).info.eq(0) if symmetric.all() else symmetric


def _is_positive_semidefinite(value):
    symmetric = _is_symmetric(value)
    return rl.linalg.eigvalsh(value).ge(0).all(-1) if symmetric.all() else symmetric


dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
greater_than, greater_than_eq, less_than = _GreaterThan, _GreaterThanEq, _LessThan
interval, half_open_interval, integer_interval, multinomial, cat, stack = _Interval, _HalfOpenInterval, _IntegerInterval, _Multinomial, _Cat, _Stack
boolean = _constraint("Boolean", lambda value: (value == 0) | (value == 1), is_discrete=True)
one_hot = _constraint("OneHot", _is_one_hot, 1, True)
real = _constraint("Real", lambda value: value == value)
real_vector = independent(real, 1)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
positive, nonnegative, unit_interval = _GreaterThan(0.0), _GreaterThanEq(0.0), _Interval(0.0, 1.0)
simplex = _constraint("Simplex", _is_simplex, 1)
lower_triangular = _constraint("LowerTriangular", _is_lower, 2)
lower_cholesky = _constraint("LowerCholesky", _is_lower_cholesky, 2)
corr_cholesky = _constraint("CorrCholesky", _is_corr_cholesky, 2)
square = _constraint("Square", _is_square, 2)
symmetric = _constraint("Symmetric", _is_symmetric, 2)
positive_definite = _constraint("PositiveDefinite", _is_positive_definite, 2)
positive_semidefinite = _constraint("PositiveSemidefinite", _is_positive_semidefinite, 2)
