"""RMSprop."""
from __future__ import annotations

from .optimizer import check_lr
from .per_element import PerElementOptimizer, Update, check_not_negative, zeros_like

__all__ = ["RMSprop"]


class RMSprop(PerElementOptimizer):
    """Gradients over their root mean square; `centered`: over their standard deviation."""

    _group_defaults = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False, "momentum": 0, "centered": False}

    def __init__(self, params, lr=1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0, momentum: float = 0, centered: bool = False,
                 capturable: bool = False, foreach: bool | None = None, maximize: bool = False, differentiable: bool = False) -> None:
        check_lr(lr, False, capturable)
        check_not_negative(eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered, weight_decay=weight_decay, capturable=capturable,
                                      foreach=foreach, maximize=maximize, differentiable=differentiable))

    def _new_state(self, group, param):
        names = ["square_avg"] + ["momentum_buffer"] * (group["momentum"] > 0) + ["grad_avg"] * bool(group["centered"])
        return {name: zeros_like(param) for name in names}

    def _update(self, group, step, state):
        alpha, momentum, decay, centered = group["alpha"], group["momentum"], group["weight_decay"], group["centered"]
        names, op = ["square_avg"], "_rmsprop"
        if centered:
            names.append("grad_avg")
            op += "_centered"
        if momentum > 0:
            names.append("momentum_buffer")
            op += "_momentum"
        return Update(op + "_step_", tuple(names), (group["lr"], alpha, 1 - alpha, group["eps"], momentum, decay),
                      (("decays", decay != 0), ("maximize", group["maximize"])))
