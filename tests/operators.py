"""What the generated operator tests share: samples turned into tensors, layouts, bit comparison."""
from __future__ import annotations

import os

import numpy as np

import rushlight as rl
from rushlight import registry

WHOLE = os.environ.get("RUSHLIGHT_WHOLE") == "1"           # without it the tests take what CI has time for


def to_tensor(value, dtype=None, requires_grad=False):
    """numpy arrays (also in lists) to tensors; floats take `dtype`, complex numbers its complex form."""
    if isinstance(value, np.ndarray):
        t = rl.from_numpy(np.ascontiguousarray(value).reshape(value.shape))
        if t.is_floating_point():
            t = t.to(dtype) if dtype is not None else t.clone()
            return t.requires_grad_(requires_grad)
        if t.is_complex(): return (t.to(rl.complex128) if dtype is rl.float64 else t.clone()).requires_grad_(requires_grad)
        return t
    if isinstance(value, list): return [to_tensor(v, dtype, requires_grad) for v in value]
    return value


def arguments(sample, dtype=None, requires_grad=False):
    return ([to_tensor(a, dtype, requires_grad) for a in sample.args], {k: to_tensor(v, dtype, requires_grad) for k, v in sample.kwargs.items()})


def definitions():
    """Definitions that come with samples."""
    return [d for d in registry.all() if d.samples is not None]


def results(out):
    return list(out) if isinstance(out, (tuple, list)) else [out]


def bits(t):
    """The bytes of the elements in logical order."""
    t = t.detach().contiguous()
    if t.dtype is rl.bfloat16: t = t.view(rl.int16)
    return t.numpy().tobytes()


def same_bits(a, b):
    return tuple(a.shape) == tuple(b.shape) and a.dtype is b.dtype and bits(a) == bits(b)


def layouts(t):
    """The same values in other memory: transposed, sliced with a step, behind an offset."""
    if not isinstance(t, rl.Tensor): return
    if t.dim() >= 2: yield t.transpose(0, -1).contiguous().transpose(0, -1)
    if t.dim() >= 1 and t.numel() > 0:
        wide = rl.zeros(*t.shape[:-1], 2 * t.shape[-1], dtype=t.dtype)
        wide[..., ::2] = t
        yield wide[..., ::2]
        long = rl.zeros(t.shape[0] + 1, *t.shape[1:], dtype=t.dtype)
        long[1:] = t
        yield long[1:]
