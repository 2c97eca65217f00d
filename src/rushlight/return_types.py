"""The named tuples that operators with several results return."""
from . import faces as _faces

globals().update(_faces.return_types())


def _made(name, values):
    """A pickled result, again."""
    return globals()[name](values)
