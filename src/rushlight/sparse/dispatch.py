"""Which operators there are for sparse tensors. Any other is refused by name, never computed wrongly."""
from __future__ import annotations

from .tensor import is_sparse, refuse

_HANDLERS: dict = {}


def handles(*names, with_function=False, in_place=False):
    """Decorator: what happens when an operator of one of these names meets a sparse tensor. `with_function`: it is called with the operator itself first."""
    def register(handler):
        for name in names: _HANDLERS[name] = handler, with_function, in_place
        return handler
    return register


def handle(func, args, kwargs):
    name = getattr(func, "__name__", str(func))
    handler, with_function, in_place = _HANDLERS.get(name, (None, False, False))
    base = name[:-1] if handler is None and name.endswith("_") and not name.endswith("__") else None
    if base in _HANDLERS and is_sparse(args[0] if args else None):            # add_, sin_: the plain operator, and the tensor becomes its result
        return args[0]._become(handle(_plain(base), args, kwargs))
    if handler is None:
        refuse(name, _first_sparse([*args, *kwargs.values()]))
    out = kwargs.pop("out", None) if not in_place and kwargs.get("out") is not None else None
    kwargs.pop("out", None)
    if "self" in kwargs: kwargs["input"] = kwargs.pop("self")
    result = handler(func, *args, **kwargs) if with_function else handler(*args, **kwargs)
    return result if out is None else _written(name, out, result)


def _plain(name):
    from .. import registry
    return registry.find(name).op.function


def _first_sparse(values):
    for v in values:
        if is_sparse(v): return v
        if isinstance(v, (list, tuple)):
            for inner in v:
                if is_sparse(inner): return inner
    raise NotImplementedError("a sparse tensor in a place that is not looked at")


def _written(name, out, result):
    if is_sparse(out) != is_sparse(result):
        raise RuntimeError(f"{name}: Expected result to have {result.layout} layout, but got {out.layout}")
    if out.requires_grad or result.requires_grad:
        raise RuntimeError(f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.")
    if is_sparse(out):
        if out.shape != result.shape:
            raise RuntimeError(f"{name}: Expected result to have the shape {list(result.shape)}, but got {list(out.shape)}")
        return out._become(result)
    if out.dtype is not result.dtype:
        raise RuntimeError(f"{name}: expected out to have the dtype {result.dtype}, but got {out.dtype}")
    return out.resize_(result.shape).copy_(result)


def create(function, args, kwargs):
    """A function that was given `layout=` with a sparse layout, and no sparse tensor."""
    from .convert import zeros
    name, layout = function.__name__, kwargs["layout"]
    if name in ("zeros", "empty"):
        size = kwargs.get("size", args[0] if len(args) == 1 and not isinstance(args[0], int) else args)
        return zeros(tuple(size), layout, kwargs.get("dtype"), bool(kwargs.get("requires_grad")))
    if name in ("zeros_like", "empty_like"):
        x = args[0] if args else kwargs["input"]
        return zeros(tuple(x.shape), layout, kwargs.get("dtype") or x.dtype, bool(kwargs.get("requires_grad")))
    if name in ("ones", "full"):
        raise RuntimeError("full(...) is not implemented for sparse layout")
    if function.__module__.endswith("signal.windows"):
        speaker = "general_cosine" if name in ("general_hamming", "hamming", "hann", "nuttall") else name
        raise ValueError(f"{speaker} is implemented for strided tensors only, got: {layout}")
    raise NotImplementedError(f"{name}() is not implemented for layout={layout}: make a dense tensor and call Tensor.to_sparse() (or to_sparse_csr())")
