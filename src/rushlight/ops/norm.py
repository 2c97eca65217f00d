"""Normalisation. Each is one formula; the compiler makes one kernel of it forward and, derived, one or two backward."""
from __future__ import annotations

from ..compiler import promotion
from ..compiler import trace as T
from ..registry import op
from ..samples import normalisation
from .common import hint, numel_of, shape_text


def _normalise(x, dims, eps):
    """Centre and scale over dims; also the mean and the (biased) variance."""
    count = T.size(numel_of(x.shape[d] for d in dims), x.dtype)
    mean = T.reduce("sum", x, dims) / count
    centred = x - mean
    var = T.reduce("sum", centred * centred, dims) / count
    return centred * (1.0 / T.prim("sqrt", var + eps)), mean, var


@op("layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor", rule="float_match",
    on="F torch", layout="contiguous", node="NativeLayerNormBackward0", out=False, refuses="c", kernel="LayerNormKernelImpl",
    samples=normalisation("layer_norm"))
def layer_norm(input, normalized_shape, weight, bias, eps):
    """Each group of trailing dimensions brought to mean 0 and variance 1, then scaled and shifted."""
    dims = _trailing(input, normalized_shape, weight, bias)
    out, _, _ = _normalise(input, dims, T.cast(eps, input.dtype))
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias


def _trailing(input, normalized_shape, weight, bias):
    n = len(normalized_shape)
    if n == 0:
        raise RuntimeError("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got normalized_shape = []")
    fits = input.ndim >= n
    for k in range(1, n + 1) if fits else ():
        fits = fits and bool(input.shape[-k] == normalized_shape[-k])
    if not fits:
        wanted = ", ".join(str(hint(s)) for s in normalized_shape)
        raise RuntimeError(f"Given normalized_shape={shape_text(normalized_shape)}, expected input with shape [*, {wanted}], but got input of size{shape_text(input.shape)}")
    for name, extra in (("weight", weight), ("bias", bias)):
        if extra is not None:
            same = extra.ndim == n
            for k in range(n) if same else ():
                same = same and bool(extra.shape[k] == normalized_shape[k])
            if not same:
                raise RuntimeError(f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {shape_text(extra.shape)} "
                                   f"and normalized_shape = {shape_text(normalized_shape)}")
    return tuple(range(input.ndim - n, input.ndim))


@op("rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor", rule="first_float", on="F torch",
    layout="contiguous", node="RmsNormBackward0", out=False, samples=normalisation("rms_norm"))
def rms_norm(input, normalized_shape, weight, eps):
    """Each group of trailing dimensions divided by its root mean square, then scaled."""
    dims = _trailing(input, normalized_shape, weight, None)
    eps = T.const(T.epsilon(input.dtype), input.dtype) if eps is None else T.cast(eps, input.dtype)
    count = T.size(numel_of(input.shape[d] for d in dims), input.dtype)
    scale = 1.0 / T.prim("sqrt", T.reduce("sum", input * input, dims) / count + eps)
    out = input * scale
    return out if weight is None else out * weight


def _per_channel(value, ndim):
    return None if value is None else T.reshape(value, tuple(value.shape[0] if d == 1 else 1 for d in range(ndim)))


def _check_channels(input, **given):
    channels = input.shape[1]
    for name, value in given.items():
        if value is not None and not (value.ndim == 1 and value.shape[0] == channels):
            raise RuntimeError(f"{name} should contain {hint(channels)} elements not {hint(value.numel())}")


@op("_batch_norm_train(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)", rule="float_match", on="-", layout="spatial",
    node="NativeBatchNormBackward0", out=False)
def _batch_norm_train(input, weight, bias, eps):
    """Normalised over every dimension but the second; also each channel's mean and unbiased variance, for the running averages."""
    _check_channels(input, weight=weight, bias=bias)
    dims = tuple(d for d in range(input.ndim) if d != 1)
    count = numel_of(input.shape[d] for d in dims)
    if count == 1:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size torch.Size({shape_text(input.shape)})")
    out, mean, var = _normalise(input, dims, T.cast(eps, input.dtype))
    if weight is not None:
        out = out * _per_channel(weight, input.ndim)
    if bias is not None:
        out = out + _per_channel(bias, input.ndim)
    unbiased = var * (T.size(count, input.dtype) / T.size(count - 1, input.dtype))
    flat = (input.shape[1],)
    return out, T.stop(T.reshape(mean, flat)), T.stop(T.reshape(unbiased, flat))


