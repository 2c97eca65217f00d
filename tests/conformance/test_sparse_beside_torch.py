"""Sparse tensors beside torch's: texts, layouts of results and gradients, error types, optimizers, files. What torch refuses may work here; what it does must be the same."""
import io

import pytest
import torch
from bridge import difference, sparse_to_rl, to_rl

import rushlight as rl

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CS[RC] tensor support is in beta state")
LAYOUTS = ("sparse_coo", "sparse_csr", "sparse_csc")


def both(layout, gradients=False):
    x = torch.tensor([[0.0, 2.0, 0.0, -1.5], [0.0, 0.0, 0.0, 0.0], [0.5, 0.0, 3.0, 4.0]])
    s = x.to_sparse(layout=getattr(torch, layout))
    return s.requires_grad_(gradients), sparse_to_rl(s.detach()).requires_grad_(gradients)


EXPRESSIONS = {
    "text": lambda m, s: repr(s), "text of double": lambda m, s: repr(s.double()), "text with grad": lambda m, s: repr(s.detach().requires_grad_()), "dense": lambda m, s: s.to_dense(),
    "negative": lambda m, s: -s, "twice": lambda m, s: s * 2, "sum of two": lambda m, s: s + s, "difference": lambda m, s: s - s, "square": lambda m, s: s * s, "relu": lambda m, s: s.relu(),
    "abs": lambda m, s: s.abs(), "transposed": lambda m, s: s.t(), "sum": lambda m, s: s.sum(), "sum of rows": lambda m, s: s.sum(1), "kept": lambda m, s: s.sum(1, keepdim=True),
    "sparse sum": lambda m, s: m.sparse.sum(s, 0), "product": lambda m, s: s @ m.arange(8.0).reshape(4, 2), "mv": lambda m, s: s @ m.arange(4.0),
    "from the left": lambda m, s: m.ones(2, 3) @ s, "sparse.mm": lambda m, s: m.sparse.mm(s, m.arange(8.0).reshape(4, 2)), "addmm": lambda m, s: m.addmm(m.ones(3, 2), s, m.ones(4, 2)),
    "sparse.addmm": lambda m, s: m.sparse.addmm(m.ones(3, 2), s, m.ones(4, 2), beta=2, alpha=3), "linear": lambda m, s: m.nn.functional.linear(s, m.ones(2, 4)),
    "softmax": lambda m, s: m.sparse.softmax(s, 1), "log_softmax": lambda m, s: m.sparse.log_softmax(s, 0), "dense plus": lambda m, s: m.ones(3, 4) + s, "plus dense": lambda m, s: s + m.ones(3, 4),
    "times dense": lambda m, s: s * m.full((3, 4), 2.0), "row": lambda m, s: s[2], "element": lambda m, s: s[2, 3], "slice": lambda m, s: s[0:1], "unsqueeze": lambda m, s: s.unsqueeze(0),
    "index_select": lambda m, s: s.index_select(0, m.tensor([2, 2, 0])), "cat": lambda m, s: m.cat([s, s], 1), "stack": lambda m, s: m.stack([s, s]), "to coo": lambda m, s: s.to_sparse(),
    "to csr": lambda m, s: s.to_sparse_csr(), "to csc": lambda m, s: s.to_sparse_csc(), "coalesce": lambda m, s: s.coalesce(), "values": lambda m, s: s.values(), "indices": lambda m, s: s.indices(),
    "rows": lambda m, s: s.crow_indices(), "columns": lambda m, s: s.ccol_indices(), "nnz": lambda m, s: s._nnz(), "dims": lambda m, s: (s.sparse_dim(), s.dense_dim()),
    "flags": lambda m, s: (s.is_sparse, s.is_sparse_csr, s.requires_grad, s.is_leaf, str(s.layout), str(s.device), s.numel(), tuple(s.shape)), "strides": lambda m, s: s.stride(),
    "contiguous": lambda m, s: s.is_contiguous(), "numpy": lambda m, s: s.numpy(), "exp": lambda m, s: s.exp(), "max": lambda m, s: s.max(), "view": lambda m, s: s.view(-1), "pow": lambda m, s: s ** 2,
    "pow 0": lambda m, s: s ** 0, "half": lambda m, s: s / 2, "zeros_like": lambda m, s: m.zeros_like(s), "mask": lambda m, s: m.ones(3, 4).sparse_mask(s), "double": lambda m, s: s.to(m.float64),
    "zero_": lambda m, s: s.detach().clone().zero_(), "mul_": lambda m, s: s.detach().clone().mul_(3), "wrong shape": lambda m, s: s @ m.ones(3, 2), "wrong dtype": lambda m, s: s @ m.ones(4, 2).double(),
    "type": lambda m, s: s.type(), "any": lambda m, s: s.any(), "norm": lambda m, s: s.norm(), "hash": lambda m, s: hash(s) == hash(s), "setitem": lambda m, s: s.__setitem__(0, 1.0),
}
# What torch refuses, or ends in an assertion of its own, and works here.
MORE_HERE = {("sparse_csr", "half"), ("sparse_csc", "half"), ("sparse_csc", "square"), ("sparse_csc", "times dense"),
             ("sparse_csr", "pow"), ("sparse_csc", "pow"), ("sparse_csc", "kept"), ("sparse_csr", "norm"), ("sparse_csc", "norm"), ("sparse_csr", "any"), ("sparse_csc", "any"),
             ("sparse_csr", "difference"), ("sparse_csc", "difference")}


