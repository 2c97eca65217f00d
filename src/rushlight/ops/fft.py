"""Fourier transforms: three routines of the runtime (complex, real to complex, complex to real), and torch's eighteen functions over them."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import transforms
from .common import OUT_PARAMETER_DTYPE, hint, numel_of, wrap_dim

NO_SCALE, BY_ROOT, BY_SIZE = 0, 1, 2
MODES = {None: (NO_SCALE, BY_SIZE), "backward": (NO_SCALE, BY_SIZE), "ortho": (BY_ROOT, BY_ROOT), "forward": (BY_SIZE, NO_SCALE)}     # forward, inverse
BLOCK = 16                           # csrc/fft_plan.h: lines side by side that are one unit of work


def _transform(name, x, d, out_size, dtype, length, options, scale, size):
    """One dimension by a routine; `options` between its sizes and its scale."""
    if T.real_dtype(x.dtype) not in ("f32", "f64"):          # the routines take every other dtype for single precision
        raise RuntimeError(f"MKL FFT doesn't support tensors of type: {T.dtype_word(T.real_dtype(x.dtype))}")
    outer, inner = numel_of(x.shape[:d]), numel_of(x.shape[d + 1:])
    units = outer if inner == 1 else outer * ((inner + BLOCK - 1) // BLOCK)
    double = int(T.real_dtype(x.dtype) == "f64")
    cost = outer * length * inner * (64 if double else 32)
    out, = T.native(name, [((outer, out_size, inner), dtype)], [T.reshape(x, (outer, x.shape[d], inner))], (double, outer, length, inner, options, scale, size),
                    units=units, cost=cost)
    return T.reshape(out, (*x.shape[:d], out_size, *x.shape[d + 1:]))


@op("_fft_c2c(Tensor self, int[] dim, int normalization, bool forward) -> Tensor", on="-", out=False)
def _fft_c2c(self, dim, normalization, forward):
    """The complex transform of some dimensions; the last one scales."""
    size = numel_of(self.shape[d] for d in dim)
    out = self
    for i, d in enumerate(dim):
        scale = normalization if i == len(dim) - 1 else NO_SCALE
        out = _transform("fft_c2c", out, d, out.shape[d], out.dtype, out.shape[d], int(forward), scale, size)
    return out


@_fft_c2c.gradient("self")
def _(grad, dim, normalization, forward):
    return _fft_c2c(grad, dim, normalization, not forward)


@op("_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided) -> Tensor", once=True, on="-", out=False)
def _fft_r2c(self, dim, normalization, onesided):
    """The transform of real numbers: half of the last dimension, the other half being its mirror image."""
    size, last = numel_of(self.shape[d] for d in dim), dim[-1]
    n, rest = self.shape[last], dim[:-1]
    wanted = n // 2 + 1 if onesided else n
    out = _transform("fft_r2c", self, last, wanted, T.complex_dtype(self.dtype), n, int(not onesided), NO_SCALE if rest else normalization, size)
    for i, d in enumerate(rest):
        out = _transform("fft_c2c", out, d, out.shape[d], out.dtype, out.shape[d], 1, normalization if i == len(rest) - 1 else NO_SCALE, size)
    return out


@_fft_r2c.gradient("self")
def _(grad, self, dim, normalization, onesided):
    last = dim[-1]
    if onesided: grad = T.pad(grad, last, 0, self.shape[last] - grad.shape[last])
    return T.prim("real", _fft_c2c(grad, dim, normalization, False))


@op("_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size) -> Tensor", on="-", out=False)
def _fft_c2r(self, dim, normalization, last_dim_size):
    """The inverse of `_fft_r2c`: real numbers from half of a spectrum."""
    last, out = dim[-1], self
    size = last_dim_size * numel_of(self.shape[d] for d in dim[:-1])
    for d in dim[:-1]:
        out = _transform("fft_c2c", out, d, out.shape[d], out.dtype, out.shape[d], 0, NO_SCALE, size)
    return _transform("fft_c2r", out, last, last_dim_size, T.real_dtype(self.dtype), last_dim_size, 0, normalization, size)


@_fft_c2r.gradient("self")
def _(grad, dim, normalization, last_dim_size):
    last = dim[-1]
    half = _fft_r2c(grad, dim, normalization, True)
    place = T.iota(half.shape[last], last, half.ndim)
    twice = (place > 0) & (place < T.size(last_dim_size - half.shape[last] + 1))        # those that stand for their mirror images too
    return T.where(twice, half * 2, half)


# ------------------------------------------------------------------------------------------------------------ torch's arguments
def _promoted(x, name, wants_complex):
    if x.dtype in T.HALF:
        raise RuntimeError(f"Unsupported dtype {T.dtype_word(x.dtype)}")
    if not (T.is_float(x.dtype) or T.is_complex(x.dtype)): x = T.cast(x, T.default_dtype())
    return T.cast(x, T.complex_dtype(x.dtype)) if wants_complex and not T.is_complex(x.dtype) else x


def _mode(norm, forward):
    if norm not in MODES:
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return MODES[norm][0 if forward else 1]


def _need_points(n):
    if not n >= 1:
        raise RuntimeError(f"Invalid number of data points ({hint(n)}) specified")


def _resized(x, sizes):
    """Each named dimension cut or filled with zeros to its size."""
    for d, n in sizes.items():
        have = x.shape[d]
        if have == n: continue
        x = T.slice(x, d, 0, n) if have > n else T.pad(x, d, 0, n - have)
    return x


def _one_dim(x, dim):
    if x.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    return wrap_dim(dim, x.ndim)


def _several(x, s, dim, name):
    """(dims, sizes): torch's defaults and refusals."""
    if dim is not None:
        dims = [_one_dim(x, d) for d in dim]
        if len(set(dims)) < len(dims):
            raise RuntimeError("FFT dims must be unique")
    if s is not None:
        if dim is not None and len(dim) != len(s):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
        if len(s) > x.ndim:
            raise RuntimeError(f"Got shape with {len(s)} values but input tensor only has {x.ndim} dimensions.")
        if dim is None: dims = list(range(x.ndim - len(s), x.ndim))
    elif dim is None: dims = list(range(x.ndim))
    sizes = []
    for i, d in enumerate(dims):
        n = x.shape[d] if s is None or s[i] == -1 else s[i]
        sizes.append(n)
    return dims, sizes


