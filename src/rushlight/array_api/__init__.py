"""The Python array API standard (data-apis.org) over Rushlight's operators: what `Tensor.__array_namespace__()` returns.

    xp = x.__array_namespace__()
    y = xp.sum(xp.abs(x), axis=(0, 1), keepdims=True)

A namespace of names and argument orders: the operators are those of `rushlight`. The rules that differ from torch's are the standard's:
promotion looks at dtypes only (a 0-dim array counts as any other), integers of different signs and sizes mix, sums of unsigned integers are
unsigned. Names outside the standard (`xp.float16`, `xp.einsum`) are Rushlight's own.
"""
from __future__ import annotations

import math as _math
import sys as _sys

import rushlight as _rl

from . import dtypes as _dtypes
from . import fft, linalg  # noqa: F401
from . import functions as _functions
from .dtypes import __array_namespace_info__, astype, can_cast, finfo, iinfo, isdtype, result_type  # noqa: F401
from .functions import *  # noqa: F403

__array_api_version__ = "2025.12"
_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")

e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi
globals().update(_dtypes.ALL)

_OWN = """e inf nan newaxis pi __array_api_version__ __array_namespace_info__ astype can_cast finfo iinfo isdtype result_type fft linalg""".split()
__all__ = sorted({*_OWN, *_dtypes.ALL, *_functions.__all__})


def namespace(api_version=None):
    """This namespace, if it serves a version of the standard."""
    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"no version {api_version!r} of the array API standard; known are {', '.join(_VERSIONS)}")
    return _sys.modules[__name__]


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_rl, name)


def __dir__():
    return __all__
