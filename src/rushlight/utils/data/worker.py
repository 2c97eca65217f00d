"""A worker process of the DataLoader: gets indices, fetches and collates, sends batches back."""
from __future__ import annotations

import random
import signal
import sys
import traceback
from dataclasses import dataclass
from typing import Any

from .transport import Channel, Closed

_info = None


@dataclass(frozen=True)
class WorkerInfo:
    """What a dataset may ask about the worker it runs in."""
    id: int
    num_workers: int
    seed: int
    dataset: Any


def get_worker_info() -> WorkerInfo | None:
    """About the worker process this code runs in (id, num_workers, seed, dataset); None in the main process."""
    return _info


class ExceptionWrapper:
    """An exception with its traceback as text, to be raised again in another process."""

    def __init__(self, where):
        kind, error, _ = sys.exc_info()
        self.kind, self.where = kind, where
        self.text = "".join(traceback.format_exception(kind, error, error.__traceback__))

    def reraise(self):
        message = f"Caught {self.kind.__name__} {self.where}.\nOriginal {self.text}"
        try: error = self.kind(message)
        except Exception: raise RuntimeError(message) from None          # noqa: BLE001 - a class that wants other arguments
        if isinstance(error, KeyError): error = _KeyError(message)
        raise error


class _KeyError(KeyError):
    """A KeyError shows the repr of its message, which hides the lines of a traceback."""
    def __str__(self): return self.args[0]


class End:
    """A stream has no more."""


class Fetcher:
    """Samples for an index: of a mapping, or the next of a stream."""

    def __init__(self, dataset, auto_collation, collate, drop_last, is_stream):
        self.dataset, self.auto, self.collate, self.drop_last = dataset, auto_collation, collate, drop_last
        self.stream, self.ended = iter(dataset) if is_stream else None, False
        self.many = None if is_stream else getattr(dataset, "__getitems__", None)

    def __call__(self, index):
        if self.stream is not None: return self._of_stream(index)
        if not self.auto: return self.collate(self.dataset[index])
        return self.collate(self.many(index) if self.many is not None else [self.dataset[i] for i in index])

    def _of_stream(self, index):
        if self.ended: raise StopIteration
        if not self.auto: return self.collate(next(self.stream))
        samples = []
        for _ in index:
            try: samples.append(next(self.stream))
            except StopIteration:
                self.ended = True
                break
        if not samples or self.drop_last and len(samples) < len(index): raise StopIteration
        return self.collate(samples)


def run(channel: Channel, inherited, dataset, options, worker, workers, seed, init):
    """The worker's life. `inherited`: the loader's ends of other workers' connections, which a fork hands down and which would keep them open."""
    global _info
    import numpy

    import rushlight as rl
    for other in inherited: other.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)                    # Ctrl-C is the main process's; it ends its workers
    rl.set_num_threads(1)
    # numpy mixes its seed as torch's workers do: what a dataset draws from numpy is the same there and here.
    numpy.random.seed(numpy.random.SeedSequence([worker, seed & 0xFFFFFFFF, seed >> 32, 0]).generate_state(4))
    seed += worker
    random.seed(seed)
    rl.manual_seed(seed)
    _info = WorkerInfo(worker, workers, seed, dataset)
    fetch = failure = None
    try:
        while True:
            task, value = channel.receive()
            if task == "begin":
                fetch = failure = None
                try:
                    if init is not None: init(worker)
                    init = None                                     # once in a worker's life
                    fetch = Fetcher(dataset, *options)
                except Exception: failure = ExceptionWrapper(f"in DataLoader worker process {worker}")       # noqa: BLE001
                continue
            number, index = value
            if failure is not None: answer = failure
            else:
                try: answer = fetch(index)
                except Exception as error:                         # noqa: BLE001 - whatever a dataset raises is raised in the loader
                    ended = isinstance(error, StopIteration) and options[-1]
                    answer = End() if ended else ExceptionWrapper(f"in DataLoader worker process {worker}")
            try: channel.send((number, answer))
            except Closed: raise
            except Exception: channel.send((number, ExceptionWrapper(f"in DataLoader worker process {worker}, sending a batch")))       # noqa: BLE001
            del answer
    except Closed: pass                                             # the loader is done, or gone
