"""Save in the middle, load, resume: the continuation is exact, optimizer, scheduler and generator included."""
import io

import torch
from torch import nn


def build():
    torch.manual_seed(9)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5)


def train(model, optimizer, scheduler, steps):
    losses = []
    for _ in range(steps):
        x = torch.randn(8, 4)
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.item())
    return losses


parts = build()
first = train(*parts, 5)
buffer = io.BytesIO()
torch.save(
    {
        "model": parts[0].state_dict(), "optimizer": parts[1].state_dict(), "scheduler": parts[2].state_dict(),
        "rng": torch.get_rng_state(), "epoch": 5, "best": min(first), "note": ("a", [1, 2.5, None, True]),
    },
    buffer,
)
rest = train(*parts, 5)
buffer.seek(0)
checkpoint = torch.load(buffer, weights_only=True)
torch.manual_seed(1234)
again = build()
again[0].load_state_dict(checkpoint["model"])
again[1].load_state_dict(checkpoint["optimizer"])
again[2].load_state_dict(checkpoint["scheduler"])
torch.set_rng_state(checkpoint["rng"])
print(first, checkpoint["epoch"], checkpoint["note"])
resumed = train(*again, 5)
print(resumed == rest, rest)
print(all(torch.equal(a, b) for a, b in zip(parts[0].parameters(), again[0].parameters())))
state = again[1].state_dict()
print(sorted(state), list(state["state"]), {k: v for k, v in state["param_groups"][0].items() if k != "params"})
print(state["state"][1]["step"], state["state"][1]["exp_avg"].shape, state["param_groups"][0]["params"])
