"""DataLoader with worker processes: order, transport, failures, and that nothing is left behind."""
import gc
import os
import random
import signal
import time

import pytest

import rushlight as rl
from rushlight.utils.data import DataLoader, Dataset, IterableDataset, SharedDict, SharedList, get_worker_info


class Numbers(Dataset):
    def __init__(self, count=50): self.count = count
    def __len__(self): return self.count
    def __getitem__(self, i): return {"x": rl.full((3, 4), float(i)), "i": i, "name": f"n{i}"}


class Seeds(Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return rl.tensor([get_worker_info().seed, get_worker_info().id, rl.get_num_threads(), rl.initial_seed(), random.getrandbits(16)])


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(info.id, 20, info.num_workers))


class Failing(Numbers):
    def __getitem__(self, i):
        if i == 7: raise KeyError("no seven")
        return i


class Dying(Numbers):
    def __getitem__(self, i):
        if i == 9: os.kill(os.getpid(), signal.SIGKILL)
        return i


class Leaving(Numbers):
    def __getitem__(self, i):
        if i == 9: os._exit(3)
        return i


class Slow(Numbers):
    def __getitem__(self, i):
        time.sleep(0.4 if i == 0 else 0.001)
        return i


def batches(loader): return [(b["x"].sum((1, 2)).tolist(), b["i"].tolist(), b["name"]) for b in loader]


@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_same_batches_as_in_one_process(context, shuffle):
    if shuffle and context == "forkserver": shuffle = False
    rl.manual_seed(5)
    alone = batches(DataLoader(Numbers(), batch_size=8, shuffle=shuffle))
    rl.manual_seed(5)
    assert batches(DataLoader(Numbers(), batch_size=8, shuffle=shuffle, num_workers=2, multiprocessing_context=context)) == alone


def test_batches_come_in_shared_memory():
    loader = DataLoader(Numbers(), batch_size=8, num_workers=1)
    first = next(iter(loader))
    assert first["x"].is_shared() and first["x"].is_contiguous() and tuple(first["x"].shape) == (8, 3, 4)


def test_workers_are_seeded_and_have_one_thread():
    rl.manual_seed(1)
    seen = [b[0].tolist() for b in DataLoader(Seeds(), num_workers=2)]
    base = seen[0][0]
    assert [s[:4] for s in seen] == [[base + i % 2, i % 2, 1, base + i % 2] for i in range(4)]
    rl.manual_seed(1)
    assert [b[0].tolist() for b in DataLoader(Seeds(), num_workers=2)] == seen


def test_streams_are_split_by_the_dataset():
    got = [b.tolist() for b in DataLoader(Stream(), batch_size=4, num_workers=2)]
    assert sorted(n for b in got for n in b) == list(range(20)) and all(len({n % 2 for n in b}) == 1 for b in got)
    assert sorted(int(b) for b in DataLoader(Stream(), batch_size=None, num_workers=3)) == list(range(20))


def test_persistent_workers_are_the_same_processes():
    loader = DataLoader(Pids(), num_workers=2, persistent_workers=True)
    first, second = ({int(p) for p in loader} for _ in range(2))
    assert first == second and len(first) == 2
    other = DataLoader(Pids(), num_workers=2)
    assert {int(p) for p in other}.isdisjoint({int(p) for p in other})


def test_a_pass_left_half_way_leaves_nothing_to_the_next():
    rl.manual_seed(0)
    loader = DataLoader(Tens(), batch_size=2, shuffle=True, num_workers=2, persistent_workers=True)
    for _ in range(3):
        next(iter(loader))
        assert sorted(i for batch in loader for i in batch.tolist()) == list(range(10))


def test_persistent_workers_have_one_iterator_that_begins_anew():
    loader = DataLoader(Tens(), batch_size=2, num_workers=2, persistent_workers=True)
    first = iter(loader)
    next(first)
    second = iter(loader)
    assert second is first and [b.tolist() for b in second] == [[i, i + 1] for i in range(0, 10, 2)]


def test_persistent_workers_go_on_with_their_random_numbers():
    """One seed is drawn when the workers are made, as torch does; later passes draw only the sampler's."""
    rl.manual_seed(1)
    loader = DataLoader(Seeds(), num_workers=2, persistent_workers=True)
    first, second = ([b[0].tolist() for b in loader] for _ in range(2))
    assert [s[:4] for s in first] == [s[:4] for s in second] and [s[4] for s in first] != [s[4] for s in second]


