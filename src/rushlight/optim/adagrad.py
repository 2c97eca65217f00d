"""Adagrad."""
from __future__ import annotations

import rushlight as rl
from rushlight import Tensor

from .optimizer import check_flags, check_lr
from .per_element import PerElementOptimizer, Update

__all__ = ["Adagrad"]


class Adagrad(PerElementOptimizer):
    """Gradients over the root of the sum of all their squares: steps shrink where gradients were large."""

    _group_defaults = {"foreach": None, "maximize": False, "differentiable": False, "fused": None}

    def __init__(self, params, lr=1e-2, lr_decay: float = 0, weight_decay: float = 0, initial_accumulator_value: float = 0, eps: float = 1e-10,
                 foreach: bool | None = None, *, maximize: bool = False, differentiable: bool = False, fused: bool | None = None) -> None:
        check_lr(lr, False, False)
        for name, value in (("lr_decay", lr_decay), ("weight_decay", weight_decay), ("initial_accumulator_value", initial_accumulator_value), ("epsilon", eps)):
            if not 0.0 <= value:
                raise ValueError(f"Invalid {name} value: {value}")
        check_flags(fused, foreach, differentiable)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay, initial_accumulator_value=initial_accumulator_value,
                                      foreach=foreach, maximize=maximize, differentiable=differentiable, fused=fused))
        with rl.no_grad():                          # unlike the others, state is there before the first step
            for group in self.param_groups:
                self._start(group, group["params"])

    def _new_state(self, group, param):
        start = group["initial_accumulator_value"]
        return {"sum": rl.full_like(param, complex(start, start) if param.is_complex() else start, memory_format=rl.preserve_format)}

    def share_memory(self) -> None:
        """Let other processes see the state."""
        for state in self.state.values():
            for value in state.values():
                if isinstance(value, Tensor):
                    value.share_memory_()

    def _update(self, group, step, state):
        decay = group["weight_decay"]
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        return Update("_adagrad_step_", ("sum",), (rate, group["eps"], decay), (("decays", decay != 0), ("maximize", group["maximize"])))

    def _sparse_step(self, group, param, gradient, step, state):
        """Only what has a gradient moves, and only its sum of squares grows."""
        from ..sparse.tensor import sparse_like
        if group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        gradient = (-gradient if group["maximize"] else gradient).coalesce()
        squares = state["sum"].add_(gradient.pow(2)).sparse_mask(gradient)
        rate = group["lr"] / (1 + (step - 1) * group["lr_decay"])
        param.add_(sparse_like(gradient, gradient.values() / (squares.values().sqrt() + group["eps"])), alpha=-rate)
