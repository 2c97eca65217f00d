"""Windows as columns and back, and channels traded for space: unfold, fold, pixel_shuffle and their kin. All are index maps."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples_spatial import patches, shuffles
from .common import hint, numel_of, shape_text
from .sliding import Axis, all_of, batched, repeated

_NUMBERS = "int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1"


def _two(given, what):
    given = repeated(given, 2)
    if len(given) != 2:
        raise RuntimeError(f"It is expected {what} equals to 2, but got size {len(given)}")
    return given


def _axes(sizes, kernel_size, dilation, padding, stride):
    """The two dimensions with their windows, after torch's checks of the numbers."""
    kernel, dilation, padding, stride = (_two(v, w) for v, w in ((kernel_size, "kernel_size"), (dilation, "dilation"), (padding, "padding"), (stride, "stride")))
    for what, short, given in (("kernel size", "kernel", kernel), ("dilation", "dilation", dilation), ("stride", "stride", stride)):
        if any(v <= 0 for v in given):
            raise RuntimeError(f"{what} should be greater than zero, but got {short}_height: {given[0]} {short}_width: {given[1]}")
    if any(v < 0 for v in padding):
        raise RuntimeError(f"padding should be non-negative, but got pad_height: {padding[0]} pad_width: {padding[1]}")
    return [Axis(n, (n + 2 * p - d * (k - 1) - 1) // s + 1, k, s, p, d, False) for n, k, d, p, s in zip(sizes, kernel, dilation, padding, stride)]


def _columns(x, axes):
    """(N, C*KH*KW, OH*OW) of the windows of (N, C, H, W); positions outside are 0."""
    rank, tests = 6, []
    places = [T.iota(x.shape[0], 0, rank), T.iota(x.shape[1], 1, rank)]
    for d, a in enumerate(axes):
        e = T.iota(a.out, 4 + d, rank) * a.step + T.iota(a.k, 2 + d, rank) * a.dilation - a.pad
        tests += a.tests(e)
        places.append(e)
    shape = (*x.shape[:2], *(a.k for a in axes), *(a.out for a in axes))
    inside = all_of(tests)
    taps = T.load(x, places, inside, 0 if inside is not None else None, shape=shape)
    return T.reshape(taps, (x.shape[0], x.shape[1] * axes[0].k * axes[1].k, axes[0].out * axes[1].out))


def _pair(values):
    return "(" + ", ".join(str(hint(v)) for v in values) + ")"


@op(f"im2col(Tensor self, {_NUMBERS}) -> Tensor", rule=None, on="-", layout="contiguous", node="Im2ColBackward0", out=False, samples=patches("unfold"))
def im2col(self, kernel_size, dilation, padding, stride):
    """Every window of an image as a column: (N, C, H, W) to (N, C * window, number of windows). Its gradient is `col2im`."""
    if self.ndim < 3:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-self.ndim}, {self.ndim - 1}], but got 2)")
    if self.ndim not in (3, 4):
        raise RuntimeError(f"Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {shape_text(self.shape)}")
    axes = _axes(self.shape[-2:], kernel_size, dilation, padding, stride)
    if not all(a.out >= 1 for a in axes):
        raise RuntimeError(f"Given input with spatial size {_pair(self.shape[-2:])}, kernel_size={_pair(a.k for a in axes)}, dilation={_pair(a.dilation for a in axes)}, "
                           f"padding={_pair(a.pad for a in axes)}, calculated shape of the array of sliding blocks as {_pair(a.out for a in axes)}, but its "
                           "components must be at least one.")
    if not (T.is_float(self.dtype) or T.is_complex(self.dtype) or self.dtype == "b1"):
        raise NotImplementedError(f"\"im2col_out_cpu\" not implemented for '{T.dtype_word(self.dtype)}'")
    image, back = batched(self, 2)
    return back(_columns(image, axes))


@im2col.gradient("self")
def _(grad, self, kernel_size, dilation, padding, stride):
    return col2im(grad, self.shape[-2:], kernel_size, dilation, padding, stride)


@op(f"col2im(Tensor self, SymInt[2] output_size, {_NUMBERS}) -> Tensor", rule="same", on="-", layout="contiguous", node="Col2ImBackward0", out=False,
    samples=patches("fold"))
