"""Distributions that are transforms of others, and continuous relaxations of discrete ones."""
from __future__ import annotations

import math
from numbers import Number

import rushlight as rl
from rushlight import Size

from . import constraints
from .continuous import Cauchy, Exponential, Gamma, Normal, Uniform
from .discrete import Categorical
from .distribution import ByProbsOrLogits, Distribution, checked
from .transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform, SigmoidTransform, StickBreakingTransform
from .utils import broadcast_all, clamp_probs, euler_constant
from .wrappers import TransformedDistribution

__all__ = ["LogNormal", "Gumbel", "HalfNormal", "HalfCauchy", "Pareto", "Weibull", "Kumaraswamy", "InverseGamma", "LogisticNormal", "LogitRelaxedBernoulli",
           "RelaxedBernoulli", "ExpRelaxedCategorical", "RelaxedOneHotCategorical"]


class LogNormal(TransformedDistribution):
    """exp of a normal."""

    _spread = ()
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None) -> None: super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)
    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale.pow(2) / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())
    variance = property(lambda self: self.scale.pow(2).expm1() * (2 * self.loc + self.scale.pow(2)).exp())
    def entropy(self): return self.base_dist.entropy() + self.loc


class Gumbel(TransformedDistribution):
    """The largest of many."""

    _spread = ("loc", "scale")
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        info = rl.finfo(self.loc.dtype)
        if isinstance(loc, Number) and isinstance(scale, Number):
            base = Uniform(info.tiny, 1 - info.eps, validate_args=validate_args)
        else:
            base = Uniform(rl.full_like(self.loc, info.tiny), rl.full_like(self.loc, 1 - info.eps), validate_args=validate_args)
        transforms = [ExpTransform().inv, AffineTransform(loc=0, scale=-rl.ones_like(self.scale)), ExpTransform().inv, AffineTransform(loc=loc, scale=-self.scale)]
        super().__init__(base, transforms, validate_args=validate_args)

    @checked
    def log_prob(self, value):
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    mean = property(lambda self: self.loc + self.scale * euler_constant)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: math.pi / math.sqrt(6) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))
    def entropy(self): return self.scale.log() + (1 + euler_constant)


class HalfNormal(TransformedDistribution):
    """|normal|."""

    _spread = ()
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale, validate_args=None) -> None: super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    mode = property(lambda self: rl.zeros_like(self.scale))
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))

    @checked
    def log_prob(self, value): return rl.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    @checked
    def cdf(self, value): return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob): return self.base_dist.icdf((prob + 1) / 2)
    def entropy(self): return self.base_dist.entropy() - math.log(2)


class HalfCauchy(TransformedDistribution):
    """|Cauchy|."""

    _spread = ()
    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True

    def __init__(self, scale, validate_args=None) -> None: super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: rl.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device))
    mode = property(lambda self: rl.zeros_like(self.scale))
    variance = property(lambda self: self.base_dist.variance)

    @checked
    def log_prob(self, value):
        value = rl.as_tensor(value, dtype=self.base_dist.scale.dtype)
        return rl.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    @checked
    def cdf(self, value): return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob): return self.base_dist.icdf((prob + 1) / 2)
    def entropy(self): return self.base_dist.entropy() - math.log(2)


