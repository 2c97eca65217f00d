"""torch.linalg: everything comes from the registry (ops/factor.py, ops/solve.py, ops/spectrum.py, ops/contraction.py)."""
from . import _C as _C
from . import faces as _faces

globals().update(_faces.functions("linalg"))
LinAlgError = _C._LinAlgError
