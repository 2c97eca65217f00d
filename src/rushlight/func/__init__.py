"""Function transforms with torch.func's names: they take a function and give another, and nest."""
from .batch import debug_unwrap, vmap  # noqa: F401
from .modules import replace_all_batch_norm_modules_, stack_module_state  # noqa: F401
from .transforms import functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp  # noqa: F401

value_and_grad = grad_and_value


def __getattr__(name):
    if name == "functional_call":          # nn is read when it is wanted
        from ..nn.utils.stateless import functional_call
        return functional_call
    raise AttributeError(f"module 'torch.func' has no attribute '{name}'")
