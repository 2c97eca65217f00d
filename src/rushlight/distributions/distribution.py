"""Distribution: the base of all."""
from __future__ import annotations

import functools
from typing import Any, ClassVar

import rushlight as rl
from rushlight import Size, Tensor

from .._C import warn
from . import constraints
from .utils import broadcast_all, lacks, lazy_property, logits_to_probs, probs_to_logits

__all__ = ["Distribution"]


def checked(method):
    """A density or cumulative probability that looks first whether its value can occur at all."""
    @functools.wraps(method)
    def run(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return method(self, value)
    return run


class Distribution:
    """`batch_shape` distributions side by side, each over events of `event_shape`. Samples have shape `sample_shape + batch_shape + event_shape`.

    A distribution of this package says what it is made of, and is constructed and expanded by that: `_spread` names its parameters (tensors whose shape
    begins with the batch's), `_parts` the distributions it holds, `_kept` what does not depend on the batch.
    """

    _spread: ClassVar[tuple[str, ...]]
    _parts: ClassVar[tuple[str, ...]] = ()
    _kept: ClassVar[tuple[str, ...]] = ()

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
                warn(f"{self.__class__} does not define `arg_constraints`, so its arguments go unchecked; arg_constraints = {{}} or validate_args=False says that this is meant")
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

    def _begin(self, validate_args: bool | None, **parameters) -> None:
        """What most constructors do: the parameters, numbers or tensors, become tensors of one shape, the batch's, and are checked."""
        values = broadcast_all(*parameters.values())
        for name, value in zip(parameters, values):
            setattr(self, name, value)
        Distribution.__init__(self, values[0].size(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        """The same with a larger batch shape."""
        new = self._expanded(Size(batch_shape), _instance)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expanded(self, batch_shape: Size, instance):
        """A new instance with all that `_spread`, `_parts` and `_kept` name, as far as it is there: of two forms of a parameter one may not be computed yet."""
        owner = next((kind for kind in type(self).__mro__ if "_spread" in kind.__dict__), None)
        if owner is None:
            raise lacks(self, "expand")
        new, old = self._get_checked_instance(owner, instance), len(self._batch_shape)
        for name in self._spread:
            if name in self.__dict__:
                value = self.__dict__[name]
                setattr(new, name, value.expand(batch_shape + value.shape[old:]))
        for name in self._parts:
            part = self.__dict__[name]
            setattr(new, name, part.expand(batch_shape + part.batch_shape[old:]))
        for name in self._kept:
            setattr(new, name, self.__dict__[name])
        return new

    @property
    def batch_shape(self) -> Size: return self._batch_shape
    @property
    def event_shape(self) -> Size: return self._event_shape
    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]: raise lacks(self, "arg_constraints")
    @property
    def support(self) -> Any: raise lacks(self, "support")
    @property
    def mean(self) -> Tensor: raise lacks(self, "mean")
    @property
    def mode(self) -> Tensor: raise NotImplementedError(f"{self.__class__} does not implement mode")
    @property
    def variance(self) -> Tensor: raise lacks(self, "variance")
    @property
    def stddev(self) -> Tensor: return self.variance.sqrt()

    def sample(self, sample_shape=Size()) -> Tensor:
        """Values, without gradient."""
        with rl.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()) -> Tensor:
        """Values, with a gradient with respect to the parameters."""
        raise lacks(self, "rsample")

    def sample_n(self, n: int) -> Tensor:
        warn("sample_n(n) will be deprecated. Use .sample((n,)) instead.", FutureWarning)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor: raise lacks(self, "log_prob")
    def cdf(self, value: Tensor) -> Tensor: raise lacks(self, "cdf")
    def icdf(self, value: Tensor) -> Tensor: raise lacks(self, "icdf")
    def enumerate_support(self, expand: bool = True) -> Tensor: raise lacks(self, "enumerate_support")
    def entropy(self) -> Tensor: raise lacks(self, "entropy")
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
            warn(f"{self.__class__} does not define `support`, so values go unchecked; validate_args=False says that this is meant")
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


def one_of(probs, logits) -> None:
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class ByProbsOrLogits(Distribution):
    """`probs` and `logits`, each from the other when it was not given."""

    _binary = True
    @lazy_property
    def logits(self): return probs_to_logits(self.probs, is_binary=self._binary)
    @lazy_property
    def probs(self): return logits_to_probs(self.logits, is_binary=self._binary)
    @property
    def _param(self): return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]
    @property
    def param_shape(self): return self._param.size()
    def _new(self, *args, **kwargs): return self._param.new(*args, **kwargs)

    def _begin(self, validate_args, *, probs, logits, **counts) -> None:
        one_of(probs, logits)
        name, given = ("probs", probs) if probs is not None else ("logits", logits)
        *others, given = broadcast_all(*counts.values(), given)
        super()._begin(validate_args, **{n: v.type_as(given) for n, v in zip(counts, others)}, **{name: given})
