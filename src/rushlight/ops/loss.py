"""Loss functions. `reduction` is 'none', 'mean' or 'sum'; the old `size_average` and `reduce` flags still work."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import losses
from .activation import log_softmax_rows
from .common import broadcast_shapes, hint, numel_of, required, shape_text

_LEGACY = "bool? size_average=None, bool? reduce=None, str reduction='mean'"


def _mode(reduction, size_average=None, reduce=None):
    if size_average is not None or reduce is not None:
        averaged = True if size_average is None else size_average
        mode = "none" if reduce is False else "mean" if averaged else "sum"
        T.warn(f"size_average and reduce are deprecated: reduction='{mode}' says what they say here")
        return mode
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _reduce(x, mode, weight_total=None):
    if mode == "none":
        return x
    total = T.reshape(T.reduce("sum", x, tuple(range(x.ndim))), ())
    if mode == "sum":
        return total
    return total / (T.size(numel_of(x.shape), x.dtype) if weight_total is None else weight_total)


def _compared(input, target):
    """Losses of pairs: shapes that differ are spread over each other, which is rarely meant."""
    broadcast_shapes(input.shape, target.shape)
    if input.ndim != target.ndim or not _equal(input.shape, target.shape):
        T.warn("The target's size is not the input's: they are broadcast, and elements compared that may not belong together. Make the sizes the same.")


def _difference_loss(name, formula, node, doc, **more):
    def body(input, target, size_average, reduce, reduction):
        _compared(input, target)
        return _reduce(formula(input - target), _mode(reduction, size_average, reduce))
    body.__name__, body.__doc__ = name, doc
    return op(f"{name}(Tensor input, Tensor target, {_LEGACY}) -> Tensor", on="F", layout="pointwise", node=node, samples=losses("pair"), out=False,
              **more)(body)


def _l1_rule(input, target, size_average, reduce, reduction):
    """abs(input - target), so a real result; the mean of integers is refused as `mean` does."""
    if input.dtype == target.dtype == "b1":
        raise RuntimeError("Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead.")
    dtype = T.promote(input, target)
    if not T.is_float(dtype) and not T.is_complex(dtype) and _mode(reduction, size_average, reduce) == "mean":
        raise RuntimeError("mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
                           + T.dtype_word(dtype))
    return "real"


mse_loss = _difference_loss("mse_loss", lambda d: d * d, "MseLossBackward0", "The squared difference.", rule="same", refuses="bic", kernel="mse_cpu")
l1_loss = _difference_loss("l1_loss", lambda d: T.prim("abs", d), "MeanBackward0", "The absolute difference.", rule=_l1_rule)


@op(f"smooth_l1_loss(Tensor input, Tensor target, {_LEGACY}, float! beta=1.0) -> Tensor", rule="same", on="F", layout="pointwise", out=False,
    node="SmoothL1LossBackward0", refuses="bic", kernel="smooth_l1_cpu", samples=losses("pair"))
def smooth_l1_loss(input, target, size_average, reduce, reduction, beta):
    """Squared below `beta`, straight above."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    _compared(input, target)
    mode, d = _mode(reduction, size_average, reduce), T.prim("abs", input - target)
    if beta == 0:
        return _reduce(d, mode)
    return _reduce(T.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta), mode)


def _huber_rule(input, target, *_):
    return T.compute_dtype(T.promote(input, target)), input.dtype


@op("huber_loss(Tensor input, Tensor target, str reduction='mean', float! delta=1.0) -> Tensor", rule=_huber_rule, on="F", layout="pointwise", out=False,
    node="HuberLossBackward0", promote=("input", "target"), refuses="bic", kernel="huber_cpu", samples=losses("pair"))
def huber_loss(input, target, reduction, delta):
    """Squared below `delta`, straight above, continuous in slope."""
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    _compared(input, target)
    d = T.prim("abs", input - target)
    return _reduce(T.where(T.prim("le", d, T.const(delta, d.dtype)), 0.5 * d * d, delta * (d - 0.5 * delta)), _mode(reduction))


def _logits_rule(input, target, *_):
    if not T.is_float(input.dtype):
        raise NotImplementedError(f"\"log_sigmoid_cpu\" not implemented for '{T.dtype_word(input.dtype)}'")
    if not T.is_float(target.dtype):
        raise RuntimeError(f"result type {T.dtype_word(input.dtype)} can't be cast to the desired output type {T.dtype_word(target.dtype)}")
    return "same"


