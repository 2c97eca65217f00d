"""tensor(), as_tensor(), asarray() and the empty family: what dtype data becomes, what is shared, what is refused."""
import numpy as np
import pytest

import rushlight as rl


@pytest.mark.parametrize("data, dtype", [
    (1, "int64"), (1.0, "float32"), (True, "bool"), (1j, "complex64"), ([], "float32"), ([[], []], "float32"),
    ([True, 2], "int64"), ([True, 2.0], "float32"),
    ([1, 2j], "complex64"), (np.float64(1), "float64"), ([np.float64(1)], "float64"),
    ([np.float32(1), 2.0], "float32"), ([np.int32(1)], "int32"),
    ([np.int32(1), np.int64(3)], "int64"), ([np.bool_(1)], "bool"), (range(3), "int64"), (bytearray(b"ab"), "int64"),
    (np.ones(2, np.uint16), "uint16"),
])
def test_dtype_of_data(data, dtype):
    assert str(rl.tensor(data).dtype) == "torch." + dtype


def test_nested_values():
    assert rl.tensor([[1, 2], [3, 4.5]]).tolist() == [[1, 2], [3, 4.5]]
    assert rl.tensor([rl.tensor(1.0), rl.tensor([2])]).tolist() == [1, 2]
    assert rl.tensor([np.array([1, 2]), np.array([3, 4])]).tolist() == [[1, 2], [3, 4]]
    assert rl.tensor([[], []]).shape == (2, 0)
    assert rl.tensor([-1, 255], dtype=rl.uint8).tolist() == [255, 255]
    assert rl.tensor(2**63, dtype=rl.uint64).item() == 2**63


@pytest.mark.parametrize("data, options, problem, words", [
    ([[1, 2, 3], [1, 2]], {}, ValueError, r"expected sequence of length 3 at dim 1 \(got 2\)"),
    ([[1, 2, 3], 1], {}, TypeError, "not a sequence"),
    ("abc", {}, TypeError, r"new\(\): invalid data type 'str'"),
    (["abc"], {}, ValueError, "too many dimensions 'str'"),
    (None, {}, RuntimeError, "Could not infer dtype of NoneType"),
    ({}, {}, RuntimeError, "Could not infer dtype of dict"),
    (300, {"dtype": rl.uint8}, RuntimeError, "value cannot be converted to type uint8 without overflow"),
    (float("nan"), {"dtype": rl.int32}, RuntimeError, "value cannot be converted to type int32 without overflow"),
    (2**63, {}, ValueError, "Overflow when unpacking long long"),
    (1j, {"dtype": rl.float32}, TypeError, "must be real number, not complex"),
    (1, {"dtype": "x"}, TypeError, r"tensor\(\): argument 'dtype' must be torch.dtype, not str"),
    (1, {"requires_grad": True}, RuntimeError, "Only Tensors of floating point and complex dtype can require gradients"),
    (1, {"foo": 1}, TypeError, r"tensor\(\) got an unexpected keyword argument 'foo'"),
])
def test_refusals(data, options, problem, words):
    with pytest.raises(problem, match=words):
        rl.tensor(data, **options)


def test_a_list_that_shrinks_while_it_is_read():
    data = [0, 0, 0]

    class Shrinks:
        def __index__(self):
            data.clear()
            return 1
    data[0] = Shrinks()
    with pytest.raises(RuntimeError, match="changed its length"):
        rl.tensor(data, dtype=rl.int64)


def test_what_is_shared():
    a, t = np.ones(3, np.float32), rl.ones(3)
    assert rl.as_tensor(t) is t and rl.asarray(t) is t
    assert rl.as_tensor(a).data_ptr() == a.ctypes.data == rl.asarray(a).data_ptr()
    assert rl.tensor(a).data_ptr() != a.ctypes.data != rl.asarray(a, copy=True).data_ptr()
    with pytest.raises(ValueError, match="can't alias tensor with dtype 'Float' into dtype 'Double'"):
        rl.asarray(a, dtype=rl.float64, copy=False)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        rl.asarray([1, 2], copy=False)


def test_as_tensor_keeps_the_graph():
    x = rl.ones(2, requires_grad=True)
    rl.as_tensor(x * 2, dtype=rl.float64).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_empty_family():
    assert rl.empty(2, 3, 4, 5, memory_format=rl.channels_last).stride() == (60, 1, 15, 3)
    assert rl.empty_strided((2, 3), (1, 2)).stride() == (1, 2)
    assert rl.empty_like(rl.empty(2, 3).t()).stride() == (1, 3)
    assert rl.empty_like(rl.empty(2, 1, 4).expand(2, 3, 4)).stride() == (12, 4, 1)
    assert rl.empty_like(rl.empty(2, 3, 4).permute(2, 0, 1)[:, :, ::2]).stride() == (1, 8, 4)
    assert rl.empty(2, 3, dtype=rl.int32).new_empty(4).dtype is rl.int32
    refused = [
        (lambda: rl.empty(2, -1), r"Trying to create tensor with negative dimension -1: \[2, -1\]"),
        (lambda: rl.empty(2**62, 8), "Storage size calculation overflowed"),
        (lambda: rl.empty(2, 3, memory_format=rl.channels_last), "required rank 4 tensor"),
        (lambda: rl.empty_strided((2, 3), (1,)), "dimensionality of sizes"),
    ]
    for call, words in refused:
        with pytest.raises(RuntimeError, match=words):
            call()
