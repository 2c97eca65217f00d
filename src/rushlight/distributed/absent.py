"""Names of torch.distributed that programs import before they know whether they need them. Using one raises."""
from __future__ import annotations


def absent_class(name: str, module: str) -> type:
    """A class that no object is of and that cannot be made."""
    def refuse(cls, *args, **kwargs):
        raise RuntimeError(f"{module}.{name}: distributed training is not available in this version of Rushlight")
    return type(name, (), {"__new__": refuse, "__module__": module, "__doc__": "Not available: distributed training is not there yet."})


def absent_names(module: str, *names: str) -> dict[str, type]:
    return {name: absent_class(name, module) for name in names}
