"""Facts about dtypes: finfo, iinfo, and the defaults."""
from __future__ import annotations

from . import _C

_PYTHON_TYPES = {bool: _C.bool, int: _C.int64, float: _C.float64, complex: _C.complex128}


def as_dtype(given):
    """Python's types of numbers stand for dtypes wherever one is taken."""
    return _PYTHON_TYPES.get(given, given) if isinstance(given, type) else given


def need_dtype(name, given, argument="type", position=1):
    found = as_dtype(given)
    if not isinstance(found, _C.dtype):
        raise TypeError(f"{name}(): argument '{argument}' (position {position}) must be torch.dtype, not {type(given).__name__}")
    return found


_WHOLE_WORDS = {"uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int", "int64": "int64_t"}       # as torch's errors call them


def whole_limits(name):
    """(lowest, highest, word): what torch takes for an element of a whole dtype (in an unsigned one negative numbers wrap), and what its errors call the dtype."""
    unsigned, bits = name[0] == "u", int(name.lstrip("uint"))
    highest = (1 << bits) - 1 if unsigned else (1 << bits - 1) - 1
    return -highest if unsigned else -highest - 1, highest, _WHOLE_WORDS.get(name, name)


class finfo:
    """Limits of a floating point dtype: `finfo(torch.float32).eps`."""

    _TABLE = {   # bits, eps, max, smallest normal, resolution
        "float16": (16, 2.0 ** -10, 65504.0, 2.0 ** -14, 1e-3),
        "bfloat16": (16, 2.0 ** -7, 3.3895313892515355e38, 2.0 ** -126, 1e-2),
        "float32": (32, 2.0 ** -23, 3.4028234663852886e38, 2.0 ** -126, 1e-6),
        "float64": (64, 2.0 ** -52, 1.7976931348623157e308, 2.0 ** -1022, 1e-15),
        "float8_e4m3fn": (8, 0.125, 448.0, 2.0 ** -6, 1.0),
        "float8_e5m2": (8, 0.25, 57344.0, 2.0 ** -14, 1.0),
    }

    def __init__(self, type=None):
        dtype = _C.get_default_dtype() if type is None else need_dtype("finfo", type)
        if dtype.is_complex:
            dtype = dtype.to_real()
        name = str(dtype).rpartition(".")[2]
        if name not in self._TABLE:
            raise TypeError(f"torch.finfo() requires a floating point input type. Use torch.iinfo to handle '{dtype}'")
        self.bits, self.eps, self.max, self.tiny, self.resolution = self._TABLE[name]
        self.min, self.smallest_normal, self.dtype = -self.max, self.tiny, name

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, "
                f"tiny={self.tiny:g}, dtype={self.dtype})")

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


class iinfo:
    """Limits of an integer dtype: `iinfo(torch.int8).max`."""

    def __init__(self, type):
        type = need_dtype("iinfo", type)
        if type.is_floating_point or type.is_complex:
            raise TypeError(f"torch.iinfo() requires an integer input type. Use torch.finfo to handle '{type}'")
        if type is _C.bool:
            raise TypeError("torch.bool is not supported by torch.iinfo")
        self.dtype = str(type).rpartition(".")[2]
        self.bits = type.itemsize * 8
        signed = type.is_signed
        self.min = -(1 << (self.bits - 1)) if signed else 0
        self.max = (1 << (self.bits - 1)) - 1 if signed else (1 << self.bits) - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


def set_default_dtype(d):
    """The dtype of Python floats and of factories."""
    if not isinstance(d, _C.dtype):
        raise TypeError(f"invalid dtype object: only floating-point types are supported as the default type, not {d!r}")
    if not d.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {d}")
    _C.set_default_dtype(d)


def set_default_tensor_type(t):
    """The old name: `set_default_tensor_type(torch.DoubleTensor)`."""
    from .tensor import _TYPE_NAMES
    _C.warn("set_default_tensor_type is deprecated: set_default_dtype and set_default_device say both parts of it", once=True)
    name = t if isinstance(t, str) else getattr(t, "__name__", "")
    set_default_dtype(_TYPE_NAMES[name.rpartition(".")[2]])


def get_default_device():
    """Where factories make their tensors."""
    from .default_device import current
    return current()


def set_default_device(device):
    """Factories make their tensors on `device` from here on ("cpu" or "meta"); None: on the CPU again."""
    from .default_device import set_default
    if device is not None and _C.device(device).type not in ("cpu", "meta"):
        raise RuntimeError(f"set_default_device: '{device}' is not available; this build computes on the CPU")
    set_default(device)
