"""Distributions without torch beside them (tests/conformance compares everything): known values, gradients of samples, and refusals."""
import math

import numpy as np
import pytest

import rushlight as rl
from rushlight import distributions as D


def test_known_values():
    assert D.Normal(0.0, 1.0).log_prob(rl.tensor(0.0)).item() == pytest.approx(-0.5 * math.log(2 * math.pi))
    assert D.Exponential(2.0).cdf(rl.tensor(1.0)).item() == pytest.approx(1 - math.exp(-2))
    assert D.Bernoulli(rl.tensor(0.25)).entropy().item() == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75))
    assert D.kl_divergence(D.Normal(1.0, 1.0), D.Normal(0.0, 1.0)).item() == pytest.approx(0.5)


def test_samples_have_gradients():
    loc, scale = rl.tensor([0.5], requires_grad=True), rl.tensor([2.0], requires_grad=True)
    D.Normal(loc, scale).rsample((5,)).sum().backward()
    assert loc.grad.item() == 5.0 and scale.grad is not None


def test_bad_parameters_and_values():
    with pytest.raises(ValueError, match="Expected parameter scale"): D.Normal(0.0, -1.0)
    with pytest.raises(ValueError, match="to be within the support"): D.Exponential(1.0).log_prob(rl.tensor(-1.0))


@pytest.mark.parametrize("concentration", [-0.5, 0.0, 1e-12, 0.3, 2.0])
def test_generalized_pareto_in_double_precision(concentration):
    d = D.GeneralizedPareto(*(rl.tensor(v, dtype=rl.float64) for v in (1.0, 2.0, concentration)))
    shares = rl.linspace(0.01, 0.99, 9, dtype=rl.float64)
    values = d.icdf(shares)
    assert rl.allclose(d.cdf(values), shares, rtol=1e-12) and rl.allclose(d.log_survival_function(values), rl.log1p(-shares), rtol=1e-11)
    step = 1e-6
    slope = (d.cdf(values + step) - d.cdf(values - step)) / (2 * step)
    assert rl.allclose(d.log_prob(values).exp(), slope, rtol=1e-7)


def test_a_part_of_a_subclass_expands_too():
    class Shifted(D.Normal):
        """No constructor of its own: expand gives its own kind."""
    assert type(Shifted(0.0, 1.0).expand((2,))) is Shifted

    class Standard(D.Normal):
        def __init__(self): super().__init__(0.0, 1.0)
    with pytest.raises(NotImplementedError, match="must also define a custom .expand"): Standard().expand((2,))


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-9), ("float32", 1e-6)])
def test_slopes_of_beta_draws_are_exact(dtype, tolerance):
    """For b = 1, 2, 3 the distribution function of Beta(a, b) is x^a times a polynomial: its derivative with respect to a is written down."""
    rng = np.random.default_rng(0)
    a = (10 ** rng.uniform(-2, 4, 500)).astype(dtype)
    for b in (1, 2, 3):
        x = np.clip(rng.beta(a, b), 1e-30, 1 - 2.0 ** -20).astype(dtype)
        a_, x_ = a.astype("float64"), x.astype("float64")
        y = 1 - x_
        polynomial = [1, 1 + a_ * y, 1 + a_ * y + a_ * (a_ + 1) / 2 * y ** 2][b - 1]
        moved = np.log(x_) * polynomial + [0, y, y + (a_ + 0.5) * y ** 2][b - 1]
        density = [a_, a_ * (a_ + 1) * y, a_ * (a_ + 1) * (a_ + 2) / 2 * y ** 2][b - 1] / x_
        total = rl.tensor(a) + b
        b_ = total.double().numpy() - a_                       # what float32 makes of it
        keep = np.abs(b_ - b) < tolerance * 0.01
        got = rl._dirichlet_grad(rl.tensor(x), rl.tensor(a), total).numpy()
        assert keep.sum() > 100
        np.testing.assert_allclose(got[keep], (-moved / density / y)[keep], rtol=tolerance)


@pytest.mark.parametrize("dtype", [rl.float32, rl.float64])
@pytest.mark.parametrize("a", [1e-10, 1e-3, 1.0, 1e4, 1e8])
@pytest.mark.parametrize("b", [1e-10, 1e-3, 1.0, 1e4, 1e8])
def test_shares_and_their_slopes_at_extreme_concentrations(a, b, dtype):
    """A row of draws that all underflow still has shares; a concentration that is lost beside the other leaves a slope of 0, not infinity."""
    rl.manual_seed(0)
    concentration = rl.tensor([a, b], dtype=dtype, requires_grad=True)
    shares = rl.distributions.Dirichlet(concentration.expand(50, 2)).rsample()
    assert bool((shares > 0).all()) and bool((shares < 1).all())
    assert rl.allclose(shares.sum(-1), rl.ones(50, dtype=dtype))
    assert bool(rl.isfinite(rl.autograd.grad(shares[:, 0].sum(), concentration)[0]).all())
