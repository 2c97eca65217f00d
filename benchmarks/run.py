"""The measured table: `python benchmarks/run.py [section ...] [--threads N] [--only TEXT] [--cpu] [--best]`.

Needs torch beside rushlight (`pip install torch==2.13.0`). Sections: calls views chain module start gemm pointwise rows conv attention training data.
`attention` is scaled_dot_product_attention on GPT's shapes (12 heads of 64 features), forward and the three gradients.
"""
from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys

import apart
import harness
from harness import Table, megabytes


def both(*shape, grad=False, dtype="float32", low=None):
    """The same random numbers on both sides, each in memory of its own library, as a program's tensors are."""
    t = torch.randn(*shape, dtype=getattr(torch, dtype)) if low is None else torch.rand(*shape, dtype=getattr(torch, dtype)) + low
    r = rl.from_numpy(t.numpy()).clone()
    return r.requires_grad_(grad), t.requires_grad_(grad)


def calls(table):
    table.section("calls on 4 elements")
    F, TF = rl.nn.functional, torch.nn.functional
    for grad in (False, True):
        word = " with grad" if grad else ""
        (a, ta), (b, tb) = both(4, grad=grad), both(4, grad=grad)
        (x, tx), (w, tw), (c, tc) = both(1, 4, grad=grad), both(4, grad=grad), both(4, grad=grad)
        target, ttarget = rl.tensor([1]), torch.tensor([1])
        table.bench("add" + word, lambda: a + b, lambda: ta + tb, 0.10)
        table.bench("mul" + word, lambda: a * b, lambda: ta * tb, 0.10)
        table.bench("F.relu" + word, lambda: F.relu(a), lambda: TF.relu(ta), 0.10)
        table.bench("softmax" + word, lambda: F.softmax(x, -1), lambda: TF.softmax(tx, -1), 0.10)
        table.bench("layer_norm" + word, lambda: F.layer_norm(x, (4,), w, c), lambda: TF.layer_norm(tx, (4,), tw, tc), 0.10)
        table.bench("cross_entropy" + word, lambda: F.cross_entropy(x, target), lambda: TF.cross_entropy(tx, ttarget), 0.10)


def views(table):
    table.section("views and matmul, 4x4")
    (x, tx), (y, ty) = both(4, 4), both(4, 4)
    table.bench("view", lambda: x.view(2, 8), lambda: tx.view(2, 8), 0.15)
    table.bench("transpose", lambda: x.transpose(0, 1), lambda: tx.transpose(0, 1), 0.15)
    table.bench("x[0]", lambda: x[0], lambda: tx[0], 0.15)
    table.bench("x[1:3]", lambda: x[1:3], lambda: tx[1:3], 0.15)
    table.bench("matmul", lambda: x @ y, lambda: tx @ ty, 0.15)


def chain(table):
    table.section("chain of 10 ops on 4 elements, forward and backward")

    def make(m, a, b, c):
        def run():
            y = a * b
            y = y + c
            y = y.relu()
            y = y * 2.0
            y = y + a
            y = y * b
            y = y.relu()
            y = y + c
            y = y * a
            y.sum().backward()
            a.grad = b.grad = c.grad = None
        return run
    pairs = [both(4, grad=True) for _ in range(3)]
    table.bench("chain", make(rl, *[p[0] for p in pairs]), make(torch, *[p[1] for p in pairs]), 0.05)


def module(table):
    table.section("modules")
    def net(m):
        return m.nn.Sequential(m.nn.Linear(4, 8), m.nn.ReLU(), m.nn.Linear(8, 2))
    ours, peer = net(rl), net(torch)
    x, tx = both(2, 4)
    table.bench("Sequential(Linear, ReLU, Linear)", lambda: ours(x), lambda: peer(tx), 0.20)


