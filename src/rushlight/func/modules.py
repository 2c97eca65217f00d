"""Modules under transforms: several models of one kind as one set of stacked tensors; batch norms that keep no statistics."""
from __future__ import annotations


def stack_module_state(models):
    """(parameters, buffers) of models of one class, each stacked along a new first dimension."""
    from .. import registry
    models = list(models)
    if not models: raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models): raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    stack = registry.find("stack").op.function
    parameters = {}
    for name, first in models[0].named_parameters():
        together = stack([dict(m.named_parameters())[name].detach() for m in models])
        parameters[name] = together.requires_grad_(first.requires_grad)
    buffers = {name: stack([dict(m.named_buffers())[name] for m in models]) for name, _ in models[0].named_buffers()}
    return parameters, buffers


def replace_all_batch_norm_modules_(root):
    """Every batch norm in a module, without running statistics: vmap could not write those of one example into a shared buffer."""
    from ..nn.modules.batchnorm import _BatchNorm
    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
