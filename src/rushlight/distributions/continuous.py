"""Distributions over real numbers."""
from __future__ import annotations

import math
from numbers import Number

import rushlight as rl
from rushlight import Size

from . import constraints
from .distribution import ByProbsOrLogits, Distribution, checked
from .exp_family import ExponentialFamily
from .utils import _standard_normal, broadcast_all, clamp_probs, lazy_property, logits_to_probs

__all__ = ["Normal", "Uniform", "Exponential", "Laplace", "Cauchy", "Gamma", "Chi2", "Beta", "Dirichlet", "StudentT", "FisherSnedecor", "VonMises",
           "ContinuousBernoulli", "GeneralizedPareto"]


class Normal(ExponentialFamily):
    """The bell curve."""

    _spread = ("loc", "scale")
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, loc, scale, validate_args=None) -> None: self._begin(validate_args, loc=loc, scale=scale)
    mean = mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def sample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        with rl.no_grad():
            return rl.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape=Size()):
        return self.loc + _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device) * self.scale

    @checked
    def log_prob(self, value):
        log_scale = math.log(self.scale) if isinstance(self.scale, Number) else self.scale.log()
        return -((value - self.loc) ** 2) / (2 * self.scale ** 2) - log_scale - math.log(math.sqrt(2 * math.pi))

    @checked
    def cdf(self, value): return 0.5 * (1 + rl.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value): return self.loc + self.scale * rl.erfinv(2 * value - 1) * math.sqrt(2)
    def entropy(self): return 0.5 + 0.5 * math.log(2 * math.pi) + rl.log(self.scale)
    @property
    def _natural_params(self): return (self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal())
    def _log_normalizer(self, x, y): return -0.25 * x.pow(2) / y + 0.5 * rl.log(-math.pi / y)


class Uniform(Distribution):
    """All values of an interval alike."""

    _spread = ("low", "high")
    has_rsample = True

    @property
    def arg_constraints(self): return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low, high, validate_args=None) -> None: self._begin(validate_args, low=low, high=high)
    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self): return constraints.interval(self.low, self.high)
    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: math.nan * self.high)
    stddev = property(lambda self: (self.high - self.low) / 12 ** 0.5)
    variance = property(lambda self: (self.high - self.low).pow(2) / 12)

    def rsample(self, sample_shape=Size()):
        return self.low + rl.rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device) * (self.high - self.low)

    @checked
    def log_prob(self, value):
        return rl.log(self.low.le(value).type_as(self.low).mul(self.high.gt(value).type_as(self.low))) - rl.log(self.high - self.low)

    @checked
    def cdf(self, value): return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value): return value * (self.high - self.low) + self.low
    def entropy(self): return rl.log(self.high - self.low)


class Exponential(ExponentialFamily):
    """Waiting times at a rate."""

    _spread = ("rate",)
    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate, validate_args=None) -> None: self._begin(validate_args, rate=rate)
    mean = stddev = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: rl.zeros_like(self.rate))
    variance = property(lambda self: self.rate.pow(-2))
    def rsample(self, sample_shape=Size()): return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    @checked
    def log_prob(self, value): return self.rate.log() - self.rate * value

    @checked
    def cdf(self, value): return 1 - rl.exp(-self.rate * value)

    def icdf(self, value): return -rl.log1p(-value) / self.rate
    def entropy(self): return 1.0 - rl.log(self.rate)
    @property
    def _natural_params(self): return (-self.rate,)
    def _log_normalizer(self, x): return -rl.log(-x)


class Laplace(Distribution):
    """Two exponentials, back to back."""

    _spread = ("loc", "scale")
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None) -> None: self._begin(validate_args, loc=loc, scale=scale)
    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: 2 ** 0.5 * self.scale)

    def rsample(self, sample_shape=Size()):
        u = self.loc.new_empty(self._extended_shape(sample_shape)).uniform_(rl.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * rl.log1p(-u.abs())

    @checked
    def log_prob(self, value): return -rl.log(2 * self.scale) - rl.abs(value - self.loc) / self.scale

    @checked
    def cdf(self, value): return 0.5 - 0.5 * (value - self.loc).sign() * rl.expm1(-(value - self.loc).abs() / self.scale)

    def icdf(self, value): return self.loc - self.scale * (value - 0.5).sign() * rl.log1p(-2 * (value - 0.5).abs())
    def entropy(self): return 1 + rl.log(2 * self.scale)


class Cauchy(Distribution):
    """The ratio of two normals: no mean, no variance."""

    _spread = ("loc", "scale")
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None) -> None: self._begin(validate_args, loc=loc, scale=scale)
    mean = property(lambda self: rl.full(self._extended_shape(), math.nan, dtype=self.loc.dtype, device=self.loc.device))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: rl.full(self._extended_shape(), math.inf, dtype=self.loc.dtype, device=self.loc.device))
    def rsample(self, sample_shape=Size()): return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    @checked
    def log_prob(self, value): return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    @checked
    def cdf(self, value): return rl.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value): return rl.tan(math.pi * (value - 0.5)) * self.scale + self.loc
    def entropy(self): return math.log(4 * math.pi) + self.scale.log()


