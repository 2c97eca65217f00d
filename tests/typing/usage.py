"""Read by mypy, not run: an ordinary program must type-check against the stubs."""
import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn


def train(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    loss = F.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.item())


a: torch.Tensor = torch.zeros(2, 3) + 1.0
b: torch.Tensor = torch.add(a, a, alpha=2)
c: torch.Tensor = a.sum(0, keepdim=True).softmax(-1)
d: torch.Tensor = torch.cat([a, b], dim=0).view(-1)
e: tuple[torch.Tensor, torch.Tensor] = a.max(1)
n: int = a.numel() + a.size(0)

# functions that Python decides something for: as they are written, not as the operators below them
f: torch.Tensor = F.silu(torch.ones(2), inplace=True)
f = F.elu(f, 0.5, True)