def attempt(function, *args):
    try: return function(*args), None
    except Exception as error: return None, error            # noqa: BLE001 - whatever is raised is compared


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions(name, layout):
    theirs, ours = both(layout)
    (want, their_error), (got, our_error) = attempt(EXPRESSIONS[name], torch, theirs), attempt(EXPRESSIONS[name], rl, ours)
    assert ((layout, name) in MORE_HERE) == (their_error is not None and our_error is None), f"{our_error!r} for torch's {their_error!r}"
    if their_error is not None:
        if our_error is None: return
        assert isinstance(our_error, (type(their_error), NotImplementedError)), f"{our_error!r} for torch's {their_error!r}"
        return
    assert our_error is None, our_error
    assert difference(got, want) is None, difference(got, want)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_gradients(name, layout):
    """The gradient of a sparse leaf: its layout, pattern and values."""
    def run(m, s):
        y = EXPRESSIONS[name](m, s)
        if not isinstance(y, m.Tensor) or not y.requires_grad: return None
        y = y if y.layout is m.strided else y.to_dense()
        (y * m.arange(1.0, 1 + y.numel()).reshape(y.shape).to(y.dtype)).sum().backward()
        grad = s.grad
        return grad.coalesce() if grad.is_sparse else grad
    theirs, ours = both(layout, gradients=True)
    want, their_error = attempt(run, torch, theirs)
    if their_error is not None or want is None: return
    got = run(rl, ours)
    assert difference(got, want) is None, difference(got, want)


@pytest.mark.parametrize("kind, options", [("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}), ("SparseAdam", {"lr": 0.1}), ("SparseAdam", {"lr": 0.1, "maximize": True}),
                                           ("Adagrad", {"lr": 0.1, "lr_decay": 0.1})])
def test_optimizers(kind, options):
    start, found = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), []
    for m, weight in ((torch, start.clone()), (rl, to_rl(start))):
        table = m.nn.Embedding(6, 3, sparse=True, _weight=weight)
        optimizer = getattr(m.optim, kind)(table.parameters(), **options)
        for rows in ([0, 2, 2], [3, 0], [5, 5, 1]):
            optimizer.zero_grad()
            table(m.tensor(rows)).sin().sum().backward()
            optimizer.step()
        found.append(table.weight.detach())
    assert difference(found[1], found[0]) is None, difference(found[1], found[0])
    for m in (torch, rl):
        p = m.nn.Parameter(m.ones(3, 2))
        p.grad = m.eye(3, 2).to_sparse()
        with pytest.raises(RuntimeError, match="Adam does not support sparse gradients"): m.optim.Adam([p]).step()
        with pytest.raises(RuntimeError, match="not supported"): m.optim.SGD([p], lr=0.1, weight_decay=0.1).step()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_go_both_ways(layout):
    theirs, ours = both(layout)
    written = io.BytesIO()
    rl.save([ours, rl.nn.Parameter(ours)], written)
    written.seek(0)
    back = torch.load(written)
    assert difference(ours, back[0]) is None and isinstance(back[1], torch.nn.Parameter) and back[1].layout is theirs.layout
    written = io.BytesIO()
    torch.save([theirs, torch.nn.Parameter(theirs)], written)
    written.seek(0)
    back = rl.load(written)
    assert difference(back[0], theirs) is None and isinstance(back[1], rl.nn.Parameter) and back[1].requires_grad
