"""Renaming keys, dropping a head, strict=False, and the error text of a strict load."""
import collections

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, classes)
        self.register_buffer("scale", torch.ones(1))
        self.register_buffer("scratch", torch.zeros(2), persistent=False)


torch.manual_seed(0)
old, new = Net(5), Net(2)
state = old.state_dict()
print(type(state) is collections.OrderedDict, list(state), state._metadata["backbone.1"])
wrapped = {f"module.{k}": v for k, v in state.items()}
clean = {k.removeprefix("module."): v for k, v in wrapped.items() if not k.startswith("module.head")}
result = new.load_state_dict(clean, strict=False)
print(result, result.missing_keys)
clean["extra"] = torch.zeros(1)
print(new.load_state_dict(clean, strict=False))
for bad in (wrapped, state, {}):
    try:
        new.load_state_dict(bad)
    except RuntimeError as e:
        print("error:", str(e).splitlines()[0])
print(new.load_state_dict(new.state_dict()))
print(torch.equal(new.backbone[0].weight, old.backbone[0].weight), new.backbone[0].weight.data_ptr() == old.backbone[0].weight.data_ptr())
state["scale"] += 1
print(old.scale)
for name, value in old.state_dict(prefix="m.").items():
    print(name, tuple(value.shape), value.dtype, value.requires_grad)
with torch.no_grad():
    new.head.weight[:, :2] = old.head.weight[:2, :2]
print((new.head.weight[:, :2] == old.head.weight[:2, :2]).all())