class Gamma(ExponentialFamily):
    """Sums of waiting times."""

    _spread = ("concentration", "rate")
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration, rate, validate_args=None) -> None: self._begin(validate_args, concentration=concentration, rate=rate)
    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        value = rl._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=rl.finfo(value.dtype).tiny)           # not recorded: a sample of 0 has no density
        return value

    def log_prob(self, value):
        value = rl.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        if self._validate_args:
            self._validate_sample(value)
        return rl.xlogy(self.concentration, self.rate) + rl.xlogy(self.concentration - 1, value) - self.rate * value - rl.lgamma(self.concentration)

    def entropy(self):
        return self.concentration - rl.log(self.rate) + rl.lgamma(self.concentration) + (1.0 - self.concentration) * rl.digamma(self.concentration)

    @property
    def _natural_params(self): return (self.concentration - 1, -self.rate)
    def _log_normalizer(self, x, y): return rl.lgamma(x + 1) + (x + 1) * rl.log(-y.reciprocal())

    @checked
    def cdf(self, value): return rl.special.gammainc(self.concentration, self.rate * value)


class Chi2(Gamma):
    """The sum of `df` squared normals."""

    _spread = Gamma._spread
    arg_constraints = {"df": constraints.positive}
    def __init__(self, df, validate_args=None) -> None: super().__init__(0.5 * df, 0.5, validate_args=validate_args)
    df = property(lambda self: self.concentration * 2)


class Dirichlet(ExponentialFamily):
    """Probabilities that add up to 1."""

    _spread = ("concentration",)
    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration, validate_args=None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=()):
        return rl._sample_dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    @checked
    def log_prob(self, value):
        return rl.xlogy(self.concentration - 1.0, value).sum(-1) + rl.lgamma(self.concentration.sum(-1)) - rl.lgamma(self.concentration).sum(-1)

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self):
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        mask = (self.concentration < 1).all(dim=-1)
        if mask.any():
            mode[mask] = rl.nn.functional.one_hot(mode[mask].argmax(dim=-1), self.concentration.shape[-1]).to(mode)
        return mode

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        k, total = self.concentration.size(-1), self.concentration.sum(-1)
        return (rl.lgamma(self.concentration).sum(-1) - rl.lgamma(total) - (k - total) * rl.digamma(total)
                - ((self.concentration - 1.0) * rl.digamma(self.concentration)).sum(-1))

    @property
    def _natural_params(self): return (self.concentration,)
    def _log_normalizer(self, x): return x.lgamma().sum(-1) - rl.lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """A probability."""

    _spread, _parts = (), ("_dirichlet",)
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True

    def __init__(self, concentration1, concentration0, validate_args=None) -> None:
        if isinstance(concentration1, Number) and isinstance(concentration0, Number):
            pair = rl.tensor([float(concentration1), float(concentration0)])
        else:
            pair = rl.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = property(lambda self: self._dirichlet.mode[..., 0])

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=()): return self._dirichlet.rsample(sample_shape).select(-1, 0)

    @checked
    def log_prob(self, value): return self._dirichlet.log_prob(rl.stack([value, 1.0 - value], -1))

    def entropy(self): return self._dirichlet.entropy()
    concentration1 = property(lambda self: self._dirichlet.concentration[..., 0])
    concentration0 = property(lambda self: self._dirichlet.concentration[..., 1])
    @property
    def _natural_params(self): return (self.concentration1, self.concentration0)
    def _log_normalizer(self, x, y): return rl.lgamma(x) + rl.lgamma(y) - rl.lgamma(x + y)


