"""LambdaLR warm-up, StepLR, cosine; parameter groups and weight decay exclusion."""
import math

import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, StepLR

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))
decay = [p for p in model.parameters() if p.dim() >= 2]
plain = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0, "lr": 5e-3}], lr=1e-2
)
print(len(optimizer.param_groups), [len(g["params"]) for g in optimizer.param_groups])


def warm(step):
    return (step + 1) / 5 if step < 5 else 0.5 * (1 + math.cos(math.pi * (step - 5) / 10))


scheduler = LambdaLR(optimizer, warm)
x, y = torch.randn(20, 5), torch.randn(20, 1)
for _ in range(12):
    optimizer.zero_grad()
    loss = (model(x) - y).square().mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(loss.item(), scheduler.get_last_lr())
state = scheduler.state_dict()
print(state["last_epoch"], sorted(k for k in state if not k.startswith("_")))
for make in (lambda o: StepLR(o, step_size=2, gamma=0.1), lambda o: CosineAnnealingLR(o, T_max=4, eta_min=0.01)):
    sgd = torch.optim.SGD(model.parameters(), lr=1.0)
    s = make(sgd)
    rates = []
    for _ in range(5):
        sgd.step()
        s.step()
        rates.append(sgd.param_groups[0]["lr"])
    print(rates)
print(optimizer)
