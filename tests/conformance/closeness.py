"""How close is close enough: torch.testing's tolerances, op_db's own where it states others, and torch's double result where those leave a doubt.

A result in single precision is right if it agrees with torch's, or with torch's result of the same call in double precision, rounded once: torch's
single-precision kernels have errors of their own (a trigamma near its poles, sums that cancel). Where neither holds, as for the gradients of long sums,
every element must be as near to the double result as the worst element of torch's own.
"""
from __future__ import annotations

import functools

import torch
from bridge import TOLERANCE, difference, flatten, to_torch
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.opinfo.core import DecorateInfo

SINGLE = (torch.float32, torch.complex64)
DOUBLE = {torch.float32: torch.float64, torch.complex64: torch.complex128}
# An error of torch's own above this part of the largest element is not rounding: no measure for ours.
ROUNDING = 1e-4

# Derivatives in single precision: rtol, atol. op_db checks derivatives in double precision only, with gradcheck's 1e-3 and 1e-5; these are no wider.
DERIVATIVES = {"gradient": (1e-5, 1e-5), "tangent": (2e-5, 1e-5), "gradgrad": (1e-4, 1e-5)}
_stated: dict = {}           # by the info's id: op_db lives as long as the process


def stated_tolerances(info) -> dict:
    """op_db's overrides for comparing values on this device: (rtol, atol) by dtype, torch.testing's for the others."""
    if id(info) not in _stated: _stated[id(info)] = _tolerances(info)
    return _stated[id(info)]


def derivative_tolerances(info, kind) -> dict:
    """The same for derivatives."""
    out = dict(stated_tolerances(info))
    for dtype in SINGLE: out[dtype] = tuple(map(max, out[dtype], DERIVATIVES[kind]))
    return out


def _tolerances(info) -> dict:
    out = dict(TOLERANCE)
    for decorator in info.decorators:
        parts = decorator.decorators if isinstance(decorator, DecorateInfo) else [decorator]
        device, test_class, test = (getattr(decorator, name, None) for name in ("device_type", "cls_name", "test_name"))
        if device not in (None, "cpu") or test_class not in (None, "TestCommon") or test and test.endswith("_mps"): continue
        for part in parts:
            if not isinstance(part, toleranceOverride): continue
            for dtype, tolerance in part.d.items():
                if dtype in out: out[dtype] = max(out[dtype][0], tolerance.rtol), max(out[dtype][1], tolerance.atol)
    return out


def mapped(value, change):
    """Nested lists, tuples and dictionaries with each leaf changed."""
    if isinstance(value, dict): return {k: mapped(v, change) for k, v in value.items()}
    return type(value)(mapped(v, change) for v in value) if type(value) in (list, tuple) else change(value)


def widened(value, wider):
    """The same arguments in the dtypes `wider` gives: values, strides and what requires gradients stay."""
    def wide(v):
        if isinstance(v, torch.dtype): return wider.get(v, v)
        if not isinstance(v, torch.Tensor) or v.dtype not in wider: return v
        if v.layout is not torch.strided or v.is_conj() or v.is_neg() or v.device.type != "cpu": return v.detach().to(wider[v.dtype]).requires_grad_(v.requires_grad)
        storage = torch.empty(0, dtype=v.dtype).set_(v.detach().untyped_storage()).to(wider[v.dtype])
        return storage.as_strided(v.shape, v.stride(), v.storage_offset()).requires_grad_(v.requires_grad)
    return mapped(value, wide)


def like(value, pattern):
    """A result in the dtypes of another."""
    if isinstance(value, torch.Tensor): return value.to(pattern.dtype) if isinstance(pattern, torch.Tensor) else value
    return [like(v, p) for v, p in zip(value, pattern)] if isinstance(value, (list, tuple)) else value


class Exact:
    """One call in double precision, and its derivatives; run when a result is in doubt. None where torch cannot do it."""

    def __init__(self, function, args, kwargs, wider=DOUBLE):
        self.function = function
        self.args, self.kwargs = widened(list(args), wider), widened(kwargs, wider)
        self.leaves = [t for t in flatten([self.args, self.kwargs]) if isinstance(t, torch.Tensor) and t.requires_grad]

    @functools.cached_property
    def result(self):
        torch.manual_seed(7)
        usual = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)         # of results that integers have
        try: return self.function(*self.args, **self.kwargs)
        except Exception: return None          # noqa: BLE001 - then there is no second opinion
        finally: torch.set_default_dtype(usual)

    def gradients(self, weights, twice=None):
        """The gradients for `weights`; with `twice` = (places of the gradients to go on from, their weights) those of these."""
        results = [t for t in flatten([self.result]) if isinstance(t, torch.Tensor) and t.requires_grad]
        weights = [w.detach().to(DOUBLE.get(w.dtype, w.dtype)).requires_grad_(twice is not None) for w in weights]
        try:
            first = torch.autograd.grad(results, self.leaves, weights, allow_unused=True, retain_graph=True, create_graph=twice is not None)
            if twice is None: return first
            places, again = twice
            return torch.autograd.grad([first[i] for i in places], self.leaves + weights, [w.to(DOUBLE.get(w.dtype, w.dtype)) for w in again], allow_unused=True)
        except Exception: return None          # noqa: BLE001


def settled(words, ours, theirs, exact, tolerances=TOLERANCE):
    """None if `ours` agrees with torch's double result `exact` after all, else `words`: what differs from `theirs`."""
    if exact is None: return words
    ours, theirs, exact = flatten([ours]), flatten([theirs]), flatten([exact])
    if len(exact) != len(ours) or len(exact) != len(theirs): return words
    for x, y, e in zip(ours, theirs, exact):
        if not isinstance(y, torch.Tensor) or not isinstance(e, torch.Tensor) or y.dtype not in SINGLE:
            if x is not None and y is not None and difference(x, y, tolerance=tolerances): return words
        elif difference(x, e.to(y.dtype), tolerance=tolerances) and not _as_near(to_torch(x), y.detach(), e.detach(), tolerances[y.dtype]): return words
    return None


def _as_near(a, b, exact, tolerance):
    if a.shape != exact.shape or a.dtype != b.dtype: return False
    known = a.isfinite() & b.isfinite() & exact.isfinite()
    if not known.any() or not torch.allclose(a[~known], b[~known], equal_nan=True): return False
    mine, torchs, size = (a[known] - exact[known]).abs(), (b[known] - exact[known]).abs().max(), exact[known].abs()
    return bool(torchs <= ROUNDING * size.max()) and bool((mine <= torch.maximum(torchs, tolerance[1] + tolerance[0] * size)).all())
