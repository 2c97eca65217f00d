"""torch.masked: operators that leave out the elements where a mask is False; from the registry (ops/masked.py)."""
from . import faces as _faces

globals().update(_faces.functions("masked"))
