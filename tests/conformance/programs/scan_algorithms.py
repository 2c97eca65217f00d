"""cumsum and where: discounted returns, run lengths, segment sums, prefix masks, bucket search, one-hot by scatter_."""
import torch

rewards = torch.tensor([1.0, 0.0, 0.0, 1.0, 0.0])
gamma = 0.9
power = gamma ** torch.arange(5)
print((rewards * power).flip(0).cumsum(0).flip(0) / power)
bits = torch.tensor([1, 1, 0, 1, 1, 1, 0, 0, 1])
starts = torch.cumsum(bits == 0, 0)
print(starts, torch.zeros(4, dtype=torch.long).scatter_add_(0, starts, bits))
values = torch.arange(9.0)
print(torch.zeros(4).index_add(0, starts, values), values.cumprod(0), torch.cumsum(values.view(3, 3), dim=1))
lengths = torch.tensor([2, 4, 0])
mask = torch.arange(4)[None, :] < lengths[:, None]
print(mask, mask.sum(1) == lengths, (mask.float() / mask.sum(1, keepdim=True).clamp(min=1)))
labels = torch.tensor([2, 0, 1])
print(torch.zeros(3, 4).scatter_(1, labels.unsqueeze(1), 1.0), torch.eye(4)[labels], torch.nn.functional.one_hot(labels))
logits = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), requires_grad=True)
chosen = logits.gather(1, labels[:, None]).squeeze(1)
chosen.sum().backward()
print(chosen, logits.grad)
value, where = logits.max(dim=1)
print(value, where, logits.max(), logits.min(0).indices, torch.maximum(logits, -logits).amax(0))
print(torch.where(logits > 0, 1, -1), torch.sign(logits).sum(), (logits > 0).any(1), (logits > -9).all())
x = torch.tensor([3.0, -1.0, float("nan"), float("inf")])
print(torch.isnan(x), torch.isfinite(x), x.nansum(), x.nan_to_num(0.0, posinf=9.0), torch.clamp(x, -0.5, 2.0))
confusion = torch.zeros(3, 3, dtype=torch.int64)
for t, p in zip(torch.tensor([0, 1, 2, 2]), torch.tensor([0, 2, 2, 1])):
    confusion[t, p] += 1
print(confusion, confusion.diagonal().sum() / confusion.sum())
print(torch.roll(values, 2), torch.flip(values.view(3, 3), [1]), values.view(3, 3).tril(), values.unfold(0, 3, 2))
grad_in = torch.arange(1.0, 5.0, requires_grad=True)
(grad_in.cumsum(0) * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
print(grad_in.grad, grad_in.prod(), grad_in.logsumexp(0))
