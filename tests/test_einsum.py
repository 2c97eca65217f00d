"""einsum in all its spellings against numpy, and what is a view of what."""
import numpy as np
import pytest

import rushlight as rl


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s) for s in shapes]


CASES = [
    ("ij,jk->ik", (3, 4), (4, 5)), ("ij,jk", (3, 4), (4, 5)), ("ij,kj->ki", (3, 4), (5, 4)), ("i,i", (4,), (4,)), ("i,j", (3,), (4,)), ("i,j->ji", (3,), (4,)),
    ("ii", (3, 3)), ("ii->i", (3, 3)), ("iij->ji", (3, 3, 2)), ("ij->", (3, 4)), ("ij->j", (3, 4)), ("ij->ji", (3, 4)), ("...ij,...jk", (2, 3, 4), (5, 1, 4, 6)),
    ("...,...", (2, 3), (3,)), ("i...->...", (3, 2, 2)), ("b...i,bi->b...", (2, 3, 4), (2, 4)), ("bhld,bhsd->bhls", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("ab,bc,cd->ad", (2, 3), (3, 4), (4, 5)), ("ab,cd,ef->fbd", (2, 3), (2, 3), (2, 3)), ("abc,ab,c->b", (2, 3, 4), (2, 3), (4,)),
    ("ij,ij->ij", (3, 4), (3, 4)), ("ij,ik->jk", (5, 3), (5, 4)), ("aB,Bc->ca", (2, 3), (3, 4)), ("ij , jk -> ik", (3, 4), (4, 5)), (",ij->ij", (), (2, 3)),
    ("ij,jk->ik", (3, 0), (0, 5)), ("ijk,ilm,njm,nlk,abc->", (2, 3, 4), (2, 5, 6), (7, 3, 6), (7, 5, 4), (2, 2, 2)), ("ij,jk->ik", (3, 1), (4, 5)),
]


@pytest.mark.parametrize("equation,shapes", [(c[0], c[1:]) for c in CASES])
def test_values_and_gradients(equation, shapes):
    values = arrays(*shapes)
    tensors = [rl.from_numpy(np.array(v)).requires_grad_() for v in values]
    got = rl.einsum(equation, *tensors)
    spread = [np.broadcast_to(v, (3, 4)) if shapes[0] == (3, 1) and i == 0 else v for i, v in enumerate(values)]       # numpy does not sum over a spread dimension
    want = np.einsum(equation.replace(" ", ""), *spread)
    assert tuple(got.shape) == want.shape and np.allclose(got.detach().numpy(), want, atol=1e-12)
    if got.numel() and sum(t.numel() for t in tensors) < 60: assert rl.autograd.gradcheck(lambda *t: rl.einsum(equation, *t), tensors)


def test_lists_of_subscripts():
    a, b = (rl.from_numpy(v) for v in arrays((3, 4), (4, 5)))
    assert rl.einsum(a, [0, 1], b, [1, 2], [2, 0]).tolist() == rl.einsum("ij,jk->ki", a, b).tolist()
    assert rl.einsum(a, [0, 1], b, [1, 2]).tolist() == rl.einsum("ij,jk", a, b).tolist()
    assert rl.einsum(a, [Ellipsis, 1], [1, Ellipsis]).tolist() == a.t().tolist()
    assert rl.einsum("ij,jk->ik", [a, b]).tolist() == (a @ b).tolist()


def test_one_operand_is_a_view():
    a = rl.zeros(3, 3)
    rl.einsum("ij->ji", a)[0, 1] = 5
    rl.einsum("ii->i", a)[2] = 7
    assert a[1, 0].item() == 5 and a[2, 2].item() == 7


def test_many_operands_in_one_order():
    """Sizes do not change the order of summation: a batch of one has the bits of its row in a larger batch."""
    a, b, c = (rl.from_numpy(v.astype("float32")) for v in arrays((4, 30, 40), (4, 40, 50), (50, 6)))
    whole = rl.einsum("bij,bjk,kl->bil", a, b, c)
    for i in range(4): assert rl.einsum("bij,bjk,kl->bil", a[i:i + 1], b[i:i + 1], c).numpy().tobytes() == whole[i:i + 1].contiguous().numpy().tobytes()


@pytest.mark.parametrize("equation,words", [
    ("ij,jk", "fewer operands"), ("ij,jk,kl", "fewer operands"), ("ijk->i", "does not match the number of dimensions"), ("...ijk->i", "is more than the number"),
    ("i1->i", "invalid subscript given at index 1"), ("i.j->i", "not part of any ellipsis"), ("...i...->i", "already found"), ("ij->ii", "more than once"),
    ("ij->ik", "does not appear"), ("ij->.i", "not part of any ellipsis"), ("ii->i", "repeated for operand 0 but the sizes"), ("ij->->", "invalid subscript"),
])
def test_refusals(equation, words):
    with pytest.raises(RuntimeError, match=words): rl.einsum(equation, rl.zeros(2, 3))


def test_more_refusals():
    a = rl.zeros(2, 3)
    with pytest.raises(ValueError, match="must specify the equation string"): rl.einsum("ij")
    with pytest.raises(RuntimeError, match="more operands"): rl.einsum("ij", a, a)
    with pytest.raises(RuntimeError, match="does not broadcast with previously seen size 3"): rl.einsum("ij,jk->ik", a, a)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"): rl.einsum("ij,ij->i", a, a.double())
    with pytest.raises(ValueError, match="not within the valid range"): rl.einsum(a, [0, 99])
