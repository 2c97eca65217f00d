"""Modules over several devices or processes. There is one device here, so DataParallel is the module itself; DistributedDataParallel is not there yet."""
from __future__ import annotations

from ..modules.module import Module

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


class DataParallel(Module):
    """Splits batches over devices. With one device (the CPU) it calls the module."""

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
        raise RuntimeError("DistributedDataParallel: distributed training is not available in this version of Rushlight")
