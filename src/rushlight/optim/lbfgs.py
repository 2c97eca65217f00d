"""L-BFGS: Newton's method with curvature from the last few steps, with an optional line search for the strong Wolfe conditions."""
from __future__ import annotations

import math
from typing import NamedTuple

import rushlight as rl
from rushlight import Tensor

from .optimizer import Optimizer, check_lr, number

__all__ = ["LBFGS"]


class _Point(NamedTuple):
    """What is known of the loss at distance `t` along the direction."""
    t: float
    loss: float
    gradient: Tensor
    slope: float


def _cubic_minimum(a: _Point, b: _Point, bounds: tuple[float, float] | None = None) -> float:
    """Where the cubic through two points and their slopes is least, held to the bounds; their middle if it has no minimum."""
    low, high = bounds if bounds is not None else (min(a.t, b.t), max(a.t, b.t))
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 ** 2 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2.0
    d2 = math.sqrt(square)
    if a.t <= b.t:
        best = b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2))
    else:
        best = a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2 * d2))
    return min(max(best, low), high)


def _strong_wolfe(evaluate, t: float, direction: Tensor, start: _Point, c1: float = 1e-4, c2: float = 0.9, tolerance_change: float = 1e-9,
                  max_steps: int = 25) -> tuple[_Point, int]:
    """A point along the direction that lowers the loss enough and flattens it enough, and how often the loss was evaluated."""
    size = direction.abs().max().item()
    new, evaluations, steps = evaluate(t), 1, 0
    before, found = start, False
    bracket: list[_Point] = []

    def too_high(point: _Point) -> bool:
        return point.loss > start.loss + c1 * point.t * start.slope

    while steps < max_steps:                            # go on until a minimum lies between two points
        if too_high(new) or (steps > 1 and new.loss >= before.loss):
            bracket = [before, new]
            break
        if abs(new.slope) <= -c2 * start.slope:
            bracket, found = [new], True
            break
        if new.slope >= 0:
            bracket = [before, new]
            break
        further = _cubic_minimum(before, new, (new.t + 0.01 * (new.t - before.t), new.t * 10))
        before, new = new, evaluate(further)
        evaluations += 1
        steps += 1
    if steps == max_steps:
        bracket = [start._replace(t=0.0), new]

    low, high = (0, 1) if bracket[0].loss <= bracket[-1].loss else (1, 0)
    stuck = False
    while not found and steps < max_steps:              # narrow the bracket
        left, right = min(p.t for p in bracket), max(p.t for p in bracket)
        if (right - left) * size < tolerance_change:
            break
        t = _cubic_minimum(bracket[0], bracket[1])
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:           # too near an end: step away from it, at the second time at once
            if stuck or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = evaluate(t)
        evaluations += 1
        steps += 1
        if too_high(new) or new.loss >= bracket[low].loss:
            bracket[high] = new
            low, high = (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)
        else:
            if abs(new.slope) <= -c2 * start.slope:
                found = True
            elif new.slope * (bracket[high].t - bracket[low].t) >= 0:
                bracket[high] = bracket[low]
            bracket[low] = new
    return bracket[low if len(bracket) > 1 else 0], evaluations


