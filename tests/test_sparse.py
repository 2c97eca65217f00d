"""Sparse tensors against the dense ones that they stand for: conversions, operators, gradients, refusals, files, optimizers."""
import copy
import io
import pickle

import pytest

import rushlight as torch
from rushlight.testing import assert_close

LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)
DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.complex64, torch.bfloat16)


def matrix(rows=5, columns=7, dtype=torch.float32, seed=0):
    """Some elements, and a row and a column without any."""
    torch.manual_seed(seed)
    x = torch.randn(rows, columns, dtype=torch.complex64 if dtype.is_complex else torch.float32)
    x = torch.where(torch.rand(rows, columns) < 0.5, x * 4, 0)
    x[rows // 2] = 0
    x[:, 1] = 0
    return x.round().to(dtype) if not (dtype.is_floating_point or dtype.is_complex) else x.to(dtype)


def twice(x):
    """The same tensor as COO with every element in two halves, in another order."""
    s = x.to_sparse()
    places = torch.cat([s.indices(), s.indices()], 1)
    order = torch.randperm(places.shape[1], generator=torch.Generator().manual_seed(3))
    return torch.sparse_coo_tensor(places[:, order], torch.cat([s.values() / 2, s.values() / 2])[order], x.shape)


def same(sparse, dense, **kwargs):
    assert sparse.layout is not torch.strided
    assert_close(sparse.to_dense(), dense, **kwargs)


# ------------------------------------------------------------------------------------------------------------ conversions
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_and_back(layout, dtype):
    x = matrix(dtype=dtype)
    s = x.to_sparse(layout=layout)
    assert s.layout is layout and s.dtype is dtype and s.shape == x.shape and s.device == x.device and isinstance(s, torch.Tensor)
    assert torch.equal(s.to_dense(), x) and s._nnz() == int((x != 0).sum())
    for other in LAYOUTS:
        t = s.to_sparse(layout=other)
        assert t.layout is other and torch.equal(t.to_dense(), x)


def test_compressed_rows_and_columns():
    x = torch.tensor([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [3.0, 0.0, 4.0]])
    s = x.to_sparse_csr()
    assert s.crow_indices().tolist() == [0, 1, 1, 3] and s.col_indices().tolist() == [1, 0, 2] and s.values().tolist() == [2, 3, 4]
    s = x.to_sparse_csc()
    assert s.ccol_indices().tolist() == [0, 1, 2, 3] and s.row_indices().tolist() == [2, 0, 2] and s.values().tolist() == [3, 2, 4]
    assert s.t().layout is torch.sparse_csr and torch.equal(s.t().to_dense(), x.t())


def test_dense_dimensions():
    x = torch.zeros(4, 3, 2)
    x[1, 2, 0], x[3, 0, 1] = 5, 6
    s = x.to_sparse(1)
    assert (s.sparse_dim(), s.dense_dim()) == (1, 2) and s.indices().tolist() == [[1, 3]] and torch.equal(s.to_dense(), x)
    s = x.to_sparse(2)
    assert s.values().shape == (2, 2) and torch.equal(s.to_dense(), x) and torch.equal(s.transpose(0, 1).to_dense(), x.transpose(0, 1))
    s = x.to_sparse_csr(dense_dim=1)
    assert s.values().shape == (2, 2) and torch.equal(s.to_dense(), x)
    scalar = torch.tensor(3.0).to_sparse()
    assert scalar.indices().shape == (0, 1) and scalar.to_dense().item() == 3


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,), (2, 0, 3)])
def test_nothing_stored(shape):
    x = torch.zeros(shape)
    s = x.to_sparse()
    assert s._nnz() == 0 and s.to_dense().shape == x.shape and (s + s)._nnz() == 0 and s.coalesce().is_coalesced()
    s = torch.sparse_coo_tensor((3, 4))
    assert (s @ torch.ones(4, 2)).tolist() == [[0, 0]] * 3 and s.sum().item() == 0


def test_coalesce():
    s = torch.sparse_coo_tensor([[1, 0, 1, 0], [2, 0, 2, 1]], [1.0, 2.0, 3.0, 4.0], (2, 3))
    assert not s.is_coalesced()
    for method in (s.indices, s.values):
        with pytest.raises(RuntimeError, match="on an uncoalesced tensor, please call .coalesce"): method()
    c = s.coalesce()
    assert c.is_coalesced() and c.coalesce() is c and c.indices().tolist() == [[0, 0, 1], [0, 1, 2]] and c.values().tolist() == [2, 4, 4]
    assert torch.equal(s.to_dense(), c.to_dense())
    b = torch.sparse_coo_tensor([[1, 1]], torch.tensor([True, True]), (2,))
    assert b.to_dense().tolist() == [False, True] and b.coalesce().values().tolist() == [True]


