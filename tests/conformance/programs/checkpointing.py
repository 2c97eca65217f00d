"""Checkpointing without reentry: what is computed again, when, and what is refused."""

import torch
import torch.utils.checkpoint as C
from torch.utils.checkpoint import checkpoint


def err(name, f):
    try:
        print(name, f())
    except Exception as e:
        print("error:", name, type(e).__name__, str(e).split("\n")[0][:100])


def mk():
    return torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0], requires_grad=True)


n = [0]


def f(a, b):
    n[0] += 1
    return (a * b).exp().sin()


def basic(reentrant):
    a, b = mk()
    n[0] = 0
    o = checkpoint(f, a, b, use_reentrant=reentrant)
    o.sum().backward()
    return a.grad, n[0]


err("basic", lambda: basic(False))
err("reentrant", lambda: basic(True))


def retain():
    a, b = mk()
    n[0] = 0
    o = checkpoint(f, a, b, use_reentrant=False)
    o.sum().backward(retain_graph=True)
    o.sum().backward()
    return a.grad, n[0]


err("retain", retain)


def twice():
    a, b = mk()
    o = checkpoint(f, a, b, use_reentrant=False)
    o.sum().backward()
    o.sum().backward()


err("twice", twice)


def early(stop):
    def g(a):
        r = a.exp()
        n[0] += 1
        r2 = r + 1
        n[0] += 10
        return r2

    a, b = mk()
    n[0] = 0
    with C.set_checkpoint_early_stop(stop):
        o = checkpoint(g, a, use_reentrant=False)
    o.sum().backward()
    return n[0]


err("early", lambda: early(True))
err("noearly", lambda: early(False))


def closure():
    a, b = mk()
    c = a * 2
    o = checkpoint(lambda x: x * c, b, use_reentrant=False)
    o.sum().backward()
    return a.grad, b.grad


err("closure", closure)


def other_number(first, **options):
    """A function that keeps one number of values the first time it is called, and another the second."""
    k = [0]

    def g(a):
        k[0] += 1
        return a.exp() if (k[0] == 1) == first else a.sin().exp().cos()

    a, b = mk()
    o = checkpoint(g, a, use_reentrant=False, **options)
    o.sum().backward()
    return a.grad


err("more", lambda: other_number(True, early_stop=False))
err("fewer", lambda: other_number(False))


def meta():
    k = [0]

    def g(a):
        k[0] += 1
        return a.exp().sum() if k[0] == 1 else a[:1].exp().sum()

    a, b = mk()
    o = checkpoint(g, a, use_reentrant=False)
    o.sum().backward()
    return a.grad


err("meta", meta)


def nested():
    a, b = mk()
    n[0] = 0
    o = checkpoint(lambda x, y: checkpoint(f, x, y, use_reentrant=False) * x, a, b, use_reentrant=False)
    o.sum().backward()
    return a.grad, b.grad, n[0]


err("nested", nested)


def double():
    a, b = mk()
    o = checkpoint(f, a, b, use_reentrant=False)
    (g,) = torch.autograd.grad(o.sum(), a, create_graph=True)
    return g.detach(), torch.autograd.grad(g.sum(), [a, b])


err("double", double)


def dropout():
    torch.manual_seed(0)
    a = torch.ones(100, requires_grad=True)
    o = checkpoint(lambda x: torch.nn.functional.dropout(x * x, 0.5), a, use_reentrant=False)
    torch.rand(3)
    o.sum().backward()
    return bool((a.grad == o.detach() * 2).all())


err("dropout", dropout)


def inside():
    a, b = mk()

    def g(x):
        y = x.exp()
        (r,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        return y * r

    o = checkpoint(g, a, use_reentrant=False)
    o.sum().backward()
    return a.grad


err("inside", inside)


def kw():
    a, b = mk()
    o = checkpoint(lambda x, *, y: {"o": x * y, "l": [x.exp()]}, a, y=b, use_reentrant=False)
    (o["o"].sum() + o["l"][0].sum()).backward()
    return a.grad, b.grad


err("kw", kw)


def determ():
    return checkpoint(f, *mk(), use_reentrant=False, determinism_check="foo")


err("determ", determ)


def nog():
    with torch.no_grad():
        return checkpoint(f, *mk(), use_reentrant=False).requires_grad


err("nog", nog)


def part():
    a, b = mk()
    n[0] = 0
    o = checkpoint(f, a, b, use_reentrant=False)
    g1 = torch.autograd.grad(o.sum(), a, retain_graph=True)
    g2 = torch.autograd.grad(o.sum(), b)
    return g1, g2, n[0]


err("part", part)


def inpl():
    a, b = mk()

    def g(x):
        y = x.clone()
        y.mul_(b)
        y[0] = 3
        return y.relu_()

    o = checkpoint(g, a, use_reentrant=False)
    o.sum().backward()
    return a.grad, b.grad


err("inpl", inpl)


def mod():
    a, b = mk()
    c = a * 1
    o = checkpoint(f, c, b, use_reentrant=False)
    c.add_(1)
    o.sum().backward()


err("mod", mod)


def seq():
    m = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Linear(2, 2))
    x = torch.ones(3, 2, requires_grad=True)
    m[0].weight.data.fill_(0.1)
    m[2].weight.data.fill_(0.2)
    m[0].bias.data.zero_()
    m[2].bias.data.zero_()
    o = C.checkpoint_sequential(m, 2, x, use_reentrant=False)
    o.sum().backward()
    return x.grad, m[0].weight.grad


err("seq", seq)
