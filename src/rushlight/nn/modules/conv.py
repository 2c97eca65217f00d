"""Convolution layers."""
from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor

from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d",
           "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d"]

PADDINGS, MODES = {"same", "valid"}, {"zeros", "reflect", "replicate", "circular"}


def _tuple(value, dims: int) -> tuple:
    """One number for each dimension; a sequence stays what it is."""
    return tuple(value) if hasattr(value, "__iter__") else (value,) * dims


class _ConvNd(Module):
    """What all convolutions share: parameters, their first values, how they print."""

    __constants__ = ["stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels", "out_channels", "kernel_size"]
    dims = 0

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride, padding, dilation, transposed: bool, output_padding, groups: int, bias: bool,
                 padding_mode: str, device=None, dtype=None) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if out_channels % groups != 0:
            raise ValueError("out_channels must be divisible by groups")
        if isinstance(padding, str):
            if padding not in PADDINGS:
                raise ValueError(f"Invalid padding string {padding!r}, should be one of {PADDINGS}")
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in MODES:
            raise ValueError(f"padding_mode must be one of {MODES}, but got padding_mode='{padding_mode}'")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        # What F.pad wants: from the last dimension backwards, before and after each.
        if isinstance(padding, str):
            total = [d * (k - 1) if padding == "same" else 0 for d, k in zip(dilation, kernel_size)]
            self._reversed_padding_repeated_twice = [n for t in reversed(total) for n in (t // 2, t - t // 2)]
        else:
            self._reversed_padding_repeated_twice = tuple(n for p in reversed(padding) for n in (p, p))
        channels = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = Parameter(rl.empty((*channels, *kernel_size), device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(rl.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        # a = sqrt(5) makes the bound of the weight 1 / sqrt(fan_in), the same as the bias's.
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * len(self.padding):
            text += f", padding={self.padding}"
        if self.dilation != (1,) * len(self.dilation):
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * len(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text

    def __setstate__(self, state) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


class _Conv(_ConvNd):
    convolve = None

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1, bias: bool = True,
                 padding_mode: str = "zeros", device=None, dtype=None) -> None:
        d = self.dims
        padding = padding if isinstance(padding, str) else _tuple(padding, d)
        super().__init__(in_channels, out_channels, _tuple(kernel_size, d), _tuple(stride, d), padding, _tuple(dilation, d), False, (0,) * d, groups, bias,
                         padding_mode, device, dtype)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        convolve = type(self).convolve
        if self.padding_mode != "zeros":
            padded = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            return convolve(padded, weight, bias, self.stride, (0,) * self.dims, self.dilation, self.groups)
        return convolve(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """A convolution of signals, (n, in, length) -> (n, out, length'); n may be missing."""

    dims, convolve = 1, staticmethod(F.conv1d)


class Conv2d(_Conv):
    """A convolution of images, (n, in, h, w) -> (n, out, h', w'); n may be missing.

    >>> rushlight.nn.Conv2d(3, 8, 3, padding=1)(rushlight.zeros(1, 3, 16, 16)).shape
    torch.Size([1, 8, 16, 16])
    """

    dims, convolve = 2, staticmethod(F.conv2d)


class Conv3d(_Conv):
    """A convolution of volumes, (n, in, d, h, w) -> (n, out, d', h', w'); n may be missing."""

    dims, convolve = 3, staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    convolve = None

    def __init__(self, in_channels: int, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0, groups: int = 1, bias: bool = True, dilation=1,
                 padding_mode: str = "zeros", device=None, dtype=None) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {self.__class__.__name__}')
        d = self.dims
        super().__init__(in_channels, out_channels, _tuple(kernel_size, d), _tuple(stride, d), _tuple(padding, d), _tuple(dilation, d), True,
                         _tuple(output_padding, d), groups, bias, padding_mode, device, dtype)

    def _output_padding(self, input: Tensor, output_size, stride, padding, kernel_size, num_spatial_dims: int, dilation=None) -> list[int]:
        """What makes the result as large as asked for, if it can be."""
        if output_size is None:
            return list(_tuple(self.output_padding, num_spatial_dims))
        extra = input.dim() - num_spatial_dims
        if len(output_size) == input.dim():
            output_size = output_size[extra:]
        if len(output_size) != num_spatial_dims:
            raise ValueError(f"ConvTranspose{num_spatial_dims}D: for {input.dim()}D input, output_size must have {num_spatial_dims} or "
                             f"{input.dim()} elements (got {len(output_size)})")
        least, most = [], []
        for d in range(num_spatial_dims):
            size = (input.size(d + extra) - 1) * stride[d] - 2 * padding[d] + (dilation[d] if dilation is not None else 1) * (kernel_size[d] - 1) + 1
            least.append(size)
            most.append(size + stride[d] - 1)
        if any(not low <= size <= high for size, low, high in zip(output_size, least, most)):
            raise ValueError(f"requested an output size of {output_size}, but valid sizes range from {least} to {most} "
                             f"(for an input of {input.size()[extra:]})")
        return [size - low for size, low in zip(output_size, least)]

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        more = self._output_padding(input, output_size, self.stride, self.padding, self.kernel_size, self.dims, self.dilation)
        return type(self).convolve(input, self.weight, self.bias, self.stride, self.padding, more, self.groups, self.dilation)


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of Conv1d, (n, in, length) -> (n, out, length'). `forward` also takes the `output_size` wanted."""

    dims, convolve = 1, staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of Conv2d, (n, in, h, w) -> (n, out, h', w'). `forward` also takes the `output_size` wanted."""

    dims, convolve = 2, staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of Conv3d, (n, in, d, h, w) -> (n, out, d', h', w'). `forward` also takes the `output_size` wanted."""

    dims, convolve = 3, staticmethod(F.conv_transpose3d)


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution that takes `in_channels` from its first input."""

    def _wait_for_channels(self, out_channels: int, bias: bool, device, dtype) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor, *args, **kwargs) -> None:
        if not self.has_uninitialized_params():
            if self.in_channels == 0:               # the parameters were loaded
                self.in_channels = self.weight.shape[0] if self.transposed else self.weight.shape[1] * self.groups
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        if self.transposed:
            self.weight.materialize((self.in_channels, self.out_channels // self.groups, *self.kernel_size))
        else:
            self.weight.materialize((self.out_channels, self.in_channels // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_num_spatial_dims(self) -> int:
        return self.dims

    def _get_in_channels(self, input: Tensor) -> int:
        spatial = self._get_num_spatial_dims()
        if input.dim() not in (spatial + 1, spatial + 2):
            raise RuntimeError(f"Expected {spatial + 1}D (unbatched) or {spatial + 2}D (batched) input to {type(self).__name__}, "
                               f"but got input of size: {input.shape}")
        return input.shape[-spatial - 1]


class _LazyConv(_LazyConvXdMixin):
    def __init__(self, out_channels: int, kernel_size, stride=1, padding=0, dilation=1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros",
                 device=None, dtype=None) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._wait_for_channels(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(self, out_channels: int, kernel_size, stride=1, padding=0, output_padding=0, groups: int = 1, bias: bool = True, dilation=1,
                 padding_mode: str = "zeros", device=None, dtype=None) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype)
        self._wait_for_channels(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A Conv1d that takes `in_channels` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A Conv2d that takes `in_channels` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A Conv3d that takes `in_channels` from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A ConvTranspose1d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A ConvTranspose2d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A ConvTranspose3d that takes `in_channels` from its first input."""

    cls_to_become = ConvTranspose3d