def test_properties():
    s = matrix().to_sparse()
    assert s.is_sparse and not s.is_sparse_csr and not s.is_meta and s.is_cpu and s.is_leaf and not s.requires_grad and len(s) == 5 and s.numel() == 35 and s.ndim == 2
    assert s.to_sparse_csr().is_sparse_csr and not s.to_sparse_csr().is_sparse and s.type() == "torch.sparse.FloatTensor"
    assert isinstance(torch.sparse_coo, torch.layout) and str(torch.sparse_csc) == "torch.sparse_csc" and torch.sparse_coo is s.layout
    assert pickle.loads(pickle.dumps(torch.sparse_csr)) is torch.sparse_csr
    assert s.values().data_ptr() == s.values().data_ptr()                      # the memory itself, not a copy
    s.values().mul_(2)
    assert torch.equal(s.to_dense(), matrix() * 2)


def test_printing():
    s = torch.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    assert repr(s) == ("tensor(indices=tensor([[0, 1],\n                       [2, 0]]),\n       values=tensor([3., 4.]),\n"
                       "       size=(2, 3), nnz=2, layout=torch.sparse_coo)")
    assert repr(s.double().to_sparse_csr()) == ("tensor(crow_indices=tensor([0, 1, 2]),\n       col_indices=tensor([2, 0]),\n       values=tensor([3., 4.]), size=(2, 3), nnz=2, "
                                                "dtype=torch.float64,\n       layout=torch.sparse_csr)")


# ------------------------------------------------------------------------------------------------------------ construction
@pytest.mark.parametrize("arguments, words", [
    (([[0, 1], [2, 0]], [1.0, 2.0, 3.0], (2, 3)), "indices and values must have same nnz"),
    (([[0, 1], [2, 0]], [1.0, 2.0], (2, 3, 4)), "'len(size) == sparse_dim + dense_dim' is not satisfied"),
    (([[0, 5], [2, 0]], [1.0, 2.0], (2, 3)), "size is inconsistent with indices: for dim 0, size is 2 but found index 5"),
    (([[0, 0], [2, -1]], [1.0, 2.0], (2, 3)), "found negative index -1 for dim 1"),
    (([[0, 1]], [[1.0, 2.0], [3.0, 4.0]], (2, 3)), "values has incorrect size"),
])
def test_bad_coordinates(arguments, words):
    with pytest.raises(RuntimeError) as error: torch.sparse_coo_tensor(*arguments)
    assert str(error.value).startswith(words)


@pytest.mark.parametrize("arguments, words", [
    (([1, 1, 2], [0, 1], [1.0, 2.0], (2, 4)), "`crow_indices[..., 0] == 0` is not satisfied"),
    (([0, 1, 3], [0, 1], [1.0, 2.0], (2, 4)), "`crow_indices[..., -1] == nnz` is not satisfied"),
    (([0, 3, 2], [0, 1], [1.0, 2.0], (2, 4)), "`0 <= crow_indices[..., 1:] - crow_indices[..., :-1] <= ncols` is not satisfied"),
    (([0, 1, 2], [0, 4], [1.0, 2.0], (2, 4)), "`0 <= col_indices < ncols` is not satisfied"),
    (([0, 1, 2], [0, -1], [1.0, 2.0], (2, 4)), "`0 <= col_indices < ncols` is not satisfied"),
    (([0, 1, 2], [0, 1], [1.0, 2.0], (3, 4)), "crow_indices.shape[-1] must be equal to the number of nrows + 1"),
    (([0, 1, 2], [0, 1], [1.0], (2, 4)), "col_indices.shape[-1] must be equal to nnz"),
])
def test_bad_rows(arguments, words):
    with pytest.raises(RuntimeError) as error: torch.sparse_csr_tensor(*arguments)
    assert str(error.value).startswith(words)


def test_order_is_checked_when_asked():
    with pytest.raises(RuntimeError, match="sorted and distinct"): torch.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 4), check_invariants=True)
    with torch.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="cannot set is_coalesced"):
        torch.sparse_coo_tensor([[1, 0]], [1.0, 2.0], (2,), is_coalesced=True)
    assert not torch.sparse.check_sparse_tensor_invariants.is_enabled()
    unsorted = torch.sparse_csr_tensor([0, 2, 2], [1, 0], [1.0, 2.0], (2, 4))
    assert unsorted.to_dense().tolist() == [[2, 1, 0, 0], [0, 0, 0, 0]] and unsorted.to_sparse().coalesce().indices().tolist() == [[0, 0], [0, 1]]


def test_other_constructors():
    s = torch.sparse_coo_tensor([[0, 1], [3, 2]], [1, 2], dtype=torch.float64, requires_grad=True)
    assert s.shape == (2, 4) and s.dtype is torch.float64 and s.requires_grad and s.is_leaf
    assert torch.equal(torch.sparse.FloatTensor(torch.tensor([[0, 1]]), torch.tensor([1.0, 2.0]), torch.Size([3])).to_dense(), torch.tensor([1.0, 2.0, 0.0]))
    assert torch.zeros(2, 3, layout=torch.sparse_coo)._nnz() == 0 and torch.zeros(2, 3, layout=torch.sparse_csr).crow_indices().tolist() == [0, 0, 0]
    assert torch.sparse.spdiags(torch.tensor([[1.0, 2, 3], [4, 5, 6]]), torch.tensor([0, 1]), (3, 3)).to_dense().tolist() == [[1, 5, 0], [0, 2, 6], [0, 0, 3]]
    with pytest.raises(RuntimeError, match="full"): torch.ones(2, layout=torch.sparse_coo)
    with pytest.raises(NotImplementedError, match="rand"): torch.rand(2, layout=torch.sparse_coo)
    with pytest.raises(NotImplementedError, match="blocks are not available"): torch.eye(4).to_sparse_bsr((2, 2))
    with pytest.raises(RuntimeError, match="sparse_compressed_tensor expected sparse compressed tensor layout but got Sparse"):
        torch.sparse_compressed_tensor([0, 1], [0], [1.0], layout=torch.sparse_coo)


