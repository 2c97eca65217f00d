"""Custom autograd.Function: saved tensors, straight-through estimator, several outputs, None gradients, once_differentiable."""
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Swish(Function):
    @staticmethod
    def forward(ctx, x, beta):
        s = torch.sigmoid(beta * x)
        ctx.save_for_backward(x, s)
        ctx.beta = beta
        return x * s

    @staticmethod
    def backward(ctx, grad):
        x, s = ctx.saved_tensors
        return grad * (s + ctx.beta * x * s * (1 - s)), None


class RoundSTE(Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad.clone()


class MinMax(Function):
    @staticmethod
    def forward(ctx, a, b):
        mask = a < b
        ctx.mark_non_differentiable(mask)
        ctx.save_for_backward(mask)
        return torch.where(mask, a, b), torch.where(mask, b, a), mask

    @staticmethod
    def backward(ctx, glow, ghigh, _):
        (mask,) = ctx.saved_tensors
        print("needs", ctx.needs_input_grad)
        return torch.where(mask, glow, ghigh), torch.where(mask, ghigh, glow)


torch.manual_seed(0)
x = torch.randn(5, requires_grad=True)
y = Swish.apply(x, 1.5)
print(y, type(y.grad_fn).__name__)
y.sum().backward()
print(x.grad)
print(torch.autograd.gradcheck(lambda t: Swish.apply(t, 1.5), torch.randn(4, dtype=torch.double, requires_grad=True)))
x.grad = None
(RoundSTE.apply(x * 4) / 4).pow(2).sum().backward()
print(x.grad)
a, b = torch.tensor([1.0, 5.0], requires_grad=True), torch.tensor([2.0, 3.0])
low, high, mask = MinMax.apply(a, b)
print(low, high, mask, mask.requires_grad)
(low * 2 + high * 3).sum().backward()
print(a.grad, b.grad)
