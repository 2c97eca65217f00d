"""Folding a batch norm in evaluation into the layer before it."""
from __future__ import annotations

import copy

import rushlight as rl

from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]


def _folded(weight, bias, mean, var, eps, scale, shift, channel_dim: int = 0):
    bias = rl.zeros_like(mean) if bias is None else bias
    scale = rl.ones_like(mean) if scale is None else scale
    shift = rl.zeros_like(mean) if shift is None else shift
    factor = scale * rl.rsqrt(var + eps)
    shape = [1] * weight.dim()
    shape[channel_dim] = -1
    return (Parameter((weight * factor.reshape(shape)).to(weight.dtype), weight.requires_grad), Parameter(((bias - mean) * factor + shift).to(bias.dtype), bias.requires_grad))


def fuse_conv_bn_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, transpose: bool = False):
    """(weight, bias) of one convolution that does what it and the batch norm after it do."""
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_conv_bn_eval(conv, bn, transpose: bool = False):
    """A copy of the convolution with the batch norm in its weights."""
    if conv.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    fused = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose)
    return fused


def fuse_linear_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b): return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear, bn):
    """A copy of the linear layer with the batch norm in its weights."""
    if linear.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.num_features not in (linear.out_features, 1):
        raise AssertionError(f"To fuse, linear.out_features == bn.num_features or bn.num_features == 1; got {linear.out_features} and {bn.num_features}")
    fused = copy.deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    return fused
