"""Functions and methods that stand below torch.nn.functional, beside torch: the same arguments, the same values."""
import itertools

import pytest
import torch

import rushlight as rl


def floats(*shape): return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


x, y, z = floats(4, 6), floats(4, 6).sigmoid(), floats(4, 6) * 2
sign = torch.tensor([1.0, -1.0, 1.0, -1.0])
CALLS = {
    "dropout": [(x, 0.5, False)], "alpha_dropout": [(x, 0.5, False)], "feature_dropout": [(x, 0.5, False), (x, 0.0, True)], "feature_alpha_dropout": [(x, 0.5, False)],
    "rrelu": [(x,), (x, 0.2, 0.3)], "batch_norm": [(x, None, None, floats(6), y[0], False, 0.1, 1e-5, False), (x, floats(6), floats(6), None, None, True, 0.1, 1e-5, True)],
    "instance_norm": [(floats(2, 3, 5), floats(3), floats(3), None, None, True, 0.1, 1e-5, False)], "embedding": [(x, torch.tensor([0, 3, 1]))],
    "embedding_renorm_": [(x.clone(), torch.tensor([0, 3, 0]), 0.5, 2.0)], "cosine_similarity": [(x, z), (x, z, 0)], "pairwise_distance": [(x, z)],
    "binary_cross_entropy_with_logits": [(x, y), (x, y, None, y[0], 2), (x, y, y, None, 0)], "cosine_embedding_loss": [(x, z, sign), (x, z, sign, 0.1, 0)],
    "ctc_loss": [(floats(8, 2, 5).log_softmax(-1), torch.tensor([[1, 2], [3, 4]]), torch.tensor([8, 8]), torch.tensor([2, 2]), *more) for more in ((), (0, 1), (0, 2))],
    "hinge_embedding_loss": [(x, sign[:, None].expand(4, 6)), (x, sign[:, None].expand(4, 6), 0.5, 0)], "kl_div": [(x, y), (x, y, 2), (x, y, 1)],
    "margin_ranking_loss": [(x[:, 0], z[:, 0], sign), (x[:, 0], z[:, 0], sign, 0.3, 2)], "poisson_nll_loss": [(x, y, True, False, 1e-8, 1), (y, y, False, True, 1e-8, 0)],
    "triplet_margin_loss": [(x, y, z), (x, y, z, 0.5, 2, 1e-6, True, 0)], "frobenius_norm": [(x, (0, 1)), (x, (1,), True)], "nuclear_norm": [(x,), (x, True), (floats(2, 3, 4), (1, 2))],
    "norm_except_dim": [(floats(2, 3, 4), 2, d) for d in (0, 1, 2, -1)] + [(x, 1, 0)], "grid_sampler": [(floats(1, 2, 4, 4), floats(1, 3, 3, 2), m, p, a) for m in range(3) for p in range(3) for a in (True, False)],
    "range": [(1, 4), (0, 2, 0.5), (4, 1, -1)], "get_device": [(x,)], "is_distributed": [(x,)],
}
DRAWS = {"dropout": (x, 0.5, True), "dropout_": (x, 0.3, True), "alpha_dropout": (x, 0.5, True), "feature_dropout": (floats(3, 4, 5), 0.5, True), "feature_dropout_": (floats(3, 4, 5), 0.5, True),
         "feature_alpha_dropout": (floats(3, 4, 5), 0.5, True), "rrelu": (x, 0.1, 0.3, True), "rrelu_": (x, 0.1, 0.3, True)}


def ours(value): return rl.from_numpy(value.contiguous().numpy().copy()) if isinstance(value, torch.Tensor) else value


def same(a, b, **tolerance):
    if isinstance(b, torch.Tensor): torch.testing.assert_close(torch.from_numpy(a.numpy().copy()), b, **tolerance)
    else: assert a == b


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_same_values(name):
    for args in CALLS[name]:
        copies = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        same(getattr(rl, name)(*map(ours, args)), getattr(torch, name)(*copies))


@pytest.mark.parametrize("name", DRAWS)
def test_same_draws(name):
    args = DRAWS[name]
    mine = [ours(a) for a in args]
    rl.manual_seed(7), torch.manual_seed(7)
    same(getattr(rl, name)(*mine), getattr(torch, name)(args[0].clone(), *args[1:]))


