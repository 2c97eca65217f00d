"""WGAN-GP: the norm of a gradient is part of the loss (create_graph)."""
import torch
from torch import autograd, nn

torch.manual_seed(11)
critic = nn.Sequential(nn.Linear(3, 12), nn.Softplus(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.SGD(critic.parameters(), lr=0.05)
for step in range(10):
    real, fake = torch.randn(8, 3), torch.rand(8, 3)
    alpha = torch.rand(8, 1).expand_as(real)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = critic(mixed)
    (gradient,) = autograd.grad(
        outputs=score, inputs=mixed, grad_outputs=torch.ones_like(score), create_graph=True, retain_graph=True
    )
    penalty = ((gradient.view(8, -1).norm(2, dim=1) - 1) ** 2).mean()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), penalty.item(), critic[0].weight.grad.norm().item())

x = torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
value = (x**3).sum() * x.sin().sum()
first = autograd.grad(value, x, create_graph=True)[0]
second = torch.stack([autograd.grad(g, x, retain_graph=True)[0] for g in first])
print(first.tolist(), second)
