"""Stochastic gradient descent."""
from __future__ import annotations

import rushlight as rl

from .optimizer import Optimizer, check_flags, check_lr, is_sparse, number, run_update

__all__ = ["SGD"]


class SGD(Optimizer):
    """Gradient descent with optional momentum (Nesterov's too) and weight decay."""

    def __init__(self, params, lr=1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0, nesterov: bool = False, *,
                 maximize: bool = False, foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None) -> None:
        check_lr(lr, foreach=False, capturable=False)
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_flags(fused, foreach, differentiable)
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov,
                                      maximize=maximize, foreach=foreach, differentiable=differentiable, fused=fused))

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)
            group.setdefault("maximize", False)
            group.setdefault("foreach", None)
            group.setdefault("differentiable", False)
            group.setdefault("fused", None)

    def step(self, closure=None):
        loss = self._loss_of(closure)
        for group in self.param_groups:
            params, gradients = [], []
            for param in group["params"]:
                gradient = param.grad
                if gradient is not None and is_sparse(gradient):
                    with rl.no_grad():
                        self._sparse_step(group, param, gradient)
                elif gradient is not None:
                    params.append(param)
                    gradients.append(gradient)
            if not params:
                continue
            if group["differentiable"]:
                self._differentiable_step(group, params, gradients)
                continue
            with rl.no_grad():
                self._fused_step(group, params, gradients)
        return loss

    def _fused_step(self, group: dict, params: list, gradients: list) -> None:
        lr, decay = number(group["lr"]), number(group["weight_decay"])
        choices = {"decays": decay != 0, "maximize": group["maximize"]}
        if group["momentum"] == 0:
            run_update("_sgd_step_", [params, gradients], (lr, decay), **choices)
            return
        # A buffer starts as the first gradient itself, whatever the dampening: those parameters are a batch of their own.
        started, fresh = ([], [], []), ([], [], [])
        for param, gradient in zip(params, gradients):
            state = self.state[param]
            buffer = state.get("momentum_buffer")
            batch = started
            if buffer is None:
                batch = fresh
                buffer = state["momentum_buffer"] = rl.empty_like(param, memory_format=rl.preserve_format)
            for values, value in zip(batch, (param, gradient, buffer)):
                values.append(value)
        for batch, first in ((started, False), (fresh, True)):
            if batch[0]:
                run_update("_sgd_momentum_step_", list(batch), (lr, group["momentum"], 1 - group["dampening"], decay),
                           nesterov=group["nesterov"], first=first, **choices)

    def _sparse_step(self, group: dict, param, gradient) -> None:
        """The rows that have a gradient move. Momentum is kept for the rows that ever had one."""
        lr, momentum = number(group["lr"]), group["momentum"]
        gradient = -gradient if group["maximize"] else gradient
        if group["weight_decay"] != 0:
            gradient = gradient.add(param, alpha=number(group["weight_decay"]))           # refused: a sparse tensor and a dense one
        if momentum != 0:
            state = self.state[param]
            buffer = state.get("momentum_buffer")
            buffer = state["momentum_buffer"] = gradient.clone() if buffer is None else buffer.mul_(momentum).add_(gradient, alpha=1 - group["dampening"]).coalesce()
            gradient = gradient.add(buffer, alpha=momentum) if group["nesterov"] else buffer
        param.add_(gradient, alpha=-lr)

    def _differentiable_step(self, group: dict, params: list, gradients: list) -> None:
        """The same update written with recorded operations, for those who differentiate through their training."""
        lr, decay, momentum = group["lr"], group["weight_decay"], group["momentum"]
        for param, gradient in zip(params, gradients):
            if group["maximize"]:
                gradient = -gradient
            if decay != 0:
                gradient = gradient + param * decay
            if momentum != 0:
                state = self.state[param]
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    buffer = gradient.detach().clone()                 # as torch has it: momentum begins as a number, whatever the first gradient came from
                else:
                    buffer = buffer * momentum + gradient * (1 - group["dampening"])
                state["momentum_buffer"] = buffer
                gradient = gradient + buffer * momentum if group["nesterov"] else buffer
            param.add_(-lr * gradient)
