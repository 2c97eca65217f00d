"""Optimizers and learning-rate schedules: PyTorch's `torch.optim`. The less common ones are read when first asked for."""
import importlib as _importlib

from .adam import Adam
from .adamw import AdamW
from .optimizer import Optimizer
from .sgd import SGD

_LAZY = {"ASGD": "asgd", "Adadelta": "adadelta", "Adafactor": "_adafactor", "Adagrad": "adagrad", "Adamax": "adamax", "LBFGS": "lbfgs", "Muon": "_muon",
         "NAdam": "nadam", "RAdam": "radam", "RMSprop": "rmsprop", "Rprop": "rprop", "SparseAdam": "sparse_adam"}
_LAZY_MODULES = ("lr_scheduler", "swa_utils", *_LAZY.values())

__all__ = ["Adam", "AdamW", "Optimizer", "SGD", "lr_scheduler", "swa_utils", *_LAZY]


def __getattr__(name: str):
    if name in _LAZY:
        return getattr(_importlib.import_module("." + _LAZY[name], __name__), name)
    if name in _LAZY_MODULES:
        return _importlib.import_module("." + name, __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
