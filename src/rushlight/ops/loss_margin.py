"""Losses that compare, rank and separate: margins, distances between embeddings, likelihoods of counts and of Gaussians."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..registry import op
from ..samples_composite import margins
from .activation import logsigmoid
from .common import broadcast_shapes, hint, numel_of, required, shape_text
from .loss import _LEGACY, _mode, _reduce
from .reduce import linalg_vector_norm as vector_norm

_BOTH_BOOL = "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` operator instead."
_ONE_BOOL = ("Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, use the `~` or `logical_not()` "
             "operator instead.")


def _node(given):
    """The last of the operators that torch composes the loss of: its reduction."""
    if given.get("size_average") is None and given.get("reduce") is None:
        mode = given["reduction"]                         # which the body judges
    else:
        mode = _mode(given["reduction"], given["size_average"], given["reduce"])
    return {"sum": "SumBackward0", "none": "AddBackward0"}.get(mode, "MeanBackward0")


def _positive(x):
    """max(x, 0) with the gradient of torch's clamp_min: 1 at 0, NaN stays."""
    return T.where(x < 0, 0, x)


def _no_complex(*xs):
    if any(T.is_complex(x.dtype) for x in xs):
        raise NotImplementedError("clamp is not supported for complex types")


# ------------------------------------------------------------------------------------------------------- signs as targets
def _soft_margin_rule(input, target, *_):
    dtype = T.promote(input, target)
    if target.dtype == "b1":
        raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use the `~` or "
                           "`logical_not()` operator instead.")
    if not T.is_float(dtype) and not T.is_complex(dtype):
        raise RuntimeError(f"result type Float can't be cast to the desired output type {T.dtype_word(dtype)}")
    return "same"


@op(f"soft_margin_loss(Tensor input, Tensor target, {_LEGACY}) -> Tensor", rule=_soft_margin_rule, on="F", layout="pointwise", out=False,
    node="SoftMarginLossBackward0", samples=margins("signs"))
def soft_margin_loss(input, target, size_average, reduce, reduction):
    """`log(1 + exp(-target * input))`, the targets being 1 and -1."""
    mode = _mode(reduction, size_average, reduce)
    shape = broadcast_shapes(input.shape, target.shape)
    if len(shape) != input.ndim or not all(a == b for a, b in zip(shape, input.shape)):
        raise RuntimeError(f"output with shape {shape_text(input.shape)} doesn't match the broadcast shape {shape_text(shape)}")
    return _reduce(T.prim("log1p", T.prim("exp", -target * input)), mode)


def _soft_margin_gradient(grad, z, factor, mode):
    """`factor` times the sigmoid of z, in a form of which no part overflows or cancels, once differentiated again neither."""
    e = T.prim("exp", T.where(z < 0, z, -z))
    slope = T.where(z < 0, e, 1) / (e + 1.0)
    return (grad / T.size(numel_of(z.shape), z.dtype) if mode == "mean" else grad) * factor * slope


@soft_margin_loss.gradient("input")
def _(grad, input, target, size_average, reduce, reduction):
    return _soft_margin_gradient(grad, -target * input, -target, _mode(reduction, size_average, reduce))


@soft_margin_loss.gradient("target")
def _(grad, input, target, size_average, reduce, reduction):
    return _soft_margin_gradient(grad, -target * input, -input, _mode(reduction, size_average, reduce))


def _ranking_rule(input1, input2, target, *_):
    if input1.dtype == input2.dtype == "b1":
        raise RuntimeError(_BOTH_BOOL)
    _no_complex(input1, input2, target)
    return "float" if T.is_float(T.promote(input1, input2, target)) else None


@op(f"margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, {_LEGACY}) -> Tensor", rule=_ranking_rule, on="F", layout="pointwise",
    out=False, node=_node, samples=margins("ranking"))
def margin_ranking_loss(input1, input2, target, margin, size_average, reduce, reduction):
    """`max(0, margin - target * (input1 - input2))`: the first should be larger where the target is 1, the second where it is -1."""
    if not input1.ndim == input2.ndim == target.ndim:
        sizes = ", ".join(f"{name}: torch.Size({shape_text(x.shape)})" for name, x in (("input1", input1), ("input2", input2), ("target", target)))
        raise RuntimeError(f"margin_ranking_loss : All input tensors should have same dimension but got sizes: {sizes} ")
    gap = -target * (input1 - input2)
    if not T.is_float(gap.dtype):                         # integers wrap around before they meet the margin, as torch's do
        gap = T.cast(gap, T.default_dtype())
    return _reduce(_positive(gap + T.cast(margin, gap.dtype)), _mode(reduction, size_average, reduce))


