"""Modules of torch.nn that its database leaves out, as entries of the same form: constructor, then inputs."""
from __future__ import annotations

import types

import torch
from torch.testing._internal.common_modules import FunctionInput, ModuleInput

# Whose result depends on the mode.
DIFFER = ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout", "RReLU", "SyncBatchNorm", "LazyBatchNorm1d", "LazyBatchNorm2d",
          "LazyBatchNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d")


class Make:
    """Tensors of one dtype."""

    def __init__(self, dtype): self.dtype = dtype
    def __call__(self, *shape): return torch.randn(shape, dtype=self.dtype, requires_grad=True)
    def positive(self, *shape): return torch.rand(shape, dtype=self.dtype).add_(0.1).requires_grad_()
    def index(self, high, *shape): return torch.randint(0, high, shape)

    def sign(self, *shape): return torch.randint(0, 2, shape).mul(2).sub(1).to(self.dtype)

    def places(self, dims, *shape):
        """What MaxPool gives to MaxUnpool."""
        pooled, where = getattr(torch.nn.functional, f"max_pool{dims}d")(torch.randn(shape, dtype=self.dtype), 2, return_indices=True)
        return pooled.requires_grad_(), where


def case(*args, **kwargs):
    """One configuration: `case(constructor arguments)(forward arguments)`; tensors are made by functions of Make."""
    return lambda *inputs, **named: (args, kwargs, inputs, named)


x = lambda *shape: lambda make: make(*shape)                         # noqa: E731
places = lambda dims, *shape: lambda make: make.places(dims, *shape)  # noqa: E731
index = lambda high, *shape: lambda make: make.index(high, *shape)   # noqa: E731
sign = lambda *shape: lambda make: make.sign(*shape)                 # noqa: E731
CASES = {
    **{f"Dropout{d}": [case(0.3)(x(2, 3, *(4,) * (int(d[:1] or 1)))), case(0)(x(2, 3, *(4,) * int(d[:1] or 1)))] for d in ("", "1d", "2d", "3d")},
    "AlphaDropout": [case(0.3)(x(3, 4))], "FeatureAlphaDropout": [case(0.3)(x(2, 3, 4))],
    "RReLU": [case()(x(3, 4)), case(0.1, 0.4)(x(5))], "Hardsigmoid": [case()(x(3, 4))], "Identity": [case(3, any=1)(x(3, 4))],
    "Flatten": [case()(x(2, 3, 4)), case(0, 1)(x(2, 3, 4))], "Unflatten": [case(1, (2, 3))(x(2, 6, 4)), case(-1, (2, -1))(x(3, 8))],
    "Fold": [case((4, 5), 2)(x(2, 12, 12)), case((4, 5), (2, 3), dilation=1, padding=1, stride=2)(x(1, 12, 9))],
    "Unfold": [case(2)(x(2, 3, 4, 5)), case((2, 3), dilation=1, padding=1, stride=2)(x(1, 3, 4, 5))],
    "PixelShuffle": [case(2)(x(1, 8, 3, 2))], "PixelUnshuffle": [case(2)(x(1, 2, 6, 4))], "ChannelShuffle": [case(2)(x(2, 6, 3, 2)), case(3)(x(1, 6, 4))],
    "Upsample": [case(scale_factor=2)(x(1, 2, 3)), case(size=(5, 7), mode="bilinear", align_corners=True)(x(1, 2, 3, 4)), case(scale_factor=1.5, mode="bicubic")(x(1, 2, 4, 4)),
                 case(scale_factor=(1.0, 2.0, 1.5), mode="trilinear", recompute_scale_factor=True)(x(1, 2, 3, 2, 4))],
    "UpsamplingNearest2d": [case(scale_factor=2)(x(1, 2, 3, 4))], "UpsamplingBilinear2d": [case(size=(5, 6))(x(1, 2, 3, 4))],
    "MaxUnpool1d": [case(2)(places(1, 2, 3, 6))], "MaxUnpool2d": [case(2)(places(2, 2, 3, 6, 4))], "MaxUnpool3d": [case(2)(places(3, 1, 2, 4, 4, 2))],
    "EmbeddingBag": [case(7, 3)(index(7, 8), torch.tensor([0, 3, 5])), case(7, 3, mode="sum", padding_idx=2)(index(7, 2, 4)), case(7, 3, mode="max")(index(7, 2, 4)),
                     case(7, 3, mode="sum", include_last_offset=True)(index(7, 6), torch.tensor([0, 2, 6]), x(6))],
    "CosineSimilarity": [case()(x(3, 4), x(3, 4)), case(dim=0, eps=1e-3)(x(3, 4), x(3, 4))],
    "PairwiseDistance": [case()(x(3, 4), x(3, 4)), case(p=1, keepdim=True)(x(3, 4), x(3, 4))],
    "TripletMarginLoss": [case()(x(3, 4), x(3, 4), x(3, 4)), case(2.0, 1, swap=True, reduction="sum")(x(3, 4), x(3, 4), x(3, 4))],
    "TripletMarginWithDistanceLoss": [case()(x(3, 4), x(3, 4), x(3, 4)), case(margin=0.5, swap=True, reduction="none")(x(3, 4), x(3, 4), x(3, 4))],
    "NLLLoss2d": [case()(x(2, 3, 4, 5), index(3, 2, 4, 5))],
    "AdaptiveLogSoftmaxWithLoss": [case(16, 20, [5, 10, 15], div_value=2.0)(x(6, 16), torch.tensor([0, 7, 19, 12, 6, 4])), case(16, 12, (4,), head_bias=True)(x(16), torch.tensor(9)),
                                   case(16, 12, [4])(x(2, 16), torch.tensor([1, 2])), case(16, 12, [4])(x(2, 16), torch.tensor([1, 12]))],
    "CrossMapLRN2d": [case(n, 0.5, 0.7, 2)(lambda make: make(2, 7, 2, 3).detach()) for n in (1, 2, 3, 4, 5, 9)] + [case(3)(x(2, 3, 4))],
    "SyncBatchNorm": [case(3)(x(4, 3)), case(3, momentum=None, bias=False)(x(2, 3, 4, 2)), case(3, affine=False, track_running_stats=False)(x(2, 3, 4)), case(3)(x(3))],
    "LazyLinear": [case(3)(x(2, 5)), case(3, bias=False)(x(5))],
    **{f"LazyBatchNorm{d}d": [case()(x(4, 3, *(2,) * d)), case(affine=False)(x(4, 3, *(2,) * d)), case(track_running_stats=False, bias=False)(x(4, 3, *(2,) * d))] for d in (1, 2, 3)},
    **{f"LazyInstanceNorm{d}d": [case()(x(4, 3, *(2,) * d)), case(affine=False, track_running_stats=False)(x(4, 3, *(2,) * d))] for d in (1, 2, 3)},
}


def _inputs(cases):
    def inputs(info, device, dtype, requires_grad, training):
        out, make = [], Make(dtype)
        for args, kwargs, given, named in cases:
            values = []
            for value in given:
                value = value(make) if isinstance(value, types.FunctionType) else value
                values += value if isinstance(value, tuple) else [value]
            out.append(ModuleInput(FunctionInput(*args, **kwargs), FunctionInput(*values, **named)))
        return out
    return inputs


def infos():
    return [types.SimpleNamespace(name="nn." + name, module_cls=getattr(torch.nn, name), dtypes=(torch.float32, torch.float64), train_and_eval_differ=name in DIFFER,
                                  module_inputs_func=_inputs(cases), module_error_inputs_func=None) for name, cases in CASES.items()]
