"""What copies, pickles, subclasses and other names of one memory keep: values, strides, sharing, versions, attributes, graphs."""
import copy
import io
import pickle

import numpy as np
import pytest

import rushlight as rl
from rushlight import _C, nn

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


def sample(dtype):
    base = np.array([[0, 1, 2], [3, 4, 5]])
    if dtype == "bfloat16": return rl.tensor(base.tolist(), dtype=rl.bfloat16)
    return rl.from_numpy((base % 2 if dtype == "bool" else base).astype(dtype))


class Marked(rl.Tensor):
    pass


# ---------------------------------------------------------------------------------------------------------------- every dtype
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_survives(dtype):
    x = sample(dtype)
    for other in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), x.t().contiguous().t(), x.detach(), x.data, x.to(x.dtype, copy=True)):
        assert other.dtype is getattr(rl, dtype) and other.tolist() == x.tolist() and other is not x
    assert x.to(x.dtype) is x and x.element_size() * 6 == x.nbytes and x.view(6).reshape(3, 2).shape == (3, 2)
    assert x.t()[1].tolist() == [row[1] for row in x.tolist()] and x.t().stride() == (1, 3) and x[1:, ::2].stride() == (3, 2)
    assert rl.empty_like(x).dtype is x.dtype and x.new_zeros(2).tolist() == [0, 0] and x.new_ones(1).tolist() == [1]


def test_memory_formats_are_strides():
    x = rl.arange(120).reshape(2, 3, 4, 5)
    last = x.contiguous(memory_format=rl.channels_last)
    assert last.stride() == (60, 1, 15, 3) and last.tolist() == x.tolist() and last.is_contiguous(memory_format=rl.channels_last) and not last.is_contiguous()
    assert (last + 1).stride() == last.stride() and rl.empty_like(last).stride() == last.stride() and last.clone().stride() == last.stride()
    assert last.clone(memory_format=rl.contiguous_format).is_contiguous() and last.contiguous().tolist() == x.tolist()
    assert last.contiguous(memory_format=rl.channels_last).data_ptr() == last.data_ptr()
    assert copy.deepcopy(last).stride() == pickle.loads(pickle.dumps(last)).stride() == last.stride()
    assert rl.empty(2, 3, 4, 5, memory_format=rl.channels_last).stride() == last.stride()


# ------------------------------------------------------------------------------------------------------------ sharing is kept
def test_a_copy_keeps_what_was_shared():
    x = rl.arange(6.0)
    pair = [x, x[2:4], x.view(2, 3).t()]
    for twin in (copy.deepcopy(pair), pickle.loads(pickle.dumps(pair))):
        twin[0][2] = 100
        assert twin[1][0].item() == 100 and twin[2][2, 0].item() == 100 and x[2].item() == 2
        assert [t.stride() for t in twin] == [t.stride() for t in pair] and twin[1].storage_offset() == 2
    memo = copy.deepcopy([x, x])
    assert memo[0] is memo[1]
    shallow = copy.copy(x)
    shallow[0] = 9
    assert x[0].item() == 9


def test_attributes_gradients_and_types_are_copied():
    p = nn.Parameter(rl.ones(2))
    p.grad = rl.ones(2)
    twin = copy.deepcopy(p)
    assert type(twin) is nn.Parameter and twin.requires_grad and twin.is_leaf and twin.grad is None       # as torch's: Parameter copies data alone
    x = rl.ones(2, requires_grad=True)
    x.grad = rl.ones(2)
    twin = copy.deepcopy(x)
    assert twin.requires_grad and twin.is_leaf and twin.grad.tolist() == [1, 1] and twin.grad is not x.grad
    assert pickle.loads(pickle.dumps(p)).requires_grad and type(pickle.loads(pickle.dumps(p))) is nn.Parameter
    m = rl.ones(2).as_subclass(Marked)
    m.note = "kept"
    for twin in (copy.deepcopy(m), pickle.loads(pickle.dumps(m))):
        assert type(twin) is Marked and twin.note == "kept" and twin.tolist() == [1, 1]
    conjugate = rl.tensor([1 + 2j]).conj()
    for twin in (copy.deepcopy(conjugate), pickle.loads(pickle.dumps(conjugate))):
        assert twin.tolist() == [1 - 2j] and twin.is_conj()
    assert copy.deepcopy(conjugate.imag).tolist() == [-2] and conjugate.imag.is_neg()


def test_graphs_are_not_copied():
    y = rl.ones(2, requires_grad=True) * 2
    for attempt in (copy.deepcopy, pickle.dumps):
        try: result = attempt(y)
        except RuntimeError as error: assert "graph leaves" in str(error) or "non-leaf" in str(error)
        else: assert attempt is pickle.dumps and pickle.loads(result).is_leaf


def test_a_file_and_back():
    file = io.BytesIO()
    x = rl.arange(6.0)
    rl.save({"x": x, "view": x[1:3], "n": [1, "a", None]}, file)
    file.seek(0)
    loaded = rl.load(file)
    loaded["x"][1] = 50
    assert loaded["view"][0].item() == 50 and loaded["n"] == [1, "a", None]


