"""torch.functional: functions of torch itself, under the module that torch keeps them in."""
from __future__ import annotations

import rushlight as _rl

_NAMES = ("atleast_1d", "atleast_2d", "atleast_3d", "align_tensors", "broadcast_shapes", "broadcast_tensors", "cartesian_prod", "block_diag", "cdist", "chain_matmul",
          "einsum", "istft", "lu", "norm", "meshgrid", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot", "unique", "unique_consecutive", "unravel_index")


def __getattr__(name: str):
    if name in _NAMES:
        return getattr(_rl, name)
    raise AttributeError(f"module 'torch.functional' has no attribute '{name}'")
