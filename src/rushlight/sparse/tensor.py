"""The sparse tensor: a pattern and the values at its places.

The object itself is a meta tensor with the whole shape: it has its place in the graph (`requires_grad`, `grad_fn`, `.grad`) and no data, so what does not know about
patterns cannot read anything from it. Every operator comes to `__torch_function__`, and `dispatch.py` knows which of them there are.

Two functions connect it with the tape. `values_of(s)` are the values as a dense tensor whose gradient is sparse again; `assemble(pattern, values)` is a sparse tensor
whose gradient at its places goes to the values. What is written between the two with ordinary operators is differentiated by their own rules.
"""
from __future__ import annotations

import rushlight as rl

from .. import _C
from ..autograd.function import Function
from ..functions import _name
from .pattern import COO, CSC, CSR, WORDS, Pattern

Tensor = _C.Tensor


class SparseTensor(Tensor):
    """A tensor of which only some elements are stored."""

    _pattern: Pattern
    _stored: Tensor
    is_made_of_operators = True            # see overrides.dispatch

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        from .dispatch import handle
        return handle(func, args, kwargs or {})

    # ------------------------------------------------------------------------------------------------- what it is
    layout = property(lambda self: self._pattern.layout)
    device = property(lambda self: self._stored.device)
    is_sparse = property(lambda self: self._pattern.layout is COO)
    is_sparse_csr = property(lambda self: self._pattern.layout is CSR)
    is_meta = property(lambda self: False)
    is_cpu = property(lambda self: True)
    T = property(lambda self: self.permute(*reversed(range(self.dim()))))
    mT = property(lambda self: self.transpose(-2, -1))
    real = property(lambda self: rl.real(self))
    imag = property(lambda self: refuse("imag", self))
    H = property(lambda self: self.transpose(0, 1).conj_physical())
    mH = property(lambda self: self.transpose(-2, -1).conj_physical())

    @property
    def nbytes(self):
        raise RuntimeError("nbytes is not defined for sparse tensors: add those of the indices and of the values, or multiply numel() by element_size()")

    @property
    def data(self): return bare(self._pattern, self._stored)

    @data.setter
    def data(self, value):
        if not isinstance(value, SparseTensor) or value.shape != self.shape or value.dtype is not self.dtype:
            raise RuntimeError("incompatible tensor type: a sparse tensor's data must be sparse, of the same shape and dtype")
        self._pattern, self._stored = value._pattern, value._stored

    def stride(self, dim=None):
        if self.layout is not COO: self._has_no("strides")
        return (0,) * self.dim() if dim is None else 0

    def is_contiguous(self, memory_format=None):
        if self.layout is not COO: self._has_no("is_contiguous")
        return False

    def _has_no(self, what): raise RuntimeError(f"Sparse {str(self.layout)[-3:].upper()} tensors do not have {what}")
    def storage_offset(self): return 0
    def untyped_storage(self): raise NotImplementedError("Cannot access storage of SparseTensorImpl: a sparse tensor has indices and values, each with its own")
    storage = untyped_storage
    def data_ptr(self): raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage: a sparse tensor has indices and values, each with its own")
    def numpy(self, *, force=False): raise TypeError(f"can't convert {WORDS[self.layout]} layout tensor to numpy. Use Tensor.to_dense() first.")
    def __array__(self, dtype=None): return self.numpy()
    def tolist(self): return self.data_ptr()
    def __dlpack__(self, **options): raise BufferError("Can't export sparse tensors: use Tensor.to_dense() first")
    def is_set_to(self, other): return self is other
    def set_(self, *args, **kwargs): refuse("set_", self)
    def resize_(self, *args, **kwargs): refuse("resize_", self)
    def resize_as_(self, *args, **kwargs): refuse("resize_as_", self)
    def as_subclass(self, cls): refuse("as_subclass", self)
    def __setitem__(self, key, value): raise TypeError("Cannot assign to a sparse tensor")
    def __iter__(self): return iter(self.unbind(0))

    def item(self):
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self.to_dense().item()

    def __bool__(self):
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with " + ("more than one value is ambiguous" if self.numel() else "no values is ambiguous"))
        return bool(self.item())

    def __float__(self): return float(self.item())
    def __int__(self): return int(self.item())
    def __complex__(self): return complex(self.item())
    def __index__(self): return self.to_dense().__index__()
    def __contains__(self, element): return bool((self.to_dense() == element).any())
    def __format__(self, spec): return object.__format__(self, spec)

    def __repr__(self, *, tensor_contents=None):
        from .printing import text
        return ("Parameter containing:\n" if self.__dict__.get("_is_param") else "") + text(self)

    # --------------------------------------------------------------------------------------------- copies of it
    def to(self, *args, **kwargs):
        from ..tensor import parse_to
        device, dtype, _, copy, _ = parse_to(args, kwargs)
        if device is not None and device.type != "cpu":
            raise NotImplementedError(f"to(): tensors of layout {self.layout} are on the CPU only, not on {device}")
        if dtype is None or dtype is self.dtype:
            return self.clone() if copy else self
        return assemble(self._pattern, values_of(self).to(dtype))

    def type(self, dtype=None, non_blocking=False, **kwargs):
        if dtype is not None:
            return Tensor.type(self, dtype)
        if self.layout is not COO:
            raise RuntimeError(f"Unimplemented backend {WORDS[self.layout]}CPU")
        return Tensor.type(self._stored).replace("torch.", "torch.sparse.")

    def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, **kwargs):
        return _C.tensor(data, dtype=dtype or self.dtype, requires_grad=requires_grad)

    def share_memory_(self):
        for part in (*self._pattern.indices, self._stored): part.share_memory_()
        return self

    def is_shared(self): return self._stored.is_shared()

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment.")
        if id(self) not in memo:
            import copy
            new = bare(self._pattern.resized(self.shape, tuple(i.clone() for i in self._pattern.indices)), self._stored.clone())
            new.requires_grad = self.requires_grad
            new.grad = copy.deepcopy(self.grad, memo)
            new.__dict__.update({k: v for k, v in self.__dict__.items() if k == "_is_param"})
            memo[id(self)] = new
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        from ..serialization import reduce_sparse
        return reduce_sparse(self)

    def _become(self, other, resize=False) -> SparseTensor:
        """In-place operators and out=: this object is from now on what `other` is, in its own dtype. `resize`: the size may be another."""
        if _C.is_grad_enabled() and (self.requires_grad or other.requires_grad):
            if self.is_leaf and self.requires_grad:
                raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
            raise NotImplementedError(f"in-place operators on tensors of layout {self.layout} that require gradients are not available: use the plain one")
        check_cast(other.dtype, self.dtype)
        if other.shape != self.shape:
            if not resize:
                raise RuntimeError(f"output with shape {list(self.shape)} doesn't match the broadcast shape {list(other.shape)}")
            with _C.disable_torch_function(): Tensor.resize_(self, other.shape)          # of the object, which has no data
        self._pattern, self._stored = other._pattern, other._stored.to(self.dtype)
        return self


