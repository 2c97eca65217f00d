"""torch._dynamo.eval_frame: names of torch._dynamo under the module that torch keeps them in."""
from . import OptimizedModule, disable  # noqa: F401
