"""Kullback-Leibler divergences, by the pair of classes; the nearest registered pair counts."""
from __future__ import annotations

import math
from collections.abc import Callable

import rushlight as rl

from .continuous import Beta, Cauchy, ContinuousBernoulli, Dirichlet, Exponential, Gamma, Laplace, Normal, Uniform
from .derived import Gumbel, HalfNormal, Pareto
from .discrete import Bernoulli, Binomial, Categorical, Geometric, OneHotCategorical, Poisson
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .multivariate import LowRankMultivariateNormal, MultivariateNormal, Wishart, _batch_mahalanobis
from .utils import _sum_rightmost, euler_constant
from .wrappers import Independent, TransformedDistribution

__all__ = ["register_kl", "kl_divergence"]

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}
_KL_MEMOIZE: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type):
    """Decorator: the function of (p, q) that gives KL(p || q)."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):                  # a subclass of ours, or a mixin that its subclasses have
            raise TypeError(f"Expected type_{'p' if kind is type_p else 'q'} to be a Distribution subclass but got {kind}")

    def register(function):
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function
    return register


def _dispatch_kl(type_p: type, type_q: type) -> Callable:
    """The registered pair that both classes come from, the most special one."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    order_p, order_q = type_p.__mro__.index, type_q.__mro__.index
    return _KL_REGISTRY[min(matches, key=lambda pair: (order_p(pair[0]), order_q(pair[1])))]


def kl_divergence(p: Distribution, q: Distribution):
    """KL(p || q): how much is lost when q is taken for p."""
    key = type(p), type(q)
    function = _KL_MEMOIZE.get(key) or _dispatch_kl(*key)
    if function is NotImplemented:
        raise NotImplementedError(f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}")
    _KL_MEMOIZE[key] = function
    return function(p, q)


def _infinite_like(tensor): return rl.full_like(tensor, math.inf)
def _x_log_x(tensor): return rl.special.xlogy(tensor, tensor)
def _trace_of_xxt(matrix): return matrix.pow(2).sum((-2, -1))


# ---------------------------------------------------------------------------------------------------------- of one kind
@register_kl(Bernoulli, Bernoulli)
def _(p, q):
    softplus = rl.nn.functional.softplus
    one = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    one = rl.where(q.probs == 0, math.inf, one)
    one = rl.where(p.probs == 0, 0.0, one)
    zero = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    zero = rl.where(q.probs == 1, math.inf, zero)
    return one + rl.where(p.probs == 1, 0.0, zero)


@register_kl(Beta, Beta)
def _(p, q):
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    t1 = q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
    t2 = p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma()
    return (t1 - t2 + (p.concentration1 - q.concentration1) * rl.digamma(p.concentration1) + (p.concentration0 - q.concentration0) * rl.digamma(p.concentration0)
            + (total_q - total_p) * rl.digamma(total_p))


@register_kl(Binomial, Binomial)
def _(p, q):
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return rl.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _(p, q):
    t = p.probs * (p.logits - q.logits)
    t = rl.where((q.probs == 0).expand_as(t), math.inf, t)
    return rl.where((p.probs == 0).expand_as(t), 0.0, t).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _(p, q): return kl_divergence(p._categorical, q._categorical)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _(p, q):
    return p.mean * (p.logits - q.logits) + p._cont_bern_log_norm() + rl.log1p(-p.probs) - q._cont_bern_log_norm() - rl.log1p(-q.probs)


@register_kl(Dirichlet, Dirichlet)
def _(p, q):
    total_p, total_q = p.concentration.sum(-1), q.concentration.sum(-1)
    t = p.concentration.digamma() - total_p.digamma().unsqueeze(-1)
    return (total_p.lgamma() - total_q.lgamma() - (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1) + ((p.concentration - q.concentration) * t).sum(-1))


