"""Where the stored elements of a sparse tensor are: coordinates (COO), or rows or columns one after the other (CSR, CSC).

A pattern has no values. It is never changed, so tensors share it: `sin(s)`, `2 * s` and the gradient of `s` have the pattern of `s`.
"""
from __future__ import annotations

import math

import rushlight as rl

from .. import _C

COO, CSR, CSC = _C.sparse_coo, _C.sparse_csr, _C.sparse_csc
COMPRESSED = (CSR, CSC, _C.sparse_bsr, _C.sparse_bsc)
WORDS = {_C.strided: "Strided", COO: "Sparse", CSR: "SparseCsr", CSC: "SparseCsc", _C.sparse_bsr: "SparseBsr", _C.sparse_bsc: "SparseBsc"}
INDICES = {COO: ("indices",), CSR: ("crow_indices", "col_indices"), CSC: ("ccol_indices", "row_indices")}            # what the parts of a pattern are called
LARGEST = 2 ** 63 - 1


class Pattern:
    """`indices` is ([sparse_dim, nnz],) for COO, and (where each row begins and the last ends, columns) for CSR; CSC has columns for rows."""

    __slots__ = ("layout", "size", "indices", "coalesced", "_places", "_places_of")

    def __init__(self, layout, size, indices, coalesced=True):
        self.layout, self.size, self.indices, self.coalesced = layout, rl.Size(size), indices, coalesced
        self._places = self._places_of = None

    @property
    def sparse_dim(self) -> int: return self.indices[0].shape[0] if self.layout is COO else 2
    @property
    def dense_dim(self) -> int: return len(self.size) - self.sparse_dim
    @property
    def nnz(self) -> int: return self.indices[-1].shape[-1]

    def places(self):
        """[sparse_dim, nnz]: the coordinates of each stored element, in the order of the values."""
        if self.layout is COO:
            return self.indices[0]
        written = tuple(i._version for i in self.indices)            # what a program writes into crow_indices() counts
        if self._places is None or self._places_of != written:
            outer, inner = self.indices
            lines = rl.repeat_interleave(rl.arange(outer.shape[0] - 1), outer.diff().to(rl.int64))
            pair = (lines, inner.to(rl.int64))
            self._places, self._places_of = rl.stack(pair if self.layout is CSR else pair[::-1]), written
        return self._places

    def keys(self):
        """One number per stored element: its place when the sparse dimensions are laid out row by row."""
        return flat_keys(self.places(), self.size[:self.sparse_dim])

    def resized(self, size, indices=None, coalesced=None):
        return Pattern(self.layout, size, self.indices if indices is None else indices, self.coalesced if coalesced is None else coalesced)

    def same_as(self, other) -> bool:
        """The same places in the same order."""
        if self is other:
            return True
        if self.layout is not other.layout or self.size != other.size:
            return False
        return all(a is b or a.shape == b.shape and bool((a == b).all()) for a, b in zip(self.indices, other.indices))

    def value_shape(self, nnz=None) -> tuple:
        return (self.nnz if nnz is None else nnz, *self.size[self.sparse_dim:])


def flat_keys(places, sizes):
    if not len(sizes):
        return rl.zeros(places.shape[1], dtype=rl.int64)
    if math.prod(sizes) > LARGEST:
        raise RuntimeError(f"the sparse dimensions {tuple(sizes)} have more places than an int64 can number")
    keys = places[0]
    for k in range(1, len(sizes)):
        keys = keys * sizes[k] + places[k]
    return keys


def places_of_keys(keys, sizes):
    """The inverse of `flat_keys`: [len(sizes), n]."""
    rows, rest = [], keys
    for n in reversed(sizes):
        rows.append(rest.remainder(n) if n else rest)
        rest = rest.div(n, rounding_mode="floor") if n else rest
    return rl.stack(rows[::-1]) if rows else rl.empty((0, keys.shape[0]), dtype=rl.int64)


def grouped(keys):
    """(the different keys in order, an order that brings equal ones together, the group of each element in that order). Faster than `unique` with its inverse, and what
    falls into one group stays in order, so sums do not depend on how they are made."""
    in_order, order = keys.sort(stable=True)
    if keys.shape[0] < 2: return in_order, order, rl.zeros_like(keys)
    new = in_order[1:] != in_order[:-1]
    groups = rl.cat([rl.zeros(1, dtype=rl.int64), new.cumsum(0)])
    return rl.cat([in_order[:1], in_order[1:].masked_select(new)]), order, groups


def outer_of(lines, count):
    """Where each of `count` rows begins, and the end of the last, from the row of each element, in order."""
    return rl.cat([rl.zeros(1, dtype=rl.int64), rl.bincount(lines, minlength=count).cumsum(0)])


