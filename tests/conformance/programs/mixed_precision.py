"""autocast blocks (nested, disabled, as decorators, with and without the cache), custom Functions under them, and GradScaler."""
import torch
from torch import nn
from torch.amp import GradScaler, autocast, custom_bwd, custom_fwd


def attempt(what, f):
    try: print(what, f())
    except Exception as e: print("error:", what, type(e).__name__, str(e).split("\n")[0][:80])


a, b = torch.full((2, 2), 0.5), torch.full((2, 2), 0.25)
for dtype in (torch.bfloat16, torch.float16):
    with autocast("cpu", dtype=dtype):
        product = a @ b
        print(product.dtype, (product + a).dtype, (product + 1).dtype, product.softmax(0).dtype, torch.cat([product, a]).dtype, torch.stack([product, product]).dtype)
        print(nn.functional.mse_loss(product, product).dtype, nn.functional.layer_norm(product, (2,)).dtype, torch.linalg.norm(product).dtype, product.sum().dtype)
        print(torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), torch.is_autocast_cpu_enabled(), torch.is_autocast_cache_enabled())
        with autocast("cpu", enabled=False):
            print((a @ b).dtype, torch.is_autocast_enabled("cpu"))
            with autocast("cpu", dtype=torch.bfloat16): print((a @ b).dtype)
            attempt("mixed", lambda: product @ a)
        with autocast("cpu", dtype=torch.float16): print((a @ b).dtype, (product @ a).dtype)
        print((a @ b).dtype, (a.double() @ b.double()).dtype, torch.mm(a, b, out=torch.empty(2, 2)).dtype)
        attempt("mm int", lambda: (a.long() @ b.long()).dtype)
print((a @ b).dtype, torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))


@autocast("cpu", dtype=torch.bfloat16)
def inside(x): return x @ x


print(inside(a).dtype, inside.__name__, torch.is_autocast_enabled("cpu"))


@autocast("cpu", enabled=False)
def outside(x): return x @ x


with autocast("cpu"): print(outside(a).dtype, (a @ a).dtype)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        with torch.no_grad(): self.linear.weight.copy_(b), self.linear.bias.fill_(0.5)

    @autocast("cpu")
    def forward(self, x): return self.linear(x)


net = Net()
out = net(a)
out.float().sum().backward()
print(out.dtype, net.linear.weight.grad.dtype, net.linear.weight.grad, net.linear.weight.dtype)

try:
    with autocast("cpu"): raise KeyError("out")
except KeyError: print(torch.is_autocast_enabled("cpu"))
attempt("device", lambda: autocast("nothing"))
attempt("device type", lambda: autocast(5))
attempt("no device", lambda: autocast())

# the cache: a weight is cast once per block, so both uses have one gradient path
for cache in (True, False):
    w = torch.full((2, 2), 0.5, requires_grad=True)
    with autocast("cpu", cache_enabled=cache):
        first, second = a @ w, b @ w
        casts = {f[0].next_functions[1][0] for f in (((first + second).grad_fn.next_functions[0]), ((first + second).grad_fn.next_functions[1]))}
        print(torch.is_autocast_cache_enabled(), len(casts))
    (first + second).sum().backward()
    print(w.grad, w.grad.dtype)
w = torch.full((2, 2), 0.5, requires_grad=True)
with autocast("cpu"):
    with torch.no_grad(): a @ w
    (a @ w).sum().backward()
print(w.grad)
torch.clear_autocast_cache()


