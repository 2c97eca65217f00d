"""Helpers around layers: gradients within bounds, parameters as a vector, sequences, parametrisation, pruning."""
from . import rnn
from .clip_grad import clip_grad_norm, clip_grad_norm_, clip_grad_value_, clip_grads_with_norm_, get_total_norm
from .convert_parameters import parameters_to_vector, vector_to_parameters

_LAZY = {"weight_norm": "weight_norm", "remove_weight_norm": "weight_norm", "spectral_norm": "spectral_norm", "remove_spectral_norm": "spectral_norm",
         "fuse_conv_bn_eval": "fusion", "fuse_conv_bn_weights": "fusion", "fuse_linear_bn_eval": "fusion", "fuse_linear_bn_weights": "fusion",
         "skip_init": "init", "convert_conv2d_weight_memory_format": "memory_format", "convert_conv3d_weight_memory_format": "memory_format"}

__all__ = ["rnn", "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector", "vector_to_parameters"]


def __getattr__(name: str):
    import importlib
    if name in _LAZY:
        module = importlib.import_module("." + _LAZY[name], __name__)
        for function, where in _LAZY.items():                   # importing bound the module's name: where a function has the same, it is the function's
            if where == _LAZY[name]:
                globals()[function] = getattr(module, function)
        return globals()[name]
    if name in ("parametrize", "parametrizations", "prune", "stateless", "fusion", "init", "memory_format"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