def _hinge_rule(input, target, margin, size_average, reduce, reduction):
    if input.dtype == "b1":
        raise RuntimeError(_BOTH_BOOL)
    _no_complex(input)
    if not T.is_float(input.dtype) and _mode(reduction, size_average, reduce) == "mean":
        raise RuntimeError("mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. Got: "
                           + T.dtype_word(input.dtype))
    return T.compute_dtype(input.dtype), input.dtype


@op(f"_hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, {_LEGACY}) -> Tensor", rule=_hinge_rule, promote=("input",), on="-",
    layout="pointwise", out=False, node=_node, samples=margins("choices"))
def _hinge_embedding_loss(input, target, margin, size_average, reduce, reduction):
    """The input where the target is 1; where it is -1, how far the input falls short of the margin."""
    zero = T.const(0, input.dtype)
    apart = T.where(T.prim("ne", target, 1), _positive(margin - input), zero)
    together = T.where(T.prim("ne", target, -1), input, zero)
    return _reduce(apart + together, _mode(reduction, size_average, reduce))


# ------------------------------------------------------------------------------------------------------------- embeddings
def _cosine_rule(input1, input2, target, *_):
    _no_complex(input1, input2)
    return "float"


@op(f"_cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0, {_LEGACY}) -> Tensor", rule=_cosine_rule,
    promote=("input1", "input2"), on="-", layout="contiguous", out=False, node=_node, samples=margins("cosine"))
def _cosine_embedding_loss(input1, input2, target, margin, size_average, reduce, reduction):
    """One minus the cosine of two vectors where the target is 1; where it is -1, how far the cosine is above the margin."""
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    want = target.ndim + 1
    if input1.ndim != want or input2.ndim != want:
        raise RuntimeError(f"{target.ndim}D target tensor expects {want}D input tensors, but found inputs with sizes {shape_text(input1.shape)} and "
                           f"{shape_text(input2.shape)}.")
    broadcast_shapes(input1.shape, input2.shape)
    d = target.ndim
    total = lambda x: T.reshape(T.reduce("sum", x, (d,)), x.shape[:d])
    length = (total(input1 * input1) + 1e-12) * (total(input2 * input2) + 1e-12)
    cosine = total(input1 * input2) / T.prim("sqrt", length)
    zero = T.const(0, input1.dtype)
    near = T.where(T.prim("eq", target, 1), 1.0 - cosine, zero)
    far = T.where(T.prim("eq", target, -1), _positive(cosine - margin), zero)
    return _reduce(near + far, _mode(reduction, size_average, reduce))


def _triplet_rule(anchor, positive, negative, *_):
    if anchor.dtype == positive.dtype == "b1" or anchor.dtype == negative.dtype == "b1":
        raise RuntimeError(_BOTH_BOOL)
    dtype = T.promote(anchor, positive, negative)
    if not T.is_float(dtype) and not T.is_complex(dtype):
        dtype = T.default_dtype()
    return T.compute_dtype(dtype), T.real_dtype(dtype)


@op("triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float! margin=1.0, float! p=2, float eps=1e-06, bool swap=False, "
    f"{_LEGACY}) -> Tensor", rule=_triplet_rule, on="F", layout="contiguous", out=False, node=_node, samples=margins("triplet"))
def triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, size_average, reduce, reduction):
    """How far the anchor is from being closer to the positive than to the negative, by the margin; `swap`: the negative's distance to the positive counts
    if it is shorter."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: anchor "
                           f"{anchor.ndim}D, positive {positive.ndim}D, and negative {negative.ndim}D inputs")
    distance = lambda a, b: vector_norm(a - b + T.cast(eps, a.dtype), p, -1)
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = T.prim("minimum", far, distance(positive, negative))
    return _reduce(_positive(margin + near - far), _mode(reduction, size_average, reduce))


# ---------------------------------------------------------------------------------------------------------------- classes
def _full_precision(input, target, name):
    """Only float32 and float64: torch has no other kernels."""
    if T.result_dtype(input) not in ("f32", "f64"):
        raise NotImplementedError(f"\"{name}\" not implemented for '{T.dtype_word(T.result_dtype(input))}'")
    if target.dtype != "i64":
        raise RuntimeError(f"expected scalar type Long but found {T.dtype_word(target.dtype)}")


def _vector_or_matrix(input):
    """As a matrix of samples and classes."""
    if input.ndim > 2 or input.ndim and input.shape[-1] == 0:
        raise RuntimeError(f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {shape_text(input.shape)}")
    return input if input.ndim == 2 else T.reshape(input, (1, input.numel()))


@op(f"multi_margin_loss(Tensor input, Tensor target, Scalar! p=1, Scalar margin=1.0, Tensor? weight=None, {_LEGACY}) -> Tensor",
    rule="keep", promote=("input",), on="F", layout="contiguous", out=False, node="MultiMarginLossBackward0",
    samples=margins("classes"))
def multi_margin_loss(input, target, p, margin, weight, size_average, reduce, reduction):
    """The mean over the other classes j of `max(0, margin - input[target] + input[j]) ** p`, p being 1 or 2."""
    mode = _mode(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    x = _vector_or_matrix(input)
    n, classes = x.shape
    if target.ndim > 1 or not target.numel() == n:
        raise RuntimeError("multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch size). Expected target "
                           f"size [{hint(n)}], but got {shape_text(target.shape)}. Input has shape {shape_text(input.shape)}.")
    if weight is not None and weight.dtype != input.dtype:
        raise RuntimeError(f"expected scalar type {T.dtype_word(input.dtype)} but found {T.dtype_word(weight.dtype)}")
    if weight is not None and not weight.shape[0] == classes:
        raise RuntimeError(f"inconsistent weight size, expected {hint(classes)} but got {shape_text(weight.shape)}")
    _full_precision(input, target, "multi_margin_loss_cpu_kernel")
    y = T.check(T.reshape(target, (n, 1)), 0, classes, ("RuntimeError", "target out of range"))
    z = margin - T.gather_dim(x, 1, y) + x
    z = T.where((z > 0) & T.prim("ne", T.iota(classes, 1, 2), y), z, 0)
    z = z * z if p == 2 else z
    if weight is not None:
        z = z * T.load(weight, [y])
    return _reduce(T.reshape(T.reduce("sum", z, (1,)) / T.size(classes, x.dtype), target.shape), mode)


@op(f"multilabel_margin_loss(Tensor input, Tensor target, {_LEGACY}) -> Tensor", rule="keep",
    promote=("input",), on="F", layout="contiguous", out=False, node="MultilabelMarginLossBackward0", samples=margins("label_lists"))
def multilabel_margin_loss(input, target, size_average, reduce, reduction):
    """The sum of `max(0, 1 - input[j] + input[i])` over target classes j and other classes i, over the number of classes. The targets of a sample are a list
    of classes that ends at the first -1."""
    mode, x = _mode(reduction, size_average, reduce), _vector_or_matrix(input)
    if target.ndim != input.ndim or not all(a == b for a, b in zip(target.shape, input.shape)):
        raise RuntimeError(f"inconsistent target size: {shape_text(target.shape)} for input of size: {shape_text(input.shape)}")
    _full_precision(input, target, "multilabel_margin_loss_forward_out_frame")
    n, classes = x.shape
    y = T.check(T.reshape(target, x.shape), -1, classes, ("RuntimeError", "argument #2 'target' is out of range"))
    listed = T.prim("eq", T.scan("max", T.cast(y < 0, "i64"), 1), 0)
    y = T.where(listed, y, 0)
    rows = T.iota(n, 0, 2)
    is_target = T.scatter(T.expand(T.const(0, "i64"), x.shape), [rows, y], T.cast(listed, "i64"), "max")
    chosen = T.load(x, [rows, y])
    z = 1.0 - T.reshape(chosen, (n, classes, 1)) + T.reshape(x, (n, 1, classes))
    counted = (z > 0) & T.reshape(listed, (n, classes, 1)) & T.reshape(T.prim("eq", is_target, 0), (n, 1, classes))
    total = T.reduce("sum", T.where(counted, z, 0), (1, 2))
    return _reduce(T.reshape(total / T.size(classes, x.dtype), input.shape[:-1]), mode)


def _label_rule(input, target, *_):
    if not T.is_float(input.dtype):
        raise NotImplementedError(f"\"log_sigmoid_cpu\" not implemented for '{T.dtype_word(input.dtype)}'")
    if target.dtype == "b1":
        raise RuntimeError(_ONE_BOOL)
    return "same"


@op("multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, bool? size_average=None, bool? reduce=None, str reduction='mean') -> Tensor",
    rule=_label_rule, on="F", layout="contiguous", out=False, node=_node, samples=margins("labels"))
def multilabel_soft_margin_loss(input, target, weight, size_average, reduce, reduction):
    """Binary cross entropy of each class, averaged over the classes (the last dimension)."""
    if size_average is None and reduce is None and reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    if input.ndim == 0:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    broadcast_shapes(target.shape, input.shape)
    loss = -(target * logsigmoid(input) + (1.0 - target) * logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    d = loss.ndim - 1
    loss = T.reshape(T.reduce("sum", loss, (d,)), loss.shape[:-1]) / T.size(input.shape[-1], loss.dtype)
    return _reduce(loss, _mode(reduction, size_average, reduce))


# ------------------------------------------------------------------------------------------------------------ likelihoods
def _poisson_rule(input, target, log_input, full, *_):
    if input.dtype == "b1" or target.dtype == "b1":
        raise RuntimeError(_ONE_BOOL)
    if full and T.is_complex(T.promote(input, target)):
        raise NotImplementedError(f"\"le_cpu\" not implemented for '{T.dtype_word(target.dtype)}'")
    return "float"


@op("poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, bool? size_average=None, float eps=1e-08, bool? reduce=None, "
    "str reduction='mean') -> Tensor", rule=_poisson_rule, on="F", layout="pointwise", out=False, node=_node, samples=margins("counts"))
def poisson_nll_loss(input, target, log_input, full, size_average, eps, reduce, reduction):
    """Minus the log likelihood of counts; the input is the logarithm of their expectation, or with `log_input=False` the expectation. `full` adds
    Stirling's approximation of `log(target!)` where the target is above 1."""
    mode = _mode(reduction, size_average, reduce)
    loss = T.prim("exp", input) - target * input if log_input else input - target * T.prim("log", input + T.cast(eps, input.dtype))
    if full:
        large = T.prim("lt", T.const(1, target.dtype), target)
        t = T.where(large, target, 1)                     # not looked at elsewhere: the logarithm of 0 would spoil the gradient
        loss = loss + T.where(large, t * T.prim("log", t) - t + 0.5 * T.prim("log", 2.0 * math.pi * t), 0)
    return _reduce(loss, mode)


