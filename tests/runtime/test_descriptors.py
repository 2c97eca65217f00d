"""dtype, device, Size, memory formats: their texts, comparisons and pickles."""
import copy
import pickle

import pytest

import rushlight as rl


def test_dtypes_print_and_pickle_as_torch_does():
    assert repr(rl.float32) == "torch.float32" and rl.float is rl.float32 and rl.long is rl.int64
    for d in (rl.float32, rl.bool, rl.complex128, rl.bfloat16):
        assert pickle.loads(pickle.dumps(d)) is d
        assert copy.deepcopy(d) is d and copy.copy(d) is d


def test_dtype_facts():
    assert rl.float16.itemsize == 2 and rl.complex128.itemsize == 16
    assert rl.bfloat16.is_floating_point and not rl.int8.is_floating_point and rl.complex64.is_complex
    assert rl.int8.is_signed and not rl.uint8.is_signed and not rl.bool.is_signed
    assert rl.float32.to_complex() is rl.complex64 and rl.bfloat16.to_complex() is rl.complex64
    assert rl.complex128.to_real() is rl.float64 and rl.int32.to_real() is rl.int32
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Int"):
        rl.int32.to_complex()


def test_device():
    plain, numbered = rl.device("cpu"), rl.device("cpu", 1)
    assert repr(plain) == "device(type='cpu')" and str(plain) == "cpu" and plain.index is None
    assert repr(numbered) == "device(type='cpu', index=1)" and str(numbered) == "cpu:1" and numbered.type == "cpu"
    assert numbered == rl.device("cpu:1") == rl.device(type="cpu", index=1) != plain
    assert hash(numbered) == hash(rl.device("cpu:1")) and rl.device(plain) is plain
    assert pickle.loads(pickle.dumps(numbered)) == numbered


@pytest.mark.parametrize("text, words", [
    ("foo", "Expected one of cpu, cuda"), ("cpu:x", "Invalid device string: 'cpu:x'"), ("cpu:-1", "Invalid device string"),
    ("", "Device string must not be empty")])
def test_bad_device(text, words):
    with pytest.raises(RuntimeError, match=words):
        rl.device(text)


def test_unavailable_device():
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        rl.empty(3, device="cuda")


def test_size_is_a_tuple_that_stays_a_size():
    s = rl.Size([2, 3])
    assert repr(s) == "torch.Size([2, 3])" and s == (2, 3) and hash(s) == hash((2, 3)) and s.numel() == 6
    for other in (s + (4,), (4,) + s, s * 2, 2 * s, s[1:], s[::-1], rl.Size(s), pickle.loads(pickle.dumps(s)), copy.deepcopy(s)):
        assert type(other) is rl.Size and hash(other) == hash(tuple(other))
    assert hash(rl.ones(2, 3).shape) == hash((2, 3))
    given = (rl.tensor(2), 3)
    assert rl.Size(given) == (2, 3) and type(given[0]) is rl.Tensor                  # the caller's tuple is only read
    assert s[0] == 2 and rl.Size().numel() == 1
    with pytest.raises(TypeError, match=r"torch.Size\(\) takes an iterable of 'int' \(item 0 is 'float'\)"):
        rl.Size([1.5])
    with pytest.raises(TypeError, match="can only concatenate tuple"):
        _ = s + [1]


def test_names():
    assert repr(rl.strided) == "torch.strided" and repr(rl.channels_last) == "torch.channels_last"
    for o in (rl.strided, rl.contiguous_format, rl.preserve_format, rl.channels_last_3d):
        assert pickle.loads(pickle.dumps(o)) is o
