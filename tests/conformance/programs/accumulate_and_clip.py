"""Gradient accumulation equals the big batch; clipping by norm and value; non-finite norms."""
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 2))
x, y = torch.randn(32, 6), torch.randn(32, 2) * 5
nn.functional.mse_loss(model(x), y).backward()
whole = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
for xs, ys in zip(x.split(8), y.split(8)):
    (nn.functional.mse_loss(model(xs), ys) / 4).backward()
print(all(torch.allclose(a, p.grad, atol=1e-6) for a, p in zip(whole, model.parameters())))
norm = clip_grad_norm_(model.parameters(), max_norm=1.0)
print(norm.item(), clip_grad_norm_(model.parameters(), 1e9).item())
clip_grad_value_(model.parameters(), 0.05)
print(max(p.grad.abs().max().item() for p in model.parameters()))
print(clip_grad_norm_(model.parameters(), 0.01, norm_type=float("inf")).item())
flat = parameters_to_vector(model.parameters())
print(flat.shape, flat.sum().item())
vector_to_parameters(flat * 0.5, model.parameters())
print(parameters_to_vector(model.parameters()).sum().item())
model[0].weight.grad[0, 0] = float("nan")
try:
    clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
except RuntimeError as e:
    print("error:", str(e).splitlines()[0])