# ------------------------------------------------------------------------------------------------------------- validation
def check_dims(size, sparse_dim, dense_dim) -> None:
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}")


def check_coo(indices, values, size, coalesced=False) -> None:
    """torch's errors, and one it leaves out unless asked: an index beyond the size would be read elsewhere."""
    if indices.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
    if values.dim() < 1 or indices.shape[1] != values.shape[0]:
        raise RuntimeError(f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from values: "
                           f"{values.shape[0] if values.dim() else values.numel()}")
    sparse_dim = indices.shape[0]
    check_dims(size, sparse_dim, values.dim() - 1)
    wanted = [values.shape[0], *size[sparse_dim:]]
    if list(values.shape) != wanted:
        raise RuntimeError(f"values has incorrect size, expected {wanted}, got {list(values.shape)}")
    for n in size:
        if n < 0:
            raise RuntimeError(f"numel: integer multiplication overflow: the size {tuple(size)} has a negative dimension")
    if indices.numel():
        low, high = indices.amin(1).tolist(), indices.amax(1).tolist()
        for d in range(sparse_dim):
            if low[d] < 0:
                raise RuntimeError(f"found negative index {low[d]} for dim {d}")
            if high[d] >= size[d]:
                raise RuntimeError(f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found index {high[d]}")
    if coalesced and indices.shape[1] > 1:
        keys = flat_keys(indices, size[:sparse_dim])
        if not bool((keys[1:] > keys[:-1]).all()):
            raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")


def check_compressed(layout, outer, inner, values, size, ordered=False) -> None:
    """What makes indices of rows one after the other meaningful."""
    outer_name, inner_name = INDICES[layout]
    lines, across = ("nrows", "ncols") if layout is CSR else ("ncols", "nrows")
    if outer.dim() > 1 or values.dim() and inner.dim() > 1:
        raise NotImplementedError(f"batches of {layout} matrices are not available: {outer_name} has {outer.dim()} dimensions; make one tensor per matrix")
    if len(size) < 2 or len(size) != 1 + values.dim():
        raise RuntimeError(f"tensor dimensionality must be sum of batch, base, and dense dimensionalities (=0 + 2 + {max(values.dim() - 1, 0)}) but got {len(size)}")
    for name, i in ((outer_name, outer), (inner_name, inner)):
        if i.dim() != 1:
            raise RuntimeError(f"{name} must have dimensionality >= 1 but got {i.dim()}")
    if outer.dtype not in (rl.int32, rl.int64) or inner.dtype is not outer.dtype:
        raise RuntimeError(f"{outer_name} and {inner_name} dtype must be Int or Long, and the same, but got {outer.dtype} and {inner.dtype}")
    count, width = (size[0], size[1]) if layout is CSR else (size[1], size[0])
    if outer.shape[0] != count + 1:
        raise RuntimeError(f"{outer_name}.shape[-1] must be equal to the number of {lines} + 1 (={count + 1}), but got {outer.shape[0]}")
    if inner.shape[0] != values.shape[0]:
        raise RuntimeError(f"{inner_name}.shape[-1] must be equal to nnz (={values.shape[0]}) as defined by values.shape[0], but got {inner.shape[0]}")
    if list(values.shape[1:]) != list(size[2:]):
        raise RuntimeError(f"values must have shape {[values.shape[0], *size[2:]]} but got {list(values.shape)}")
    if outer[0].item() != 0:
        raise RuntimeError(f"`{outer_name}[..., 0] == 0` is not satisfied: it is {outer[0].item()}")
    if outer[-1].item() != inner.shape[0]:
        raise RuntimeError(f"`{outer_name}[..., -1] == nnz` is not satisfied: it is {outer[-1].item()}, and there are {inner.shape[0]} elements")
    steps = outer.diff()
    if steps.numel() and not bool(((steps >= 0) & (steps <= width)).all()):
        raise RuntimeError(f"`0 <= {outer_name}[..., 1:] - {outer_name}[..., :-1] <= {across}` is not satisfied.")
    if inner.numel():
        if inner.amin().item() < 0:
            raise RuntimeError(f"`0 <= {inner_name} < {across}` is not satisfied: the least is {inner.amin().item()}")
        if inner.amax().item() >= width:
            raise RuntimeError(f"`0 <= {inner_name} < {across}` is not satisfied: the greatest is {inner.amax().item()}, {across} is {width}")
    if ordered and inner.shape[0] > 1:
        line = rl.repeat_interleave(rl.arange(count), steps.to(rl.int64))
        if not bool(((inner[1:] > inner[:-1]) | (line[1:] > line[:-1])).all()):
            raise RuntimeError(f"`{inner_name}[..., {outer_name}[..., i - 1]:{outer_name}[..., i]] for all i = 1, ..., {lines} are sorted and distinct along the last "
                               "dimension values` is not satisfied.")