@op("binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean', "
    "Tensor? pos_weight=None) -> Tensor", rule=_logits_rule, on="F", layout="pointwise", node="BinaryCrossEntropyWithLogitsBackward0", out=False,
    samples=losses("pair"))
def binary_cross_entropy_with_logits(input, target, weight, size_average, reduce, reduction, pos_weight):
    """Cross entropy of probabilities given as logits, without overflow."""
    if target.ndim != input.ndim or not _equal(target.shape, input.shape):
        raise ValueError(f"Target size (torch.Size({shape_text(target.shape)})) must be the same as input size (torch.Size({shape_text(input.shape)}))")
    low = T.prim("minimum", -input, T.const(0, input.dtype)) * 0
    softplus_negative = T.prim("maximum", -input, T.const(0, input.dtype)) + T.prim("log1p", T.prim("exp", -T.prim("abs", input))) + low
    scale = 1.0 if pos_weight is None else (pos_weight - 1.0) * target + 1.0
    loss = (1.0 - target) * input + softplus_negative * scale
    if weight is not None:
        loss = loss * weight
    return _reduce(loss, _mode(reduction, size_average, reduce))


@binary_cross_entropy_with_logits.gradient("input")
def _(grad, input, target, weight, size_average, reduce, reduction, pos_weight):
    s = T.prim("sigmoid", input)
    if pos_weight is None:
        g = s - target
    else:
        g = (1.0 - target) - ((pos_weight - 1.0) * target + 1.0) * (1.0 - s)
    return _weighted(g, grad, input, weight, _mode(reduction, size_average, reduce))


@binary_cross_entropy_with_logits.gradient("target")
def _(grad, input, weight, size_average, reduce, reduction, pos_weight):
    if pos_weight is None:
        g = -input
    else:
        spread = T.prim("log1p", T.prim("exp", -T.prim("abs", input))) + T.prim("maximum", -input, T.const(0, input.dtype))
        g = (pos_weight - 1.0) * spread - input
    return _weighted(g, grad, input, weight, _mode(reduction, size_average, reduce))


def _weighted(g, grad, input, weight, mode):
    if weight is not None:
        g = g * weight
    if mode == "mean":
        grad = grad / T.size(numel_of(input.shape), input.dtype)
    return g * grad


def _probability_rule(input, target, *_):
    if input.dtype != target.dtype:
        raise RuntimeError(f"Found dtype {T.dtype_word(target.dtype)} but expected {T.dtype_word(input.dtype)}")
    return "same"


