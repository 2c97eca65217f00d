"""Convolutions: all of them are `T.conv` or its transpose `T.conv_input`, with different views of their operands."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import convolving
from .common import hint, shape_text

_CPP_NAME = {"u8": "unsigned char", "i8": "signed char", "i16": "short int", "i32": "int", "i64": "long int", "f16": "c10::Half",
             "bf16": "c10::BFloat16", "f32": "float", "f64": "double", "c64": "c10::complex<float>", "c128": "c10::complex<double>"}


def _one_dtype(input, weight, bias, *_):
    if input.dtype != weight.dtype:
        raise RuntimeError(f"Input type (torch.{T.dtype_word(input.dtype)}Tensor) and weight type (torch.{T.dtype_word(weight.dtype)}Tensor) should be the "
                           "same or input should be a MKLDNN tensor and weight is a dense tensor")
    if bias is not None and bias.dtype != input.dtype:
        names = [_CPP_NAME.get(x.dtype, T.dtype_word(x.dtype)) for x in (input, bias)]
        raise RuntimeError(f"Input type ({names[0]}) and bias type ({names[1]}) should be the same")
    if input.dtype in ("u16", "u32", "u64"):               # as torch: no product of matrices of these
        raise NotImplementedError(f"\"slow_conv{3 if weight.ndim == 5 else 2}d_cpu\" not implemented for '{T.dtype_word(input.dtype)}'")
    return "match"


def _node(given):
    """An unbatched call is a batch of one, squeezed."""
    return "ConvolutionBackward0" if given["input"].ndim == given["weight"].ndim else "SqueezeBackward1"


_OPTIONS = dict(rule=_one_dtype, on="torch F", out=False, layout="convolution", refuses="b", node=_node)


# ------------------------------------------------------------------------------------------------------------------ arguments
def _batched(name, input, dims):
    """input with a batch, or torch's error."""
    if input.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {name}, but got input of size: {shape_text(input.shape)}")
    return input if input.ndim == dims + 2 else T.reshape(input, (1, *input.shape))


def _each(values, dims, what):
    """One number for every dimension."""
    values = tuple(values)
    if len(values) == 1: return values * dims
    if len(values) != dims:
        raise RuntimeError(f"expected {what} to be a single integer value or a list of {dims} values to match the convolution dimensions, "
                           f"but got {what}={shape_text(values)}")
    return values


def _check_numbers(stride, padding, dilation, output_padding, groups):
    if any(p < 0 for p in padding): raise RuntimeError("negative padding is not supported")
    if any(p < 0 for p in output_padding): raise RuntimeError("negative output_padding is not supported")
    if any(s <= 0 for s in stride): raise RuntimeError("non-positive stride is not supported")
    if any(d < 0 for d in dilation): raise RuntimeError("dilation should be greater than zero")
    if any(d == 0 for d in dilation): raise RuntimeError("non-positive dilation is not supported")
    if groups <= 0: raise RuntimeError("non-positive groups is not supported")


def _check_rank(input, weight):
    if input.ndim != weight.ndim:
        raise RuntimeError(f"Expected {weight.ndim}-dimensional input for {weight.ndim}-dimensional weight {shape_text(weight.shape)}, but got "
                           f"{input.ndim}-dimensional input of size {shape_text(input.shape)} instead")


def _check_shapes(input, weight, bias, groups, transposed):
    """The words of torch's checks, in its order."""
    given = f"weight of size {shape_text(weight.shape)}"
    _check_rank(input, weight)
    if not weight.shape[0] >= groups:
        raise RuntimeError(f"Given groups={hint(groups)}, expected weight to be at least {hint(groups)} at dimension 0, but got {given} instead")
    if not weight.shape[0] % groups == 0:
        raise RuntimeError(f"Given groups={hint(groups)}, expected weight to be divisible by {hint(groups)} at dimension 0, but got {given} instead")
    wanted = weight.shape[0] if transposed else weight.shape[1] * groups
    if not input.shape[1] == wanted:
        raise RuntimeError(f"Given {'transposed=1' if transposed else f'groups={hint(groups)}'}, {given}, expected input{shape_text(input.shape)} to have "
                           f"{hint(wanted)} channels, but got {hint(input.shape[1])} channels instead")
    filters = weight.shape[1] * groups if transposed else weight.shape[0]
    if bias is not None and not (bias.ndim == 1 and bias.shape[0] == filters):
        raise RuntimeError(f"Given {'transposed=1, ' if transposed else ''}{given}, expected bias to be 1-dimensional with {hint(filters)} elements, but got "
                           f"bias of size {shape_text(bias.shape)} instead")


