"""The losses of `nn.functional` that decide something in Python before they call an operator."""
from __future__ import annotations

from collections.abc import Callable

import rushlight as rl
from rushlight import Tensor, registry

from .._C import warn


def _op(name: str):
    return registry.find(name).op.function


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
                         reduction: str = "mean") -> Tensor:
    """The input where the target is 1; where it is -1, how far the input falls short of the margin."""
    return _op("_hinge_embedding_loss")(input, target.detach(), margin, size_average, reduce, reduction)      # the target chooses: it has no gradient


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
                          reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """One minus the cosine of two vectors where the target is 1; where it is -1, how far the cosine is above the margin."""
    return _op("_cosine_embedding_loss")(input1, input2, target.detach(), margin, size_average, reduce, reduction)


def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *,
                                      distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
                                      reduction: str = "mean") -> Tensor:
    """How far the anchor is from being closer to the positive than to the negative, by the margin, in a distance of one's own."""
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = anchor.dim(), positive.dim(), negative.dim()
    if len(set(ranks)) > 1:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
                           f"anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs")
    distance = distance_function or rl.nn.functional.pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = rl.minimum(far, distance(positive, negative))
    loss = rl.clamp_min(margin + near - far, 0)
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


class _ChunkedRows(rl.autograd.Function):
    """The loss of each row; logits exist for `rows` rows at a time, in the backward too."""

    @staticmethod
    def _loss(x, weight, bias, target, class_weight, ignored):
        logits = rl.nn.functional.linear(x, weight, bias)
        return rl.nn.functional.cross_entropy(logits, target, weight=class_weight, ignore_index=ignored, reduction="none")

    @staticmethod
    def forward(ctx, x, weight, bias, target, class_weight, ignored, rows):
        ctx.save_for_backward(x, weight, bias, target, class_weight)
        ctx.ignored, ctx.rows = ignored, rows
        parts = [_ChunkedRows._loss(x[i:i + rows], weight, bias, target[i:i + rows], class_weight, ignored) for i in range(0, x.shape[0], rows)]
        return rl.cat(parts) if parts else x.new_zeros((0,))

    @staticmethod
    def backward(ctx, grad):
        x, weight, bias, target, class_weight = ctx.saved_tensors
        again, rows = rl.is_grad_enabled(), ctx.rows           # with create_graph the gradients are part of a graph themselves
        shared = [t for t in (weight, bias) if t is not None]
        if not again:
            shared = [t.detach().requires_grad_() for t in shared]
        parts, sums = [], [rl.zeros_like(t) for t in shared]
        for i in range(0, x.shape[0], rows):
            part = x[i:i + rows] if again else x[i:i + rows].detach()
            part = part if part.requires_grad else part.requires_grad_()
            with rl.enable_grad():
                loss = _ChunkedRows._loss(part, shared[0], shared[1] if bias is not None else None, target[i:i + rows], class_weight, ctx.ignored)
            first, *others = rl.autograd.grad(loss, [part, *shared], grad[i:i + rows], create_graph=again)
            parts.append(first)
            sums = [a + b for a, b in zip(sums, others)]
        dx = rl.cat(parts) if parts else rl.zeros_like(x)
        return dx, sums[0], sums[1] if bias is not None else None, None, None, None, None