def check_cast(result, given) -> None:
    """torch's refusal to write a result into a tensor of a lesser kind."""
    if not rl.can_cast(result, given):
        raise RuntimeError(f"result type {_name(result)} can't be cast to the desired output type {_name(given)}")


def layout_error(name, expected, x):
    raise RuntimeError(f"{name} expected {expected} tensor layout but got {WORDS[x.layout]}")


def is_sparse(value) -> bool: return isinstance(value, SparseTensor)


def refuse(name: str, tensor):
    """What is said of an operator that there is not for a layout."""
    backend = {COO: "SparseCPU", _C.strided: "CPU"}.get(tensor.layout, "SparseCsrCPU")
    raise NotImplementedError(f"Could not run 'aten::{name}' with arguments from the '{backend}' backend: there is no {name} for tensors of layout {tensor.layout}. "
                              f"Tensor.{'to_dense() makes a dense' if backend != 'CPU' else 'to_sparse() makes a sparse'} tensor of it")


def bare(pattern: Pattern, values) -> SparseTensor:
    """A sparse tensor outside the graph."""
    new = Tensor._make_sparse(SparseTensor, rl.empty(pattern.size, dtype=values.dtype, device="meta"))
    # Under vmap and forward differentiation the values carry their batch or tangent with them.
    new._pattern, new._stored = pattern, values if _C.top_mode() is not None and not values.requires_grad else values.detach()
    return new


# ------------------------------------------------------------------------------------------------- the connection with the tape
class _Values(Function):
    @staticmethod
    def forward(ctx, s):
        ctx.set_materialize_grads(False)
        ctx.pattern = s._pattern
        return s._stored.detach()

    @staticmethod
    def backward(ctx, grad): return None if grad is None else assemble(ctx.pattern, grad)


class _Assemble(Function):
    @staticmethod
    def forward(ctx, values, pattern):
        ctx.set_materialize_grads(False)
        ctx.pattern = pattern
        return bare(pattern, values)

    @staticmethod
    def backward(ctx, grad): return None if grad is None else values_at(grad, ctx.pattern), None


def named(name: str):
    """Decorator: what the grad_fn of a Function calls itself, as torch's does."""
    def give(function):
        node = function._backward_cls
        node.__name__ = node.__qualname__ = name
        node.__module__ = "builtins"                          # as those of the runtime print themselves: <ToDenseBackward0 object …>
        return function
    return give


named("ValuesBackward0")(_Values)
named("SparseCooTensorWithDimsAndTensorsBackward0")(_Assemble)


def values_of(s: SparseTensor):
    """The stored values as a dense tensor; its gradient is a sparse one of the same pattern."""
    return _Values.apply(s) if s.requires_grad else s._stored


def assemble(pattern: Pattern, values) -> SparseTensor:
    """A sparse tensor of these values; the values' gradient is the tensor's at the places of the pattern."""
    if values.requires_grad and _C.top_mode() is not None and not values.__dict__.keys().isdisjoint(("_tangents", "_batches")):
        raise NotImplementedError(f"a tensor of layout {pattern.layout} whose values require a gradient, inside vmap or forward differentiation, is not available")
    return _Assemble.apply(values, pattern) if values.requires_grad else bare(pattern, values)


def values_at(grad, pattern: Pattern):
    """What a tensor, dense or sparse, has at the places of a pattern."""
    if is_sparse(grad):
        if grad._pattern.same_as(pattern):
            return values_of(grad)
        from .convert import looked_up
        return looked_up(grad, pattern)
    if pattern.sparse_dim == 0:
        return grad.unsqueeze(0).expand(pattern.value_shape())
    return grad[tuple(pattern.places())]


def sparse_like(s: SparseTensor, values) -> SparseTensor: return assemble(s._pattern, values)


__all__ = ["COO", "CSC", "CSR", "SparseTensor", "assemble", "bare", "check_cast", "is_sparse", "layout_error", "named", "refuse", "sparse_like", "values_at", "values_of"]
