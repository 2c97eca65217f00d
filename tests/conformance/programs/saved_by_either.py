"""Reading a state dict's bytes back through every container people use: nested dicts, OrderedDict, Parameters, a path, map_location."""
import collections
import os
import tempfile

import torch
from torch import nn

torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "model.pt")
    model = nn.Sequential(collections.OrderedDict([("one", nn.Linear(2, 3)), ("act", nn.ReLU()), ("two", nn.Linear(3, 1))]))
    torch.save(model.state_dict(), path)
    other = nn.Sequential(collections.OrderedDict([("one", nn.Linear(2, 3)), ("act", nn.ReLU()), ("two", nn.Linear(3, 1))]))
    print(other.load_state_dict(torch.load(path, map_location="cpu", weights_only=True)), model.one, model[2])
    print(torch.equal(model(torch.ones(1, 2)), other(torch.ones(1, 2))))
    torch.save([nn.Parameter(torch.ones(2)), torch.arange(3, dtype=torch.int8), torch.tensor(2.5, dtype=torch.bfloat16), torch.zeros(0, 3)], path)
    print(torch.load(path))
    torch.save({"nested": {"list": [1, (2, 3)], "t": torch.eye(2).bool()}, 5: None}, path)
    print(torch.load(path, weights_only=True))
    big = torch.arange(1000)
    torch.save(big[:3].clone(), path)
    small = os.path.getsize(path)
    torch.save(big[:3], path)
    print(small < os.path.getsize(path), torch.load(path))
    try:
        torch.load(os.path.join(folder, "missing.pt"))
    except FileNotFoundError as e:
        print("error:", e.strerror)
    transposed = torch.arange(6.0).view(2, 3).t()
    torch.save(transposed, path)
    print(torch.load(path).stride(), torch.load(path).is_contiguous())
