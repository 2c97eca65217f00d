"""BatchNorm's running statistics in train and eval, momentum None, no affine, and gradients through it."""
import torch
from torch import nn

torch.manual_seed(0)
norm = nn.BatchNorm1d(3)
x = torch.randn(16, 3) * 2 + 1
y = norm(x)
print(norm, y.mean(0).abs().max() < 1e-6, y.var(0, unbiased=False).tolist())
print(norm.running_mean.tolist(), norm.running_var.tolist(), norm.num_batches_tracked)
norm(torch.randn(8, 3))
norm.eval()
print(norm(x)[0].tolist(), norm.running_mean.tolist(), norm.training)
norm.train()
x.requires_grad_()
(norm(x) ** 3).sum().backward()
print(x.grad[0].tolist(), norm.weight.grad.tolist(), norm.bias.grad.tolist())
average = nn.BatchNorm1d(3, momentum=None, affine=False)
for _ in range(3):
    average(torch.randn(4, 3))
print(average, average.running_mean.tolist(), list(average.state_dict()))
plain = nn.BatchNorm1d(3, track_running_stats=False)
plain.eval()
print(plain(x.detach())[1].tolist(), plain.running_mean)
print(nn.BatchNorm1d(3)(torch.randn(2, 3, 5)).shape, nn.BatchNorm2d(2)(torch.randn(2, 2, 3, 3)).std().item())
layer = nn.LayerNorm([3, 4])
print(layer, layer(torch.randn(2, 3, 4)).mean().abs() < 1e-6, nn.LayerNorm(4, elementwise_affine=False)(torch.randn(2, 4)).tolist())
for wrong in (lambda: norm(torch.randn(1, 3)), lambda: norm(torch.randn(2, 4)), lambda: norm(torch.randn(3)), lambda: layer(torch.randn(2, 4))):
    try:
        print(wrong().shape)
    except Exception as e:
        print("error:", type(e).__name__, str(e).splitlines()[0])
norm.reset_running_stats()
print(norm.running_mean, norm.running_var)
