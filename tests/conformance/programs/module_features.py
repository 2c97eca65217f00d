"""Module subclasses: buffers, ModuleList, ModuleDict, ParameterList, extra_repr, named_*, apply, attribute errors."""
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, size, factor=2.0):
        super().__init__()
        self.factor = factor
        self.gain = nn.Parameter(torch.ones(size))
        self.register_buffer("calls", torch.tensor(0))
        self.register_parameter("none", None)

    def forward(self, x):
        self.calls += 1
        return x * self.gain * self.factor

    def extra_repr(self):
        return f"size={self.gain.numel()}, factor={self.factor}"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.layers.append(Scale(4))
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Sequential(nn.Linear(4, 2), nn.ReLU())})
        self.weights = nn.ParameterList([nn.Parameter(torch.zeros(2)), nn.Parameter(torch.ones(3))])
        self.act = nn.LeakyReLU(0.1)

    def forward(self, x, head="a"):
        for layer in self.layers:
            x = self.act(layer(x))
        return self.heads[head](x) + self.weights[0].sum()


def init(m):
    if isinstance(m, nn.Linear):
        nn.init.xavier_uniform_(m.weight)
        nn.init.zeros_(m.bias)


torch.manual_seed(0)
net = Net()
print(net)
net.apply(init)
print(net(torch.ones(2, 4)), net(torch.ones(1, 4), head="b"), net.layers[2].calls)
print([n for n, _ in net.named_parameters()], [n for n, _ in net.named_buffers()])
print([n for n, _ in net.named_modules()], [n for n, _ in net.named_children()])
print(len(net.layers), "a" in net.heads, list(net.heads.keys()), net.layers[-1], net.layers[:2])
print(net.training, net.eval().layers[0].training, net.train(True).training)
print(net.get_parameter("heads.a.weight").shape, net.get_submodule("heads.b.0"))
print(net.double().layers[0].weight.dtype, net.float().weights[1].dtype, next(net.parameters()).device)
print(net.requires_grad_(False).layers[0].weight.requires_grad, isinstance(net.act, nn.Module), hasattr(net, "missing"))
net.extra = nn.Parameter(torch.zeros(1))
del net.act
net.add_module("act", nn.ReLU())
print(list(net._modules), "extra" in dict(net.named_parameters()), net.act.inplace)


class Forgot(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(1, 1)


class Broken(nn.Module):
    pass


for wrong in (Forgot, lambda: Broken()(1), lambda: net.nothing, lambda: setattr(net, "act", 3), lambda: setattr(net, "extra", torch.zeros(1)), lambda: net.heads["z"], lambda: nn.Linear(2, 3)(torch.ones(4)), lambda: net.register_buffer("act", torch.zeros(1)), lambda: nn.Sequential(3), lambda: net.layers[7], lambda: nn.Embedding(3, 2)(torch.tensor([3])), lambda: nn.Embedding(3, 2)(torch.tensor([1.0]))):
    try:
        print(wrong())
    except Exception as e:
        print("error:", type(e).__name__, str(e).splitlines()[0])
print(nn.Embedding(4, 2, padding_idx=0).weight[0], nn.Embedding(4, 2, padding_idx=0), nn.Linear(3, 2, bias=False), nn.Identity()(5))