def _gaussian_rule(input, target, var, *_):
    if T.scalar_kind(var) is None and not T.is_float(var.dtype):
        raise RuntimeError(f"result type Float can't be cast to the desired output type {'long int' if var.dtype == 'i64' else T.dtype_word(var.dtype)}")
    return "float"


@op("gaussian_nll_loss(Tensor input, Tensor target, Tensor|Scalar var, bool full=False, float eps=1e-06, str reduction='mean') -> Tensor",
    rule=_gaussian_rule, on="F", layout="pointwise", out=False, node=_node, samples=margins("variances"))
def gaussian_nll_loss(input, target, var, full, eps, reduction):
    """Minus the log likelihood of the target under a Gaussian of mean `input` and variance `var`, which counts as at least `eps` (its gradient is
    that of the value that counts)."""
    var = _fitting_variance(input, var)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    low = T.const(0, var.dtype)
    var = required(~(var < low), var, ("ValueError", "var has negative entry/entries"))
    eps = T.cast(eps, var.dtype)
    var = T.where(var < eps, eps + (var - T.stop(var)), var)
    gap = input - target
    loss = 0.5 * (T.prim("log", var) + gap * gap / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return _reduce(loss, reduction)


def _fitting_variance(input, var):
    same = lambda a, b: len(a) == len(b) and all(x == y for x, y in zip(a, b))
    if var.ndim == 0 and T.scalar_kind(var) is not None or same(var.shape, input.shape):
        return var
    if same(input.shape[:-1], var.shape):                 # one variance for all of the last dimension
        return T.reshape(var, tuple(var.shape) + (1,))
    if len(var.shape) == len(input.shape):                # one variance for all of some dimension
        others = [n for n, m in zip(var.shape, input.shape) if not n == m]
        if len(others) == 1 and others[0] == 1:
            return var
    raise ValueError("var is of incorrect size")
