"""torch.cuda.amp: the older names of `torch.amp`, for CUDA. Without a CUDA device they change nothing."""
from __future__ import annotations

from .._C import float16
from ..amp import custom_bwd as _custom_bwd
from ..amp import custom_fwd as _custom_fwd
from ..amp.older import classes_for

autocast, GradScaler = classes_for("cuda", float16)
__all__ = ["autocast", "GradScaler", "custom_fwd", "custom_bwd"]


def custom_fwd(fwd=None, *, cast_inputs=None):
    return _custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    return _custom_bwd(bwd, device_type="cuda")