def _check_window(input, weight, padding, dilation):
    reach = [d * (k - 1) + 1 for d, k in zip(dilation, weight.shape[2:])]
    padded = [n + 2 * p for n, p in zip(input.shape[2:], padding)]
    if any(p < r for p, r in zip(padded, reach)):
        show = lambda sizes: "(" + " x ".join(str(hint(s)) for s in sizes) + ")"
        raise RuntimeError(f"Calculated padded input size per channel: {show(padded)}. Kernel size: {show(reach)}. "
                           "Kernel size can't be greater than actual input size")
    _check_not_empty(input, weight)


def _check_not_empty(input, weight):
    """What torch's kernels refuse: images and filters without extent, filters of no channels."""
    if any(n == 0 for n in input.shape[2:]) and not (input.shape[0] == 0 or input.shape[1] == 0):
        raise RuntimeError(f"Only zero batch or zero channel inputs are supported, but got input shape: {shape_text(input.shape)}")
    if any(k == 0 for k in weight.shape[2:]):
        raise RuntimeError(f"kernel size should be greater than zero, but got {shape_text(weight.shape[2:])}")
    if weight.shape[1] == 0 and not (input.shape[0] == 0 or input.shape[1] == 0):
        raise RuntimeError(f"non-empty {'2D or 4D' if weight.ndim < 5 else '5D'} weight tensor expected, but got: {shape_text(weight.shape)}")


def _three(values, fill):
    """Missing leading dimensions are of size 1."""
    values = tuple(values)
    return (fill,) * (3 - len(values)) + values


def _volume(x): return T.reshape(x, (*x.shape[:2], *_three(x.shape[2:], 1)))


# --------------------------------------------------------------------------------------------------------------- computation
def _forward(input, weight, bias, stride, padding, dilation, groups, size):
    """The convolution with the spatial extents `size`; padding is what is before the image, whatever is needed after it is zeros."""
    out = T.conv(_volume(input), _volume(weight), _three(stride, 1), _three(padding, 0), _three(dilation, 1), groups, _three(size, 1))
    return T.reshape(_with_bias(out, bias), (input.shape[0], weight.shape[0], *size))


def _transposed(input, weight, bias, stride, padding, dilation, groups, size):
    out = T.conv_input(_volume(input), _volume(weight), _three(stride, 1), _three(padding, 0), _three(dilation, 1), groups, _three(size, 1))
    return T.reshape(_with_bias(out, bias), (input.shape[0], groups * weight.shape[1], *size))


def _with_bias(out, bias): return out if bias is None else out + T.reshape(bias, (1, bias.shape[0], 1))


