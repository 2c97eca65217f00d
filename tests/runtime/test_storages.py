"""Storages with a dtype: tensor.storage() and torch.FloatStorage count elements, not bytes."""
import copy
import pickle
import warnings

import pytest

import rushlight as rl


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)               # TypedStorage is deprecated
        yield


def test_elements():
    x = rl.tensor([1.0, 2.0, 3.0])
    s = x[1:].storage()
    assert s.tolist() == list(s) == [1.0, 2.0, 3.0] and len(s) == s.size() == 3 and s[0] == 1.0 and s[-1] == 3.0
    assert s.dtype is rl.float32 and s.nbytes() == 12 and s.element_size() == 4 and s.data_ptr() == x.data_ptr()
    s[0] = 5.0
    s[1:] = 7
    assert x.tolist() == [5.0, 7.0, 7.0]
    assert s.fill_(2).tolist() == x.tolist() == [2.0] * 3
    assert s.copy_(rl.arange(3).storage()).tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(IndexError, match="index 3 out of range"): s[3]
    assert repr(rl.ones(1).storage()) == " 1.0\n[torch.storage.TypedStorage(dtype=torch.float32, device=cpu) of size 1]"


def test_tensors_over_one():
    x = rl.tensor([1.0, 2.0])
    y = rl.FloatTensor(x.storage())
    y[0] = 9
    assert x.tolist() == [9.0, 2.0]
    assert rl.tensor(0.0).set_(x.storage(), 1, (1,), (1,)).tolist() == [2.0]
    with pytest.raises(TypeError, match="expected a storage of torch.int64"): rl.LongTensor(x.storage())


def test_classes_of_old():
    s = rl.LongStorage([1, 2])
    assert s.tolist() == [1, 2] and isinstance(s, rl.LongStorage) and not isinstance(s, rl.FloatStorage) and isinstance(s, rl.storage.TypedStorage)
    assert rl.FloatStorage(4).size() == 4 and rl.ones(1).storage_type() is rl.FloatStorage and rl.storage.UntypedStorage is rl.UntypedStorage
    assert rl.is_storage(s) and rl.is_storage(s.untyped()) and not rl.is_storage([1])
    assert s.float().tolist() == [1.0, 2.0] and s.long() is s and s.pickle_storage_type() == "LongStorage"


def test_copies():
    s = rl.tensor([1.0, 2.0]).storage()
    for t in (s.clone(), copy.copy(s), copy.deepcopy(s), pickle.loads(pickle.dumps(s))):
        assert t.tolist() == [1.0, 2.0] and t.dtype is rl.float32 and t.data_ptr() != s.data_ptr()


def test_the_warning_comes_once():
    rl.storage._warned = False
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"): rl.ones(1).storage()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rl.ones(1).storage()
