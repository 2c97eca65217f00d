"""Calls: parsing and its errors, faces, operators, in-place, out=, overlap, overrides, plans and their tables."""
import copy
import inspect
import pickle
import threading
import warnings

import numpy as np
import pytest

import rushlight as rl
from rushlight import _C


@pytest.fixture
def x():
    return rl.tensor([[1.0, 2.0], [3.0, 4.0]])


# ---------------------------------------------------------------------------------------------------------------- parsing
@pytest.mark.parametrize("call, words", [
    (lambda x: rl.mul(x, "x"), "mul(): argument 'other' (position 2) must be Tensor, not str"),
    (lambda x: x.mul("x"), "mul(): argument 'other' (position 1) must be Tensor, not str"),
    (lambda x: rl.mul(x), 'mul() missing 1 required positional arguments: "other"'),
    (lambda x: rl.mul(x, x, x), "mul() takes 2 positional arguments but 3 were given"),
    (lambda x: rl.mul(x, x, foo=1), "mul() got an unexpected keyword argument 'foo'"),
    (lambda x: rl.mul(x, input=x), "mul() got multiple values for argument 'input'"),
    (lambda x: rl.xlogy(1, 2), "xlogy(): argument 'input' (position 1) must be Tensor, not int"),
    (lambda x: rl.mul(x, x, out=5), "mul(): argument 'out' must be Tensor, not int"),
    (lambda x: rl.neg(), 'neg() missing 1 required positional arguments: "input"'),
    (lambda x: rl.softmax(x, "a"), "softmax(): argument 'dim' (position 2) must be int, not str"),
    (lambda x: rl.cat(x), "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"),
    (lambda x: rl.cat([x, 1]), "expected Tensor as element 1 in argument 0, but got int"),
    (lambda x: x.view(1, 2.5), "view(): argument 'size' failed to unpack the object at pos 2 with error \"type must be tuple of ints,but got float\""),
    (lambda x: x.permute(0, "a"), "permute(): argument 'dims' failed to unpack the object at pos 2"),
    (lambda x: x.clamp("a"), "clamp() received an invalid combination of arguments - got (str), but expected one of:\n * ("),
    (lambda x: rl.zeros(2, requires_grad=1), "zeros(): argument 'requires_grad' must be bool, not int"),
    (lambda x: rl.zeros(2, dtype=1), "zeros(): argument 'dtype' must be torch.dtype, not int"),
    (lambda x: rl.Tensor.mul(5, x), "descriptor 'mul' for 'torch.Tensor' objects doesn't apply to a 'int' object"),
])
def test_type_errors(x, call, words):
    with pytest.raises(TypeError) as info:
        call(x)
    assert str(info.value).startswith(words)


def test_operators_on_foreign_types(x):
    assert x.__add__("a") is NotImplemented
    assert (x == "a") is False and (x != None) is True                      # noqa: E711
    with pytest.raises(TypeError, match="unsupported operand"):
        x + None


def test_numbers_of_every_kind(x):
    for n in (2, 2.0, True, np.float32(2), np.int64(2), np.bool_(True), rl.tensor(2.0)):
        assert (x * n).tolist() == [[float(v) * float(n) for v in r] for r in x.tolist()]
        assert (n * x).dtype == rl.float32
    with pytest.raises(OverflowError):
        x * 2 ** 70


def test_keywords_and_numpy_names(x):
    assert rl.sum(input=x, dim=1).tolist() == x.sum(axis=1).tolist() == [3.0, 7.0]
    assert x.sum(axis=1, keepdims=True).shape == (2, 1)
    assert x.view(4).shape == x.view((4,)).shape == x.view(size=[4]).shape == x.view(np.int64(4)).shape == (4,)
    assert rl.zeros(2, 3).shape == rl.zeros((2, 3)).shape == rl.zeros(size=(2, 3)).shape == (2, 3)
    assert x.permute(*rl.tensor([1, 0])).shape == (2, 2)


def test_long_lists():
    parts = rl.arange(300).split([1] * 300)
    assert len(parts) == 300 and rl.cat(parts).tolist() == list(range(300))
    assert len(rl.zeros(5000).unbind()) == 5000


