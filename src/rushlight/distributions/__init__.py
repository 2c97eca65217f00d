"""Probability distributions: sampling, densities, transforms, divergences: PyTorch's `torch.distributions`."""
import sys as _sys

from . import constraints, continuous, derived, discrete, multivariate, transforms, utils, wrappers
from .constraint_registry import biject_to, transform_to
from .continuous import *  # noqa: F403
from .continuous import __all__ as _continuous_names
from .derived import *  # noqa: F403
from .derived import __all__ as _derived_names
from .discrete import *  # noqa: F403
from .discrete import __all__ as _discrete_names
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .kl import kl_divergence, register_kl
from .multivariate import *  # noqa: F403
from .multivariate import __all__ as _multivariate_names
from .transforms import *  # noqa: F403
from .transforms import __all__ as _transform_names
from .wrappers import *  # noqa: F403
from .wrappers import __all__ as _wrapper_names

__all__ = ["Distribution", "ExponentialFamily", "biject_to", "transform_to", "kl_divergence", "register_kl", "constraints", "transforms", "utils",
           *_continuous_names, *_discrete_names, *_derived_names, *_multivariate_names, *_wrapper_names, *_transform_names]

# torch has a module for each distribution (`torch.distributions.normal`); here a family shares one.
for _family, _modules in ((continuous, "normal uniform exponential laplace cauchy gamma chi2 beta dirichlet studentT fishersnedecor von_mises continuous_bernoulli generalized_pareto"),
                          (discrete, "bernoulli binomial categorical geometric multinomial negative_binomial one_hot_categorical poisson"),
                          (derived, "log_normal gumbel half_normal half_cauchy pareto weibull kumaraswamy inverse_gamma logistic_normal relaxed_bernoulli "
                                    "relaxed_categorical"),
                          (multivariate, "multivariate_normal lowrank_multivariate_normal lkj_cholesky wishart"),
                          (wrappers, "independent transformed_distribution mixture_same_family")):
    for _name in _modules.split():
        globals().setdefault(_name, _family)
        _sys.modules[f"{__name__}.{_name}"] = _family
