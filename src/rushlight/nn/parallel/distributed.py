"""nn.parallel.distributed, under the module name torch gives it."""
from . import DistributedDataParallel  # noqa: F401