def test_many_tensors_with_gradients():
    leaves = [rl.tensor([float(i)], requires_grad=True) for i in range(100)]
    (rl.cat(leaves) * rl.arange(100.0)).sum().backward()
    assert [t.grad.item() for t in leaves] == [float(i) for i in range(100)]


def test_requires_grad_of_factories():
    assert rl.zeros(2, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="Only Tensors of floating point and complex dtype can require gradients"):
        rl.zeros(2, dtype=rl.int64, requires_grad=True)


# ------------------------------------------------------------------------------------------------------------------ faces
def test_faces():
    f, m = rl.mul, rl.Tensor.mul
    assert f.__name__ == "mul" and m.__qualname__ == "Tensor.mul" and f.__doc__
    assert str(inspect.signature(f)) == "(input, other, *, out=None)"
    assert str(inspect.signature(m)) == "(self, other)"
    assert pickle.loads(pickle.dumps(f)) is f and pickle.loads(pickle.dumps(m)) is m and copy.deepcopy(f) is f

    class Holder:
        act = rl.neg
    assert Holder().act(rl.tensor([1.0])).tolist() == [-1.0]                # functions do not bind


def test_named_results(x):
    r = x.max(1)
    assert r.values.tolist() == [2.0, 4.0] and r.indices.tolist() == [1, 1]
    values, indices = r
    assert repr(r).startswith("torch.return_types.max(\nvalues=tensor([2., 4.]),\nindices=")
    assert type(r) is rl.return_types.max
    for again in (pickle.loads(pickle.dumps(r)), copy.deepcopy(r)):
        assert type(again) is rl.return_types.max and again.values.tolist() == r.values.tolist() and again.indices.tolist() == r.indices.tolist()


# ------------------------------------------------------------------------------------------------------- in-place and out=
def test_inplace_returns_self_and_bumps(x):
    v = x._version
    assert x.add_(1) is x and x._version == v + 1
    y = x
    y *= 2
    assert y is x and x._version == v + 2 and x.tolist() == [[4.0, 6.0], [8.0, 10.0]]


