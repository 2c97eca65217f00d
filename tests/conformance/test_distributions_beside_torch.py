"""torch.distributions beside torch's: everything a distribution answers, its samples for a seed, gradients, divergences, transforms, and what it refuses.

All in float64 where torch can: what differs is then the formula, not the rounding.
"""
import re
import warnings

import numpy as np
import pytest
import torch

import rushlight as rl

CLOSE = dict(rtol=1e-6, atol=1e-8)


def cases(t, tensors=None):
    """Name -> how to make the distribution with library t. `tensors`: the parameters are collected there and want gradients."""
    D = t.distributions

    def T(values, dtype=None):
        tensor = t.tensor(values, dtype=dtype or t.float64)
        if tensors is not None and tensor.is_floating_point(): tensors.append(tensor.requires_grad_())
        return tensor

    def a(): return T([0.5, 1.5, 2.5])
    def b(): return T([1.2, 0.7, 2.0])
    def p(): return T([0.2, 0.5, 0.9])
    def where(): return T([-1.0, 0.3, 2.0])
    def pp(): return T([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])
    def cov(): return T([[2.0, 0.5], [0.5, 1.0]])
    def tril(): return T([[1.5, 0.0], [0.3, 1.0]])
    def single(*values): return [T(v, t.float32) for v in values]
    return {
        "Normal": lambda: D.Normal(where(), a()), "Normal of numbers": lambda: D.Normal(0, 2.0), "Normal broadcast": lambda: D.Normal(where(), T([[1.0], [2.0]])),
        "Uniform": lambda: D.Uniform(where(), where() + a()), "Uniform of numbers": lambda: D.Uniform(-1, 3), "Exponential": lambda: D.Exponential(a()),
        "Laplace": lambda: D.Laplace(where(), a()), "Cauchy": lambda: D.Cauchy(where(), a()), "Gamma": lambda: D.Gamma(a(), b()), "Gamma of a number": lambda: D.Gamma(a(), 2),
        "Chi2": lambda: D.Chi2(a()), "Beta": lambda: D.Beta(a(), b()), "Beta of numbers": lambda: D.Beta(2.0, 3), "Dirichlet": lambda: D.Dirichlet(pp() * 3),
        "StudentT": lambda: D.StudentT(a() + 2, where(), b()), "FisherSnedecor": lambda: D.FisherSnedecor(a() + 3, b() + 5), "VonMises": lambda: D.VonMises(where(), a()),
        "ContinuousBernoulli": lambda: D.ContinuousBernoulli(p()), "ContinuousBernoulli by logits": lambda: D.ContinuousBernoulli(logits=where()),
        "GeneralizedPareto": lambda: D.GeneralizedPareto(*single([0.0, 1.0, -1.0], [1.0, 2.0, 0.5], [0.3, -0.5, 0.0])),           # torch's takes single precision only
        "Bernoulli": lambda: D.Bernoulli(p()), "Bernoulli by logits": lambda: D.Bernoulli(logits=where()), "Binomial": lambda: D.Binomial(5, p()),
        "Binomial by logits": lambda: D.Binomial(T([2, 4, 3], t.int64), logits=where()), "Categorical": lambda: D.Categorical(pp()), "Categorical by logits": lambda: D.Categorical(logits=pp()),
        "Geometric": lambda: D.Geometric(p()), "Geometric by logits": lambda: D.Geometric(logits=where()), "Multinomial": lambda: D.Multinomial(4, pp()),
        "Multinomial by logits": lambda: D.Multinomial(3, logits=pp()), "NegativeBinomial": lambda: D.NegativeBinomial(a(), p()),
        "NegativeBinomial by logits": lambda: D.NegativeBinomial(4, logits=where()), "OneHotCategorical": lambda: D.OneHotCategorical(pp()),
        "OneHotCategorical by logits": lambda: D.OneHotCategorical(logits=pp()), "OneHotCategoricalStraightThrough": lambda: D.OneHotCategoricalStraightThrough(pp()),
        "Poisson": lambda: D.Poisson(a()), "LogNormal": lambda: D.LogNormal(where(), a()), "Gumbel": lambda: D.Gumbel(where(), a()), "Gumbel of numbers": lambda: D.Gumbel(0.5, 2.0),
        "HalfNormal": lambda: D.HalfNormal(a()), "HalfCauchy": lambda: D.HalfCauchy(a()), "Pareto": lambda: D.Pareto(a(), b() + 2), "Weibull": lambda: D.Weibull(a(), b()),
        "Kumaraswamy": lambda: D.Kumaraswamy(a(), b()), "InverseGamma": lambda: D.InverseGamma(a() + 2, b()), "LogisticNormal": lambda: D.LogisticNormal(where(), a()),
        "LogitRelaxedBernoulli": lambda: D.relaxed_bernoulli.LogitRelaxedBernoulli(T(0.7), p()), "RelaxedBernoulli": lambda: D.RelaxedBernoulli(T(0.7), p()),
        "RelaxedBernoulli by logits": lambda: D.RelaxedBernoulli(T(0.7), logits=where()), "RelaxedOneHotCategorical": lambda: D.RelaxedOneHotCategorical(T(0.7), pp()),
        "ExpRelaxedCategorical": lambda: D.relaxed_categorical.ExpRelaxedCategorical(T(0.7), logits=pp()),
        "MultivariateNormal": lambda: D.MultivariateNormal(t.zeros(3, 2, dtype=t.float64), cov()), "MultivariateNormal by precision": lambda: D.MultivariateNormal(where()[:2], precision_matrix=cov()),
        "MultivariateNormal by scale": lambda: D.MultivariateNormal(where()[:2], scale_tril=tril()), "LowRankMultivariateNormal": lambda: D.LowRankMultivariateNormal(where(), pp().T, a()),
        "LKJCholesky": lambda: D.LKJCholesky(3, T(1.5)), "Wishart": lambda: D.Wishart(T(4.0), cov()), "Wishart, batched": lambda: D.Wishart(T([3.5, 5.0, 7.0]), scale_tril=tril()),
        "Wishart by precision": lambda: D.Wishart(T(4.0), precision_matrix=cov()), "Independent": lambda: D.Independent(D.Normal(where(), a()), 1),
        "MixtureSameFamily": lambda: D.MixtureSameFamily(D.Categorical(p() / p().sum()), D.Normal(where(), a())),
        "MixtureSameFamily of vectors": lambda: D.MixtureSameFamily(D.Categorical(T([0.3, 0.7])), D.Independent(D.Normal(pp(), pp() + 1), 1)),
        "TransformedDistribution": lambda: D.TransformedDistribution(D.Normal(where(), a()), [D.SigmoidTransform(), D.AffineTransform(1, 2)]),
        "TransformedDistribution, falling": lambda: D.TransformedDistribution(D.Normal(where(), a()), [D.AffineTransform(1, -2), D.ExpTransform()]),
    }


