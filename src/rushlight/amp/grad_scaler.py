"""GradScaler: multiplies the loss so that small gradients survive float16, and divides the gradients again before the optimizer steps."""
from __future__ import annotations

import inspect
from collections import defaultdict
from enum import Enum
from typing import Any

import rushlight as rl
from rushlight import Tensor

__all__ = ["OptState", "GradScaler"]


class OptState(Enum):
    """How far an optimizer is in the present iteration."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


def _fresh_state() -> dict[str, Any]:
    return {"stage": OptState.READY, "found_inf_per_device": {}}


class GradScaler:
    """`scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()`. A step whose gradients have an inf or NaN is left out and the
    scale shrinks; after `growth_interval` good steps in a row it grows. `enabled=False` passes everything through."""

    def __init__(self, device: str = "cuda", init_scale: float = 2.0 ** 16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            from .._C import warn
            warn("torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.")
            self._enabled = False
        if self._enabled:
            if growth_factor <= 1.0:
                raise AssertionError("The growth factor must be > 1.0.")
            if backoff_factor >= 1.0:
                raise AssertionError("The backoff factor must be < 1.0.")
            self._init_scale, self._scale = init_scale, None
            self._growth_factor, self._backoff_factor, self._growth_interval = growth_factor, backoff_factor, growth_interval
            self._init_growth_tracker = 0
            self._growth_tracker: int = 0
            self._per_optimizer_states: defaultdict = defaultdict(_fresh_state)

    def _current_scale(self) -> Tensor:
        if self._scale is None:
            self._scale = rl.full((), self._init_scale, dtype=rl.float32)
        return self._scale

    def scale(self, outputs):
        """The outputs (a tensor, or tensors in lists) times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._current_scale().to(outputs.device)
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(self.scale(value) for value in outputs)
        if hasattr(outputs, "__iter__"):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, now: before clipping them, say."""
        if not self._enabled:
            return
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        if self._scale is None:
            raise AssertionError("Attempted unscale_ but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) "
                                 "earlier in the iteration.")
        state["found_inf_per_device"] = self._unscale_grads_(optimizer, 1.0 / self._scale.item(), allow_fp16=False)
        state["stage"] = OptState.UNSCALED

    def _unscale_grads_(self, optimizer, inverse: float, allow_fp16: bool) -> dict:
        found = None                     # stays so without any gradient: then nothing was checked
        with rl.no_grad():
            for group in optimizer.param_groups:
                for param in group["params"]:
                    if param.grad is None:
                        continue
                    if param.grad.dtype is rl.float16 and not allow_fp16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    if found is None:
                        found = rl.zeros((), dtype=rl.float32)
                    if not rl.isfinite(param.grad).all():
                        found.fill_(1.0)
                    param.grad.mul_(inverse)
        return {} if found is None else {rl.device("cpu"): found}

    def step(self, optimizer, *args, **kwargs):
        """Unscale if that was not done yet, and step unless a gradient is inf or NaN."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        if self._scale is None:
            raise AssertionError("Attempted step but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) earlier "
                                 "in the iteration.")
        state = self._per_optimizer_states[id(optimizer)]
        if state["stage"] is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        result = None
        if getattr(optimizer, "_step_supports_amp_scaling", False) and "grad_scaler" in inspect.signature(optimizer.step).parameters:
            result = optimizer.step(*args, **kwargs, grad_scaler=self)
        else:
            if state["stage"] is OptState.READY:
                self.unscale_(optimizer)
            if not state["found_inf_per_device"]:
                raise AssertionError("No inf checks were recorded for this optimizer.")
            if not any(found.item() for found in state["found_inf_per_device"].values()):
                result = optimizer.step(*args, **kwargs)
        state["stage"] = OptState.STEPPED
        return result

    def update(self, new_scale=None) -> None:
        """Adjust the scale by what happened in this iteration, or set it."""
        if not self._enabled:
            return
        if self._scale is None:
            raise AssertionError("Attempted update but _scale is None.  This may indicate your script did not use scaler.scale(loss or outputs) earlier "
                                 "in the iteration.")
        scale = self._scale
        if new_scale is not None:
            scale.fill_(new_scale.item() if isinstance(new_scale, Tensor) else new_scale)
        else:
            found = [value for state in self._per_optimizer_states.values() for value in state["found_inf_per_device"].values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update.")
            if any(value.item() for value in found):
                scale.mul_(self._backoff_factor)
                self._growth_tracker = 0
            else:
                self._growth_tracker += 1
                if self._growth_tracker == self._growth_interval:
                    scale.mul_(self._growth_factor)
                    self._growth_tracker = 0
        self._per_optimizer_states = defaultdict(_fresh_state)

    def is_enabled(self) -> bool: return self._enabled
    def get_scale(self) -> float: return (self._init_scale if self._scale is None else self._scale.item()) if self._enabled else 1.0
    def get_growth_factor(self) -> float: return self._growth_factor
    def set_growth_factor(self, new_factor: float) -> None: self._growth_factor = new_factor
    def get_backoff_factor(self) -> float: return self._backoff_factor
    def set_backoff_factor(self, new_factor: float) -> None: self._backoff_factor = new_factor
    def get_growth_interval(self) -> int: return self._growth_interval
    def set_growth_interval(self, new_interval: int) -> None: self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        if not self._enabled:
            return {}
        return {"scale": self.get_scale(), "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
                "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler.")
        self._init_scale = state_dict["scale"]
        if self._scale is not None:
            self._scale.fill_(state_dict["scale"])
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval, self._growth_tracker = state_dict["growth_interval"], state_dict["_growth_tracker"]

    def _found_inf_per_device(self, optimizer):
        return self._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
