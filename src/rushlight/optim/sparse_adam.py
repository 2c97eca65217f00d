"""SparseAdam."""
from __future__ import annotations

from .optimizer import Optimizer, check_lr
from .per_element import check_betas

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam for sparse gradients, touching only the rows that have one. Gradients here are dense, so its step raises, as torch's does for such."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, maximize: bool = False) -> None:
        check_lr(lr, False, False)
        if not 0.0 < lr:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not 0.0 < eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        check_betas(betas)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))
        complex_params = [[g, i] for g, group in enumerate(self.param_groups) for i, param in enumerate(group["params"]) if param.is_complex()]
        if complex_params:
            raise ValueError(f"Complex params at indices {complex_params}: SparseAdam does not support complex parameters")

    def step(self, closure=None):
        loss = self._loss_of(closure)
        for group in self.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")
        return loss
