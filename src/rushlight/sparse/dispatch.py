"""Which operators there are for sparse tensors. Any other is refused by name, never computed wrongly."""
from __future__ import annotations

import rushlight as rl

from .. import _C
from ..functions import _need_strided
from .tensor import check_cast, is_sparse, refuse

_HANDLERS: dict = {}


def handles(*names, with_function=False, dense_first=False):
    """Decorator: what happens when an operator of one of these names meets a sparse tensor. `with_function`: it is called with the operator itself first.
    `dense_first`: its first operand may be a dense tensor, and another one sparse."""
    def register(handler):
        for name in names: _HANDLERS[name] = handler, with_function, dense_first
        return handler
    return register


def handle(func, args, kwargs):
    name = getattr(func, "__name__", str(func))
    if name not in _HANDLERS:
        if name.endswith("_") and name[:-1] in _HANDLERS: return _in_place(getattr(rl, name[:-1]), *args, **kwargs)
        inside = getattr(func, "__wrapped__", None)
        if inside is not None: return inside(*args, **kwargs)               # a function written in Python: the operators in it come here
        refuse(name, _first_sparse(name, [*args, *kwargs.values()]))
    handler, with_function, dense_first = _HANDLERS[name]
    if not dense_first and args and isinstance(args[0], _C.Tensor) and not is_sparse(args[0]):
        refuse(name, _first_sparse(name, [*args, *kwargs.values()]))
    out = kwargs.pop("out", None)
    if "self" in kwargs: kwargs["input"] = kwargs.pop("self")
    result = handler(func, *args, **kwargs) if with_function else handler(*args, **kwargs)
    return result if out is None else written(name, out, result)


def _in_place(plain, input, *args, **kwargs):
    """sin_, mul_: the plain operator, and the tensor becomes its result, or gets its values if it is dense."""
    result = handle(plain, (input, *args), kwargs)
    if is_sparse(input): return input._become(result)
    check_cast(result.dtype, input.dtype)
    return input.copy_(result.to_dense())


def _first_sparse(name, values):
    for v in values:
        if is_sparse(v): return v
        if isinstance(v, (list, tuple)):
            for inner in v:
                if is_sparse(inner): return inner
    raise NotImplementedError(f"{name}(): a sparse tensor within another argument than a tensor or a list of tensors")


def written(name, out, result):
    if is_sparse(out) != is_sparse(result):
        raise RuntimeError(f"{name}: Expected result to have {result.layout} layout, but got {out.layout}")
    if out.requires_grad or result.requires_grad:
        raise RuntimeError(f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad.")
    if is_sparse(out): return out._become(result, resize=True)
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
    if name in ("new_zeros", "new_empty"):
        size = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:] or kwargs["size"]
        return zeros(tuple(size), layout, kwargs.get("dtype") or args[0].dtype, bool(kwargs.get("requires_grad")))
    if name in ("zeros_like", "empty_like"):
        x = args[0] if args else kwargs["input"]
        return zeros(tuple(x.shape), layout, kwargs.get("dtype") or x.dtype, bool(kwargs.get("requires_grad")))
    if name in ("ones", "full"):
        raise RuntimeError("full(...) is not implemented for sparse layout")
    if function.__module__.endswith("signal.windows"):
        speaker = "general_cosine" if name in ("general_hamming", "hamming", "hann", "nuttall") else name
        raise ValueError(f"{speaker} is implemented for strided tensors only, got: {layout}")
    _need_strided(name, layout)
