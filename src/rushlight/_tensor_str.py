"""How a tensor prints: torch's text, character for character.

Everything is done on Python numbers taken with `tolist`, so printing never compiles a kernel. A large tensor is cut to its
edges *before* its elements are read: only what is shown is converted.
"""
from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from . import _C


@dataclass
class _Options:
    precision: int = 4          # digits after the point
    threshold: float = 1000     # more elements than this are summarised
    edgeitems: int = 3          # how many are shown at each end then
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {
    "default": _Options(),
    "short": _Options(precision=2, edgeitems=2),
    "full": _Options(threshold=math.inf),
}
PRINT_OPTS = _Options()


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Set how tensors print: digits, when to summarise and how much of it, the width of a line, scientific notation
    (True, False, or None: as needed).

    `profile` ("default", "short", "full") sets all of them first.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"unknown profile '{profile}': choose one of {', '.join(_PROFILES)}")
        chosen = _PROFILES[profile]
        PRINT_OPTS.precision, PRINT_OPTS.threshold = chosen.precision, chosen.threshold
        PRINT_OPTS.edgeitems, PRINT_OPTS.linewidth = chosen.edgeitems, chosen.linewidth
    if precision is not None:
        PRINT_OPTS.precision = precision
    if threshold is not None:
        PRINT_OPTS.threshold = threshold
    if edgeitems is not None:
        PRINT_OPTS.edgeitems = edgeitems
    if linewidth is not None:
        PRINT_OPTS.linewidth = linewidth
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions() -> dict:
    """The options in force, as a dictionary that set_printoptions takes."""
    return asdict(PRINT_OPTS)


@contextmanager
def printoptions(**options):
    """set_printoptions for the time of a `with` block."""
    before = get_printoptions()
    set_printoptions(**options)
    try:
        yield
    finally:
        set_printoptions(**before)


# ------------------------------------------------------------------------------------------------------------ elements
class _Format:
    """How the numbers of one tensor are written: the same notation and width for all of them."""

    def __init__(self, values, floating):
        self.floating = floating
        self.scientific = False
        self.whole = True           # every value is an integer: "1." instead of "1.0000"
        self.width = 1
        if not floating:
            self.width = max((len(str(v)) for v in values), default=1)
            return
        values = [v for v in values if v != 0 and math.isfinite(v)]
        if not values:              # zeros, infinities and NaNs do not say anything about notation
            return
        sizes = [abs(v) for v in values]
        largest, smallest = max(sizes), min(sizes)
        self.whole = all(v == math.ceil(v) for v in values)
        wide_range = largest / smallest > 1000 or largest > 1e8
        self.scientific = wide_range or (not self.whole and smallest < 1e-4)
        if PRINT_OPTS.sci_mode is not None:
            self.scientific = PRINT_OPTS.sci_mode
        self.width = max(len(self._text(v)) for v in values)

    def _text(self, value):
        if not self.floating:
            return str(value)
        if self.scientific:
            return f"{value:.{PRINT_OPTS.precision}e}"
        if self.whole:
            text = f"{value:.0f}"
            return text + "." if math.isfinite(value) else text
        return f"{value:.{PRINT_OPTS.precision}f}"

    def __call__(self, value):
        return self._text(value).rjust(self.width)


class _ComplexFormat:
    """Real and imaginary parts have a notation each."""

    def __init__(self, values):
        self.real = _Format([v.real for v in values], True)
        self.imag = _Format([v.imag for v in values], True)
        self.width = self.real.width + self.imag.width + 1

    def __call__(self, value):
        imag = self.imag(value.imag).lstrip() + "j"
        return self.real(value.real) + (imag if imag[0] in "+-" else "+" + imag)


# -------------------------------------------------------------------------------------------------------------- layout
_CUT = "..."      # stands in a list of values where some are left out


def _values(tensor, summarize):
    """The elements as nested lists, cut to the edges where the tensor is summarised."""
    if not summarize:
        return tensor.tolist()
    size, edge = tensor.shape[0], PRINT_OPTS.edgeitems
    cut = size > 2 * edge
    if tensor.dim() == 1:
        return tensor[:edge].tolist() + [_CUT] + (tensor[size - edge:].tolist() if edge else []) if cut else tensor.tolist()
    rows = [*range(edge), *range(size - edge, size)] if cut else range(size)
    parts = [_values(tensor[i], True) for i in rows]
    return parts[:edge] + [_CUT] + parts[edge:] if cut else parts