# ------------------------------------------------------------------------------------------------------------------ versions
def test_who_shares_a_version():
    x = rl.zeros(4)
    names = {"view": x[1:], "detach": x.detach(), "t": x.view(2, 2).t(), "expand": x.expand(3, 4), "alias": x.view_as(x)}
    for _ in range(3): x.add_(1)
    assert {k: t._version for k, t in names.items()} == dict.fromkeys(names, 3)
    names["t"].mul_(2)
    assert x._version == 4
    apart = x.data
    apart.add_(1)
    assert x._version == 4 and x.tolist() == apart.tolist()
    with rl.no_grad(): x.add_(1)
    assert x._version == 5
    x.detach_()
    assert x._version == 5
    assert x.clone()._version == 0 and copy.deepcopy(x)._version == 0
    before = x._version
    x.fill_(0), x.zero_(), x.copy_(rl.ones(4)), x.uniform_(), x.__setitem__(0, 1.0), rl.add(x, x, out=x)
    assert x._version == before + 6


def test_numpy_writes_are_not_versioned_but_seen():
    x = rl.zeros(3)
    x.numpy()[0] = 5
    assert x._version == 0 and x[0].item() == 5


def test_data_and_set_change_the_tensor_not_its_views():
    x = rl.zeros(4)
    view = x[1:]
    x.data = rl.ones(2)
    assert x.tolist() == [1, 1] and view.tolist() == [0, 0, 0]
    source = rl.arange(6.0)
    x.set_(source)
    source[0] = 7
    assert x[0].item() == 7 and x.data_ptr() == source.data_ptr()
    leaf = rl.ones(2, requires_grad=True)
    y = (leaf * leaf).sum()
    leaf.data = rl.full((2,), 5.0)              # the graph keeps the values it saw
    y.backward()
    assert leaf.grad.tolist() == [2, 2] and leaf.tolist() == [5, 5]


def test_resize_moves_storage_under_views():
    x = rl.arange(4.0)
    view, storage = x[2:], x.untyped_storage()
    x.resize_(100_000)
    assert view.tolist() == [2, 3] and storage is x.untyped_storage() is view.untyped_storage()
    x[2] = 9
    assert view[0].item() == 9


# ---------------------------------------------------------------------------------------------------- __torch_function__
def test_subclasses_through_every_door():
    x = rl.arange(6.0).view(2, 3).as_subclass(Marked)
    results = [x + 1, x[0], x[:, 1:], x.view(6), x.t(), x.sum(), x.clone(), x.detach(), x.to(rl.float64), rl.cat([x, x]), x @ x.t(), rl.relu(x), x.max(1).values, -x,
               x.unbind()[0], x.split(1)[1], x == x, 1 - x, x.reshape(3, 2), x[rl.tensor([0, 1])]]
    assert [type(r) for r in results] == [Marked] * len(results)
    y = x.clone()
    y += 1
    assert type(y) is Marked and type(y.add_(1)) is Marked
    assert type(x.tolist()) is list and type(x.shape) is rl.Size and isinstance(x.item if x.numel() == 1 else x.numel(), int)


def test_overrides_see_the_call():
    seen = []

    class Logged(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append((func.__name__, len(args), sorted(kwargs or {}), set(types)))
            return super().__torch_function__(func, types, args, kwargs or {})
    x = rl.ones(2).as_subclass(Logged)
    rl.add(x, 1, alpha=2)
    rl.stack([rl.ones(2), x], dim=0)
    assert seen[0] == ("add", 2, ["alpha"], {Logged}) and seen[1][0] == "stack" and seen[1][2] == ["dim"]


def test_subclasses_that_do_not_agree():
    class A(rl.Tensor):
        pass

    class B(rl.Tensor):
        pass
    with pytest.raises(TypeError, match="Multiple dispatch failed|unsupported operand"):
        rl.ones(2).as_subclass(A) + rl.ones(2).as_subclass(B)

    class C(A):
        pass
    assert type(rl.ones(2).as_subclass(A) + rl.ones(2).as_subclass(C)) is C


def test_an_exception_in_an_override_leaves_no_trace():
    class Broken(rl.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None): raise KeyError(func.__name__)
    x = rl.ones(2).as_subclass(Broken)
    for attempt in (lambda: x + 1, lambda: rl.add(rl.ones(2), x), lambda: x[0], lambda: x.sum(), lambda: rl.cat([rl.ones(2), x])):
        with pytest.raises(KeyError): attempt()
    assert not _C.torch_function_disabled() and (rl.ones(2) + 1).tolist() == [2, 2]


def test_foreign_objects_where_nobody_is_asked():
    """With overrides off, an object that has one is as foreign as any: it must not pass for an argument."""
    class Foreign:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None): return "asked"
    x = rl.ones(2, 3).as_subclass(Marked)
    assert rl.add(Foreign(), 1) == "asked"
    with _C.disable_torch_function():
        for attempt in (lambda: rl.add(Foreign(), 1), lambda: rl.cat([x, Foreign()]), lambda: rl.zeros(x), lambda: rl.randn(x), lambda: x.view(Foreign()),
                        lambda: rl.softmax(x, Foreign()), lambda: x.sum(Foreign()), lambda: rl.full((2,), Foreign())):
            with pytest.raises(TypeError): attempt()
