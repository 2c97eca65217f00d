"""Destinations of in-place calls and of out=: what is refused is refused before anything is written, what is allowed gives the right values."""
import pytest

import rushlight as rl


def test_a_destination_that_must_grow_is_not_read_as_it_grows():
    x = rl.ones(1, 3)
    with pytest.raises(RuntimeError, match=r"output with shape \[1, 3\] doesn't match the broadcast shape \[3, 3\]"):
        rl.add(rl.ones(3, 1), x, out=x)
    assert x.tolist() == [[1, 1, 1]]
    with pytest.warns(UserWarning, match="was resized"):
        a = rl.arange(6.0).reshape(2, 3)
        assert rl.mm(a, rl.ones(3, 4), out=a).tolist() == [[3] * 4, [12] * 4]
    with pytest.warns(UserWarning, match="was resized"):                 # a view of the same memory
        x = rl.arange(6.0)
        assert rl.add(x[:2].reshape(2, 1), x[:3], out=x[:1]).tolist() == [[0, 1, 2], [1, 2, 3]]


def test_all_destinations_are_checked_before_one_is_resized():
    values, indices = rl.zeros(5), rl.zeros(2, dtype=rl.int32)
    with pytest.raises(RuntimeError, match="Expected out tensor to have dtype long int"):
        rl.max(rl.ones(2, 3), 1, out=(values, indices))
    assert values.shape == (5,)


def test_one_value_may_be_written_to_an_expanded_tensor():
    x = rl.ones(2, 1)
    x.expand(2, 3).zero_()
    assert x.tolist() == [[0], [0]]
    x.expand(2, 3).fill_(7)
    assert x.tolist() == [[7], [7]]
    x.expand(2, 3)[1, 1] = 5                                           # one element, though others are the same
    assert x.tolist() == [[7], [5]]
    for write in (rl.Tensor.tanh_, lambda t: t.mul_(2), lambda t: t.copy_(rl.ones(3)), lambda t: t.__setitem__(1, 5), lambda t: t.__setitem__((slice(None), slice(2)), 5),
                  lambda t: t.__setitem__(slice(None), 5)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"): write(x.expand(2, 3))


def test_errors_of_joining_name_the_place_in_the_list():
    with pytest.raises(RuntimeError, match=r"zero-dimensional tensor \(at position 1\) cannot be concatenated"): rl.cat([rl.ones(2, 2), rl.tensor(1.0)])
    with pytest.raises(RuntimeError, match="for tensor number 2 in the list"): rl.cat([rl.ones(0), rl.ones(2, 2), rl.ones(2, 3)])


def test_index_put_with_a_mask_of_no_dimensions():
    for accumulate in (False, True):
        for chosen in (False, True):
            x = rl.full((2,), 5.0)
            x.index_put_((rl.tensor(chosen),), rl.tensor(1.0), accumulate=accumulate)
            assert x.tolist() == [(6.0 if accumulate else 1.0) if chosen else 5.0] * 2
    x = rl.full((2, 3), 5.0)
    assert rl.index_put(x, (rl.tensor(True), rl.tensor([1])), rl.tensor(0.0)).tolist() == [[5] * 3, [0] * 3]
    assert x.index_put_((), rl.tensor(2.0), accumulate=True).tolist() == [[7] * 3] * 2


# ------------------------------------------------------------------------------------------------------- conj and neg bits
WRITES = {
    "mul_": lambda x, v: x.mul_(v), "sigmoid_": lambda x, v: x.sigmoid_(), "copy_": lambda x, v: x.copy_(v), "fill_": lambda x, v: x.fill_(v[0]),
    "item": lambda x, v: x.__setitem__(1, v[1]), "items": lambda x, v: x.__setitem__(rl.tensor([2, 0]), v[:2]), "index_add_": lambda x, v: x.index_add_(0, rl.tensor([1, 1]), v[:2]),
    "masked_fill_": lambda x, v: x.masked_fill_(rl.tensor([True, False, True]), v[2]), "itself": lambda x, v: x.addcmul_(x, x), "cumsum_": lambda x, v: x.cumsum_(0),
    "out=": lambda x, v: rl.sin(v, out=x), "sorted": lambda x, v: rl.sort(v.real, out=(x, rl.empty(0, dtype=rl.long))) if not x.is_complex() else x.neg_()}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("part", ["conj", "imag", "both"])
def test_writes_through_a_conj_or_neg_bit(name, part):
    """What was written is what is read back, and the memory under it holds what the bit undoes."""
    numbers = rl.tensor([1 + 2j, -0.5j, 3 - 1j])
    memory = numbers.clone()
    seen = {"conj": lambda m: m.conj(), "imag": lambda m: m.conj().imag, "both": lambda m: rl._neg_view(m.conj())}[part](memory)
    assert seen.is_conj() or seen.is_neg()
    plain = seen.clone()
    value = rl.tensor([2 + 1j, 1j, -1.0]) if seen.is_complex() else rl.tensor([2.0, 0.5, -1.0])
    WRITES[name](plain, value)
    WRITES[name](seen, value)
    assert rl.equal(seen.clone(), plain)
    back = seen.conj() if part == "conj" else -seen if part == "imag" else -seen.conj()
    assert rl.equal(memory if part != "imag" else memory.imag, back)


def test_draws_through_a_conj_or_neg_bit():
    for draw in (lambda x: x.uniform_(), lambda x: x.normal_(), lambda x: x.conj().imag.random_(10), lambda x: x.conj().imag.bernoulli_(0.5)):
        numbers = [rl.zeros(5, dtype=rl.complex64) for _ in range(2)]
        rl.manual_seed(1)
        first = draw(numbers[0])
        rl.manual_seed(1)
        second = draw(numbers[1].conj())
        assert rl.equal(first.clone(), second.clone())


def test_an_operand_under_the_bit_is_read_before_it_is_written():
    b = rl.tensor([1 + 2j, -1j])
    want = b.conj() * b
    x = b.conj()
    x.mul_(b)
    rl.testing.assert_close(x.resolve_conj(), want)
    rl.testing.assert_close(b, want.conj().resolve_conj())


@pytest.mark.parametrize("write", [lambda y: y.mul_(1j), lambda y: y.sigmoid_()])
def test_gradient_through_a_write_under_a_bit(write):
    def through(x):
        y = (x * 1).conj()
        write(y)
        return y

    def without(x): return write((x * 1).conj().resolve_conj().clone())

    x = rl.tensor([1 + 2j, -0.3j, 0.7], dtype=rl.complex128, requires_grad=True)
    weight = rl.tensor([1 - 1j, 2j, 0.5 + 1j], dtype=rl.complex128)
    found = [rl.autograd.grad((f(x) * weight).real.sum(), x)[0] for f in (through, without)]
    rl.testing.assert_close(*found)