# Layouts: as torch's library leaves them: what is transformed last is innermost.
def _layout_of_dims(given, kind):
    x = given["self"]
    if x is None or x.ndim == 0: return "contiguous"
    if "n" in given: return f"transformed {_one_dim(x, given['dim'])}"
    try: dims, _ = _several(x, given["s"], given["dim"], "")
    except (RuntimeError, IndexError): return "contiguous"               # the body raises it
    if not dims: return "contiguous"
    words = [str(d) for d in dims]
    if kind == "complex": return "transformed sorted " + " ".join(words)
    return "transformed " + " ".join(words[-1:] + words[:-1] if kind == "conjugate" and len(words) > 1 else words)


def _forward_complex(name, forward):
    """fft, ifft and their forms of several dimensions."""
    def one(self, n, dim, norm):
        x = _promoted(self, name, False)
        d = _one_dim(x, dim)
        size = x.shape[d] if n is None else n
        _need_points(size)
        mode, x = _mode(norm, forward), _resized(x, {d: size})
        if T.is_complex(x.dtype): return _fft_c2c(x, (d,), mode, forward)
        out = _fft_r2c(x, (d,), mode, False)
        return out if forward else T.conj(out)

    def several(self, s, dim, norm):
        x = _promoted(self, name, True)
        dims, sizes = _several(x, s, dim, name)
        for n in sizes: _need_points(n)
        mode, x = _mode(norm, forward), _resized(x, dict(zip(dims, sizes)))
        return _fft_c2c(x, tuple(dims), mode, forward) if dims else T.copy(x)
    return one, several