@op("binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    rule=_probability_rule, on="F", layout="pointwise", node="BinaryCrossEntropyBackward0", out=False, refuses="bic", samples=losses("probability"))
def binary_cross_entropy(input, target, weight, size_average, reduce, reduction):
    """Cross entropy of probabilities; logarithms are not below -100."""
    if target.ndim != input.ndim or not _equal(target.shape, input.shape):
        raise ValueError(f"Using a target size (torch.Size({shape_text(target.shape)})) that is different to the input size (torch.Size({shape_text(input.shape)})) "
                         "is deprecated. Please ensure they have the same size.")
    inside = lambda x: T.prim("le", T.const(0, x.dtype), x) & T.prim("le", x, T.const(1, x.dtype))
    input = required(inside(input), input, ("RuntimeError", "all elements of input should be between 0 and 1"))
    target = required(inside(target), target, ("RuntimeError", "all elements of target should be between 0 and 1"))
    floor = T.const(-100.0, input.dtype)
    loss = (target - 1.0) * T.prim("maximum", T.prim("log1p", -input), floor) - target * T.prim("maximum", T.prim("log", input), floor)
    if weight is not None:
        loss = loss * weight
    return _reduce(loss, _mode(reduction, size_average, reduce))


@binary_cross_entropy.gradient("input")
def _(grad, input, target, weight, size_average, reduce, reduction):
    slope = (input - target) / T.prim("maximum", (1.0 - input) * input, T.const(1e-12, input.dtype))
    return _weighted(slope, grad, input, weight, _mode(reduction, size_average, reduce))


@binary_cross_entropy.gradient("target")
def _(grad, input, weight, size_average, reduce, reduction):
    floor = T.const(-100.0, input.dtype)
    slope = T.prim("maximum", T.prim("log1p", -input), floor) - T.prim("maximum", T.prim("log", input), floor)
    return _weighted(slope, grad, input, weight, _mode(reduction, size_average, reduce))


def _equal(a, b):
    for x, y in zip(a, b):
        if not x == y:
            return False
    return True


def _kl_rule(input, target, *_):
    for x in (input, target):
        if not T.is_float(x.dtype):
            raise RuntimeError(f"kl_div: {'Complex' if T.is_complex(x.dtype) else 'Integral'} inputs not supported.")
    return "same"


def _kl_node(given):
    names = {"mean": "MeanBackward0", "sum": "SumBackward0", "none": "SubBackward0", "batchmean": "DivBackward0"}
    return names.get(given["reduction"], "MeanBackward0")


@op("kl_div(Tensor input, Tensor target, bool? size_average=None, bool? reduce=None, str reduction='mean', bool log_target=False) -> Tensor",
    rule=_kl_rule, on="F", layout="pointwise", node=_kl_node, out=False, samples=losses("pair"))
def kl_div(input, target, size_average, reduce, reduction, log_target):
    """`target * (log(target) - input)`: input holds logarithms; 'batchmean' divides by the first dimension."""
    if log_target:
        loss = T.prim("exp", target) * (target - input)
    else:
        zero = T.prim("eq", target, T.const(0, target.dtype))
        loss = T.where(zero, 0, target * T.prim("log", T.where(zero, 1, target))) - target * input
    if reduction == "batchmean":
        return _reduce(loss, "sum") / T.size(input.shape[0] if input.ndim else 1, input.dtype)
    if reduction == "mean" and size_average is None and reduce is None:
        T.warn("reduction='mean' divides by the number of elements; the divergence is divided by the number of distributions, which reduction='batchmean' does")
    return _reduce(loss, _mode(reduction, size_average, reduce))


# ------------------------------------------------------------------------------------------- classification
def _class_shapes(input, target):
    """Class indices have the input's shape without its second dimension; a single sample (1-D) has one index. torch's words for each rank."""
    got = f"got input: {shape_text(input.shape)} , target: {shape_text(target.shape)}"
    if input.ndim == 0:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if input.ndim == 1:
        if target.ndim == 1 and not target.shape[0] == 1:
            raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {hint(target.shape[0])}")
    elif not (target.ndim and target.shape[0] == input.shape[0]):
        raise ValueError(f"Expected input batch_size ({hint(input.shape[0])}) to match target batch_size ({hint(target.shape[0]) if target.ndim else 0}).")
    if input.ndim < 3:
        if target.ndim > 1:
            raise RuntimeError(f"0D or 1D target tensor expected, multi-target not supported ({got})")
        return
    want = (input.shape[0],) + tuple(input.shape[2:])
    if input.ndim == 4 and target.ndim != 3:
        raise RuntimeError(f"only batches of spatial targets supported (3D tensors) but got targets of dimension: {target.ndim}")
    if target.ndim != len(want) or not _equal(target.shape, want):
        raise RuntimeError(f"size mismatch ({got})" if input.ndim == 4 else f"Expected target size {shape_text(want)}, got {shape_text(target.shape)}")


def _nll(logp, target, weight, ignore_index, mode, smoothing=0.0):
    """Minus the log probability of the target class, for classes along dimension 1 (0 for a single sample)."""
    if target.dtype not in ("i64", "u8"):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {T.dtype_word(target.dtype)}")
    c = 1 if logp.ndim > 1 else 0
    classes = logp.shape[c]
    if weight is not None and not (weight.ndim == 1 and weight.shape[0] == classes):
        which = "all or no classes" if logp.ndim == 4 else f"all {hint(classes)} classes or no classes"
        raise RuntimeError(f"weight tensor should be defined either for {which} but got weight tensor of shape: {shape_text(weight.shape)}")
    if c == 0:
        target = T.reshape(target, ())
    t = T.reshape(T.cast(target, "i64"), tuple(target.shape[:c]) + (1,) + tuple(target.shape[c:]))
    valid = T.prim("ne", t, T.size(ignore_index, "i64"))
    t = T.check(T.where(valid, t, 0), 0, classes, ("IndexError", "Target {value} is out of bounds."))
    picked = T.gather_dim(logp, c, t)
    zero = T.const(0, logp.dtype)
    if weight is None:
        w = T.where(valid, T.const(1, logp.dtype), zero)
    else:
        w = T.where(valid, T.load(weight, [t]), zero)
    loss = -(T.where(valid, picked, zero) * w) if weight is not None else T.where(valid, -picked, zero)
    if smoothing:
        spread = logp if weight is None else logp * T.reshape(weight, tuple(classes if d == c else 1 for d in range(logp.ndim)))
        smooth = T.where(valid, -T.reduce("sum", spread, (c,)), zero)
        loss = (1.0 - smoothing) * loss + (smoothing / T.size(classes, logp.dtype)) * smooth
    loss = T.reshape(loss, target.shape)
    if mode != "mean":
        return _reduce(loss, mode)
    dims = tuple(range(w.ndim))
    return _reduce(loss, "mean", T.reshape(T.reduce("sum", w, dims), ()))


def _classes_rule(input, target, weight, *_):
    """The input decides; probabilities as targets promote with it, class indices stay what they are."""
    if weight is not None and T.is_float(input.dtype) and weight.dtype != input.dtype:
        raise RuntimeError(f"expected scalar type {T.dtype_word(input.dtype)} but found {T.dtype_word(weight.dtype)}")
    if T.is_float(input.dtype) and T.is_float(target.dtype) and target.ndim == input.ndim:
        return "same"
    return "first_float"


def _nll_node(given):
    if given["input"].ndim <= 2: return "NllLossBackward0"
    apart = _mode(given["reduction"], given["size_average"], given["reduce"]) == "none" and given["input"].ndim != 4       # torch folds the dimensions into two
    return "ViewBackward0" if apart else "NllLoss2DBackward0"


def _cross_entropy_node(given):
    """torch composes the loss of probabilities and of smoothed labels from smaller operators; the last of them names the result."""
    if T.is_float(given["target"].dtype):
        return "DivBackward1" if _mode(given["reduction"], given["size_average"], given["reduce"]) == "mean" else "NegBackward0"
    return "AddBackward0" if given["label_smoothing"] else _nll_node(given)


@op("nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, SymInt ignore_index=-100, bool? reduce=None, str reduction='mean') -> Tensor",
    rule=_classes_rule, on="F", layout="contiguous", node=_nll_node, out=False, refuses="c", kernel="nll_loss_out_frame",
    samples=losses("classes"))
def nll_loss(input, target, weight, size_average, ignore_index, reduce, reduction):
    """Minus the log probability of the target class."""
    _class_shapes(input, target)
    return _nll(input, target, weight, ignore_index, _mode(reduction, size_average, reduce))


@op("cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, SymInt ignore_index=-100, bool? reduce=None, str reduction='mean', "
    "float! label_smoothing=0.0) -> Tensor", rule=_classes_rule, on="F", layout="contiguous", node=_cross_entropy_node, out=False, refuses="c",
    kernel="log_softmax_lastdim_kernel_impl", samples=losses("classes"))
def cross_entropy(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing):
    """log_softmax and nll_loss in one kernel. The target is class indices, or probabilities of the input's shape."""
    mode = _mode(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    c = 1 if input.ndim > 1 else 0
    if target.ndim == input.ndim and _equal(target.shape, input.shape):
        if not T.is_float(target.dtype):
            raise RuntimeError(f"Expected floating point type for target with class probabilities, got {T.dtype_word(target.dtype)}")
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _soft_targets(input, target, weight, mode, label_smoothing, c)
    _class_shapes(input, target)
    return _nll(log_softmax_rows(input, c), target, weight, ignore_index, mode, label_smoothing)


def _soft_targets(input, target, weight, mode, smoothing, c):
    logp = log_softmax_rows(input, c)
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / T.size(input.shape[c], input.dtype)
    loss = -(logp * target)
    if weight is not None:
        loss = loss * T.reshape(weight, tuple(input.shape[c] if d == c else 1 for d in range(input.ndim)))
    loss = T.reduce("sum", loss, (c,))
    loss = T.reshape(loss, tuple(s for d, s in enumerate(input.shape) if d != c))
    if mode == "mean":
        count = numel_of(input.shape[:c] + input.shape[c + 1:])
        return _reduce(loss, "sum") / T.size(count, input.dtype)
    return _reduce(loss, mode)
