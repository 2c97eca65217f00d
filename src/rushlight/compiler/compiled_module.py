"""What compile(module) gives back: the module, recording when it is called."""
from ..nn import Module
from .capture import recorded


class OptimizedModule(Module):
    """Stands for a compiled Module, as torch's class of this name: the original is `_orig_mod`, everything else is asked of it."""

    def __init__(self, module):
        super().__init__()
        self._orig_mod = module
        object.__setattr__(self, '_call', recorded(module))

    def __call__(self, *args, **kwargs): return self._call(*args, **kwargs)
    def forward(self, *args, **kwargs): return self._orig_mod.forward(*args, **kwargs)

    def __getattr__(self, name):
        if name == '_orig_mod': return self._modules['_orig_mod']
        return getattr(self._orig_mod, name)

    def train(self, mode=True):
        self._orig_mod.train(mode)
        return super().train(mode)

    def __reduce__(self): return OptimizedModule, (self._orig_mod,)
