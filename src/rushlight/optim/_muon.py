"""Muon: momentum, orthogonalised."""
from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor

from .optimizer import Optimizer, number, refuse_sparse

__all__ = ["Muon"]


def _orthogonalised(update: Tensor, coefficients: tuple, steps: int, eps: float) -> Tensor:
    """The nearest matrix with orthogonal rows or columns, roughly: a few Newton-Schulz iterations in bfloat16, which is accuracy enough."""
    if steps >= 100:
        raise ValueError("Number of steps must be less than 100 for computational efficiency")
    if update.dim() != 2:
        raise ValueError("Input tensor gradient must be a 2D matrix")
    if len(coefficients) != 3:
        raise ValueError("Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    x = update.bfloat16()
    tall = update.size(0) > update.size(1)
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = rl.addmm(x, rl.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


class Muon(Optimizer):
    """For the matrices of hidden layers: the momentum's directions all get the same size. Leave embeddings, heads, biases to another optimizer."""

    def __init__(self, params, lr=1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
                 ns_coefficients=(3.4445, -4.775, 2.0315), eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not 0.0 <= momentum:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov, ns_coefficients=ns_coefficients, eps=eps,
                                      ns_steps=ns_steps, adjust_lr_fn=adjust_lr_fn))
        for group in self.param_groups:
            for param in group["params"]:
                if param.dim() != 2:
                    raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {param.size()}")

    def step(self, closure=None):
        loss = self._loss_of(closure)
        with rl.no_grad():
            for group in self.param_groups:
                params = [param for param in group["params"] if param.grad is not None]
                refuse_sparse(params, "Muon does not support sparse gradients")
                for param in params:
                    self._step_one(group, param)
        return loss

    def _step_one(self, group: dict, param: Tensor) -> None:
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        gradient, momentum, state = param.grad, group["momentum"], self.state[param]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = rl.zeros_like(gradient, memory_format=rl.preserve_format)
        buffer = state["momentum_buffer"].lerp_(gradient, 1 - momentum)
        update = gradient.lerp(buffer, momentum) if group["nesterov"] else buffer
        update = _orthogonalised(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        rows, columns = param.shape
        lr = number(group["lr"])
        if group["adjust_lr_fn"] == "match_rms_adamw":
            rate = lr * 0.2 * math.sqrt(max(rows, columns))
        else:
            rate = lr * math.sqrt(max(1, rows / columns))
        param.mul_(1 - lr * group["weight_decay"])
        param.add_(update.to(param.dtype), alpha=-rate)
