"""The bits do not depend on the width of vectors: the same calls compiled for two kinds of processors."""
import os
import platform
import subprocess
import sys

import pytest

from rushlight.compiler import jit

PROGRAM = """
import hashlib
import rushlight as torch
import rushlight.nn.functional as F


def show(name, y, *inputs):
    found = [y, *torch.autograd.grad(y, inputs, torch.linspace(-1, 1, y.numel()).reshape(y.shape).to(y.dtype))]
    print(name, hashlib.sha256(b"".join(t.detach().double().contiguous().numpy().tobytes() for t in found)).hexdigest())


def draw(*shape): return torch.randn(*shape).to(dtype).requires_grad_()


for dtype in (torch.float32, torch.float64, torch.bfloat16):
    torch.manual_seed(0)
    a, b, x, row = draw(37, 83), draw(83, 53), draw(2, 19, 13, 11), draw(5, 1001)
    show("product", a @ b, a, b)
    long, other = draw(29, 700), draw(700, 45)
    show("long product", long @ other, long, other)
    w, own = draw(21, 19, 3, 3), draw(19, 1, 3, 3)
    show("convolution", F.conv2d(x, w, padding=1, stride=2), x, w)
    show("convolution, channels last", F.conv2d(x.contiguous(memory_format=torch.channels_last), w, padding=1), x, w)
    few, filters = draw(2, 3, 17, 18), draw(9, 3, 5, 5)
    show("few channels", F.conv2d(few.contiguous(memory_format=torch.channels_last), filters, stride=2), few, filters)
    show("depthwise", F.conv2d(x, own, padding=1, groups=19), x, own)
    show("depthwise, channels last", F.conv2d(x.contiguous(memory_format=torch.channels_last), own, padding=1, groups=19), x, own)
    show("attention", F.scaled_dot_product_attention(row.reshape(1, 5, 77, 13), row.reshape(1, 5, 77, 13), row.reshape(1, 5, 77, 13)), row)
    show("rows", F.softmax(F.layer_norm(row, (1001,)), 1).cumsum(1), row)
    show("columns", a.var(0) + a.sum(0), a)
    show("functions", F.gelu(row) + torch.tanh(row) * torch.sin(row) + torch.sigmoid(row).log() + torch.erfinv(torch.erf(row) * 0.9), row)
"""


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="other processors have one kind so far")
@pytest.mark.parametrize("other", ["host", "x86-64-v4"])
def test_two_kinds_of_processors_give_the_same_bits(other):
    if other == "x86-64-v4" and jit.tier() != other: pytest.skip("needs AVX-512")
    narrow, wide = (subprocess.run([sys.executable, "-c", PROGRAM], env={**os.environ, "RUSHLIGHT_CPU": tier}, capture_output=True, text=True, check=True).stdout
                    for tier in ("x86-64-v3", other))
    assert len(narrow.splitlines()) == 33 and narrow == wide


def test_hosts_of_different_kinds_share_no_code(monkeypatch):
    """Machines may share a cache (a home on a network). Tiers are the same everywhere; the code of 'host', and its tiles, are one machine's."""
    keys = {}
    for tier in ("host", "x86-64-v3"):
        monkeypatch.setattr(jit, "_tier", tier, raising=False)
        for flags in (jit.AVX512, frozenset({"avx2"})):
            monkeypatch.setattr(jit, "cpu_flags", lambda flags=flags: flags)
            keys[tier, jit.wide_vectors()] = keys.get((tier, jit.wide_vectors()), set()) | {jit.object_key("text")}
    assert keys["host", True].isdisjoint(keys["host", False])
    assert len(keys["x86-64-v3", False]) == 1
