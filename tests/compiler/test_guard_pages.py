"""Kernels touch nothing outside their memory: small calls in a process whose storages and scratch end at protected pages and begin as NaN."""
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="protected pages end the process by a signal")

CONVOLUTIONS = """
for channels, groups, out in ((1, 1, 8), (2, 2, 8), (3, 1, 8)):
    for size in range(9, 26):
        for options in ({}, {"padding": 1}, {"stride": 2}, {"dilation": 3, "padding": 3}):
            y = F.conv1d(torch.randn(1, channels, size), torch.randn(out, channels // groups, 3), groups=groups, **options)
            assert y.isfinite().all(), (channels, size, options)
"""
DEPTHWISE = """
def depthwise(x, w, **options):
    x, w = x.requires_grad_(), w.requires_grad_()
    y = (F.conv2d if x.dim() == 4 else F.conv3d)(x, w, groups=x.shape[1], **options)
    y.backward(torch.randn_like(y))
    assert y.isfinite().all() and x.grad.isfinite().all() and w.grad.isfinite().all(), (x.shape, w.shape, options)
for channels, size, taps, options in ((9, (7, 7), (3, 3), {"padding": 1}), (17, (5, 4), (3, 2), {"padding": (1, 1)}), (5, (11, 13), (1, 2), {"stride": 3}),
                                      (3, (4, 300), (3, 3), {"padding": 1, "dilation": 2}), (9, (4, 5, 6), (3, 2, 3), {"padding": 1, "stride": (1, 2, 1)})):
    for dtype in (torch.float32, torch.float64):
        w, formats = torch.randn(channels, 1, *taps, dtype=dtype), (torch.contiguous_format, torch.channels_last if len(size) == 2 else torch.channels_last_3d)
        for batch in (1, 3):
            for format in formats: depthwise(torch.randn(batch, channels, *size, dtype=dtype).to(memory_format=format).detach(), w.clone(), **options)
"""
ORDER = """
for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.int64):
    for n in (1, 2, 15, 511, 513, 5000):
        x = (torch.randn(3, n) * 100).to(dtype)
        x.kthvalue(1), x.kthvalue(n), x.median(1), x.median(), x.nanmedian(1), x.sort(), x.topk(min(n, 3)), x.mode()
"""


@pytest.mark.parametrize("program", [CONVOLUTIONS, DEPTHWISE, ORDER], ids=["convolutions", "depthwise", "order"])
def test_stays_inside(program):
    run = subprocess.run([sys.executable, "-c", "import rushlight as torch\nimport rushlight.nn.functional as F\n" + program],
                         env={**os.environ, "RUSHLIGHT_GUARD_PAGES": "1"}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-2000:]