class Tens(Numbers):
    def __len__(self): return 10
    def __getitem__(self, i):
        time.sleep(0.002)
        return i


class Pids(Numbers):
    def __getitem__(self, i): return os.getpid()


def test_worker_init_fn_runs_once_in_each():
    loader = DataLoader(Marked(), num_workers=2, worker_init_fn=mark)
    assert [int(v) for v in loader] == [100, 101, 100, 101]


class Marked(Numbers):
    mark = None
    def __len__(self): return 4
    def __getitem__(self, i): return Marked.mark


def mark(worker): Marked.mark = 100 + worker


def test_an_exception_comes_back_with_its_type_and_traceback():
    loader = DataLoader(Failing(), batch_size=4, num_workers=2)
    with pytest.raises(KeyError, match="(?s)Caught KeyError in DataLoader worker process 1.*no seven"): list(loader)
    assert len(list(DataLoader(Numbers(), batch_size=4, num_workers=2))) == 13


@pytest.mark.parametrize("dataset, words", [(Dying, "is killed by signal: Killed"), (Leaving, "exited unexpectedly with exit code 3")])
def test_a_dead_worker_is_reported_at_once(dataset, words):
    start = time.monotonic()
    with pytest.raises(RuntimeError, match=words): list(DataLoader(dataset(), batch_size=4, num_workers=2))
    assert time.monotonic() - start < 30                 # it does not hang; how soon is measured in the benchmarks


def test_a_time_limit():
    with pytest.raises(RuntimeError, match="timed out after 0.05 seconds"): list(DataLoader(Slow(), num_workers=1, timeout=0.05))


def test_any_order():
    got = [int(b) for b in DataLoader(Slow(8), num_workers=2, in_order=False)]
    assert sorted(got) == list(range(8)) and got[0] != 0


def test_nothing_is_left_behind():
    def descriptors(): return len(os.listdir("/proc/self/fd"))
    def children(): return [p for p in __import__("multiprocessing").active_children()]
    list(DataLoader(Numbers(), batch_size=4, num_workers=2))
    before = descriptors()
    for _ in range(3): list(DataLoader(Numbers(200), batch_size=2, num_workers=2))
    early = iter(DataLoader(Numbers(), batch_size=4, num_workers=2))
    next(early)
    del early                                            # in the middle of things
    gc.collect()
    assert not children() and descriptors() <= before


@pytest.mark.parametrize("options, error, words", [
    (dict(num_workers=-1), ValueError, "num_workers"), (dict(num_workers=0, prefetch_factor=2), ValueError, "prefetch_factor"),
    (dict(num_workers=0, persistent_workers=True), ValueError, "persistent_workers"), (dict(num_workers=1, multiprocessing_context="no"), ValueError, "start method"),
    (dict(num_workers=1, timeout=-1), ValueError, "timeout"),
])
def test_bad_options(options, error, words):
    with pytest.raises(error, match=words): DataLoader(Numbers(), **options)


def test_shared_list_and_dictionary():
    items = [{"a": i, "b": "x" * i} for i in range(20)]
    shared = SharedList(items)
    assert len(shared) == 20 and list(shared) == items and shared[-1] == items[-1] and shared[2:4] == items[2:4]
    with pytest.raises(IndexError): shared[20]
    table = SharedDict({f"k{i}": i for i in range(30)})
    assert table["k7"] == 7 and len(table) == 30 and dict(table) == {f"k{i}": i for i in range(30)}
    with pytest.raises(KeyError): table["none"]
    assert not SharedList([]) and not SharedDict({})
    assert [int(b) for b in DataLoader(Viewed(shared), num_workers=2)] == list(range(20))


