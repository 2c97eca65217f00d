"""Printing, f-strings, truth, iteration, membership, hashing, len, sums, unpacking: tensors as Python values."""
import math

import torch

t = torch.tensor(3.14159)
print(f"{t:.3f} {t:10.2f}| {t} {t!r} {torch.tensor(7):d} {torch.tensor(7):04d} {torch.tensor(True)} {torch.tensor(1e-8):.2e}")
print(t, torch.tensor([1.0, 2.5, -3.0]), torch.tensor([1e-5, 1.0]), torch.tensor([1e10, 1.0]), torch.tensor([1, -200]), torch.tensor([]))
print(torch.tensor([float("nan"), float("inf"), 1.0]), torch.zeros(2, 0, 3), torch.tensor([[True, False]]), torch.tensor([1 + 2j]))
print(torch.arange(2000), torch.zeros(3, 4, dtype=torch.float64), torch.ones(2, 2, requires_grad=True) * 2)
print(torch.arange(24).view(2, 3, 4), torch.tensor([0.1, 123456.0]), torch.rand(40, 40).shape, torch.empty(2, device="meta"))
torch.set_printoptions(precision=2, sci_mode=False)
print(torch.tensor([1.23456, 1e-6]))
torch.set_printoptions(profile="default")
print(torch.nn.Parameter(torch.zeros(2)), [torch.tensor(1), torch.tensor(2.0)], {"a": torch.ones(1)})
if torch.tensor(1.0) and not torch.tensor(0):
    print("truthy")
if torch.tensor([0.5]) > 0.1:
    print("one element compares")
best = torch.tensor(float("inf"))
for loss in (torch.tensor(0.5), torch.tensor(0.7), torch.tensor(0.3)):
    if loss < best:
        best = loss
print(best, min(torch.tensor([3, 1, 2])), max([torch.tensor(1.0), torch.tensor(4.0)]), sum(torch.arange(4)), sorted(torch.tensor([3, 1, 2])))
a, b = torch.tensor([1, 2])
print(a, b, [int(v) for v in torch.arange(3)], [row.tolist() for row in torch.eye(2)], list(zip(torch.arange(2), "ab")))
first, *rest = torch.arange(4)
print(first, rest, len(torch.zeros(5, 2)), 2 in torch.tensor([1, 2]), 5 in torch.tensor([1, 2]), list(range(torch.tensor(3))))
cache = {a: "a"}
print(a in cache, torch.tensor(1) in cache, len({a, a, b}), a is a, hash(a) == hash(a), t == t)
print(math.sqrt(torch.tensor(4.0)), round(float(t), 2), t.round(decimals=2), int(torch.tensor(3.9)), abs(torch.tensor(-2)), float(t), divmod(7, 2))
print(-t, +t, ~torch.tensor(True), 2**torch.arange(3), 1 / torch.tensor(4.0), 10 - torch.arange(2), torch.arange(3) ** 2, 7 % torch.tensor(4), torch.tensor(5) & 3, torch.tensor(1) << 3)
print(t.shape, torch.zeros(2, 3).size(), torch.zeros(2, 3).size(1), tuple(torch.zeros(2, 3).shape), torch.Size([2, 3]).numel(), torch.zeros(2, 3).shape[0], torch.zeros(2, 3).shape == (2, 3))
print(torch.float32, torch.device("cpu"), repr(torch.device("cpu")), torch.device("cpu") == torch.device("cpu"), t.dtype is torch.float32, t.device, t.layout, t.type())
print(torch.is_tensor(t), isinstance(t, torch.Tensor), t.ndim, t.numel(), t.is_floating_point(), t.requires_grad, torch.numel(torch.zeros(2, 3)))
print(torch.get_default_dtype(), torch.cuda.is_available(), torch.is_grad_enabled())
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(torch.ones(2).to(device), torch.ones(2, device="cpu").cpu() is not None, torch.ones(2).to("cpu", torch.int32))
