"""Helpers around the tensors: data loading, hooks. Each part is read when it is first used: most programs need one of them."""
import importlib as _importlib

from .names import typename

__all__ = ["data", "hooks", "swap_tensors", "typename"]


def __getattr__(name: str):
    if name in ("data", "hooks", "canvas", "names", "checkpoint", "model_zoo", "dlpack", "_pytree", "_python_dispatch", "_contextlib", "tensorboard",
                "cpp_extension"):
        return _importlib.import_module("." + name, __name__)
    if name == "swap_tensors":
        from .swapping import swap_tensors
        return swap_tensors
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
