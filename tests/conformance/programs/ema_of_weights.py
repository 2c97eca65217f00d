"""Exponential moving average of weights under no_grad, with deepcopy and buffers."""
import copy

import torch
from torch import nn

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ELU(), nn.Linear(8, 1))
ema = copy.deepcopy(model)
for p in ema.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-3)
for _ in range(15):
    x = torch.randn(16, 4)
    loss = (model(x).squeeze(-1) - x.sum(dim=1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), model.parameters()):
            e.mul_(0.9).add_(p, alpha=0.1)
        for e, b in zip(ema.buffers(), model.buffers()):
            e.copy_(b)
print(loss.item())
model.eval(), ema.eval()
x = torch.randn(6, 4)
print(model(x).squeeze().tolist())
print(ema(x).squeeze().tolist())
print(ema(x).requires_grad, model(x).requires_grad, ema[1].num_batches_tracked)
ema[0].weight.data.lerp_(model[0].weight.data, 0.5)
print((ema[0].weight - model[0].weight).abs().max().item())
