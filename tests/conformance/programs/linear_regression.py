"""Fit a line with plain tensors, then with nn.Linear and SGD with momentum."""
import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-1, 1, 64).unsqueeze(1)
y = 3 * x + 0.5 + 0.1 * torch.randn(64, 1)

w = torch.zeros(1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for _ in range(50):
    loss = ((x * w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
    w.grad.zero_()
    b.grad = None
print(w.item(), b.item(), loss.item())

model = nn.Linear(1, 1)
print(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
best = float("inf")
for step in range(60):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    if loss < best:
        best = loss
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss:.4f} best {best.item():.4f}")
print(model.weight.item(), model.bias.item())
huber = nn.SmoothL1Loss()(model(x), y)
print(huber.item(), nn.L1Loss(reduction="sum")(model(x), y).item(), nn.HuberLoss(delta=0.05)(model(x), y).item())
