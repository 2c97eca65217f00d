"""torch.utils.dlpack: tensors to and from other libraries, without a copy."""
from .._C import from_dlpack, to_dlpack  # noqa: F401
