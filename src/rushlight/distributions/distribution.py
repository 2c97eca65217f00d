"""Distribution: the base of all."""
from __future__ import annotations

import warnings
from typing import Any

import rushlight as rl
from rushlight import Size, Tensor

from . import constraints
from .utils import lazy_property

__all__ = ["Distribution"]


class Distribution:
    """`batch_shape` distributions side by side, each over events of `event_shape`. Samples have shape `sample_shape + batch_shape + event_shape`."""

    has_rsample = False                 # whether samples have a gradient with respect to the parameters
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are checked unless a distribution is told otherwise."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=Size(), event_shape=Size(), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            try:
                arg_constraints = self.arg_constraints
            except NotImplementedError:
                arg_constraints = {}
                warnings.warn(f"{self.__class__} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize the distribution "
                              "with `validate_args=False` to turn off validation.", stacklevel=3)
            for param, constraint in arg_constraints.items():
                if constraints.is_dependent(constraint):
                    continue
                if param not in self.__dict__ and isinstance(getattr(type(self), param), lazy_property):
                    continue                                    # computed from the other parameter, which was checked
                value = getattr(self, param)
                valid = constraint.check(value)
                if not valid.all():
                    raise ValueError(f"Expected parameter {param} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution {repr(self)} to satisfy "
                                     f"the constraint {repr(constraint)}, but found invalid values:\n{value}")
        super().__init__()

    def expand(self, batch_shape, _instance=None):
        """The same with a larger batch shape."""
        raise NotImplementedError

    def _expanded(self, names: tuple[str, ...], batch_shape, instance=None, base=None):
        """What `expand` does for most: the named parameters (and those that are there already) spread."""
        new = self._get_checked_instance(base or type(self), instance)
        batch_shape = Size(batch_shape)
        for name in names:
            if name in self.__dict__:
                setattr(new, name, getattr(self, name).expand(batch_shape))
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def batch_shape(self) -> Size: return self._batch_shape
    @property
    def event_shape(self) -> Size: return self._event_shape
    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]: raise NotImplementedError
    @property
    def support(self) -> Any: raise NotImplementedError
    @property
    def mean(self) -> Tensor: raise NotImplementedError
    @property
    def mode(self) -> Tensor: raise NotImplementedError(f"{self.__class__} does not implement mode")
    @property
    def variance(self) -> Tensor: raise NotImplementedError
    @property
    def stddev(self) -> Tensor: return self.variance.sqrt()

    def sample(self, sample_shape=Size()) -> Tensor:
        """Values, without gradient."""
        with rl.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()) -> Tensor:
        """Values, with a gradient with respect to the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        warnings.warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor: raise NotImplementedError
    def cdf(self, value: Tensor) -> Tensor: raise NotImplementedError
    def icdf(self, value: Tensor) -> Tensor: raise NotImplementedError
    def enumerate_support(self, expand: bool = True) -> Tensor: raise NotImplementedError
    def entropy(self) -> Tensor: raise NotImplementedError
    def perplexity(self) -> Tensor: return rl.exp(self.entropy())

    def _extended_shape(self, sample_shape=Size()) -> Size:
        return Size(tuple(sample_shape) + tuple(self._batch_shape) + tuple(self._event_shape))

    def _validate_sample(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        event_dim_start = len(value.size()) - len(self._event_shape)
        if value.size()[event_dim_start:] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.size()} vs {self._event_shape}.")
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.size()), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.size()} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{self.__class__} does not define `support` to enable sample validation. Please initialize the distribution with "
                          "`validate_args=False` to turn off validation.", stacklevel=3)
            return
        if support is None:
            raise AssertionError("support is None")
        valid = support.check(value)
        if not valid.all():
            raise ValueError(f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support ({repr(support)}) of the "
                             f"distribution {repr(self)}, but found invalid values:\n{value}")

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom __init__ method must also define a custom "
                                      ".expand() method.")
        return self.__new__(type(self)) if _instance is None else _instance

    def __repr__(self) -> str:
        names = [k for k in self.arg_constraints if k in self.__dict__]
        args = ", ".join(f"{p}: {self.__dict__[p] if self.__dict__[p].numel() == 1 else self.__dict__[p].size()}" for p in names)
        return f"{self.__class__.__name__}({args})"
