"""torch.accelerator: the device besides the CPU, if there is one. There is none."""
from __future__ import annotations

from . import absent_device

globals().update(absent_device.names("accelerator", "no accelerator is available: Rushlight runs on the CPU"))


def current_accelerator(check_available: bool = False):
    """The accelerator's device: None."""
    return None


def is_available() -> bool:
    return False


def current_device_index() -> int:
    raise RuntimeError("Cannot access accelerator device when none is available.")


current_device_idx = set_device_index = set_device_idx = current_stream = set_stream = synchronize = lambda *args, **kwargs: current_device_index()
