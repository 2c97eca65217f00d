"""Recurrent layers: RNN, LSTM, GRU over sequences, and one step of each."""
from __future__ import annotations

import math
import numbers

import rushlight as rl
from rushlight import Tensor

from ..._C import warn
from .. import init, recurrent
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]

_FUNCTIONS = {"RNN_TANH": recurrent.rnn_tanh, "RNN_RELU": recurrent.rnn_relu, "GRU": recurrent.gru, "LSTM": recurrent.lstm}
_GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "GRU": 3, "LSTM": 4}


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    """What RNN, LSTM and GRU share: weights by layer and direction, the checks, the call."""

    __constants__ = ["mode", "input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional", "proj_size"]

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device=None, dtype=None) -> None:
        super().__init__()
        if not isinstance(dropout, numbers.Number) or not 0 <= dropout <= 1 or isinstance(dropout, bool):
            raise ValueError("dropout should be a number in range [0, 1] representing the probability of an element being zeroed")
        if dropout > 0 and num_layers == 1:
            warn(f"dropout option has no effect here: it acts between layers, and there is one (dropout={dropout}, num_layers={num_layers})")
        for name, value, kind in (("bias", bias, bool), ("batch_first", batch_first, bool), ("input_size", input_size, int), ("hidden_size", hidden_size, int)):
            if not isinstance(value, kind):
                raise TypeError(f"{name} should be of type {kind.__name__}, got: {type(value).__name__}")
            if kind is int and value <= 0:
                raise ValueError(f"{name} must be greater than zero")
        if num_layers <= 0:
            raise ValueError("num_layers must be greater than zero")
        if proj_size < 0:
            raise ValueError("proj_size should be a positive integer or zero to disable projections")
        if proj_size >= hidden_size:
            raise ValueError("proj_size has to be smaller than hidden_size")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional, self.proj_size = bias, batch_first, float(dropout), bidirectional, proj_size
        directions, rows, out_size = 2 if bidirectional else 1, _GATES[mode] * hidden_size, proj_size or hidden_size
        options = {"device": device, "dtype": dtype}
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(directions):
                width = input_size if layer == 0 else out_size * directions
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, out_size)}
                if bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                suffix = f"_l{layer}" + ("_reverse" if direction else "")
                names = [name + suffix for name in shapes]
                for name, shape in zip(names, shapes.values()):
                    setattr(self, name, Parameter(rl.empty(shape, **options)))
                self._all_weights.append(names)
        self.reset_parameters()

    @property
    def _flat_weights_names(self) -> list[str]: return [name for names in self._all_weights for name in names]
    @property
    def _flat_weights(self) -> list: return [getattr(self, name) for name in self._flat_weights_names]
    @property
    def all_weights(self) -> list[list[Parameter]]: return [[getattr(self, name) for name in names] for names in self._all_weights]

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """Weights need no special place in memory here: without effect."""

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        batch = int(batch_sizes[0]) if batch_sizes is not None else input.size(0) if self.batch_first else input.size(1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, self.proj_size or self.hidden_size

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        return (*self.get_expected_hidden_size(input, batch_sizes)[:2], self.hidden_size)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        dtype = self._flat_weights[0].dtype
        if input.dtype != dtype and not (rl._C.get_guard() & rl._C.G_AUTOCAST):
            raise ValueError(f"RNN input dtype ({input.dtype}) does not match weight dtype ({dtype}). Convert input: input.to({dtype}), "
                             f"or convert model: model.to({input.dtype})")
        expected = 2 if batch_sizes is not None else 3
        if input.dim() != expected:
            raise RuntimeError(f"input must have {expected} dimensions, got {input.dim()}")
        if self.input_size != input.size(-1):
            raise RuntimeError(f"input.size(-1) must be equal to input_size. Expected {self.input_size}, got {input.size(-1)}")

    def check_hidden_size(self, hx: Tensor, expected: tuple[int, int, int], msg: str = "Expected hidden size {}, got {}") -> None:
        if tuple(hx.size()) != expected:
            raise RuntimeError(msg.format(expected, list(hx.size())))

    def check_forward_args(self, input: Tensor, hidden, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx, permutation: Tensor | None):
        return hx if permutation is None else apply_permutation(hx, permutation)

    # ------------------------------------------------------------------------------------------------------------ the call
    def _states(self, hx) -> tuple: return hx if self.mode == "LSTM" else (hx,)

    def _check_ranks(self, hx, unbatched: bool) -> None:
        if hx is None:
            return
        want, word = (2, "unbatched 2-D") if unbatched else (3, "batched 3-D")
        if self.mode == "LSTM":
            if hx[0].dim() != want or hx[1].dim() != want:
                raise RuntimeError(f"For {word} input, hx and cx should also be {want}-D but got ({hx[0].dim()}-D, {hx[1].dim()}-D) tensors")
        elif hx.dim() != want:
            raise RuntimeError(f"For {word} input, hx should also be {want}-D but got {hx.dim()}-D tensor")

    def forward(self, input, hx=None):
        packed = isinstance(input, PackedSequence)
        batch_sizes = sorted_indices = unsorted_indices = None
        unbatched = False
        if packed:
            original, (input, batch_sizes, sorted_indices, unsorted_indices) = input, input
        else:
            if input.dim() not in (2, 3):
                name = self._get_name() if self.mode in ("LSTM", "GRU") else "RNN"
                raise ValueError(f"{name}: Expected input to be 2D or 3D, got {input.dim()}D {'tensor ' if name == 'RNN' else ''}instead")
            unbatched = input.dim() == 2
            self._check_ranks(hx, unbatched)
            if unbatched:
                batch_dim = 0 if self.batch_first else 1
                input = input.unsqueeze(batch_dim)
                if hx is not None:
                    hx = tuple(s.unsqueeze(1) for s in hx) if self.mode == "LSTM" else hx.unsqueeze(1)
        if hx is None:
            options = {"dtype": input.dtype, "device": input.device}
            hx = rl.zeros(self.get_expected_hidden_size(input, batch_sizes), **options)
            if self.mode == "LSTM":
                hx = (hx, rl.zeros(self.get_expected_cell_size(input, batch_sizes), **options))
        elif packed:
            hx = self.permute_hidden(hx, sorted_indices)
        self.check_forward_args(input, hx, batch_sizes)
        function = _FUNCTIONS[self.mode]
        rest = (self._flat_weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional)
        if packed:
            output, *last = function(input, batch_sizes, hx, *rest)
            hidden = self.permute_hidden(tuple(last) if self.mode == "LSTM" else last[0], unsorted_indices)
            return PackedSequence(output, original.batch_sizes, sorted_indices, unsorted_indices), hidden
        output, *last = function(input, hx, *rest, self.batch_first)
        if unbatched:
            output, last = output.squeeze(batch_dim), [s.squeeze(1) for s in last]
        return output, tuple(last) if self.mode == "LSTM" else last[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        for name, shown in (("proj_size", self.proj_size != 0), ("num_layers", self.num_layers != 1), ("bias", self.bias is not True),
                            ("batch_first", self.batch_first is not False), ("dropout", self.dropout != 0), ("bidirectional", self.bidirectional is not False)):
            if shown:
                text += f", {name}={getattr(self, name)}"
        return text

    def __setstate__(self, state: dict) -> None:
        super().__setstate__(state)
        for name in ("_flat_weights", "_flat_weights_names", "_flat_weight_refs"):        # torch keeps these as lists; here they are looked up
            self.__dict__.pop(name, None)
        self.__dict__.setdefault("proj_size", 0)


class RNN(RNNBase):
    """Elman's recurrence, with tanh or relu, over (time, batch, input) (with `batch_first`, (batch, time, input)), unbatched or packed sequences."""

    def __init__(self, *args, **kwargs) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self_nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self_nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self_nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self_nonlinearity}'. Select from 'tanh' or 'relu'.")
        super().__init__("RNN_" + self_nonlinearity.upper(), *args, **kwargs)
        self.nonlinearity = self_nonlinearity


class LSTM(RNNBase):
    """Long short-term memory. Takes and gives (output, (hidden, cell)); `proj_size` puts out a projection of the hidden state."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def check_forward_args(self, input: Tensor, hidden, batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes), "Expected hidden[0] size {}, got {}")
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes), "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx, permutation: Tensor | None):
        return hx if permutation is None else (apply_permutation(hx[0], permutation), apply_permutation(hx[1], permutation))


class GRU(RNNBase):
    """Gated recurrent units."""

    def __init__(self, *args, **kwargs) -> None:
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)


# ------------------------------------------------------------------------------------------------------------ one step
class RNNCellBase(Module):
    """What the cells share: their weights, and batches of one."""

    __constants__ = ["input_size", "hidden_size", "bias"]

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device=None, dtype=None) -> None:
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows = num_chunks * hidden_size
        self.weight_ih = Parameter(rl.empty((rows, input_size), **options))
        self.weight_hh = Parameter(rl.empty((rows, hidden_size), **options))
        if bias:
            self.bias_ih = Parameter(rl.empty(rows, **options))
            self.bias_hh = Parameter(rl.empty(rows, **options))
        else:
            self.register_parameter("bias_ih", None)
            self.register_parameter("bias_hh", None)
        self.reset_parameters()

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def reset_parameters(self) -> None:
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _check_rank(self, tensor: Tensor, what: str) -> None:
        if tensor.dim() not in (1, 2):
            raise ValueError(f"{self._get_name()}: Expected {what} to be 1D or 2D, got {tensor.dim()}D instead")

    def _zeros(self, input: Tensor) -> Tensor:
        return rl.zeros(input.size(0), self.hidden_size, dtype=input.dtype, device=input.device)

    def _step(self, function, input: Tensor, hx: Tensor | None) -> Tensor:
        self._check_rank(input, "input")
        if hx is not None:
            self._check_rank(hx, "hidden")
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        hx = self._zeros(input) if hx is None else hx if batched else hx.unsqueeze(0)
        out = function(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return out if batched else out.squeeze(0)


class RNNCell(RNNCellBase):
    """One step of an RNN."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        functions = {"tanh": recurrent.rnn_tanh_cell, "relu": recurrent.rnn_relu_cell}
        if self.nonlinearity not in functions:
            raise RuntimeError(f"Unknown nonlinearity: {self.nonlinearity}")
        return self._step(functions[self.nonlinearity], input, hx)


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (hidden, cell)."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        self._check_rank(input, "input")
        for i, state in enumerate(hx or ()):
            self._check_rank(state, f"hx[{i}]")
        batched = input.dim() == 2
        input = input if batched else input.unsqueeze(0)
        if hx is None:
            zeros = self._zeros(input)
            hx = (zeros, zeros)
        elif not batched:
            hx = (hx[0].unsqueeze(0), hx[1].unsqueeze(0))
        hidden, cell = recurrent.lstm_cell(input, hx, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return (hidden, cell) if batched else (hidden.squeeze(0), cell.squeeze(0))


class GRUCell(RNNCellBase):
    """One step of a GRU."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._step(recurrent.gru_cell, input, hx)
