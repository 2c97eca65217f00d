"""The kernel pack: what ordinary programs call first, compiled when the package is built.

    python -m rushlight.compiler.pack OUTPUT_DIRECTORY [tier ...]

`common_calls` runs a list of typical calls; every request that reaches the compiler is noted. Then each request is compiled (not run) for each
CPU tier, and recipes and machine code go into `kernels-<tier>.pack`. A kind of call that is not in the pack is compiled when it is met and
cached on disk; the pack only moves the first wait from the user's machine to the builder's.
"""
from __future__ import annotations

import os
import sys
import time


def unary_names():
    return ("neg abs exp log log1p sqrt rsqrt sin cos tanh sigmoid erf relu square reciprocal floor sign isnan isfinite logical_not").split()


def common_calls():
    """Calls on small tensors of the usual ranks: a recipe holds for every size of its class."""
    import rushlight as rl
    F = rl.nn.functional
    rl.manual_seed(0)
    vector, matrix, cube = rl.rand(40) + 0.5, rl.rand(6, 40) + 0.5, rl.rand(3, 6, 40) + 0.5
    for grad in (False, True):
        shapes = [t.clone().requires_grad_(grad) for t in (vector, matrix, cube)]
        for x in shapes:
            pointwise(rl, F, x, grad)
        rows(rl, F, shapes[1], grad)
        rows(rl, F, shapes[2], grad)
        products(rl, F, grad)
    growing(rl, F)
    batches(rl)
    integers(rl)
    creation(rl)
    training(rl, F)
    images(rl, F)
    sequences(rl, F)


def finish(out, grad):
    """Run the backward of a call too, from a sum and from a plain gradient."""
    if grad and out.requires_grad:
        out.backward(out.detach().clone())


def pointwise(rl, F, x, grad):
    y = x.detach() + 1.0
    y.requires_grad_(grad)
    for name in unary_names():
        finish(getattr(rl, name)(x), grad)
    for f in (F.gelu, F.silu, F.softplus, F.leaky_relu):
        finish(f(x), grad)
    for f in (rl.add, rl.sub, rl.mul, rl.div):
        finish(f(x, y), grad)
        finish(f(x, 2.0), grad)
        finish(f(x, 2), grad)
        if x.dim() > 1:
            finish(f(x, y[0]), grad)
    finish(rl.maximum(x, y), grad)
    finish(x ** 2, grad)
    finish(x ** y, grad)
    finish(1.0 - x, grad)
    finish(1.0 / x, grad)
    finish(x.clamp(0.1, 0.9), grad)
    finish(rl.where(x.detach() > 1, x, y), grad)
    finish(x.sum(), grad)
    finish(x.mean(), grad)
    finish(x.clone(), grad)
    finish(F.mse_loss(x, y.detach()), grad)
    if grad:
        return
    for f in (rl.eq, rl.ne, rl.lt, rl.le, rl.gt, rl.ge):
        f(x, y)
        f(x, 0.5)
    z = x.clone()
    z.add_(y).mul_(2.0).sub_(y).div_(3.0).zero_().fill_(1.0).copy_(x)
    z.add_(y, alpha=0.5)
    for f in (x.max, x.min, x.argmax, x.norm, x.any, x.all, x.std, x.var):
        f()
    (x > 1).sum()
    (x > 1).float().mean()
    x.double().float()
    x.long()
    rl.isclose(x, y)
    (x == y).all()


def rows(rl, F, x, grad):
    n = x.shape[-1]
    w, b = rl.ones(n, requires_grad=grad), rl.zeros(n, requires_grad=grad)
    for dim in (-1, 0):
        for f in (rl.sum, rl.mean, rl.amax, rl.var, rl.std):
            finish(f(x, dim), grad)
            finish(f(x, dim, keepdim=True), grad)
        finish(rl.softmax(x, dim), grad)
        finish(rl.log_softmax(x, dim), grad)
        finish(rl.logsumexp(x, dim), grad)
        finish(x.cumsum(dim), grad)
        finish(x.max(dim).values, grad)
        x.argmax(dim)
    finish(F.softmax(x, -1), grad)
    finish(F.log_softmax(x, -1), grad)
    finish(F.layer_norm(x, (n,), w, b), grad)
    finish(rl.cat([x, x]), grad)
    finish(rl.cat([x, x], -1), grad)
    finish(rl.stack([x, x]), grad)
    finish(x.transpose(-1, -2).contiguous(), grad)
    finish(x[..., :5] * 2.0, grad)
    finish(x[0], grad)


