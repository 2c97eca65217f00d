"""Operators on tensors, without state: PyTorch's `torch.nn.functional`.

Most names here are the operators themselves, taken from the registry. Written out are only the functions that decide something
in Python first: which form to run (`inplace=`, `training=`), or which state to update.
"""
from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor, faces, registry

from .._C import warn

globals().update(faces.functions("F"))
_face = globals().__getitem__
from .spatial import *  # noqa: E402, F403 - windows and geometry, a file of their own


def _op(name: str):
    return registry.find(name).op.function


# ---------------------------------------------------------------------------------------------- activations with `inplace=`
def _inplace_form(name: str):
    """The operator's own in-place form; an operator without one is computed from a copy, which is what its gradient keeps."""
    try:
        definition = registry.find(name)
        if definition.inplace:
            return definition.op.inplace_function
    except KeyError:
        pass
    function = _face(name) if name in globals() else getattr(rl, name)
    return lambda input, *args: input.copy_(function(input.clone(), *args))


_relu, _relu_ = rl.relu, _inplace_form("relu")
_hardtanh, hardtanh_ = _face("hardtanh"), _inplace_form("hardtanh")
_leaky_relu, leaky_relu_ = _face("leaky_relu"), _inplace_form("leaky_relu")
_elu, elu_ = _face("elu"), _inplace_form("elu")
_celu, celu_ = rl.celu, _inplace_form("celu")
_selu, selu_ = rl.selu, _inplace_form("selu")
_silu, _silu_ = _face("silu"), _inplace_form("silu")
_mish, _mish_ = _face("mish"), _inplace_form("mish")
_hardsigmoid, _hardsigmoid_ = _face("hardsigmoid"), _inplace_form("hardsigmoid")
_hardswish, _hardswish_ = _face("hardswish"), _inplace_form("hardswish")
_threshold, threshold_ = _face("threshold"), _inplace_form("threshold")
relu_ = _relu_


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """`max(0, x)`."""
    return _relu_(input) if inplace else _relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """`x` held between 0 and 6."""
    return hardtanh_(input, 0.0, 6.0) if inplace else _hardtanh(input, 0.0, 6.0)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` held between two bounds."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return hardtanh_(input, min_val, max_val) if inplace else _hardtanh(input, min_val, max_val)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """`x` above zero, `negative_slope * x` below."""
    return leaky_relu_(input, negative_slope) if inplace else _leaky_relu(input, negative_slope)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`x` above zero, `alpha * (exp(x) - 1)` below."""
    return elu_(input, alpha) if inplace else _elu(input, alpha)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """`max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return celu_(input, alpha) if inplace else _celu(input, alpha)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """The scaled exponential linear unit."""
    return selu_(input) if inplace else _selu(input)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """`x * sigmoid(x)`."""
    return _silu_(input) if inplace else _silu(input)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """`x * tanh(softplus(x))`."""
    return _mish_(input) if inplace else _mish(input)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """`relu6(x + 3) / 6`."""
    return _hardsigmoid_(input) if inplace else _hardsigmoid(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """`x * relu6(x + 3) / 6`."""
    return _hardswish_(input) if inplace else _hardswish(input)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """`x` where it is above the threshold, `value` elsewhere."""
    return threshold_(input, threshold, value) if inplace else _threshold(input, threshold, value)


def rrelu(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False) -> Tensor:
    """Leaky relu; in training the slope is random, otherwise the middle of [lower, upper]."""
    return _rrelu(input, lower, upper, training, inplace)


def _rrelu(input: Tensor, lower: float, upper: float, training: bool, inplace: bool, generator=None) -> Tensor:
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, but got {lower} and {upper}")
    if training:
        result = _op("_rrelu_training")(input, lower, upper, generator=generator)
        return input.copy_(result) if inplace else result
    return leaky_relu(input, (lower + upper) / 2, inplace)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """`rrelu` in place."""
    return rrelu(input, lower, upper, training, inplace=True)


def sigmoid(input: Tensor) -> Tensor:
    """`1 / (1 + exp(-x))`."""
    return rl.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent."""
    return rl.tanh(input)


# ----------------------------------------------------------------------------------------------------------------- dropout
def _check_probability(p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def _drop(op: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability(p)
    if not training or p == 0.0 or input.numel() == 0:
        return input                                # nothing is drawn
    result = input * 0.0 if p == 1.0 else _op(op)(input, p)
    return input.copy_(result) if inplace else result


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability p and scale the rest by 1 / (1 - p)."""
    return _drop("_dropout", input, p, training, inplace)


def _channel_dropout(input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    """Zero whole channels (dimension 1) with probability p and scale the rest by 1 / (1 - p)."""
    return _drop("_feature_dropout", input, p, training, inplace)


def _feature_drop(name: str, ranks: tuple[int, int], input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _check_probability(p)
    rank = input.dim()
    if rank not in ranks:
        if name == "dropout1d":
            raise RuntimeError(f"dropout1d: Expected 2D or 3D input, but received a {rank}D input: channels, with one dimension of space each, and perhaps a batch of them")
        warn(f"{name}: Received a {rank}-D input, of which it drops whole entries of the second dimension. That is deprecated: {ranks[0]} dimensions are channels of {ranks[0] - 1}-D space, {ranks[1]} a batch "
             "of those. dropout takes any.")
    if name == "dropout2d" and rank == 3:
        warn("dropout2d: Received a 3-D input, which is taken for (N, C, L). As one image (C, H, W) it would mean something else, and is to: dropout1d says that (N, C, L) is meant.")
        return _channel_dropout(input, p, training, inplace)
    if rank == ranks[0]:                            # one sample: give it a batch dimension for the draw
        result = _channel_dropout(input.unsqueeze(0), p, training, False).squeeze(0)
        return input.copy_(result) if inplace else result
    return _channel_dropout(input, p, training, inplace)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, L)."""
    return _feature_drop("dropout1d", (2, 3), input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, H, W)."""
    return _feature_drop("dropout2d", (3, 4), input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Dropout of whole channels of (N, C, D, H, W)."""
    return _feature_drop("dropout3d", (4, 5), input, p, training, inplace)


_ALPHA = 1.7580993408473766         # SELU's alpha times its scale: what a dropped value is set to, negated


def _alpha_drop(input: Tensor, p: float, training: bool, inplace: bool, features: bool) -> Tensor:
    _check_probability(p)
    if not training or p == 0.0 or input.numel() == 0:
        return input
    if p == 1.0:
        result = input * 0.0
    else:
        if features and input.dim() < 2:
            raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
        noise = input.new_empty(tuple(input.shape[:2]) + (1,) * (input.dim() - 2)) if features else rl.empty_like(input)
        noise.bernoulli_(1 - p)
        # Scale and shift so that mean 0 and variance 1 survive the replacement of dropped values by -alpha.
        a = 1.0 / math.sqrt((_ALPHA * _ALPHA * p + 1) * (1 - p))
        shift = noise.sub(1).mul_(_ALPHA * a).add_(_ALPHA * a * p)
        result = input * noise.mul_(a) + shift
    return input.copy_(result) if inplace else result


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean 0 and variance 1, for SELU networks."""
    return _alpha_drop(input, p, training, inplace, features=False)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """alpha_dropout of whole channels."""
    return _alpha_drop(input, p, training, inplace, features=True)


# ----------------------------------------------------------------------------------------------------------- normalisation
_batch_norm_train = _op("_batch_norm_train")
_batch_norm_eval = _op("_batch_norm_eval")
_running_update_ = _op("_running_update_")


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """Each channel (dimension 1) brought to mean 0 and variance 1: by this batch in training, by the running statistics otherwise.

    In training the running statistics move towards the batch's, its variance unbiased.
    """
    if training is not True and training is not False:
        raise TypeError(f"batch_norm(): argument 'training' (position 6) must be bool, not {type(training).__name__}")
    if input.numel() == 0:                          # nothing to normalise; the parameters still get a gradient
        out = input.clone()
        for parameter, join in ((weight, rl.mul), (bias, rl.add)):
            out = out if parameter is None else join(out, parameter[0])
        return out
    if not training:
        for name, value in (("running_mean", running_mean), ("running_var", running_var)):
            if value is None:
                raise RuntimeError(f"{name} must be defined in evaluation mode")
        return _batch_norm_eval(input, running_mean, running_var, weight, bias, eps)
    if eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    for name, value in (("running_mean", running_mean), ("running_var", running_var)):     # before weight and bias, as torch has it
        if value is not None and value.numel() != input.shape[1]:
            raise RuntimeError(f"{name} should contain {input.shape[1]} elements not {value.numel()}")
    out, mean, var = _batch_norm_train(input, weight, bias, eps)
    if running_mean is not None and running_var is not None:
        with rl.no_grad():
            _running_update_(running_mean, running_var, mean, var, momentum)
    return out


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """`x` divided by its norm along a dimension, which counts as at least `eps`."""
    denominator = input.norm(p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return rl.div(input, denominator, out=out) if out is not None else input / denominator


# --------------------------------------------------------------------------------------------------------------- embedding
_embedding = _op("_embedding")


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """The rows of `weight` named by `input`. The row `padding_idx` gets no gradient; rows longer than `max_norm` are shortened in place."""
    if padding_idx is None:
        padding = -1
    else:
        rows = weight.size(0)
        if padding_idx > 0 and not padding_idx < rows or padding_idx < 0 and not padding_idx >= -rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding = padding_idx + rows if padding_idx < 0 else padding_idx
    if max_norm is not None:
        _renormalise_rows(weight, input, max_norm, norm_type)
    if sparse or scale_grad_by_freq:
        from rushlight.sparse.embedding import embedding as rows
        return rows(weight, input, padding, scale_grad_by_freq, sparse)
    return _embedding(weight, input, padding)


def _renormalise_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    with rl.no_grad():
        used = input.unique().to(rl.int64)
        if used.numel() != 0:
            weight.index_copy_(0, used, weight.index_select(0, used).renorm(norm_type, 0, max_norm))


_embedding_bag = _op("_embedding_bag")


def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Tensor | None = None,
                  include_last_offset: bool = False, padding_idx: int | None = None) -> Tensor:
    """The sum, mean or max of the rows of `weight` that each bag of `input` names.

    Bags are the rows of a 2-D input, or start at `offsets` in a 1-D one; with `include_last_offset` the end of the last bag is among them. The row
    `padding_idx` does not count. `per_sample_weights` multiply rows before they are summed.
    """
    if weight.dtype is rl.int64 and input.is_floating_point():
        warn("embedding_bag(weight, input, ...) is the old order of the arguments, and deprecated: the input comes first")
        input, weight = weight, input
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the same shape as the input "
                         f"({input.shape})")
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError("if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. However, found "
                             f"offsets of type {type(offsets)}")
        rows, length = input.shape
        bounds = rl.arange(0, (rows + 1) * length, length) if length else rl.zeros(rows + 1, dtype=rl.int64)
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.dim() == 1:
        bounds = _bag_bounds(offsets, input, include_last_offset)
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ValueError("max mode does not support " + ("scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"))
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
                                  f"(got mode='{mode}'). Please open a feature request on GitHub.")
    padding = -1
    if padding_idx is not None:
        size = weight.size(0)
        if not -size <= padding_idx < size:
            raise RuntimeError(f"padding_idx must be within the number of embeddings, {-size} through {size - 1}, but got {padding_idx}")
        padding = padding_idx % size
    if max_norm is not None:
        _renormalise_rows(weight, input, max_norm, norm_type)
    if sparse:                                              # the rows, whose gradient is sparse, are a table of their own; its last row is the one that does not count
        from rushlight.sparse.embedding import embedding as rows
        count = input.numel()
        table = rl.cat([rows(weight, input, padding, scale_grad_by_freq, True), rl.zeros((1, weight.shape[1]), dtype=weight.dtype)])
        return _embedding_bag(table, rl.where(input == padding, count, rl.arange(count)), bounds, mode, count, per_sample_weights, False)
    return _embedding_bag(weight, input, bounds, mode, padding, per_sample_weights, scale_grad_by_freq)


def _bag_bounds(offsets: Tensor | None, input: Tensor, include_last_offset: bool) -> Tensor:
    """Where each bag begins, and the end of the last."""
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if offsets.numel():
        first, last = offsets[0].item(), offsets[-1].item()
        if first != 0:
            raise RuntimeError("offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. However, got "
                               f"{first}")
        if last > input.numel():
            raise RuntimeError(f"offsets[-1] can not be greater than input's length {input.numel()} but got offsets[-1] of {last}")
    elif include_last_offset:
        raise RuntimeError("include_last_offset: number of offset should be at least 1")
    if include_last_offset:
        return offsets
    return rl.cat([offsets, rl.tensor([input.numel()], dtype=offsets.dtype)])


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A row of zeros with a one at the index, for each index."""
    if isinstance(num_classes, bool) or not hasattr(type(num_classes), "__index__") or isinstance(num_classes, Tensor) and (num_classes.dim() or num_classes.is_floating_point()):
        raise TypeError(f"one_hot(): argument 'num_classes' (position 2) must be int, not {type(num_classes).__name__}")
    if tensor.dtype != rl.int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if tensor.numel() == 0:
        if num_classes <= 0:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        return rl.zeros((*tensor.shape, num_classes), dtype=rl.int64)
    if tensor.min().item() < 0:
        raise RuntimeError("Class values must be non-negative.")
    largest = tensor.max().item()
    if num_classes == -1:
        num_classes = largest + 1
    elif num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    elif largest >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    return (tensor.unsqueeze(-1) == rl.arange(num_classes)).to(rl.int64)


# --------------------------------------------------------------------------------------------------- bilinear and distances
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The norm of the difference along the last dimension; `eps` is added to the difference."""
    return rl.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim=keepdim)


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """A differentiable sample of a category; `hard` returns the one-hot choice with the soft gradient."""
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    gumbels = -rl.empty_like(logits, memory_format=rl.contiguous_format).exponential_().log()
    soft = rl.softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one = rl.zeros_like(logits, memory_format=rl.contiguous_format).scatter_(dim, index, 1.0)
    return one - soft.detach() + soft


# ---------------------------------------------------------------------------- families in files of their own
from .functional_attention import multi_head_attention_forward  # noqa: E402, F401
from .functional_losses import (  # noqa: E402, F401
    cosine_embedding_loss,
    ctc_loss,
    hinge_embedding_loss,
    linear_cross_entropy,
    triplet_margin_with_distance_loss,
)
from .functional_products import ScalingType, SwizzleType, grouped_mm, scaled_mm  # noqa: E402, F401