@op("_batch_norm_eval(Tensor input, Tensor running_mean, Tensor running_var, Tensor? weight, Tensor? bias, float eps) -> Tensor", rule="float_match", on="-",
    layout="spatial", node="NativeBatchNormBackward0", out=False)
def _batch_norm_eval(input, running_mean, running_var, weight, bias, eps):
    """Normalised by stored statistics."""
    _check_channels(input, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    n = input.ndim
    scale = 1.0 / T.prim("sqrt", _per_channel(running_var, n) + T.cast(eps, input.dtype))
    out = (input - _per_channel(running_mean, n)) * scale
    if weight is not None:
        out = out * _per_channel(weight, n)
    return out if bias is None else out + _per_channel(bias, n)


@op("_running_update_(Tensor(a!) running_mean, Tensor(b!) running_var, Tensor mean, Tensor var, Scalar momentum) -> (Tensor, Tensor)", rule="float_match", on="-",
    differentiable=False, out=False)
def _running_update_(running_mean, running_var, mean, var, momentum):
    """The running averages moved towards the batch's statistics."""
    keep = 1.0 - momentum
    return running_mean * keep + mean * momentum, running_var * keep + var * momentum


@op("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05) -> Tensor", rule="float_match", on="F torch",
    layout="spatial", node="NativeGroupNormBackward0", out=False, refuses="c", kernel="GroupNormKernelImpl",
    samples=normalisation("group_norm"))
def group_norm(input, num_groups, weight, bias, eps):
    """Channels in groups, each group of each sample brought to mean 0 and variance 1."""
    if input.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {input.ndim}")
    n, c = input.shape[0], input.shape[1]
    if not c % num_groups == 0:
        raise RuntimeError(f"Expected number of channels in input to be divisible by num_groups, but got input of shape {shape_text(input.shape)} and num_groups={num_groups}")
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and not (value.ndim == 1 and value.shape[0] == c):
            raise RuntimeError(f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of shape "
                               f"{shape_text(value.shape)} and input of shape {shape_text(input.shape)}")
    rest = numel_of(input.shape[2:])
    grouped = T.reshape(input, (n, num_groups, (c // num_groups) * rest))
    out, _, _ = _normalise(grouped, (2,), T.cast(eps, input.dtype))
    out = T.reshape(out, input.shape)
    if weight is not None:
        out = out * _per_channel(weight, input.ndim)
    return out if bias is None else out + _per_channel(bias, input.ndim)


# ---------------------------------------------------------------------------------------- with the statistics as results too
def _with_statistics(input, weight, name):
    """dtypes of (result, mean, 1 / deviation): the statistics have the parameters' dtype, so float32 parameters keep them in float32."""
    compute, result = promotion.rule_dtypes("float_match", T.operand_types([x for x in (input, weight) if x is not None]), name)
    return compute, [result, *[result if weight is None else weight.dtype] * 2]


@op("_layer_norm_statistics(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
    rule=lambda input, normalized_shape, weight, bias, eps: _with_statistics(input, weight, "LayerNormKernelImpl"), on="-", layout="contiguous",
    node="NativeLayerNormBackward0", out=False, refuses="c", kernel="LayerNormKernelImpl", samples=normalisation("native_layer_norm"))
def _layer_norm_statistics(input, normalized_shape, weight, bias, eps):
    """`layer_norm`, and each group's mean and 1 / deviation."""
    dims = _trailing(input, normalized_shape, weight, bias)
    eps = T.cast(eps, input.dtype)
    out, mean, var = _normalise(input, dims, eps)
    if weight is not None:
        out = out * weight
    out = out if bias is None else out + bias
    return out, mean, 1.0 / T.prim("sqrt", var + eps)


@op("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
    rule=lambda input, weight, bias, N, C, HxW, group, eps: _with_statistics(input, weight, "GroupNormKernelImpl"), on="torch", layout="contiguous",
    node="NativeGroupNormBackward0", out=False, refuses="c", kernel="GroupNormKernelImpl", samples=normalisation("native_group_norm"))
def native_group_norm(input, weight, bias, N, C, HxW, group, eps):
    """`group_norm` of N samples of C channels of HxW elements, and each group's mean and 1 / deviation."""
    if not C % group == 0:
        raise RuntimeError(f"Expected number of channels in input to be divisible by num_groups, but got input of shape {shape_text(input.shape)} and num_groups={group}")
    if not input.numel() == N * C * HxW:
        raise RuntimeError(f"Expected input.numel() to be {hint(N * C * HxW)}, but got {hint(input.numel())}")
    eps = T.cast(eps, input.dtype)
    grouped = T.reshape(input, (N, group, (C // group) * HxW))
    out, mean, var = _normalise(grouped, (2,), eps)
    out = T.reshape(out, (N, C, HxW))
    if weight is not None:
        out = out * T.reshape(weight, (1, C, 1))
    if bias is not None:
        out = out + T.reshape(bias, (1, C, 1))
    flat = (N, group)
    return T.reshape(out, input.shape), T.reshape(mean, flat), T.reshape(1.0 / T.prim("sqrt", var + eps), flat)


@op("_batch_norm_statistics(Tensor input, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor, Tensor)",
    rule=lambda input, weight, bias, eps: _batch_dtypes(input, weight), on="-", layout="spatial", node="NativeBatchNormBackward0", out=False)
def _batch_norm_statistics(input, weight, bias, eps):
    """`_batch_norm_train`, and each channel's 1 / deviation."""
    _check_channels(input, weight=weight, bias=bias)
    dims = tuple(d for d in range(input.ndim) if d != 1)
    eps, count = T.cast(eps, input.dtype), numel_of(input.shape[d] for d in dims)
    out, mean, var = _normalise(input, dims, eps)
    if weight is not None:
        out = out * _per_channel(weight, input.ndim)
    if bias is not None:
        out = out + _per_channel(bias, input.ndim)
    flat = (input.shape[1],)
    unbiased = var * (T.size(count, input.dtype) / T.size(count - 1, input.dtype))
    return (out, *(T.stop(T.reshape(x, flat)) for x in (mean, 1.0 / T.prim("sqrt", var + eps), unbiased)))


def _batch_dtypes(input, weight):
    compute, (result, statistic, _) = _with_statistics(input, weight, "batch_norm")
    return compute, [result, statistic, statistic, statistic]


@op("local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor", rule=None, on="F", layout="pointwise",
    node="DivBackward0", out=False, refuses="bc", kernel="avg_pool3d_out_frame", samples=normalisation("local_response_norm"))
def local_response_norm(input, size, alpha, beta, k):
    """Each channel divided by `(k + alpha * mean)**beta`, the mean being of the squares of the `size` channels around it (beyond the last ones 0)."""
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality                          input (got {input.ndim} dimensions)")
    if input.numel() == 0:
        return input
    x = T.cast(input, T.compute_dtype(input.dtype))
    shape, rank = x.shape, x.ndim + 1
    c = T.iota(shape[1], 2, rank) + T.iota(size, 0, rank) - size // 2
    at = [c if d == 1 else T.iota(s, d + 1, rank) for d, s in enumerate(shape)]
    near = T.load(x, at, (c >= 0) & (c < T.size(shape[1], "i64")), 0, shape=(size, *shape))
    total = T.reshape(T.fold("sum", near * near, (0,)), shape)
    whole = not T.is_float(x.dtype)
    mean = T.cast(T.prim("idiv", total, T.const(size, x.dtype)), T.default_dtype()) if whole else total / T.const(size, x.dtype)
    out = T.divide(x, T.prim("pow", mean * T.cast(alpha, mean.dtype) + T.cast(k, mean.dtype), T.cast(beta, mean.dtype)))
    return out if whole else T.cast(out, input.dtype)
