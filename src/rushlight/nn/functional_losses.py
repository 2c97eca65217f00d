"""The losses of `nn.functional` that decide something in Python before they call an operator."""
from __future__ import annotations

from collections.abc import Callable

import rushlight as rl
from rushlight import Tensor, registry


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


def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None,
                         reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0, options=None) -> Tensor:
    """`cross_entropy(linear(input, linear_weight, linear_bias), target)`; the weight may have further dimensions between classes and features.

    `options` asks torch to work in chunks of rows; the result is the same, and here the logits are made as a whole.
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
    functional, dtype = rl.nn.functional, input.dtype
    if options is not None and dtype in (rl.float16, rl.bfloat16) and options.acc_dtype in (None, rl.float32):
        # With options torch keeps the logits of half types in float32.
        input, linear_weight = input.float(), linear_weight.float()
        linear_bias, weight = (None if x is None else x.float() for x in (linear_bias, weight))
    flat_bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = functional.linear(input, linear_weight.reshape(-1, features), flat_bias).reshape(batch + outputs)
    loss = functional.cross_entropy(logits, target, weight=weight, ignore_index=-100 if ignore_index is None else ignore_index, reduction=reduction,
                                    label_smoothing=label_smoothing)
    return loss.to(dtype)