class StudentT(Distribution):
    """A normal whose variance is not known well."""

    _spread, _parts = ("df", "loc", "scale"), ("_chi2",)
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None) -> None:
        self._begin(validate_args, df=df, loc=loc, scale=scale)
        self._chi2 = Chi2(self.df)

    mean = property(lambda self: rl.where(self.df <= 1, math.nan, self.loc))
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return rl.where(self.df > 2, finite, rl.where(self.df > 1, math.inf, math.nan))

    def rsample(self, sample_shape=Size()):
        x = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * (x * rl.rsqrt(z / self.df))

    @checked
    def log_prob(self, value):
        y = (value - self.loc) / self.scale
        z = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + rl.lgamma(0.5 * self.df) - rl.lgamma(0.5 * (self.df + 1.0))
        return -0.5 * (self.df + 1.0) * rl.log1p(y ** 2.0 / self.df) - z

    def entropy(self):
        beta = rl.lgamma(0.5 * self.df) + math.lgamma(0.5) - rl.lgamma(0.5 * (self.df + 1))
        return self.scale.log() + 0.5 * (self.df + 1) * (rl.digamma(0.5 * (self.df + 1)) - rl.digamma(0.5 * self.df)) + 0.5 * self.df.log() + beta


class FisherSnedecor(Distribution):
    """The ratio of two mean squares."""

    _spread, _parts = ("df1", "df2"), ("_gamma1", "_gamma2")
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1, df2, validate_args=None) -> None:
        self._begin(validate_args, df1=df1, df2=df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)

    mean = property(lambda self: rl.where(self.df2 <= 2, math.nan, self.df2 / (self.df2 - 2)))
    mode = property(lambda self: rl.where(self.df1 <= 2, math.nan, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)))

    @property
    def variance(self):
        df2 = rl.where(self.df2 <= 4, math.nan, self.df2)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape=Size()):
        shape = self._extended_shape(sample_shape)
        x1, x2 = self._gamma1.rsample(sample_shape).view(shape), self._gamma2.rsample(sample_shape).view(shape)
        tiny = rl.finfo(x2.dtype).tiny
        x2.clamp_(min=tiny)
        y = x1 / x2
        y.clamp_(min=tiny)
        return y

    @checked
    def log_prob(self, value):
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        return ((a + b).lgamma() - a.lgamma() - b.lgamma() + a * ratio.log() + (a - 1) * value.log() - (a + b) * rl.log1p(ratio * value))


def _log_bessel_0(x):
    """log of the modified Bessel function of order 0, which grows as exp(x)."""
    return rl.log(rl.special.i0e(x)) + x.abs()


class VonMises(Distribution):
    """A normal on the circle."""

    _spread = ("loc", "concentration")
    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc, concentration, validate_args=None) -> None: self._begin(validate_args, loc=loc, concentration=concentration)
    @checked
    def log_prob(self, value): return self.concentration * rl.cos(value - self.loc) - math.log(2 * math.pi) - _log_bessel_0(self.concentration)

    def sample(self, sample_shape=Size()):
        """Best and Fisher's rejection from a wrapped Cauchy, in float64."""
        with rl.no_grad():
            shape = self._extended_shape(sample_shape)
            kappa = self.concentration.double()
            tau = 1 + (1 + 4 * kappa ** 2).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            r = rl.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho ** 2) / (2 * rho)).expand(shape)
            kappa, x, done = kappa.expand(shape), rl.zeros(shape, dtype=rl.float64), rl.zeros(shape, dtype=rl.bool)
            while not done.all():
                u1, u2, u3 = rl.rand((3,) + tuple(shape), dtype=rl.float64).unbind()
                z = rl.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                x = rl.where(accept, (u3 - 0.5).sign() * f.clamp(-1, 1).acos(), x)
                done = done | accept
            return ((x + math.pi + self.loc.double()) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 1 - (rl.log(rl.special.i1e(self.concentration)) - rl.log(rl.special.i0e(self.concentration))).exp())


