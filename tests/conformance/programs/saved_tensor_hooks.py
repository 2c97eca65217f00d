"""Hooks on saved values, gradient edges, multi-gradient hooks, mutation of what was saved."""

import torch
from torch.autograd import graph as G


def err(name, f):
    try:
        print(name, f())
    except Exception as e:
        print("error:", name, type(e).__name__, str(e)[:60])


def mk():
    return torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0], requires_grad=True)


x, y = mk()


# multi grad
def multi(mode):
    a, b = mk()
    u = a * 2
    v = b * 3
    w = a * b
    seen = []
    h = G.register_multi_grad_hook((u, v, w), lambda g: seen.append([None if t is None else t.tolist() for t in g] if mode == "all" else g.tolist()), mode=mode)
    (u.sum() + v.sum()).backward(retain_graph=True)
    torch.autograd.grad(w.sum(), a, retain_graph=True)
    torch.autograd.grad((u * v * w).sum(), [a], retain_graph=True)
    torch.autograd.grad((u * v * w).sum(), [b], retain_graph=True)
    h.remove()
    (u.sum() + v.sum()).backward()
    return seen


err("multi all", lambda: multi("all"))
err("multi any", lambda: multi("any"))
err("multi bad", lambda: multi("foo"))
err("multi noreq", lambda: G.register_multi_grad_hook((torch.ones(2),), print))


# gradient edges
def edge():
    a, b = mk()
    z = a * b
    s = z.sum()
    e = G.get_gradient_edge(s)
    ez = G.get_gradient_edge(z)
    ea = G.get_gradient_edge(a)
    r = [type(e).__name__, e.output_nr, e.node.name(), ea.node.name(), len(e)]
    r.append(torch.autograd.grad(s, [ez, ea], retain_graph=True))
    r.append(torch.autograd.grad(e, [a], torch.tensor(2.0), retain_graph=True))
    r.append(torch.autograd.grad(e, [a], retain_graph=True))
    torch.autograd.backward(e, torch.tensor(1.0), inputs=[ea])
    r.append((a.grad, b.grad))
    return r


err("edge", edge)


def from_edge(*gradient):
    a, b = mk()
    return torch.autograd.grad(G.get_gradient_edge(a * b), a, *gradient)


err("edge nonscalar", from_edge)
err("edge badshape", lambda: from_edge(torch.ones(3)))
err("edge noreq", lambda: G.get_gradient_edge(torch.ones(2)))


def edge4():
    a, b = mk()
    z = a * b
    ez = G.get_gradient_edge(z)
    torch.autograd.backward(z.sum(), inputs=[ez])
    return a.grad


err("edge bw inputs nonleaf", edge4)


def edge5():
    a, b = mk()
    ea = G.get_gradient_edge(a)
    return torch.autograd.grad(b.sum(), [ea])


err("edge unused", edge5)
err("edge int", lambda: G.get_gradient_edge(5))
err("isinstance", lambda: (isinstance((x * y).grad_fn, G.Node), isinstance(G.get_gradient_edge(x).node, G.Node)))


def incv():
    a = torch.ones(2)
    G.increment_version(a)
    r = a._version
    G.increment_version([a, a])
    return r, a._version


err("incv", incv)


def incv2():
    a = x * 1
    b = a.exp()
    G.increment_version(b)
    b.sum().backward()


err("incv2", incv2)
err("incv3", lambda: G.increment_version(3))


# mutation
def squared():
    a = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    b = a.clone()
    return a, b, (b**2).sum()


def mutated(change, inside=True):
    """The gradient of a square whose operand `change` writes to; `inside`: backward runs while mutation is allowed."""
    with G.allow_mutation_on_saved_tensors() as ctx:
        a, b, out = squared()
        change(b, ctx)
        if inside:
            out.backward()
    if not inside:
        out.backward()
    return a.grad


err("mutated", lambda: mutated(lambda b, ctx: b.sin_()))
err("mutated, backward outside", lambda: mutated(lambda b, ctx: b.sin_(), inside=False))
err("nothing mutated, backward outside", lambda: mutated(lambda b, ctx: None, inside=False))
err("mutated and cleared", lambda: mutated(lambda b, ctx: (b.sin_(), ctx.clear())))


def mutation_in_mutation():
    with G.allow_mutation_on_saved_tensors():
        with G.allow_mutation_on_saved_tensors():
            pass


err("mutation in mutation", mutation_in_mutation)


def mutation_of_views():
    with G.allow_mutation_on_saved_tensors():
        a, b, out = squared()
        c = b.view(3, 1)
        out = out + c.exp().sum()
        with torch.no_grad():
            c.mul_(3)
        b[0] = 7
        torch.add(torch.ones(3), 1, out=b.detach())
        c.zero_()
        out.backward()
        return a.grad


err("mutation of views", mutation_of_views)


def mutation_of_leaves():
    with G.allow_mutation_on_saved_tensors():
        w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
        x = torch.ones(3)
        out = (w * x).sum()
        x.add_(5)
        with torch.no_grad():
            w.mul_(4)
        out2 = (w * x).sum()
        (out + out2).backward()
        return w.grad


err("mutation of leaves", mutation_of_leaves)


def nodes():
    z = (x * y).sum()
    n = z.grad_fn
    return n.name(), [f[0].name() for f in n.next_functions], n.metadata, type(n.next_functions).__name__


err("nodes", nodes)


def prehook():
    a, b = mk()
    z = a * b
    r = []
    z.grad_fn.register_prehook(lambda g: r.append(("pre", g)) or (g[0] * 2,))
    z.grad_fn.register_hook(lambda gi, go: r.append(("post", gi, go)))
    z.sum().backward()
    return r, a.grad


err("prehook", prehook)

# what hooks see
x, y = mk()


def show(name):
    def pack(t):
        print(name, "pack", tuple(t.shape), t is x, t is y, t.requires_grad, type(t.grad_fn).__name__, torch.is_grad_enabled())
        return t.detach().clone()

    def unpack(t):
        print(name, "unpack", torch.is_grad_enabled())
        return t

    return G.saved_tensors_hooks(pack, unpack)


with show("exp"):
    u = (x.exp() * 2).sum()
u.backward()
with show("sigmoid"):
    u = x.sigmoid().sum()
u.backward()
with show("power"):
    u = (x**3).sum()
u.backward()
with show("one side"):
    u = (x * y.detach()).sum()
u.backward()
with show("none"):
    u = (x + y).view(1, 2).sum()
u.backward()
with show("in place"):
    a = x.clone()
    a.exp_()
a.sum().backward()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        square, nothing = a * a, None
        cube = square * a
        ctx.save_for_backward(a, nothing, square, cube)
        return cube

    @staticmethod
    def backward(ctx, g):
        a, nothing, square, cube = ctx.saved_tensors
        print("backward", a is x, a.requires_grad, square.requires_grad, cube.requires_grad, type(cube.grad_fn).__name__, nothing, torch.is_grad_enabled())
        return g * square * 3


with show("function"):
    z = Cube.apply(x)
z.sum().backward()
err("again", lambda: z.grad_fn.saved_tensors)
z = (x * y).exp()
print([a for a in dir(z.grad_fn) if a.startswith("_saved_")], z.grad_fn._saved_result, z.grad_fn.next_functions[0][0]._saved_other)