# ---------------------------------------------------------------------------------------------------------------- operators
UNARY = "abs neg sin sinh tan tanh asinh atan ceil floor round trunc frac sign sgn expm1 relu square erf deg2rad rad2deg isnan isinf signbit nan_to_num positive".split()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_that_keep_zero(name, layout):
    x = matrix()
    same(getattr(torch, name)(x.to_sparse(layout=layout)), getattr(torch, name)(x))
    if layout is torch.sparse_coo: same(getattr(torch, name)(twice(x)), getattr(torch, name)(x))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_arithmetic(layout):
    x, y, d = matrix(), matrix(seed=1), torch.randn(5, 7)
    s, t = x.to_sparse(layout=layout), y.to_sparse(layout=layout)
    same(s + t, x + y)
    same(s - t, x - y)
    same(torch.add(s, t, alpha=3), x + 3 * y)
    same(s * t, x * y)
    same(s * 2, x * 2)
    same(2 * s, x * 2)
    same(s * torch.tensor(3.0), x * 3)
    same(s / 2, x / 2)
    same(s // 2, x // 2)
    same(s ** 2, x ** 2)
    same(-s, -x)
    same(s * d, x * d)
    same(d * s, x * d)
    same(s * d[0], x * d[0])
    same(s * d[:, :1], x * d[:, :1])
    assert_close(d + s, d + x)
    assert_close(d - s, d - x)
    assert_close(torch.ones(5, 7).add_(s, alpha=2), 1 + 2 * x)
    if layout is torch.sparse_coo:
        same(twice(x) + t, x + y)
        same(twice(x) * twice(y), x * y)
        with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"): s + d
        with pytest.raises(RuntimeError, match=r"add\(sparse, dense\) is not supported"): s + 1
    with pytest.raises(RuntimeError, match="expected sizes"): s + torch.eye(3).to_sparse(layout=layout)
    with pytest.raises(RuntimeError, match="zeroth power"): s ** 0


def test_dtypes_are_promoted():
    s = matrix(dtype=torch.int64).to_sparse()
    assert (s * 0.5).dtype is torch.float32 and (s / 2).dtype is torch.float32 and (s + matrix().to_sparse()).dtype is torch.float32
    assert s.to(torch.float64).dtype is torch.float64 and s.bool().dtype is torch.bool and s.sum().dtype is torch.int64


@pytest.mark.parametrize("layout", LAYOUTS)
def test_in_place(layout):
    x, y = matrix(), matrix(seed=1)
    s, t = x.to_sparse(layout=layout).clone(), y.to_sparse(layout=layout)
    before = s
    s += t
    s.mul_(3).sub_(t).neg_().div_(2)
    assert s is before
    same(s, -(3 * (x + y) - y) / 2)
    assert s.zero_().to_dense().any().item() is False
    same(s.copy_(t), y)
    leaf = x.to_sparse(layout=layout).requires_grad_()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"): leaf.mul_(2)
    same(leaf, x)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.int64, torch.complex64, torch.bfloat16))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_products(layout, dtype):
    x, y = matrix(dtype=dtype), matrix(7, 4, dtype=dtype, seed=1)
    d = matrix(7, 6, dtype=dtype, seed=2)
    s, t = x.to_sparse(layout=layout), y.to_sparse(layout=layout)
    for made in (s @ d, torch.mm(s, d), torch.spmm(s, d), torch.sparse.mm(s, d)): assert_close(made, x @ d)
    assert_close(s @ d[:, 0], x @ d[:, 0])
    left = matrix(3, 5, dtype=dtype, seed=3)
    assert_close(left @ s, left @ x)
    same(s @ t, x @ y)
    start = matrix(5, 6, dtype=dtype, seed=4)
    assert_close(torch.addmm(start, s, d, beta=2, alpha=3), 2 * start + 3 * (x @ d))
    assert_close(torch.sparse.addmm(start, s, d), start + x @ d)
    with pytest.raises(RuntimeError): s @ d.t()
    with pytest.raises(RuntimeError, match="expected scalar type"): s @ d.to(torch.float16)


def test_more_products():
    x, w, b = matrix(), torch.randn(3, 7), torch.randn(3)
    assert_close(torch.nn.functional.linear(x.to_sparse(), w, b), x @ w.t() + b)
    batch = torch.stack([x, matrix(seed=1)])
    assert_close(torch.bmm(batch.to_sparse(), w.t().expand(2, 7, 3)), batch @ w.t())
    assert_close(twice(x) @ w.t(), x @ w.t())
    same(torch.hspmm(x.to_sparse(), w.t()), x @ w.t())


