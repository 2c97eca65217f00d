"""Forward hooks with activation statistics, tensor hooks, backward hooks, frozen layers."""
import torch
from torch import nn

torch.manual_seed(4)
model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6), nn.Sigmoid(), nn.Linear(6, 1))


def report(module, inputs, output):
    print(f"{module.__class__.__name__:8s} mean {output.mean():.4f} std {output.std():.4f} zero {(output == 0).float().mean():.2f}")


handles = [m.register_forward_hook(report) for m in model if not isinstance(m, nn.Linear)]
pre = model[2].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
backward = model[2].register_full_backward_hook(
    lambda m, gin, gout: print("grad", [g if g is None else tuple(g.shape) for g in gin], gout[0].norm().item())
)
for p in model[0].parameters():
    p.requires_grad = False
x = torch.randn(8, 4)
out = model(x)
seen = []
out.register_hook(lambda g: seen.append(g.sum().item()))
out.register_hook(lambda g: g * 10)
hidden = model[2](torch.ones(2, 6))
hidden.retain_grad()
hidden.sum().backward()
print(hidden.grad)
model.zero_grad()
out.mean().backward()
print(seen, [(n, None if p.grad is None else p.grad.norm().item()) for n, p in model.named_parameters()])
for h in handles:
    h.remove()
pre.remove()
backward.remove()
print(model(x).sum().item())
trainable = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.SGD(trainable, lr=0.1)
before = model[0].weight.clone()
optimizer.step()
print(torch.equal(before, model[0].weight), len(trainable))
try:
    model[0].weight.register_hook(print)
except RuntimeError as e:
    print("error:", str(e).splitlines()[0])
