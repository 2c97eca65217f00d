"""From all real numbers to a constraint: `biject_to(constraint)` one to one, `transform_to(constraint)` perhaps not, but good to optimise through."""
from __future__ import annotations

from numbers import Number

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Which transform reaches a constraint."""

    def __init__(self) -> None: self._registry: dict = {}

    def register(self, constraint, factory=None):
        """`registry.register(ConstraintClass, constraint -> transform)`, or as a decorator. An object registers itself or its class."""
        if factory is None:
            return lambda function: self.register(constraint, function)
        key = constraint
        if isinstance(constraint, constraints.Constraint):
            key = type(constraint)
        elif not (isinstance(constraint, type) and issubclass(constraint, constraints.Constraint)):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[key] = factory
        return factory

    def __call__(self, constraint):
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _both(*kinds):
    def register(function):
        for kind in kinds:
            biject_to.register(kind, function)
            transform_to.register(kind, function)
        return function
    return register


@_both(constraints.real)
def _(constraint): return transforms.identity_transform


@biject_to.register(constraints.independent)
def _(constraint): return transforms.IndependentTransform(biject_to(constraint.base_constraint), constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def _(constraint): return transforms.IndependentTransform(transform_to(constraint.base_constraint), constraint.reinterpreted_batch_ndims)


@_both(constraints.greater_than, constraints.greater_than_eq)
def _(constraint): return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)])


@_both(constraints.less_than)
def _(constraint): return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)])


@_both(constraints.interval, constraints.half_open_interval)
def _(constraint):
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, Number) and low == 0 and isinstance(high, Number) and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@biject_to.register(constraints.simplex)
def _(constraint): return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _(constraint): return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _(constraint): return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _(constraint): return transforms.PositiveDefiniteTransform()


@_both(constraints.corr_cholesky)
def _(constraint): return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.cat)
def _(constraint): return transforms.CatTransform([biject_to(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@transform_to.register(constraints.cat)
def _(constraint): return transforms.CatTransform([transform_to(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@biject_to.register(constraints.stack)
def _(constraint): return transforms.StackTransform([biject_to(c) for c in constraint.cseq], constraint.dim)


@transform_to.register(constraints.stack)
def _(constraint): return transforms.StackTransform([transform_to(c) for c in constraint.cseq], constraint.dim)
