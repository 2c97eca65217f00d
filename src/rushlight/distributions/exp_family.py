"""Exponential families: entropy from the derivative of the log normaliser."""
from __future__ import annotations

import rushlight as rl

from .distribution import Distribution
from .utils import lacks

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """p(x) = h(x) exp(<t(x), natural parameters> - log normaliser)."""

    @property
    def _natural_params(self): raise lacks(self, "_natural_params")
    def _log_normalizer(self, *natural_params): raise lacks(self, "_log_normalizer")
    @property
    def _mean_carrier_measure(self) -> float: raise lacks(self, "_mean_carrier_measure")

    def entropy(self):
        params = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*params)
        gradients = rl.autograd.grad(normalizer.sum(), params, create_graph=True)
        result = -self._mean_carrier_measure + normalizer
        for param, gradient in zip(params, gradients):
            result = result - (param * gradient).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
