"""Optimizers and learning-rate schedules: PyTorch's `torch.optim`."""
import importlib as _importlib

from .adam import Adam
from .adamw import AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["Adam", "AdamW", "Optimizer", "SGD", "lr_scheduler"]


def __getattr__(name: str):
    if name == "lr_scheduler":                  # read when first asked for: many programs have no schedule
        return _importlib.import_module(".lr_scheduler", __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
