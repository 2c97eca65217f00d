"""Recurrent layers as functions: `torch.lstm`, `torch.gru`, `torch.rnn_tanh`, `torch.rnn_relu`, and one step of each (`torch.lstm_cell` …).

The products with the input are one matrix product for all steps; each step is then one product with the state and one fused operator (ops/recurrent.py).
Packed sequences hold their steps one after the other, with fewer and fewer of them: the state shrinks with them (or, backwards, grows).
"""
from __future__ import annotations

from collections.abc import Callable

import rushlight as rl
from rushlight import Tensor, registry

from . import functional as F

__all__ = ["lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"]


def _op(name: str): return registry.find(name).op.function


class _Kind:
    """How one kind of layer steps. A state is a tuple of tensors; the first is what the layer puts out."""

    def __init__(self, gates: int, states: int, op: str) -> None:
        self.gates, self.states, self.op = gates, states, _op(op)

    def step(self, from_input: Tensor, state: tuple, weights: _Weights) -> tuple:
        hidden = state[0]
        from_hidden = F.linear(hidden, weights.hidden, weights.hidden_bias)
        if self.states == 2:
            new_hidden, cell = self.op(from_input, from_hidden, state[1])
            return (new_hidden if weights.projection is None else F.linear(new_hidden, weights.projection)), cell
        return (self.op(from_input, from_hidden, hidden) if self.gates == 3 else self.op(from_input, from_hidden),)


class _Weights:
    """The weights of one layer in one direction."""

    __slots__ = ("input", "hidden", "input_bias", "hidden_bias", "projection")

    def __init__(self, input, hidden, input_bias=None, hidden_bias=None, projection=None) -> None:
        self.input, self.hidden, self.input_bias, self.hidden_bias, self.projection = input, hidden, input_bias, hidden_bias, projection


_LSTM, _GRU = _Kind(4, 2, "_lstm_step"), _Kind(3, 1, "_gru_step")
_TANH, _RELU = _Kind(1, 1, "_rnn_tanh_step"), _Kind(1, 1, "_rnn_relu_step")


def _grouped(params, biases: bool, projected: bool) -> list[_Weights]:
    """The flat list of weights, by layer and direction."""
    size = 2 + 2 * biases + projected
    if len(params) % size:
        raise RuntimeError(f"got an incorrect number of RNN parameters: {len(params)} is not a multiple of {size}")
    out = []
    for i in range(0, len(params), size):
        w = list(params[i:i + size])
        projection = w.pop() if projected else None
        out.append(_Weights(*w[:2], *(w[2:4] if biases else (None, None)), projection))
    return out


def _run(kind: _Kind, gates: Tensor, state: tuple, weights: _Weights, reverse: bool) -> tuple[Tensor, tuple]:
    """All steps of one layer in one direction over (time, batch, gates): the outputs, and the last state."""
    steps = gates.unbind(0)
    outputs: list = [None] * len(steps)
    for t in reversed(range(len(steps))) if reverse else range(len(steps)):
        state = kind.step(steps[t], state, weights)
        outputs[t] = state[0]
    return rl.stack(outputs), state


def _run_packed(kind: _Kind, gates: Tensor, sizes: list[int], state: tuple, weights: _Weights, reverse: bool) -> tuple[Tensor, tuple]:
    """The same over packed data, whose step t has the first `sizes[t]` sequences of the batch. A sequence's last state is the one after its own last step."""
    steps = gates.split(sizes, 0)
    outputs: list = [None] * len(steps)
    if not reverse:
        ended: list[tuple] = []                     # states of the sequences that ended, the longest last
        for t, size in enumerate(sizes):
            if size < state[0].shape[0]:
                ended.append(tuple(s[size:] for s in state))
                state = tuple(s[:size] for s in state)
            state = kind.step(steps[t], state, weights)
            outputs[t] = state[0]
        ended.append(state)
        return rl.cat(outputs), tuple(rl.cat(parts) for parts in zip(*reversed(ended)))
    first, state = state, tuple(s[:sizes[-1]] for s in state)
    for t in reversed(range(len(sizes))):
        have = state[0].shape[0]
        if sizes[t] > have:                         # these sequences end here, so backwards they begin
            state = tuple(rl.cat([s, f[have:sizes[t]]]) for s, f in zip(state, first))
        state = kind.step(steps[t], state, weights)
        outputs[t] = state[0]
    return rl.cat(outputs), state