def _real_only(x, name, words):
    if T.is_complex(x.dtype):
        raise RuntimeError(words.format(name=name, dtype=T.dtype_word(x.dtype)))


def _from_real(name, conjugate):
    """rfft and ihfft: real numbers to half a spectrum."""
    def one(self, n, dim, norm):
        _real_only(self, name, "{name} expects a real input tensor, but got {dtype}")
        x = _promoted(self, name, False)
        d = _one_dim(x, dim)
        size = x.shape[d] if n is None else n
        _need_points(size)
        out = _fft_r2c(_resized(x, {d: size}), (d,), _mode(norm, not conjugate), True)
        return T.conj(out) if conjugate else out

    def several(self, s, dim, norm):
        _real_only(self, name, "Only supports floating-point dtypes, but found: {dtype}" if conjugate else "{name} expects a real-valued input tensor, but got {dtype}")
        x = _promoted(self, name, False)
        dims, sizes = _several(x, s, dim, name)
        if not dims: raise RuntimeError(f"{name} must transform at least one axis")
        for n in sizes: _need_points(n)
        mode, x = _mode(norm, not conjugate), _resized(x, dict(zip(dims, sizes)))
        out = _fft_r2c(x, tuple(dims), mode, True)
        if not conjugate: return out
        # The other dimensions go the other way: of a real signal that is the conjugate in all.
        return T.conj(out)
    return one, several


