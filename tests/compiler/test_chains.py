"""Random chains of 2 to 8 operators: the same bits one by one and compiled, values and gradients."""
import random

import pytest

import rushlight as rl

F = rl.nn.functional
LINKS = {
    "exp": lambda x, y: (x * 0.1).exp(), "tanh": lambda x, y: x.tanh(), "add": lambda x, y: x + y, "mul": lambda x, y: x * y, "broadcast": lambda x, y: x - y.mean(0),
    "softmax": lambda x, y: x.softmax(-1), "norm": lambda x, y: F.layer_norm(x, (8,)), "gelu": lambda x, y: F.gelu(x), "turned": lambda x, y: (x.T @ y).T[:6] if x.shape == y.shape else x * 2,
    "columns": lambda x, y: x / (1 + x.abs().sum(0, keepdim=True)), "sorted": lambda x, y: x.sort(dim=1).values, "scan": lambda x, y: x.cumsum(1) * 0.1,
    "choice": lambda x, y: rl.where(x > y, x, y * 0.5), "clamped": lambda x, y: x.clamp(-1, 1), "joined": lambda x, y: rl.cat([x[:, 4:], x[:, :4]], 1), "flipped": lambda x, y: x.flip(1),
    "picked": lambda x, y: x.gather(1, y.argsort(1)), "padded": lambda x, y: F.pad(x, (1, 1), mode="replicate")[:, 1:9], "product": lambda x, y: x @ (y.T @ y) * 0.1, "rounded": lambda x, y: x.to(rl.bfloat16).to(rl.float32),
    "largest": lambda x, y: x - x.amax(1, keepdim=True), "in place": lambda x, y: x.clone().mul_(1.5).add_(y), "spread": lambda x, y: x.unsqueeze(0).expand(2, 6, 8).sum(0),
}


def chain(seed):
    chooser = random.Random(seed)
    names = [chooser.choice(sorted(LINKS)) for _ in range(chooser.randint(2, 8))]

    def run(x, y):
        for n in names: x = LINKS[n](x, y)
        return x
    return names, run


@pytest.mark.parametrize("seed", range(30))
def test_same_bits(seed):
    names, run = chain(seed)
    rl.manual_seed(seed)
    values = rl.randn(6, 8), rl.randn(6, 8)
    outcomes = []
    for f in (run, rl.compile(run)):
        x, y = (v.clone().requires_grad_() for v in values)
        out = f(x, y)
        out.sum().backward()
        outcomes.append([out.detach(), *(rl.zeros(()) if v.grad is None else v.grad for v in (x, y))])
    for one, fused in zip(*outcomes):
        assert rl.equal(one.view(rl.int32), fused.view(rl.int32)), names
