"""Ready-made parametrisations: orthogonal matrices, direction and length, spectral norm 1."""
from __future__ import annotations

import enum

import rushlight as rl
from rushlight import Tensor

from .. import functional as F
from ..modules.module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


class _WeightNorm(Module):
    """The tensor as a length (`original0`) times a direction (`original1`)."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor: return weight_v * (weight_g / _norm_except(weight_v, self.dim))
    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]: return _norm_except(weight, self.dim), weight


def _norm_except(v: Tensor, dim: int) -> Tensor:
    """The norm over all dimensions but one (-1: over all)."""
    if dim == -1:
        return v.norm()
    return v.norm(2, [d for d in range(v.dim()) if d != dim % v.dim()], keepdim=True)


def weight_norm(module: Module, name: str = "weight", dim: int = 0) -> Module:
    """Learn a tensor's length and direction apart."""
    transform = _WeightNorm(dim)
    parametrize.register_parametrization(module, name, transform, unsafe=True)

    def from_old_names(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for old, new in (("_g", "original0"), ("_v", "original1")):
            if f"{prefix}{name}{old}" in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.{new}"] = state_dict.pop(f"{prefix}{name}{old}")
    module._register_load_state_dict_pre_hook(from_old_names)
    return module


class _SpectralNorm(Module):
    """The tensor over its largest singular value, which a few power iterations follow (in training, at each use)."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if dim >= weight.dim() or dim < -weight.dim():
            raise IndexError(f"Dimension out of range (expected to be in range of [-{weight.dim()}, {weight.dim() - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}")
        self.dim, self.eps = dim if dim >= 0 else dim + weight.dim(), eps
        if weight.dim() > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._as_matrix(weight)
            rows, columns = matrix.shape
            self.register_buffer("_u", F.normalize(matrix.new_empty(rows).normal_(0, 1), dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(matrix.new_empty(columns).normal_(0, 1), dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _as_matrix(self, weight: Tensor) -> Tensor:
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    def _iterate(self, matrix: Tensor, count: int) -> None:
        with rl.no_grad():
            for _ in range(count):
                self._u.copy_(F.normalize(rl.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(rl.mv(matrix.H if matrix.is_complex() else matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.dim() == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._as_matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / rl.vdot(u, rl.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor: return value


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None) -> Module:
    """Keep a tensor's largest singular value at 1."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = 1 if type(module).__name__.startswith("ConvTranspose") else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


def _nearest_frame(matrix: Tensor) -> Tensor:
    """The orthogonal factor of a matrix, with the signs that make the triangular one's diagonal positive."""
    reflectors, tau = rl.geqrf(matrix)
    signs = reflectors.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)
    return rl.linalg.householder_product(reflectors, tau) * signs


class _OrthMaps(enum.Enum):
    matrix_exp = 1
    cayley = 2
    householder = 3


class _Orthogonal(Module):
    """An orthogonal matrix from a lower triangle: the matrix exponential or the Cayley map of an antisymmetric matrix, or a product of reflections; with
    `use_trivialization` times a fixed orthogonal matrix (`base`), which assigning to the parametrised tensor sets."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: _OrthMaps, use_trivialization: bool = True) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.size(-2) < x.size(-1)
        if wide:
            x = x.mT
        rows, columns = x.size(-2), x.size(-1)
        if self.orthogonal_map == _OrthMaps.householder:
            vectors = x.tril(diagonal=-1)                    # each with an implicit 1 on the diagonal, where the signs are kept
            q = rl.linalg.householder_product(vectors, 2.0 / (1.0 + (vectors * vectors).sum(dim=-2)))
            q = q * x.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)
        else:
            a = x.tril()
            if rows != columns:
                a = rl.cat([a, a.new_zeros(rows, rows - columns).expand(*a.shape[:-2], -1, -1)], dim=-1)
            a = a - a.mH
            if self.orthogonal_map == _OrthMaps.matrix_exp:
                q = rl.matrix_exp(a)
            else:
                identity = rl.eye(rows, dtype=a.dtype, device=a.device)
                q = rl.linalg.solve(rl.add(identity, a, alpha=-0.5), rl.add(identity, a, alpha=0.5))
            if rows != columns:
                q = q[..., :columns]
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    @rl.no_grad()
    def right_inverse(self, q: Tensor) -> Tensor:
        if q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {q.shape}.")
        wide = q.size(-2) < q.size(-1)
        frame = q.mT if wide else q
        rows, columns = frame.size(-2), frame.size(-1)
        if not hasattr(self, "base"):
            if self.orthogonal_map != _OrthMaps.householder:
                raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley parametrizations without a base to put the matrix in: "
                                          "leave out use_trivialization=False, or take orthogonal_map='householder'")
            reflectors, tau = rl.geqrf(frame)
            signs = reflectors.diagonal(dim1=-2, dim2=-1).sign()
            # A column that needs no reflection has tau 0; forward reflects all the same, so the sign makes up for it.
            reflectors.diagonal(dim1=-2, dim2=-1).copy_(rl.where(tau == 0, -signs, signs))
            return reflectors.mT if wide else reflectors
        if rows != columns:                                  # any further columns: they are made orthogonal to the given ones
            more = rl.randn((*frame.shape[:-2], rows, rows - columns), dtype=frame.dtype, device=frame.device)
            frame = rl.cat([frame, more], dim=-1)
        self.base = _nearest_frame(frame)
        negative = rl.zeros_like(q)                          # every map makes the identity of this
        negative.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
        return negative


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True) -> Module:
    """Keep a matrix orthogonal (its columns or rows orthonormal)."""
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.size(-2) == weight.size(-1) or weight.is_complex() else "householder"
    if orthogonal_map not in _OrthMaps.__members__:
        raise ValueError(f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}')
    parametrize.register_parametrization(module, name, _Orthogonal(weight, _OrthMaps[orthogonal_map], use_trivialization), unsafe=True)
    return module
