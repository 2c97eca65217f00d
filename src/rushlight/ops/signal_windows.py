"""Windows for signals: closed forms of the index, computed in double and rounded once. `torch.signal.windows` and the older `torch.hann_window` family, which
share their bodies."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples import Sample
from .common import hint, required
from .special import modified_bessel_ie

_OPTIONS = "bool sym=True, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool requires_grad=False"
_OLD_OPTIONS = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool requires_grad=False"


# --------------------------------------------------------------------------------------------------------- closed forms
def _index(m):
    return T.cast(T.iota(m, 0, 1), "f64")


def _span(m, symmetric):
    """The distance from the first element to the last: of the window, or of one that is longer by one."""
    return T.size(m - 1 if symmetric else m, "f64")


def cosines(m, symmetric, coefficients):
    """A sum of cosines with alternating signs."""
    angle = _index(m) * (2 * math.pi) / _span(m, symmetric)
    total = None
    for k, a in enumerate(coefficients):
        term = T.prim("cos", angle * float(k)) * (-a if k % 2 else a) if k else T.expand(T.cast(a, "f64"), (m,))
        total = term if total is None else total + term
    return total


def triangle(m, symmetric):
    return 1.0 - T.prim("abs", _index(m) * 2.0 / _span(m, symmetric) - 1.0)


def kaiser_form(m, symmetric, beta):
    """I0(beta r) / I0(beta), by the scaled functions: neither overflows."""
    beta = T.prim("abs", T.cast(beta, "f64"))
    side = _index(m) * 2.0 / _span(m, symmetric) - 1.0
    inside = (1.0 - side) * (1.0 + side)
    r = T.prim("sqrt", T.where(inside > 0.0, inside, 0.0))
    return modified_bessel_ie(beta * r, 0) * T.prim("exp", beta * (r - 1.0)) / modified_bessel_ie(beta, 0)


# -------------------------------------------------------------------------------------------------- torch.signal.windows
def _samples(**more):
    return lambda seed=0: [Sample(m, sym=sym, **more) for m in (0, 1, 2, 3, 8, 33, 70) for sym in (True, False)]


def _made(name, m, sym, dtype, device, body):
    """What all of them check, and their short forms. (`name` as torch has it: those that call `general_cosine` speak in its name.) A layout that is not strided
    is refused before (`sparse/dispatch.py`)."""
    if m < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={hint(m)}")
    dtype = dtype or T.default_dtype()
    if dtype not in ("f32", "f64"):
        from ..compiler.graph import TORCH_NAME
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: torch.{TORCH_NAME[dtype]}")
    out = T.expand(T.const(1.0, "f64"), (m,)) if m <= 1 else body()
    return T.on_device(T.cast(out, dtype), device)


def _windows(parameters, samples=None):
    schema = lambda name: f"{name}(SymInt M, *, {parameters + ', ' if parameters else ''}{_OPTIONS}) -> Tensor"
    def define(body):
        return op(schema(body.__name__), rule=None, on="signal.windows", layout="contiguous", differentiable=False, out=False, samples=samples or _samples())(body)
    return define


@_windows("")
def bartlett(M, sym, dtype, layout, device, requires_grad):
    """A triangle: 0 at both ends, 1 in the middle. `sym=False`: one period of a longer one, for spectra."""
    return _made("bartlett", M, sym, dtype, device, lambda: triangle(M, sym))


@_windows("")
def blackman(M, sym, dtype, layout, device, requires_grad):
    """Blackman's window: `0.42 - 0.5 cos(2 pi n / (M-1)) + 0.08 cos(4 pi n / (M-1))`."""
    return _made("blackman", M, sym, dtype, device, lambda: cosines(M, sym, (0.42, 0.5, 0.08)))


@_windows("")
def cosine(M, sym, dtype, layout, device, requires_grad):
    """Half a wave of a sine: `sin(pi (n + 1/2) / M)`."""
    return _made("cosine", M, sym, dtype, device, lambda: T.prim("sin", (_index(M) + 0.5) * math.pi / T.size(M if sym else M + 1, "f64")))


@_windows("float? center=None, float tau=1.0")
def exponential(M, center, tau, sym, dtype, layout, device, requires_grad):
    """`exp(-|n - center| / tau)`; the centre is the middle of a symmetric window and may be given otherwise."""
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    tau = T.cast(tau, "f64")
    tau = required(tau > 0.0, tau, ("ValueError", "Tau must be positive, got: 0 or less instead."))
    middle = lambda: _span(M, sym) * 0.5 if center is None else T.cast(center, "f64")
    return _made("exponential", M, sym, dtype, device, lambda: T.prim("exp", -(T.prim("abs", _index(M) - middle()) / tau)))


@_windows("float std=1.0")
def gaussian(M, std, sym, dtype, layout, device, requires_grad):
    """A bell of standard deviation `std` around the middle."""
    std = T.cast(std, "f64")
    std = required(std > 0.0, std, ("ValueError", "Standard deviation must be positive, got: 0 or less instead."))

    def bell():
        t = (_index(M) - _span(M, sym) * 0.5) / std
        return T.prim("exp", t * t * -0.5)
    return _made("gaussian", M, sym, dtype, device, bell)


