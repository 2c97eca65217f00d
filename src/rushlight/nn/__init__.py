"""Layers, losses, initialisation: PyTorch's `torch.nn`."""
from . import functional, init, modules, parameter, utils
from .modules import *  # noqa: F403
from .modules import __all__ as _module_names
from .parameter import Buffer, Parameter

__all__ = [*_module_names, "Buffer", "Parameter", "functional", "init", "modules", "parameter", "utils"]
