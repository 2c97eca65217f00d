"""torch.special: what is there so far comes from the registry."""
from . import faces as _faces

globals().update(_faces.functions("special"))
