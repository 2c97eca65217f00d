"""Short-time Fourier transforms: stft, and istft, its inverse by overlapped addition."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import transforms
from .common import hint, required, shape_text
from .fft import BY_ROOT, BY_SIZE, NO_SCALE, _fft_c2c, _fft_c2r, _fft_r2c
from .pad import _pad_around

NAMES = {"f32": "torch.FloatTensor", "f64": "torch.DoubleTensor", "c64": "torch.ComplexFloatTensor", "c128": "torch.ComplexDoubleTensor", "f16": "torch.HalfTensor",
         "bf16": "torch.BFloat16Tensor", "i64": "torch.LongTensor", "i32": "torch.IntTensor", "b1": "torch.BoolTensor"}


def _text(x): return "None" if x is None else f"{NAMES.get(x.dtype, x.dtype)}{{{shape_text(x.shape)}}}"


def _call(name, x, n_fft, hop, width, window, **more):
    """A call in torch's words, which its errors begin with."""
    rest = "".join(f", {k}={int(v) if isinstance(v, bool) else v}" for k, v in more.items())
    return f"{name}({_text(x)}, n_fft={n_fft}, hop_length={hop}, win_length={width}, window={_text(window)}{rest}) : "


def _framing_window(window, win_length, n_fft, dtype):
    """The window in the middle of a frame; None: nothing to multiply by."""
    left = (n_fft - win_length) // 2
    if window is None:
        if win_length == n_fft: return None
        window = T.expand(T.const(1, dtype), (win_length,))
    return T.pad(window, 0, left, n_fft - win_length - left) if win_length < n_fft else window


def _places(frames, n_fft, hop):
    """Where each element of each frame lies in the signal: [1, frame, element]."""
    return T.iota(frames, 1, 3) * hop + T.iota(n_fft, 2, 3)


def _stft_layout(given):
    rank = given["self"].ndim + 1
    return "columns" if given["return_complex"] is not False else f"transformed {rank - 1} {rank - 2} {rank}"


@op("stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, str pad_mode='reflect', bool normalized=False, "
    "bool? onesided=None, bool? return_complex=None, bool? align_to_window=None) -> Tensor", once=True, out=False, layout=_stft_layout, node="TransposeBackward0",
    samples=transforms("stft", 0))
