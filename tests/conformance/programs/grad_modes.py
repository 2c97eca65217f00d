"""no_grad, enable_grad, inference_mode, set_grad_enabled as contexts and decorators; detach; retain_graph; partial graphs."""
import torch
from torch import nn

w = torch.ones(2, requires_grad=True)


@torch.no_grad()
def evaluate(v):
    return v * 2


@torch.inference_mode()
def infer(v):
    return v * 2


@torch.no_grad()
def generate(v):
    for i in range(2):
        yield (v * i).requires_grad


print(evaluate(w).requires_grad, infer(w).is_inference(), list(generate(w)), torch.is_grad_enabled())
with torch.no_grad():
    with torch.enable_grad():
        y = (w * w).sum()
    z = w * 3
print(y.requires_grad, z.requires_grad)
with torch.set_grad_enabled(False):
    print((w * 2).requires_grad)
y.backward(retain_graph=True)
y.backward()
print(w.grad, y.grad_fn.name(), (w * 3).grad_fn.name(), y)
try:
    y.backward()
except RuntimeError as e:
    print("error:", str(e).splitlines()[0])
t = infer(torch.ones(2))
try:
    (w * t).sum().backward()
except RuntimeError as e:
    print("error:", str(e).splitlines()[0])
a = torch.tensor(2.0, requires_grad=True)
b = a.detach().requires_grad_()
(a * b).backward()
print(a.grad, b.grad, a.grad is b.grad)
c = a.clone()
c.retain_grad()
(c**2).backward(gradient=torch.tensor(0.5))
print(c.grad, a.grad)
print(torch.autograd.grad(a**3, a)[0], torch.autograd.functional.jacobian(lambda v: v**2, torch.tensor([1.0, 2.0])))
print(torch.autograd.functional.hessian(lambda v: (v**3).sum(), torch.tensor([1.0, 2.0])))
node = (a * 2 + 1).grad_fn
print(node.name(), node.next_functions[0][0].name(), node.next_functions[0][0].next_functions[0][0].name())
with torch.autograd.set_detect_anomaly(True):
    bad = torch.tensor(0.0, requires_grad=True)
    try:
        (bad.sqrt() * 0).backward()
    except RuntimeError as e:
        print("error:", str(e).splitlines()[0])
model = nn.Linear(2, 1)
model.weight.grad = torch.ones(1, 2)
print([p.grad is None for p in model.parameters()])
model.zero_grad()
print(model.weight.grad)
