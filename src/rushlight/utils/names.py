"""What an object is called in messages."""


def typename(obj) -> str:
    """`torch.typename`: `torch.FloatTensor` for a tensor, the qualified name of its type for anything else."""
    from rushlight import Tensor
    if isinstance(obj, Tensor):
        return obj.type()
    module = getattr(obj, "__module__", "") or ""
    qualified = ""
    if hasattr(obj, "__qualname__"):
        qualified = obj.__qualname__
    elif hasattr(obj, "__name__"):
        qualified = obj.__name__
    else:
        module = type(obj).__module__ or ""
        qualified = type(obj).__qualname__
    return qualified if module in ("", "builtins") else f"{module}.{qualified}"