def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None,
                         reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0, options=None) -> Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)`; the weight may have further dimensions between classes and features.

    With `options` the logits are made, and in the backward made again, a chunk of rows at a time: there are never more of them than that.
    """
    if not 1 <= input.dim() <= 2:
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}")
    batch, features = tuple(input.shape[:-1]), input.shape[-1]
    if features != linear_weight.shape[-1]:
        raise RuntimeError("expected equal input and linear_weight last dimensions (in_features), "
                           f"got {features} and {linear_weight.shape[-1]}, respectively")
    outputs = tuple(linear_weight.shape[:-1])                 # classes, then the dimensions of a loss with several
    if linear_bias is not None and tuple(linear_bias.shape) != outputs:
        raise RuntimeError(f"expected linear_bias shape {outputs}, got {tuple(linear_bias.shape)}")
    if len(outputs) > 1 and not batch:
        raise RuntimeError(f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} requires batched input, (N, {features}), "
                           f"got unbatched input with shape {tuple(input.shape)}")
    if tuple(target.shape) == batch + outputs and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    dtype = input.dtype
    if rl.is_autocast_enabled("cpu"):
        pass                                    # the linear layer and the loss are cast as such
    elif dtype in (rl.float16, rl.bfloat16) and (options is None or options.acc_dtype in (None, rl.float32)):
        # The logits of half types stay float32, as inside one operator.
        input, linear_weight = input.float(), linear_weight.float()
        linear_bias, weight = (None if x is None else x.float() for x in (linear_bias, weight))
    ignored = -100 if ignore_index is None else ignore_index
    chunked = options is not None and len(outputs) == 1 and label_smoothing == 0.0 and target.dtype is rl.int64 and reduction in ("mean", "sum", "none")
    if options is not None and not chunked:
        warn("linear_cross_entropy: the options are ignored, and all logits are made at once. Chunks need a matrix of weights, whole-numbered targets and no label smoothing.")
    if chunked and batch:
        rows = options.chunk_rows(batch[0], features, outputs[0]) if hasattr(options, "chunk_rows") else options.batch_chunk_size or batch[0]
        loss = _ChunkedRows.apply(input, linear_weight, linear_bias, target, weight, ignored, rows)
        if reduction == "none":
            return loss.to(dtype)
        if reduction == "sum":
            return loss.sum().to(dtype)
        kept = (target != ignored).to(loss.dtype)
        total = kept.sum() if weight is None else (weight[target.clamp(0, outputs[0] - 1)] * kept).sum()
        return (loss.sum() / total).to(dtype)
    functional = rl.nn.functional
    flat_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = functional.linear(input, linear_weight.reshape(-1, features), flat_bias).reshape(batch + outputs)
    loss = functional.cross_entropy(logits, target, weight=weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing)
    return loss if rl.is_autocast_enabled("cpu") else loss.to(dtype)


def _lengths(value, name: str, batch: int) -> list[int]:
    """Lengths as a list of ints, from a tensor or a sequence."""
    if isinstance(value, Tensor):
        if value.is_floating_point() or value.is_complex() or value.dtype is rl.bool:
            raise RuntimeError(f"{name} must be integral")
        value = value.reshape(-1).tolist()
    elif isinstance(value, int):
        value = [value]
    if any(not isinstance(n, int) for n in value):
        raise TypeError(f"ctc_loss() received an invalid combination of arguments: {name} must be Tensor or tuple of ints")
    if len(value) != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    return list(value)


_CHECKING = "(while checking arguments for ctc_loss_allocate_outputs)"


def _check_targets(targets: Tensor, lengths: list[int], batch: int) -> list[int]:
    """Where each target begins in the flattened targets."""
    if targets.dim() == 1:                                   # one after the other
        starts = [0]
        for n in lengths:
            starts.append(starts[-1] + n)
        if targets.shape[0] != starts[-1]:
            raise RuntimeError(f"Expected tensor to have size {starts[-1]} at dimension 0, but got size {targets.shape[0]} for argument #2 'targets' {_CHECKING}")
        return starts[:-1]
    if targets.dim() != 2:
        raise RuntimeError(f"Expected 1 to 2 dimensions, but got {targets.dim()}-dimensional tensor for argument #2 'targets' {_CHECKING}")
    if targets.shape[0] != batch:
        raise RuntimeError(f"Expected tensor to have size {batch} at dimension 0, but got size {targets.shape[0]} for argument #2 'targets' {_CHECKING}")
    if targets.shape[1] < max(lengths, default=0):
        raise RuntimeError(f"Expected tensor to have size at least {max(lengths)} at dimension 1, but got size {targets.shape[1]} for argument #2 'targets' "
                           f"{_CHECKING}")
    return [i * targets.shape[1] for i in range(batch)]


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths, target_lengths, blank: int = 0, reduction: str = "mean",
             zero_infinity: bool = False) -> Tensor:
    """Connectionist temporal classification: minus the log probability of the target labels over all their alignments with the input.

    `log_probs` is (time, batch, classes) or (time, classes), from log_softmax. Targets are (batch, longest), or all labels in one row. A target that is
    too long for its input has an infinite loss, with `zero_infinity` 0 and no gradient. 'mean' divides by the target lengths first.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    batched = log_probs.dim() == 3
    if log_probs.dim() not in (2, 3):
        raise RuntimeError(f"Expected 3-dimensional tensor, but got {log_probs.dim() + 1}-dimensional tensor for argument #1 'log_probs' {_CHECKING}")
    if not batched:
        log_probs = log_probs.unsqueeze(1)
        targets = targets.unsqueeze(0) if targets.dim() == 1 else targets
    time, batch, classes = log_probs.shape
    sizes, labels = _lengths(input_lengths, "input_lengths", batch), _lengths(target_lengths, "target_lengths", batch)
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    for n in labels:
        if n < 0:
            raise RuntimeError(f"Expected target_lengths to have value at least 0, but got value {n} {_CHECKING}")
    starts = _check_targets(targets, labels, batch)
    for n in sizes:
        if not 0 <= n <= time:
            which, limit = ("least", 0) if n < 0 else ("most", time)
            raise RuntimeError(f"Expected input_lengths to have value at {which} {limit}, but got value {n} {_CHECKING}")
    whole = lambda values: rl.tensor(values, dtype=rl.int64)
    loss, _ = _op("_ctc_loss")(log_probs, targets.reshape(-1).to(rl.int64), whole(starts), whole(sizes), whole(labels), blank, max(labels, default=0),
                               zero_infinity)
    if zero_infinity:
        loss = rl.where(loss == float("inf"), rl.zeros_like(loss), loss)
    if reduction == "none":
        return loss if batched else loss.squeeze(0)
    if reduction == "sum":
        return loss.sum()
    return (loss / whole(labels).clamp_min(1)).mean()
