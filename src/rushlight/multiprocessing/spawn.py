"""Several processes that run one function: `spawn(fn, args, nprocs)` calls `fn(i, *args)` in each. When one fails the others are ended, and the caller gets its traceback."""
from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import sys
import time
import traceback

from .._C import warn

__all__ = ["ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn", "start_processes"]

_LONGEST_TRACEBACK = 1 << 15              # fits in a pipe that nobody reads yet


class ProcessException(Exception):
    """One of the processes failed: which one (`error_index`), and its id."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    error_pid = property(lambda self: self.pid)
    def __reduce__(self): return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """It raised: the message has its traceback."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None: super().__init__(msg, error_index, error_pid)


class ProcessExitedException(ProcessException):
    """It ended otherwise: by sys.exit, or by a signal."""

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self): return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(function, index: int, args: tuple, errors) -> None:
    try: function(index, *args)
    except KeyboardInterrupt: pass                       # Ctrl-C reaches everyone; the parent reports it
    except Exception:
        errors.send(traceback.format_exc()[-_LONGEST_TRACEBACK:])
        sys.exit(1)


class ProcessContext:
    """The processes, still running; `join` waits for them."""

    def __init__(self, processes: list, errors: list) -> None:
        self.processes, self.errors, self._left = processes, errors, dict(enumerate(processes))

    def pids(self) -> list[int]: return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends, or the time is over. True: all have ended well. One that failed ends the others (after `grace_period`, by force) and is raised."""
        if not self._left: return True
        ended = multiprocessing.connection.wait([process.sentinel for process in self._left.values()], timeout=timeout)
        failed = None
        for index in [index for index, process in self._left.items() if process.sentinel in ended]:      # `is_alive` may still be true for a moment: joined below
            process = self._left.pop(index)
            process.join()
            if process.exitcode != 0 and failed is None: failed = index
        if failed is None: return not self._left
        self._end_the_others(30.0 if grace_period is None else grace_period)
        raise self._failure(failed)

    def _end_the_others(self, patience: float) -> None:
        for process in self._left.values(): process.terminate()
        until = time.monotonic() + patience
        for process in self._left.values():
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        self._left.clear()

    def _failure(self, index: int) -> ProcessException:
        process, errors = self.processes[index], self.errors[index]
        try: text = errors.recv() if errors.poll() else None
        except EOFError: text = None                     # it ended without a word
        if text is not None: return ProcessRaisedException(f"\n\n-- Process {index} terminated with the following error:\n{text}", index, process.pid)
        code = process.exitcode
        if code < 0:
            try: name = signal.Signals(-code).name
            except ValueError: name = f"<Unknown signal {-code}>"
            return ProcessExitedException(f"process {index} terminated with signal {name}", index, process.pid, code, name)
        return ProcessExitedException(f"process {index} terminated with exit code {code}", index, process.pid, code)


SpawnContext = ProcessContext                            # its older name


def start_processes(fn, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn") -> ProcessContext | None:
    """`spawn` with a choice of how processes start: spawn, fork or forkserver."""
    context = multiprocessing.get_context(start_method)
    processes, readers = [], []
    for index in range(nprocs):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, index, args, writer), daemon=daemon)
        process.start()
        writer.close()
        processes.append(process)
        readers.append(reader)
    running = ProcessContext(processes, readers)
    if not join: return running
    while not running.join(): pass
    return None


def spawn(fn, args: tuple = (), nprocs: int = 1, join: bool = True, daemon: bool = False, start_method: str = "spawn") -> ProcessContext | None:
    """Call `fn(i, *args)` in `nprocs` new processes, and wait for them; with `join=False` give the processes instead."""
    if start_method != "spawn":
        warn(f"This method only supports start_method=spawn (got: {start_method}): start_processes() takes the others", FutureWarning)
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