def _convolution(input, weight, bias, stride, padding, dilation, groups, transposed=False, output_padding=(0,)):
    dims = weight.ndim - 2
    if dims < 1 or dims > 3: raise RuntimeError(f"weight should have at least three dimensions and at most five, but its shape is {shape_text(weight.shape)}")
    stride, padding, dilation = _each(stride, dims, "stride"), _each(padding, dims, "padding"), _each(dilation, dims, "dilation")
    output_padding = _each(output_padding, dims, "output_padding")
    _check_numbers(stride, padding, dilation, output_padding, groups)
    _check_shapes(input, weight, bias, groups, transposed)
    if not transposed:
        _check_window(input, weight, padding, dilation)
        size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(input.shape[2:], padding, dilation, weight.shape[2:], stride)]
        return _forward(input, weight, bias, stride, padding, dilation, groups, size)
    _check_output_padding(output_padding, stride, dilation)
    size = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1
            for n, p, d, k, s, o in zip(input.shape[2:], padding, dilation, weight.shape[2:], stride, output_padding)]
    _check_not_empty(input, weight)
    if any(n <= 0 for n in size):
        raise RuntimeError(f"Given input size per channel: {shape_text(input.shape[2:])}. Calculated output size per channel: {shape_text(size)}. "
                           "Output size is too small")
    return _transposed(input, weight, bias, stride, padding, dilation, groups, size)


def _check_output_padding(output_padding, stride, dilation):
    if all(o < s or o < d for o, s, d in zip(output_padding, stride, dilation)): return
    names = ["depth", "height", "width"][3 - len(stride):]
    words = [f"{what}_{name}: {hint(v)}" for what, values in (("output_padding", output_padding), ("stride", stride), ("dilation", dilation))
             for name, v in zip(names, values)]
    raise RuntimeError("output padding must be smaller than either stride or dilation, but got " + " ".join(words))


