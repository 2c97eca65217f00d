"""torch.profiler.profiler: names of torch.profiler under the module that torch keeps them in."""
from . import *  # noqa: F403
from . import ProfilerAction, ProfilerActivity, profile, schedule  # noqa: F401
