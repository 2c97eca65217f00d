"""The matrix products of `nn.functional` that decide something in Python before they call an operator: of groups, and of scaled 8-bit floats."""
from __future__ import annotations

import enum

import rushlight as rl
from rushlight import Tensor


# ------------------------------------------------------------------------------------------------------------------ groups
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype=None) -> Tensor:
    """A product for each group of rows, columns or elements of the sums, which end at `offs`; of two stacks of matrices, their products.

    (rows, k) with (groups, k, n): each group of rows with its matrix. (groups, m, k) with (k, columns): each matrix with its columns. (m, k) with (k, n): each group of k is a product of
    its own. Rows and columns past the last offset are 0.
    """
    _check_groups(mat_a, mat_b, offs, bias, out_dtype)
    if offs is None: return mat_a @ mat_b
    ends = offs.tolist()
    whole = mat_a.shape[-1] if mat_a.dim() == mat_b.dim() else mat_a.shape[0] if mat_a.dim() == 2 else mat_b.shape[1]
    if any(end < 0 or end > whole for end in ends):
        raise RuntimeError(f"grouped_mm: the offsets {ends} go beyond the {whole} elements that they divide")
    spans = [slice(start, max(start, end)) for start, end in zip([0, *ends], ends)]
    if mat_a.dim() == mat_b.dim(): return rl.stack([mat_a[:, span] @ mat_b[span] for span in spans])
    if mat_a.dim() == 2:
        parts = [mat_a[span] @ b for span, b in zip(spans, mat_b)]
        return rl.cat([*parts, mat_a.new_zeros(whole - sum(p.shape[0] for p in parts), mat_b.shape[-1])])
    parts = [a @ mat_b[:, span] for span, a in zip(spans, mat_a)]
    return rl.cat([*parts, mat_a.new_zeros(mat_a.shape[1], whole - sum(p.shape[1] for p in parts))], 1)


def _check_groups(a, b, offs, bias, out_dtype) -> None:
    for name, x in (("mat_a", a), ("mat_b", b)):
        if x.dtype not in (rl.float32, rl.bfloat16, rl.float16):
            raise RuntimeError(f"Expected {name} to be Float32, BFloat16 or Float16 matrix, got {x.dtype}")
        if x.dim() not in (2, 3):
            raise RuntimeError(f"{name} has to be 2 or 3d, and is of {x.dim()} dimensions")
    if a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"contraction dimension of mat_a and mat_b must match: they are {a.shape[-1]} and {b.shape[-2]}")
    if (offs is None) != (a.dim() == b.dim() == 3):
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    if offs is not None and offs.dtype is not rl.int32:
        raise RuntimeError(f"Offsets have to be int32, not {offs.dtype}")
    stacks = [x.shape[0] for x in (a, b) if x.dim() == 3] + ([] if offs is None or a.dim() == b.dim() else [offs.numel()])
    if len(set(stacks)) > 1:
        raise RuntimeError(f"matrix batch sizes have to match: they are {stacks}")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if out_dtype is not None and out_dtype is not a.dtype:
        raise RuntimeError(f"Grouped gemm output dtype must match `mat_a` dtype: they are {out_dtype} and {a.dtype}")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}")


# ---------------------------------------------------------------------------------------------------------- 8-bit floats
class ScalingType(enum.Enum):
    """What one scale belongs to: the tensor, a row (of the right factor: a column), a block."""
    TensorWise, RowWise, BlockWise1x16, BlockWise1x32, BlockWise1x128, BlockWise128x128 = range(6)


class SwizzleType(enum.Enum):
    """The order in which the scales of blocks lie in memory."""
    NO_SWIZZLE, SWIZZLE_32_4_4 = range(2)


def scaled_mm(mat_a: Tensor, mat_b: Tensor, scale_a, scale_recipe_a, scale_b, scale_recipe_b, swizzle_a=None, swizzle_b=None, bias: Tensor | None = None, output_dtype=rl.bfloat16, contraction_dim=(),
              use_fast_accum: bool = False) -> Tensor:
    """The product of matrices of 8-bit floats, each times its scales: one for the tensor, or one for each row of the left and each column of the right factor."""
    recipes = [r[0] if isinstance(r, (list, tuple)) else r for r in (scale_recipe_a, scale_recipe_b)]
    scales = [s[0] if isinstance(s, (list, tuple)) else s for s in (scale_a, scale_b)]
    rowwise = ScalingType.RowWise in recipes
    if not set(recipes) <= {ScalingType.TensorWise, ScalingType.RowWise} or len(set(recipes)) > 1 or rowwise != (scales[0].numel() > 1 or scales[1].numel() > 1 or scales[0].dim() == 2):
        raise _no_scaling(mat_a, mat_b)
    return _scaled_mm(mat_a, mat_b, *scales, bias, None, output_dtype, use_fast_accum)


def _no_scaling(a, b) -> ValueError:
    return ValueError(f"Invalid scaling configuration. The matrices must be of 8-bit floats (they are of {a.dtype} and {b.dtype}), and the scales of float32: one for each of them, or one for each row of "
                      f"the left and each column of the right factor, of shapes ({a.shape[0]}, 1) and (1, {b.shape[-1]}). Scales of blocks need an accelerator.")


def _scaled_mm(self: Tensor, mat2: Tensor, scale_a: Tensor, scale_b: Tensor, bias: Tensor | None = None, scale_result: Tensor | None = None, out_dtype=None, use_fast_accum: bool = False) -> Tensor:
    """`scaled_mm` below its signature: what the scales belong to is seen from their shapes. `scale_result` divides a result of 8-bit floats."""
    if self.dim() != 2 or mat2.dim() != 2:
        raise RuntimeError(f"mat_a must be a matrix, and so must mat_b: they are of {self.dim()} and {mat2.dim()} dimensions")
    if self.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"mat_a and mat_b shapes cannot be multiplied ({self.shape[0]}x{self.shape[1]} and {mat2.shape[0]}x{mat2.shape[1]})")
    narrow = (rl.float8_e4m3fn, rl.float8_e5m2)
    single = scale_a.numel() == scale_b.numel() == 1
    rows = tuple(scale_a.shape) == (self.shape[0], 1) and tuple(scale_b.shape) == (1, mat2.shape[1])
    if self.dtype not in narrow or mat2.dtype not in narrow or scale_a.dtype is not rl.float32 or scale_b.dtype is not rl.float32 or not (single or rows):
        raise _no_scaling(self, mat2)
    out = (self.float() @ mat2.float()) * (scale_a.reshape(()) * scale_b.reshape(()) if single else scale_a * scale_b)
    if bias is not None: out = out + bias.float()
    out_dtype = self.dtype if out_dtype is None else out_dtype
    if scale_result is not None and out_dtype in narrow: out = out / scale_result
    return out.to(out_dtype)