THEIRS, OURS = cases(torch), cases(rl)


def array(value):
    if isinstance(value, (torch.Tensor, rl.Tensor)): return value.detach().numpy()
    return np.asarray(value)


def seed(number=0):
    torch.manual_seed(number)
    rl.manual_seed(number)


def outcome(call):
    """What a call gives, or the type of what it raises and its first words: up to the first number or parenthesis, which show values and places."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try: return call(), None
        except Exception as error:
            words = re.sub(r"<class '[\w.]*?(\w+)'>", r"\1", str(error))
            return None, (type(error).__name__, re.split("[(:]", words)[0][:60])


def same(ours, theirs, what, **tolerance):
    """Both calls give the same, or both raise the same."""
    (value, failure), (expected, expected_failure) = outcome(ours), outcome(theirs)
    assert failure == expected_failure, f"{what}: {failure}, torch {expected_failure}"
    if failure is not None: return None
    if isinstance(expected, torch.Tensor):
        assert tuple(value.shape) == tuple(expected.shape) and str(value.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1], f"{what}: {value.shape} {value.dtype}, torch {expected.shape} {expected.dtype}"
        np.testing.assert_allclose(array(value), array(expected), **{**CLOSE, **tolerance}, err_msg=what)
    else: assert str(value) == str(expected), f"{what}: {value}, torch {expected}"
    return value, expected


def precision(*names): return dict(rtol=2e-5, atol=1e-6) if any(name == "GeneralizedPareto" or name.endswith("of numbers") for name in names) else {}


@pytest.mark.parametrize("name", THEIRS)
def test_answers(name):
    theirs, ours = THEIRS[name](), OURS[name]()
    for what in "batch_shape event_shape has_rsample has_enumerate_support support arg_constraints".split():
        same(lambda: getattr(ours, what), lambda: getattr(theirs, what), what)
    assert repr(ours) == repr(theirs)
    for what in "mean mode variance stddev".split(): same(lambda: getattr(ours, what), lambda: getattr(theirs, what), what, **precision(name))
    for what in "entropy perplexity".split(): same(lambda: getattr(ours, what)(), lambda: getattr(theirs, what)(), what, **precision(name))
    for expand in (True, False): same(lambda: ours.enumerate_support(expand), lambda: theirs.enumerate_support(expand), f"enumerate_support({expand})")
    seed()
    drawn = theirs.sample((4,))
    value = rl.tensor(array(drawn))
    compared = 0
    for what in "log_prob cdf log_cdf log_survival_function".split():
        if not hasattr(theirs, what): continue
        compared += same(lambda: getattr(ours, what)(value), lambda: getattr(theirs, what)(drawn), what, **precision(name)) is not None
    assert compared
    if not theirs.event_shape:
        shares = np.stack([np.full(theirs.batch_shape, share) for share in (0.05, 0.5, 0.9)])
        dtype = array(drawn).dtype
        same(lambda: ours.icdf(rl.tensor(shares.astype(dtype))), lambda: theirs.icdf(torch.tensor(shares.astype(dtype))), "icdf", **precision(name))
    bigger = (2, *theirs.batch_shape)
    more, more_theirs = ours.expand(bigger), theirs.expand(bigger)
    assert repr(more) == repr(more_theirs)
    same(lambda: more.log_prob(value[:2]), lambda: more_theirs.log_prob(drawn[:2]), "log_prob of the expanded", **precision(name))
    for what in "batch_shape event_shape mean variance".split(): same(lambda: getattr(more, what), lambda: getattr(more_theirs, what), what + " of the expanded", **precision(name))


@pytest.mark.parametrize("name", THEIRS)
def test_samples_for_a_seed(name):
    theirs, ours = THEIRS[name](), OURS[name]()
    for which, shape in enumerate([(), (4,), (2, 3)]):
        seed(which)
        same(lambda: ours.sample(shape), lambda: theirs.sample(shape), f"sample{shape}", **precision(name))
        same(lambda: rl.rand(3), lambda: torch.rand(3), "the generator afterwards")
        seed(which)
        same(lambda: ours.rsample(shape), lambda: theirs.rsample(shape), f"rsample{shape}", **precision(name))
    seed(7)
    bigger = (2, *theirs.batch_shape)
    same(lambda: ours.expand(bigger).sample(), lambda: theirs.expand(bigger).sample(), "sample of the expanded", **precision(name))


# How a gamma or beta sample moves with its concentration has no closed form; torch's approximations are good to a few in ten thousand.
APPROXIMATED = {"Gamma", "Gamma of a number", "Chi2", "StudentT", "FisherSnedecor", "InverseGamma", "Wishart", "Wishart, batched", "Wishart by precision", "Beta", "Dirichlet"}


def test_slopes_of_beta_draws():
    generator = np.random.default_rng(0)
    a, b = 10 ** generator.uniform(-2, 3, (2, 4000))
    x = np.clip(generator.beta(a, b), 1e-300, 1 - 1e-16)
    mine, theirs = (np.asarray(t._dirichlet_grad(*(t.tensor(v, dtype=t.float64) for v in (x, a, a + b)))) for t in (rl, torch))
    error = np.abs(mine - theirs) / theirs
    assert np.median(error) < 1e-8 and np.quantile(error, 0.99) < 1.5e-3      # tests/test_distributions.py has the exact ones


@pytest.mark.parametrize("name", THEIRS)
def test_gradients(name):
    leaves, peers = [], []
    ours, theirs = cases(rl, leaves)[name](), cases(torch, peers)[name]()
    if not peers: return
    seed()
    drawn = theirs.sample((4,))
    value = rl.tensor(array(drawn))

    def gradients(call, tensors, t):
        for x in tensors: x.grad = None
        call().sum().backward()
        return [t.zeros_like(x) if x.grad is None else x.grad for x in tensors]
    for what, call, peer in (("log_prob", lambda: ours.log_prob(value), lambda: theirs.log_prob(drawn)), ("rsample", lambda: ours.rsample((5,)), lambda: theirs.rsample((5,))),
                             ("entropy", lambda: ours.entropy(), lambda: theirs.entropy())):
        ours, theirs = cases(rl, leaves := [])[name](), cases(torch, peers := [])[name]()
        seed(3)
        expected, failure = outcome(lambda: gradients(peer, peers, torch))
        if failure is not None: continue
        seed(3)
        tolerance = dict(rtol=1e-3, atol=1e-4) if what == "rsample" and name in APPROXIMATED else {**CLOSE, **precision(name)}
        for i, (got, wanted) in enumerate(zip(gradients(call, leaves, rl), expected)):
            np.testing.assert_allclose(array(got), array(wanted), **tolerance, err_msg=f"{what}, parameter {i}")


@pytest.mark.parametrize("name", THEIRS)
def test_divergences(name):
    for other in THEIRS:
        if (name, other) in TORCH_IS_WRONG: continue
        same(lambda: rl.distributions.kl_divergence(OURS[name](), OURS[other]()), lambda: torch.distributions.kl_divergence(THEIRS[name](), THEIRS[other]()), f"KL to {other}",
             **precision(name, other))


# Of batches of Wishart distributions torch gives negative divergences; a Pareto that must be broadcast against a normal it indexes with a mask of another shape.
TORCH_IS_WRONG = {("Pareto", "Normal broadcast"), *((p, q) for p in OURS for q in OURS if p.startswith("Wishart") and q.startswith("Wishart") and "Wishart, batched" in (p, q))}


def test_divergences_of_batches_are_those_of_their_members():
    """Where torch is no help: KL of a batch is KL of its members, each of which torch's answer confirms."""
    D, T = rl.distributions, lambda values: rl.tensor(values, dtype=rl.float64)
    tril, other, degrees = T([[1.5, 0.0], [0.3, 1.0]]), T([[2.0, 0.5], [0.5, 1.0]]), [3.5, 5.0, 7.0]
    batch = D.kl_divergence(D.Wishart(T(degrees), scale_tril=tril), D.Wishart(T(4.0), other))
    for df, got in zip(degrees, batch):
        expected = torch.distributions.kl_divergence(torch.distributions.Wishart(torch.tensor(df, dtype=torch.float64), scale_tril=torch.tensor(array(tril))),
                                                     torch.distributions.Wishart(torch.tensor(4.0, dtype=torch.float64), torch.tensor(array(other))))
        np.testing.assert_allclose(array(got), array(expected), **CLOSE)
    pareto, l, scale = D.Pareto(T([0.5, 1.5, 2.5]), T([3.2, 2.7, 4.0])), T([-1.0, 0.3, 2.0]), T([[1.0], [2.0]])
    np.testing.assert_allclose(array(D.kl_divergence(pareto, D.Normal(l, scale))), np.stack([array(D.kl_divergence(pareto, D.Normal(l, s.expand(3)))) for s in scale]), **CLOSE)


