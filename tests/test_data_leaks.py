"""Loaders leave nothing behind: memory, descriptors, shared memory and processes stay as they were, however many batches went through.

300 batches here; with RUSHLIGHT_SLOW_TESTS=1 10,000, which is what a leak of a few bytes a batch needs to be seen.
"""
import gc
import multiprocessing
import os
import sys

import pytest

import rushlight as rl
from rushlight.utils.data import DataLoader, Dataset
from rushlight.utils.data.transport import Lender

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

BATCHES = 10_000 if os.environ.get("RUSHLIGHT_SLOW_TESTS") == "1" else 300
ROWS, PIXELS = 16, 784                                     # 50 KB a batch: 300 lost batches are 15 MB
EPOCH = 50                                                 # batches of one pass, so the loader that is not persistent starts workers again and again


class Images(Dataset):
    def __init__(self): self.pixels = rl.rand(64, PIXELS)
    def __len__(self): return EPOCH * ROWS
    def __getitem__(self, i): return {"image": self.pixels[i % 64], "label": i % 10, "name": f"image {i}"}


def resident(pid):
    with open(f"/proc/{pid}/statm") as file: return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid): return len(os.listdir(f"/proc/{pid}/fd"))
def shared_files(): return {name for name in os.listdir("/dev/shm") if name.startswith(("rushlight", "sem.mp"))}


class State:
    """What this process, its workers and the machine hold now."""

    def __init__(self):
        gc.collect()
        self.children = {p.pid for p in multiprocessing.active_children()}
        self.resident = {pid: resident(pid) for pid in [os.getpid(), *self.children]}
        self.descriptors = {pid: descriptors(pid) for pid in self.resident}
        self.shared = shared_files()

    def __str__(self): return f"resident {self.resident}, descriptors {self.descriptors}, shared {self.shared}, children {self.children}"


def consume(loader, batches):
    taken = 0
    while taken < batches:
        for batch in loader:
            assert batch["image"].shape == (ROWS, PIXELS)
            taken += 1
            if taken == batches: break                     # the last pass may be left in the middle
    return taken


@pytest.mark.parametrize("workers, persistent", [(0, False), (2, False), (2, True)])
def test_many_batches_leave_nothing(workers, persistent):
    loader = DataLoader(Images(), batch_size=ROWS, shuffle=True, num_workers=workers, persistent_workers=persistent)
    consume(loader, 2 * EPOCH)                             # pools, plans and caches are filled
    before = State()
    assert consume(loader, BATCHES) == BATCHES
    after = State()
    print(f"\n{BATCHES} batches, {workers} workers, persistent {persistent}\n  before {before}\n  after  {after}")
    assert after.children == before.children and (not before.children or persistent)
    assert after.shared == before.shared
    # Batches may be on their way, and a worker keeps a few pieces of memory to use again; 300 lost ones would show.
    for pid, count in before.descriptors.items(): assert after.descriptors[pid] <= count + (1 if pid == os.getpid() else Lender.EACH), "descriptors"
    for pid, size in before.resident.items(): assert after.resident[pid] < size + 4e6, "memory"
