"""One step of the recurrent layers after their products: gates in, state out. The products are `linear`'s, the loop over time is nn/recurrent.py's."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from .activation import relu
from .elementwise import sigmoid, tanh


def _parts(gates, count):
    """The gates side by side in the last dimension, apart."""
    last = gates.ndim - 1
    width = gates.shape[last] // count
    return [T.slice(gates, last, width * i, width * (i + 1), 1) for i in range(count)]


def _state_samples(gates: int, with_state: bool):
    def make(seed=0):
        import numpy as np

        from ..samples import Sample
        rng = np.random.default_rng(seed)
        draw = lambda *shape: rng.standard_normal(shape).astype("float32")
        return [Sample(draw(*lead, gates * hidden), draw(*lead, gates * hidden), *([draw(*lead, hidden)] if with_state else []))
                for lead, hidden in (((3,), 5), ((1,), 33), ((4,), 16), ((), 3))]
    return make


@op("_lstm_step(Tensor from_input, Tensor from_hidden, Tensor cell) -> (Tensor, Tensor)", rule="float!", on="-", out=False, layout="contiguous",
    node="ThnnFusedLstmCellBackward0", samples=_state_samples(4, True))
def _lstm_step(from_input, from_hidden, cell):
    """The input, forget, cell and output gates of a long short-term memory, applied to its cell."""
    i, f, g, o = _parts(from_input + from_hidden, 4)
    new_cell = sigmoid(f) * cell + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(new_cell), new_cell


@op("_gru_step(Tensor from_input, Tensor from_hidden, Tensor hidden) -> Tensor", rule="float!", on="-", out=False, layout="contiguous",
    node="ThnnFusedGruCellBackward0", samples=_state_samples(3, True))
def _gru_step(from_input, from_hidden, hidden):
    """The reset, update and new gates of a gated recurrent unit, applied to its state."""
    (reset_i, update_i, new_i), (reset_h, update_h, new_h) = _parts(from_input, 3), _parts(from_hidden, 3)
    new = tanh(new_i + sigmoid(reset_i + reset_h) * new_h)
    return (hidden - new) * sigmoid(update_i + update_h) + new


@op("_rnn_tanh_step(Tensor from_input, Tensor from_hidden) -> Tensor", rule="float!", on="-", out=False, layout="contiguous", node="TanhBackward0",
    samples=_state_samples(1, False))
def _rnn_tanh_step(from_input, from_hidden):
    """The plain recurrence: tanh of the sum."""
    return tanh(from_input + from_hidden)


@op("_rnn_relu_step(Tensor from_input, Tensor from_hidden) -> Tensor", rule="float!", on="-", out=False, layout="contiguous", node="ReluBackward0",
    samples=_state_samples(1, False))
def _rnn_relu_step(from_input, from_hidden):
    """The plain recurrence: relu of the sum."""
    return relu(from_input + from_hidden)
