"""NAdam."""
from __future__ import annotations

import rushlight as rl

from .optimizer import check_lr
from .per_element import PerElementOptimizer, Update, check_betas, check_not_negative, zeros_like

__all__ = ["NAdam"]


class NAdam(PerElementOptimizer):
    """Adam with Nesterov's momentum."""

    _group_defaults = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False, "decoupled_weight_decay": False}

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
                 decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False) -> None:
        check_lr(lr, False, capturable)
        check_not_negative(eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay, momentum_decay=momentum_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
                                      decoupled_weight_decay=decoupled_weight_decay, maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable))

    def _new_state(self, group, param):
        return {"mu_product": rl.ones((), dtype=rl.float32), "exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    def _update(self, group, step, state):
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        mu, mu_next = (beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1))
        product = state["mu_product"] = state["mu_product"] * mu
        if not group["differentiable"]:
            product = product.item()
        decoupled = group["decoupled_weight_decay"]
        return Update("_nadam_step_", ("exp_avg", "exp_avg_sq"),
                      (1 - beta1, beta2, 1 - beta2, 1 - beta2 ** step, group["eps"], lr * (1.0 - mu) / (1.0 - product),
                       lr * mu_next / (1.0 - product * mu_next), 1 - lr * decay if decoupled else decay),
                      (("decoupled", decoupled), ("decays", decay != 0), ("maximize", group["maximize"])))
