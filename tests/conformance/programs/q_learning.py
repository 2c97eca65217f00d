"""A DQN step with a target network, gather, replay of tuples, polyak update; REINFORCE with log-probabilities."""
import collections
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

random.seed(0)
torch.manual_seed(0)
policy, target = (nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)) for _ in range(2))
target.load_state_dict(policy.state_dict())
optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2, amsgrad=True)
Transition = collections.namedtuple("Transition", "state action next reward")
memory = collections.deque(maxlen=100)
for i in range(60):
    memory.append(Transition(torch.randn(1, 4), torch.tensor([[i % 2]]), None if i % 7 == 0 else torch.randn(1, 4), torch.tensor([float(i % 3)])))
for step in range(8):
    batch = Transition(*zip(*random.sample(memory, 16)))
    alive = torch.tensor(tuple(s is not None for s in batch.next), dtype=torch.bool)
    q = policy(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
    future = torch.zeros(16)
    with torch.no_grad():
        future[alive] = target(torch.cat([s for s in batch.next if s is not None])).max(1).values
    loss = F.smooth_l1_loss(q, (torch.cat(batch.reward) + 0.9 * future).unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy.parameters(), 1)
    optimizer.step()
    mine, theirs = target.state_dict(), policy.state_dict()
    for key in theirs:
        mine[key] = theirs[key] * 0.1 + mine[key] * 0.9
    target.load_state_dict(mine)
    print(step, loss.item(), q.mean().item())
logp = F.log_softmax(policy(torch.randn(5, 4)), dim=1)
actions = logp.argmax(1)
returns = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
advantage = (returns - returns.mean()) / (returns.std() + 1e-8)
objective = -(logp[torch.arange(5), actions] * advantage).sum() - 0.01 * (-(logp.exp() * logp).sum(1)).mean()
objective.backward()
print(objective.item(), actions.tolist(), policy[0].weight.grad.norm().item())