@pytest.mark.parametrize("reduce", ("sum", "mean", "amax", "amin"))
def test_products_reduced(reduce):
    x, d = matrix(), torch.randn(7, 3)
    want = torch.zeros(5, 3)
    for i in range(5):
        terms = [x[i, k] * d[k] for k in range(7) if x[i, k] != 0]
        if terms: want[i] = {"sum": torch.sum, "mean": torch.mean, "amax": torch.amax, "amin": torch.amin}[reduce](torch.stack(terms), 0)
    assert_close(torch.sparse.mm(x.to_sparse_csr(), d, reduce), want)
    s, d = x.double().to_sparse_csr(), d.double().requires_grad_()
    values = s.values().clone().requires_grad_()
    made = lambda v, d: torch.sparse.mm(torch.sparse_csr_tensor(s.crow_indices(), s.col_indices(), v, s.shape), d, reduce)
    assert torch.autograd.gradcheck(made, (values, d))
    with pytest.raises(RuntimeError, match="reduce argument"): torch.sparse.mm(s, d, "prod")
    with pytest.raises(RuntimeError, match="Expected sparse CSR"): torch.sparse.mm(s.to_sparse(), d, reduce)


def test_sampled_addmm():
    x, a, b = matrix(), torch.randn(5, 3), torch.randn(3, 7)
    made = torch.sparse.sampled_addmm(x.to_sparse_csr(), a, b, beta=0.5, alpha=2)
    same(made, torch.where(x != 0, 0.5 * x + 2 * (a @ b), 0))
    out = torch.zeros(5, 7, layout=torch.sparse_csr)
    assert torch.sparse.sampled_addmm(x.to_sparse_csr(), a, b, beta=0.5, alpha=2, out=out) is out and torch.equal(out.to_dense(), made.to_dense())
    with pytest.raises(RuntimeError, match="sampled_addmm: mat1 and mat2 shapes cannot be multiplied"): torch.sparse.sampled_addmm(x.to_sparse_csr(), a, a)
    with pytest.raises(RuntimeError, match="sparse csr layout"): torch.sparse.sampled_addmm(x.to_sparse(), a, b)


def test_sums():
    x = matrix().unsqueeze(2) * torch.tensor([1.0, 2.0, 3.0])
    s = x.to_sparse(2)
    assert_close(s.sum(), x.sum())
    for dim in (0, 1, (0, 2), (1, 2)): same(torch.sparse.sum(s, dim), x.sum(dim))
    same(torch.sparse.sum(s, 2), x.sum(2))
    assert_close(torch.sparse.sum(s, (0, 1)), x.sum((0, 1)))
    same(x[:, :, 0].to_sparse_csr().sum(1, keepdim=True), x[:, :, 0].sum(1, keepdim=True))
    assert_close(s.norm(), x.norm())


@pytest.mark.parametrize("dim", (0, 1, 2))
@pytest.mark.parametrize("name", ("softmax", "log_softmax"))
def test_softmax(name, dim):
    x = matrix().unsqueeze(2) * torch.tensor([1.0, 0.5])
    s = x.to_sparse(2)
    want = getattr(torch, name)(torch.where((x != 0), x, -float("inf")) if dim < 2 else x, dim)
    got = getattr(torch.sparse, name)(s, dim)
    at = tuple(got.indices())
    assert_close(got.values(), want[at])


def test_shapes():
    x = torch.where(torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(0)) < 0.4, torch.randn(3, 4, 5), 0)
    s = x.to_sparse()
    same(s.permute(2, 0, 1), x.permute(2, 0, 1))
    same(s.transpose(-1, 0), x.transpose(-1, 0))
    same(s.unsqueeze(1), x.unsqueeze(1))
    for d in range(3):
        index = torch.tensor([1, 1, 0, -1])
        same(s.index_select(d, index), x.index_select(d, index % x.shape[d]))
        same(s.select(d, 2), x.select(d, 2))
        same(torch.cat([s, s], d), torch.cat([x, x], d))
    same(torch.stack([s, s], 1), torch.stack([x, x], 1))
    hybrid = x.to_sparse(1)
    same(torch.cat([hybrid, hybrid], 2), torch.cat([x, x], 2))
    same(hybrid.index_select(2, torch.tensor([3, 0])), x[:, :, [3, 0]])
    with pytest.raises(RuntimeError, match="Concatenating sparse tensors, but a tensor of layout torch.strided was found at position 1"): torch.cat([s, x])
    same(s[1], x[1])
    assert s[1, 2, 3].item() == x[1, 2, 3].item() and [t.to_dense().tolist() for t in s] == x.tolist()
    same(matrix().to_sparse().T, matrix().T)
    with pytest.raises(TypeError, match="Cannot assign to a sparse tensor"): s[0] = 1
    with pytest.raises(IndexError): s[5]
    with pytest.raises(RuntimeError, match="reshape is not implemented for sparse tensors"): s.reshape(-1)


