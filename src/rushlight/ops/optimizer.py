"""The optimizers' updates: one operator each, so that one kernel per parameter reads and writes everything once.

They are in-place over the marked arguments and launched over all parameters by the optimizers in `rushlight.optim`. What
changes every step (learning rate, bias corrections) are run-time scalars; what chooses the formula is by value.
"""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from .elementwise import abs, clamp, maximum, sign, sqrt, where


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


# ------------------------------------------------------------------------------------- optimizers of optim/per_element.py
# Their bodies use operators only (no T.prim): `differentiable=True` runs the same body on real tensors, recorded.
def _toward(old, new, weight):
    """`old` moved by `weight` towards `new`, as lerp has it."""
    return old + (new - old) * weight


@op("_adadelta_step_(Tensor(a!) param, Tensor grad, Tensor(b!) square_avg, Tensor(c!) acc_delta, Scalar lr, Scalar rho, Scalar one_minus_rho, Scalar eps, "
    "Scalar weight_decay, bool decays, bool maximize) -> (Tensor, Tensor, Tensor)", rule="float_match", on="-", differentiable=False, out=False)
def _adadelta_step_(param, grad, square_avg, acc_delta, lr, rho, one_minus_rho, eps, weight_decay, decays, maximize):
    """Adadelta: the step has the size of past steps over that of past gradients."""
    grad = _effective_gradient(param, grad, weight_decay, decays, maximize)
    square = square_avg * rho + grad * grad * one_minus_rho
    delta = sqrt(acc_delta + eps) / sqrt(square + eps) * grad
    return param - delta * lr, square, acc_delta * rho + delta * delta * one_minus_rho


@op("_adagrad_step_(Tensor(a!) param, Tensor grad, Tensor(b!) sum, Scalar rate, Scalar eps, Scalar weight_decay, bool decays, bool maximize) -> (Tensor, Tensor)",
    rule="float_match", on="-", differentiable=False, out=False)
def _adagrad_step_(param, grad, sum, rate, eps, weight_decay, decays, maximize):
    """Adagrad: gradients over the root of the sum of all their squares."""
    grad = _effective_gradient(param, grad, weight_decay, decays, maximize)
    total = sum + grad * grad
    return param - grad / (sqrt(total) + eps) * rate, total


@op("_adamax_step_(Tensor(a!) param, Tensor grad, Tensor(b!) exp_avg, Tensor(c!) exp_inf, Scalar one_minus_beta1, Scalar beta2, Scalar rate, Scalar eps, "
    "Scalar weight_decay, bool decays, bool maximize) -> (Tensor, Tensor, Tensor)", rule="float_match", on="-", differentiable=False, out=False)
def _adamax_step_(param, grad, exp_avg, exp_inf, one_minus_beta1, beta2, rate, eps, weight_decay, decays, maximize):
    """Adam with the largest gradient in place of the root mean square."""
    grad = _effective_gradient(param, grad, weight_decay, decays, maximize)
    mean, largest = _toward(exp_avg, grad, one_minus_beta1), maximum(exp_inf * beta2, abs(grad) + eps)
    return param - mean / largest * rate, mean, largest


@op("_asgd_step_(Tensor(a!) param, Tensor grad, Tensor(b!) ax, Scalar shrink, Scalar eta, Scalar mu, Scalar weight_decay, bool decays, bool maximize, "
    "bool follows) -> (Tensor, Tensor)", rule="float_match", on="-", differentiable=False, out=False)
def _asgd_step_(param, grad, ax, shrink, eta, mu, weight_decay, decays, maximize, follows):
    """Gradient descent, and the average of where it has been."""
    grad = _effective_gradient(param, grad, weight_decay, decays, maximize)
    moved = param * shrink - grad * eta
    return moved, moved + 0 if follows else ax + (moved - ax) * mu


@op("_nadam_step_(Tensor(a!) param, Tensor grad, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Scalar one_minus_beta1, Scalar beta2, Scalar one_minus_beta2, "
    "Scalar correction2, Scalar eps, Scalar rate_of_grad, Scalar rate_of_mean, Scalar decay, bool decoupled, bool decays, bool maximize) -> (Tensor, Tensor, Tensor)",
    rule="float_match", on="-", differentiable=False, out=False)
def _nadam_step_(param, grad, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2, correction2, eps, rate_of_grad, rate_of_mean, decay, decoupled,
                 decays, maximize):
    """Adam with Nesterov's look ahead."""
    grad = _effective_gradient(param, grad, decay, decays and not decoupled, maximize)
    if decays and decoupled:
        param = param * decay
    mean, square = _toward(exp_avg, grad, one_minus_beta1), exp_avg_sq * beta2 + grad * grad * one_minus_beta2
    denominator = sqrt(square / correction2) + eps
    return param - grad / denominator * rate_of_grad - mean / denominator * rate_of_mean, mean, square


@op("_radam_step_(Tensor(a!) param, Tensor grad, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Scalar one_minus_beta1, Scalar beta2, Scalar one_minus_beta2, "
    "Scalar rate, Scalar rectified, Scalar eps, Scalar decay, bool decoupled, bool decays, bool maximize, bool adaptive) -> (Tensor, Tensor, Tensor)",
    rule="float_match", on="-", differentiable=False, out=False)
