"""SparseAdam."""
from __future__ import annotations

import math

import rushlight as rl

from .optimizer import Optimizer, check_lr, is_sparse, number
from .per_element import check_betas, zeros_like

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients (`nn.Embedding(sparse=True)`): only what has a gradient moves, and only its moments change."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, maximize: bool = False) -> None:
        check_lr(lr, False, False)
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))
        sparse_params = [i for group in self.param_groups for i, param in enumerate(group["params"]) if is_sparse(param)]
        if sparse_params:
            raise ValueError(f"Sparse params at indices {sparse_params}: SparseAdam requires dense parameter tensors")
        complex_params = [[g, i] for g, group in enumerate(self.param_groups) for i, param in enumerate(group["params"]) if param.is_complex()]
        if complex_params:
            raise ValueError(f"Complex params at indices {complex_params}: SparseAdam does not support complex parameters")

    def step(self, closure=None):
        loss = self._loss_of(closure)
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if not all(is_sparse(param.grad) for param in params):
                raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
            with rl.no_grad():
                for param in params:
                    self._update(group, param)
        return loss

    def _update(self, group: dict, param) -> None:
        from ..sparse.tensor import sparse_like
        state = self.state[param]
        if not state:
            state.update(step=0, exp_avg=zeros_like(param), exp_avg_sq=zeros_like(param))
        state["step"] += 1
        gradient = (-param.grad if group["maximize"] else param.grad).coalesce()
        if gradient._nnz() == 0:
            return
        beta1, beta2 = group["betas"]
        values = gradient.values()
        moved = lambda new: sparse_like(gradient, new)
        mean, square = (state[name].sparse_mask(gradient).values() for name in ("exp_avg", "exp_avg_sq"))
        mean_change, square_change = (values - mean) * (1 - beta1), (values * values - square) * (1 - beta2)
        state["exp_avg"].add_(moved(mean_change))
        state["exp_avg_sq"].add_(moved(square_change))
        size = number(group["lr"]) * math.sqrt(1 - beta2 ** state["step"]) / (1 - beta1 ** state["step"])
        param.add_(moved(-size * ((mean + mean_change) / ((square + square_change).sqrt() + group["eps"]))))