def test_every_registered_pair_is_registered():
    from torch.distributions.kl import _KL_REGISTRY

    from rushlight.distributions import kl
    def names(registry): return {(p.__name__, q.__name__) for p, q in registry}
    assert names(_KL_REGISTRY) <= names(kl._KL_REGISTRY)


def test_all_names_are_there():
    assert set(torch.distributions.__all__) <= set(rl.distributions.__all__)
    assert set(torch.distributions.transforms.__all__) <= set(dir(rl.distributions.transforms))
    assert set(torch.distributions.constraints.__all__) <= set(dir(rl.distributions.constraints))


# ------------------------------------------------------------------------------------------------------------ transforms
def transforms(t):
    """Name -> (transform, the shape of what it takes, how that is made from normal numbers)."""
    D, T = t.distributions.transforms, lambda *values: t.tensor(*values, dtype=t.float64)
    return {
        "abs": (D.AbsTransform(), (3,)), "affine": (D.AffineTransform(1.0, -2.0), (3,)), "affine of tensors": (D.AffineTransform(T([1.0, 2.0, 3.0]), T([1.0, -2.0, 0.5])), (3,)),
        "affine of vectors": (D.AffineTransform(0.5, 2.0, event_dim=1), (2, 3)), "exp": (D.ExpTransform(), (3,)), "its inverse": (D.ExpTransform().inv, (3,), "exp"),
        "power": (D.PowerTransform(T(1.7)), (3,), "exp"), "sigmoid": (D.SigmoidTransform(), (3,)), "tanh": (D.TanhTransform(), (3,)), "softplus": (D.SoftplusTransform(), (3,)),
        "softmax": (D.SoftmaxTransform(), (2, 3)), "stick breaking": (D.StickBreakingTransform(), (2, 3)), "lower Cholesky": (D.LowerCholeskyTransform(), (2, 3, 3)),
        "positive definite": (D.PositiveDefiniteTransform(), (2, 3, 3)), "correlation Cholesky": (D.CorrCholeskyTransform(), (2, 6)),
        "composed": (D.ComposeTransform([D.AffineTransform(1.0, 2.0), D.TanhTransform(), D.ExpTransform()]), (3,)),
        "composed of two ranks": (D.ComposeTransform([D.ExpTransform(), D.StickBreakingTransform()]), (2, 3)),
        "independent": (D.IndependentTransform(D.ExpTransform(), 1), (2, 3)), "reshaped": (D.ReshapeTransform((6,), (2, 3)), (4, 6)),
        "side by side": (D.CatTransform([D.ExpTransform(), D.AffineTransform(1.0, 3.0)], dim=-1, lengths=[1, 2]), (2, 3)),
        "stacked": (D.StackTransform([D.ExpTransform(), D.TanhTransform()], dim=0), (2, 3)), "cumulative": (D.CumulativeDistributionTransform(t.distributions.Normal(T(0.5), T(2.0))), (3,)),
        "identity": (D.identity_transform, (3,)),
    }


