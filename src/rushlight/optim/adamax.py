"""Adamax."""
from __future__ import annotations

from .optimizer import check_lr
from .per_element import PerElementOptimizer, Update, check_betas, check_not_negative, zeros_like

__all__ = ["Adamax"]


class Adamax(PerElementOptimizer):
    """Adam with the largest past gradient in place of the root mean square."""

    _group_defaults = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False) -> None:
        check_lr(lr, False, capturable)
        check_not_negative(eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def _new_state(self, group, param):
        return {"exp_avg": zeros_like(param), "exp_inf": zeros_like(param)}

    def _update(self, group, step, state):
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        return Update("_adamax_step_", ("exp_avg", "exp_inf"), (1 - beta1, beta2, group["lr"] / (1 - beta1 ** step), group["eps"], decay),
                      (("decays", decay != 0), ("maximize", group["maximize"])))