def start(table):
    table.section("starting")
    # VmHWM belongs to the new image; getrusage would still show what this process had before exec.
    memory = "int(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1])*1024"
    code = f"import time;t=time.perf_counter();import {{0}};d=time.perf_counter()-t;print(d,{memory})"

    def run(name):
        got = [tuple(map(float, subprocess.run([sys.executable, "-c", code.format(name)], capture_output=True, text=True, check=True).stdout.split()))
               for _ in range(5)]
        return sorted(g[0] for g in got)[2], sorted(g[1] for g in got)[2]
    ours, peer = run("rushlight"), run("torch")
    table.add("import time", ours[0], peer[0], 0.12)
    table.add("memory after import", ours[1], peer[1], 0.25, unit=megabytes)

    def size(path):
        return sum(os.path.getsize(os.path.join(d, f)) for d, _, fs in os.walk(path) for f in fs if not os.path.islink(os.path.join(d, f)))
    import llvmlite
    import numpy
    import scipy_openblas32
    site = lambda m: size(os.path.dirname(m.__file__))
    libs = os.path.join(os.path.dirname(os.path.dirname(numpy.__file__)), "numpy.libs")
    ours_own, peer_own = site(rl), site(torch)
    more = site(scipy_openblas32) + site(numpy) + (size(libs) if os.path.isdir(libs) else 0)
    import importlib
    peer_more = sum(site(importlib.import_module(m)) for m in ("jinja2", "networkx", "sympy", "fsspec", "mpmath"))
    table.add("package on disk", ours_own, peer_own, 0.03, unit=megabytes)
    table.add("package with its dependencies on disk", ours_own + more + site(llvmlite), peer_own + peer_more, 0.35, unit=megabytes)


def gemm(table):
    if threads > 1: apart.gemm(table, threads, 1.05)
    table.section(f"gemm f32, {threads} thread(s)")
    for n, ta, tb in apart.cases() if threads == 1 else ():
        (a, pa), (b, pb) = both(n, n), both(n, n)
        a, pa = (a.t(), pa.t()) if ta else (a, pa)
        b, pb = (b.t(), pb.t()) if tb else (b, pb)
        table.bench(apart.name(n, ta, tb), lambda: a @ b, lambda: pa @ pb, 1.02)
    (a, pa), (b, pb) = both(512, 16, 16), both(512, 16, 16)
    table.bench("bmm 512x16x16x16", lambda: rl.bmm(a, b), lambda: torch.bmm(pa, pb), 1.1)


