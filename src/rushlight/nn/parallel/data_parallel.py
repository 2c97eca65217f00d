"""nn.parallel.data_parallel, under the module name torch gives it."""
from . import DataParallel, data_parallel  # noqa: F401
