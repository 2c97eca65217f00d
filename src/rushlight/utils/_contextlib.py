"""torch.utils._contextlib: the base of context managers that are decorators too. `no_grad` and its like are of this kind."""
from ..autograd.grad_mode import _BareMode as _NoParamDecoratorContextManager
from ..autograd.grad_mode import _decorate as context_decorator
from ..autograd.grad_mode import _Mode as _DecoratorContextManager

__all__ = ["_DecoratorContextManager", "_NoParamDecoratorContextManager", "context_decorator"]