def products(rl, F, grad):
    a, b = rl.rand(6, 8, requires_grad=grad), rl.rand(8, 5, requires_grad=grad)
    finish(a @ b, grad)
    finish(a @ b.detach().t().contiguous().t(), grad)
    finish(rl.rand(3, 6, 8).requires_grad_(grad) @ b, grad)
    finish(rl.bmm(rl.rand(3, 6, 8).requires_grad_(grad), rl.rand(3, 8, 5)), grad)
    finish(a @ b[:, 0], grad)
    for bias in (None, rl.rand(5, requires_grad=grad)):
        w = rl.rand(5, 8, requires_grad=grad)
        finish(F.linear(a, w, bias), grad)
        finish(F.linear(rl.rand(3, 6, 8).requires_grad_(grad), w, bias), grad)
    table = rl.rand(10, 4, requires_grad=grad)
    finish(F.embedding(rl.tensor([1, 2, 3]), table), grad)
    finish(F.embedding(rl.tensor([[1, 2, 3], [4, 5, 6]]), table), grad)
    finish(F.dropout(a, 0.5), grad)


def growing(rl, F):
    """Prefixes of a longer tensor, as in decoding: the first step has one row, or sums over one element."""
    x, y, w = rl.rand(6, 10), rl.rand(3, 6, 10), rl.rand(10, 5)
    for t in (1, 2, 3):
        rl.softmax(x[:, :t] @ w[:t], -1)
        rl.softmax(x[:, :t], -1)
        rl.softmax(y[:, :t] @ w, -1)
        F.linear(y[:, :t], w.t().contiguous())
        rl.softmax(y[:, :t] @ y[:, :t].transpose(-1, -2), -1) @ y[:, :t]


def batches(rl):
    """What loading data asks for: bytes to numbers, rows by a list of numbers, and the stacks a loader makes of usual batches."""
    some = rl.tensor([0, 2])
    for shape in ((4,), (3, 4), (3, 4, 5), (3, 2, 4, 5)):
        for t in (rl.rand(*shape), rl.ones(*shape, dtype=rl.uint8), rl.ones(*shape, dtype=rl.int64)):
            t[some], t.float(), t.long(), t.to(rl.float32), t.to(rl.int64)
            t.float() / 255
            t.float() / 16
    for count in (8, 16, 32, 64, 128, 256):
        rl.stack([rl.tensor(1)] * count)
        rl.stack([rl.tensor(1.0)] * count)
        for shape in ((4,), (3, 4), (1, 3, 4), (3, 3, 4)):
            rl.stack([rl.rand(*shape)] * count)


def integers(rl):
    i = rl.arange(12)
    j = i.view(3, 4)
    i + 1, i * 2, i + i, j + j, i == i, j == 3, i.sum(), j.sum(0), j.sum(1), i.float(), j.float(), i.max(), i // 2, i % 5, -i, i < 4
    (i == i).sum().item()
    x = rl.rand(5, 4)
    x[rl.tensor([0, 2])], x[:, rl.tensor([0, 2])], x.gather(1, rl.tensor([[0], [1]])), x.index_select(0, rl.tensor([0, 2]))
    x[rl.tensor([0, 2])] = 1.0
    x[0] = 2.0
    x.masked_fill(x > 1, 0.0)


