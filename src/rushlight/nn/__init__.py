"""Layers, losses, initialisation: PyTorch's `torch.nn`."""
from . import functional, init, modules, parameter, utils
from .modules import *  # noqa: F403
from .modules import __all__ as _module_names
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [*_module_names, "Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional", "init", "modules", "parameter", "utils"]


def __getattr__(name: str):
    if name in ("parallel", "attention", "recurrent", "common_types", "grad", "qat", "quantized", "intrinsic"):          # read when first asked for
        import importlib
        try:
            return importlib.import_module("." + name, __name__)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise
    if name == "factory_kwargs":
        from .modules.utils import factory_kwargs
        return factory_kwargs
    if name == "DataParallel":
        from .parallel import DataParallel
        return DataParallel
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