def _radam_step_(param, grad, exp_avg, exp_avg_sq, one_minus_beta1, beta2, one_minus_beta2, rate, rectified, eps, decay, decoupled, decays, maximize, adaptive):
    """Adam that starts as plain momentum, until the variance of its second moment is bounded."""
    grad = _effective_gradient(param, grad, decay, decays and not decoupled, maximize)
    if decays and decoupled:
        param = param * decay
    mean, square = _toward(exp_avg, grad, one_minus_beta1), exp_avg_sq * beta2 + grad * grad * one_minus_beta2
    step = mean * rate
    if adaptive:
        step = step * (rectified / (sqrt(square) + eps))
    return param - step, mean, square


_RMSPROP = "Scalar lr, Scalar alpha, Scalar one_minus_alpha, Scalar eps, Scalar momentum, Scalar weight_decay, bool decays, bool maximize"


def _rms(param, grad, square_avg, grad_avg, alpha, one_minus_alpha, eps, weight_decay, decays, maximize):
    """The effective gradient, both new averages and the divisor."""
    grad = _effective_gradient(param, grad, weight_decay, decays, maximize)
    square = square_avg * alpha + grad * grad * one_minus_alpha
    if grad_avg is None:
        return grad, square, None, sqrt(square) + eps
    mean = _toward(grad_avg, grad, one_minus_alpha)
    return grad, square, mean, sqrt(square - mean * mean) + eps


@op(f"_rmsprop_step_(Tensor(a!) param, Tensor grad, Tensor(b!) square_avg, {_RMSPROP}) -> (Tensor, Tensor)", rule="float_match", on="-", differentiable=False, out=False)
def _rmsprop_step_(param, grad, square_avg, lr, alpha, one_minus_alpha, eps, momentum, weight_decay, decays, maximize):
    """Gradients over their root mean square."""
    grad, square, _, divisor = _rms(param, grad, square_avg, None, alpha, one_minus_alpha, eps, weight_decay, decays, maximize)
    return param - grad / divisor * lr, square


@op(f"_rmsprop_momentum_step_(Tensor(a!) param, Tensor grad, Tensor(b!) square_avg, Tensor(c!) momentum_buffer, {_RMSPROP}) -> (Tensor, Tensor, Tensor)",
    rule="float_match", on="-", differentiable=False, out=False)
def _rmsprop_momentum_step_(param, grad, square_avg, momentum_buffer, lr, alpha, one_minus_alpha, eps, momentum, weight_decay, decays, maximize):
    """RMSprop with momentum."""
    grad, square, _, divisor = _rms(param, grad, square_avg, None, alpha, one_minus_alpha, eps, weight_decay, decays, maximize)
    buffer = momentum_buffer * momentum + grad / divisor
    return param - buffer * lr, square, buffer


@op(f"_rmsprop_centered_step_(Tensor(a!) param, Tensor grad, Tensor(b!) square_avg, Tensor(c!) grad_avg, {_RMSPROP}) -> (Tensor, Tensor, Tensor)",
    rule="float_match", on="-", differentiable=False, out=False)
def _rmsprop_centered_step_(param, grad, square_avg, grad_avg, lr, alpha, one_minus_alpha, eps, momentum, weight_decay, decays, maximize):
    """RMSprop by the gradients' standard deviation."""
    grad, square, mean, divisor = _rms(param, grad, square_avg, grad_avg, alpha, one_minus_alpha, eps, weight_decay, decays, maximize)
    return param - grad / divisor * lr, square, mean


@op(f"_rmsprop_centered_momentum_step_(Tensor(a!) param, Tensor grad, Tensor(b!) square_avg, Tensor(c!) grad_avg, Tensor(d!) momentum_buffer, {_RMSPROP}) "
    "-> (Tensor, Tensor, Tensor, Tensor)", rule="float_match", on="-", differentiable=False, out=False)
def _rmsprop_centered_momentum_step_(param, grad, square_avg, grad_avg, momentum_buffer, lr, alpha, one_minus_alpha, eps, momentum, weight_decay, decays, maximize):
    """RMSprop by the gradients' standard deviation, with momentum."""
    grad, square, mean, divisor = _rms(param, grad, square_avg, grad_avg, alpha, one_minus_alpha, eps, weight_decay, decays, maximize)
    buffer = momentum_buffer * momentum + grad / divisor
    return param - buffer * lr, square, mean, buffer


@op("_rprop_step_(Tensor(a!) param, Tensor grad, Tensor(b!) prev, Tensor(c!) step_size, Scalar shrink, Scalar grow, Scalar smallest, Scalar largest, "
    "bool maximize) -> (Tensor, Tensor, Tensor)", rule="float_match", on="-", differentiable=False, out=False)
def _rprop_step_(param, grad, prev, step_size, shrink, grow, smallest, largest, maximize):
    """Resilient backpropagation: only signs count; a step grows while its gradient keeps its sign and shrinks, pausing once, when it turns."""
    if maximize:
        grad = -grad
    agrees = grad * prev
    kept, turned = agrees > 0, agrees < 0
    size = clamp(where(kept, step_size * grow, where(turned, step_size * shrink, step_size)), smallest, largest)
    grad = where(turned, grad * 0.0, grad)
    return param - sign(grad) * size, grad, size