def pointwise(table):
    table.section(f"pointwise and reductions, {threads} thread(s)")
    unary = ["neg", "exp", "log", "tanh", "sigmoid", "sqrt", "rsqrt", "sin", "erf", "relu", "abs"]
    ratios = []
    for n in (1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 24):
        label = f"{n >> 10}K" if n < 1 << 20 else f"{n >> 20}M"
        rounds = 25 if n < 1 << 24 else 9
        (a, ta), (b, tb) = both(n, low=0.5), both(n, low=0.5)
        for name in unary:
            f, g = getattr(rl, name), getattr(torch, name)
            ratios.append(table.bench(f"{name} {label}", lambda: f(a), lambda: g(ta), 1.05, rounds))
        ratios.append(table.bench(f"add {label}", lambda: a + b, lambda: ta + tb, 1.05, rounds))
        ratios.append(table.bench(f"mul {label}", lambda: a * b, lambda: ta * tb, 1.05, rounds))
        ratios.append(table.bench(f"mul scalar {label}", lambda: a * 2.0, lambda: ta * 2.0, 1.05, rounds))
        ratios.append(table.bench(f"gelu {label}", lambda: rl.nn.functional.gelu(a), lambda: torch.nn.functional.gelu(ta), 1.05, rounds))
        side = 1 << (int(math.log2(n)) // 2)
        m, tm = a.view(side, -1), ta.view(side, -1)
        for name in ("sum", "mean", "amax", "var"):
            for dim in (None, 0, 1):
                if name == "var" and dim is None: continue
                f, g = getattr(m, name), getattr(tm, name)
                args = () if dim is None else (dim,)
                ratios.append(table.bench(f"{name} dim={dim} {label}", lambda: f(*args), lambda: g(*args), 1.05, rounds))
    good = [r for r in ratios if r]
    if good:
        table.add("geometric mean of the above", math.exp(sum(map(math.log, good)) / len(good)), 1.0, 0.9, unit=lambda v: f"{v:.3f}")


def rows(table):
    F, TF = rl.nn.functional, torch.nn.functional
    table.section(f"rows, {threads} thread(s)")
    for r, c in ((512, 768), (4096, 512), (64, 32000)):
        (x, tx), (w, tw), (b, tb) = both(r, c), both(c), both(c)
        table.bench(f"softmax {r}x{c}", lambda: F.softmax(x, -1), lambda: TF.softmax(tx, -1), 0.8)
        table.bench(f"log_softmax {r}x{c}", lambda: F.log_softmax(x, -1), lambda: TF.log_softmax(tx, -1), 0.8)
        table.bench(f"layer_norm {r}x{c}", lambda: F.layer_norm(x, (c,), w, b), lambda: TF.layer_norm(tx, (c,), tw, tb), 0.8)
    for r, c in ((8, 50000), (4096, 50000)):
        if r > 1000 and "--quick" in sys.argv: continue
        x, tx = both(r, c)
        t = torch.randint(0, c, (r,))
        o = rl.from_numpy(t.numpy())
        table.bench(f"cross_entropy {r}x{c}", lambda: F.cross_entropy(x, o), lambda: TF.cross_entropy(tx, t), 1.1, 7)
    x, tx = both(4, 1 << 20)
    table.bench("softmax 4x1M", lambda: F.softmax(x, -1), lambda: TF.softmax(tx, -1), 1.1)
    (w, tw) = both(1000, 64, grad=True)
    i = torch.randint(0, 50, (4096,))
    j = rl.from_numpy(i.numpy())
    g, tg = both(4096, 64)

    def embed(f, weight, index, grad):
        def run():
            f.embedding(index, weight).backward(grad)
            weight.grad = None
        return run
    table.bench("embedding backward, repeated indices", embed(F, w, j, g), embed(TF, tw, i, tg), 1.1)


def training(table):
    table.section(f"training steps, {threads} thread(s)")
    for widths, batch, limit in (((784, 512, 512, 10), 64, 0.67), ((32, 64, 64, 10), 32, 0.20)):
        def make(m, x, y):
            m.manual_seed(0)
            layers = []
            for a, b in zip(widths, widths[1:]):
                layers += [m.nn.Linear(a, b), m.nn.ReLU()]
            net = m.nn.Sequential(*layers[:-1])
            opt = m.optim.AdamW(net.parameters(), lr=1e-3)
            loss_of = m.nn.functional.cross_entropy

            def step():
                opt.zero_grad()
                loss_of(net(x), y).backward()
                opt.step()
            return step
        x, tx = both(batch, widths[0])
        t = torch.randint(0, 10, (batch,))
        table.bench(f"MLP {'-'.join(map(str, widths))}, batch {batch}, AdamW", make(rl, x, rl.from_numpy(t.numpy())), make(torch, tx, t), limit)


# name: channels, side of the image, filters, taps, stride, padding, groups: the convolutions of ResNet-50, MobileNetV2 and LeNet
CONVOLUTIONS = {
    "3x3 64 56x56": (64, 56, 64, 3, 1, 1, 1), "3x3 128 28x28": (128, 28, 128, 3, 1, 1, 1), "3x3 256 14x14": (256, 14, 256, 3, 1, 1, 1),
    "3x3 512 7x7": (512, 7, 512, 3, 1, 1, 1), "3x3 stride 2 128 56x56": (128, 56, 128, 3, 2, 1, 1), "1x1 64-256 56x56": (64, 56, 256, 1, 1, 0, 1),
    "1x1 1024-256 14x14": (1024, 14, 256, 1, 1, 0, 1), "1x1 stride 2 256-512 56x56": (256, 56, 512, 1, 2, 0, 1), "7x7 stride 2 3-64 224x224": (3, 224, 64, 7, 2, 3, 1),
    "depthwise 3x3 144 56x56": (144, 56, 144, 3, 1, 1, 144), "depthwise 3x3 stride 2 144 56x56": (144, 56, 144, 3, 2, 1, 144),
    "depthwise 3x3 960 7x7": (960, 7, 960, 3, 1, 1, 960), "LeNet 5x5 1-6 28x28": (1, 28, 6, 5, 1, 2, 1), "LeNet 5x5 6-16 14x14": (6, 14, 16, 5, 1, 0, 1),
}


def conv(table):
    """Forward, and the gradients of input and weight, of both layouts."""
    for batch in (1,) if "--quick" in sys.argv else (1, 16):
        for last in (False, True):
            table.section(f"convolution, batch {batch}, {'channels_last' if last else 'contiguous'}, {threads} thread(s)")
            for name, (channels, side, filters, taps, stride, padding, groups) in CONVOLUTIONS.items():
                x, tx = both(batch, channels, side, side)
                w, tw = both(filters, channels // groups, taps, taps)
                size = (side + 2 * padding - taps) // stride + 1
                g, tg = both(batch, filters, size, size)
                if last:
                    x, w, g = (t.to(memory_format=rl.channels_last) for t in (x, w, g))
                    tx, tw, tg = (t.to(memory_format=torch.channels_last) for t in (tx, tw, tg))
                options = (None, stride, padding, 1, groups)

                def forward(m, x, w):
                    return lambda: m.nn.functional.conv2d(x, w, *options)

                def backward(m, x, w, g, of_weight):
                    x, w = x.detach().requires_grad_(not of_weight), w.detach().requires_grad_(of_weight)
                    y = m.nn.functional.conv2d(x, w, *options)
                    return lambda: m.autograd.grad(y, w if of_weight else x, g, retain_graph=True)
                table.bench(name, forward(rl, x, w), forward(torch, tx, tw), 1.3, 7)
                table.bench(name + ", input's gradient", backward(rl, x, w, g, False), backward(torch, tx, tw, tg, False), 1.3, 7)
                table.bench(name + ", weight's gradient", backward(rl, x, w, g, True), backward(torch, tx, tw, tg, True), 1.3, 7)


def attention(table):
    """GPT's attention: 12 heads of 64 features. Forward, and the gradients of query, key and value together."""
    for batch in (1,) if "--quick" in sys.argv else (1, 8):
        table.section(f"attention, batch {batch}, {threads} thread(s)")
        for length in (128, 256, 512, 1024):
            shape = (batch, 12, length, 64)
            ours, peers = zip(*(both(*shape, grad=True) for _ in range(3)))
            g, tg = both(*shape)
            for causal in (False, True):
                def forward(m, tensors):
                    return lambda: m.nn.functional.scaled_dot_product_attention(*tensors, is_causal=causal)

                def backward(m, tensors, g):
                    y = forward(m, tensors)()
                    return lambda: m.autograd.grad(y, tensors, g, retain_graph=True)
                name = f"length {length}{', causal' if causal else ''}"
                detached = [t.detach() for t in ours], [t.detach() for t in peers]
                table.bench(name, forward(rl, detached[0]), forward(torch, detached[1]), 1.3, 7)
                table.bench(name + ", gradients", backward(rl, ours, g), backward(torch, peers, tg), 1.3, 7)


def data(table):
    """DataLoader: every measurement in a process of its own (benchmarks/data.py)."""
    from data import loaders
    loaders(table, cpu=harness.clock is not harness.time.perf_counter)


SECTIONS = dict(calls=calls, views=views, chain=chain, module=module, start=start, gemm=gemm, pointwise=pointwise, rows=rows, conv=conv, attention=attention, training=training, data=data)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("sections", nargs="*", default=list(SECTIONS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of the clock: for a busy machine and one thread")
    parser.add_argument("--best", action="store_true", help="the fastest windows instead of the median: for a busy machine")
    given = parser.parse_args()
    if given.cpu:
        harness.clock = harness.time.process_time
    threads = given.threads
    if threads > 1: harness.SETTLE, harness.RUNNING_START = 0.1, 0.03
    import torch

    import rushlight as rl
    torch.set_num_threads(threads)
    rl.set_num_threads(threads)
    print(f"rushlight {rl.__version__} beside torch {torch.__version__}, {threads} thread(s): {'best' if given.best else 'median'} of our time over torch's; '<' marks a row above its limit")
    table = Table(given.only, given.best)
    for name in given.sections:
        SECTIONS[name](table)
    table.summary()
