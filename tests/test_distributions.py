"""Distributions beside torch: samples of the same seed, densities, moments, entropies and divergences."""
import itertools
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")


def cases(t):
    """Name -> how to make the distribution with library t. All in float64: what differs is then the formula, not the rounding."""
    D, T = t.distributions, lambda *values: t.tensor(*values, dtype=t.float64)
    a, b, p, l = T([0.5, 1.5, 2.5]), T([1.2, 0.7, 2.0]), T([0.2, 0.5, 0.9]), T([-1.0, 0.3, 2.0])
    pp, cov = T([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]), T([[2.0, 0.5], [0.5, 1.0]])
    return {
        "Normal": lambda: D.Normal(l, a),
        "Uniform": lambda: D.Uniform(l, l+a),
        "Exponential": lambda: D.Exponential(a),
        "Laplace": lambda: D.Laplace(l, a),
        "Cauchy": lambda: D.Cauchy(l, a),
        "Gamma": lambda: D.Gamma(a, b),
        "Chi2": lambda: D.Chi2(a),
        "Beta": lambda: D.Beta(a, b),
        "Dirichlet": lambda: D.Dirichlet(pp*3),
        "StudentT": lambda: D.StudentT(a+2, l, b),
        "Fisher": lambda: D.FisherSnedecor(a+3, b+5),
        "VonMises": lambda: D.VonMises(l, a),
        "CB": lambda: D.ContinuousBernoulli(p),
        "Bernoulli": lambda: D.Bernoulli(p),
        "BernL": lambda: D.Bernoulli(logits=l),
        "Binomial": lambda: D.Binomial(5, p),
        "Cat": lambda: D.Categorical(pp),
        "CatL": lambda: D.Categorical(logits=pp),
        "Geom": lambda: D.Geometric(p),
        "Multinomial": lambda: D.Multinomial(4, pp),
        "NB": lambda: D.NegativeBinomial(a, p),
        "OneHot": lambda: D.OneHotCategorical(pp),
        "Poisson": lambda: D.Poisson(a),
        "LogNormal": lambda: D.LogNormal(l, a),
        "Gumbel": lambda: D.Gumbel(l, a),
        "HalfNormal": lambda: D.HalfNormal(a),
        "HalfCauchy": lambda: D.HalfCauchy(a),
        "Pareto": lambda: D.Pareto(a, b+2),
        "Weibull": lambda: D.Weibull(a, b),
        "Kuma": lambda: D.Kumaraswamy(a, b),
        "InvGamma": lambda: D.InverseGamma(a+2, b),
        "LogisticNormal": lambda: D.LogisticNormal(l, a),
        "RB": lambda: D.RelaxedBernoulli(T(0.7), p),
        "ROH": lambda: D.RelaxedOneHotCategorical(T(0.7), pp),
        "MVN": lambda: D.MultivariateNormal(t.zeros(3, 2, dtype=t.float64), cov),
        "MVNp": lambda: D.MultivariateNormal(l[:2], precision_matrix=cov),
        "LR": lambda: D.LowRankMultivariateNormal(l, pp.T, a),
        "LKJ": lambda: D.LKJCholesky(3, T(1.5)),
        "Wishart": lambda: D.Wishart(T(4.0), cov),
        "Ind": lambda: D.Independent(D.Normal(l, a), 1),
        "Mix": lambda: D.MixtureSameFamily(D.Categorical(p/p.sum()), D.Normal(l, a)),
        "TD": lambda: D.TransformedDistribution(D.Normal(l, a), [D.SigmoidTransform(), D.AffineTransform(1, 2)]),
    }


THEIRS, OURS = cases(torch), cases(rl)
OTHER_STREAM = {"Wishart"}                            # its samples differ from torch's for the same seed; why is not known yet
WITHOUT_KL = {("Uniform", "CB"), ("Uniform", "Gumbel"), ("Uniform", "Pareto"), ("Beta", "Uniform"), ("Beta", "CB"), ("CB", "Uniform"), ("CB", "Exponential"),
              ("Pareto", "Gamma"), ("Pareto", "Chi2"), ("Wishart", "Wishart")}            # not there yet: they raise


