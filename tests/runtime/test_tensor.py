"""The Tensor object: its life, its attributes, versions, subclasses, and what it becomes as a Python scalar."""
import gc
import weakref

import pytest

import rushlight as rl
from rushlight import _C


class Marked(rl.Tensor):
    pass


def live():
    gc.collect()
    return _C.stats()["tensors"]


# ------------------------------------------------------------------------------------------------------------------- life
def test_plain_tensors_stay_out_of_the_garbage_collector():
    x = rl.tensor([1.0, 2.0])
    assert not gc.is_tracked(x)
    x.note = 1
    assert gc.is_tracked(x)


@pytest.mark.parametrize("make", [lambda: rl.tensor([1.0]), lambda: rl.Tensor._make_subclass(Marked, rl.tensor([1.0]))])
def test_cycles_through_attributes_are_collected(make):
    x = make()
    x.itself = x
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None


def test_cycle_through_the_dict():
    x = rl.tensor([1.0])
    x.__dict__["itself"] = x
    ref = weakref.ref(x)
    del x
    gc.collect()
    assert ref() is None


def test_nothing_leaks_in_a_loop():
    x, before = rl.tensor([[1.0, 2.0], [3.0, 4.0]]), None
    for i in range(3000):
        if i == 1000:
            before = live(), _C.memory_stats()["allocated_bytes"]
        _ = x.view(4).unsqueeze(0).transpose(0, 1)[1:].detach().data
    assert (live(), _C.memory_stats()["allocated_bytes"]) == before


def test_hash_and_weakref():
    x, y = rl.tensor([1.0]), rl.tensor([1.0])
    assert len({x, y, x}) == 2 and weakref.ref(x)() is x


# ------------------------------------------------------------------------------------------------------------ attributes
def test_attributes():
    x = rl.empty(2, 3, dtype=rl.float64)
    assert x.shape == (2, 3) and type(x.shape) is rl.Size and x.size(-1) == 3 and x.stride() == (3, 1) and x.stride(0) == 3
    assert x.dtype is rl.float64 and x.device == rl.device("cpu") and x.layout is rl.strided and x.ndim == x.dim() == 2
    assert x.numel() == x.nelement() == 6 and x.itemsize == x.element_size() == 8 and x.nbytes == 48
    assert x.is_leaf and x.grad_fn is None and x.grad is None and not x.requires_grad and x._version == 0 and x._base is None
    assert not (x.is_cuda or x.is_sparse or x.is_quantized or x.is_meta or x.is_nested) and x.get_device() == -1
    assert x.is_contiguous() and not x.T.is_contiguous() and x.storage_offset() == 0 and x[1].storage_offset() == 3
    assert rl.empty(2, 3, device="meta").is_meta
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 5\)"):
        x.size(5)
    with pytest.raises(AttributeError):
        x.shape = (3, 2)


def test_memory_formats():
    x = rl.empty(2, 3, 4, 5).permute(0, 3, 1, 2)
    assert x.is_contiguous(memory_format=rl.channels_last) and not x.is_contiguous()
    assert not rl.empty(3).is_contiguous(memory_format=rl.channels_last)
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        rl.empty(3).contiguous(memory_format=rl.channels_last)


def test_requires_grad():
    x = rl.tensor([1.0]).requires_grad_()
    assert x.requires_grad and x.is_leaf
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        rl.tensor([1]).requires_grad_()
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        (x * 2).requires_grad_(False)
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad = 1


def test_grad_assignment_is_checked():
    x = rl.tensor([1.0, 2.0])
    x.grad = rl.tensor([3.0, 4.0])
    assert x.grad.tolist() == [3, 4]
    del x.grad
    assert x.grad is None
    for wrong, error, words in [
            (3, TypeError, "assigned grad expected to be a Tensor or None"),
            (rl.tensor([1.0]), RuntimeError, "attempting to assign a gradient of size"),
            (rl.tensor([1, 2]), RuntimeError, "attempting to assign a gradient with dtype"),
            (x, RuntimeError, "can't assign Variable as its own grad")]:
        with pytest.raises(error, match=words):
            x.grad = wrong


def test_versions():
    x = rl.zeros(3)
    view, outside = x[0], x.detach()
    x.add_(1)
    assert x._version == view._version == outside._version == 1 and x.data._version == 0
    x.data = rl.ones(5)
    assert x._version == 1 and x.shape == (5,)
    x.add_(1)
    assert x._version == 2
    with pytest.raises(TypeError, match="Variable data has to be a tensor"):
        x.data = 3
    with pytest.raises(RuntimeError, match="Deleting tensor data is not allowed"):
        del x.data