def _named_padding(input, weight, bias, stride, padding, dilation, groups):
    """padding='valid' is none; 'same' keeps the size: the odd one of an uneven padding is at the end."""
    if padding not in ("same", "valid"): raise RuntimeError(f"Invalid padding string: '{padding}'")
    dims = weight.ndim - 2
    if padding == "valid": return _convolution(input, weight, bias, stride, (0,), dilation, groups)
    _check_rank(input, weight)
    stride, dilation = _each(stride, dims, "stride"), _each(dilation, dims, "dilation")
    if any(d <= 0 for d in dilation): raise RuntimeError("dilation should be greater than zero")
    if any(not s == 1 for s in stride): raise RuntimeError("padding='same' is not supported for strided convolutions")
    _check_numbers(stride, (), dilation, (), groups)
    _check_shapes(input, weight, bias, groups, False)
    before = [d * (k - 1) // 2 for d, k in zip(dilation, weight.shape[2:])]
    if any(d % 2 == 1 and k % 2 == 0 for d, k in zip(dilation, weight.shape[2:])):
        T.warn("padding='same' with an even kernel and an odd dilation pads one more at the end than at the beginning (elsewhere that costs a copy of the input)", once=True)
    return _forward(input, weight, bias, stride, before, dilation, groups, list(input.shape[2:]))


def _conv(dims, input, weight, bias, stride, padding, dilation, groups):
    x = _batched(f"conv{dims}d", input, dims)
    out = (_named_padding if isinstance(padding, str) else _convolution)(x, weight, bias, stride, padding, dilation, groups)
    return out if x is input else T.reshape(out, out.shape[1:])


def _conv_transpose(dims, input, weight, bias, stride, padding, output_padding, groups, dilation):
    x = _batched(f"conv_transpose{dims}d", input, dims)
    out = _convolution(x, weight, bias, stride, padding, dilation, groups, True, output_padding)
    return out if x is input else T.reshape(out, out.shape[1:])


# ------------------------------------------------------------------------------------------------------------- the operators
def _schemas(d):
    head = f"conv{d}d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{d}] stride=1, "
    tail = f"SymInt[{d}] dilation=1, SymInt groups=1) -> Tensor"
    return [f"{head}SymInt[{d}] padding=0, {tail}", f'{head}str padding="valid", {tail}']


def _transpose_schema(d):
    return (f"conv_transpose{d}d(Tensor input, Tensor weight, Tensor? bias=None, SymInt[{d}] stride=1, SymInt[{d}] padding=0, SymInt[{d}] output_padding=0, "
            f"SymInt groups=1, SymInt[{d}] dilation=1) -> Tensor")


@op(_schemas(1), samples=convolving(1), kernel="slow_conv2d_cpu", **_OPTIONS)
def conv1d(input, weight, bias, stride, padding, dilation, groups):
    """Sums of products of a filter with each window of a signal: input [n, channels, length] (or without n), weight [filters, channels / groups, taps].

    >>> rushlight.conv1d(rushlight.tensor([[[1.0, 2.0, 3.0]]]), rushlight.tensor([[[1.0, -1.0]]]))
    tensor([[[-1., -1.]]])
    """
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


@op(_schemas(2), samples=convolving(2), kernel="slow_conv2d_cpu", **_OPTIONS)
def conv2d(input, weight, bias, stride, padding, dilation, groups):
    """Sums of products of a filter with each window of an image: input [n, channels, h, w] (or without n), weight [filters, channels / groups, h, w].
    The result is channels_last if one of the two is."""
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


@op(_schemas(3), samples=convolving(3), kernel="slow_conv3d_cpu", **_OPTIONS)
def conv3d(input, weight, bias, stride, padding, dilation, groups):
    """Sums of products of a filter with each window of a volume: input [n, channels, d, h, w] (or without n), weight [filters, channels / groups, d, h, w]."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


@op(_transpose_schema(1), samples=convolving(1, transposed=True), kernel="slow_conv_transpose2d_out_cpu", **_OPTIONS)
def conv_transpose1d(input, weight, bias, stride, padding, output_padding, groups, dilation):
    """The transpose of conv1d as a linear map of its input. weight is [channels, filters / groups, taps]; `output_padding` lengthens the result at its end."""
    return _conv_transpose(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@op(_transpose_schema(2), samples=convolving(2, transposed=True), kernel="slow_conv_transpose2d_out_cpu", **_OPTIONS)
def conv_transpose2d(input, weight, bias, stride, padding, output_padding, groups, dilation):
    """The transpose of conv2d as a linear map of its input. weight is [channels, filters / groups, h, w]; `output_padding` picks one of the sizes that
    conv2d with this stride maps to the input's."""
    return _conv_transpose(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@op(_transpose_schema(3), samples=convolving(3, transposed=True), kernel="slow_conv_transpose3d_out_cpu", **_OPTIONS)
def conv_transpose3d(input, weight, bias, stride, padding, output_padding, groups, dilation):
    """The transpose of conv3d as a linear map of its input."""
    return _conv_transpose(3, input, weight, bias, stride, padding, output_padding, groups, dilation)


@op("convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, "
    "SymInt groups) -> Tensor", samples=convolving(2, general=True), kernel="slow_conv2d_cpu", **{**_OPTIONS, "on": "torch"})
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """What conv1d to conv_transpose3d all are: as many dimensions as weight has, forward or transposed."""
    return _convolution(input, weight, bias, stride, padding, dilation, groups, transposed, output_padding)


@op("conv_tbc(Tensor self, Tensor weight, Tensor bias, SymInt pad=0) -> Tensor", rule="float_match", on="torch Tensor F", out=False, layout="contiguous",
    samples=convolving(1, time_first=True), refuses="b", node="ConvTbcBackward0")
def conv_tbc(self, weight, bias, pad):
    """conv1d with the time first: self is [time, batch, channels], weight [taps, channels, filters]."""
    if self.ndim != 3: raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.ndim != 3: raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    if bias.ndim != 1: raise RuntimeError("Bias must be 1-D")
    if not self.shape[2] == weight.shape[1]: raise RuntimeError("Input dim 2 (input channels) is not == dim 1 in the weight tensor")
    if not weight.shape[2] == bias.shape[0]: raise RuntimeError("Bias size must match dim 2 in the weight tensor (output channels).")
    size = self.shape[0] - weight.shape[0] + 2 * pad + 1
    if size < 0: raise RuntimeError("Input time dimension is shorter than the filter")
    x, w = T.permute(self, (1, 2, 0)), T.permute(weight, (2, 1, 0))
    return T.permute(_forward(x, w, bias, (1,), (pad,), (1,), 1, [size]), (2, 0, 1))


