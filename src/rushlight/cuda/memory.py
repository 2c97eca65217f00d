"""torch.cuda.memory: the names of `torch.cuda` under the module that torch keeps them in."""
from . import *  # noqa: F403
