"""In-place operations on views, versions, leaves, detach, and the errors they give."""
import torch

x = torch.zeros(3, 4)
x[0].fill_(1)
x[:, 1].add_(5)
x.view(-1)[5:7] = 9
x.t()[3].copy_(torch.arange(3.0))
x.diagonal().mul_(2)
print(x, x._version)
w = torch.ones(2, 2, requires_grad=True)
y = w * 3
y[0] *= 2
y[1].zero_()
print(y)
y.sum().backward()
print(w.grad)
z = w * 1
first, second = z[0], z[1]
first.mul_(4)
second.sigmoid_()
z.sum().backward()
print(w.grad, first.grad_fn is not None, z.grad_fn.name())
d = w.detach()
d[0, 0] = 7
print(w)
w.data.clamp_(max=2)
print(w, w.is_leaf, y.is_leaf, w.grad_fn)


def in_place_on_leaf():
    w.add_(1)


def leaf_view():
    w[0].mul_(2)


def overwritten():
    h = (w * 2).exp()
    loss = h.sum()
    h.mul_(2)
    loss.backward()


def twice():
    loss = (w**2).sum()
    loss.backward()
    loss.backward()


def no_scalar():
    (w * 2).backward()


def no_grad_needed():
    torch.ones(2).sum().backward()


def to_numpy():
    w.numpy()


def scalar_of_many():
    w.item()


def truth_of_many():
    bool(w > 0)


def deepcopy_of_result():
    import copy

    copy.deepcopy(w * 2)


for wrong in (in_place_on_leaf, leaf_view, overwritten, twice, no_scalar, no_grad_needed, to_numpy, scalar_of_many, truth_of_many, deepcopy_of_result):
    try:
        wrong()
        print(wrong.__name__, "passed")
    except Exception as e:
        print("error:", wrong.__name__, type(e).__name__, str(e).splitlines()[0])
a = torch.arange(6).view(2, 3)
b = a.clone()
a.T[0, 1] = 50
a.unsqueeze_(0).squeeze_(0).t_()
print(a, b, a.is_contiguous(), a.data_ptr() == a.T.data_ptr())