def col2im(self, output_size, kernel_size, dilation, padding, stride):
    """The sum of columns of windows at their places: the transpose of `im2col`."""
    size = _two(output_size, "output_size")
    if self.ndim not in (2, 3):
        raise RuntimeError("Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for input, but got: "
                           f"{shape_text(self.shape)}")
    axes = _axes(size, kernel_size, dilation, padding, stride)
    columns = self if self.ndim == 3 else T.reshape(self, (1, *self.shape))
    window = axes[0].k * axes[1].k
    if not columns.shape[1] % window == 0:
        raise RuntimeError(f"Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)={hint(columns.shape[1])} and "
                           f"kernel_size={_pair(a.k for a in axes)}.")
    count = axes[0].out * axes[1].out
    if not columns.shape[2] == count or not all(a.out >= 1 for a in axes):
        raise RuntimeError(f"Given output_size={_pair(size)}, kernel_size={_pair(a.k for a in axes)}, dilation={_pair(a.dilation for a in axes)}, "
                           f"padding={_pair(a.pad for a in axes)}, stride={_pair(a.step for a in axes)}, expected size of input's dimension 2 to match the calculated "
                           f"number of sliding blocks {hint(axes[0].out)} * {hint(axes[1].out)} = {hint(count)}, but got input.size(2)={hint(columns.shape[2])}.")
    if not (T.is_float(self.dtype) or T.is_complex(self.dtype) or self.dtype == "b1"):
        raise NotImplementedError(f"\"col2im_out_cpu\" not implemented for '{T.dtype_word(self.dtype)}'")
    n, c = columns.shape[0], columns.shape[1] // window
    taps = T.reshape(columns, (n, c, axes[0].k, axes[1].k, axes[0].out, axes[1].out))
    # For each position: over the taps, the window that has it there, if there is one.
    rank = 6
    places, tests = [T.iota(n, 2, rank), T.iota(c, 3, rank)], []
    ks, os = [], []
    for d, a in enumerate(axes):
        k = T.iota(a.k, d, rank)
        left = T.iota(a.n, 4 + d, rank) + a.pad - k * a.dilation
        o = left if a.step == 1 else T.prim("idiv", left, T.size(a.step, "i64"))
        tests += [left >= 0, o < T.size(a.out, "i64")] + ([] if a.step == 1 else [T.prim("eq", o * a.step, left)])
        ks.append(k)
        os.append(o)
    shape = (axes[0].k, axes[1].k, n, c, *size)
    terms = T.load(taps, [*places, *ks, *os], all_of(tests), 0, shape=shape)
    kind = "any" if self.dtype == "b1" else "sum"
    out = T.reshape(T.fold(kind, terms, (0, 1)), shape[2:])
    return out if self.ndim == 3 else T.reshape(out, out.shape[1:])


@col2im.gradient("self")
def _(grad, self, kernel_size, dilation, padding, stride):
    return im2col(grad, kernel_size, dilation, padding, stride)


# ------------------------------------------------------------------------------------------------------- channels for space
def _check_shuffle(x, name, least=3):
    if x.ndim < least:
        raise RuntimeError(f"{name} expects input to have at least {least} dimensions, but got input with {x.ndim} dimension(s)")


@op("pixel_shuffle(Tensor self, int upscale_factor) -> Tensor", rule=None, on="torch F", layout="spatial", node="PixelShuffleBackward0", out=False,
    samples=shuffles("pixel_shuffle"))
def pixel_shuffle(self, upscale_factor):
    """(*, C * r * r, H, W) as (*, C, H * r, W * r): groups of channels become pixels."""
    r = upscale_factor
    _check_shuffle(self, "pixel_shuffle")
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle expects a positive upscale_factor, but got {r}")
    *lead, c, h, w = self.shape
    if not c % (r * r) == 0:
        raise RuntimeError(f"pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, but input.size(-3)={hint(c)} is not "
                           f"divisible by {r * r}")
    k = len(lead)
    split = T.reshape(self, (*lead, c // (r * r), r, r, h, w))
    order = (*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return T.reshape(T.permute(split, order), (*lead, c // (r * r), h * r, w * r))


@op("pixel_unshuffle(Tensor self, int downscale_factor) -> Tensor", rule=None, on="torch F", layout="spatial", node="PixelUnshuffleBackward0", out=False,
    samples=shuffles("pixel_unshuffle"))
def pixel_unshuffle(self, downscale_factor):
    """(*, C, H * r, W * r) as (*, C * r * r, H, W): the inverse of `pixel_shuffle`."""
    r = downscale_factor
    _check_shuffle(self, "pixel_unshuffle")
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle expects a positive downscale_factor, but got {r}")
    *lead, c, h, w = self.shape
    for what, at, size in (("height", -2, h), ("width", -1, w)):
        if not size % r == 0:
            raise RuntimeError(f"pixel_unshuffle expects {what} to be divisible by downscale_factor, but input.size({at})={hint(size)} is not divisible by {r}")
    k = len(lead)
    split = T.reshape(self, (*lead, c, h // r, r, w // r, r))
    order = (*range(k), k, k + 2, k + 4, k + 1, k + 3)
    return T.reshape(T.permute(split, order), (*lead, c * r * r, h // r, w // r))


@op("channel_shuffle(Tensor self, SymInt groups) -> Tensor", rule=None, on="torch F", layout="spatial", node="ChannelShuffleBackward0", out=False,
    aliases=("native_channel_shuffle",), samples=shuffles("channel_shuffle"))
def channel_shuffle(self, groups):
    """The channels of `groups` groups taken in turn, one of each."""
    if self.ndim < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {shape_text(self.shape)}")
    if not groups > 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{hint(groups)}")
    n, c, *rest = self.shape
    if not c % groups == 0:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {hint(c)} channels and {hint(groups)} groups.")
    split = T.reshape(self, (n, groups, c // groups, numel_of(rest)))
    return T.reshape(T.permute(split, (0, 2, 1, 3)), self.shape)
