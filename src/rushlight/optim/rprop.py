"""Rprop."""
from __future__ import annotations

import rushlight as rl

from .optimizer import check_lr, number
from .per_element import PerElementOptimizer, Update, zeros_like

__all__ = ["Rprop"]


class Rprop(PerElementOptimizer):
    """Resilient backpropagation: each element has a step of its own, which grows while its gradient keeps its sign. For full batches."""

    _group_defaults = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False) -> None:
        check_lr(lr, False, capturable)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, foreach=foreach, maximize=maximize, differentiable=differentiable,
                                      capturable=capturable))

    def _new_state(self, group, param):
        lr = number(group["lr"])
        size = rl.full_like(param, complex(lr, lr) if param.is_complex() else lr, memory_format=rl.preserve_format)
        return {"prev": zeros_like(param), "step_size": size}

    def _update(self, group, step, state):
        return Update("_rprop_step_", ("prev", "step_size"), (*group["etas"], *group["step_sizes"]), (("maximize", group["maximize"]),))
