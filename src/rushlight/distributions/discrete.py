"""Distributions over separate values: by probabilities or log-odds, counts, choices."""
from __future__ import annotations

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import Size

from . import constraints
from .distribution import ByProbsOrLogits, Distribution, checked, one_of
from .exp_family import ExponentialFamily
from .utils import broadcast_all, lazy_property

__all__ = ["Bernoulli", "Binomial", "Categorical", "Geometric", "Multinomial", "NegativeBinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough", "Poisson"]


class Bernoulli(ByProbsOrLogits, ExponentialFamily):
    """1 with probability `probs`, 0 otherwise."""

    _spread = ("probs", "logits")
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs=None, logits=None, validate_args=None) -> None:
        self._begin(validate_args, probs=probs, logits=logits)

    mean = property(lambda self: self.probs)

    @property
    def mode(self):
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = float("nan")
        return mode

    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape=Size()):
        with rl.no_grad():
            return rl.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    @checked
    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self): return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand=True):
        values = rl.arange(2, dtype=self._param.dtype).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values

    @property
    def _natural_params(self): return (rl.logit(self.probs),)
    def _log_normalizer(self, x): return rl.log1p(rl.exp(x))


class Binomial(ByProbsOrLogits):
    """How many of `total_count` tries succeed."""

    _spread = ("total_count", "probs", "logits")
    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval, "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None) -> None:
        self._begin(validate_args, total_count=total_count, probs=probs, logits=logits)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self): return constraints.integer_interval(0, self.total_count)
    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with rl.no_grad():
            return rl.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    @checked
    def log_prob(self, value):
        n = self.total_count
        positive = (rl.clamp(self.logits, min=0) + self.logits - rl.clamp(self.logits, max=0)) / 2        # its slope at 0 is 1/2, as it must be there
        normalizer = n * positive + n * rl.log1p(rl.exp(-rl.abs(self.logits))) - rl.lgamma(n + 1)
        return value * self.logits - rl.lgamma(value + 1) - rl.lgamma(n - value + 1) - normalizer

    def entropy(self):
        total = int(self.total_count.max())
        if not self.total_count.min() == total:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(rl.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        total = int(self.total_count.max())
        if not self.total_count.min() == total:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        values = rl.arange(1 + total, dtype=self._param.dtype).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values


class Categorical(ByProbsOrLogits):
    """One of K, by probabilities or log-odds along the last dimension."""

    _binary, _spread, _kept = False, ("probs", "logits"), ("_num_events",)
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None) -> None:
        one_of(probs, logits)
        given = probs if probs is not None else logits
        if given.dim() < 1:
            raise ValueError(f"`{'probs' if probs is not None else 'logits'}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = self._param.size()[-1]
        super().__init__(self._param.size()[:-1] if self._param.ndimension() > 1 else Size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self): return constraints.integer_interval(0, self._num_events - 1)
    mean = variance = property(lambda self: rl.full(self._extended_shape(), float("nan"), dtype=self.probs.dtype, device=self.probs.device))
    mode = property(lambda self: self.probs.argmax(dim=-1))

    def sample(self, sample_shape=Size()):
        sample_shape = Size(sample_shape)
        flat = self.probs.reshape(-1, self._num_events)
        chosen = rl.multinomial(flat.detach(), sample_shape.numel(), True).T
        return chosen.reshape(self._extended_shape(sample_shape))

    @checked
    def log_prob(self, value):
        value = value.long().unsqueeze(-1)
        value, log_pmf = rl.broadcast_tensors(value, self.logits)
        return log_pmf.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        logits = rl.clamp(self.logits, min=rl.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        values = rl.arange(self._num_events, dtype=rl.long).view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values


class OneHotCategorical(Distribution):
    """One of K, as a vector with a one."""

    _spread, _parts = (), ("_categorical",)
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    _param = property(lambda self: self._categorical._param)
    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    mean = property(lambda self: self._categorical.probs)
    mode = property(lambda self: F.one_hot(self._categorical.probs.argmax(dim=-1), self.event_shape[-1]).to(self.probs))
    variance = property(lambda self: self._categorical.probs * (1 - self._categorical.probs))
    param_shape = property(lambda self: self._categorical.param_shape)

    def sample(self, sample_shape=Size()):
        return F.one_hot(self._categorical.sample(Size(sample_shape)), self._categorical._num_events).to(self._categorical.probs)

    @checked
    def log_prob(self, value): return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self): return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n = self.event_shape[0]
        values = rl.eye(n, dtype=self._param.dtype, device=self._param.device).view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + tuple(self.batch_shape) + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples pass gradients to the probabilities as if they were them."""

    has_rsample = True

    def rsample(self, sample_shape=Size()):
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class Multinomial(Distribution):
    """How often each of K came in `total_count` choices."""

    _spread, _parts, _kept = (), ("_categorical", "_binomial"), ("total_count",)
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count: int

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self): return constraints.multinomial(self.total_count)
    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))
    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    param_shape = property(lambda self: self._categorical.param_shape)

    def sample(self, sample_shape=Size()):
        sample_shape = Size(sample_shape)
        samples = self._categorical.sample(Size((self.total_count,)) + sample_shape)
        order = list(range(samples.dim()))
        order.append(order.pop(0))                                      # the choices last
        samples = samples.permute(*order)
        counts = samples.new_zeros(self._extended_shape(sample_shape)).scatter_add_(-1, samples, rl.ones_like(samples))
        return counts.type_as(self.probs)

    def entropy(self):
        n = rl.tensor(self.total_count)
        categorical = self._categorical.entropy()
        support = self._binomial.enumerate_support(expand=False)[1:]
        probs = rl.exp(self._binomial.log_prob(support))
        return n * categorical - rl.lgamma(n + 1) + (probs * rl.lgamma(support + 1)).sum([0, -1])

    @checked
    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone(memory_format=rl.contiguous_format)
        factorial_n, factorial_xs = rl.lgamma(value.sum(-1) + 1), rl.lgamma(value + 1).sum(-1)
        logits = logits.masked_fill((value == 0) & (logits == -float("inf")), 0)
        return factorial_n - factorial_xs + (logits * value).sum(-1)


class Geometric(ByProbsOrLogits):
    """How many tries fail before the first that succeeds."""

    _spread = ("probs", "logits")
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None) -> None:
        self._begin(validate_args, probs=probs, logits=logits)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of distribution {repr(self)} to be positive "
                             f"but found invalid values:\n{self.probs[~(self.probs > 0)]}")

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: rl.zeros_like(self.probs))
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def sample(self, sample_shape=Size()):
        with rl.no_grad():
            u = self.probs.new_empty(self._extended_shape(sample_shape)).uniform_(rl.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    @checked
    def log_prob(self, value):
        value, probs = broadcast_all(value, self.probs)
        probs = rl.where((probs == 1) & (value == 0), 0, probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self): return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class NegativeBinomial(ByProbsOrLogits):
    """How many tries succeed before `total_count` have failed."""

    _spread = ("total_count", "probs", "logits")
    arg_constraints = {"total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0), "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None) -> None:
        self._begin(validate_args, total_count=total_count, probs=probs, logits=logits)

    mean = property(lambda self: self.total_count * rl.exp(self.logits))
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0))
    variance = property(lambda self: self.mean / rl.sigmoid(-self.logits))

    @lazy_property
    def _gamma(self):
        from .continuous import Gamma
        return Gamma(concentration=self.total_count, rate=rl.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape=Size()):
        with rl.no_grad():
            return rl.poisson(self._gamma.sample(sample_shape=sample_shape))

    @checked
    def log_prob(self, value):
        unnormalized = self.total_count * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        normalization = -rl.lgamma(self.total_count + value) + rl.lgamma(1.0 + value) + rl.lgamma(self.total_count)
        return unnormalized - normalization.masked_fill(self.total_count + value == 0.0, 0.0)


class Poisson(ExponentialFamily):
    """Counts of what happens at a rate."""

    _spread = ("rate",)
    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None) -> None: self._begin(validate_args, rate=rate)
    mean = variance = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())

    def sample(self, sample_shape=Size()):
        with rl.no_grad():
            return rl.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    @checked
    def log_prob(self, value):
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self): return (rl.log(self.rate),)
    def _log_normalizer(self, x): return rl.exp(x)


