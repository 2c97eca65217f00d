"""What becomes of a loader when something dies: a worker, the loading process, or the room for shared memory. Start methods: all three."""
import faulthandler
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import rushlight as rl
from rushlight.utils.data import DataLoader, Dataset

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kills processes and reads /proc")
METHODS = ["fork", "forkserver", "spawn"]
HERE = os.path.dirname(os.path.abspath(__file__))


class Dying(Dataset):
    """Item 9 writes the time down and ends the process that fetches it. The clock is the machine's, so another process can compare."""

    def __init__(self, end, note): self.end, self.note = end, note
    def __len__(self): return 40

    def __getitem__(self, i):
        if i == 9:
            with open(self.note, "w") as file: file.write(str(time.monotonic()))
            faulthandler.disable()                                            # a crash that is meant needs no report
            if self.end == "exit": os._exit(3)
            if self.end == "orphan" and os.fork() == 0:                       # a grandchild keeps the worker's connection open
                time.sleep(8)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL if self.end == "orphan" else self.end)
        return i


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("end, words", [(signal.SIGKILL, "is killed by signal: Killed"), (signal.SIGSEGV, "is killed by signal: Segmentation fault"),
                                        ("exit", "exited unexpectedly with exit code 3")])
def test_a_dead_worker_is_reported_within_a_second(end, words, method, tmp_path):
    note = tmp_path / "died"
    for _ in range(3):                                                        # a second of a busy machine may pass elsewhere
        with pytest.raises(RuntimeError, match=words): list(DataLoader(Dying(end, str(note)), batch_size=4, num_workers=2, multiprocessing_context=method))
        late = time.monotonic() - float(note.read_text())
        if late < 1: break
    assert late < 1


@pytest.mark.parametrize("method", METHODS[1:])
def test_what_cannot_be_pickled_says_how_to_do_without(method):
    class Local(Dying): pass
    with pytest.raises((AttributeError, TypeError, pickle.PicklingError)) as raised: list(DataLoader(Local("exit", ""), num_workers=2, multiprocessing_context=method))
    assert "multiprocessing_context='fork'" in raised.value.__notes__[-1]


def test_a_dead_worker_whose_child_lives_on(tmp_path):
    note = tmp_path / "died"
    with pytest.raises(RuntimeError, match="is killed by signal: Killed"): list(DataLoader(Dying("orphan", str(note)), batch_size=4, num_workers=2))
    assert time.monotonic() - float(note.read_text()) < 4


class Waiting(Dataset):
    def __len__(self): return 40
    def __getitem__(self, i):
        if i >= 8: time.sleep(60)
        return i


@pytest.mark.parametrize("persistent", [False, True])
def test_a_worker_killed_from_outside(persistent):
    loader = DataLoader(Waiting(), batch_size=4, num_workers=2, persistent_workers=persistent)
    batches = iter(loader)
    assert next(batches).tolist() == [0, 1, 2, 3]
    os.kill(batches.pool.processes[1].pid, signal.SIGKILL)
    start = time.monotonic()
    with pytest.raises(RuntimeError, match="is killed by signal: Killed"): list(batches)
    assert time.monotonic() - start < 2                                       # the other worker, asleep for a minute, is not waited for
    assert not any(p.is_alive() for p in batches.pool.processes)
    again = iter(loader)                                                      # a new pass starts new workers
    assert next(again).tolist() == [0, 1, 2, 3] and not {p.pid for p in again.pool.processes} & {p.pid for p in batches.pool.processes}
    again.pool.close()


PROGRAM = """
    import multiprocessing, signal, sys
    signal.signal(signal.SIGINT, signal.default_int_handler)          # a shell's background jobs are started with it ignored
    sys.path.insert(0, {here!r})
    import rushlight as rl
    from rushlight.utils.data import DataLoader
    from test_data_failures import Endless
    if __name__ == "__main__":
        loader = DataLoader(Endless(), batch_size=4, num_workers=2, multiprocessing_context={method!r})
        for number, batch in enumerate(loader):
            if number == 2:
                print(*(p.pid for p in multiprocessing.active_children()), flush=True)
"""


class Endless(Dataset):
    def __len__(self): return 10 ** 6
    def __getitem__(self, i):
        time.sleep(0.002)
        return rl.zeros(1000)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file: return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError: return False