def test_masks():
    d, mask = torch.randn(5, 7), matrix().to_sparse()
    for layout in LAYOUTS: same(d.sparse_mask(mask.to_sparse(layout=layout)), torch.where(matrix() != 0, d, 0))
    other = matrix(seed=1)
    got = other.to_sparse().sparse_mask(mask)
    assert got._nnz() == mask._nnz()
    same(got, torch.where(matrix() != 0, other, 0))


REFUSED = "exp cos log sigmoid mean max min argmax cumsum sort topk view flatten squeeze narrow expand nonzero softmax clamp dropout var where masked_fill equal".split()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", REFUSED)
def test_others_are_refused_by_name(name, layout):
    """Never a wrong number: what there is not for a layout says so, with the operator and the layout."""
    s = matrix().to_sparse(layout=layout)
    calls = {"view": lambda: s.view(-1), "narrow": lambda: s.narrow(0, 0, 1), "expand": lambda: s.expand(2, 5, 7), "softmax": lambda: s.softmax(0), "cumsum": lambda: s.cumsum(0),
             "clamp": lambda: s.clamp(0), "dropout": lambda: torch.nn.functional.dropout(s), "topk": lambda: s.topk(1), "where": lambda: torch.where(torch.ones(5, 7) > 0, s, s),
             "masked_fill": lambda: s.masked_fill(torch.ones(5, 7) > 0, 0), "equal": lambda: torch.equal(s, s)}
    with pytest.raises((NotImplementedError, RuntimeError)) as error: calls.get(name, lambda: getattr(s, name)())()
    assert str(layout) in str(error.value)


def test_no_way_to_the_data_of_the_object():
    s = matrix().to_sparse()
    for reach in (s.numpy, s.tolist, s.data_ptr, s.untyped_storage, s.item, lambda: bool(s), lambda: s.nbytes, lambda: torch.from_dlpack(s), s.to_sparse_csr().stride,
                  lambda: s.set_(torch.ones(2)), lambda: s.resize_(2), lambda: s.as_subclass(torch.nn.Parameter), lambda: torch.nn.functional.normalize(s)):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError, BufferError)): reach()
    with torch._C.disable_torch_function():                # where nobody is asked, there is nothing to be read either
        assert (torch.exp(s)).is_meta


# ---------------------------------------------------------------------------------------------------------------- gradients
def leaf(layout, **kwargs): return matrix(dtype=torch.float64, **kwargs).to_sparse(layout=layout).requires_grad_()


PATHS = {
    "to_dense": lambda s: s.to_dense(), "product": lambda s: torch.sparse.mm(s, torch.arange(14.0, dtype=torch.float64).reshape(7, 2).sin()),
    "product from the left": lambda s: torch.sparse.mm(torch.ones(3, 5, dtype=torch.float64), s), "square": lambda s: (s * s).to_dense(), "sin": lambda s: s.sin().to_dense(),
    "sum of two": lambda s: (s + 2 * s).to_dense(), "transposed": lambda s: s.t().to_dense(), "values": lambda s: s.coalesce().values() if s.is_sparse else s.values(),
    "other layout": lambda s: s.to_sparse_csr().to_dense(), "back to COO": lambda s: s.to_sparse_coo().to_dense(), "cubed": lambda s: (s ** 3).to_dense(),
    "with a sparse one": lambda s: torch.sparse.mm(s, s.t()).to_dense(), "row": lambda s: s[0].to_dense(), "times dense": lambda s: (s * torch.full((5, 7), 1.5, dtype=torch.float64)).to_dense(),
    "addmm": lambda s: torch.sparse.addmm(torch.ones(5, 2, dtype=torch.float64), s, torch.ones(7, 2, dtype=torch.float64)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PATHS)
def test_gradients_are_those_of_the_values(name, layout):
    """The gradient of a sparse leaf has its pattern; it is the derivative by its values, which differences check through `from values`."""
    s = leaf(layout)
    y = PATHS[name](s)
    y.sin().sum().backward()
    assert s.grad.layout is layout and s.grad._nnz() == s._nnz()
    parts = s.detach()

    def by_values(v):
        t = torch.sparse_coo_tensor(parts.indices(), v, parts.shape, is_coalesced=True) if layout is torch.sparse_coo else torch.sparse_compressed_tensor(
            *parts._pattern.indices, v, parts.shape, layout=layout)
        return PATHS[name](t)
    v = parts._values().clone().requires_grad_()
    by_values(v).sin().sum().backward()
    assert_close(s.grad._values(), v.grad)
    assert torch.autograd.gradcheck(by_values, v)
    assert torch.autograd.gradgradcheck(by_values, v)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients_of_dense_operands(layout):
    x = matrix(dtype=torch.float64)
    s, d = x.to_sparse(layout=layout), torch.randn(7, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda d: torch.sparse.mm(s, d), d) and torch.autograd.gradgradcheck(lambda d: s @ d, d)
    a, b = torch.randn(5, 3, dtype=torch.float64, requires_grad=True), torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: torch.sparse.sampled_addmm(x.to_sparse_csr(), a, b, beta=0.5, alpha=2).to_dense(), (a, b))
    w = x.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda w: (s * w).to_dense(), w)
    assert torch.autograd.gradcheck(lambda w: w.sparse_mask(s).to_dense(), w)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradient_of_every_element(layout):
    """torch.mm, sums and dense results treat what is not stored as a 0 that may change; torch.sparse.mm does not."""
    x, d = matrix().requires_grad_(), torch.randn(7, 2)
    (x.to_sparse(layout=layout) @ d).sum().backward()
    assert_close(x.grad, d.sum(1).expand(5, 7))
    x.grad = None
    torch.sparse.mm(x.to_sparse(layout=layout), d).sum().backward()
    assert_close(x.grad, torch.where(x != 0, d.sum(1).expand(5, 7), 0))
    x.grad = None
    (x.to_sparse(layout=layout).sum() + (torch.ones(5, 7) + x.to_sparse(layout=layout)).sum()).backward()
    assert_close(x.grad, torch.full((5, 7), 2.0))
    s = leaf(layout)
    (s @ d.double()).sum().backward()
    assert s.grad.layout is torch.strided


