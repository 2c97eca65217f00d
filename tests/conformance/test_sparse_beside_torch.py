"""Sparse tensors beside torch's: texts, layouts of results and gradients, error types, optimizers, files. What torch refuses may work here; what it does must be the same."""
import io
import re

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
    "aliases in place": lambda m, s: (s.detach() / 4).arcsin_(), "divide_": lambda m, s: s.detach().clone().divide_(2), "negative_": lambda m, s: s.detach().clone().negative_(),
    "stacked": lambda m, s: m.vstack([s, s]), "side by side": lambda m, s: m.hstack([s, s]), "behind": lambda m, s: m.dstack([s, s]), "at least": lambda m, s: m.atleast_2d(s),
    "broadcast": lambda m, s: m.broadcast_tensors(s, m.ones(3, 4)), "expand": lambda m, s: s.expand(2, 3, 4), "dense expand_as": lambda m, s: m.ones(4).expand_as(s),
    "dense view_as": lambda m, s: m.arange(12.0).view_as(s), "moved": lambda m, s: m.movedim(s, 0, 1), "float_power": lambda m, s: m.float_power(s, 2), "ldexp": lambda m, s: m.ldexp(s, m.tensor(2.0)),
    "dist": lambda m, s: m.dist(s, 2 * s), "power": lambda m, s: m.matrix_power(s @ s.t(), 3).to_dense(), "chain": lambda m, s: m.linalg.multi_dot([s, m.ones(4, 2), m.ones(2, 3)]),
    "linear of a vector": lambda m, s: m.nn.functional.linear(s, m.arange(4.0)), "linear of a batch": lambda m, s: m.nn.functional.linear(m.ones(2, 5, 4), s), "addmv": lambda m, s: m.addmv(m.ones(3), s.detach().to_sparse_csr(), m.arange(4.0)),
    "product of two": lambda m, s: (s @ s.t()).to_dense(), "from the left, turned": lambda m, s: m.ones(2, 4) @ s.t(), "turned plus": lambda m, s: m.ones(4, 3) + s.t(), "ones_like": lambda m, s: m.ones_like(s), "full_like": lambda m, s: m.full_like(s, 3), "fill_": lambda m, s: s.detach().clone().fill_(2.0),
    "stored of empty_like": lambda m, s: m.empty_like(s)._nnz(), "narrow_copy": lambda m, s: m.narrow_copy(s, 0, 1, 2), "smm": lambda m, s: m.smm(s, m.ones(4, 2)).coalesce(),
    "sspaddmm": lambda m, s: m.sspaddmm(s, s, m.ones(4, 4), beta=2, alpha=3).coalesce(), "hsmm": lambda m, s: m.hsmm(s, m.ones(4, 2)), "dense mul_": lambda m, s: m.full((3, 4), 2.0).mul_(s.detach()),
    "dense div_": lambda m, s: m.ones(3, 4).div_(s), "integers add_": lambda m, s: s.detach().to(m.int64).add_(s.detach()), "dense integers add_": lambda m, s: m.ones(3, 4, dtype=m.int64).add_(s),
    "single mul_ double": lambda m, s: s.detach().clone().mul_(s.detach().double()), "out of another size": lambda m, s: m.add(s.detach(), s.detach(), out=m.zeros(2, 2).to_sparse()), "out of integers": lambda m, s: m.mul(s.detach().to_sparse(), s.detach().to_sparse(), out=s.detach().to_sparse().to(m.int64)),
    "norm of both": lambda m, s: s.norm(2, (0, 1)), "norm of one": lambda m, s: s.norm(2, 0), "dense copy_": lambda m, s: m.ones(3, 4).copy_(s), "tanhshrink": lambda m, s: m.nn.functional.tanhshrink(s), "vecdot": lambda m, s: m.linalg.vecdot(s, s * 2), "last column": lambda m, s: s[..., 0], "new dimension": lambda m, s: s[None], "row of a new one": lambda m, s: s[None, 2], "row, then all": lambda m, s: s[2, ...], "too many": lambda m, s: s[0, 0, 0], "numbers for sparse": lambda m, s: m.nan_to_num(m.ones(2), s),
}
# Words of torch's about what it does not do for a layout, and its own internal assertions: there may be more here.
LACKS = re.compile("unsupported tensor layout|Could not run|not implemented for|is not supported|to be of format CSR|do not have|Only batched sparse compressed|support for output with|INTERNAL ASSERT|"
                   "the only compressed sparse format")


def attempt(function, *args):
    try: return function(*args), None
    except Exception as error: return None, error            # noqa: BLE001 - whatever is raised is compared


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", EXPRESSIONS)
def test_expressions(name, layout):
    theirs, ours = both(layout)
    (want, their_error), (got, our_error) = attempt(EXPRESSIONS[name], torch, theirs), attempt(EXPRESSIONS[name], rl, ours)
    if their_error is not None:
        if layout != "sparse_coo" and LACKS.search(str(their_error)): return
        assert our_error is not None, f"no error; torch has {their_error}"
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
        with pytest.raises(RuntimeError, match="not supported"): m.optim.SGD([p], lr=0.1, weight_decay=0.1).step()


@pytest.mark.parametrize("kind", ["Adadelta", "Adafactor", "Adam", "AdamW", "Adamax", "ASGD", "Muon", "NAdam", "RAdam", "RMSprop", "Rprop"])
def test_optimizers_refuse_before_they_begin(kind):
    words = []
    for m in (torch, rl):
        p = m.nn.Parameter(m.ones(3, 2))
        p.grad = m.eye(3, 2).to_sparse()
        optimizer = getattr(m.optim, kind)([p])
        with pytest.raises(RuntimeError) as error: optimizer.step()
        words.append(str(error.value))
        assert not optimizer.state
    assert words[0] == words[1]


def test_lbfgs_takes_sparse_gradients():
    found = []
    for m in (torch, rl):
        p = m.nn.Parameter(m.ones(3, 2))
        p.grad = m.eye(3, 2).to_sparse()
        m.optim.LBFGS([p]).step(lambda: (p.detach() * p.detach()).sum())         # noqa: B023 - called at once
        found.append(p.detach())
    assert difference(found[1], found[0]) is None


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


@pytest.mark.parametrize("make", [lambda m, **o: m.arange(3, **o), lambda m, **o: m.linspace(0, 1, 3, **o), lambda m, **o: m.logspace(0, 1, 3, **o), lambda m, **o: m.tril_indices(2, 2, **o),
                                  lambda m, **o: m.triu_indices(2, 2, **o), lambda m, **o: m.empty_permuted((2, 2), (0, 1), **o), lambda m, **o: m.range(0, 3, **o), lambda m, **o: m.rand(3, **o)])
@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_what_is_made_strided_refuses_other_layouts(make):
    for m in (torch, rl):
        make(m, layout=m.strided)
        with pytest.raises(NotImplementedError): make(m, layout=m.sparse_coo)


def test_texts_of_refused_diagonals():
    diagonals, ends = [[1.0, 2, 3], [1, 2, 3]], {"count": ([0], (3, 3), None), "twice": ([0, 0], (3, 3), None), "shape": ([0, 1], (3,), None), "floats": ([0.0, 1.0], (3, 3), None), "strided": ([0, 1], (3, 3), "strided")}
    for offsets, shape, layout in ends.values():
        words = []
        for m in (torch, rl):
            with pytest.raises(RuntimeError) as error: m.sparse.spdiags(m.tensor(diagonals), m.tensor(offsets), shape, layout=layout and getattr(m, layout))
            words.append(str(error.value))
        assert words[0] == words[1]
