"""Memory shared with numpy, buffers, DLPack and other processes: no copies, right lifetimes, refusals where sharing would lie."""
import gc
import multiprocessing
import sys

import numpy as np
import pytest

import rushlight as rl
import rushlight.multiprocessing as mp

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool",
          "complex64", "complex128", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_numpy_both_ways(dtype):
    a = (np.arange(12) % 5).reshape(3, 4).astype(dtype)
    t = rl.from_numpy(a)
    assert str(t.dtype) == "torch." + dtype and t.tolist() == a.tolist()
    a[0, 1] = 1
    assert t.tolist() == a.tolist()
    assert t.numpy().dtype == a.dtype and t.numpy().ctypes.data == a.ctypes.data
    assert t.t().numpy().strides == a.T.strides and (t.t()[1:, ::2].numpy() == a.T[1:, ::2]).all()
    assert np.shares_memory(np.asarray(t), a) and not np.shares_memory(np.array(t), a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_dlpack_and_buffers(dtype):
    a = (np.arange(12) % 5).reshape(3, 4).astype(dtype)
    t = rl.from_numpy(a)
    assert rl.from_dlpack(a).data_ptr() == a.ctypes.data
    assert np.from_dlpack(t).ctypes.data == a.ctypes.data and np.from_dlpack(t.t()).strides == a.T.strides
    for version in (None, (1, 0)):
        assert rl.from_dlpack(t.__dlpack__(max_version=version)).tolist() == t.tolist()
    view = memoryview(t)
    assert view.shape == (3, 4) and view.tobytes() == a.tobytes()


def test_lifetimes():
    a = np.ones(1000)
    count = sys.getrefcount(a)
    t = rl.from_numpy(a)
    part = t[5:]
    del t
    assert sys.getrefcount(a) == count + 1
    del part
    assert sys.getrefcount(a) == count
    array = rl.ones(1000).numpy()
    capsule = rl.ones(1000).__dlpack__()
    gc.collect()
    array[:] = 3
    assert array.sum() == 3000 and rl.from_dlpack(capsule).sum().item() == 1000
    with pytest.raises(RuntimeError, match="invalid capsule"):
        rl.from_dlpack(capsule)


def test_refusals():
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad. Use tensor.detach"):
        rl.ones(2, requires_grad=True).numpy()
    with pytest.raises(RuntimeError, match="has conjugate bit set"):
        rl.tensor([1j]).conj().numpy()
    with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
        rl.ones(2).bfloat16().numpy()
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        rl.from_numpy([1])
    with pytest.raises(ValueError, match="At least one stride in the given numpy array is negative"):
        rl.from_numpy(np.arange(3)[::-1])
    with pytest.raises(TypeError, match="can't convert np.ndarray of type numpy.object_"):
        rl.from_numpy(np.array([1, None]))
    with pytest.raises(ValueError, match="byte order"):
        rl.from_numpy(np.array([1, 2], dtype=">i4" if sys.byteorder == "little" else "<i4"))
    with pytest.raises(BufferError, match="require gradient"):
        rl.ones(2, requires_grad=True).__dlpack__()
    x = rl.ones(4)
    x.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(100)


def test_frombuffer():
    source = bytearray(b"abcdefgh")
    t = rl.frombuffer(source, dtype=rl.int32)
    assert t.tolist() == np.frombuffer(source, np.int32).tolist()
    source[0] = 0
    assert t.tolist() == np.frombuffer(source, np.int32).tolist()
    assert rl.frombuffer(source, dtype=rl.uint8, count=2, offset=3).tolist() == [100, 101]
    refused = [({"offset": 9}, "offset"), ({"offset": 1}, "buffer length"), ({"count": 3}, "requested buffer length"),
               ({"count": 0}, "both buffer length")]
    for options, words in refused:
        with pytest.raises(ValueError, match=words):
            rl.frombuffer(source, dtype=rl.int32, **options)


def test_half_types_convert_exactly():
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    assert np.array_equal(np.array(rl.from_numpy(every).tolist()), every.astype(np.float64), equal_nan=True)
    numbers = np.concatenate([np.random.default_rng(0).standard_normal(2000) * 10.0 ** np.arange(-10, 6).repeat(125),
                              [65504, 65519.99, 65520, 65536, 6e-8, 2.98e-8, 2.9803e-8, 6.1e-5, 0, np.inf]]).astype(np.float32)
    assert np.array_equal(rl.tensor(numbers.tolist(), dtype=rl.float16).numpy(), numbers.astype(np.float16))


def _child(queue, answers, shared, done):
    shared[0] = 7
    received = queue.get()
    received.add_(1)
    answers.put(received.sum().item())
    done.wait(30)


@pytest.mark.parametrize("method", [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()])
def test_another_process_sees_the_writes(method):
    context = mp.get_context(method)
    shared = rl.zeros(4).share_memory_()
    sent = rl.arange(6.0).reshape(2, 3).t()[1:]
    queue, answers, done = context.Queue(), context.Queue(), context.Event()
    child = context.Process(target=_child, args=(queue, answers, shared, done))
    child.start()
    queue.put(sent)
    assert answers.get(timeout=60) == 16.0
    done.set()
    child.join(60)
    assert shared[0].item() == 7 and sent.tolist() == [[2, 5], [3, 6]] and sent.is_shared()


def test_sharing_moves_the_storage_under_its_views():
    for n in (3, 1 << 20):
        x = rl.ones(n)
        view, array = x[1:], x.numpy()
        x.share_memory_()
        view[0] = 9
        assert x[1].item() == 9 and view.is_shared() and x.untyped_storage().is_shared()
        assert array[1] == 1                                # the array keeps the memory it saw
        with pytest.raises(RuntimeError, match="not resizable"):
            x.resize_(2 * n)


def test_non_leaf_tensors_stay():
    from multiprocessing.reduction import ForkingPickler
    with pytest.raises(RuntimeError, match="Cowardly refusing to serialize non-leaf tensor"):
        ForkingPickler.dumps(rl.ones(2, requires_grad=True) * 2)