def _flat(values, depth):
    if depth == 0:
        yield values
        return
    for v in values:
        if v is _CUT:
            continue
        if depth == 1:
            yield v
        else:
            yield from _flat(v, depth - 1)


def _vector_text(values, indent, write):
    if PRINT_OPTS.edgeitems == 0 and _CUT in values:
        return "[...]"
    per_line = max(1, int(math.floor((PRINT_OPTS.linewidth - indent) / (write.width + 2))))
    texts = [" ..." if v is _CUT else write(v) for v in values]
    lines = [", ".join(texts[i:i + per_line]) for i in range(0, len(texts), per_line)] or [""]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested_text(values, depth, indent, write):
    if depth == 0:
        return write(values)
    if depth == 1:
        return _vector_text(values, indent, write)
    parts = [_CUT if v is _CUT else _nested_text(v, depth - 1, indent + 1, write) for v in values]
    return "[" + ("," + "\n" * (depth - 1) + " " * (indent + 1)).join(parts) + "]"


def _content(tensor, indent):
    summarize = tensor.numel() > PRINT_OPTS.threshold and tensor.dim() > 0
    values, depth = _values(tensor, summarize), tensor.dim()
    flat = list(_flat(values, depth))
    write = _ComplexFormat(flat) if tensor.dtype.is_complex else _Format(flat, tensor.dtype.is_floating_point)
    return _nested_text(values, depth, indent, write)


# ---------------------------------------------------------------------------------------------------------- the whole
def _tensor_str(self, indent):
    """The values between the brackets of a tensor's text."""
    return _content(self, indent)


def _with_suffixes(text, suffixes, indent, new_line=False):
    """`new_line`: the first suffix begins a line of its own."""
    parts = [text]
    length = PRINT_OPTS.linewidth if new_line else len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if length + len(suffix) + 2 > PRINT_OPTS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            length = indent + len(suffix)
        else:
            parts.append(", " + suffix)
            length += len(suffix) + 2
    return "".join(parts) + ")"


def _default_dtypes():
    default = _C.get_default_dtype()
    return default, (_C.complex128 if default is _C.float64 else _C.complex64)


def _history(tensor):
    """`grad_fn=<…>` or `requires_grad=True`, or nothing."""
    try:
        grad_fn = tensor.grad_fn
    except RuntimeError:            # an in-place change left a view without a history that could be told
        return ["grad_fn=<Invalid>"]
    if grad_fn is not None:
        name = type(grad_fn).__name__
        if name == "CppFunction":
            name = grad_fn.name().rsplit("::", 1)[-1]
        return [f"grad_fn=<{name}>"]
    return ["requires_grad=True"] if tensor.requires_grad else []


def _is_plain(tensor):
    """Tensor and Parameter print as `tensor(…)`, other subclasses under their own name."""
    kind = type(tensor)
    return kind is _C.Tensor or kind.__name__ == "Parameter"


def _str(self, *, tensor_contents=None) -> str:
    """What `repr(tensor)` and `str(tensor)` give."""
    prefix = "tensor(" if _is_plain(self) else f"{type(self).__name__}("
    indent = len(prefix)
    default, default_complex = _default_dtypes()
    shape = f"size={tuple(self.shape)}"
    dtype = f"dtype={self.dtype}"
    plain = self.detach() if self.requires_grad else self
    suffixes = [] if self.device.type == "cpu" else [f"device='{self.device}'"]
    if self.device.type == "meta":
        suffixes.append(shape)
        if self.dtype is not default:
            suffixes.append(dtype)
        text = "..."
    elif self.numel() == 0:
        if self.dim() != 1:
            suffixes.append(shape)
        if self.dtype is not default:
            suffixes.append(dtype)
        text = "[]"
    else:
        if PRINT_OPTS.edgeitems == 0:
            suffixes.append(shape)
        if self.dtype not in (default, default_complex, _C.int64, _C.bool):
            suffixes.append(dtype)
        text = tensor_contents if tensor_contents is not None else _content(plain, indent)
    return _with_suffixes(prefix + text, suffixes + _history(self), indent)


def _format(self, spec: str) -> str:
    """`format(tensor, spec)`: a 0-dim tensor formats as its number."""
    if self.dim() == 0 and self.device.type != "meta" and type(self) is _C.Tensor:
        return format(self.item(), spec)
    return object.__format__(self, spec)