@pytest.mark.parametrize("name", transforms(torch))
def test_transforms(name):
    (ours, shape, *how), (theirs, *_) = transforms(rl)[name], transforms(torch)[name]
    numbers = np.random.default_rng(0).standard_normal(shape)
    if how: numbers = np.exp(numbers)
    x, xt = rl.tensor(numbers, requires_grad=True), torch.tensor(numbers, requires_grad=True)
    for what in "domain codomain bijective sign event_dim".split(): same(lambda: getattr(ours, what), lambda: getattr(theirs, what), what)
    y, yt = ours(x), theirs(xt)
    same(lambda: y, lambda: yt, "forward")
    same(lambda: ours.inv(y.detach()), lambda: theirs.inv(yt.detach()), "inverse")
    same(lambda: ours.log_abs_det_jacobian(x, y), lambda: theirs.log_abs_det_jacobian(xt, yt), "log |det|")
    same(lambda: ours.inv.log_abs_det_jacobian(y, x), lambda: theirs.inv.log_abs_det_jacobian(yt, xt), "log |det| of the inverse")
    for what in ("forward_shape", "inverse_shape"): same(lambda: getattr(ours, what)(rl.Size(shape)), lambda: getattr(theirs, what)(torch.Size(shape)), what)
    _, failure = outcome(lambda: theirs.log_abs_det_jacobian(xt, yt))
    if failure is None:
        (y.sum() + ours.log_abs_det_jacobian(x, y).sum()).backward()
        (yt.sum() + theirs.log_abs_det_jacobian(xt, yt).sum()).backward()
        np.testing.assert_allclose(array(x.grad), array(xt.grad), **CLOSE)
    same(lambda: ours == transforms(rl)[name][0], lambda: theirs == transforms(torch)[name][0], "==")
    same(lambda: ours.inv.inv is ours, lambda: theirs.inv.inv is theirs, "inverse of the inverse")
    again, again_theirs = ours.with_cache(1), theirs.with_cache(1)
    z = again(x.detach())
    assert (again.inv(z) is not None) and again._cache_size == again_theirs._cache_size


