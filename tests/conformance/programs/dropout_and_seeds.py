"""Dropout draws torch's masks for a seed; seeds, generator states, the random functions of the first weeks."""
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(123)
drop = nn.Dropout(p=0.4)
print(drop, drop(torch.ones(4, 6)))
drop.eval()
print(drop(torch.ones(3)), F.dropout(torch.ones(5), 0.5, training=True), F.dropout(torch.ones(3), training=False))
x = torch.ones(10, requires_grad=True)
F.dropout(x, 0.3).sum().backward()
print(x.grad)
state = torch.get_rng_state()
a = torch.rand(3)
torch.set_rng_state(state)
print(torch.equal(a, torch.rand(3)), torch.initial_seed())
print(torch.rand(2, 2), torch.randn(3), torch.randint(5, (4,)), torch.randint(-3, 3, (2, 2)), torch.randperm(7))
print(torch.normal(0.0, 1.0, (3,)), torch.empty(3).uniform_(-1, 1), torch.empty(3).normal_(2, 0.1), torch.rand_like(a), torch.randn(2, dtype=torch.float64))
print(torch.bernoulli(torch.full((6,), 0.5)), torch.empty(4).bernoulli_(0.3), torch.empty(3).exponential_())
g = torch.Generator().manual_seed(5)
print(torch.rand(2, generator=g), torch.randperm(4, generator=g), g.initial_seed(), torch.normal(torch.zeros(2), torch.ones(2), generator=g))
model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU(), nn.Dropout(0.1), nn.Linear(4, 2))
print(model(torch.ones(2, 4)))
with torch.random.fork_rng():
    torch.manual_seed(0)
    print(torch.rand(1))
print(torch.rand(1))
w = torch.empty(3, 4)
for init in (nn.init.xavier_uniform_, nn.init.xavier_normal_, nn.init.kaiming_uniform_, nn.init.kaiming_normal_, nn.init.normal_, nn.init.uniform_, nn.init.trunc_normal_, nn.init.zeros_, nn.init.eye_):
    print(init.__name__, init(w).sum().item())
print(nn.init.constant_(w, 0.5).mean(), nn.init.calculate_gain("relu"))
try:
    nn.Dropout(1.5)
except ValueError as e:
    print("error:", str(e).splitlines()[0])
