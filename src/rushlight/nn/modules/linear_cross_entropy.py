"""A linear layer and cross entropy in one: the loss of a language model's head."""
from __future__ import annotations

import dataclasses
import math

import rushlight as rl
from rushlight import Tensor

from .. import functional as F
from .linear import Linear
from .loss import _WeightedLoss

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


@dataclasses.dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How many rows of the logits exist at a time: `batch_chunk_size`, or by the rule `chunking_method` ('aspect_ratio:N': about N times fewer numbers
    than the input has). Half types keep their logits in float32; the other fields are torch's and without effect here."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: rl.dtype | None = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, _, factor = self.chunking_method.partition(":")
            if name != "aspect_ratio" or not (factor or "1").isdigit() or int(factor or "1") < 1:
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and (not isinstance(size, int) or size < 1):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")
        if self.acc_dtype not in (None, rl.float16, rl.bfloat16, rl.float32, rl.float64):
            raise ValueError("acc_dtype must be one of {None, torch.float16, torch.bfloat16, torch.float32, torch.float64}, "
                             f"got {self.acc_dtype!r}. Pass acc_dtype=None to let the op pick automatically.")

    def chunk_rows(self, rows: int, features: int, classes: int) -> int:
        """The rows of a chunk."""
        method = self.chunking_method
        if method == "auto":
            method = None if self.batch_chunk_size is not None else "aspect_ratio:2"
        if method is None:
            return max(1, rows if self.batch_chunk_size is None else min(self.batch_chunk_size, rows))
        wanted = -(-rows // max(-(-classes // max(features, 1)), 1))
        size = min((1 << max(wanted - 1, 0).bit_length()) // int(method.partition(":")[2] or 1), rows)
        if self.batch_chunk_size is not None and size != self.batch_chunk_size:
            raise ValueError(f"batch_chunk_size (={self.batch_chunk_size}) and chunking_method ('{method}') give different chunk sizes "
                             f"({self.batch_chunk_size} vs {size}); pass only one.")
        return max(1, size)


class LinearCrossEntropyLoss(_WeightedLoss):
    """Cross entropy of the logits that a linear layer makes of the input; with `out_features` each sample has a loss for each of their places."""

    def __init__(self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (), bias: bool = False, device=None, dtype=None,
                 reduction: str = "mean", weight: Tensor | None = None, ignore_index: int | None = None, label_smoothing: float = 0.0,
                 options: LinearCrossEntropyOptions | None = None) -> None:
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0.0 <= label_smoothing <= 1.0:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        super().__init__(weight, None, None, reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(in_features, math.prod(out_features, start=num_classes), bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        outputs = (self.num_classes, *self.out_features)
        bias = None if self.linear.bias is None else self.linear.bias.reshape(outputs)
        return F.linear_cross_entropy(input, self.linear.weight.reshape((*outputs, self.linear.in_features)), target, linear_bias=bias, weight=self.weight,
                                      reduction=self.reduction, ignore_index=self.ignore_index, label_smoothing=self.label_smoothing,
                                      options=self.options)

    def extra_repr(self) -> str:
        return (f"in_features={self.linear.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
                f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
                f"label_smoothing={self.label_smoothing}, options={self.options}")