def stft(self, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex, align_to_window):
    """The Fourier transforms of a signal's overlapping windows, `hop_length` apart: [..., frequency, frame]."""
    hop, length = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    call = _call("stft", self, n_fft, hop, length, window, normalized=normalized, onesided=onesided, return_complex=return_complex)
    wide = T.is_complex(self.dtype) or window is not None and T.is_complex(window.dtype)
    if return_complex is None and not wide:
        raise RuntimeError("stft requires the return_complex parameter be given for real inputs, and will further require that return_complex=True in a future PyTorch release.")
    if align_to_window is not None and center:
        raise RuntimeError(f"{call}align_to_window should only be set when center = false.")
    if not (T.is_float(self.dtype) or T.is_complex(self.dtype)):
        raise RuntimeError(f"{call}expected a tensor of floating point or complex values")
    if self.ndim not in (1, 2):
        raise RuntimeError(f"{call}expected a 1D or 2D tensor")
    x = self if self.ndim == 2 else T.unsqueeze(self, 0)
    if center:
        around = n_fft // 2
        x = T.pad(x, 1, around, around) if pad_mode == "constant" else T.squeeze(_pad_around(T.unsqueeze(x, 0), (around, around), pad_mode), (0,))
    size = x.shape[1]
    if n_fft <= 0 or not n_fft <= size:
        raise RuntimeError(f"{call}expected 0 < n_fft < {hint(size)}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{call}expected hop_length > 0, but got hop_length={hop}")
    if length <= 0 or length > n_fft:
        raise RuntimeError(f"{call}expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and not (window.ndim == 1 and window.shape[0] == length):
        raise RuntimeError(f"{call}expected a 1D window tensor of size equal to win_length={length}, but got window with size {shape_text(window.shape)}")
    if window is None: T.warn("stft() without a window has every frame end abruptly, which leaks over all frequencies. hann_window(n_fft) is usual; ones(n_fft) says that none is wanted.", once=True)
    if return_complex is False: T.warn("stft(return_complex=False) is deprecated: view_as_real of the complex result is the same", once=True)
    half = not wide if onesided is None else onesided
    if half and wide:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    count = 1 + (size - n_fft) // hop
    frames = T.load(x, [T.iota(x.shape[0], 0, 3), _places(count, n_fft, hop)], shape=(x.shape[0], count, n_fft))
    shape = _framing_window(window, length, n_fft, x.dtype)
    if shape is not None: frames = frames * shape
    scale = BY_ROOT if normalized else NO_SCALE
    out = _fft_c2c(frames, (2,), scale, True) if T.is_complex(frames.dtype) else _fft_r2c(frames, (2,), scale, half)
    out = T.transpose(out, 1, 2)
    if self.ndim == 1: out = T.reshape(out, out.shape[1:])
    if return_complex is not False: return out
    return T.cat([T.unsqueeze(T.prim(part, out), out.ndim) for part in ("real", "imag")], -1)


@op("istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, bool center=True, bool normalized=False, bool? onesided=None, "
    "int? length=None, bool return_complex=False) -> Tensor", out=False, layout="contiguous", node="DivBackward0", samples=transforms("istft", 0))
def istft(self, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex):
    """The signal of a short-time transform: each frame transformed back, windowed and added, divided by the sum of the squared windows."""
    hop, width = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    call = _call("istft", self, n_fft, hop, width, window, center=center, normalized=normalized, onesided=onesided, length=length, return_complex=return_complex)
    if not T.is_complex(self.dtype):
        raise RuntimeError(f"{call}istft requires a complex-valued input tensor matching the output from stft with return_complex=True.")
    if self.numel() == 0:
        raise RuntimeError(f"{call}input tensor cannot be empty.")
    if self.ndim not in (2, 3):
        raise RuntimeError(f"{call}expected a tensor with 2 or 3 dimensions, but got {self.ndim}")
    if window is None: T.warn("istft() without a window inverts an stft without one; otherwise it needs the same window. ones(n_fft) says that none was used.", once=True)
    x = self if self.ndim == 3 else T.unsqueeze(self, 0)
    size, count = x.shape[1], x.shape[2]
    half = not size == n_fft if onesided is None else onesided
    if half and not size == n_fft // 2 + 1:
        raise RuntimeError(f"{call}expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 when onesided=True, but got {hint(size)}")
    if not half and not size == n_fft:
        raise RuntimeError(f"{call}expected the frequency dimension (3rd to the last) of the input tensor to match n_fft when onesided=False, but got {hint(size)}")
    if not 0 < hop <= width: raise RuntimeError(f"{call}expected 0 < hop_length <= win_length")
    if not 0 < width <= n_fft: raise RuntimeError(f"{call}expected 0 < win_length <= n_fft")
    if window is not None and not (window.ndim == 1 and window.shape[0] == width):
        raise RuntimeError(f"{call}Invalid window shape. window has to be 1D and length of `win_length`")
    if return_complex and half:
        raise RuntimeError(f"{call}Cannot have onesided output if window or input is complex")
    frames = T.transpose(x, 1, 2)
    scale = BY_ROOT if normalized else BY_SIZE
    if return_complex: frames = _fft_c2c(frames, (2,), scale, False)
    else: frames = _fft_c2r(frames if half else T.slice(frames, 2, 0, n_fft // 2 + 1), (2,), scale, n_fft)
    shape = _framing_window(window, width, n_fft, T.real_dtype(x.dtype))
    if shape is None: shape = T.expand(T.const(1, T.real_dtype(x.dtype)), (n_fft,))
    signal = _overlapped(frames * shape, count, n_fft, hop)
    squares = T.expand(T.reshape(shape * shape, (1, 1, n_fft)), (1, count, n_fft))
    envelope = _overlapped(squares, count, n_fft, hop)
    total = n_fft + hop * (count - 1)
    start = n_fft // 2 if center else 0
    end = total - n_fft // 2 if center and length is None else total if length is None else start + length
    cut = end if end <= total else total
    signal, envelope = T.slice(signal, 1, start, cut), T.slice(envelope, 1, start, cut)
    fine = T.const(1e-11, T.real_dtype(x.dtype)) < T.prim("abs", envelope)
    out = signal / required(fine, envelope, ("RuntimeError", f"{call}window overlap add min: 1"))
    if not end <= total: out = T.pad(out, 1, 0, end - total)
    return T.reshape(out, out.shape[1:]) if self.ndim == 2 else out


def _overlapped(frames, count, n_fft, hop):
    """Frames added where they lie."""
    base = T.expand(T.const(0, frames.dtype), (frames.shape[0], n_fft + hop * (count - 1)))
    return T.scatter(base, [T.iota(frames.shape[0], 0, 3), _places(count, n_fft, hop)], frames, "add")
