"""Pairwise distances, outer products, einsum-free attention scores, running means, one-hot by comparison."""
import torch

torch.manual_seed(0)
a, b = torch.randn(5, 3), torch.randn(4, 3)
d = ((a[:, None] - b[None]) ** 2).sum(-1)
print(d.sqrt(), d.argmin(dim=1))
print((a**2).sum(1, keepdim=True) + (b**2).sum(1) - 2 * a @ b.T - d < 1e-5)
print(torch.arange(3)[:, None] * torch.arange(4), torch.outer(torch.arange(3.0), torch.ones(2)))
labels = torch.tensor([0, 2, 1])
print((labels[:, None] == torch.arange(3)).float())
print(a.mean(0).shape, (a - a.mean(0)) / a.std(0, correction=0))
m, s = torch.std_mean(a, dim=1)
print(m, s)
causal = torch.tril(torch.ones(4, 4)).bool()
scores = (b @ b.t() / 3**0.5).masked_fill(~causal, float("-inf")).softmax(-1)
print(scores, scores.sum(-1))
print(torch.broadcast_to(torch.tensor([1, 2]), (2, 2)), torch.broadcast_shapes((3, 1), (1, 4)), torch.broadcast_tensors(a[:1], b)[0].shape)
print(torch.arange(6).view(2, 3).T.reshape(-1), torch.arange(6).view(2, 3).permute(1, 0).contiguous().stride())
print(a.unsqueeze(0).expand(2, -1, -1).stride(), a.repeat(1, 2).shape)
x = torch.ones(2, 1, 3, requires_grad=True)
(x * torch.arange(8.0).view(4, 2)[:, :1].reshape(4, 1)).sum().backward()
print(x.grad)
print(torch.cat([a, b]).shape, torch.stack([a, a], 1).shape, torch.hstack([labels, labels]), torch.vstack([labels, labels]))
print(torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"))
for wrong in (lambda: a + b, lambda: a @ b, lambda: torch.cat([a, torch.ones(2, 2)]), lambda: a.view(4, 4), lambda: a.T.view(-1), lambda: torch.stack([a, b]), lambda: a.expand(2, 3), lambda: a.add_(torch.ones(2, 5, 3))):
    try:
        print(wrong())
    except RuntimeError as e:
        print("error:", str(e).splitlines()[0])