def test_backward_with_sparse_gradients():
    x = torch.eye(3).requires_grad_()
    x.to_sparse().backward(torch.ones(3, 3).to_sparse())
    assert torch.equal(x.grad, torch.ones(3, 3))
    s = torch.eye(3).to_sparse().requires_grad_()
    (2 * s).backward(gradient=torch.ones(3, 3))                      # a dense gradient: what falls on the pattern
    same(s.grad, 2 * torch.eye(3))
    y = 3 * s
    got, = torch.autograd.grad(y, s, torch.ones(3, 3).to_sparse())   # and a sparse one of another pattern
    same(got, 3 * torch.eye(3))
    seen = []
    s.register_hook(lambda g: seen.append(g.layout))
    y = (s * s).to_dense().sum()
    y.backward()
    assert seen == [torch.sparse_coo]
    same(s.grad, 4 * torch.eye(3))
    assert s.detach().requires_grad is False and s.data.is_leaf
    with torch.no_grad(): assert (s * 2).requires_grad is False
    zero, = torch.autograd.grad((s.detach() * 2).requires_grad_().sum() + 0 * s.to_dense().sum(), s)
    same(zero, torch.zeros(3, 3))


# --------------------------------------------------------------------------------------------------- embeddings, optimizers
def test_embedding():
    table, names = torch.randn(6, 3), torch.tensor([[1, 4], [1, 0]])
    for options in ({}, {"padding_idx": 1}, {"scale_grad_by_freq": True}):
        w, v = table.clone().requires_grad_(), table.clone().requires_grad_()
        weight = torch.arange(12.0).reshape(2, 2, 3)
        (torch.nn.functional.embedding(names, w, sparse=True, **options) * weight).sum().backward()
        (torch.nn.functional.embedding(names, v, **options) * weight).sum().backward()
        assert w.grad.is_sparse and not w.grad.is_coalesced()
        same(w.grad, v.grad)
    for mode in ("sum", "mean"):
        w, v = table.clone().requires_grad_(), table.clone().requires_grad_()
        for p, sparse in ((w, True), (v, False)):
            torch.nn.functional.embedding_bag(names.reshape(-1), p, torch.tensor([0, 3]), mode=mode, padding_idx=4, sparse=sparse).sin().sum().backward()
        same(w.grad, v.grad)
    often = table.clone().requires_grad_()
    torch.nn.functional.embedding(names, often, scale_grad_by_freq=True).sum().backward()
    assert often.grad[:, 0].tolist() == [1, 1, 0, 0, 1, 0]


def test_sparse_and_dense_gradients_are_added():
    names = torch.tensor([1, 1, 3])
    w = torch.ones(4, 2, requires_grad=True)
    look = lambda: torch.nn.functional.embedding(names, w, sparse=True).sum()
    want = torch.tensor([[1.0, 1], [3, 3], [1, 1], [2, 2]])
    (look() + w.sum()).backward()
    assert torch.equal(w.grad, want)
    w.grad = None
    w.sum().backward()
    look().backward()
    assert torch.equal(w.grad, want)
    w.grad = None
    look().backward()
    w.sum().backward()
    assert torch.equal(w.grad, want)
    w.grad = None
    look().backward()
    held = w.grad
    look().backward()
    assert w.grad is held and held._nnz() == 3                       # the same places in the same order: the values are added
    same(held, 2 * (want - 1))
    w.grad = torch.eye(4, 2).to_sparse()
    assert w.grad.is_sparse
    twice_w = w.detach().clone().requires_grad_()
    torch.nn.functional.embedding(names, twice_w * 2, sparse=True).sum().backward()
    assert_close(twice_w.grad, 2 * (want - 1))


