"""Names that few programs call: lobpcg, embedding_bag below nn.functional, products of groups and of 8-bit floats, swap_tensors."""
import weakref

import pytest

import rushlight as rl
from rushlight.nn import functional as F


# ------------------------------------------------------------------------------------------------------------------- lobpcg
def matrix(size=24, seed=0):
    g = rl.Generator().manual_seed(seed)
    q = rl.randn(size, size, dtype=rl.float64, generator=g)
    return q @ q.mT + rl.eye(size, dtype=rl.float64)


@pytest.mark.parametrize("largest", (True, False))
@pytest.mark.parametrize("options", ({}, {"n": 5}, {"method": "basic"}, {"iK": rl.eye(24, dtype=rl.float64) / 2}))
def test_lobpcg_finds_the_ends_of_the_spectrum(largest, options):
    a = matrix()
    values, vectors = rl.lobpcg(a, 3, largest=largest, **options)
    every = rl.linalg.eigvalsh(a)
    rl.testing.assert_close(values, every.flip(0)[:3] if largest else every[:3])
    rl.testing.assert_close(a @ vectors, vectors * values, rtol=1e-5, atol=1e-5)
    rl.testing.assert_close(vectors.mT @ vectors, rl.eye(3, dtype=rl.float64))


def test_lobpcg_of_a_pair_a_batch_and_a_sparse_matrix():
    a, b = matrix(), matrix(seed=1)
    values, vectors = rl.lobpcg(a, 2, B=b)
    rl.testing.assert_close(a @ vectors, b @ vectors * values, rtol=1e-4, atol=1e-4)
    stacked, _ = rl.lobpcg(rl.stack([a, b]), 2)
    rl.testing.assert_close(stacked, rl.stack([rl.lobpcg(a, 2)[0], rl.lobpcg(b, 2)[0]]))
    rl.testing.assert_close(rl.lobpcg(a.to_sparse(), 2)[0], stacked[0])


def test_lobpcg_derivative_and_refusals():
    a = matrix(12).requires_grad_()
    weight = rl.randn(12, 2, dtype=rl.float64)
    def f(a):
        e, x = rl.lobpcg((a + a.mT) / 2, 2, tol=1e-13)
        return e, x.square() * weight                        # the sign of a vector is arbitrary
    assert rl.autograd.gradcheck(f, a, atol=1e-4)
    seen = []
    rl.lobpcg(matrix(), 2, tracker=lambda search: seen.append(search.ivars["istep"]))
    assert seen == list(range(len(seen))) and len(seen) > 2
    for bad in (lambda: rl.lobpcg(matrix(5), 2), lambda: rl.lobpcg(rl.ones(3, 4)), lambda: rl.lobpcg(a, 2, B=rl.eye(12, dtype=rl.float64))):
        with pytest.raises(ValueError): bad()


# ---------------------------------------------------------------------------------------------------------------- products
def test_grouped_products():
    a, b = rl.randn(6, 8), rl.randn(2, 8, 5)
    offs = rl.tensor([2, 5], dtype=rl.int32)
    rl.testing.assert_close(F.grouped_mm(a, b, offs=offs), rl.cat([a[:2] @ b[0], a[2:5] @ b[1], rl.zeros(1, 5)]))
    left = rl.randn(2, 3, 8)
    rl.testing.assert_close(F.grouped_mm(left, b), left @ b)
    right = rl.randn(8, 6)
    rl.testing.assert_close(F.grouped_mm(left, right, offs=offs), rl.cat([left[0] @ right[:, :2], left[1] @ right[:, 2:5], rl.zeros(3, 1)], 1))
    rl.testing.assert_close(F.grouped_mm(a.mT, rl.ones(6, 3), offs=offs), rl.stack([a[:2].mT @ rl.ones(2, 3), a[2:5].mT @ rl.ones(3, 3)]))
    x = a.double().float().requires_grad_()
    F.grouped_mm(x, b, offs=offs).sum().backward()
    rl.testing.assert_close(x.grad[0], b[0].sum(1))
    for call in (lambda: F.grouped_mm(a, b), lambda: F.grouped_mm(left, b, offs=offs), lambda: F.grouped_mm(a, b, offs=offs.long()), lambda: F.grouped_mm(a.double(), b, offs=offs),
                 lambda: F.grouped_mm(a, b, offs=rl.tensor([2, 9], dtype=rl.int32)), lambda: F.grouped_mm(a, b, offs=offs, bias=rl.ones(5))):
        with pytest.raises(RuntimeError): call()


