"""torch.cpu.amp: the older names of `torch.amp`, for the CPU."""
from .._C import bfloat16
from ..amp.older import classes_for

autocast, GradScaler = classes_for("cpu", bfloat16)
__all__ = ["autocast", "GradScaler"]
