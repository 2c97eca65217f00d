"""`torch.cuda.amp` and `torch.cpu.amp`: the names from before `torch.amp` took the device as an argument."""
from __future__ import annotations

import rushlight as rl

from .._C import warn
from . import GradScaler, autocast


def _deprecated(device: str, name: str) -> None:
    warn(f"`torch.{device}.amp.{name}(args...)` is deprecated. Please use `torch.amp.{name}('{device}', args...)` instead.", FutureWarning)


def classes_for(device: str, default) -> tuple[type, type]:
    """(autocast, GradScaler) of a device; `default` is what its autocast computes in."""
    class OlderAutocast(autocast):
        def __init__(self, enabled: bool = True, dtype: rl.dtype = default, cache_enabled: bool = True) -> None:
            _deprecated(device, "autocast")
            super().__init__(device, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    class OlderGradScaler(GradScaler):
        def __init__(self, init_scale: float = 2.0 ** 16, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True) -> None:
            _deprecated(device, "GradScaler")
            super().__init__(device, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    for cls, name in ((OlderAutocast, "autocast"), (OlderGradScaler, "GradScaler")):
        cls.__module__, cls.__name__, cls.__qualname__, cls.__doc__ = f"rushlight.{device}.amp", name, name, f"`torch.amp.{name}(\"{device}\", …)`."
    return OlderAutocast, OlderGradScaler
