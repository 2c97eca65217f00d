"""torch.jit._script: names of torch.jit under the module that torch keeps them in."""
from . import *  # noqa: F403
from . import RecursiveScriptModule, ScriptModule  # noqa: F401
