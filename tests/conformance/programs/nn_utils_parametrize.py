"""Parametrizations: registering, chains, right inverses, caching, removing, state dicts, and torch's own three."""
import copy

import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize


def attempt(what, f):
    try: print(what, f())
    except Exception as e: print("error:", what, type(e).__name__, str(e).split("\n")[0][:70])


class Symmetric(nn.Module):
    def forward(self, X): return X.triu() + X.triu(1).transpose(-1, -2)
    def right_inverse(self, A): return A.triu()


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, X): return X * self.factor
    def right_inverse(self, Y): return Y / self.factor


class NoInverse(nn.Module):
    def forward(self, X): return X.exp()


class TwoParts(nn.Module):
    def forward(self, a, b): return a @ b
    def right_inverse(self, Y): return Y[:, :1], Y[:1]


def fresh(n=3, bias=True):
    layer = nn.Linear(n, n, bias=bias)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(n * n, dtype=torch.float32).view(n, n) / 10 - 0.3)
        if bias: layer.bias.fill_(0.5)
    return layer


layer = fresh()
print(parametrize.is_parametrized(layer), parametrize.is_parametrized(layer, "weight"))
parametrize.register_parametrization(layer, "weight", Symmetric())
print(type(layer).__name__, isinstance(layer, nn.Linear), parametrize.is_parametrized(layer), parametrize.is_parametrized(layer, "bias"))
print(layer.weight)
print(layer)
print(sorted(layer.state_dict()), [n for n, _ in layer.named_parameters()])
print(layer.parametrizations.weight.original)
parametrize.register_parametrization(layer, "weight", Scaled(2.0))
print(layer.weight + 0, len(layer.parametrizations.weight), layer.parametrizations.weight.is_tensor)
layer.weight = torch.ones(3, 3) * 4
print(layer.parametrizations.weight.original, layer.weight)
out = layer(torch.ones(2, 3)).sum()
out.backward()
print(layer.parametrizations.weight.original.grad, layer.parametrizations.weight[1].factor.grad)

state = copy.deepcopy(layer.state_dict())
other = fresh()
parametrize.register_parametrization(other, "weight", Symmetric())
parametrize.register_parametrization(other, "weight", Scaled(1.0))
print(other.load_state_dict(state), torch.equal(other.weight, layer.weight))
attempt("missing", lambda: fresh().load_state_dict(state))
clone = copy.deepcopy(layer)
print(torch.equal(clone.weight, layer.weight), clone.parametrizations.weight.original is layer.parametrizations.weight.original)

calls = []


class Counting(nn.Module):
    def forward(self, X):
        calls.append(1)
        return X * 1


counted = fresh()
parametrize.register_parametrization(counted, "weight", Counting())
calls.clear()
_ = counted.weight, counted.weight
print(len(calls))
with parametrize.cached():
    a, b = counted.weight, counted.weight
    print(len(calls), a is b)
    with parametrize.cached(): _ = counted.weight
    print(len(calls))
_ = counted.weight
print(len(calls))

parametrize.remove_parametrizations(layer, "weight")
print(type(layer).__name__, isinstance(layer.weight, nn.Parameter), parametrize.is_parametrized(layer), sorted(layer.state_dict()), layer.weight)
second = fresh()
parametrize.register_parametrization(second, "weight", Symmetric())
attempt("not left", lambda: parametrize.remove_parametrizations(second, "bias"))
parametrize.remove_parametrizations(second, "weight", leave_parametrized=False)
print(second.weight)

attempt("no inverse assign", lambda: setattr(parametrize.register_parametrization(fresh(), "weight", NoInverse()), "weight", torch.ones(3, 3)))
attempt("no such name", lambda: parametrize.register_parametrization(fresh(), "nothing", Symmetric()))
attempt("remove unregistered", lambda: parametrize.remove_parametrizations(fresh(), "weight"))


class Shape(nn.Module):
    def forward(self, X): return X[:2]


class Dtype(nn.Module):
    def forward(self, X): return X.double()


attempt("shape", lambda: parametrize.register_parametrization(fresh(), "weight", Shape()))
attempt("dtype", lambda: parametrize.register_parametrization(fresh(), "weight", Dtype()))
print(parametrize.register_parametrization(fresh(), "weight", Shape(), unsafe=True).weight.shape)

parts = fresh()
parametrize.register_parametrization(parts, "weight", TwoParts(), unsafe=True)
print(parts.parametrizations.weight.is_tensor, sorted(parts.state_dict()), parts.weight + 0)
attempt("remove parts", lambda: parametrize.remove_parametrizations(parts, "weight", leave_parametrized=False))
parametrize.remove_parametrizations(parts, "weight")
print(parts.weight.shape)

buffered = nn.BatchNorm1d(2)
parametrize.register_parametrization(buffered, "running_mean", Scaled(3.0))
print(buffered.running_mean, sorted(buffered.state_dict()))
print(parametrize.type_before_parametrizations(buffered).__name__, parametrize.type_before_parametrizations(nn.ReLU()).__name__)
source, target = fresh(), fresh()
parametrize.register_parametrization(source, "weight", Symmetric())
parametrize.transfer_parametrizations_and_params(source, target)
print(parametrize.is_parametrized(target, "weight"), torch.equal(target.weight, source.weight))

