"""SGD, Adam, AdamW with their options, closures, add_param_group, state, maximize, amsgrad, sparse-free embeddings."""
import torch
from torch import nn


def problem():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(6, 4), nn.Flatten(), nn.Linear(8, 1))
    return model, torch.randint(0, 6, (12, 2)), torch.randn(12, 1)


for make in (
    lambda p: torch.optim.SGD(p, lr=0.1),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1, weight_decay=0.01),
    lambda p: torch.optim.SGD(p, lr=0.01, maximize=True),
    lambda p: torch.optim.Adam(p, lr=0.05, weight_decay=0.1),
    lambda p: torch.optim.Adam(p, lr=0.05, amsgrad=True, eps=1e-6),
    lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.5, maximize=True),
    lambda p: torch.optim.Adam(p, lr=torch.tensor(0.05), foreach=False),
):
    model, x, y = problem()
    optimizer = make(model.parameters())

    def closure():
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(6)]
    print(type(optimizer).__name__, losses, sorted(next(iter(optimizer.state.values()), {})))
model, x, y = problem()
optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
optimizer.add_param_group({"params": model[2].parameters(), "lr": 0.01, "momentum": 0.5})
print(optimizer)
for group in optimizer.param_groups:
    group["lr"] *= 0.5
(model(x) - y).pow(2).mean().backward()
optimizer.step()
print([p.sum().item() for p in model.parameters()], optimizer.state_dict()["param_groups"][1]["lr"], optimizer.defaults["lr"])
optimizer.zero_grad(set_to_none=False)
print(model[2].weight.grad)
try:
    optimizer.add_param_group({"params": model[2].parameters()})
except ValueError as e:
    print("error:", str(e).splitlines()[0])
try:
    torch.optim.Adam(model.parameters()).load_state_dict(optimizer.state_dict())
except ValueError as e:
    print("error:", str(e).splitlines()[0])
try:
    torch.optim.Adam(model.parameters(), betas=(1.0, 0.9))
except ValueError as e:
    print("error:", str(e).splitlines()[0])
