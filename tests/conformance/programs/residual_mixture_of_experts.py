"""Gating with softmax, dispatch by masks, index_add to gather the results, auxiliary balance loss; skip connections; stacked experts with bmm."""
import torch
import torch.nn.functional as F
from torch import nn


class Experts(nn.Module):
    def __init__(self, dim, count):
        super().__init__()
        self.gate = nn.Linear(dim, count, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim)) for _ in range(count))

    def forward(self, x):
        probability = self.gate(x).softmax(-1)
        weight, choice = probability.max(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (choice == i).nonzero().squeeze(-1)
            if rows.numel() == 0:
                continue
            out = out.index_add(0, rows, weight[rows, None] * expert(x[rows]))
        share = F.one_hot(choice, len(self.experts)).float().mean(0)
        return x + out, len(self.experts) * (share * probability.mean(0)).sum()


torch.manual_seed(13)
model = nn.ModuleList([Experts(6, 3), Experts(6, 2)])
head = nn.Linear(6, 1)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], lr=5e-3)
x = torch.randn(40, 6)
y = (x[:, :2].prod(1) + x[:, 3].abs()).unsqueeze(1)
for step in range(8):
    h, balance = x, 0.0
    for layer in model:
        h, extra = layer(h)
        balance = balance + extra
    loss = F.smooth_l1_loss(head(h), y) + 0.01 * balance
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item(), balance.item())
first = torch.stack([e[0].weight for e in model[0].experts])
print(torch.bmm(x.expand(3, -1, -1), first.transpose(1, 2)).shape, torch.matmul(x, first.mT).sum().item(), [n for n, p in model.named_parameters() if p.grad is None])
