"""torch.ao: quantisation is not there yet; its names exist so that models that could use it can be imported."""
import importlib as _importlib


def __getattr__(name: str):
    if name in ("quantization", "nn"):
        return _importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'torch.ao' has no attribute '{name}'")