class Pareto(TransformedDistribution):
    """A power law above `scale`."""

    _spread = ("scale", "alpha")
    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args=validate_args), [ExpTransform(), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    mode = property(lambda self: self.scale)

    @property
    def variance(self):
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self): return constraints.greater_than_eq(self.scale)
    def entropy(self): return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """Times to failure."""

    _spread = ("scale", "concentration", "concentration_reciprocal")
    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(self, scale, concentration, validate_args=None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(rl.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, [PowerTransform(exponent=self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    mean = property(lambda self: self.scale * rl.exp(rl.lgamma(1 + self.concentration_reciprocal)))
    mode = property(lambda self: self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal())
    @property
    def variance(self):
        r = self.concentration_reciprocal
        return self.scale.pow(2) * (rl.exp(rl.lgamma(1 + 2 * r)) - rl.exp(2 * rl.lgamma(1 + r)))
    def entropy(self): return euler_constant * (1 - self.concentration_reciprocal) + rl.log(self.scale * self.concentration_reciprocal) + 1


def _moments(a, b, n):
    """The n-th moment of a Kumaraswamy."""
    arg1 = 1 + n / a
    return rl.exp(rl.lgamma(arg1) + rl.lgamma(b) - rl.lgamma(arg1 + b)) * b


class Kumaraswamy(TransformedDistribution):
    """Like Beta, with a cdf in closed form."""

    _spread = ("concentration1", "concentration0")
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(rl.full_like(self.concentration0, 0), rl.full_like(self.concentration0, 1), validate_args=validate_args)
        transforms = [PowerTransform(exponent=self.concentration0.reciprocal()), AffineTransform(loc=1.0, scale=-1.0),
                      PowerTransform(exponent=self.concentration1.reciprocal())]
        super().__init__(base, transforms, validate_args=validate_args)

    mean = property(lambda self: _moments(self.concentration1, self.concentration0, 1))
    @property
    def mode(self):
        log_mode = self.concentration0.reciprocal() * (-self.concentration0).log1p() - (-self.concentration0 * self.concentration1).log1p()
        return rl.where((self.concentration0 < 1) | (self.concentration1 < 1), math.nan, log_mode.exp())
    variance = property(lambda self: _moments(self.concentration1, self.concentration0, 2) - rl.pow(self.mean, 2))

    def entropy(self):
        t1, t0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        h0 = rl.digamma(self.concentration0 + 1) + euler_constant
        return t0 + t1 * h0 - rl.log(self.concentration1) - rl.log(self.concentration0)


class InverseGamma(TransformedDistribution):
    """1 over a Gamma."""

    _spread = ()
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, concentration, rate, validate_args=None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)
    mean = property(lambda self: rl.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf))
    mode = property(lambda self: self.rate / (self.concentration + 1))
    variance = property(lambda self: rl.where(self.concentration > 2, self.rate.square() / ((self.concentration - 1).square() * (self.concentration - 2)), math.inf))
    def entropy(self): return self.concentration + self.rate.log() + self.concentration.lgamma() - (1 + self.concentration) * self.concentration.digamma()


class LogisticNormal(TransformedDistribution):
    """Normals, made to probabilities."""

    _spread = ()
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)


# ------------------------------------------------------------------------------------------------------------ relaxations
class LogitRelaxedBernoulli(ByProbsOrLogits):
    """The log-odds of a RelaxedBernoulli."""

    _spread, _kept = ("probs", "logits"), ("temperature",)
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real

    def __init__(self, temperature, probs=None, logits=None, validate_args=None) -> None:
        self.temperature = temperature
        self._begin(validate_args, probs=probs, logits=logits)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        uniforms = clamp_probs(rl.rand(shape, dtype=probs.dtype, device=probs.device))
        return (uniforms.log() - (-uniforms).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    @checked
    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        return self.temperature.log() + diff - 2 * diff.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """A Bernoulli made smooth, so that samples have gradients; smoother at higher temperature."""

    _spread = ()
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


class ExpRelaxedCategorical(Distribution):
    """The log of a RelaxedOneHotCategorical."""

    _spread, _parts, _kept = (), ("_categorical",), ("temperature",)
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.real_vector
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    param_shape = property(lambda self: self._categorical.param_shape)
    logits = property(lambda self: self._categorical.logits)
    probs = property(lambda self: self._categorical.probs)

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        uniforms = clamp_probs(rl.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-uniforms.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value):
        k = self._categorical._num_events
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        log_scale = rl.full_like(self.temperature, float(k)).lgamma() - self.temperature.log().mul(-(k - 1))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """A OneHotCategorical made smooth."""

    _spread = ()
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)
