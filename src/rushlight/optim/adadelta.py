"""Adadelta."""
from __future__ import annotations

from .optimizer import check_lr
from .per_element import PerElementOptimizer, Update, check_not_negative, zeros_like

__all__ = ["Adadelta"]


class Adadelta(PerElementOptimizer):
    """Steps the size of past steps over that of past gradients, so that the learning rate hardly matters."""

    _group_defaults = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params, lr=1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0, foreach: bool | None = None, *,
                 capturable: bool = False, maximize: bool = False, differentiable: bool = False) -> None:
        check_lr(lr, False, capturable)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_not_negative(eps=eps, weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize, capturable=capturable, foreach=foreach,
                                      differentiable=differentiable))

    def _new_state(self, group, param):
        return {"square_avg": zeros_like(param), "acc_delta": zeros_like(param)}

    def _update(self, group, step, state):
        decay, rho = group["weight_decay"], group["rho"]
        return Update("_adadelta_step_", ("square_avg", "acc_delta"), (group["lr"], rho, 1 - rho, group["eps"], decay),
                      (("decays", decay != 0), ("maximize", group["maximize"])))
