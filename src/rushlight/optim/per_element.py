"""What the optimizers share whose update is one formula for each element.

A subclass says which tensors it keeps (`_new_state`), and for a group and a parameter's state which operator of ops/optimizer.py updates it and with
which numbers (`_update`). Parameters with the same numbers, nearly always all of them, are one launch. With `differentiable=True` the operator's own
body runs on the real tensors instead, recorded.
"""
from __future__ import annotations

from typing import Any, NamedTuple

import rushlight as rl
from rushlight import Tensor, registry

from .optimizer import Optimizer, StepCounters, is_sparse, number, refuse_sparse, run_update


class Update(NamedTuple):
    op: str                         # of ops/optimizer.py
    state: tuple[str, ...]          # the kept tensors, in the operator's order
    scalars: tuple                  # change from step to step
    choices: tuple                  # (name, value) pairs that choose the formula


def _real(tensor: Tensor) -> Tensor:
    """A complex tensor as pairs of reals: the formulas treat both parts alike."""
    return rl.view_as_real(tensor) if tensor.is_complex() else tensor


class PerElementOptimizer(Optimizer):
    """Base of optimizers that update each element by a formula of its gradient and of what was kept for it."""

    _group_defaults: dict[str, Any] = {}            # options that older files lack

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._group_defaults.items():
                group.setdefault(name, value)
            for param in group["params"]:
                own = self.state.get(param)
                for name in ("step", "eta", "mu", "mu_product"):
                    if own and name in own and not isinstance(own[name], Tensor):       # files of old keep Python numbers
                        own[name] = rl.tensor(float(own[name]), dtype=rl.float32)

    def _new_state(self, group: dict, param: Tensor) -> dict[str, Tensor]:
        raise NotImplementedError

    def _update(self, group: dict, step, state: dict) -> Update:
        raise NotImplementedError

    def _start(self, group: dict, params: list[Tensor]) -> None:
        new = [param for param in params if not self.state.get(param)]
        if new:
            counters = self.__dict__.setdefault("_counters", StepCounters())
            for param, step in zip(new, counters.start(len(new))):
                self.state[param].update(step=step, **self._new_state(group, param))

    def step(self, closure=None):
        loss = self._loss_of(closure)
        for group in self.param_groups:
            params = [param for param in group["params"] if param.grad is not None]
            if not params:
                continue
            if type(self)._sparse_step is PerElementOptimizer._sparse_step:
                refuse_sparse(params, f"{type(self).__name__} does not support sparse gradients")
            with rl.no_grad():
                self._start(group, params)
            if group.get("differentiable"):
                for param in params:
                    self._recorded_step(group, param)
            else:
                with rl.no_grad():
                    self._fused_step(group, params)
        return loss

    def _fused_step(self, group: dict, params: list[Tensor]) -> None:
        states = [self.state[param] for param in params]
        steps = [state["step"] for state in states]
        self.__dict__.setdefault("_counters", StepCounters()).advance(steps)
        plain = {name: number(value) if isinstance(value, Tensor) else tuple(number(v) for v in value) if isinstance(value, (tuple, list)) and name != "params" else value
                 for name, value in group.items()}
        batches: dict[Update, list] = {}
        for param, state, step in zip(params, states, steps):
            if is_sparse(param.grad):
                self._sparse_step(plain, param, param.grad, step.item(), state)
                continue
            update = self._update(plain, step.item(), state)
            row = (param, param.grad, *(state[name] for name in update.state))
            batches.setdefault(update, []).append(tuple(map(_real, row)) if param.is_complex() else row)
        for update, rows in batches.items():
            run_update(update.op, [list(column) for column in zip(*rows)], update.scalars, **dict(update.choices))

    def _sparse_step(self, group: dict, param: Tensor, gradient: Tensor, step: float, state: dict) -> None:
        """The update by a sparse gradient; optimizers that have none refuse it."""
        raise NotImplementedError(f"{type(self).__name__}: sparse gradients")

    def _recorded_step(self, group: dict, param: Tensor) -> None:
        state = self.state[param]
        state["step"] = state["step"] + 1
        update = self._update(group, state["step"], state)
        body = registry.find(update.op).body
        new, *kept = body(_real(param), _real(param.grad), *(_real(state[name]) for name in update.state), *update.scalars, **dict(update.choices))
        back = rl.view_as_complex if param.is_complex() else lambda value: value
        param.copy_(back(new))
        for name, value in zip(update.state, kept):
            state[name] = back(value)


def zeros_like(param: Tensor) -> Tensor:
    return rl.zeros_like(param, memory_format=rl.preserve_format)


def check_betas(betas) -> None:
    for index, beta in enumerate(betas):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")


def check_not_negative(**options) -> None:
    """`eps=1e-8` -> torch's error for a negative epsilon; other names are named as they are."""
    for name, value in options.items():
        if not 0.0 <= value:
            raise ValueError(f"Invalid {'epsilon' if name == 'eps' else name} value: {value}")


def square_root(value):
    """Of a number or of a tensor."""
    return value.sqrt() if isinstance(value, Tensor) else value ** 0.5
