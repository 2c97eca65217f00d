"""Logistic regression with hand-written gradients, standardisation, early stopping, precision and recall."""
import torch

torch.manual_seed(8)
n = 200
X = torch.cat([torch.randn(n // 2, 2) - 1, torch.randn(n // 2, 2) + 1])
y = torch.cat([torch.zeros(n // 2), torch.ones(n // 2)])
shuffle = torch.randperm(n)
X, y = X[shuffle], y[shuffle]
X = (X - X.mean(0, keepdim=True)) / X.std(0, keepdim=True)
X = torch.cat([X, torch.ones(n, 1)], dim=1)
split = int(0.8 * n)
w = torch.zeros(3)
best, patience = None, 0
steps = 0
for _ in range(100):
    steps += 1
    p = 1 / (1 + torch.exp(-X[:split] @ w))
    w -= 0.5 * (X[:split].T @ (p - y[:split])) / split
    q = torch.sigmoid(X[split:] @ w).clamp(1e-7, 1 - 1e-7)
    loss = -(y[split:] * q.log() + (1 - y[split:]) * (1 - q).log()).mean()
    if best is None or loss < best - 1e-4:
        best, patience = loss, 0
    else:
        patience += 1
    if patience >= 3:
        break
print(steps, best.item(), w.tolist())
predicted = q > 0.5
actual = y[split:].bool()
tp = (predicted & actual).sum()
precision, recall = tp / predicted.sum(), tp / actual.sum()
print(f"precision {precision:.3f} recall {recall:.3f} f1 {2 * precision * recall / (precision + recall):.3f}")
print((predicted ^ actual).sum().item(), (predicted == actual).float().mean().item(), predicted.long().float().mean())
auto = torch.autograd.grad(torch.nn.functional.binary_cross_entropy_with_logits(X[:split] @ w.requires_grad_(), y[:split]), w)[0]
print(torch.allclose(auto, X[:split].T @ (torch.sigmoid(X[:split] @ w) - y[:split]) / split, atol=1e-6))