def array(value): return value.detach().numpy() if hasattr(value, "detach") else np.asarray(value)


def ask(distribution, what, value):
    """log_prob and cdf of a value, entropy, or a property; None where torch has none."""
    if what == "expanded":
        return distribution.expand((2, *distribution.batch_shape)).log_prob(value[:2])
    if what in ("log_prob", "cdf"):
        return getattr(distribution, what)(value)
    return distribution.entropy() if what == "entropy" else getattr(distribution, what)


@pytest.mark.parametrize("name", THEIRS)
def test_same_as_torch(name):
    theirs, ours = THEIRS[name](), OURS[name]()
    assert repr(theirs) == repr(ours) and theirs.batch_shape == ours.batch_shape and theirs.event_shape == ours.event_shape
    torch.manual_seed(0)
    rl.manual_seed(0)
    drawn, sample = theirs.sample((4,)), ours.sample((4,))
    assert drawn.shape == sample.shape
    if name not in OTHER_STREAM:
        np.testing.assert_allclose(array(sample), array(drawn), rtol=1e-6, atol=1e-8)
    compared = 0
    for what in ("log_prob", "cdf", "entropy", "mean", "variance", "stddev", "mode", "expanded"):
        try:
            expected = ask(theirs, what, drawn)
        except NotImplementedError:
            continue
        np.testing.assert_allclose(array(ask(ours, what, rl.tensor(array(drawn)))), array(expected), rtol=1e-6, atol=1e-8, err_msg=what)
        compared += 1
    assert compared


@pytest.mark.parametrize("name", THEIRS)
def test_divergences(name):
    for other in THEIRS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                expected = torch.distributions.kl_divergence(THEIRS[name](), THEIRS[other]())
        except (NotImplementedError, RuntimeError, ValueError):
            continue
        if (name, other) in WITHOUT_KL:
            with pytest.raises(NotImplementedError):
                rl.distributions.kl_divergence(OURS[name](), OURS[other]())
            continue
        np.testing.assert_allclose(array(rl.distributions.kl_divergence(OURS[name](), OURS[other]())), array(expected), rtol=1e-6, atol=1e-8, err_msg=other)


CONSTRAINTS = "positive nonnegative unit_interval simplex lower_cholesky corr_cholesky real_vector positive_definite".split()


@pytest.mark.parametrize("name, registry", list(itertools.product(CONSTRAINTS, ["biject_to", "transform_to"])))
def test_transforms_reach_their_constraint_and_come_back(name, registry):
    constraint = getattr(rl.distributions.constraints, name)
    if registry == "biject_to" and name in ("lower_cholesky", "positive_definite"):          # torch has none either
        with pytest.raises(NotImplementedError, match="Cannot transform"):
            rl.distributions.biject_to(constraint)
        return
    transform = getattr(rl.distributions, registry)(constraint)
    rl.manual_seed(0)
    x = rl.randn((3, 3) if "cholesky" in name and "corr" not in name or "definite" in name else (6,), dtype=rl.float64)
    y = transform(x)
    assert bool(constraint.check(y).all())
    if transform.bijective:
        again = transform(transform.inv(y))
        np.testing.assert_allclose(array(again), array(y), rtol=1e-8)
    theirs = getattr(torch.distributions, registry)(getattr(torch.distributions.constraints, name))
    np.testing.assert_allclose(array(y), array(theirs(torch.tensor(array(x)))), rtol=1e-8)


def test_samples_have_gradients():
    loc, scale = rl.tensor([0.5], requires_grad=True), rl.tensor([2.0], requires_grad=True)
    rl.distributions.Normal(loc, scale).rsample((5,)).sum().backward()
    assert loc.grad.item() == 5.0 and scale.grad is not None


def test_bad_parameters_and_values():
    with pytest.raises(ValueError, match="Expected parameter scale"):
        rl.distributions.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="to be within the support"):
        rl.distributions.Exponential(1.0).log_prob(rl.tensor(-1.0))
