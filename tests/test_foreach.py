"""`_foreach_NAME`: each is its operator over the rows of lists, in one call; gradients, forms, errors."""
import pytest

import rushlight as rl
from rushlight import foreach


def lists(seed=0, positive=True):
    rl.manual_seed(seed)
    make = lambda *shape: rl.rand(*shape) * 0.8 + 0.1 if positive else rl.randn(*shape)
    return [make(3), make(2, 4), make(1)]


@pytest.mark.parametrize("name", foreach.UNARY)
def test_unary(name):
    x = lists()
    want = [getattr(rl, name)(t) for t in x]
    got = getattr(rl, f"_foreach_{name}")(x)
    assert isinstance(got, tuple) and all(rl.equal(a, b) for a, b in zip(got, want))
    assert getattr(rl, f"_foreach_{name}_")(x) is x and all(rl.equal(a, b) for a, b in zip(x, want))


@pytest.mark.parametrize("name", foreach.BINARY)
def test_binary(name):
    x, y = lists(0), lists(1)
    of_tensors, of_numbers = (getattr(rl, n) for n in foreach.BINARY[name])
    plain, inplace = getattr(rl, f"_foreach_{name}"), getattr(rl, f"_foreach_{name}_")
    for other, want in ((y, [of_tensors(a, b) for a, b in zip(x, y)]), (2.5, [of_numbers(a, 2.5) for a in x]), ([1, 2.5, 3], [of_numbers(a, s) for a, s in zip(x, [1, 2.5, 3])])):
        assert all(rl.equal(a, b) for a, b in zip(plain(x, other), want))
        copies = [t.clone() for t in x]
        assert inplace(copies, other) is copies and all(rl.equal(a, b) for a, b in zip(copies, want))


def test_the_others():
    x, y, z = lists(0), lists(1), lists(2)
    same = lambda got, want: all(rl.equal(a, b) for a, b in zip(got, want)) and len(got) == len(want)
    for name in ("addcmul", "addcdiv"):
        one, many = getattr(rl, name), getattr(rl, f"_foreach_{name}")
        assert same(many(x, y, z), [one(a, b, c) for a, b, c in zip(x, y, z)])
        assert same(many(x, y, z, value=2), [one(a, b, c, value=2) for a, b, c in zip(x, y, z)])
        assert same(many(x, y, z, rl.tensor([1.0, 2.0, 3.0])), [one(a, b, c, value=v) for a, b, c, v in zip(x, y, z, (1, 2, 3))])
    assert same(rl._foreach_lerp(x, y, 0.25), [rl.lerp(a, b, 0.25) for a, b in zip(x, y)])
    assert same(rl._foreach_lerp(x, y, z), [rl.lerp(a, b, w) for a, b, w in zip(x, y, z)])
    assert same(rl._foreach_add(x, y, alpha=3), [rl.add(a, b, alpha=3) for a, b in zip(x, y)])
    assert same(rl._foreach_mul(x, rl.tensor(2.0)), [a * 2 for a in x])
    assert same(rl._foreach_pow(2.0, x), [rl.pow(2.0, a) for a in x])
    assert same(rl._foreach_norm(x, 1), [rl.linalg.vector_norm(a, 1) for a in x])
    assert same(rl._foreach_powsum(x, 3), [(a.abs() ** 3).sum() for a in x])
    assert same(rl._foreach_max(x), [a.max() for a in x])
    copies = rl._foreach_clone(x)
    assert same(copies, x) and all(a is not b for a, b in zip(copies, x))
    assert same(rl._foreach_copy_(list(copies), y), y) and all((t == 0).all() for t in rl._foreach_zero_(list(copies)))


def test_gradients():
    x = [t.requires_grad_() for t in lists()]
    sum(t.sum() for t in rl._foreach_mul(rl._foreach_exp(x), 2)).backward()
    assert all(rl.allclose(t.grad, 2 * t.exp()) for t in x)


def test_bad_input():
    x = lists()
    with pytest.raises(RuntimeError, match="Tensor list must have at least one tensor."): rl._foreach_add([], 1)
    with pytest.raises(RuntimeError, match="Tensor lists must have the same number of tensors, got 3 and 1"): rl._foreach_add(x, x[:1])
    with pytest.raises(RuntimeError, match="Tensor list must have same number of elements as scalar list."): rl._foreach_add(x, [1])
    with pytest.raises(RuntimeError, match="scalar tensor expected to be 0 dim but it has 1 dimensions and 3 elements."): rl._foreach_add(x, x[0])
    for bad in (lambda: rl._foreach_add(x, 1, alpha=2), lambda: rl._foreach_add("a", 1), lambda: rl._foreach_add(x, "a"), lambda: rl._foreach_exp(rl.ones(2))):
        with pytest.raises(TypeError): bad()
