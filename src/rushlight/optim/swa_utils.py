"""Averages of weights: stochastic weight averaging and exponential moving averages."""
from __future__ import annotations

import math
from copy import deepcopy

import rushlight as rl
from rushlight import Tensor
from rushlight.nn import Module

from .lr_scheduler import LRScheduler

__all__ = ["AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn", "get_swa_avg_fn"]


def get_ema_multi_avg_fn(decay: float = 0.999):
    """Averages that forget: `average * decay + new * (1 - decay)`, over lists."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    def update(averages, values, _):
        with rl.no_grad():
            for average, value in zip(averages, values):
                if average.is_floating_point() or average.is_complex():
                    average.lerp_(value.to(average.dtype), 1 - decay)
                else:
                    average.copy_(average * decay + value * (1 - decay))
    return update


def get_swa_multi_avg_fn():
    """Equal averages, over lists."""
    def update(averages, values, count):
        with rl.no_grad():
            for average, value in zip(averages, values):
                if average.is_floating_point() or average.is_complex():
                    average.lerp_(value.to(average.dtype), 1 / (float(count) + 1))
                else:
                    average.add_((value - average) / (count + 1))
    return update


def get_ema_avg_fn(decay: float = 0.999):
    """An average that forgets, of one tensor."""
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")

    def average(old, new, count):
        with rl.no_grad():
            return decay * old + (1 - decay) * new
    return average


def get_swa_avg_fn():
    """An equal average, of one tensor."""
    def average(old, new, count):
        with rl.no_grad():
            return old + (new - old) / (count + 1)
    return average


class AveragedModel(Module):
    """A copy of a model whose parameters are an average of the model's: call `update_parameters(model)` after each step."""

    n_averaged: Tensor

    def __init__(self, model: Module, device=None, avg_fn=None, multi_avg_fn=None, use_buffers: bool = False) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", rl.tensor(0, dtype=rl.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Let the model's present parameters join the average."""
        def tensors(module):
            return [*module.parameters(), *(module.buffers() if self.use_buffers else ())]

        pairs = [(average.detach(), value.detach().to(average.device)) for average, value in zip(tensors(self.module), tensors(model))]
        if self.n_averaged == 0:
            for average, value in pairs:
                average.copy_(value)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn([a for a, _ in pairs], [v for _, v in pairs], self.n_averaged)
        else:
            mean = self.avg_fn or get_swa_avg_fn()        # one by one: buffers may be integers, whose mean is rounded when it is written
            for average, value in pairs:
                average.copy_(mean(average, value, self.n_averaged.to(average.device)))
        if not self.use_buffers:
            for average, value in zip(self.module.buffers(), model.buffers()):
                average.detach().copy_(value.detach())
        self.n_averaged += 1


def update_bn(loader, model: Module, device=None) -> None:
    """Let every batch-norm layer's running statistics be those of one pass over the loader."""
    from rushlight.nn.modules.batchnorm import _BatchNorm
    with rl.no_grad():
        momenta = {}
        for module in model.modules():
            if isinstance(module, _BatchNorm):
                module.reset_running_stats()
                momenta[module] = module.momentum
        if not momenta:
            return
        was_training = model.training
        model.train()
        for module in momenta:
            module.momentum = None                  # a plain average over all batches
        for batch in loader:
            batch = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(batch.to(device) if device is not None else batch)
        for module, momentum in momenta.items():
            module.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """From the present learning rate to a constant one (`swa_lr`) over `anneal_epochs` epochs."""

    def __init__(self, optimizer, swa_lr, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        rates = swa_lr if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        if len(rates) != len(optimizer.param_groups):
            raise ValueError(f"Expected len(swa_lr) to be equal to len(optimizer.param_groups) but got {len(rates)} and {len(optimizer.param_groups)} instead")
        for group, rate in zip(optimizer.param_groups, rates):
            group["swa_lr"] = rate
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        # the rate it started from follows from the present one: only the present one is kept
        start = [group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before) for group in self.optimizer.param_groups]
        return [group["swa_lr"] * now + lr * (1 - now) for group, lr in zip(self.optimizer.param_groups, start)]
