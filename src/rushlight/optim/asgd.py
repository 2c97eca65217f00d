"""ASGD: gradient descent and its average."""
from __future__ import annotations

import rushlight as rl
from rushlight import Tensor

from .optimizer import check_lr
from .per_element import PerElementOptimizer, Update, check_not_negative, zeros_like

__all__ = ["ASGD"]


class ASGD(PerElementOptimizer):
    """Gradient descent that also keeps (in its state, as `ax`) the average of the parameters from step `t0` on."""

    _group_defaults = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params, lr=1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False, capturable: bool = False) -> None:
        check_lr(lr, foreach, capturable)
        check_not_negative(weight_decay=weight_decay)
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, foreach=foreach, maximize=maximize,
                                      differentiable=differentiable, capturable=capturable))

    def _new_state(self, group, param):
        lr = group["lr"]
        return {"eta": lr.clone().detach() if isinstance(lr, Tensor) else rl.tensor(float(lr)), "mu": rl.ones(()), "ax": zeros_like(param)}

    def _update(self, group, step, state):
        """The update uses eta and mu as they stand; both are then set for the next step."""
        eta, mu = state["eta"], state["mu"]
        if not group["differentiable"]:
            eta, mu = eta.item(), mu.item()
        decay, lr, lambd = group["weight_decay"], group["lr"], group["lambd"]
        following = float(mu) == 1
        state["eta"] = _as_tensor(lr / (1 + lambd * lr * step) ** group["alpha"])
        state["mu"] = _as_tensor(1 / max(1.0, float(step) - group["t0"]))
        return Update("_asgd_step_", ("ax",), (1 - lambd * eta, eta, mu, decay),
                      (("decays", decay != 0), ("maximize", group["maximize"]), ("follows", following)))


def _as_tensor(value) -> Tensor:
    return value if isinstance(value, Tensor) else rl.tensor(value)
