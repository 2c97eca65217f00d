"""deepcopy of models and optimizers, pickling modules and tensors, sharing, aliasing."""
import copy
import io
import pickle

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.b.weight = self.a.weight
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


torch.manual_seed(0)
net = Net()
twin = copy.deepcopy(net)
print(twin.b.weight is twin.a.weight, twin.a.weight is net.a.weight, torch.equal(twin.a.weight, net.a.weight))
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
net(torch.ones(1, 3)).sum().backward()
optimizer.step()
print(net.a.weight.grad.sum().item(), (twin.a.weight - net.a.weight).abs().sum().item())
other = copy.deepcopy(optimizer)
print(other.param_groups[0]["params"][0] is net.a.weight, other.state_dict()["state"][0]["step"])
both = copy.deepcopy({"net": net, "optimizer": optimizer})
print(both["optimizer"].param_groups[0]["params"][0] is both["net"].a.weight)
again = pickle.loads(pickle.dumps(net))
print(again, again.b.weight is again.a.weight, torch.equal(again(torch.ones(1, 3)), net(torch.ones(1, 3))))
t = torch.arange(6.0).view(2, 3).t()
u = pickle.loads(pickle.dumps(t))
print(u, u.stride(), pickle.loads(pickle.dumps(net.a.weight)).requires_grad, type(pickle.loads(pickle.dumps(net.a.weight))).__name__)
buffer = io.BytesIO()
torch.save(net, buffer)
buffer.seek(0)
print(torch.load(buffer, weights_only=False)(torch.ones(1, 3)).sum().item())
base = torch.zeros(4)
buffer = io.BytesIO()
torch.save({"base": base, "view": base[1:3], "size": base.shape, "dtype": torch.float16, "device": torch.device("cpu")}, buffer)
buffer.seek(0)
loaded = torch.load(buffer)
loaded["base"][1] = 5
print(loaded)
print(copy.copy(base) is base, copy.copy(base).data_ptr() == base.data_ptr(), copy.deepcopy([base, base])[0] is base)
pair = copy.deepcopy([base, base, base[:2]])
pair[0][0] = 8
print(pair)
print(pickle.loads(pickle.dumps([torch.float32, torch.device("cpu"), torch.Size([1, 2]), torch.nn.ReLU()])))
print(pickle.loads(pickle.dumps(torch.relu)) is torch.relu, pickle.loads(pickle.dumps(torch.nn.functional.relu)) is torch.nn.functional.relu)
net.share_memory()
print(net.a.weight.is_shared(), torch.zeros(2).share_memory_().is_shared(), torch.zeros(2).is_shared())