def _layers(kind: _Kind, input: Tensor, states: tuple, params, biases: bool, layers: int, dropout: float, train: bool, bidirectional: bool,
            sizes: list[int] | None, projected: bool) -> tuple:
    directions = 2 if bidirectional else 1
    weights = _grouped(params, biases, projected)
    if len(weights) != layers * directions:
        raise RuntimeError(f"got an incorrect number of RNN parameters: weights for {len(weights)} layers and directions, expected {layers * directions}")
    per_layer = list(zip(*(s.unbind(0) for s in states)))
    lasts = []
    for layer in range(layers):
        outputs = []
        for direction in range(directions):
            w, state = weights[layer * directions + direction], per_layer[layer * directions + direction]
            gates = F.linear(input, w.input, w.input_bias)
            if sizes is None:
                output, last = _run(kind, gates, state, w, direction == 1)
            else:
                output, last = _run_packed(kind, gates, sizes, state, w, direction == 1)
            outputs.append(output)
            lasts.append(last)
        input = outputs[0] if directions == 1 else rl.cat(outputs, -1)
        if dropout and train and layer < layers - 1:
            input = F.dropout(input, dropout, True)
    return (input, *(rl.stack(parts) for parts in zip(*lasts)))


def _sequence(kind: _Kind, name: str):
    def layer(input, *args, **kwargs):
        """`(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`, or packed:
        `(data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional)`. Gives (output, last state…)."""
        names = ("hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
        sizes = None
        if len(args) > 1 and isinstance(args[0], Tensor) and (isinstance(args[1], Tensor) or isinstance(args[1], (tuple, list)) and len(args) == 8 and
                                                              isinstance(args[2], (tuple, list))):
            sizes, args = args[0].tolist(), args[1:]
        given = dict(zip(names, args), **kwargs)
        hx, batch_first = given["hx"], given.get("batch_first", False)
        states = tuple(hx) if kind.states == 2 else (hx,)
        if kind.states == 2 and len(states) != 2:
            raise RuntimeError("lstm expects two hidden states")
        projected = kind.states == 2 and states[0].shape[2] != states[1].shape[2]
        if batch_first:
            input = input.transpose(0, 1)
        output, *last = _layers(kind, input, states, given["params"], given["has_biases"], given["num_layers"], given["dropout"], given["train"],
                                given["bidirectional"], sizes, projected)
        return (output.transpose(0, 1) if batch_first else output, *last)
    layer.__name__ = layer.__qualname__ = name
    return layer


lstm, gru = _sequence(_LSTM, "lstm"), _sequence(_GRU, "gru")
rnn_tanh, rnn_relu = _sequence(_TANH, "rnn_tanh"), _sequence(_RELU, "rnn_relu")


# ------------------------------------------------------------------------------------------------------------ one step
def _check_cell(input: Tensor, hidden: Tensor, w_ih: Tensor, w_hh: Tensor, number: int = 0) -> None:
    if input.shape[1] != w_ih.shape[1]:
        raise RuntimeError(f"input has inconsistent input_size: got {input.shape[1]} expected {w_ih.shape[1]}")
    if hidden.shape[1] != w_hh.shape[1]:
        raise RuntimeError(f"hidden{number} has inconsistent hidden_size: got {hidden.shape[1]}, expected {w_hh.shape[1]}")
    if input.shape[0] != hidden.shape[0]:
        raise RuntimeError(f"Input batch size {input.shape[0]} doesn't match hidden{number} batch size {hidden.shape[0]}")


def lstm_cell(input: Tensor, hx, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: (hidden, cell)."""
    if len(hx) != 2:
        raise RuntimeError("lstm_cell expects two hidden states")
    for number, state in enumerate(hx):
        _check_cell(input, state, w_ih, w_hh, number)
    return _LSTM.step(F.linear(input, w_ih, b_ih), tuple(hx), _Weights(w_ih, w_hh, b_ih, b_hh))


def _cell(kind: _Kind, name: str) -> Callable:
    def cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> Tensor:
        """One step: the new hidden state."""
        _check_cell(input, hx, w_ih, w_hh)
        return kind.step(F.linear(input, w_ih, b_ih), (hx,), _Weights(w_ih, w_hh, b_ih, b_hh))[0]
    cell.__name__ = cell.__qualname__ = name
    return cell


gru_cell, rnn_tanh_cell, rnn_relu_cell = _cell(_GRU, "gru_cell"), _cell(_TANH, "rnn_tanh_cell"), _cell(_RELU, "rnn_relu_cell")
