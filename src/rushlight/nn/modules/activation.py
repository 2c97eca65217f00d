"""Activation functions as modules.

The in-place forms go through the function's `inplace` argument; the others call the function alone, so that the
module adds nothing to it.
"""
from __future__ import annotations

import rushlight as rl
from rushlight import Tensor

from ..._C import warn
from .. import functional as F
from ..parameter import Parameter
from .module import Module

__all__ = [
    "Threshold", "ReLU", "RReLU", "Hardtanh", "ReLU6", "Sigmoid", "Hardsigmoid", "Tanh", "SiLU", "Mish", "Hardswish", "ELU", "CELU",
    "SELU", "GLU", "GELU", "Hardshrink", "LeakyReLU", "LogSigmoid", "Softplus", "Softshrink", "PReLU", "Softsign", "Tanhshrink",
    "Softmin", "Softmax", "Softmax2d", "LogSoftmax",
]


class Threshold(Module):
    """`x` where `x > threshold`, `value` elsewhere."""

    __constants__ = ["threshold", "value", "inplace"]

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        if self.inplace:
            return F.threshold(input, self.threshold, self.value, inplace=True)
        return F.threshold(input, self.threshold, self.value)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}{_inplace_text(self)}"


def _inplace_text(module, lead: str = ", ") -> str:
    return f"{lead}inplace=True" if module.inplace else ""


class _Activation(Module):
    """An activation without parameters of its own: `function` names it in `nn.functional`."""

    __constants__ = ["inplace"]
    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return _inplace_text(self, lead="")


class ReLU(_Activation):
    """`max(0, x)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=True) if self.inplace else F.relu(input)


class SiLU(_Activation):
    """`x * sigmoid(x)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=True) if self.inplace else F.silu(input)


class Mish(_Activation):
    """`x * tanh(softplus(x))`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=True) if self.inplace else F.mish(input)


class Hardsigmoid(_Activation):
    """`relu6(x + 3) / 6`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, inplace=True) if self.inplace else F.hardsigmoid(input)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_Activation):
    """`x * relu6(x + 3) / 6`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, inplace=True) if self.inplace else F.hardswish(input)

    def extra_repr(self) -> str:
        return ""


class SELU(_Activation):
    """The scaled exponential linear unit, whose constants keep mean 0 and variance 1."""

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, inplace=True) if self.inplace else F.selu(input)


class RReLU(Module):
    """Leaky relu with a random slope in training and the mean slope in evaluation."""

    __constants__ = ["lower", "upper", "inplace"]

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"lower={self.lower}, upper={self.upper}{_inplace_text(self)}"


class Hardtanh(Module):
    """`x` held between two bounds."""

    __constants__ = ["min_val", "max_val", "inplace"]

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False,
                 min_value: float | None = None, max_value: float | None = None) -> None:
        super().__init__()
        if min_value is not None:
            warn("keyword argument `min_value` is deprecated and rename to `min_val`", FutureWarning)
            min_val = min_value
        if max_value is not None:
            warn("keyword argument `max_value` is deprecated and rename to `max_val`", FutureWarning)
            max_val = max_value
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})")

    def forward(self, input: Tensor) -> Tensor:
        if self.inplace:
            return F.hardtanh(input, self.min_val, self.max_val, inplace=True)
        return F.hardtanh(input, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{_inplace_text(self)}"


class ReLU6(Hardtanh):
    """`x` held between 0 and 6."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return _inplace_text(self, lead="")


class Sigmoid(Module):
    def forward(self, input: Tensor) -> Tensor:
        return rl.sigmoid(input)


class Tanh(Module):
    def forward(self, input: Tensor) -> Tensor:
        return rl.tanh(input)


class LogSigmoid(Module):
    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class _AlphaActivation(Module):
    __constants__ = ["alpha", "inplace"]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_inplace_text(self)}"


class ELU(_AlphaActivation):
    """`x` above zero, `alpha * (exp(x) - 1)` below."""

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, inplace=True) if self.inplace else F.elu(input, self.alpha)


class CELU(_AlphaActivation):
    """`max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, inplace=True) if self.inplace else F.celu(input, self.alpha)


class GLU(Module):
    """The first half of a dimension times the sigmoid of the second."""

    __constants__ = ["dim"]

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class GELU(Module):
    """`x` times the normal distribution's share below `x`; `approximate="tanh"` computes it by tanh."""

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _Shrink(Module):
    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """`x` where its size exceeds `lambd`, else 0."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """`x` moved towards zero by `lambd`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class LeakyReLU(Module):
    """`x` above zero, `negative_slope * x` below."""

    __constants__ = ["inplace", "negative_slope"]

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        if self.inplace:
            return F.leaky_relu(input, self.negative_slope, inplace=True)
        return F.leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{_inplace_text(self)}"


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`, and `x` itself past the threshold."""

    __constants__ = ["beta", "threshold"]

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """Leaky relu whose slope is learned, one for all channels or one each."""

    __constants__ = ["num_parameters"]

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device=None, dtype=None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(rl.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        with rl.no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _AlongDim(Module):
    __constants__ = ["dim"]
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


def _implicit_dim(name: str, rank: int) -> int:
    """The dimension of old that stands for None: the first of one and three dimensions, else the second."""
    warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an "
         "argument.")
    return 0 if rank in (0, 1, 3) else 1


class Softmax(_AlongDim):
    """exp(x) divided by its sum along a dimension."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim if self.dim is not None else _implicit_dim("softmax", input.dim()))


class Softmin(_AlongDim):
    """softmax(-x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim if self.dim is not None else _implicit_dim("softmin", input.dim()))


class LogSoftmax(_AlongDim):
    """log(softmax(x)), computed without leaving the logarithm."""

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim if self.dim is not None else _implicit_dim("log_softmax", input.dim()))


class Softmax2d(Module):
    """Softmax over the channels of each pixel."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3)


def __getattr__(name: str):
    if name == "MultiheadAttention":                # torch keeps it in this module
        from .attention import MultiheadAttention
        return MultiheadAttention
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
