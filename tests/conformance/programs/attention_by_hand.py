"""One causal self-attention block from Linear, bmm, softmax and LayerNorm; positional sinusoids; residuals."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(approximate="tanh"), nn.Linear(2 * dim, dim))
        self.register_buffer("mask", torch.triu(torch.ones(16, 16, dtype=torch.bool), diagonal=1))

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(C, dim=2))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(C // self.heads)
        weights = F.softmax(scores.masked_fill(self.mask[:T, :T], float("-inf")), dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).contiguous().view(B, T, C))
        return x + self.mlp(self.norm2(x))


torch.manual_seed(1)
T, C = 8, 12
position = torch.arange(T).unsqueeze(1)
angle = torch.exp(torch.arange(0, C, 2) * (-math.log(10000.0) / C))
table = torch.zeros(T, C)
table[:, 0::2] = torch.sin(position * angle)
table[:, 1::2] = torch.cos(position * angle)
model = nn.ModuleList([nn.Embedding(10, C), Block(C, 3), Block(C, 2), nn.Linear(C, 10)])
tokens = torch.randint(0, 10, (4, T))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(6):
    h = model[0](tokens) * math.sqrt(C) + table
    for block in model[1:-1]:
        h = block(h)
    logits = model[-1](h)
    loss = F.cross_entropy(logits[:, :-1].reshape(-1, 10), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
print(model[1].qkv.weight.grad.norm().item(), logits.shape, (logits.argmax(-1) == tokens).float().mean())
