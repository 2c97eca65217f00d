"""The optimizers' updates: one operator each, so that one kernel per parameter reads and writes everything once.

They are in-place over the marked arguments and launched over all parameters by the optimizers in `rushlight.optim`. What
changes every step (learning rate, bias corrections) are run-time scalars; what chooses the formula is by value.
"""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op


def _effective_gradient(param, grad, weight_decay, decays: bool, maximize: bool):
    if maximize:
        grad = -grad
    return grad + param * weight_decay if decays else grad


@op("_sgd_step_(Tensor(a!) param, Tensor grad, Scalar lr, Scalar weight_decay, bool decays, bool maximize) -> Tensor",
    rule="float_match", on="-", differentiable=False, out=False)
def _sgd_step_(param, grad, lr, weight_decay, decays, maximize):
    """`param -= lr * grad`."""
    return param - _effective_gradient(param, grad, weight_decay, decays, maximize) * lr


@op("_sgd_momentum_step_(Tensor(a!) param, Tensor grad, Tensor(b!) buffer, Scalar lr, Scalar momentum, Scalar gain, Scalar weight_decay, "
    "bool decays, bool maximize, bool nesterov, bool first) -> (Tensor, Tensor)",
    rule="float_match", on="-", differentiable=False, out=False)
def _sgd_momentum_step_(param, grad, buffer, lr, momentum, gain, weight_decay, decays, maximize, nesterov, first):
    """The buffer becomes `momentum * buffer + gain * grad` (the gradient itself at first); the parameter follows it."""
    grad = _effective_gradient(param, grad, weight_decay, decays, maximize)
    moved = grad if first else buffer * momentum + grad * gain
    direction = grad + moved * momentum if nesterov else moved
    return param - direction * lr, moved


_ADAM_SCALARS = ("Scalar one_minus_beta1, Scalar beta2, Scalar one_minus_beta2, Scalar step_size, Scalar root_correction2, Scalar eps, "
                 "Scalar decay, bool decoupled, bool decays, bool maximize, bool mostly_new")


def _moments(param, grad, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2, decay, decoupled, decays, maximize, mostly_new):
    """The parameter after decoupled decay, and both new moments."""
    grad = _effective_gradient(param, grad, decay, decays and not decoupled, maximize)
    if decays and decoupled:
        param = param * decay
    # lerp from the side that is nearer, so that a weight of exactly 1 gives the gradient itself
    if mostly_new:
        mean = grad - (grad - exp_avg) * (1.0 - one_minus_beta1)
    else:
        mean = exp_avg + (grad - exp_avg) * one_minus_beta1
    square = exp_avg_sq * beta2 + grad * grad * one_minus_beta2
    return param, mean, square


@op(f"_adam_step_(Tensor(a!) param, Tensor grad, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, {_ADAM_SCALARS}) -> (Tensor, Tensor, Tensor)",
    rule="float_match", on="-", differentiable=False, out=False)
def _adam_step_(param, grad, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2, step_size, root_correction2, eps, decay,
                decoupled, decays, maximize, mostly_new):
    """Adam and AdamW; `decay` is the factor on the parameter if decoupled, else the factor of the parameter in the gradient."""
    param, mean, square = _moments(param, grad, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2, decay, decoupled, decays,
                                   maximize, mostly_new)
    denominator = T.prim("sqrt", square) / root_correction2 + eps
    return param - step_size * mean / denominator, mean, square


@op("_adam_amsgrad_step_(Tensor(a!) param, Tensor grad, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Tensor(d!) max_exp_avg_sq, "
    f"{_ADAM_SCALARS}) -> (Tensor, Tensor, Tensor, Tensor)", rule="float_match", on="-", differentiable=False, out=False)
def _adam_amsgrad_step_(param, grad, exp_avg, exp_avg_sq, max_exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2, step_size,
                        root_correction2, eps, decay, decoupled, decays, maximize, mostly_new):
    """Adam that divides by the largest second moment seen so far."""
    param, mean, square = _moments(param, grad, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2, decay, decoupled, decays,
                                   maximize, mostly_new)
    largest = T.prim("maximum", max_exp_avg_sq, square)
    denominator = T.prim("sqrt", largest) / root_correction2 + eps
    return param - step_size * mean / denominator, mean, square, largest
