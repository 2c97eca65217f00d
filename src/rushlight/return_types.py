"""The named tuples that operators with several results return."""
from . import faces as _faces

globals().update(_faces.return_types())
