"""torch.signal.windows: from the registry (ops/signal_windows.py)."""
from collections.abc import Iterable as _Iterable

from .. import faces as _faces

globals().update(_faces.functions("signal.windows"))
__all__ = sorted(_faces.functions("signal.windows"))
_general_cosine = _faces.functions("signal.windows")["general_cosine"]


def general_cosine(M, *, a, **options):
    """A weighted sum of cosines: `sum((-1)**k * a[k] * cos(2 pi k n / (M-1)))`. The weights are any list of numbers; the operator takes a tuple."""
    if not isinstance(a, _Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    return _general_cosine(M, a=tuple(a), **options)