class ContinuousBernoulli(ByProbsOrLogits, ExponentialFamily):
    """A number between 0 and 1, by the parameter of a Bernoulli."""

    _spread, _kept = ("probs", "logits"), ("_lims",)
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None) -> None:
        if probs is not None and logits is None:
            probs, = broadcast_all(probs)
            if validate_args is not None and not self.arg_constraints["probs"].check(probs).all():
                raise ValueError("The parameter probs has invalid values")
            probs = clamp_probs(probs)
        self._lims = lims
        self._begin(validate_args, probs=probs, logits=logits)

    @lazy_property
    def probs(self): return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside(self): return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])
    def _cut_probs(self): return rl.where(self._outside(), self.probs, self._lims[0] * rl.ones_like(self.probs))

    def _cont_bern_log_norm(self):
        cut = self._cut_probs()
        below, above = rl.where(cut <= 0.5, cut, 0.0), rl.where(cut >= 0.5, cut, 1.0)
        log_norm = rl.log(rl.abs(rl.log1p(-cut) - rl.log(cut))) - rl.where(cut <= 0.5, rl.log1p(-2.0 * below), rl.log(2.0 * above - 1.0))
        x = (self.probs - 0.5) ** 2                                     # near 0.5 by its series
        return rl.where(self._outside(), log_norm, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self):
        cut = self._cut_probs()
        mus = cut / (2.0 * cut - 1.0) + 1.0 / (rl.log1p(-cut) - rl.log(cut))
        x = self.probs - 0.5
        return rl.where(self._outside(), mus, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x ** 2) * x)

    @property
    def variance(self):
        cut = self._cut_probs()
        value = cut * (cut - 1.0) / (1.0 - 2.0 * cut) ** 2 + 1.0 / (rl.log1p(-cut) - rl.log(cut)) ** 2
        x = (self.probs - 0.5) ** 2
        return rl.where(self._outside(), value, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape=Size()): return self.icdf(rl.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    @checked
    def log_prob(self, value):
        logits, value = broadcast_all(self.logits, value)
        return -rl.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    @checked
    def cdf(self, value):
        cut = self._cut_probs()
        inside = (rl.pow(cut, value) * rl.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        unbounded = rl.where(self._outside(), inside, value)
        return rl.where(value <= 0.0, 0.0, rl.where(value >= 1.0, 1.0, unbounded))

    def icdf(self, value):
        cut = self._cut_probs()
        inside = (rl.log1p(-cut + value * (2.0 * cut - 1.0)) - rl.log1p(-cut)) / (rl.log(cut) - rl.log1p(-cut))
        return rl.where(self._outside(), inside, value)

    def entropy(self):
        log0, log1 = rl.log1p(-self.probs), rl.log(self.probs)
        return self.mean * (log0 - log1) - self._cont_bern_log_norm() - log0

    @property
    def _natural_params(self): return (self.logits,)

    def _log_normalizer(self, x):
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = rl.where(outside, x, (self._lims[0] - 0.5) * rl.ones_like(x))
        log_norm = rl.log(rl.abs(rl.special.expm1(cut))) - rl.log(rl.abs(cut))
        return rl.where(outside, log_norm, 0.5 * x + rl.pow(x, 2) / 24.0 - rl.pow(x, 4) / 2880.0)


class GeneralizedPareto(Distribution):
    """What is above a high threshold: tails that end (concentration below 0), fall exponentially (0), or by a power."""

    _spread = ("loc", "scale", "concentration")
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None) -> None: self._begin(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.loc, rl.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf))

    mean = property(lambda self: rl.where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), math.nan))
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        finite = self.scale.pow(2) / ((1 - self.concentration).pow(2) * (1 - 2 * self.concentration))
        return rl.where(self.concentration < 0.5, finite, math.nan)

    def _with_limit(self, of_concentration, limit):
        """A function of the concentration that has it as a divisor, and what it tends to at 0."""
        zero = self.concentration == 0
        return rl.where(zero, limit, of_concentration(rl.where(zero, 1.0, self.concentration)))        # the divisor is guarded: `where` does not protect a gradient

    def log_survival_function(self, value):
        """log of the probability of more than `value`."""
        z = (value - self.loc) / self.scale
        return self._with_limit(lambda k: -rl.log1p(k * z) / k, -z)

    @checked
    def log_prob(self, value):
        z = (value - self.loc) / self.scale
        return self._with_limit(lambda k: -(1 + 1 / k) * rl.log1p(k * z), -z) - self.scale.log()

    @checked
    def cdf(self, value): return -rl.expm1(self.log_survival_function(value).clamp(max=0))
    def log_cdf(self, value): return self.cdf(value).log()
    def icdf(self, value): return self.loc + self.scale * self._with_limit(lambda k: rl.expm1(-k * rl.log1p(-value)) / k, -rl.log1p(-value))
    def rsample(self, sample_shape=Size()): return self.icdf(rl.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))
    def entropy(self): return self.scale.log() + self.concentration + 1