def test_out(x):
    out = rl.empty(2, 2)
    assert rl.add(x, x, out=out) is out and out.tolist() == [[2.0, 4.0], [6.0, 8.0]]
    wide = rl.empty(2, 2, dtype=rl.float64)
    assert rl.add(x, x, out=wide).tolist() == out.tolist()
    transposed = rl.empty(2, 2).t()
    assert rl.add(x, x, out=transposed).tolist() == out.tolist() and transposed.stride() == (1, 2)
    with pytest.warns(UserWarning, match="out= tensor of shape \\[3\\]"):
        assert rl.add(x, x, out=rl.ones(3)).shape == (2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert rl.add(x, x, out=rl.empty(0)).shape == (2, 2)
    values, indices = rl.empty(0), rl.empty(0, dtype=rl.int64)
    assert rl.max(x, 1, out=(values, indices)).values is values and indices.tolist() == [1, 1]


def test_out_errors(x):
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        rl.add(x, x, out=rl.zeros(2, 2, dtype=rl.int64))
    with pytest.raises(RuntimeError, match="functions with out=... arguments don't support automatic differentiation"):
        rl.add(x.clone().requires_grad_(), x, out=rl.zeros(2, 2))
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        rl.ones(2, dtype=rl.int64).add_(1.5)
    with pytest.raises(RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[2, 2\]"):
        rl.ones(2).add_(x)


def test_overlap():
    x = rl.arange(5.0)
    for write in (lambda: x[1:].add_(x[:-1]), lambda: x[1:].copy_(x[:-1]), lambda: rl.add(x[1:], x[:-1], out=x[:-1])):
        with pytest.raises(RuntimeError, match="unsupported operation: some elements of the input tensor and the written-to tensor refer to a single memory"):
            write()
    for write in (lambda: rl.ones(1).expand(3).add_(1), lambda: rl.ones(1).expand(3).copy_(rl.ones(3))):
        with pytest.raises(RuntimeError, match="unsupported operation: more than one element of the written-to tensor refers to a single memory location"):
            write()
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    x.mul_(x)
    assert x.tolist() == [0.0, 1.0, 4.0, 9.0, 16.0]
    assert rl.arange(5.0)[::2].add_(1).tolist() == [1.0, 3.0, 5.0]
    x = rl.arange(5.0)
    assert x[::2].add_(x[:3]).tolist() == [0.0, 3.0, 6.0]                   # torch does not look at strided overlap, and computes with what it has just written
    m = rl.arange(9.0).reshape(3, 3)
    m[:, 0].add_(m[:, 1])
    assert m.tolist() == [[1.0, 1.0, 2.0], [7.0, 4.0, 5.0], [13.0, 7.0, 8.0]]
    m = rl.arange(9.0).reshape(3, 3)
    want = (m @ m).tolist()
    assert rl.matmul(m, m, out=m).tolist() == want


def test_nothing_is_written_before_an_error():
    table = rl.zeros(3, 2)
    with pytest.raises(IndexError):
        table.index_put_((rl.tensor([0, 5]),), rl.ones(2, 2))
    assert table.tolist() == [[0.0, 0.0]] * 3 and table._version == 0


def test_one_call_one_device():
    here, there = rl.ones(3), rl.ones(3, device="meta")
    for call in (lambda: here + there, lambda: there * here, lambda: rl.lerp(there, here, here)):
        with pytest.raises(RuntimeError, match="is not on the expected device"): call()
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"): here.copy_(there)
    assert (there + rl.ones(())).device.type == "meta" and there.copy_(here).device.type == "meta"


def test_meta():
    y = rl.empty(3, 4, device="meta") + rl.empty(4, device="meta")
    assert y.shape == (3, 4) and y.device.type == "meta"


# -------------------------------------------------------------------------------------------------------------- overrides
def test_subclass_results(x):
    class Sub(rl.Tensor):
        pass
    s = x.as_subclass(Sub)
    assert all(type(r) is Sub for r in (s + 1, 1 + s, s.sum(), rl.cat([s, s]), rl.add(x, s), -s))
    with _C.disable_torch_function():
        assert type(s + 1) is rl.Tensor


def test_foreign_torch_function(x):
    class Foreign:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, types, len(args)
    f = Foreign()
    assert rl.add(f, 1) == ("add", (Foreign,), 2) and rl.add(x, f)[0] == "add" and (x + f)[0] == "add" and rl.cat([x, f])[0] == "cat"
    assert rl.add(x, x, out=f)[1] == (Foreign,)


def test_mode(x):
    seen = []

    class Mode:
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))
    _C.push_mode(Mode())
    try:
        y = rl.neg(x + 1)
    finally:
        _C.pop_mode()
    assert seen == ["add", "neg"] and y.tolist() == [[-2.0, -3.0], [-4.0, -5.0]]
    rl.neg(x)
    assert seen == ["add", "neg"]


# ------------------------------------------------------------------------------------------------------------------ plans
def test_shapes_do_not_reenter_the_compiler():
    (rl.ones(3, 5) * rl.ones(5)).sum(1)
    before = _C.stats()["compiles"]
    for n in range(2, 40):
        assert (rl.ones(3, n) * rl.ones(n)).sum(1).tolist() == [float(n)] * 3
    assert _C.stats()["compiles"] - before <= 6


def test_tables_are_bounded():
    before = _C.set_plan_cap(8)
    try:
        for n in range(2, 60):
            t = rl.full((n,), 2.0, requires_grad=True)
            (t * t + 1).sum().backward()
            assert t.grad.tolist() == [4.0] * n
            stats = _C.stats()
            assert stats["plans"] <= 8
    finally:
        _C.set_plan_cap(before)


def test_foreach_call():
    add = _C.find_op("add")
    xs, ys = [rl.ones(n) for n in range(1, 6)], [rl.full((n,), float(n)) for n in range(1, 6)]
    _C.foreach_call(add.inplace_function, [xs, ys])
    assert [t.tolist() for t in xs] == [[1.0 + n] * n for n in range(1, 6)]
    with pytest.raises(RuntimeError, match="same number of tensors"):
        _C.foreach_call(add.inplace_function, [xs, ys[:2]])


def test_threads_share_the_tables():
    failures = []

    def work(k):
        try:
            for n in range(1, 60):
                t = rl.full((n + k,), 3.0)
                assert (t * t - t).tolist() == [6.0] * (n + k)
                big = rl.full((300_000,), float(k))
                assert (big + big).sum().item() == 600_000.0 * k
        except BaseException as e:
            failures.append(e)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
    assert not failures
