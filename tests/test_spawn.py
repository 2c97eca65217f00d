"""multiprocessing.spawn: one function in several processes, and what the caller hears when one of them fails."""
import os
import pickle
import signal
import sys
import time

import pytest

import rushlight as rl
import rushlight.multiprocessing as mp


def write(index, shared): shared[index] = index + 1


def fail(index, how):
    if index == 0: time.sleep(60)
    if how == "raise": raise ValueError("broken")
    if how == "exit": sys.exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("start_method", ["spawn", "fork", "forkserver"])
def test_all_processes_write_the_same_memory(start_method):
    shared = rl.zeros(3).share_memory_()
    assert mp.start_processes(write, (shared,), nprocs=3, start_method=start_method) is None
    assert shared.tolist() == [1, 2, 3]


@pytest.mark.parametrize("how, kind, words", [("raise", mp.ProcessRaisedException, "Process 1 terminated with the following error:(?s:.*)ValueError: broken"),
                                              ("exit", mp.ProcessExitedException, "process 1 terminated with exit code 3"),
                                              ("kill", mp.ProcessExitedException, "process 1 terminated with signal SIGKILL")])
def test_one_that_fails_ends_the_others(how, kind, words):
    context = mp.start_processes(fail, (how,), nprocs=2, join=False, start_method="fork")
    with pytest.raises(kind, match=words) as raised:
        while not context.join(): pass
    assert raised.value.error_index == 1 and raised.value.error_pid == context.pids()[1]
    assert context.processes[0].exitcode == -signal.SIGTERM and not any(process.is_alive() for process in context.processes)
    again = pickle.loads(pickle.dumps(raised.value))
    assert type(again) is kind and vars(again) == vars(raised.value)


def test_spawn_waits_and_has_one_start_method():
    shared = rl.zeros(1).share_memory_()
    with pytest.warns(FutureWarning, match="only supports start_method=spawn"): mp.spawn(write, (shared,), start_method="fork")
    assert shared.item() == 1


def test_join_waits_for_a_process_that_says_it_has_ended():
    """A process closes its end of the pipe a moment before the system says that it is gone: join() is not False then."""
    for _ in range(20):
        context = mp.start_processes(time.sleep, nprocs=1, join=False, start_method="fork")
        assert context.join() and context.join()