def test_transposes_as_attributes():
    x = rl.empty(2, 3, 4)
    assert x.T.shape == (4, 3, 2) and x.mT.shape == x.mH.shape == (2, 4, 3) and x[0].H.shape == (4, 3)
    with pytest.raises(RuntimeError, match="tensor.H is only supported on matrices"):
        _ = x.H
    with pytest.raises(RuntimeError, match="tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor."):
        _ = x[0][0].mT


# ------------------------------------------------------------------------------------------------------- the object changes
def test_resize_and_set():
    x = rl.tensor([1.0, 2.0])
    view = x.view(2, 1)
    x.resize_(100000)
    assert x[:2].tolist() == [1, 2] and view.tolist() == [[1], [2]] and view.data_ptr() == x.data_ptr() and x._version == 1
    x.resize_as_(rl.empty(2))
    assert x.tolist() == [1, 2]
    source = rl.tensor([[1.0, 2.0, 3.0]])
    x.set_(source)
    assert x.shape == (1, 3) and x.data_ptr() == source.data_ptr()
    x.set_(source.untyped_storage(), 1, (2,), (1,))
    assert x.tolist() == [2, 3]
    assert x.set_().shape == (0,)
    with pytest.raises(RuntimeError, match="Could not set tensor of type long int to a tensor of type float"):
        x.set_(rl.tensor([1]))
    with pytest.raises(RuntimeError, match="Tensor: invalid storage offset -1"):
        x.set_(source.untyped_storage(), -1, (2,), (1,))
    with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
        rl.tensor([1.0], requires_grad=True).resize_(3)


def test_in_place_views():
    x = rl.zeros(2, 3)
    assert x.t_() is x and x.shape == (3, 2) and x.unsqueeze_(0).squeeze_(0).transpose_(0, 1).shape == (2, 3) and x._version == 4
    leaf = rl.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        leaf.t_()
    y = leaf * 2
    y.t_()
    y[0].sum().backward()
    assert leaf.grad.tolist() == [[2, 0, 0]]


# ---------------------------------------------------------------------------------------------------------------- subclasses
def test_subclasses():
    data = rl.tensor([1.0, 2.0])
    p = rl.Tensor._make_subclass(Marked, data, True)
    assert type(p) is Marked and p.requires_grad and p.is_leaf and p.data_ptr() == data.data_ptr()
    assert type(data.as_subclass(Marked)) is Marked and type(Marked(2, 3)) is Marked
    for attempt in (lambda: data.as_subclass(list), lambda: rl.Tensor._make_subclass(list, data)):
        with pytest.raises(TypeError, match="Creating a Tensor subclass from a class that does not inherit from Tensor is not possible"):
            attempt()


def test_old_constructor():
    assert rl.Tensor().shape == (0,) and rl.Tensor(2, 3).shape == (2, 3) and rl.Tensor([1, 2]).tolist() == [1.0, 2.0]
    with pytest.raises(TypeError, match=r"new\(\): data must be a sequence \(got float\)"):
        rl.Tensor(2.5)


# ----------------------------------------------------------------------------------------------------------- Python scalars
def test_scalars():
    assert bool(rl.tensor(1.0)) and not rl.tensor([[0]]) and int(rl.tensor(3.7)) == 3 and float(rl.tensor([2])) == 2.0
    assert [1, 2, 3][rl.tensor(1)] == 2 and complex(rl.tensor(1 + 2j)) == 1 + 2j and len(rl.empty(4, 2)) == 4
    assert [row.tolist() for row in rl.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]


@pytest.mark.parametrize("attempt, error, words", [
    (lambda: bool(rl.zeros(2)), RuntimeError, "Boolean value of Tensor with more than one value is ambiguous"),
    (lambda: bool(rl.zeros(0)), RuntimeError, "Boolean value of Tensor with no values is ambiguous"),
    (lambda: int(rl.zeros(2)), ValueError, "only one element tensors can be converted to Python scalars"),
    (lambda: float(rl.tensor(1 + 2j)), RuntimeError, "value cannot be converted to type double without overflow"),
    (lambda: [1][rl.tensor(0.0)], TypeError, "only integer tensors of a single element can be converted to an index"),
    (lambda: len(rl.tensor(1.0)), TypeError, "len\\(\\) of a 0-d tensor"),
    (lambda: iter(rl.tensor(1.0)), TypeError, "iteration over a 0-d tensor")])
def test_bad_scalars(attempt, error, words):
    with pytest.raises(error, match=words):
        attempt()
