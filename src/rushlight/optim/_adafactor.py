"""Adafactor: second moments of a matrix from the means of its rows and columns."""
from __future__ import annotations

import rushlight as rl
from rushlight import Tensor

from .optimizer import Optimizer, number, refuse_sparse

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Adam without its memory: a matrix keeps a row and a column of second moments; no first moments; steps relative to the parameter's size."""

    def __init__(self, params, lr=1e-2, beta2_decay: float = -0.8, eps=(None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 foreach: bool | None = None, maximize: bool = False) -> None:
        if isinstance(lr, Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not 0.0 <= lr:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if not beta2_decay <= 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and not 0.0 <= eps[0]:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if not 0.0 <= eps[1]:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if not 1.0 <= d:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay, foreach=foreach, maximize=maximize))

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            for param in group["params"]:
                own = self.state.get(param)
                if own and not isinstance(own.get("step"), Tensor):
                    own["step"] = rl.tensor(float(own["step"]), dtype=rl.float32)

    def step(self, closure=None):
        loss = self._loss_of(closure)
        with rl.no_grad():
            for group in self.param_groups:
                params = [param for param in group["params"] if param.grad is not None]
                refuse_sparse(params, "Adafactor does not support sparse gradients")
                for param in params:
                    self._step_one(group, param, self.state[param])
        return loss

    def _step_one(self, group: dict, param: Tensor, state: dict) -> None:
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        gradient = -param.grad if group["maximize"] else param.grad
        if not state:
            state["step"] = rl.tensor(0.0, dtype=rl.float32)
            if gradient.dim() > 1:
                row, column = list(gradient.shape), list(gradient.shape)
                row[-1], column[-2] = 1, 1
                state["row_var"], state["col_var"] = gradient.new_zeros(row), gradient.new_zeros(column)
            else:
                state["variance"] = rl.zeros_like(gradient, memory_format=rl.preserve_format)
        state["step"].add_(1)
        step, lr, (eps1, eps2), decay = state["step"].item(), number(group["lr"]), group["eps"], group["weight_decay"]
        eps1 = rl.finfo(param.dtype).eps if eps1 is None else eps1
        new = step ** group["beta2_decay"]                                        # the share of this gradient in the moments
        alpha = max(eps2, param.norm(2).item() / param.numel() ** 0.5) * min(lr, 1 / step ** 0.5)
        if decay != 0:
            param.mul_(1 - lr * decay)
        if gradient.dim() > 1:
            row, column = state["row_var"], state["col_var"]
            row.lerp_(gradient.norm(dim=-1, keepdim=True).square_().div_(gradient.size(-1)), new)
            column.lerp_(gradient.norm(dim=-2, keepdim=True).square_().div_(gradient.size(-2)), new)
            variance = (row @ column).div_(row.mean(dim=-2, keepdim=True).clamp_(min=eps1))
        else:
            state["variance"].lerp_(gradient.square(), new)
            variance = state["variance"].clone()
        update = variance.clamp_(min=eps1 * eps1).rsqrt_().mul_(gradient)
        clipping = max(1.0, update.norm(2).item() / (update.numel() ** 0.5 * group["d"]))
        param.add_(update, alpha=-alpha / clipping)