def group_members(group):
    """Processes of a process group that still run."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or not alive(name): continue
        try:
            if os.getpgid(int(name)) == group: found.append(int(name))
        except ProcessLookupError: pass
    return found


def environment(**more):
    """This process's, in which a new one finds this rushlight."""
    path = os.pathsep.join(p for p in (os.path.dirname(os.path.dirname(rl.__file__)), os.environ.get("PYTHONPATH")) if p)
    return {**os.environ, "PYTHONPATH": path, **more}


def loading_program(method):
    """A program that loads for ever, in a process group of its own; returns when its workers are up."""
    code = textwrap.dedent(PROGRAM).format(here=HERE, method=method)
    program = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment())
    workers = program.stdout.readline().split()
    if len(workers) != 2:
        program.kill()
        raise AssertionError(program.stderr.read())
    assert all(alive(pid) for pid in workers)
    return program


def gone(group, seconds=10):
    deadline = time.monotonic() + seconds
    while group_members(group):
        if time.monotonic() > deadline: return False
        time.sleep(0.05)
    return True


def shared_files(): return {name for name in os.listdir("/dev/shm") if name.startswith("rushlight")}


@pytest.mark.parametrize("method", METHODS)
def test_ctrl_c_leaves_no_process_and_no_file(method):
    before = shared_files()
    program = loading_program(method)
    os.killpg(program.pid, signal.SIGINT)                                     # what a terminal does: the whole group
    try: _, errors = program.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)
        raise
    assert "KeyboardInterrupt" in errors and program.returncode != 0
    assert gone(program.pid), group_members(program.pid)
    assert shared_files() <= before


@pytest.mark.parametrize("method", METHODS)
def test_workers_end_when_their_loader_is_killed(method):
    before = shared_files()
    program = loading_program(method)
    program.kill()
    program.communicate(timeout=60)
    assert gone(program.pid), group_members(program.pid)
    assert shared_files() <= before


class Enormous(Dataset):
    def __len__(self): return 2
    def __getitem__(self, i): return rl.zeros(1).expand(1 << 50)


SIZES = r"unable to make shared memory of (\d+) bytes: .* has (\d+) bytes left"


def test_too_little_memory_is_noticed_before_it_is_written():
    with pytest.raises(RuntimeError, match="(?s)Caught RuntimeError in DataLoader worker process 0.*" + SIZES): list(DataLoader(Enormous(), num_workers=1))
    with pytest.raises(RuntimeError, match=SIZES): rl._C._new_shared_storage(1 << 52)


SMALL = """
    import re
    import rushlight as rl
    from rushlight.utils.data import DataLoader
    assert rl.zeros(1000).share_memory_().is_shared()
    big = rl.ones(3 << 18)
    for share in (lambda: big.share_memory_(), lambda: next(iter(DataLoader(big.view(3, -1), batch_size=3, num_workers=1)))):
        message = ""
        try: share()
        except RuntimeError as error: message = str(error)
        found = re.search({sizes!r}, message)
        assert found and 0 <= int(found[1]) - (3 << 20) < 4096 and int(found[2]) <= 1 << 20 and "/dev/shm" in found[0], message
    assert big.sum().item() == 3 << 18 and not big.is_shared()
    batch = next(iter(DataLoader(big.view(-1, 64), batch_size=3, num_workers=1)))
    assert batch.sum().item() == 192 and batch.is_shared()
    print("right")
"""


def test_a_small_shm_gives_both_sizes():
    """/dev/shm of 1 MB, in a mount namespace of its own; only without memfd does its size matter."""
    code = textwrap.dedent(SMALL).format(sizes=SIZES)
    command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o size=1m none /dev/shm && exec "$0" -c "$1"', sys.executable, code]
    try: allowed = subprocess.run(["unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=1m none /dev/shm"], capture_output=True).returncode == 0
    except FileNotFoundError: allowed = False
    if not allowed: pytest.skip("mounting a file system is not allowed here")
    done = subprocess.run(command, capture_output=True, text=True, env=environment(RUSHLIGHT_SHARED_MEMORY="shm"))
    assert done.stdout.strip() == "right", done.stderr