class LBFGS(Optimizer):
    """`optimizer.step(closure)`, where closure clears the gradients, computes the loss and calls backward; it is called several times a step.

    One group of parameters only. Memory: `history_size` times two copies of them.
    """

    def __init__(self, params, lr=1, max_iter: int = 20, max_eval: int | None = None, tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9,
                 history_size: int = 100, line_search_fn: str | None = None) -> None:
        check_lr(lr, False, False)
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_iter * 5 // 4 if max_eval is None else max_eval, tolerance_grad=tolerance_grad,
                                      tolerance_change=tolerance_change, history_size=history_size, line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # ------------------------------------------------------------------------------------------ parameters as one vector
    def _flat_gradient(self) -> Tensor:
        parts = []
        for param in self._params:
            part = param.new_zeros(param.numel()) if param.grad is None else param.grad.to_dense().reshape(-1)
            parts.append(rl.view_as_real(part).reshape(-1) if part.is_complex() else part)
        return rl.cat(parts)

    def _move(self, t: float, direction: Tensor) -> None:
        start = 0
        for param in self._params:
            real = rl.view_as_real(param) if param.is_complex() else param
            count = real.numel()
            real.add_(direction[start:start + count].view_as(real), alpha=t)
            start += count

    def _direction(self, gradient: Tensor, state: dict, history_size: int) -> Tensor:
        """The quasi-Newton direction, after the last step has joined the history."""
        changes, steps, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = gradient.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        product = change.dot(step).item()
        if product > 1e-10:                                         # otherwise curvature would not be positive
            if len(changes) == history_size:
                for kept in (changes, steps, inverses):
                    kept.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / product)
            state["H_diag"] = product / change.dot(change).item()
        q = gradient.neg()
        shares = [0.0] * len(changes)
        for i in reversed(range(len(changes))):
            shares[i] = steps[i].dot(q).item() * inverses[i]
            q.add_(changes[i], alpha=-shares[i])
        q.mul_(state["H_diag"])
        for i in range(len(changes)):
            q.add_(steps[i], alpha=shares[i] - changes[i].dot(q).item() * inverses[i])
        return q

    def step(self, closure):
        with rl.no_grad():
            return self._minimise(closure)

    def _minimise(self, closure):
        def losses():
            with rl.enable_grad():
                return closure()

        group = self.param_groups[0]
        lr, tolerance_grad, tolerance_change, search = number(group["lr"]), group["tolerance_grad"], group["tolerance_change"], group["line_search_fn"]
        state = self.state[self._params[0]]                         # one state, kept with the first parameter
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = losses()
        loss, evaluations, iterations = float(first_loss), 1, 0
        state["func_evals"] += 1
        gradient = self._flat_gradient()
        flat = gradient.abs().max().item() <= tolerance_grad
        if flat:
            return first_loss
        while iterations < group["max_iter"]:
            iterations += 1
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                direction = gradient.neg()
                state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            else:
                direction = self._direction(gradient, state, group["history_size"])
            before = loss
            state.update(d=direction, prev_flat_grad=gradient.clone(), prev_loss=loss)
            t = min(1.0, 1.0 / gradient.abs().sum().item()) * lr if state["n_iter"] == 1 else lr
            state["t"] = t                                          # kept even if the step is then not taken, as torch has it
            slope = gradient.dot(direction).item()
            if slope > -tolerance_change:
                break
            used = 0
            if search is None:
                self._move(t, direction)
                if iterations != group["max_iter"]:                 # the loss after the last step is nobody's business
                    loss = float(losses())
                    gradient = self._flat_gradient()
                    flat = gradient.abs().max().item() <= tolerance_grad
                    used = 1
            elif search == "strong_wolfe":
                origin = [param.clone(memory_format=rl.contiguous_format) for param in self._params]

                def evaluate(t: float, origin=origin, direction=direction) -> _Point:
                    self._move(t, direction)
                    value, here = float(losses()), self._flat_gradient()
                    for param, saved in zip(self._params, origin):
                        param.copy_(saved)
                    return _Point(t, value, here, here.dot(direction).item())

                best, used = _strong_wolfe(evaluate, t, direction, _Point(0.0, loss, gradient, slope), tolerance_change=1e-9)
                t, loss, gradient = best.t, best.loss, best.gradient
                self._move(t, direction)
                flat = gradient.abs().max().item() <= tolerance_grad
            else:
                raise RuntimeError("only 'strong_wolfe' is supported")
            state["t"] = t
            evaluations += used
            state["func_evals"] += used
            if (iterations == group["max_iter"] or evaluations >= group["max_eval"] or flat or direction.mul(t).abs().max().item() <= tolerance_change
                    or abs(loss - before) < tolerance_change):
                break
        return first_loss
