"""A contrastive model: two encoders, normalised embeddings, temperature as a learned parameter, symmetric cross-entropy, frozen tower."""
import torch
import torch.nn.functional as F
from torch import nn


class Tower(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 16), nn.LayerNorm(16), nn.Mish(), nn.Linear(16, 8, bias=False))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.left, self.right = Tower(5), Tower(7)
        self.log_scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, a, b):
        logits = self.log_scale.exp().clamp(max=100) * self.left(a) @ self.right(b).T
        target = torch.arange(len(a), device=a.device)
        return (F.cross_entropy(logits, target) + F.cross_entropy(logits.T, target)) / 2, logits


torch.manual_seed(21)
model = Pair()
model.left.requires_grad_(False)
hidden = torch.randn(24, 3)
a, b = hidden @ torch.randn(3, 5), hidden @ torch.randn(3, 7)
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-2)
for epoch in range(3):
    for rows in torch.randperm(24).split(8):
        loss, logits = model(a[rows], b[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    accuracy = (logits.argmax(1) == torch.arange(8)).float().mean()
    print(f"{epoch} {loss.item():.6f} {accuracy:.2%} {model.log_scale.item():.6f}")
print(all(p.grad is None for p in model.left.parameters()), sum(p.numel() for p in model.parameters()))
print({n: tuple(p.shape) for n, p in model.named_parameters() if p.requires_grad})
