"""A recurrent cell as a Python loop of 50 steps, BPTT, truncated by detach, clipped."""
import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.i2h = nn.Linear(inputs, 3 * hidden)
        self.h2h = nn.Linear(hidden, 3 * hidden)

    def forward(self, x, h):
        ir, iz, inn = self.i2h(x).chunk(3, 1)
        hr, hz, hn = self.h2h(h).chunk(3, 1)
        r, z = torch.sigmoid(ir + hr), torch.sigmoid(iz + hz)
        n = torch.tanh(inn + r * hn)
        return (1 - z) * n + z * h


torch.manual_seed(6)
cell, read = Cell(1, 8), nn.Linear(8, 1)
parameters = list(cell.parameters()) + list(read.parameters())
optimizer = torch.optim.Adam(parameters, lr=1e-2)
wave = torch.sin(torch.arange(0, 51) * 0.3).view(51, 1, 1).repeat(1, 4, 1) + 0.05 * torch.randn(51, 4, 1)
for epoch in range(4):
    h = torch.zeros(4, 8)
    outputs = []
    for t in range(50):
        h = cell(wave[t], h)
        outputs.append(read(h))
    prediction = torch.stack(outputs)
    loss = ((prediction - wave[1:]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(parameters, 0.5)
    optimizer.step()
    print(epoch, loss.item(), norm.item())
h = torch.zeros(4, 8)
for start in range(0, 50, 25):
    loss = 0.0
    for t in range(start, start + 25):
        h = cell(wave[t], h)
        loss += (read(h) - wave[t + 1]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    h = h.detach()
    print(loss.item(), h.norm().item())
