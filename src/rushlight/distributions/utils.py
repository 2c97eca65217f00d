"""What distributions share: broadcasting of parameters, probabilities and log-odds."""
from __future__ import annotations

from functools import update_wrapper
from numbers import Number

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import Tensor
from rushlight.overrides import is_tensor_like

euler_constant = 0.57721566490153286060
__all__ = ["broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property", "tril_matrix_to_vec", "vec_to_tril_matrix"]


def lacks(thing, what: str) -> NotImplementedError:
    """What a method that a subclass did not write raises."""
    return NotImplementedError(f"{type(thing).__name__} does not implement {what}")


def broadcast_all(*values):
    """Tensors and numbers as tensors of one shape."""
    if not all(is_tensor_like(v) or isinstance(v, Number) for v in values):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing __torch_function__.")
    if not all(is_tensor_like(v) for v in values):
        like = next((v for v in values if isinstance(v, Tensor)), None)
        options = {"dtype": rl.get_default_dtype()} if like is None else {"dtype": like.dtype, "device": like.device}
        values = tuple(v if is_tensor_like(v) else rl.tensor(v, **options) for v in values)
    return rl.broadcast_tensors(*values)


def _standard_normal(shape, dtype, device): return rl.normal(rl.zeros(shape, dtype=dtype, device=device), rl.ones(shape, dtype=dtype, device=device))


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last `dim` dimensions."""
    return value if dim == 0 else value.reshape(value.shape[:value.dim() - dim] + (-1,)).sum(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept away from 0 and 1 by the dtype's precision."""
    eps = rl.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor: return rl.sigmoid(logits) if is_binary else F.softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    clamped = clamp_probs(probs)
    return rl.log(clamped) - rl.log1p(-clamped) if is_binary else rl.log(clamped)


class lazy_property:
    """A property computed when first read, and kept."""

    def __init__(self, wrapped) -> None:
        self.wrapped = wrapped
        update_wrapper(self, wrapped)

    def __get__(self, instance, obj_type=None):
        if instance is None:
            return _lazy_property_and_property(self.wrapped)
        with rl.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _lazy_property_and_property(lazy_property, property):
    """What the class shows of a lazy property: a property."""

    def __init__(self, wrapped) -> None: property.__init__(self, wrapped)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The lower triangle, row by row."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    mask = rl.arange(n) < rl.arange(n).view(-1, 1) + (diag + 1)
    return mat[..., mask]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """A lower triangle from its entries, row by row."""
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * vec.shape[-1] + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > rl.finfo(vec.dtype).eps:
        raise ValueError(f"The size of last dimension is {vec.shape[-1]} which cannot be expressed as the lower triangular part of a square D x D matrix.")
    n = round(n)
    mask = rl.arange(n) < rl.arange(n).view(-1, 1) + (diag + 1)
    mat = rl.zeros(vec.shape[:-1] + (n, n), dtype=vec.dtype, device=vec.device)
    mat[..., mask] = vec
    return mat
