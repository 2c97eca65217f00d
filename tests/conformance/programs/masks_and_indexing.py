"""Masks, integer index arrays, assignment through them, ranges and their errors."""
import torch

x = torch.arange(24.0).reshape(4, 6)
print(x[x > 15], x[x.sum(1) > 40], x[:, [0, -1]], x[[0, 2], [1, 3]])
print(x[torch.tensor([3, 0])][:, ::2], x[..., 2], x[None, 1:3, ::3].shape, x[-1, -2:])
x[x % 2 == 0] = -1
x[[1, 2], 0] = torch.tensor([100.0, 200.0])
x[3] += 0.5
x[:, -1] *= 2
print(x)
x[torch.tensor([True, False, False, True])] = 0
print(x, x[torch.zeros(4, dtype=torch.bool)].shape)
idx = torch.tensor([0, 0, 1])
y = torch.zeros(3)
y.index_add_(0, idx, torch.ones(3))
print(y, y.index_put((idx,), torch.ones(3), accumulate=True))
print(torch.where(x > 1, x, torch.tensor(0.0)).sum(), torch.where(x > 10), x.nonzero()[:3], torch.nonzero(y, as_tuple=True))
print(torch.masked_select(x, x > 10), x.masked_fill(x < 1, float("-inf"))[0], torch.take(x, torch.tensor([7, 8])))
v = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
v[[0, 0, 2]].sum().backward()
print(v.grad)
z = torch.zeros(2, 3, 4)
z[:, torch.tensor([0, 2]), 1] = 1
z[0, :, [0, 3]] = 7
print(z)
print(z[0, :, [0, 3]].shape, z[[0], :, [1]].shape, z[0, ..., None].shape, z[:, True].shape)
print(torch.tensor([5, 6, 7])[torch.tensor(1)], [10, 20, 30][torch.tensor(2)])
for wrong in (
    lambda: x[::-1], lambda: x[4], lambda: x[0, 0, 0], lambda: x[torch.tensor([9])], lambda: x[torch.ones(3, dtype=torch.bool)],
    lambda: x["a"], lambda: x[1.5], lambda: x[[0, 1], [0, 1, 2]], lambda: torch.tensor(3.0)[0], lambda: x.__setitem__(0, torch.ones(5)),
):
    try:
        print(wrong())
    except Exception as e:
        print("error:", type(e).__name__, str(e).splitlines()[0])