@register_kl(Exponential, Exponential)
def _(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _(p, q):
    """Of one family: the Bregman divergence of the log normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(f"The cross KL-divergence between different exponential families cannot be computed using Bregman divergences: "
                                  f"{type(p).__name__}, {type(q).__name__}")
    p_params, q_params = [t.detach().requires_grad_() for t in p._natural_params], q._natural_params
    normalizer = p._log_normalizer(*p_params)
    gradients = rl.autograd.grad(normalizer.sum(), p_params, create_graph=True)
    result = q._log_normalizer(*q_params) - normalizer
    for a, b, gradient in zip(p_params, q_params, gradients):
        result = result - _sum_rightmost((b - a) * gradient, len(q.event_shape))
    return result


@register_kl(Gamma, Gamma)
def _(p, q):
    return (q.concentration * (p.rate / q.rate).log() + q.concentration.lgamma() - p.concentration.lgamma() + (p.concentration - q.concentration) * p.concentration.digamma()
            + (q.rate - p.rate) * (p.concentration / p.rate))


@register_kl(Gumbel, Gumbel)
def _(p, q):
    ratio, q_loc, p_loc = p.scale / q.scale, q.loc / q.scale, p.loc / q.scale
    t = q_loc - p_loc
    return ratio * euler_constant - ratio.log() - t + rl.exp(t + (1 + ratio).lgamma()) - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _(p, q): return -p.entropy() - rl.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _(p, q): return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _(p, q):
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + distance / q.scale + ratio * rl.exp(-distance / p.scale) - 1


def _same_size(p, q, names):
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {names} with different event shapes cannot be computed: {tuple(p.event_shape)} and {tuple(q.event_shape)}")


@register_kl(MultivariateNormal, MultivariateNormal)
def _(p, q):
    _same_size(p, q, "Multivariate Normals")
    half = q._half_log_det() - p._half_log_det()
    shape = rl.broadcast_shapes(q._unbroadcasted_scale_tril.shape[:-2], p._unbroadcasted_scale_tril.shape[:-2])
    n = p.event_shape[0]
    q_tril, p_tril = q._unbroadcasted_scale_tril.expand(shape + (n, n)), p._unbroadcasted_scale_tril.expand(shape + (n, n))
    trace = _trace_of_xxt(rl.linalg.solve_triangular(q_tril, p_tril, upper=False))
    return half + 0.5 * (trace + _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc) - n)


def _as_full(d):
    return d if isinstance(d, MultivariateNormal) else MultivariateNormal(d.loc, covariance_matrix=d.covariance_matrix, validate_args=False)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _(p, q):
    _same_size(p, q, "Low Rank Multivariate Normals" if type(p) is type(q) else "(Low Rank) Multivariate Normals")
    return kl_divergence(_as_full(p), _as_full(q))


@register_kl(Wishart, Wishart)
def _(p, q):
    n, half = p._event_shape[-1], p.df / 2
    trace = _trace_of_xxt(rl.linalg.solve_triangular(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril, upper=False))
    digammas = sum(rl.digamma(half - k / 2) for k in range(n))
    return (q.df * (q._log_det() - p._log_det()) + half * (trace - n) + rl.special.multigammaln(q.df / 2, n) - rl.special.multigammaln(half, n)
            + (p.df - q.df) / 2 * digammas)


@register_kl(Normal, Normal)
def _(p, q):
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _(p, q):
    scale, alpha = p.scale / q.scale, q.alpha / p.alpha
    return rl.where(p.support.lower_bound < q.support.lower_bound, math.inf, q.alpha * scale.log() - alpha.log() + alpha - 1)


@register_kl(Poisson, Poisson)
def _(p, q): return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _(p, q): return rl.where((q.low > p.low) | (q.high < p.high), math.inf, ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Cauchy, Cauchy)
def _(p, q): return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(TransformedDistribution, TransformedDistribution)
def _(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("kl_divergence of two transformed distributions: their transforms and event shapes must be the same")
    base = kl_divergence(p.base_dist, q.base_dist)
    return _sum_rightmost(base, len(p.event_shape) - len(p.base_dist.event_shape)) if len(p.event_shape) > len(p.base_dist.event_shape) else base


@register_kl(Independent, Independent)
def _(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(f"kl_divergence of two Independents: both must count as many dimensions as events, not {p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


# -------------------------------------------------------------------------------------------------------- of two kinds
@register_kl(Bernoulli, Poisson)
def _(p, q): return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Exponential, Gamma)
def _(p, q):
    ratio = q.rate / p.rate
    return -q.concentration * rl.log(ratio) + ratio + q.concentration.lgamma() + q.concentration * euler_constant - (1 + euler_constant)


@register_kl(Gamma, Exponential)
def _(p, q): return -p.entropy() - q.rate.log() + q.rate * p.concentration / p.rate


@register_kl(Exponential, Gumbel)
def _(p, q):
    scaled, loc = p.rate * q.scale, q.loc / q.scale
    return scaled.log() - 1 + loc.exp() * scaled / (scaled + 1) - loc + scaled.reciprocal()


@register_kl(Gamma, Gumbel)
def _(p, q):
    beta, loc = p.rate * q.scale, q.loc / q.scale
    t1 = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration
    return t1 + beta.log() + p.concentration / beta + loc.exp() * (1 + beta.reciprocal()).pow(-p.concentration) - loc


def _against_normal(variance, mean, negative_entropy, q):
    """KL to a normal, from the first two moments."""
    return negative_entropy + 0.5 * math.log(2 * math.pi) + q.scale.log() + 0.5 * (variance + (mean - q.loc).pow(2)) / q.scale.pow(2)


for _kind in (Exponential, Gamma, Gumbel, Laplace, Uniform, Beta, ContinuousBernoulli):
    register_kl(_kind, Normal)(lambda p, q: _against_normal(p.variance, p.mean, -p.entropy(), q))


@register_kl(Normal, Gumbel)
def _(p, q):
    mean, variance = p.loc / q.scale, (p.scale / q.scale).pow(2)
    loc = q.loc / q.scale
    return mean - loc + rl.exp(-mean + 0.5 * variance + loc) - (0.5 * variance.log()) - (0.5 * (1 + math.log(2 * math.pi)))


@register_kl(Normal, Laplace)
def _(p, q):
    z = (p.loc - q.loc) / p.scale
    t = math.sqrt(2 / math.pi) * p.scale * rl.exp(-0.5 * z.pow(2)) + (p.loc - q.loc) * rl.erf(math.sqrt(0.5) * z)
    return -p.scale.log() + t / q.scale - (0.5 * (1 + math.log(0.5 * math.pi))) + q.scale.log()


def _against_continuous_bernoulli(mean, negative_entropy, q): return negative_entropy - mean * q.logits - rl.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Beta, ContinuousBernoulli)
def _(p, q): return _against_continuous_bernoulli(p.mean, -p.entropy(), q)


@register_kl(Beta, Uniform)
def _(p, q): return rl.where((q.low > 0) | (q.high < 1), math.inf, (q.high - q.low).log() - p.entropy())


@register_kl(ContinuousBernoulli, Exponential)
def _(p, q): return q.rate * p.mean - q.rate.log() - p.entropy()


@register_kl(ContinuousBernoulli, Uniform)
def _(p, q): return rl.where((q.low >= 0) | (q.high <= 1), math.inf, (q.high - q.low).log() - p.entropy())        # an interval that just fits counts as too small, as in torch


@register_kl(Uniform, ContinuousBernoulli)
def _(p, q): return rl.where((p.low <= 0) | (p.high >= 1), math.inf, _against_continuous_bernoulli(p.mean, -p.entropy(), q))


@register_kl(Uniform, Gumbel)
def _(p, q):
    low, high = (p.low - q.loc) / q.scale, (p.high - q.loc) / q.scale
    return (low + high) / 2 + ((-low).exp() - (-high).exp()) / (high - low) - (high - low).log()


@register_kl(Uniform, Pareto)
def _(p, q):
    width = p.high - p.low
    mean_of_log = (_x_log_x(p.high) - _x_log_x(p.low)) / width - 1
    return rl.where(p.low < q.support.lower_bound, math.inf, (q.alpha + 1) * mean_of_log - q.alpha.log() - q.alpha * q.scale.log() - width.log())


@register_kl(Uniform, Exponential)
def _(p, q): return rl.where(p.low < q.support.lower_bound, math.inf, q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log())


@register_kl(Uniform, Beta)
def _(p, q):
    width = p.high - p.low
    t = width.log()
    a = (q.concentration1 - 1) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    b = (q.concentration0 - 1) * (_x_log_x(1 - p.high) - _x_log_x(1 - p.low) + width) / width
    kl = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma() - a + b - t
    return rl.where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), math.inf, kl)


@register_kl(Uniform, Gamma)
def _(p, q):
    width = p.high - p.low
    t2 = q.concentration.lgamma() - q.concentration * q.rate.log()
    t3 = (1 - q.concentration) * (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    return rl.where(p.low < q.support.lower_bound, math.inf, -width.log() + t2 + t3 + q.rate * (p.high + p.low) / 2)


@register_kl(Beta, Exponential)
def _(p, q): return -p.entropy() - q.rate.log() + q.rate * (p.concentration1 / (p.concentration1 + p.concentration0))


@register_kl(Beta, Gamma)
def _(p, q):
    total = p.concentration1 + p.concentration0
    return (-p.entropy() + q.concentration.lgamma() - q.concentration * q.rate.log() - (q.concentration - 1) * (p.concentration1.digamma() - total.digamma())
            + q.rate * p.concentration1 / total)


@register_kl(Pareto, Exponential)
def _(p, q):
    kl = (p.alpha / q.rate).log() - p.scale.log() - p.alpha.reciprocal() + p.alpha * p.scale * q.rate / (p.alpha - 1) - 1
    return rl.where(p.alpha <= 1, math.inf, kl)


@register_kl(Pareto, Gamma)
def _(p, q):
    mean, mean_of_log = p.alpha * p.scale / (p.alpha - 1), p.scale.log() + p.alpha.reciprocal()
    kl = q.concentration.lgamma() - q.concentration * q.rate.log() + (1 - q.concentration) * mean_of_log + q.rate * mean - p.entropy()
    return rl.where(p.alpha <= 1, math.inf, kl)


@register_kl(Pareto, Normal)
def _(p, q):
    variance, mean = p.scale.pow(2) * p.alpha / ((p.alpha - 1).pow(2) * (p.alpha - 2)), p.alpha * p.scale / (p.alpha - 1)
    return rl.where(p.alpha <= 2, math.inf, _against_normal(variance, mean, -p.entropy(), q))


# p puts weight where q has none
for _p, _qs, _size in ((Beta, (Pareto,), lambda p: p.concentration1), (Exponential, (Beta, ContinuousBernoulli, Pareto, Uniform), lambda p: p.rate),
                       (Gamma, (Beta, ContinuousBernoulli, Pareto, Uniform), lambda p: p.concentration),
                       (Gumbel, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), lambda p: p.loc),
                       (Laplace, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), lambda p: p.loc),
                       (Normal, (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform), lambda p: p.loc),
                       (Pareto, (Beta, ContinuousBernoulli, Uniform), lambda p: p.scale), (Poisson, (Bernoulli, Binomial), lambda p: p.rate),
                       (ContinuousBernoulli, (Pareto,), lambda p: p.probs)):
    for _q in _qs:
        register_kl(_p, _q)(lambda p, q, _size=_size: _infinite_like(_size(p)))
