"""torch._dynamo.external_utils."""
from . import is_compiling  # noqa: F401
