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
    x.expand(2, 3)[1] = 5                                              # assignment of a number fills
    assert x.tolist() == [[7], [5]]
    for write in (rl.Tensor.tanh_, lambda t: t.mul_(2), lambda t: t.copy_(rl.ones(3))):
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