SIMPLE = ("boolean cat corr_cholesky independent lower_cholesky lower_triangular nonnegative nonnegative_integer one_hot positive positive_definite positive_integer positive_semidefinite real "
          "real_vector simplex square stack symmetric unit_interval").split()


def constraint(t, name):
    C = t.distributions.constraints
    made = {"independent": lambda: C.independent(C.positive, 1), "cat": lambda: C.cat([C.real, C.positive], -1, [1, 2]), "stack": lambda: C.stack([C.real, C.positive], 0),
            "interval": lambda: C.interval(-1.0, 2.0), "half_open_interval": lambda: C.half_open_interval(0.0, 1.0), "greater_than": lambda: C.greater_than(0.5),
            "greater_than_eq": lambda: C.greater_than_eq(0.5), "less_than": lambda: C.less_than(0.5), "integer_interval": lambda: C.integer_interval(0, 2), "multinomial": lambda: C.multinomial(3)}
    return made[name]() if name in made else getattr(C, name)


PROBES = {"vectors": [[0.2, 0.3, 0.5], [-1.0, 0.0, 2.0], [0.0, 1.0, 0.0], [1.0, 2.0, 0.0]], "matrix": [[2.0, 0.5], [0.5, 1.0]], "lower": [[1.0, 0.0], [0.6, 0.8]], "upper": [[1.0, 2.0], [0.0, -1.0]]}


