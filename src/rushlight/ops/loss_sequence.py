"""Losses of whole sequences: connectionist temporal classification."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op

_LENGTHS = "Tensor targets, Tensor starts, Tensor input_lengths, Tensor target_lengths, SymInt blank, SymInt longest"


def _ctc_rule(log_probs, *_):
    if log_probs.dtype not in ("f32", "f64"):
        raise NotImplementedError(f"\"ctc_loss_cpu\" not implemented for '{T.dtype_word(log_probs.dtype)}'")
    return "keep"


def _ints(log_probs, longest, blank):
    steps, batch, classes = log_probs.shape
    return [int(log_probs.dtype == "f64"), steps, batch, classes, longest * 2 + 1, blank]


@op(f"_ctc_loss(Tensor log_probs, {_LENGTHS}, bool zero_infinity) -> (Tensor, Tensor)", rule=_ctc_rule, promote=("log_probs",), on="-", layout="contiguous",
    out=False, node="CtcLossBackward0")
def _ctc_loss(log_probs, targets, starts, input_lengths, target_lengths, blank, longest, zero_infinity):
    """(minus the log probability of each target sequence over all its alignments, the forward variables). Target i starts at `starts[i]`
    of `targets`; `longest` is the length of the longest."""
    steps, batch, classes = log_probs.shape
    targets = T.check(targets, 0, classes, ("RuntimeError", "ctc_loss: target {value} is not a class: there are {size}"))
    outputs = [((batch,), log_probs.dtype), ((batch, steps, longest * 2 + 1), log_probs.dtype)]
    nll, alpha = T.native("ctc_forward", outputs, [log_probs, targets, starts, input_lengths, target_lengths], _ints(log_probs, longest, blank), units=batch)
    return nll, alpha


@_ctc_loss.gradient("log_probs")
def _(grads, results, log_probs, targets, starts, input_lengths, target_lengths, blank, longest, zero_infinity):
    return _ctc_loss_backward(grads[0], results[0], results[1], log_probs, targets, starts, input_lengths, target_lengths, blank, longest, zero_infinity)


@op(f"_ctc_loss_backward(Tensor slope, Tensor nll, Tensor alpha, Tensor log_probs, {_LENGTHS}, bool zero_infinity) -> Tensor", rule=None, on="-",
    layout="contiguous", out=False, node="CtcLossBackwardBackward0")
def _ctc_loss_backward(slope, nll, alpha, log_probs, targets, starts, input_lengths, target_lengths, blank, longest, zero_infinity):
    """The gradient of `_ctc_loss` for log probabilities that sum to one, as log_softmax gives them: torch's convention."""
    _, batch, classes = log_probs.shape
    room = (longest * 4 + 2 + classes) * (8 if log_probs.dtype == "f64" else 4)
    out, = T.native("ctc_backward", [(log_probs.shape, log_probs.dtype)], [slope, nll, alpha, log_probs, targets, starts, input_lengths, target_lengths],
                    [*_ints(log_probs, longest, blank), int(zero_infinity)], units=batch, scratch=room)
    return out


def _refused(x):
    """A gradient that raises when it is computed, not when it is planned: a first derivative may be asked for with create_graph."""
    error = ("RuntimeError", "derivative for aten::_ctc_loss_backward is not implemented: ctc_loss can be differentiated once")
    return T.expand(T.cast(T.check(T.const(1, "i64"), 0, 1, error), x.dtype), x.shape)


@_ctc_loss_backward.gradient("slope")
def _(slope):
    return _refused(slope)


@_ctc_loss_backward.gradient("nll")
def _(nll):
    return _refused(nll)


@_ctc_loss_backward.gradient("alpha")
def _(alpha):
    return _refused(alpha)


@_ctc_loss_backward.gradient("log_probs")
def _(log_probs):
    return _refused(log_probs)
