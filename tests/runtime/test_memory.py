"""Storages, the caching allocator and the table of layouts."""
import os
import subprocess
import sys

import pytest

import rushlight as rl
from rushlight import _C


def test_storage_object():
    x = rl.zeros(3)
    s = x.untyped_storage()
    assert s is x.untyped_storage() is x[1:].untyped_storage() and s != rl.zeros(3).untyped_storage()
    assert len(s) == s.nbytes() == s.size() == 12 and s.device == rl.device("cpu") and not s.is_shared() and s.data_ptr() == x.data_ptr()
    s.fill_(0)
    s[3] = 64
    assert s[3] == 64 and s.tolist()[3] == 64 and x[0].item() == 2.0 and bytes(s)[:4] == b"\0\0\0@"
    copy = s.clone()
    copy[0] = 1
    assert s[0] == 0 and s.copy_(copy)[0] == 1
    with pytest.raises(IndexError, match="index 20 out of range for storage of size 12"):
        s[20]


def test_resize_keeps_content_and_views():
    x = rl.tensor([1.0, 2.0, 3.0])
    s, view = x.untyped_storage(), x[1:]
    for nbytes in (4000, 12, 5_000_000, 8_000_000, 12):     # small blocks, pages, and back
        s.resize_(nbytes)
        assert s.nbytes() == nbytes and view.tolist() == [2, 3]


def test_memory_is_reused_and_counted():
    for n in (10, 3000, 300_000, 3_000_000):
        before = _C.memory_stats()["allocated_bytes"]
        x = rl.empty(n)
        place = x.data_ptr()
        assert place % 64 == 0 and _C.memory_stats()["allocated_bytes"] == before + 4 * n
        del x
        x = rl.empty(n)
        assert x.data_ptr() == place
        del x
        assert _C.memory_stats()["allocated_bytes"] == before
    _C.empty_cache()
    assert rl.empty(3_000_000).fill_(1.0)[-1].item() == 1.0


@pytest.mark.parametrize("shape, words", [
    ((2**40, 2**10), "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4503599627370496 bytes"),
    ((2**62, 4), "Storage size calculation overflowed with sizes"), ((-1,), "Trying to create tensor with negative dimension -1")])
def test_impossible_sizes(shape, words):
    before = _C.memory_stats()["allocated_bytes"]
    with pytest.raises(RuntimeError, match=words):
        rl.empty(*shape)
    assert _C.memory_stats()["allocated_bytes"] == before


def test_layouts_are_interned_and_ids_never_come_back():
    a, b = rl.empty(2, 3), rl.empty(2, 3)
    assert a._layout_id == b._layout_id != a.T._layout_id
    assert rl.empty(4, 5)._layout_class == rl.empty(6, 7)._layout_class != rl.empty(4, 1)._layout_class
    assert rl.empty(4, 5)._layout_class != rl.empty(5, 4).T._layout_class
    old, before = _C.set_layout_cap(8), _C.stats()["layouts"]          # those in use elsewhere stay
    try:
        seen = set()
        for n in range(500):
            layout = rl.empty(n, 3, 2)._layout_id
            assert layout not in seen
            seen.add(layout)
        assert _C.stats()["layouts"] < before + 100 and a._layout_id == rl.empty(2, 3)._layout_id
    finally:
        _C.set_layout_cap(old)


def test_overlap():
    x = rl.empty(4)
    assert x.expand(3, 4)._self_overlaps() and x.as_strided((3, 2), (1, 1))._self_overlaps() and x.unfold(0, 2, 1)._self_overlaps()
    assert not x._self_overlaps() and not rl.empty(4, 4)[::2, ::2]._self_overlaps()
    assert not rl.empty(6).as_strided((2, 2), (3, 2))._self_overlaps()      # interleaved, but every element has its own place


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_guard_pages_stop_a_kernel_that_steps_outside():
    program = "import ctypes, rushlight as rl; x = rl.zeros(16); print(x.sum().item(), flush=True); ctypes.memset(x.data_ptr(), 0, 65)"
    run = subprocess.run([sys.executable, "-c", program], env={**os.environ, "RUSHLIGHT_GUARD_PAGES": "1"}, capture_output=True, text=True)
    assert run.stdout == "0.0\n" and run.returncode != 0


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_guarded_memory_begins_as_nan():
    """Not as the system's zeros: what is read before it is written shows."""
    program = "import rushlight as rl; print(rl.empty(3).isnan().all().item(), rl.empty(2, dtype=rl.int64).tolist())"
    run = subprocess.run([sys.executable, "-c", program], env={**os.environ, "RUSHLIGHT_GUARD_PAGES": "1"}, capture_output=True, text=True)
    assert run.stdout == "True [-1, -1]\n"


def test_every_chunk_runs_once():
    """Threads begin with shares of their own and help out with the others': more threads than chunks, chunks that do not divide, an error in the last."""
    before = rl.get_num_threads()
    try:
        for threads in (1, 2, 3, 7):
            rl.set_num_threads(threads)
            for n in (16385, 50000, 1 << 18, 300001):
                ones = rl.zeros(n)
                for _ in range(3): ones.add_(1)
                assert bool((ones == 3).all()), (threads, n)
            table, index = rl.zeros(10, 512), rl.zeros(4096, dtype=rl.int64)
            index[-1] = 10
            with pytest.raises(IndexError): rl.nn.functional.embedding(index, table)
    finally: rl.set_num_threads(before)