@pytest.mark.parametrize("shape, wrap", [((5, 2), False), ((7, 2), True), ((2, 7), True), ((3, 3, 3), False), ((0, 2), False), ((9, 1), True), ((12, 3), True), ((4, 4), True)])
def test_fill_diagonal(shape, wrap):
    for turn in (False, not wrap):                   # torch reads beyond a turned matrix when it wraps
        a, b = rl.zeros(shape), torch.zeros(shape)
        if turn: a, b = a.transpose(0, 1), b.transpose(0, 1)
        same(a.fill_diagonal_(3, wrap), b.fill_diagonal_(3, wrap))


@pytest.mark.parametrize("shape", [(3,), (2, 2, 3)])
def test_fill_diagonal_refuses(shape):
    with pytest.raises(RuntimeError) as theirs: torch.zeros(shape).fill_diagonal_(1)
    with pytest.raises(RuntimeError) as mine: rl.zeros(shape).fill_diagonal_(1)
    assert str(mine.value) == str(theirs.value)


def test_fill_diagonal_has_a_gradient():
    a = rl.ones(3, 3, requires_grad=True)
    (a * 2).fill_diagonal_(5).sum().backward()
    same(a.grad, 2 - 2 * torch.eye(3))


def test_dim_order():
    for shape in ((2, 3, 4), (2, 1, 4), (1, 1, 3), (2, 3, 1, 4)):
        for order in itertools.permutations(range(len(shape))):
            a, b = rl.zeros(shape).permute(order), torch.zeros(shape).permute(order)
            assert a.dim_order() == b.dim_order(), (shape, order)
    same(rl.zeros(3).expand(2, 3).dim_order(), torch.zeros(3).expand(2, 3).dim_order())
    with pytest.raises(RuntimeError): rl.zeros(4, 1, 3).dim_order(ambiguity_check=True)


def test_methods():
    same(ours(x).map_(ours(x[0]), lambda a, b: a + b), x.clone().map_(x[0], lambda a, b: a + b))
    same(ours(x).map2_(ours(y), ours(z), lambda a, b, c: a * b + c), x.clone().map2_(y, z, lambda a, b, c: a * b + c))
    with pytest.raises(RuntimeError, match="Cannot access accelerator"): rl.zeros(2).pin_memory()
    same(rl.cond(rl.tensor(True), lambda a: a + 1, lambda a: a - 1, (ours(x),)), x + 1)
    same(rl.cond(False, lambda a: a + 1, lambda a: a - 1, (ours(x),)), x - 1)


def test_from_file(tmp_path):
    path = str(tmp_path / "numbers")
    a = rl.from_file(path, shared=True, size=4, dtype=rl.float32)
    a.copy_(rl.arange(4.0))
    same(rl.from_file(path, size=4), torch.from_file(path, size=4))
    with pytest.raises(RuntimeError): rl.from_file(path, size=400)


REFUSED = {
    "probability": lambda m, x: m.dropout(x, 2.0, False), "negative probability": lambda m, x: m.alpha_dropout(x, -1.0, False), "few dimensions": lambda m, x: m.feature_dropout(x[0], 0.5, True),
    "few dimensions of alpha": lambda m, x: m.feature_alpha_dropout_(x[0], 0.5, True), "range of one": lambda m, x: m.range(5), "dim": lambda m, x: m.norm_except_dim(x, 2, 5),
    "two truths": lambda m, x: m.cond(m.tensor([True, False]), lambda: 1, lambda: 2), "no file": lambda m, x: m.from_file("/no/such/file", size=4),
    "no directory": lambda m, x: m.UntypedStorage.from_file("/no/such/file", True, 4), "map_ of a leaf": lambda m, x: x.requires_grad_().map_(x, max),
    "map2_ of doubles": lambda m, x: x.map2_(x, x.double(), max), "apply_ to a leaf": lambda m, x: x.requires_grad_().apply_(abs), "module_load": lambda m, x: x.module_load(m.zeros(5)),
    "rows by floats": lambda m, x: m.embedding_renorm_(x, m.ones(2), 1.0, 2.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_same_refusals(name):
    with pytest.raises(Exception) as theirs: REFUSED[name](torch, x.clone())                       # noqa: B017 - whatever torch raises
    with pytest.raises(type(theirs.value)) as mine: REFUSED[name](rl, ours(x))
    first = lambda error: str(error.value).split(".")[0].split("\n")[0]
    assert first(mine) == first(theirs)


def test_rrelu_draws_from_a_generator():
    for name in ("rrelu", "rrelu_"):
        mine = getattr(rl, name)(ours(x), 0.1, 0.3, True, rl.Generator().manual_seed(3))
        same(mine, getattr(torch, name)(x.clone(), 0.1, 0.3, True, torch.Generator().manual_seed(3)))
