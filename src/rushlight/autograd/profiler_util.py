"""torch.autograd.profiler_util: the type of a list of recorded events."""
from .profiler import EventList  # noqa: F401