def product(cast):
    """A matrix product whose forward sees what autocast and `cast` leave of its arguments."""
    class Product(torch.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu", **cast)
        def forward(ctx, x, y, flag=None):
            ctx.save_for_backward(x, y)
            print("forward", torch.is_autocast_enabled("cpu"), x.dtype, y.dtype)
            return x @ y

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            print("backward", torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"), g.dtype)
            return g @ y.t(), x.t() @ g, None

    return Product


Plain, Cast = product({}), product({"cast_inputs": torch.float32})
for function in (Plain, Cast):
    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    with autocast("cpu", dtype=torch.bfloat16): out = function.apply(x, y)
    print(out.dtype)
    out.float().sum().backward()
    print(x.grad, y.grad)
    print(function.apply(x, y).dtype)
with autocast("cpu"): print(Cast.apply(a.bfloat16().requires_grad_(), b.requires_grad_()).dtype)

# GradScaler
attempt("growth", lambda: GradScaler("cpu", growth_factor=1.0))
attempt("backoff", lambda: GradScaler("cpu", backoff_factor=1.0))


def setup(**options):
    p = nn.Parameter(torch.tensor([1.0, 2.0]))
    return p, torch.optim.SGD([p], lr=0.1), GradScaler("cpu", init_scale=8.0, growth_interval=2, **options)


p, optimizer, scaler = setup()
print(scaler.state_dict(), scaler.is_enabled(), scaler.get_scale())
for factor in (1.0, 1.0, 1.0, float("inf"), float("nan"), 1.0, 1.0):
    optimizer.zero_grad()
    scaler.scale((p * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    print(p.data, scaler.get_scale(), scaler.state_dict()["_growth_tracker"])
print(scaler.scale([p.sum().detach(), (p.sum().detach(),)]))
attempt("not tensors", lambda: scaler.scale(5))

p, optimizer, scaler = setup()
attempt("step first", lambda: scaler.step(optimizer))
attempt("unscale first", lambda: scaler.unscale_(optimizer))
attempt("update first", lambda: scaler.update())
scaler.scale(p.sum()).backward()
scaler.unscale_(optimizer)
print(p.grad)
attempt("unscale twice", lambda: scaler.unscale_(optimizer))
scaler.step(optimizer)
attempt("step twice", lambda: scaler.step(optimizer))
attempt("unscale after step", lambda: scaler.unscale_(optimizer))
attempt("closure", lambda: scaler.step(optimizer, closure=lambda: 1))
scaler.update(4.0)
print(scaler.get_scale(), p.data)
scaler.update(torch.tensor(2.0))
print(scaler.get_scale())
attempt("no grads", lambda: (scaler.scale(p.sum()), optimizer.zero_grad(), scaler.step(optimizer)))

half = nn.Parameter(torch.tensor([1.0], dtype=torch.float16))
half.grad = torch.tensor([1.0], dtype=torch.float16)
attempt("half", lambda: scaler.unscale_(torch.optim.SGD([half], lr=0.1)))

one, two = setup()[2], setup(growth_factor=3.0, backoff_factor=0.25)[2]
one.load_state_dict(two.state_dict())
print(one.state_dict(), one.get_growth_factor(), one.get_backoff_factor(), one.get_growth_interval())
one.set_growth_factor(5.0), one.set_backoff_factor(0.1), one.set_growth_interval(7)
print(one.state_dict())
off = GradScaler("cpu", enabled=False)
p, optimizer, _ = setup()
off.scale(p.sum()).backward()
off.unscale_(optimizer)
off.step(optimizer)
off.update()
print(p.data, off.state_dict(), off.get_scale(), off.is_enabled())
attempt("empty state", lambda: one.load_state_dict(off.state_dict()))

# two optimizers, one of them with inf
p, q = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2))
first, second, scaler = torch.optim.SGD([p], lr=0.5), torch.optim.SGD([q], lr=0.5), GradScaler("cpu", init_scale=4.0)
scaler.scale((p * float("inf")).sum() + q.sum()).backward()
scaler.step(first), scaler.step(second)
scaler.update()
print(p.data, q.data, scaler.get_scale())
adam = torch.optim.Adam([q], lr=0.1, fused=True)
scaler.scale(q.sum()).backward()
scaler.step(adam)
scaler.update()
print(q.data, scaler.get_scale())
