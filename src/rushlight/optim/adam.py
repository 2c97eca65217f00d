"""Adam, and AdamW, which differs only in where the weight decay goes."""
from __future__ import annotations

import rushlight as rl
from rushlight import Tensor

from .optimizer import Optimizer, StepCounters, check_flags, check_lr, number, refuse_sparse, run_update

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adaptive moments: each parameter moves by its mean gradient over the root of its mean squared gradient."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, decoupled_weight_decay: bool = False) -> None:
        check_lr(lr, foreach, capturable)
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for index, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        if not 0.0 <= weight_decay:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if isinstance(betas[0], Tensor) != isinstance(betas[1], Tensor):
            raise ValueError("betas must be either both floats or both Tensors")
        for index, beta in enumerate(betas):
            if isinstance(beta, Tensor):
                if foreach and not capturable:
                    raise ValueError(f"betas[{index}] as a Tensor is not supported for capturable=False and foreach=True")
                if beta.numel() != 1:
                    raise ValueError(f"Tensor betas[{index}] must be 1-element")
        check_flags(fused, foreach, differentiable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad, maximize=maximize,
                                      foreach=foreach, capturable=capturable, differentiable=differentiable, fused=fused,
                                      decoupled_weight_decay=decoupled_weight_decay))

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in (("amsgrad", False), ("maximize", False), ("foreach", None), ("capturable", False),
                                  ("differentiable", False), ("fused", None), ("decoupled_weight_decay", False)):
                group.setdefault(name, default)
            for param in group["params"]:
                own = self.state.get(param)
                if own and not isinstance(own.get("step"), Tensor):     # files of old keep a Python number
                    own["step"] = rl.tensor(float(own["step"]), dtype=rl.float32)

    def step(self, closure=None):
        loss = self._loss_of(closure)
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if not params:
                continue
            refuse_sparse(params, "Adam does not support sparse gradients, please consider SparseAdam instead")
            with rl.no_grad():
                self._start_state(group, params)
            states = [self.state[param] for param in params]
            if group["differentiable"]:
                for param, state in zip(params, states):
                    if param.is_complex():
                        raise RuntimeError("Adam with differentiable=True on complex parameters is not supported: optimize torch.view_as_real(param) instead")
                    _differentiable_step(group, param, param.grad, state)
            else:
                with rl.no_grad():
                    self._fused_step(group, params, states)
        return loss

    def _start_state(self, group: dict, params: list) -> None:
        new = [param for param in params if not self.state.get(param)]
        if not new:
            return
        counters = self.__dict__.setdefault("_counters", StepCounters())
        for param, step in zip(new, counters.start(len(new))):
            state = self.state[param]
            state["step"] = step
            state["exp_avg"] = rl.zeros_like(param, memory_format=rl.preserve_format)
            state["exp_avg_sq"] = rl.zeros_like(param, memory_format=rl.preserve_format)
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = rl.zeros_like(param, memory_format=rl.preserve_format)

    def _fused_step(self, group: dict, params: list, states: list) -> None:
        steps = [state["step"] for state in states]
        self.__dict__.setdefault("_counters", StepCounters()).advance(steps)
        lr, decay, eps = number(group["lr"]), number(group["weight_decay"]), group["eps"]
        beta1, beta2 = (number(beta) for beta in group["betas"])
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
        op = "_adam_amsgrad_step_" if group["amsgrad"] else "_adam_step_"
        decoupled = group["decoupled_weight_decay"]
        # Parameters that joined late have other bias corrections: one launch for each number of steps, nearly always one in all.
        batches: dict[float, list] = {}
        for param, state, step in zip(params, states, steps):
            row = (param, param.grad, *(state[name] for name in names))
            batches.setdefault(step.item(), []).append(tuple(map(rl.view_as_real, row)) if param.is_complex() else row)
        for step, rows in batches.items():
            step_size = lr / (1 - beta1 ** step)
            root = (1 - beta2 ** step) ** 0.5
            # Decoupled, the parameter shrinks by a factor; otherwise the decay joins the gradient.
            shrink = 1 - lr * decay if decoupled else decay
            run_update(op, [list(column) for column in zip(*rows)], (1 - beta1, beta2, 1 - beta2, step_size, root, eps, shrink),
                       decoupled=decoupled, decays=decay != 0, maximize=group["maximize"], mostly_new=1 - beta1 >= 0.5)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameters themselves instead of joining the gradient."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *,
                 maximize: bool = False, foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
                         differentiable=differentiable, fused=fused, decoupled_weight_decay=True)

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def _differentiable_step(group: dict, param: Tensor, gradient: Tensor, state: dict) -> None:
    """The same update written with recorded operations, for those who differentiate through their training."""
    beta1, beta2 = group["betas"]
    lr, decay = group["lr"], group["weight_decay"]
    if group["maximize"]:
        gradient = -gradient
    state["step"] = state["step"] + 1
    if decay != 0:
        if group["decoupled_weight_decay"]:
            param.mul_(1 - lr * decay)
        else:
            gradient = gradient + param * decay
    state["exp_avg"] = state["exp_avg"] + (gradient - state["exp_avg"]) * (1 - beta1)
    state["exp_avg_sq"] = state["exp_avg_sq"] * beta2 + gradient * gradient * (1 - beta2)
    second = state["exp_avg_sq"]
    if group["amsgrad"]:
        second = state["max_exp_avg_sq"] = rl.maximum(state["max_exp_avg_sq"], second)
    step = state["step"]
    denominator = (second / (1 - beta2 ** step)).sqrt() + group["eps"]
    param.sub_(lr / (1 - beta1 ** step) * state["exp_avg"] / denominator)