def creation(rl):
    for shape in ((4,), (3, 4), (2, 3, 4)):
        rl.zeros(*shape), rl.ones(*shape), rl.full(shape, 2.5), rl.zeros_like(rl.rand(*shape)), rl.ones_like(rl.rand(*shape))
    rl.arange(5), rl.arange(0.0, 1.0, 0.1), rl.linspace(0, 1, 5), rl.eye(3), rl.tril(rl.ones(3, 3))
    rl.tensor(1.0) + 1, rl.tensor(1.0) * rl.tensor(2.0)


def training(rl, F):
    """Whole steps of small networks: what the layers, losses and optimizers ask for together."""
    x, y = rl.rand(16, 8), rl.randint(0, 3, (16,))
    for make in (lambda p: rl.optim.SGD(p, lr=0.1), lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: rl.optim.Adam(p), lambda p: rl.optim.AdamW(p)):
        net = rl.nn.Sequential(rl.nn.Linear(8, 16), rl.nn.BatchNorm1d(16), rl.nn.ReLU(), rl.nn.LayerNorm(16), rl.nn.Dropout(0.1), rl.nn.Linear(16, 3))
        optimizer = make(net.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            rl.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            loss.item()
        net.eval()
        with rl.no_grad():
            (net(x).argmax(1) == y).float().mean().item()
    logits = rl.rand(16, 3, requires_grad=True)
    F.nll_loss(F.log_softmax(logits, -1), y).backward()
    F.binary_cross_entropy_with_logits(logits, rl.rand(16, 3)).backward()


def images(rl, F):
    """A step of a small convolutional network, for one image and for several, and its evaluation."""
    nn = rl.nn
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16),
                        nn.ReLU(inplace=True), nn.Conv2d(16, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 3))
    for count in (4, 2):
        x, y = rl.rand(count, 3, 16, 16), rl.randint(0, 3, (count,))
        F.cross_entropy(net(x), y).backward()
    net.eval()
    with rl.no_grad(): net(rl.rand(1, 3, 16, 16)), net(rl.rand(4, 3, 16, 16))


def sequences(rl, F):
    """Attention forward and backward, plain and causal, and decoding by one query."""
    for causal in (False, True):
        q, k, v = (rl.rand(2, 2, 8, 16, requires_grad=True) for _ in range(3))
        F.scaled_dot_product_attention(q, k, v, is_causal=causal).sum().backward()
        with rl.no_grad(): F.scaled_dot_product_attention(q, k, v, is_causal=causal), F.scaled_dot_product_attention(q[:, :, :1], k, v)
    x = rl.rand(6, 40)
    x.topk(3), x.sort(), x.argsort(), rl.multinomial(x, 1)


def build(directory, tiers):
    from .. import plans
    from . import cache, jit
    requests, original = [], plans.recipe_for

    def noting(request):
        requests.append(request)
        return original(request)
    plans.recipe_for = noting
    began = time.perf_counter()
    try:
        common_calls()
    finally:
        plans.recipe_for = original
    print(f"pack: {len(requests)} kinds of calls in {time.perf_counter() - began:.1f} s on {jit.tier()}")
    own = jit.tier()
    for tier in tiers:
        if tier != own:
            jit._tier = tier
            plans._stamp = None
            plans.MEMORY.clear()
            cache.clear_memory()
            for request in requests:
                plans.recipe_for(request)
        entries = [(kind, key, data) for (kind, key), data in sorted(cache._memory.items()) if kind in ("recipe", "object")]
        count, size = cache.write_pack(os.path.join(directory, f"kernels-{tier}.pack"), entries)
        print(f"pack: {tier}: {count} entries, {size / 1e6:.2f} MB, {time.perf_counter() - began:.1f} s")


def main(arguments):
    os.environ["RUSHLIGHT_CACHE_DIR"] = "off"
    from . import jit
    # The machine's own tier first: it has just been compiled.
    own = jit.tier()
    tiers = arguments[1:] or [own] + [t for t in ("x86-64-v3", "x86-64-v4") if t != own and own.startswith("x86")]
    build(arguments[0], [own] + [t for t in tiers if t != own] if own in tiers else tiers)


if __name__ == "__main__":
    main(sys.argv[1:])
