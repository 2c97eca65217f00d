"""lobpcg, embedding_bag below nn.functional, products of groups and of 8-bit floats: beside torch."""
import pytest
import torch
from bridge import difference, to_rl
from opdb import Attempt, same_type

import rushlight as rl

F, G = torch.nn.functional, rl.nn.functional


def spd(size, seed):
    q = torch.randn(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return q @ q.T + torch.eye(size, dtype=torch.float64)


A, B = spd(24, 0), spd(24, 1)


@pytest.mark.parametrize("options", [{"k": 3}, {"k": 2, "largest": False}, {"k": 2, "B": B}, {"k": 2, "n": 4}, {"k": 2, "iK": torch.linalg.inv(A), "largest": False}, {"X": B[:, :2]}], ids=lambda o: " ".join(o))
def test_lobpcg(options):
    (values, vectors), (ours, mine) = torch.lobpcg(A, **options), rl.lobpcg(to_rl(A), **to_rl(options))
    assert difference(ours, values) is None
    assert difference(mine.abs(), vectors.abs(), scale=100) is None, "vectors are unique up to signs, and as near as the tolerance of the residual says"


def test_lobpcg_gradient():
    weights = spd(24, 2)[:, :2]
    grads = []
    for library, a, w in ((torch, A.clone(), weights), (rl, to_rl(A), to_rl(weights))):
        e, x = library.lobpcg(a.requires_grad_(), 2, tol=1e-13)
        (e.sum() + (x * x * w).sum()).backward()
        grads.append(a.grad)
    assert difference(grads[1], grads[0], scale=100) is None


WEIGHT, INDICES, OFFSETS = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)), torch.tensor([0, 1, 3, 2, 2, 4]), torch.tensor([0, 2, 2])


@pytest.mark.parametrize("mode", range(3))
@pytest.mark.parametrize("more", [(), (False, None, False, 2), (False, None, True)])
def test_embedding_bag(mode, more):
    args = WEIGHT, INDICES, torch.tensor([0, 2, 2, 6]) if more[2:] == (True,) else OFFSETS, False, mode, *more
    assert difference(rl.embedding_bag(*to_rl(args)), torch.embedding_bag(*args)) is None


def offs(*ends): return torch.tensor(ends, dtype=torch.int32)


def stack(*shape, dtype=torch.bfloat16): return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).to(dtype)


GROUPS = [(stack(6, 8), stack(2, 8, 16), offs(2, 6)), (stack(2, 4, 8), stack(2, 8, 16), None), (stack(2, 4, 8), stack(8, 16), offs(8, 16)), (stack(4, 16), stack(16, 8), offs(8, 16)), (stack(6, 8), stack(2, 8, 16), offs(0, 6)),
          (stack(6, 8, dtype=torch.float32), stack(2, 8, 16, dtype=torch.float32), offs(2, 6)), (stack(6, 8), stack(2, 8, 16), None), (stack(2, 4, 8), stack(2, 8, 16), offs(2, 4)), (stack(6, 8), stack(2, 8, 16), offs(2, 6).long()),
          (stack(6, 8), stack(2, 8, 16), offs(2, 4, 6)), (stack(6, 8), stack(2, 8, 16).float(), offs(2, 6)), (stack(6, 16), stack(2, 8, 16), offs(2, 6)), (stack(6, 8).double(), stack(2, 8, 16).double(), offs(2, 6))]


@pytest.mark.parametrize("case", range(len(GROUPS)))
def test_grouped_mm(case):
    a, b, ends = GROUPS[case]
    theirs, ours = Attempt(F.grouped_mm, (a, b), {"offs": ends}), Attempt(G.grouped_mm, to_rl((a, b)), {"offs": to_rl(ends)})
    if theirs.error is not None: assert same_type(ours.error, theirs.error) and str(ours.error).split()[:4] == str(theirs.error).split()[:4]
    else: assert difference(ours.result, theirs.result) is None


@pytest.mark.parametrize("out", ("float32", "bfloat16", "float16"))
@pytest.mark.parametrize("kind", ("TensorWise", "RowWise"))
@pytest.mark.parametrize("biased", (False, True))
def test_scaled_mm(out, kind, biased):
    a, b = torch.randn(4, 16), torch.randn(8, 16)
    bias = torch.randn(8).to(getattr(torch, out)) if biased else None
    scales = (torch.tensor(0.5), torch.tensor(4.0)) if kind == "TensorWise" else (torch.rand(4, 1), torch.rand(1, 8))
    theirs = F.scaled_mm(a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn).t(), scales[0], getattr(F.ScalingType, kind), scales[1], getattr(F.ScalingType, kind), bias=bias, output_dtype=getattr(torch, out))
    ours = G.scaled_mm(to_rl(a).to(rl.float8_e4m3fn), to_rl(b).to(rl.float8_e4m3fn).t(), to_rl(scales[0]), getattr(G.ScalingType, kind), to_rl(scales[1]), getattr(G.ScalingType, kind), bias=to_rl(bias), output_dtype=getattr(rl, out))
    assert difference(ours, theirs, scale=2) is None


@pytest.mark.parametrize("dimension", (1, 2, 40, 1111))
@pytest.mark.parametrize("scramble", (False, True))
def test_sobol(dimension, scramble):
    if scramble and dimension > 40: return
    theirs, ours = (library.quasirandom.SobolEngine(dimension, scramble=scramble, seed=3 if scramble else None) for library in (torch, rl))
    assert difference(ours.sobolstate, theirs.sobolstate) is None and difference(ours.shift, theirs.shift) is None
    for n in (1, 5, 0, 9):
        assert difference(ours.draw(n), theirs.draw(n)) is None
        assert difference(ours.quasi, theirs.quasi) is None and ours.num_generated == theirs.num_generated
    ours.fast_forward(4), theirs.fast_forward(4)
    assert difference(ours.draw(2, dtype=rl.float64), theirs.draw(2, dtype=torch.float64)) is None
    assert difference(ours.reset().draw_base2(3), theirs.reset().draw_base2(3)) is None and repr(ours) == repr(theirs)
