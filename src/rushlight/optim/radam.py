"""RAdam."""
from __future__ import annotations

from .optimizer import check_lr
from .per_element import PerElementOptimizer, Update, check_betas, check_not_negative, square_root, zeros_like

__all__ = ["RAdam"]


class RAdam(PerElementOptimizer):
    """Adam that waits with dividing by the second moment until that is known well enough."""

    _group_defaults = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False, "decoupled_weight_decay": False}

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False) -> None:
        check_lr(lr, False, capturable)
        check_not_negative(eps=eps)
        check_betas(betas)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize, foreach=foreach, capturable=capturable,
                                      decoupled_weight_decay=decoupled_weight_decay, differentiable=differentiable))

    def _new_state(self, group, param):
        return {"exp_avg": zeros_like(param), "exp_avg_sq": zeros_like(param)}

    def _update(self, group, step, state):
        (beta1, beta2), lr, decay = group["betas"], group["lr"], group["weight_decay"]
        correction1, correction2 = 1 - beta1 ** step, 1 - beta2 ** step
        longest = 2 / (1 - beta2) - 1                                           # of the approximated moving average
        length = longest - 2 * step * beta2 ** step / correction2
        adaptive = float(length) > 5.0
        rectified = (square_root((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) * square_root(correction2)
                     if adaptive else 0.0)
        decoupled = group["decoupled_weight_decay"]
        return Update("_radam_step_", ("exp_avg", "exp_avg_sq"),
                      (1 - beta1, beta2, 1 - beta2, lr / correction1, rectified, group["eps"], 1 - lr * decay if decoupled else decay),
                      (("decoupled", decoupled), ("decays", decay != 0), ("maximize", group["maximize"]), ("adaptive", adaptive)))