# torch's own
torch.manual_seed(0)
for name in ("matrix_exp", "cayley", "householder"):
    wide = parametrizations.orthogonal(nn.Linear(5, 3), orthogonal_map=name)
    w = wide.weight
    print(name, (w @ w.T - torch.eye(3)).abs().max().item() < 1e-5, w.shape, sorted(wide.state_dict()))
    tall = parametrizations.orthogonal(nn.Linear(3, 5), orthogonal_map=name, use_trivialization=False)
    print((tall.weight.T @ tall.weight - torch.eye(3)).abs().max().item() < 1e-5)
    tall(torch.ones(1, 3)).sum().backward()
    print(all(p.grad is not None for p in tall.parameters()))
triangle = torch.arange(15.0).view(5, 3) / 20
for name in ("matrix_exp", "cayley", "householder"):
    for trivial in (False, True):
        layer = parametrizations.orthogonal(nn.Linear(3, 5), orthogonal_map=name, use_trivialization=trivial)
        with torch.no_grad():
            if trivial: layer.parametrizations.weight[0].base.copy_(torch.eye(5))
            layer.parametrizations.weight.original.copy_(triangle)
            layer.parametrizations.weight.original.diagonal().copy_(torch.tensor([1.0, -1.0, 1.0]))
        print(layer.weight.detach() + 0)
print([parametrizations.orthogonal(nn.Linear(*s)).parametrizations.weight[0].orthogonal_map for s in ((3, 3), (3, 4), (4, 3))])
regular = fresh()             # of full rank: of what is left of a singular matrix, rounding decides the sign
regular.weight.data[2, 2] = 1.0
layer = parametrizations.orthogonal(regular)
print(layer.weight, layer.parametrizations.weight.original)
torch.manual_seed(5)
layer = parametrizations.orthogonal(nn.Linear(4, 2))
print(layer.weight, layer.parametrizations.weight[0].base)
layer = parametrizations.orthogonal(nn.Linear(4, 2), use_trivialization=False)
layer.weight = torch.eye(4)[[2, 0]]
print(layer.weight)
attempt("complex", lambda: parametrizations.orthogonal(nn.Linear(4, 2, dtype=torch.complex64), orthogonal_map="householder"))
attempt("cayley assign", lambda: setattr(parametrizations.orthogonal(nn.Linear(4, 2), orthogonal_map="cayley", use_trivialization=False), "weight", torch.eye(4)[[2, 0]]))
square = parametrizations.orthogonal(nn.Linear(4, 4))
goal = torch.eye(4)[[1, 0, 3, 2]]
square.weight = goal
print((square.weight - goal).abs().max().item() < 1e-5)
attempt("orthogonal 1d", lambda: parametrizations.orthogonal(nn.Linear(3, 3), "bias"))
attempt("orthogonal map", lambda: parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map="qr"))
attempt("orthogonal name", lambda: parametrizations.orthogonal(nn.Linear(3, 3), "none"))
attempt("assign not orthogonal", lambda: setattr(square, "weight", torch.ones(4, 4) * 3))

normed = parametrizations.weight_norm(fresh())
print(sorted(normed.state_dict()), normed.weight.detach(), normed.parametrizations.weight.original0)
normed(torch.ones(1, 3)).sum().backward()
print(normed.parametrizations.weight.original0.grad, normed.parametrizations.weight.original1.grad)
normed.weight = torch.eye(3) * 2
print(normed.parametrizations.weight.original0, normed.weight.detach())
whole = parametrizations.weight_norm(fresh(), dim=None)
print(whole.parametrizations.weight.original0, whole.weight.detach())
columns = parametrizations.weight_norm(fresh(), dim=1)
print(columns.parametrizations.weight.original0, columns)
old = {"weight_g": torch.ones(3, 1) * 2, "weight_v": torch.eye(3), "bias": torch.zeros(3)}
print(normed.load_state_dict(old), normed.weight.detach())

spectral = parametrizations.spectral_norm(fresh(), n_power_iterations=20)
print(sorted(spectral.state_dict()))
for _ in range(5): _ = spectral.weight
print(torch.linalg.matrix_norm(spectral.weight.detach(), 2), spectral.weight)
spectral.eval()
before = spectral.parametrizations.weight[0]._u.clone()
_ = spectral.weight
print(torch.equal(before, spectral.parametrizations.weight[0]._u))
spectral.weight = torch.eye(3) * 5
print(spectral.parametrizations.weight.original)
attempt("iterations", lambda: parametrizations.spectral_norm(fresh(), n_power_iterations=0))
attempt("spectral name", lambda: parametrizations.spectral_norm(fresh(), "nothing"))
vector = parametrizations.spectral_norm(fresh(), "bias")
print(vector.bias)
conv = parametrizations.spectral_norm(nn.ConvTranspose2d(2, 3, 2))
print(conv.parametrizations.weight[0].dim, conv.weight.shape)
