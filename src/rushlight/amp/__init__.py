"""Mixed precision: `autocast` runs the operators that profit from it in bfloat16 or float16; `GradScaler` keeps small gradients from vanishing."""
from .autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from .grad_scaler import GradScaler

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available", "GradScaler"]
