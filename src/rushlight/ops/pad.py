"""Padding: a value, the reflection, the edge or the other end around a tensor. Negative amounts crop.

Each is an index map of one read: no element is copied twice. The gradient is the map backwards, again in gather form: at most three positions of the
result read any one element, except an edge that was repeated, which sums its copies.
"""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples_spatial import padding
from .common import converted, hint, shape_text
from .sliding import all_of


def _amounts(pad, ndim):
    """(before, after) of each dimension; torch lists the last dimension first."""
    out = [(0, 0)] * ndim
    for k in range(len(pad) // 2):
        out[ndim - 1 - k] = (pad[2 * k], pad[2 * k + 1])
    return out


def _is_zero(x):
    return isinstance(x, int) and x == 0


@op("constant_pad_nd(Tensor self, SymInt[] pad, Scalar value=0) -> Tensor", rule=None, on="torch", layout="spatial", node="ConstantPadNdBackward0", out=False,
    samples=padding("constant"))
def constant_pad_nd(self, pad, value):
    """self with `value` before and after it along its last dimensions; `pad` lists (before, after) from the last dimension on.

    >>> rushlight.constant_pad_nd(rushlight.ones(2), (1, 2), 5)
    tensor([5., 1., 1., 5., 5.])
    """
    if len(pad) % 2 != 0:
        raise RuntimeError(f"Length of pad must be even but instead it equals {len(pad)}")
    if len(pad) > 2 * self.ndim:
        raise RuntimeError(f"Length of pad should be no more than twice the number of dimensions of the input. Pad length is {len(pad)} while the input has "
                           f"{self.ndim} dimensions.")
    amounts = _amounts(pad, self.ndim)
    cropped = all(not lo > 0 and not hi > 0 for lo, hi in amounts)
    places, tests, shape = [], [], []
    for d, (n, (lo, hi)) in enumerate(zip(self.shape, amounts)):
        size = n + lo + hi
        if size < 0:
            if cropped:
                raise RuntimeError("narrow(): length must be non-negative.")
            raise RuntimeError(f"The input size {hint(n)}, plus negative padding {hint(lo)} and {hint(hi)}, resulted in an invalid output size, which must be "
                               f"non-negative. Check dimension {d} of your input.")
        e = T.iota(size, d, self.ndim)
        if not _is_zero(lo):
            e = e - lo
            if lo > 0:
                tests.append(e >= 0)
        if hi > 0:
            tests.append(e < T.size(n, "i64"))
        places.append(e)
        shape.append(size)
    inside = all_of(tests)
    if inside is None:
        return T.load(self, places, shape=tuple(shape))
    return T.load(self, places, inside, converted(value, self.dtype), shape=tuple(shape))


# --------------------------------------------------------------------------------------------- maps of the tensor's own elements
def _source(mode, j, n):
    """The element that position j shows; j is in [-n, 2n)."""
    n_ = T.size(n, "i64")
    if mode == "reflect":
        return T.where(j < 0, -j, T.where(j >= n_, T.size(2 * n - 2, "i64") - j, j))
    if mode == "replicate":
        return T.where(j < 0, 0, T.where(j >= n_, T.size(n - 1, "i64"), j))
    return T.where(j < 0, j + n_, T.where(j >= n_, j - n_, j))


@op("_remapped_pad(Tensor self, SymInt[] pad, str mode) -> Tensor", once=True, rule=None, on="-", layout="spatial", node="ReflectionPad2DBackward0", out=False,
    samples=padding("remap"))
def _remapped_pad(self, pad, mode):
    """self with its reflection, its edge or its other end around it."""
    places, shape = [], []
    for d, (n, (lo, hi)) in enumerate(zip(self.shape, _amounts(pad, self.ndim))):
        e = T.iota(n + lo + hi, d, self.ndim)
        padded = not (_is_zero(lo) and _is_zero(hi))
        places.append(_source(mode, e - lo, n) if padded else e)
        shape.append(n + lo + hi)
    return T.load(self, places, shape=tuple(shape))


@_remapped_pad.gradient("self")
def _(grad, self, pad, mode):
    return _remapped_pad_backward(grad, self.shape, pad, mode)


@op("_remapped_pad_backward(Tensor incoming, SymInt[] size, SymInt[] pad, str mode) -> Tensor", rule=None, on="-", layout="spatial",
    node="ReflectionPad2DBackwardBackward0", out=False)
def _remapped_pad_backward(incoming, size, pad, mode):
    """The transpose of `_remapped_pad`, one dimension after another."""
    g = incoming
    for d, (n, (lo, hi)) in enumerate(zip(size, _amounts(pad, g.ndim))):
        if not (_is_zero(lo) and _is_zero(hi)):
            g = _collected(g, d, n, lo, hi, mode)
    return g


@_remapped_pad_backward.gradient("incoming")
def _(grad, pad, mode):
    return _remapped_pad(grad, pad, mode)


def _collected(g, d, n, lo, hi, mode):
    """Each of n elements along d: the sum of g over the positions that showed it."""
    rank, out = g.ndim, g.shape[d]
    p = T.iota(n, d, rank)

    def read(i, *more):
        where = [i if k == d else T.iota(s, k, rank) for k, s in enumerate(g.shape)]
        shape = tuple(n if k == d else s for k, s in enumerate(g.shape))
        return T.load(g, where, all_of([i >= 0, i < T.size(out, "i64"), *more]), 0, shape=shape)

    total = read(p + lo)
    if mode == "replicate":
        for count, edge, start in ((lo, 0, 0), (hi, n - 1, out - hi)):
            if count > 0:
                copies = T.reduce("sum", T.slice(g, d, start, start + count), (d,))
                total = total + T.where(T.prim("eq", p, T.size(edge, "i64")), copies, 0)
        return total
    if mode == "reflect":
        if lo > 0:
            total = total + read(lo - p, p >= 1)
        if hi > 0:
            total = total + read(T.size(lo + 2 * (n - 1), "i64") - p, p < T.size(n - 1, "i64"))
        return total
    if hi > 0:
        total = total + read(p + (lo + n))
    if lo > 0:
        total = total + read(p + (lo - n))
    return total


_WORDS = {"reflect": "reflection", "replicate": "replication"}


@op("_pad_around(Tensor self, SymInt[] pad, str mode) -> Tensor", once=True, rule=None, on="-", layout="spatial", node=lambda given: _node(given), out=False, samples=padding("around"))
def _pad_around(self, pad, mode):
    """Padding by the tensor's own elements, after torch's checks."""
    return _around(self, pad, mode)


@op("_pad_circular(Tensor self, SymInt[] pad) -> Tensor", once=True, rule=None, on="torch", layout="contiguous", node="CopySlices", out=False, samples=padding("circular"))
def _pad_circular(self, pad):
    """self with its other end before and after it."""
    return _around(self, pad, "circular")


def _around(self, pad, mode):
    dims = len(pad) // 2
    kernel = None if mode == "circular" else f"{_WORDS[mode]}_pad{dims}d"
    if kernel is not None and self.dtype == "b1":
        raise NotImplementedError(f'"{kernel}" not implemented for \'Bool\'')
    amounts = _amounts(pad, self.ndim)
    low = dims + 1
    if mode != "circular":
        for d, s in enumerate(self.shape):
            if s == 0 and not (d == 0 and self.ndim == low + 1):
                raise RuntimeError(f"Expected {low}D or {low + 1}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: "
                                   f"{shape_text(self.shape)}")
    x = self
    for d in range(self.ndim - dims, self.ndim):
        n, (lo, hi) = self.shape[d], amounts[d]
        if mode == "reflect" and not (lo < n and hi < n):
            k = 2 * (self.ndim - 1 - d)
            raise RuntimeError(f"Argument #{k + 4}: Padding size should be less than the corresponding input dimension, but got: padding ({hint(pad[k])}, "
                               f"{hint(pad[k + 1])}) at dimension {d} of input {shape_text(self.shape)}")
        if mode == "circular":
            if not (lo <= n and hi <= n):
                raise RuntimeError("Padding value causes wrapping around more than once.")
            if n + lo + hi < 0:
                raise RuntimeError("Negative padding value is resulting in an empty dimension")
            # What is cropped away does not come back at the other end.
            first, last = (-lo if lo < 0 else 0), (n + hi if hi < 0 else n)
            x = T.slice(x, d, first, last)
            amounts[d] = (0 if lo < 0 else lo, 0 if hi < 0 else hi)
        elif n + lo + hi < 0:
            if mode == "reflect":
                raise RuntimeError("numel: integer multiplication overflow")
            sizes = [s + a + b for s, (a, b) in zip(self.shape, amounts)]
            raise RuntimeError(f"Trying to create tensor with negative dimension {hint(n + lo + hi)}: {shape_text(sizes)}")
    flat = tuple(v for lo_hi in reversed(amounts[self.ndim - dims:]) for v in lo_hi)
    return _remapped_pad(x, flat, mode)


def _node(given):
    dims = len(given["pad"]) // 2
    return {"reflect": f"ReflectionPad{dims}DBackward0", "replicate": f"ReplicationPad{dims}DBackward0"}[given["mode"]]
