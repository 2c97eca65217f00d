"""Datasets, samplers, collation, DataLoader; the order beside torch's when it is there."""
import collections

import numpy as np
import pytest

import rushlight as rl
from rushlight.utils import data

Pair = collections.namedtuple("Pair", "a b")


def test_tensor_dataset():
    dataset = data.TensorDataset(rl.arange(6.0).reshape(3, 2), rl.tensor([7, 8, 9]))
    assert len(dataset) == 3 and dataset[1][0].tolist() == [2.0, 3.0] and dataset[1][1].item() == 8
    assert [row[1].item() for row in dataset.__getitems__([2, 0])] == [9, 7]
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        data.TensorDataset(rl.ones(2), rl.ones(3))


def test_concat_subset_stack():
    first, second = data.TensorDataset(rl.arange(3)), data.TensorDataset(rl.arange(10, 12))
    joined = first + second
    assert len(joined) == 5 and [int(joined[i][0]) for i in range(5)] == [0, 1, 2, 10, 11]
    assert int(joined[-1][0]) == 11 and int(joined[3][0]) == 10
    part = data.Subset(joined, [4, 0])
    assert [int(part[i][0]) for i in range(2)] == [11, 0]
    assert data.StackDataset(a=[1, 2], b=[3, 4])[1] == {"a": 2, "b": 4}
    with pytest.raises(ValueError, match="absolute value of index should not exceed dataset length"):
        joined[-6]


def test_random_split():
    dataset = list(range(10))
    parts = data.random_split(dataset, [0.5, 0.3, 0.2], generator=rl.Generator().manual_seed(0))
    assert [len(part) for part in parts] == [5, 3, 2]
    assert sorted(index for part in parts for index in part.indices) == list(range(10))
    with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
        data.random_split(dataset, [5, 6])


def test_samplers():
    assert list(data.SequentialSampler([7, 8, 9])) == [0, 1, 2]
    assert sorted(data.RandomSampler(range(9))) == list(range(9))
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=70))
    assert len(drawn) == 70 and set(drawn) == {0, 1, 2}
    assert list(data.BatchSampler(range(7), 3, False)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(data.BatchSampler(range(7), 3, True)) == [[0, 1, 2], [3, 4, 5]]
    assert len(data.BatchSampler(range(7), 3, False)) == 3 and len(data.BatchSampler(range(7), 3, True)) == 2
    with pytest.raises(ValueError, match="batch_size should be a positive integer value, but got batch_size=0"):
        data.BatchSampler(range(3), 0, False)
    with pytest.raises(ValueError, match="num_samples should be a positive integer value, but got num_samples=0"):
        data.RandomSampler([])


@pytest.mark.parametrize("batch, check", [
    ([1, 2], lambda b: b.dtype == rl.int64 and b.tolist() == [1, 2]),
    ([1.0, 2.0], lambda b: b.dtype == rl.float64 and b.tolist() == [1.0, 2.0]),
    ([True, False], lambda b: b.dtype == rl.bool and b.tolist() == [True, False]),
    (["a", "b"], lambda b: b == ["a", "b"]),
    ([{"a": 1}, {"a": 2}], lambda b: b["a"].tolist() == [1, 2]),
    ([Pair(1, 2), Pair(3, 4)], lambda b: type(b) is Pair and b.b.tolist() == [2, 4]),
    ([(1, "x"), (2, "y")], lambda b: b[0].tolist() == [1, 2] and b[1] == ("x", "y")),
    ([np.float32(1), np.float32(2)], lambda b: b.dtype == rl.float32),
    ([np.ones(2), np.zeros(2)], lambda b: b.shape == (2, 2) and b.dtype == rl.float64),
    ([rl.ones(2), rl.zeros(2)], lambda b: b.tolist() == [[1.0, 1.0], [0.0, 0.0]]),
])
def test_collate(batch, check):
    assert check(data.default_collate(batch))


def test_collate_errors():
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found <class "
                                        "'object'>"):
        data.default_collate([object()])
    with pytest.raises(RuntimeError, match="each element in list of batch should be of equal size"):
        data.default_collate([[1], [1, 2]])
    with pytest.raises(RuntimeError, match=r"stack expects each tensor to be equal size, but got \[2\] at entry 0 and \[3\] at entry 1"):
        data.default_collate([rl.ones(2), rl.ones(3)])


class Stream(data.IterableDataset):
    def __iter__(self):
        return iter(range(7))


def test_loading_a_stream():
    assert [batch.tolist() for batch in data.DataLoader(Stream(), batch_size=3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [batch.tolist() for batch in data.DataLoader(Stream(), batch_size=3, drop_last=True)] == [[0, 1, 2], [3, 4, 5]]
    assert list(data.DataLoader(Stream(), batch_size=None)) == list(range(7))
    with pytest.raises(ValueError, match="expected unspecified shuffle option"):
        data.DataLoader(Stream(), shuffle=True)


def test_loader_options():
    loader = data.DataLoader(range(10), batch_size=4, collate_fn=list)
    assert list(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] and len(loader) == 3
    with pytest.raises(ValueError, match="batch_size attribute should not be set after DataLoader is initialized"):
        loader.batch_size = 3
    with pytest.raises(ValueError, match="sampler option is mutually exclusive with shuffle"):
        data.DataLoader(range(3), shuffle=True, sampler=data.SequentialSampler(range(3)))
    with pytest.raises(ValueError, match="batch_sampler option is mutually exclusive"):
        data.DataLoader(range(3), batch_size=2, batch_sampler=data.BatchSampler(range(3), 2, False))


def test_shuffling_follows_the_seed():
    def order():
        rl.manual_seed(3)
        return [int(x) for batch in data.DataLoader(range(20), batch_size=6, shuffle=True) for x in batch]

    first = order()
    assert first == order() and sorted(first) == list(range(20)) and first != list(range(20))


def test_order_equals_torchs():
    torch = pytest.importorskip("torch")

    def orders(t):
        u, out = t.utils.data, []
        t.manual_seed(1)
        dataset = u.TensorDataset(t.arange(20.0).reshape(10, 2), t.arange(10))
        options = [dict(batch_size=3, shuffle=True), dict(batch_size=3, shuffle=True, drop_last=True), dict(batch_size=None),
                   dict(batch_size=4, sampler=u.RandomSampler(dataset, replacement=True, num_samples=50)),
                   dict(batch_size=4, sampler=u.RandomSampler(dataset, num_samples=25)),
                   dict(batch_size=4, sampler=u.SubsetRandomSampler([1, 5, 7])),
                   dict(batch_size=2, shuffle=True, generator=t.Generator().manual_seed(7))]
        for option in options:
            loader = u.DataLoader(dataset, **option)
            for _ in range(2):
                out.append((len(loader), [[column.tolist() for column in batch] for batch in loader]))
        out += [list(part.indices) for part in u.random_split(dataset, [0.3, 0.3, 0.4])]
        out.append(t.rand(1).item())                     # as many draws in all
        return out

    assert orders(rl) == orders(torch)
