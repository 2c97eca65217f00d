"""float64 models, bfloat16 storage, promotion, casts, integer division, overflow, finfo."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 3).double()
x = torch.randn(2, 4, dtype=torch.float64)
print(model(x).dtype, model(x).sum().item())
half = nn.Linear(4, 3).to(torch.bfloat16)
print(half.weight)
print(half(torch.ones(2, 4, dtype=torch.bfloat16)))
print((torch.ones(2, dtype=torch.bfloat16) + torch.ones(2)).dtype, (torch.ones(2, dtype=torch.float16) * 2.5).dtype)
print((torch.arange(3) + 1.5).dtype, (torch.arange(3) / 2), torch.arange(5) // 2, torch.arange(-3, 3) % 4)
print(torch.tensor(300).to(torch.uint8), torch.tensor([1.9, -1.9]).int(), torch.tensor([0.0, 2.0, float("nan")]).bool())
print(torch.tensor([1, 2]).dtype, torch.tensor([1.0]).dtype, torch.tensor([True]).dtype, torch.tensor([1, 2.5]).dtype)
print(torch.finfo(torch.bfloat16).eps, torch.finfo(torch.float16).max, torch.iinfo(torch.int32).max)
print(torch.finfo(torch.float32))
print(torch.result_type(torch.ones(1, dtype=torch.int8), 2.0), torch.promote_types(torch.uint8, torch.int8))
print(torch.can_cast(torch.float, torch.int), torch.float32.is_floating_point, torch.int64.itemsize)
a = torch.tensor([1.0, 2.0], dtype=torch.float16)
print(a, a.sum(), a.float(), a.type(), a.element_size())
s = torch.tensor(1.0 / 3)
print(s, s.double(), s.half(), s.bfloat16(), float(s), int(s * 10))
w = torch.randn(3, dtype=torch.float32, requires_grad=True)
(w.to(torch.bfloat16).float() * 3).sum().backward()
print(w.grad, w.grad.dtype)
for wrong in (lambda: model(x.float()), lambda: torch.ones(2, dtype=torch.int64).mean(), lambda: torch.arange(3).requires_grad_()):
    try:
        wrong()
    except RuntimeError as e:
        print("error:", str(e).splitlines()[0])
i = torch.zeros(2, dtype=torch.int64)
try:
    i += 0.5
except RuntimeError as e:
    print("error:", str(e).splitlines()[0])
