"""vmap of the operators of op_db (in CI every fourth) beside torch's own, and vmap's options; `vmaps.py` prints what differs."""
import pytest

torch = pytest.importorskip("torch")
vmaps = pytest.importorskip("vmaps")

from opdb import entries  # noqa: E402
from parts import over_entries  # noqa: E402

import rushlight as rl  # noqa: E402


@over_entries([e for e in entries() if torch.float32 in e[1].dtypes and not e[0].startswith("sparse.")])      # torch's vmap has no compressed layouts
def test_operators(name, info, ours):
    _, differ = vmaps.check(info, ours, 2)
    if name not in vmaps.REFUSED: return differ
    return [] if differ and all("vmap: " in words for words in differ) else [f"is batched now: take it off the list ({differ})"]


def programs(m):
    """name -> what it gives: vmap's options, randomness, chunks and nesting."""
    f = m.func
    x, y = m.arange(12.0).view(3, 4) / 7, m.arange(12.0).view(4, 3) / 5
    square = lambda t: (t ** 2).sum()
    out = {
        "in_dims": lambda: f.vmap(m.dot, (0, 1))(x, y), "in_dims none": lambda: f.vmap(lambda a, b: a * b, (0, None))(x, m.ones(4)),
        "in_dims negative": lambda: f.vmap(lambda a: a.sum(), -1)(x), "out_dims": lambda: f.vmap(lambda a: a * 2, out_dims=1)(x),
        "out_dims tuple": lambda: f.vmap(lambda a: (a, a.sum()), out_dims=(-1, 0))(x), "dictionary": lambda: f.vmap(lambda d: {"s": d["a"] + d["b"]}, ({"a": 0, "b": None},))({"a": x, "b": m.ones(4)})["s"],
        "nested": lambda: f.vmap(f.vmap(lambda a, b: a * b, (0, None)), (None, 0))(x[0], m.ones(5)), "nested out": lambda: f.vmap(f.vmap(lambda a: a + 1, out_dims=0), in_dims=1, out_dims=1)(x),
        "chunks": lambda: f.vmap(lambda a: a.cumsum(0), chunk_size=2)(x), "chunk one": lambda: f.vmap(lambda a: a.exp(), chunk_size=1, out_dims=1)(x),
        "kwargs": lambda: f.vmap(lambda a, scale=1: a * scale)(x, scale=3), "unused": lambda: f.vmap(lambda a: m.ones(2))(x), "closure": lambda: f.vmap(lambda a: a @ y)(x),
        "per-sample gradients": lambda: f.vmap(f.grad(square))(x), "grad of vmap": lambda: f.grad(lambda t: f.vmap(square)(t).sum())(x),
        "grad vmap grad": lambda: f.grad(lambda t: f.vmap(f.grad(lambda r: (r ** 3).sum()))(t).sum())(x), "vmap grad vmap": lambda: f.vmap(f.grad(lambda t: f.vmap(square)(t.view(2, 2)).sum()))(x),
        "hessian": lambda: f.hessian(lambda t: (t ** 3).sum())(x[0]), "jacrev": lambda: f.jacrev(m.sin)(x[0]), "jacfwd": lambda: f.jacfwd(m.sin)(x[0]),
        "vmap jvp": lambda: f.vmap(lambda a: f.jvp(m.sin, (a,), (m.ones(4),))[1])(x), "jacrev vmap": lambda: f.jacrev(f.vmap(square))(x),
        "vmap vjp": lambda: f.vmap(lambda a: f.vjp(m.exp, a)[1](m.ones(4))[0])(x), "in place": lambda: f.vmap(lambda a: a.clone().mul_(2).add_(1))(x),
        "write": lambda: f.vmap(lambda a: _write(a.clone()))(x), "where": lambda: f.vmap(lambda a: m.where(a > 0.5, a, -a))(x), "index": lambda: f.vmap(lambda a, i: a[i])(x, m.tensor([0, 1, 2])),
        "stack": lambda: f.vmap(lambda a: m.stack([a, a * 2]).sum(0))(x), "same random": lambda: _rows_equal(m, f.vmap(lambda a: a * 0 + m.rand(4), randomness="same")(x)),
        "different random": lambda: _rows_equal(m, f.vmap(lambda a: a * 0 + m.rand(4), randomness="different")(x)),
        "dropout different": lambda: f.vmap(lambda a: m.nn.functional.dropout(a, 0.5), randomness="different")(m.ones(2, 64)).shape,
    }
    return out


def _write(a):
    a[1] = 5
    return a


def _rows_equal(m, t): return bool((t[0] == t[1]).all())


REFUSALS = {
    "random": lambda m: m.func.vmap(lambda a: a + m.rand(4))(m.ones(3, 4)), "item": lambda m: m.func.vmap(lambda a: a.sum().item())(m.ones(3, 4)),
    "branch": lambda m: m.func.vmap(lambda a: a if a.sum() > 0 else -a)(m.ones(3, 4)), "sizes": lambda m: m.func.vmap(m.add)(m.ones(3), m.ones(4)),
    "dimension": lambda m: m.func.vmap(m.exp, 2)(m.ones(3)), "nothing mapped": lambda m: m.func.vmap(m.exp, None)(m.ones(3)), "no tensor": lambda m: m.func.vmap(lambda a: a)(3),
    "result": lambda m: m.func.vmap(lambda a: 3)(m.ones(3)), "randomness": lambda m: m.func.vmap(m.exp, randomness="some")(m.ones(3)), "chunk": lambda m: m.func.vmap(m.exp, chunk_size=0)(m.ones(3)),
    "shared write": lambda m: m.func.vmap(lambda a, b: b.add_(a), (0, None))(m.ones(3, 2), m.ones(2)), "nonzero": lambda m: m.func.vmap(m.nonzero)(m.ones(3, 2)),
    "out_dims": lambda m: m.func.vmap(lambda a: (a, a), out_dims=(0, 0, 0))(m.ones(3)), "structure": lambda m: m.func.vmap(lambda a, b: a, (0,))(m.ones(3), m.ones(3)),
}


@pytest.mark.parametrize("name", programs(rl))
def test_options_and_nesting(name):
    from bridge import difference
    theirs, ours = programs(torch)[name](), programs(rl)[name]()
    if isinstance(theirs, torch.Tensor) or isinstance(theirs, tuple) and not isinstance(theirs, torch.Size): assert difference(ours, theirs) is None
    else: assert ours == theirs


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_are_of_the_same_type(name):
    with pytest.raises(Exception) as theirs: REFUSALS[name](torch)        # noqa: B017, PT011
    with pytest.raises(type(theirs.value)): REFUSALS[name](rl)
