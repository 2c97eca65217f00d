"""A MAML-like inner loop: functional forward with fast weights, second order and first order."""
import torch
import torch.nn.functional as F


def net(x, params):
    w1, b1, w2, b2 = params
    return F.linear(torch.relu(F.linear(x, w1, b1)), w2, b2)


torch.manual_seed(2)
params = [torch.randn(s) * 0.3 for s in ((20, 1), (20,), (1, 20), (1,))]
params = [p.requires_grad_() for p in params]
meta = torch.optim.Adam(params, lr=1e-2)
for outer in range(6):
    meta_loss = 0
    for _ in range(3):
        amplitude, phase = torch.rand(1) * 4 + 1, torch.rand(1) * 3.14
        xs, xq = torch.rand(10, 1) * 10 - 5, torch.rand(10, 1) * 10 - 5
        ys, yq = amplitude * torch.sin(xs + phase), amplitude * torch.sin(xq + phase)
        fast = params
        for _ in range(2):
            grads = torch.autograd.grad(F.mse_loss(net(xs, fast), ys), fast, create_graph=True)
            fast = [p - 0.01 * g for p, g in zip(fast, grads)]
        meta_loss = meta_loss + F.mse_loss(net(xq, fast), yq)
    meta.zero_grad()
    meta_loss.backward()
    meta.step()
    print(outer, meta_loss.item(), [round(p.grad.norm().item(), 3) for p in params])
unused = torch.zeros(2, requires_grad=True)
print(torch.autograd.grad(params[0].sum(), [params[0], unused], allow_unused=True)[1])
try:
    torch.autograd.grad(params[0].sum(), [unused])
except RuntimeError as e:
    print("error:", str(e).splitlines()[0])
