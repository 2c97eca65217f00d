"""Modules over several devices or processes. There is one device here, so DataParallel is the module itself; DistributedDataParallel is not there yet."""
from __future__ import annotations

from ..modules.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter"]


class DataParallel(Module):
    """Splits batches over devices. With one device (the CPU) it calls the module; its state_dict has torch's names (`module.weight`)."""

    def __init__(self, module: Module, device_ids=None, output_device=None, dim: int = 0) -> None:
        super().__init__()
        self.module, self.dim, self.device_ids = module, dim, []

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)


def data_parallel(module: Module, inputs, device_ids=None, output_device=None, dim: int = 0, module_kwargs=None):
    """The module of the inputs: there is one device."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


class DistributedDataParallel(Module):
    """Averages gradients over processes: not available yet."""

    def __init__(self, *args, **kwargs) -> None:
        raise RuntimeError("DistributedDataParallel: distributed training is not available in this version of Rushlight (torch.distributed.is_available() is False). "
                           "In one process the module needs no wrapper; nn.DataParallel passes calls through to it")


def _needs_devices(name: str, what: str):
    def call(*args, **kwargs):
        raise RuntimeError(f"nn.parallel.{name} {what} several devices, and there is one here, the CPU: call the module itself, or nn.DataParallel of it")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{name.capitalize()} {what} several devices: there is one, so this raises."
    return call


scatter = _needs_devices("scatter", "spreads a batch over")
replicate = _needs_devices("replicate", "copies a module to")
parallel_apply = _needs_devices("parallel_apply", "calls modules on")
gather = _needs_devices("gather", "collects results from")
