"""The standard's data types: promotion, casting, kinds, limits, and what a program may ask about the namespace.

The standard promotes by dtype alone. Torch's operators also look at the rank (a 0-dim tensor does not widen another of its kind) and
refuse to mix uint16, uint32 and uint64 with other integers; so functions of two arrays ask `result_type` here first.
"""
from __future__ import annotations

import functools
from typing import NamedTuple

import rushlight as rl

Tensor = rl.Tensor
numbers = (bool, int, float, complex)

SIGNED = {name: getattr(rl, name) for name in ("int8", "int16", "int32", "int64")}
UNSIGNED = {name: getattr(rl, name) for name in ("uint8", "uint16", "uint32", "uint64")}
REAL = {"float32": rl.float32, "float64": rl.float64}
COMPLEX = {"complex64": rl.complex64, "complex128": rl.complex128}
KINDS = {
    "bool": {"bool": rl.bool},
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED | UNSIGNED,
    "real floating": REAL,
    "complex floating": COMPLEX,
    "numeric": SIGNED | UNSIGNED | REAL | COMPLEX,
}
ALL = KINDS["bool"] | KINDS["numeric"]


def is_integer(dtype):
    return not (dtype.is_floating_point or dtype.is_complex or dtype is rl.bool)


@functools.cache
def promoted(a, b):
    """The dtype that two dtypes meet in."""
    if a is b or b is rl.bool:
        return a
    if a is rl.bool:
        return b
    if not is_integer(a) or not is_integer(b):
        if is_integer(a): return b
        if is_integer(b): return a
        return rl.promote_types(a, b)
    if a.is_signed == b.is_signed:
        return a if a.itemsize > b.itemsize else b
    signed, unsigned = (a, b) if a.is_signed else (b, a)
    if signed.itemsize > unsigned.itemsize:
        return signed
    if unsigned is rl.uint64:
        raise TypeError(f"no integer dtype holds the values of both {a} and {b}")
    return SIGNED[f"int{16 * unsigned.itemsize}"]


def _with_number(dtype, number):
    """The dtype of an array combined with a Python number: the array's, unless the number is of a higher kind."""
    if isinstance(number, (bool, int)):
        return rl.int64 if dtype is rl.bool and not isinstance(number, bool) else dtype
    floating = dtype if dtype.is_floating_point or dtype.is_complex else rl.get_default_dtype()
    return floating.to_complex() if isinstance(number, complex) and not floating.is_complex else floating


def result_type(*arrays_and_dtypes):
    """The dtype that arrays, dtypes and Python numbers combine to."""
    dtypes = [x if isinstance(x, rl.dtype) else x.dtype for x in arrays_and_dtypes if not isinstance(x, numbers)]
    if not dtypes:
        raise ValueError("result_type needs at least one array or dtype")
    dtype = functools.reduce(promoted, dtypes)
    for number in (x for x in arrays_and_dtypes if isinstance(x, numbers)):
        dtype = _with_number(dtype, number)
    return dtype


def together(*arrays):
    """Arrays in the dtype they combine to; Python numbers among them become 0-dim arrays of it."""
    dtype = result_type(*arrays)
    return tuple(x if isinstance(x, Tensor) and x.dtype is dtype else x.to(dtype) if isinstance(x, Tensor) else rl.asarray(x, dtype=dtype)
                 for x in arrays)


def can_cast(from_, to, /):
    """Whether promotion leads from one dtype (or an array's) to another."""
    from_ = from_ if isinstance(from_, rl.dtype) else from_.dtype
    try:
        return promoted(from_, to) is to
    except TypeError:
        return False


def isdtype(dtype, kind):
    """Whether a dtype is another, of a kind ("bool", "integral", "real floating" …), or any in a tuple of those."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind if not _nested(k))
    if isinstance(kind, rl.dtype):
        return dtype is kind
    if kind not in KINDS:
        raise ValueError(f"unknown kind of dtype: {kind!r}; known are {', '.join(KINDS)}")
    return dtype in KINDS[kind].values()


def _nested(kind):
    if isinstance(kind, tuple):
        raise TypeError("isdtype: a tuple of kinds must not contain tuples")
    return False


def astype(x, dtype, /, *, copy=True, device=None):
    """The array in another dtype; with copy=False itself where it has that dtype."""
    return x.to(device or x.device, dtype, copy=copy)


class FloatInfo(NamedTuple):
    """Limits of a floating point dtype."""
    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: rl.dtype


class IntegerInfo(NamedTuple):
    """Limits of an integer dtype."""
    bits: int
    max: int
    min: int
    dtype: rl.dtype


def finfo(type, /):
    """Limits of a floating point dtype, or of an array's; for a complex one, of its parts."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    facts = rl.finfo(dtype)
    return FloatInfo(facts.bits, facts.eps, facts.max, facts.min, facts.smallest_normal, getattr(rl, facts.dtype))


def iinfo(type, /):
    """Limits of an integer dtype, or of an array's."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    facts = rl.iinfo(dtype)
    return IntegerInfo(facts.bits, facts.max, facts.min, dtype)


class Info:
    """What `__array_namespace_info__()` answers."""

    def capabilities(self):
        """What this namespace can do beyond the required."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        """Where arrays are made unless told otherwise."""
        return rl.get_default_device()

    def default_dtypes(self, *, device=None):
        """The dtypes that Python numbers, and indices, become."""
        real = rl.get_default_dtype()
        return {"real floating": real, "complex floating": real.to_complex(), "integral": rl.int64, "indexing": rl.int64}

    def dtypes(self, *, device=None, kind=None):
        """The standard's dtypes by name: all, or those of a kind or of any in a tuple of kinds."""
        if kind is None:
            return dict(ALL)
        if isinstance(kind, tuple):
            return {name: dtype for k in kind for name, dtype in self.dtypes(kind=k).items()}
        if kind not in KINDS:
            raise ValueError(f"unknown kind of dtype: {kind!r}; known are {', '.join(KINDS)}")
        return dict(KINDS[kind])

    def devices(self):
        """The devices there are: "meta" arrays have a shape and a dtype only."""
        return rl.device("cpu"), rl.device("meta")


def __array_namespace_info__():
    """The inspection namespace: default_device(), dtypes(kind=…) …"""
    return Info()
