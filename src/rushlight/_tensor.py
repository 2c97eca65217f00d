"""torch._tensor: Tensor under the module that torch keeps it in."""
from ._C import Tensor  # noqa: F401
from .serialization import _rebuild_from_type_v2  # noqa: F401