class Viewed(Dataset):
    def __init__(self, items): self.items = items
    def __len__(self): return len(self.items)
    def __getitem__(self, i): return self.items[i]["a"]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_pass_left_early_does_not_leak_into_the_next(shuffle):
    """Workers that stay still answer for the pass that was left; none of it may turn up in the next."""
    loader = DataLoader(Numbers(), batch_size=4, shuffle=shuffle, num_workers=2, persistent_workers=True)
    for stop in (1, 2, 5, 1):
        for number, _ in enumerate(loader):
            if number == stop: break
        seen = [(b["i"].tolist(), b["x"][:, 0, 0].long().tolist()) for b in loader]
        assert all(i == x for i, x in seen) and sorted(n for i, _ in seen for n in i) == list(range(50))
    first = iter(loader)
    next(first)
    second = iter(loader)
    assert second is first and len(list(second)) == 13 and not list(first)


class Kept(Dataset):
    """Collated batches that the dataset keeps, and sends again."""
    def __init__(self): self.made = {}
    def __len__(self): return 12
    def __getitem__(self, i):
        if i % 3 == 0: self.made[i] = rl.utils.data.default_collate([rl.full((500,), float(i)) for _ in range(2)])
        return self.made[i - i % 3] if i % 3 < 2 else rl.utils.data.default_collate([rl.full((500,), float(i)) for _ in range(2)])


def test_memory_that_is_lent_again_is_never_in_use():
    """Batches held here, given on to other processes, or kept and sent twice by the dataset stay what they were, however many are made after them."""
    def expect(batches): return [b.flatten()[0].item() for b in batches] == [float(n * 4) for n in range(len(batches))] and all(b.amin() == b[0].amin() and b.amax() == b[-1].amax() for b in batches)
    loader = DataLoader(Rows(400), batch_size=4, num_workers=2, persistent_workers=True)
    assert expect(list(loader))                          # all held
    used, read = set(), []
    for number, batch in enumerate(loader):
        assert rl.equal(batch[:, 0], rl.arange(4.0) + 4 * number) and rl.equal(batch[:, 0], batch[:, -1])
        used.add(os.fstat(batch.untyped_storage()._share_fd_cpu_()[0]).st_ino if number < 10 else 0)
        if number % 7 == 0: read.append((number, batch.numpy()))          # a view of numpy's holds the memory too
        if number == 20: held = batch
        if number == 21 and os.fork() == 0:                               # a copy of this process sees the batches of this moment
            time.sleep(0.3)
            os._exit(0 if rl.equal(held[:, 0], rl.arange(4.0) + 80) and rl.equal(batch[:, 5], rl.arange(4.0) + 84) else 1)
    assert len(used) == 11                               # those whose descriptor was asked for never came again
    assert all((view[:, 3] == [4 * n, 4 * n + 1, 4 * n + 2, 4 * n + 3]).all() for n, view in read) and rl.equal(held[:, 7], rl.arange(4.0) + 80)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0
    sent = list(DataLoader(Kept(), batch_size=None, num_workers=1))
    assert [b[0, 0].item() for b in sent] == [0, 0, 2, 3, 3, 5, 6, 6, 8, 9, 9, 11] and all(b.amin() == b.amax() for b in sent)


class Rows(Dataset):
    def __init__(self, count): self.count = count
    def __len__(self): return self.count
    def __getitem__(self, i): return rl.full((3000,), float(i))


def test_memory_comes_again():
    """In a loop that holds one batch at a time few pieces of memory serve all."""
    places = set()
    for batch in DataLoader(Rows(400), batch_size=4, num_workers=1):
        with open("/proc/self/maps") as maps:
            line = next(line for line in maps if int(line.split("-")[0], 16) <= batch.data_ptr() < int(line.split("-")[1].split()[0], 16))
        places.add(line.split()[4])                      # the memory object's number
    assert 1 <= len(places) <= 8


def test_too_few_descriptors_is_an_error_not_a_hang():
    """In a process of its own: the limit is that of the whole process."""
    import subprocess
    import sys
    program = """
import multiprocessing.connection, os, resource, signal
import rushlight as rl
from rushlight.utils.data.transport import Channel
here, there = map(Channel, multiprocessing.connection.Pipe())
child = os.fork()
if not child:
    there.send([rl.full((2,), float(i)) for i in range(100)])
    os._exit(0)
signal.alarm(30)
resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
try: here.receive()
except RuntimeError as error: print(error, len(os.listdir("/proc/self/fd")) < 30)
"""
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert answer.stdout.startswith("Too many open files: of 100 tensors") and answer.stdout.strip().endswith("True"), answer
