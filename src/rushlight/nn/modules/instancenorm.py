"""Instance normalisation: each channel of each sample by itself."""
from __future__ import annotations

from rushlight import Tensor

from ..._C import warn
from .. import functional as F
from .batchnorm import _LazyNormBase, _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d", "LazyInstanceNorm3d"]


class _InstanceNorm(_NormBase):
    _count: int                # spatial dimensions

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = False,
                 track_running_stats: bool = False, device=None, dtype=None, *, bias: bool = True) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (self._count + 1, self._count + 2):
            raise ValueError(f"expected {self._count + 1}D or {self._count + 2}D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        dim = input.dim() - self._count - 1
        if input.size(dim) != self.num_features:
            if self.affine:
                raise ValueError(f"expected input's size at dim={dim} to match num_features ({self.num_features}), but got: {input.size(dim)}.")
            warn(f"input's size at dim={dim} does not match num_features, {self.num_features}; it makes no difference, since without affine=True num_features is not used")
        if input.dim() == self._count + 1:
            return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)
        return self._apply_instance_norm(input)

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias, self.training or not self.track_running_stats,
                               self.momentum if self.momentum is not None else 0.0, self.eps)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs) -> None:
        if local_metadata.get("version", None) is None and not self.track_running_stats:
            found = [prefix + name for name in ("running_mean", "running_var") if prefix + name in state_dict]
            if found:
                kind, names = type(self).__name__, " and ".join(f'"{key}"' for key in found)
                error_msgs.append(f"Unexpected running stats buffer(s) {names} for {kind} with track_running_stats=False. If state_dict is a checkpoint saved "
                                  f"before 0.4.0, this may be expected because {kind} does not track running stats by default since 0.4.0. Please remove these "
                                  f"keys from state_dict, or set track_running_stats=True in {kind} to use them.")
                for key in found:
                    state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)


class InstanceNorm1d(_InstanceNorm):
    """Each channel of each sample brought to mean 0 and variance 1: (N, C, L) or (C, L)."""
    _count = 1


class InstanceNorm2d(_InstanceNorm):
    """Each channel of each sample brought to mean 0 and variance 1: (N, C, H, W) or (C, H, W)."""
    _count = 2


class InstanceNorm3d(_InstanceNorm):
    """Each channel of each sample brought to mean 0 and variance 1: (N, C, D, H, W) or (C, D, H, W)."""
    _count = 3


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """An InstanceNorm1d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """An InstanceNorm2d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """An InstanceNorm3d that takes `num_features` from its first input."""

    cls_to_become = InstanceNorm3d