@pytest.mark.parametrize("kind, options", [("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}), ("Adagrad", {"lr": 0.1})])
def test_optimizers_move_as_with_dense_gradients(kind, options):
    start = torch.randn(6, 3)
    tables = [torch.nn.Embedding(6, 3, sparse=sparse) for sparse in (True, False)]
    for table in tables:
        with torch.no_grad(): table.weight.copy_(start)
        optimizer = getattr(torch.optim, kind)(table.parameters(), **options)
        for _ in range(4):
            optimizer.zero_grad()
            table(torch.tensor([0, 2, 2, 3])).square().sum().backward()            # the same rows at each step: momentum has nothing to move besides
            optimizer.step()
    assert_close(tables[0].weight.detach(), tables[1].weight.detach())


def test_sparse_adam():
    table = torch.nn.Embedding(5, 2, sparse=True)
    other = torch.nn.Parameter(table.weight.detach().clone()[[1, 3]])
    ours, adam = torch.optim.SparseAdam(table.parameters(), lr=0.05), torch.optim.Adam([other], lr=0.05)
    rest = table.weight.detach().clone()
    for _ in range(5):
        for optimizer, rows in ((ours, lambda: table(torch.tensor([1, 3]))), (adam, lambda: other)):
            optimizer.zero_grad()
            rows().sin().sum().backward()
            optimizer.step()
    assert_close(table.weight.detach()[[1, 3]], other.detach())
    assert torch.equal(table.weight.detach()[[0, 2, 4]], rest[[0, 2, 4]])
    dense = torch.nn.Parameter(torch.ones(2))
    dense.grad = torch.ones(2)
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients"): torch.optim.SparseAdam([dense]).step()
    before = table.weight.detach().clone()
    for kind in ("Adam", "AdamW", "RMSprop", "Adadelta"):
        with pytest.raises(RuntimeError, match="does not support sparse gradients"): getattr(torch.optim, kind)(table.parameters()).step()
    assert torch.equal(table.weight.detach(), before)


# -------------------------------------------------------------------------------------------------------- files and copies
@pytest.mark.parametrize("layout", LAYOUTS)
def test_files_and_copies(layout):
    s = matrix().to_sparse(layout=layout)
    file = io.BytesIO()
    torch.save({"s": s, "p": torch.nn.Parameter(s)}, file)
    file.seek(0)
    read = torch.load(file)
    for t in (read["s"], pickle.loads(pickle.dumps(s)), copy.deepcopy(s), copy.copy(s), s.clone()):
        assert t.layout is layout and t is not s
        same(t, matrix())
    assert isinstance(read["p"], torch.nn.Parameter) and read["p"].requires_grad and repr(read["p"]).startswith("Parameter containing:")
    assert s.is_sparse is False or read["s"].is_coalesced()
    c = s.clone()
    c.values().zero_() if layout is not torch.sparse_coo else c._values().zero_()
    same(s, matrix())


def test_in_a_module():
    class Graph(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("edges", matrix(5, 5).to_sparse())
            self.inner = torch.nn.Linear(5, 2)

        def forward(self, x): return torch.relu(self.edges @ self.inner(x))
    model = Graph().double()
    assert model.edges.dtype is torch.float64 and model.edges.is_sparse
    model(torch.eye(5, dtype=torch.float64)).sum().backward()
    assert model.inner.weight.grad is not None
    again = Graph()
    again.double().load_state_dict(model.state_dict())
    assert torch.equal(again.edges.to_dense(), model.edges.to_dense())
    assert torch.equal(copy.deepcopy(model).edges.to_dense(), model.edges.to_dense())


def test_assert_close():
    s = matrix().to_sparse()
    assert_close(s, s.clone())
    with pytest.raises(AssertionError): assert_close(s, 2 * s)
    with pytest.raises(AssertionError, match="layout"): assert_close(s, s.to_dense())


def test_import_does_not_read_it():
    import subprocess
    import sys
    code = "import rushlight, sys; rushlight.ones(2) + 1; sys.exit('rushlight.sparse' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# ----------------------------------------------------------------------------------------------- transforms, modes, C++ doors
def from_values(s): return lambda v: torch.sparse_coo_tensor(s.indices(), v, s.shape, is_coalesced=True)


def test_vmap_and_forward_mode_look_inside():
    x = matrix(3, 3)
    s, d = x.to_sparse(), torch.randn(3, 2)
    made, rows, many = from_values(s), torch.randn(4, 3), torch.randn(4, s._nnz())
    assert_close(torch.vmap(lambda v: s @ v)(rows), rows @ x.t())
    assert_close(torch.vmap(lambda v: made(v) @ d)(many), torch.stack([made(v) @ d for v in many]))
    assert_close(torch.vmap(torch.func.grad(lambda v: made(v).sin().to_dense().sum()))(many), many.cos())
    assert_close(torch.func.jvp(lambda d: s @ d, (d,), (2 * d,))[1], 2 * (x @ d))
    v = s.values()
    assert_close(torch.func.jvp(lambda v: made(v).sin().to_dense(), (v,), (torch.ones_like(v),))[1], torch.where(x != 0, x.cos(), 0))
    forwards, backwards = (jacobian(lambda v: torch.sparse.mm(made(v), d).sin())(v) for jacobian in (torch.func.jacfwd, torch.func.jacrev))
    assert_close(forwards, backwards)
    with pytest.raises(NotImplementedError): torch.vmap(lambda t: t * 2)(s)
    with pytest.raises(NotImplementedError): torch.func.jvp(lambda t: t * 2, (s,), (s,))


def test_modes_and_recording():
    x = matrix(4, 4)
    s, d = x.to_sparse_csr(), torch.randn(4, 2)

    class Mode(torch.overrides.TorchFunctionMode):
        seen: list = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.seen.append(func.__name__)
            return func(*args, **(kwargs or {}))
    with Mode(): made = s @ d
    assert_close(made, x @ d)
    assert "matmul" in Mode.seen
    assert torch.equal(torch.compile(lambda s, d: (s @ d).relu() + 1)(s, d), (s @ d).relu() + 1)
    with torch.inference_mode(): assert (s * 2).is_inference()
    with torch.autograd.detect_anomaly(check_nan=True):
        w = x.clone().requires_grad_()
        torch.sparse.mm(w.to_sparse(), d).sum().backward()


def test_doors_in_the_runtime():
    """Places where C++ takes a tensor without asking anyone: copied by its parts, or refused before anything is written."""
    s, x = matrix(3, 3).to_sparse(), torch.ones(3, 3)
    with pytest.warns(UserWarning, match="copies it"): same(torch.tensor(s), matrix(3, 3))
    assert torch.as_tensor(s) is s and torch.as_tensor(s, dtype=torch.float64).dtype is torch.float64
    for key in (slice(None), Ellipsis, 0, torch.tensor([0, 1, 2])):
        with pytest.raises(RuntimeError, match="between dense and sparse"): x[key] = s
    with pytest.raises(RuntimeError, match="between dense and sparse"): x.copy_(s)
    with pytest.raises(RuntimeError, match="incompatible tensor type"): x.data = s
    with pytest.raises(NotImplementedError, match="no index"): x[s.long()]
    with pytest.raises(NotImplementedError, match="no index"): x[s.bool()]
    assert torch.equal(x, torch.ones(3, 3))
    with pytest.raises(RuntimeError, match="rows or columns"):
        from rushlight import registry
        rows = torch.tensor([0, 1])
        registry.find("_sparse_sparse_terms").op.function(rows, torch.tensor([7]), rows, torch.tensor([0]), 1)


def test_threads_give_the_same_bits():
    torch.manual_seed(0)
    places, d = torch.randint(0, 2000, (2, 20_000)), torch.randn(2000, 70)
    s, before, found = torch.sparse_coo_tensor(places, torch.randn(20_000), (2000, 2000)), torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            c = s.coalesce()
            found.append([c.values(), c @ d, torch.sparse.mm(c.to_sparse_csr(), d, "amax"), (c @ c).values(), torch.sparse.softmax(c, 1).values()])
    finally: torch.set_num_threads(before)
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other))


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc])
def test_gradcheck_varies_the_values_of_sparse_tensors(layout, masked):
    check = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    s, d = matrix().double().to_sparse(layout=layout).requires_grad_(), torch.arange(14.0, dtype=torch.float64).reshape(7, 2)
    assert check(lambda x: x * 3, [s], masked=masked)
    assert check(lambda x: torch.sparse.mm(x, d) if masked else x @ d, s, masked=masked)

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x): return x * 3
        @staticmethod
        def backward(ctx, grad): return grad * 2
    with pytest.raises(RuntimeError, match="Jacobian mismatch"): check(Wrong.apply, [s], masked=masked)


