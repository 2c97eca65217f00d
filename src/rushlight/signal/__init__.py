"""torch.signal: its windows."""
from . import windows  # noqa: F401
