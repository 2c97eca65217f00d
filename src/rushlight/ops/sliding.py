"""The geometry of sliding windows, shared by pools and patches: sizes, errors, and where each tap of a window reads."""
from __future__ import annotations

from ..compiler import trace as T
from .common import hint, shape_text


class Axis:
    """One spatial dimension: n elements, `out` windows of k taps, `step` apart, taps `dilation` apart, `pad` positions before and after."""
    __slots__ = ("n", "out", "k", "step", "pad", "dilation", "ceil")

    def __init__(self, n, out, k, step, pad, dilation, ceil):
        self.n, self.out, self.k, self.step, self.pad, self.dilation, self.ceil = n, out, k, step, pad, dilation, ceil

    def start(self, dim, rank):
        """Where each window begins, before padding is taken off."""
        return T.iota(self.out, dim, rank) * self.step - self.pad

    def tap(self, k, dim, rank):
        """Where tap k of each window reads; it may lie outside."""
        return T.iota(self.out, dim, rank) * self.step + (k * self.dilation - self.pad)

    def may_start_before(self, k):
        return k * self.dilation < self.pad

    def may_end_after(self, k):
        """The last window ends at most `pad` after the end, and with ceil_mode up to a step less one further."""
        room = self.dilation * (self.k - 1 - k)
        return self.pad + (self.step - 1 if self.ceil else 0) > room

    def tests(self, e, k=None):
        """The conditions under which position e (of tap k) is inside; those that always hold are left out."""
        out = []
        if k is None and self.pad > 0 or k is not None and self.may_start_before(k):
            out.append(e >= 0)
        if k is None and self.may_end_after(self.k - 1) or k is not None and self.may_end_after(k):
            out.append(e < T.size(self.n, "i64"))
        return out


def repeated(value, count):
    """One number stands for all dimensions."""
    return tuple(value) * count if len(value) == 1 else tuple(value)


def numbers(value, count, name, what, default=None):
    """`count` ints from one or several; torch's words for a wrong number of them."""
    if value is None or len(value) == 0:
        if default is not None:
            return default
    elif len(value) == 1:
        return tuple(value) * count
    elif len(value) == count:
        return tuple(value)
    given = "be omitted, a single int" if what == "stride" else "be a single int"
    raise RuntimeError(f"{name}: {what} must either {given}, or a tuple of {('one', 'two', 'three')[count - 1]} ints")


def windows_of(n, k, step, pad, dilation, ceil):
    """How many windows fit; with ceil_mode the last may hang over, as long as it begins inside or in the padding before the end."""
    if step == 0:
        raise RuntimeError("stride should not be zero")
    if pad < 0:
        raise RuntimeError(f"pad must be non-negative, but got pad: {pad}")
    if pad > ((k - 1) * dilation + 1) // 2:
        raise RuntimeError(f"pad should be at most half of effective kernel size, but got pad={pad}, kernel_size={k} and dilation={dilation}")
    out = (n + 2 * pad - dilation * (k - 1) - 1 + (step - 1 if ceil else 0)) // step + 1
    if ceil and (out - 1) * step >= n + pad:
        out = out - 1
    return out


_LETTERS = {2: ("H", "W"), 3: ("T", "H", "W")}


def axes_of(sizes, kernel, stride, padding, dilation, ceil):
    """The spatial dimensions with their windows; the errors that concern numbers only."""
    count = len(sizes)
    out = [Axis(n, windows_of(n, k, s, p, d, ceil), k, s, p, d, ceil)
           for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation)]
    if count > 1:
        for what, given in (("kernel size", kernel), ("stride", stride), ("dilation", dilation)):
            if any(v <= 0 for v in given):
                short = {"kernel size": "k", "stride": "d", "dilation": "dilation"}[what]
                listed = " ".join(f"{short}{letter}: {v}" for letter, v in zip(_LETTERS[count], given))
                raise RuntimeError(f"{what} should be greater than zero, but got {listed}")
    return out


def check_outputs(planes, axes):
    """No dimension may come out empty."""
    if any(not a.out >= 1 for a in axes):
        x = lambda sizes: "(" + "x".join(str(hint(s)) for s in sizes) + ")"
        given, computed = x([planes, *(a.n for a in axes)]), x([planes, *(a.out for a in axes)])
        raise RuntimeError(f"Given input size: {given}. Calculated output size: {computed}. Output size is too small")


def check_image(x, count, words=None):
    """3 or 4 dimensions (4 or 5 for volumes), none of them empty but the batch."""
    low = count + 1
    if x.ndim not in (low, low + 1):
        raise RuntimeError(words or f"non-empty {low}D or {low + 1}D (batch mode) tensor expected for input")
    for s in x.shape[x.ndim - low:]:
        if s == 0:
            raise RuntimeError(f"Expected {low}D or {low + 1}D (batch mode) tensor with optional 0 dim batch size for input, but got:{shape_text(x.shape)}")


def batched(x, count):
    """x with a batch dimension, and the way back."""
    if x.ndim == count + 2:
        return x, lambda y: y
    return T.reshape(x, (1, *x.shape)), lambda y: T.reshape(y, y.shape[1:])


def all_of(conditions):
    out = None
    for c in conditions:
        out = c if out is None else out & c
    return out


def grid(shape, rank, first=0):
    """An index along each of the leading dimensions."""
    return [T.iota(s, first + d, rank) for d, s in enumerate(shape)]


def taps_of(kernel):
    """All positions inside a window, row by row."""
    out = [()]
    for k in kernel:
        out = [(*t, i) for t in out for i in range(k)]
    return out
