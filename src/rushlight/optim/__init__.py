"""Optimizers and learning-rate schedules: PyTorch's `torch.optim`. Programs walk over its names, so all are there from the start."""
from . import lr_scheduler
from ._adafactor import Adafactor
from ._muon import Muon
from .adadelta import Adadelta
from .adagrad import Adagrad
from .adam import Adam
from .adamax import Adamax
from .adamw import AdamW
from .asgd import ASGD
from .lbfgs import LBFGS
from .nadam import NAdam
from .optimizer import Optimizer
from .radam import RAdam
from .rmsprop import RMSprop
from .rprop import Rprop
from .sgd import SGD
from .sparse_adam import SparseAdam

__all__ = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD",
           "SparseAdam", "lr_scheduler", "swa_utils"]


def __getattr__(name: str):
    if name == "swa_utils":                     # needs nn
        import importlib
        return importlib.import_module(".swa_utils", __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
