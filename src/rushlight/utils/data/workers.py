"""The loader's side of worker processes: who fetches what, in which order batches come out, and what happens when one dies."""
from __future__ import annotations

import importlib
import multiprocessing
import multiprocessing.connection
import time
import weakref
from collections import deque
from pickle import PicklingError

from . import worker as worker_side
from .transport import Channel, Closed

PATIENCE = 0.5                   # seconds between two looks at whether the workers live


class Pool:
    """The workers of one loader, alive until `close` or until nobody holds the pool. `seed`: of their random numbers, for as long as they live."""

    def __init__(self, loader, seed):
        context = loader.multiprocessing_context
        if context is None or isinstance(context, str): context = multiprocessing.get_context(context)
        options = (loader._auto_collation, loader.collate_fn, loader.drop_last, loader._is_stream)
        self.channels, self.processes = [], []
        self.asked = 0                                              # questions in the pool's life: an answer to an older pass is known by its number
        self._iterator = None                                       # weak: a pool is held by its iterators, not the other way round
        method = context.get_start_method()
        forked = method == "fork"
        if forked:                                                  # what every worker needs is loaded once, before they are made
            importlib.import_module("numpy")                        # they seed it
            from ... import plans
            plans.source_stamp()                                    # finding any kernel takes it
        for i in range(loader.num_workers):
            ours, theirs = context.Pipe()
            channel = Channel(theirs)
            inherited = [*self.channels, Channel(ours)] if forked else []
            process = context.Process(target=worker_side.run, args=(channel, inherited, loader.dataset, options, i, loader.num_workers, seed, loader.worker_init_fn),
                                      daemon=True)
            try: process.start()
            except (AttributeError, TypeError, PicklingError) as error:
                error.add_note(f"The workers of this DataLoader are started by {method!r} (multiprocessing's own choice from Python 3.14 on is 'forkserver', before it was 'fork'): the data set and the "
                               "functions given to the loader are pickled. multiprocessing_context='fork' does without.")
                raise
            theirs.close()
            self.channels.append(Channel(ours))
            self.processes.append(process)
        self._finalizer = weakref.finalize(self, _end, self.channels, self.processes)

    def iterator(self, loader):
        """A new pass. There is one iterator at a time: who still holds the last one sees it begin anew, as with torch."""
        found = self._iterator() if self._iterator else None
        if found is None:
            found = ManyIterator(loader, self)
            self._iterator = weakref.ref(found)
        found.begin()
        return found

    def close(self, patience=5.0):
        if self._finalizer.detach(): _end(self.channels, self.processes, patience)


def _end(channels, processes, patience=5.0):
    """Closing the connections ends the workers; one that does not hear it in time, since its dataset is at work, is ended."""
    for c in channels: c.close()
    deadline = time.monotonic() + patience
    for p in processes:
        try:
            p.join(max(0.05, deadline - time.monotonic()))
            if p.is_alive():
                p.terminate()
                p.join(1)
            if p.is_alive(): p.kill()
        except (AssertionError, OSError, ValueError): pass         # a forked copy of this process has no say in them


class ManyIterator:
    """One pass over the data, fetched by worker processes. Batches come in the sampler's order, whoever is first (`in_order=False`: as they come)."""

    def __init__(self, loader, pool):
        self.loader, self.pool = loader, pool

    def begin(self):
        loader, workers = self.loader, self.loader.num_workers
        self.sampler = iter(loader._index_sampler)
        self.ready: dict = {}                                       # number -> batch that came early
        self.waiting: deque = deque()                               # numbers asked for, in order
        self.owner: dict = {}                                       # number -> worker
        self.open = [True] * workers                                # a stream's worker that has more
        self.turn = 0
        self.done = False
        for i in range(workers): self._tell(i, ("begin", None))
        for _ in range((loader.prefetch_factor or 2) * workers): self._ask()

    def __iter__(self): return self
    def __len__(self): return len(self.loader._index_sampler)

    def _tell(self, i, message):
        try: self.pool.channels[i].send(message)
        except Closed: self._dead(i)

    def _ask(self):
        """Give the next index to the next worker that takes any."""
        if not any(self.open): return
        try: index = next(self.sampler)
        except StopIteration: return
        while not self.open[self.turn]: self.turn = (self.turn + 1) % len(self.open)
        i, self.turn = self.turn, (self.turn + 1) % len(self.open)
        number, self.pool.asked = self.pool.asked, self.pool.asked + 1
        self.owner[number] = i
        self.waiting.append(number)
        self._tell(i, ("fetch", (number, index)))

    def __next__(self):
        while not self.done:
            if not self.waiting:
                self.done = True
                break
            number = self.waiting[0] if self.loader.in_order else next((n for n in self.waiting if n in self.ready), None)
            if number is None or number not in self.ready:
                self._receive()
                continue
            self.waiting.remove(number)
            batch = self.ready.pop(number)
            i = self.owner.pop(number)
            if isinstance(batch, worker_side.End):
                self.open[i] = False
                self._ask()
                continue
            self._ask()
            if isinstance(batch, worker_side.ExceptionWrapper):
                self._finish()
                batch.reraise()
            return batch
        self._finish()
        raise StopIteration

    def _receive(self):
        """One message from any worker; a connection that ends without one is a worker that died."""
        channels, timeout = self.pool.channels, self.loader.timeout
        deadline = time.monotonic() + timeout if timeout else None
        while not (ready := multiprocessing.connection.wait(channels, PATIENCE if deadline is None else max(0, min(PATIENCE, deadline - time.monotonic())))):
            # A connection ends when its last holder does, and that may be a process which the worker started.
            for i, process in enumerate(self.pool.processes):
                if not process.is_alive() and not multiprocessing.connection.wait([channels[i]], 0): self._dead(i)
            if deadline is not None and time.monotonic() >= deadline:
                self._finish()
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds")
        for channel in ready:
            try: number, batch = channel.receive()
            except Closed:
                self._dead(channels.index(channel))
                return
            if number in self.owner: self.ready[number] = batch     # else of a pass that was left half-way

    def _dead(self, i):
        process = self.pool.processes[i]
        process.join(1)
        code, pid = process.exitcode, process.pid
        self.done = True
        self.loader._drop_pool()
        self.pool.close(patience=0)                                 # the error is what matters now, not what the others were at
        if code is not None and code < 0:
            import signal
            try: name = signal.strsignal(-code)
            except ValueError: name = str(-code)
            raise RuntimeError(f"DataLoader worker (pid {pid}) is killed by signal: {name}. ")
        raise RuntimeError(f"DataLoader worker (pid(s) {pid}) exited unexpectedly" + ("" if code is None else f" with exit code {code}") +
                           ". Details are lost due to multiprocessing. Rerunning with num_workers=0 may give better error trace.")

    def _finish(self):
        self.done = True
        self.waiting.clear()
        if not self.loader.persistent_workers: self.pool.close()

    def __del__(self):
        if not getattr(self, "done", True): self._finish()