@_windows("float beta=12.0")
def kaiser(M, beta, sym, dtype, layout, device, requires_grad):
    """Kaiser's window: a modified Bessel function of a half circle; `beta` trades the width of the main lobe for the height of the others."""
    beta = T.cast(beta, "f64")
    beta = required(beta >= 0.0, beta, ("ValueError", "beta must be non-negative, got: less than 0 instead."))
    return _made("kaiser", M, sym, dtype, device, lambda: kaiser_form(M, sym, beta))


@_windows("Any a", _samples(a=(0.5, 0.3, 0.2)))
def general_cosine(M, a, sym, dtype, layout, device, requires_grad):
    """A weighted sum of cosines: `sum((-1)**k * a[k] * cos(2 pi k n / (M-1)))`."""
    if not a:
        raise ValueError("Coefficients cannot be empty")
    return _made("general_cosine", M, sym, dtype, device, lambda: cosines(M, sym, [float(c) for c in a]))


@_windows("float alpha=0.54")
def general_hamming(M, alpha, sym, dtype, layout, device, requires_grad):
    """`alpha - (1 - alpha) cos(2 pi n / (M-1))`."""
    alpha = T.cast(alpha, "f64")
    return _made("general_cosine", M, sym, dtype, device, lambda: cosines(M, sym, (alpha, 1.0 - alpha)))


@_windows("")
def hamming(M, sym, dtype, layout, device, requires_grad):
    """Hamming's window: `0.54 - 0.46 cos(2 pi n / (M-1))`."""
    return _made("general_cosine", M, sym, dtype, device, lambda: cosines(M, sym, (0.54, 0.46)))


@_windows("")
def hann(M, sym, dtype, layout, device, requires_grad):
    """Hann's window: `(1 - cos(2 pi n / (M-1))) / 2`."""
    return _made("general_cosine", M, sym, dtype, device, lambda: cosines(M, sym, (0.5, 0.5)))


@_windows("")
def nuttall(M, sym, dtype, layout, device, requires_grad):
    """Nuttall's window: four cosines with very low side lobes."""
    return _made("general_cosine", M, sym, dtype, device, lambda: cosines(M, sym, (0.3635819, 0.4891775, 0.1365995, 0.0106411)))


# ----------------------------------------------------------------------------------- torch.hann_window and its relatives
def _old(name, doc, parameters, form):
    """One of the older functions: `periodic` (the default) is `sym=False`, and any floating dtype may be asked for."""
    heads = ["", "bool periodic, "]
    for i in range(len(parameters)):
        heads.append("bool periodic, " + "".join(f"float {p}, " for p in parameters[:i + 1]))
    schemas = [f"{name}(SymInt window_length, {head}{_OLD_OPTIONS}) -> Tensor" for head in heads]

    def body(window_length, dtype, layout, device, pin_memory, requires_grad, periodic=True, first=None, second=None):
        if window_length < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={hint(window_length)}")
        dtype = dtype or T.default_dtype()
        if T.is_complex(dtype):
            raise NotImplementedError(f"\"arange_cpu\" not implemented for '{T.dtype_word(dtype)}'")
        if not T.is_float(dtype):
            raise RuntimeError(f"{name} expects floating point dtypes, got: {T.dtype_word(dtype)}")
        numbers = [x for x in (first, second) if x is not None]
        out = T.expand(T.const(1.0, "f64"), (window_length,)) if window_length <= 1 else form(window_length, not periodic, *numbers)
        return T.on_device(T.cast(out, dtype), device)
    samples = lambda seed=0: [Sample(m, p) for m in (0, 1, 2, 5, 33) for p in (True, False)]
    body.__doc__ = doc
    return op(schemas, rule=None, on="torch", layout="contiguous", differentiable=False, out=False, samples=samples)(body)


hann_window = _old("hann_window", "Hann's window: `(1 - cos(2 pi n / N)) / 2`, N its length, or one less if not periodic.", (), lambda m, s: cosines(m, s, (0.5, 0.5)))
hamming_window = _old("hamming_window", "Hamming's window: `alpha - beta cos(2 pi n / N)`.", ("alpha", "beta"),
                      lambda m, s, alpha=0.54, beta=0.46: cosines(m, s, (T.cast(alpha, "f64"), T.cast(beta, "f64"))))
blackman_window = _old("blackman_window", "Blackman's window: three cosines.", (), lambda m, s: cosines(m, s, (0.42, 0.5, 0.08)))
bartlett_window = _old("bartlett_window", "A triangular window.", (), triangle)
kaiser_window = _old("kaiser_window", "Kaiser's window: a modified Bessel function of a half circle, of shape `beta`.", ("beta",),
                     lambda m, s, beta=12.0: kaiser_form(m, s, beta))
