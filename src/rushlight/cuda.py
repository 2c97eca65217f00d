"""What programs ask of CUDA before they use it. There is none here, and every answer says so."""
from __future__ import annotations

__all__ = ["is_available", "is_initialized", "device_count", "manual_seed", "manual_seed_all", "empty_cache", "synchronize",
           "current_device"]


def _unavailable():
    raise AssertionError("Torch not compiled with CUDA enabled")


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    return False


def device_count() -> int:
    return 0


def manual_seed(seed: int) -> None:
    """Nothing to seed."""


def manual_seed_all(seed: int) -> None:
    """Nothing to seed."""


def empty_cache() -> None:
    """Nothing is cached on a device."""


def current_device() -> int:
    _unavailable()


def synchronize(device=None) -> None:
    _unavailable()


def get_device_name(device=None) -> str:
    _unavailable()


def set_device(device) -> None:
    _unavailable()