@pytest.mark.parametrize("left", ["dense", "coo"])
@pytest.mark.parametrize("right", ["coo", "other places"])
def test_dtypes_that_dense_sums_refuse(left, right):
    """A fraction of an integer, the difference of bools: in the dense operators' words, and before anything is written."""
    d = torch.tensor([[0, 1], [2, 0]])
    b = d.to_sparse() if right == "coo" else d.t().to_sparse()
    for make, refused in ((lambda t: t, [lambda a, b: a.add_(b, alpha=0.5), lambda a, b: torch.add(a, b, alpha=0.5), lambda a, b: a.sub_(b, alpha=0.5)]),
                          (lambda t: t.bool(), [lambda a, b: a - b, lambda a, b: a.sub_(b)])):
        for call in refused:
            a = make(d.clone() if left == "dense" else d.to_sparse())
            before = a.to_dense().clone()
            with pytest.raises(RuntimeError, match="For integral input tensors, argument alpha must not be|Subtraction, the `-` operator, with two bool"): call(a, make(b))
            assert torch.equal(a.to_dense(), before)
    assert torch.equal(torch.add(d, b, alpha=2).to_dense(), d + 2 * b.to_dense())


def test_products_as_methods():
    s = torch.eye(2).to_sparse()
    assert s.smm(torch.ones(2, 3)).to_dense().tolist() == [[1] * 3] * 2
    assert s.sspaddmm(s, torch.ones(2, 2)).to_dense().tolist() == [[2, 1], [1, 2]]