@pytest.mark.parametrize("name", [*SIMPLE, "interval", "half_open_interval", "greater_than", "greater_than_eq", "less_than", "integer_interval", "multinomial"])
def test_constraints(name):
    ours, theirs = constraint(rl, name), constraint(torch, name)
    for what in ("is_discrete", "event_dim"): same(lambda: getattr(ours, what), lambda: getattr(theirs, what), what)
    assert repr(ours) == repr(theirs)
    for probe, values in PROBES.items(): same(lambda: ours.check(rl.tensor(values, dtype=rl.float64)), lambda: theirs.check(torch.tensor(values, dtype=torch.float64)), probe)
    for registry in ("biject_to", "transform_to"):
        found = same(lambda: str(getattr(rl.distributions, registry)(ours)), lambda: str(getattr(torch.distributions, registry)(theirs)), registry)
        if found is None: continue
        transform, peer = getattr(rl.distributions, registry)(ours), getattr(torch.distributions, registry)(theirs)
        numbers = np.random.default_rng(1).standard_normal((3, 3) if peer.domain.event_dim == 2 else (2, 3))
        value, _ = same(lambda: transform(rl.tensor(numbers)), lambda: peer(torch.tensor(numbers)), registry + " forward")
        assert bool(ours.check(value).all())


# -------------------------------------------------------------------------------------------------------------- refusals
def refused(t):
    D, T = t.distributions, lambda *values: t.tensor(*values, dtype=t.float64)
    one, cov = T([1.0, 2.0]), T([[2.0, 0.5], [0.5, 1.0]])
    return {
        "negative scale": lambda: D.Normal(0.0, -1.0), "nan loc": lambda: D.Normal(T(float("nan")), 1.0), "negative rate": lambda: D.Exponential(-one), "probability of 2": lambda: D.Bernoulli(T([0.5, 2.0])),
        "both forms": lambda: D.Bernoulli(probs=T(0.5), logits=T(0.0)), "no form": lambda: D.Categorical(), "scalar categories": lambda: D.Categorical(T(0.5)),
        "probabilities below 0": lambda: D.Categorical(T([-1.0, 2.0])), "interval upside down": lambda: D.Uniform(1.0, 0.0), "Dirichlet of a number": lambda: D.Dirichlet(T(1.0)),
        "Gamma of 0": lambda: D.Gamma(0.0, 1.0), "Geometric of 0": lambda: D.Geometric(T(0.0)), "count below 0": lambda: D.Binomial(-1, T(0.5)),
        "count of another shape": lambda: D.Binomial(T([1.0, 2.0, 3.0]), T([0.5, 0.5])), "two matrices": lambda: D.MultivariateNormal(one, cov, precision_matrix=cov),
        "not positive definite": lambda: D.MultivariateNormal(one, -cov), "a vector for a matrix": lambda: D.MultivariateNormal(one, one), "a number for a vector": lambda: D.MultivariateNormal(T(1.0), cov),
        "df too small": lambda: D.Wishart(T(0.5), cov), "LKJ of one": lambda: D.LKJCholesky(1), "many counts": lambda: D.Multinomial(T([1.0, 2.0]), T([0.5, 0.5])),
        "names for numbers": lambda: D.Normal("a", 1.0), "factor of another size": lambda: D.LowRankMultivariateNormal(one, T([[1.0]]), one),
        "too many dimensions": lambda: D.Independent(D.Normal(one, one), 2), "a mixture of no choice": lambda: D.MixtureSameFamily(D.Normal(one, one), D.Normal(one, one)),
        "a mixture that does not fit": lambda: D.MixtureSameFamily(D.Categorical(T([0.2, 0.3, 0.5])), D.Normal(one, one)), "no transform": lambda: D.TransformedDistribution(D.Normal(one, one), [1]),
        "value below the support": lambda: D.Exponential(1.0).log_prob(T(-1.0)), "value of another shape": lambda: D.Normal(one, one).log_prob(T([1.0, 2.0, 3.0])),
        "value of no tensor": lambda: D.Normal(one, one).log_prob(1.0), "a half success": lambda: D.Bernoulli(T(0.5)).log_prob(T(0.5)), "category out of range": lambda: D.Categorical(T([0.5, 0.5])).log_prob(T(2.0)),
        "not one hot": lambda: D.OneHotCategorical(T([0.5, 0.5])).log_prob(T([1.0, 1.0])), "counts that are too many": lambda: D.Multinomial(3, T([0.5, 0.5])).log_prob(T([2.0, 2.0])),
        "not a simplex": lambda: D.Dirichlet(one).log_prob(T([0.5, 0.6])), "event of another size": lambda: D.MultivariateNormal(one, cov).log_prob(T([1.0, 2.0, 3.0])),
        "beyond the end": lambda: D.GeneralizedPareto(*(t.tensor(v) for v in (0.0, 1.0, -0.5))).log_prob(t.tensor(3.0)), "cdf below the support": lambda: D.Pareto(T(1.0), T(2.0)).cdf(T(0.5)),
        "no cdf": lambda: D.Dirichlet(one).cdf(T([0.5, 0.5])), "no rsample": lambda: D.Poisson(one).rsample(), "many supports": lambda: D.Binomial(T([1.0, 2.0]), T([0.5, 0.5])).enumerate_support(),
        "an own constructor": lambda: type("Own", (D.Normal,), {"__init__": lambda self: D.Normal.__init__(self, 0.0, 1.0)})().expand((2,)), "smaller than before": lambda: D.Normal(one, one).expand((3,)),
        "no divergence": lambda: D.kl_divergence(D.Normal(one, one), D.Bernoulli(T(0.5))), "base without expand": lambda: D.Distribution().expand((2,)),
        "unchecked": lambda: D.Normal(0.0, -1.0, validate_args=False).log_prob(T(1.0)), "unchecked value": lambda: D.Exponential(1.0, validate_args=False).log_prob(T(-1.0)),
    }


@pytest.mark.parametrize("name", refused(torch))
def test_refusals(name):
    same(refused(rl)[name], refused(torch)[name], name)
    if not name.startswith("unchecked"): assert outcome(refused(torch)[name])[1] is not None


def test_default_validation_can_be_turned_off():
    for t in (rl, torch):
        t.distributions.Distribution.set_default_validate_args(False)
        try: assert np.isnan(array(t.distributions.Normal(0.0, -1.0).log_prob(t.tensor(1.0)))).all()
        finally: t.distributions.Distribution.set_default_validate_args(True)


def test_cases_name_every_distribution():
    kinds = {name for name in torch.distributions.__all__ if isinstance(getattr(torch.distributions, name), type) and issubclass(getattr(torch.distributions, name), torch.distributions.Distribution)}
    tried = {type(make()).__name__ for make in THEIRS.values()}
    assert kinds - {"Distribution", "ExponentialFamily"} <= tried