def _to_real(name, conjugate):
    """irfft and hfft: half a spectrum to real numbers."""
    def one(self, n, dim, norm):
        x = _promoted(self, name, True)
        d = _one_dim(x, dim)
        size = 2 * (x.shape[d] - 1) if n is None else n
        _need_points(size)
        x = _resized(x, {d: size // 2 + 1})
        return _fft_c2r(T.conj(x) if conjugate else x, (d,), _mode(norm, conjugate), size)

    def several(self, s, dim, norm):
        x = _promoted(self, name, True)
        dims, sizes = _several(x, s, dim, name)
        if not dims: raise RuntimeError(f"{name} must transform at least one axis")
        if s is None or s[-1] == -1: sizes[-1] = 2 * (x.shape[dims[-1]] - 1)
        for n in sizes: _need_points(n)
        mode, size = _mode(norm, conjugate), sizes[-1]
        x = _resized(x, dict(zip(dims, [*sizes[:-1], size // 2 + 1])))
        return _fft_c2r(T.conj(x) if conjugate else x, tuple(dims), mode, size)
    return one, several


def _define(name, pair, doc, kind):
    """The three forms of a transform: of one dimension, of two, of any."""
    node = {"complex": "FftC2CBackward0", "real": "FftR2CBackward0", "conjugate": "ConjBackward0", "inverse": "FftC2RBackward0"}[kind]
    layout = lambda given: _layout_of_dims(given, kind)
    options = dict(on="fft", layout=layout, node=node)
    one, several = pair
    if name in ("rfft", "ihfft"): options["once"] = True                 # torch's transform of real numbers keeps them
    single = {**options, "once": lambda given: not T.is_complex(given["self"].dtype)} if name in ("fft", "ifft") else options

    @op(f"{name}(Tensor self, SymInt? n=None, int dim=-1, str? norm=None) -> Tensor", samples=transforms(kind, 1), **single)
    def of_one(self, n, dim, norm): return one(self, n, dim, norm)

    @op(f"{name}2(Tensor self, SymInt[1]? s=None, int[1] dim=[-2, -1], str? norm=None) -> Tensor", samples=transforms(kind, 2), **options)
    def of_two(self, s, dim, norm): return several(self, s, dim, norm)

    @op(f"{name}n(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None) -> Tensor", samples=transforms(kind, 2), **options)
    def of_any(self, s, dim, norm): return several(self, s, dim, norm)
    for definition, words in ((of_one, "along one dimension"), (of_two, "along two dimensions"), (of_any, "along any dimensions")):
        definition.__doc__ = "\n".join(s.text for s in definition.signatures) + f"\n\n{doc}, {words}."
    return of_one, of_two, of_any


fft, fft2, fftn = _define("fft", _forward_complex("fft", True), "The discrete Fourier transform", "complex")
ifft, ifft2, ifftn = _define("ifft", _forward_complex("ifft", False), "The inverse discrete Fourier transform", "complex")
rfft, rfft2, rfftn = _define("rfft", _from_real("rfft", False), "The transform of real numbers: the half that determines the other", "real")
irfft, irfft2, irfftn = _define("irfft", _to_real("irfft", False), "The inverse of rfft: real numbers", "inverse")
hfft, hfft2, hfftn = _define("hfft", _to_real("hfft", True), "The transform of a Hermitian signal given by its half: real numbers", "inverse")
ihfft, ihfft2, ihfftn = _define("ihfft", _from_real("ihfft", True), "The inverse of hfft", "conjugate")


# ---------------------------------------------------------------------------------------------------------------- helpers
def _rotated(x, d, by):
    """Elements moved `by` places along d, those that leave coming in at the other end."""
    n = x.shape[d]
    if n == 0: return x
    i = T.iota(n, d, x.ndim) - by
    places = [T.where(i < 0, i + n, i) if k == d else T.iota(s, k, x.ndim) for k, s in enumerate(x.shape)]
    return T.load(x, places, shape=x.shape)


def _shift(name, amount, doc):
    @op(f"{name}(Tensor self, int[1]? dim=None) -> Tensor", on="fft", layout="contiguous", out=False, node="RollBackward0", samples=transforms("shift", 0))
    def shift(self, dim):
        out = self
        for d in range(self.ndim) if dim is None else [wrap_dim(d, self.ndim) for d in dim]:      # named twice: turned twice
            out = _rotated(out, d, amount(self.shape[d]))
        return T.copy(out)
    shift.__doc__ = shift.__doc__ + doc
    return shift


fftshift = _shift("fftshift", lambda n: n // 2, "Frequencies in order, from the most negative: what fft returns, turned by half its length.")
ifftshift = _shift("ifftshift", lambda n: (n + 1) // 2, "The inverse of fftshift.")
FACTORY = "ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool? requires_grad=False"


def _frequencies(name, count, doc):
    @op(f"{name}(SymInt n, float d=1.0, *, {FACTORY}) -> Tensor", on="fft", layout="contiguous", differentiable=False, out=OUT_PARAMETER_DTYPE,
        samples=transforms("frequencies", 0))
    def frequencies(n, d, dtype, layout, device, pin_memory, requires_grad):
        dtype = T.as_dtype(dtype) or T.default_dtype()
        if not T.is_float(dtype) and not T.is_complex(dtype): raise RuntimeError(f"{name} requires a floating point or complex dtype")
        k = T.iota(count(n), 0, 1)
        if name == "fftfreq": k = T.where(k < (n + 1) // 2, k, k - n)
        wide = T.compute_dtype(dtype) if T.is_float(dtype) else "f64"
        step = T.const(1.0, "f64") / (T.size(n, "f64") * T.cast(d, "f64"))
        return T.on_device(T.cast(T.cast(k, wide) * T.cast(step, wide), dtype), device)
    frequencies.__doc__ = frequencies.__doc__ + doc
    return frequencies


fftfreq = _frequencies("fftfreq", lambda n: n, "The frequencies that fft's results belong to, in cycles per unit of the sample spacing `d`.")
rfftfreq = _frequencies("rfftfreq", lambda n: n // 2 + 1, "The frequencies that rfft's results belong to.")
