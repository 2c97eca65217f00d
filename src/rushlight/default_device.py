"""`with torch.device("meta"):` and `set_default_device`: a mode that gives factories their device."""
from __future__ import annotations

from . import _C


class DeviceMode:
    """Calls that could name a device and do not get this one."""

    def __init__(self, device): self.device = device

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        op = getattr(function, "op", None)
        if op is not None and kwargs.get("device") is None and _makes(op.definition): kwargs["device"] = self.device
        return function(*args, **kwargs)


def _makes(definition):
    """Factories: they name a device and take no tensor, from which it would come."""
    return "device" in definition.params and not any(p.is_tensor for p in definition.params.values())


_entered: list = []
_default = None


def enter(device):
    _entered.append(DeviceMode(device))
    _C.push_mode(_entered[-1])
    return device


def leave():
    _C.pop_mode()
    _entered.pop()


def current():
    if _entered: return _entered[-1].device
    return _default.device if _default is not None else _C.device("cpu")


def set_default(device):
    global _default
    if _default is not None:
        _C.pop_mode()
        _default = None
    if device is None or _C.device(device).type == "cpu": return
    _default = DeviceMode(_C.device(device))
    _C.push_mode(_default)
