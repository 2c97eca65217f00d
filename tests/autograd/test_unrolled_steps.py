"""Gradients through steps of an optimizer (meta-learning): the derivative of a loss after Adam's steps by the parameters before them."""
import math

import pytest

import rushlight as torch
from rushlight.nn import functional as F

STEPS, RATE, BETAS, EPS = 2, 0.05, (0.9, 0.999), 1e-8


def numbers(*shape, seed):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def loss_of(parameters, seed):
    w, b, v, c = parameters
    return (F.linear(torch.tanh(F.linear(numbers(16, 3, seed=seed), w, b)), v, c) - numbers(16, 1, seed=seed + 50)).pow(2).mean()


def zero_where(mask):
    """A hook that masks the gradient, and the gradient's gradient."""
    def hook(grad):
        grad = torch.where(mask, torch.zeros_like(grad), grad)
        if grad.requires_grad: grad.register_hook(zero_where(mask))
        return grad
    return hook


def after_steps(parameters, hooks, inplace):
    """The loss after Adam's steps, each of them part of the graph."""
    moments = [(torch.zeros_like(p.data), torch.zeros_like(p.data)) for p in parameters]
    for k in range(1, STEPS + 1):
        gradients = torch.autograd.grad(loss_of(parameters, k), parameters, create_graph=True)
        size = RATE * math.sqrt(1 - BETAS[1] ** k) / (1 - BETAS[0] ** k)
        after = []
        for i, (p, g) in enumerate(zip(parameters, gradients)):
            m, v = moments[i]
            if inplace:
                m, v = m.clone().mul_(BETAS[0]).add_(g, alpha=1 - BETAS[0]), v.clone().mul_(BETAS[1]).addcmul_(g, g, value=1 - BETAS[1])
                after.append(p.clone().addcdiv_(m, v.sqrt() + EPS, value=-size))
            else:
                m, v = m * BETAS[0] + (1 - BETAS[0]) * g, v * BETAS[1] + (1 - BETAS[1]) * g * g
                if hooks: v.register_hook(zero_where(v == 0))
                after.append(p - size * (m / (v.sqrt() + EPS)))
            moments[i] = m, v
        parameters = after
    return loss_of(parameters, 20)


@pytest.mark.parametrize("hooks, inplace", [(False, False), (True, False), (False, True)], ids=["plain", "hooks", "inplace"])
def test_gradient_through_adam(hooks, inplace):
    start = [numbers(6, 3, seed=101), numbers(6, seed=102) * 0.1, numbers(1, 6, seed=103) / 3, numbers(1, seed=104) * 0.1]
    leaves = [p.clone().requires_grad_() for p in start]
    after_steps(leaves, hooks, inplace).backward()
    direction = [numbers(*p.shape, seed=200 + i) for i, p in enumerate(start)]
    h = 1e-5
    ends = [float(after_steps([(p + sign * h * d).requires_grad_() for p, d in zip(start, direction)], hooks, inplace).detach()) for sign in (1, -1)]
    expected = (ends[0] - ends[1]) / (2 * h)
    assert float(sum((p.grad * d).sum() for p, d in zip(leaves, direction))) == pytest.approx(expected, rel=1e-7)