def test_scaled_products():
    a, b = rl.randn(4, 16).to(rl.float8_e4m3fn), rl.randn(16, 8).to(rl.float8_e4m3fn)
    one, kind = rl.tensor(2.0), F.ScalingType
    plain = a.float() @ b.float()
    assert F.scaled_mm(a, b, one, kind.TensorWise, one, kind.TensorWise).dtype is rl.bfloat16
    rl.testing.assert_close(F.scaled_mm(a, b, one, kind.TensorWise, one, kind.TensorWise, output_dtype=rl.float32, bias=rl.ones(8)), plain * 4 + 1)
    rows, columns = rl.rand(4, 1), rl.rand(1, 8)
    rl.testing.assert_close(F.scaled_mm(a, b, rows, kind.RowWise, columns, kind.RowWise, output_dtype=rl.float32), plain * rows * columns)
    assert rl._scaled_mm(a, b, one, one).dtype is rl.float8_e4m3fn
    with pytest.raises(ValueError, match="Invalid scaling configuration"): F.scaled_mm(a.float(), b.float(), one, kind.TensorWise, one, kind.TensorWise)
    with pytest.raises(ValueError, match="Invalid scaling configuration"): F.scaled_mm(a, b, one, kind.BlockWise1x32, one, kind.BlockWise1x32)
    with pytest.raises(RuntimeError, match="cannot be multiplied"): rl._scaled_mm(a, a, one, one)


def test_bags_below_the_functional():
    weight, indices, offsets = rl.arange(12.0).view(4, 3), rl.tensor([0, 1, 3, 2, 2]), rl.tensor([0, 2, 2])
    out, bags, sizes, largest = rl.embedding_bag(weight, indices, offsets, False, 2)
    assert rl.equal(out, F.embedding_bag(indices, weight, offsets, mode="max"))
    assert bags.tolist() == [0, 0, 2, 2, 2] and sizes.tolist() == [2, 0, 3] and largest.tolist() == [[1] * 3, [0] * 3, [3] * 3]
    assert rl.embedding_bag(weight, indices, offsets, False, 1, padding_idx=2)[2].tolist() == [2, 0, 1]
    with pytest.raises(RuntimeError): rl.embedding_bag(weight, indices.float(), offsets)


# ---------------------------------------------------------------------------------------------------------------- swapping
def test_swapped_tensors_keep_their_identity():
    t, p = rl.ones(3), rl.nn.Parameter(rl.zeros(2))
    t.tag, p.grad = "here", rl.full((2,), 5.0)
    layer = rl.nn.Linear(1, 1)
    layer.weight = p
    rl.utils.swap_tensors(t, p)
    assert type(t) is rl.nn.Parameter and type(p) is rl.Tensor and layer.weight is p
    assert t.tolist() == [0, 0] and t.grad.tolist() == [5, 5] and t.requires_grad and not hasattr(t, "tag")
    assert p.tolist() == [1, 1, 1] and p.grad is None and p.tag == "here" and not p.requires_grad
    (t * 3).sum().backward()
    assert t.grad.tolist() == [8, 8]
    x, y = rl.ones(2, requires_grad=True), rl.ones(1)
    x.register_hook(lambda g: g * 10)
    rl.utils.swap_tensors(x, y)
    y.sum().backward()
    assert y.grad.tolist() == [10, 10] and x.grad is None, "a hook goes with what it was put on"
    base = rl.arange(4.0)
    v, w = base[:2], rl.ones(1)
    rl.utils.swap_tensors(v, w)
    w.add_(10)
    assert base.tolist() == [10, 11, 2, 3] and w._base is base and v._base is None


def test_what_cannot_be_swapped():
    x, y = rl.ones(2, requires_grad=True), rl.ones(2)
    result = (x * 2).sum()
    with pytest.raises(RuntimeError, match="a graph refers to it"): rl.utils.swap_tensors(x, y)
    del result
    view = y[:1]
    with pytest.raises(RuntimeError, match="a view refers to it"): rl.utils.swap_tensors(x, y)
    del view
    ref = weakref.ref(y)
    with pytest.raises(RuntimeError, match="t2 because it has weakref"): rl.utils.swap_tensors(x, y)
    del ref
    rl.utils.swap_tensors(x, y)
    assert y.requires_grad and not x.requires_grad


# ------------------------------------------------------------------------------------------------------------------- Sobol
def test_sobol_points():
    engine = rl.quasirandom.SobolEngine(3)
    first = engine.draw(4)
    assert first.tolist() == [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    assert engine.draw(1, dtype=rl.float64).tolist() == [[0.375, 0.375, 0.625]] and engine.num_generated == 5
    assert rl.equal(engine.reset().fast_forward(2).draw(2), first[2:]) and repr(engine) == "SobolEngine(dimension=3)"
    with pytest.raises(ValueError, match="The balance properties"): engine.draw_base2(3)
    for bad in (0, 1112):
        with pytest.raises(ValueError, match="Supported range of dimensionality"): rl.quasirandom.SobolEngine(bad)


def test_sobol_points_are_balanced():
    for scramble in (False, True):
        points = rl.quasirandom.SobolEngine(40, scramble=scramble, seed=1).draw_base2(7)
        assert ((points * 128).long().sort(0).values == rl.arange(128).unsqueeze(1)).all(), "one point in each slice of each dimension"
