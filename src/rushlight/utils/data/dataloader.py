"""DataLoader: batches from a dataset, fetched in this process or by workers (workers.py)."""
from __future__ import annotations

import os

import rushlight as rl

from ..._C import warn
from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from .worker import Fetcher, get_worker_info

__all__ = ["DataLoader", "get_worker_info"]


class _InfiniteConstantSampler(Sampler):
    """What a stream is asked with: None for ever."""

    def __iter__(self):
        while True:
            yield None


class DataLoader:
    """Iterates over a dataset in batches.

    The order for a seed is torch's: each iterator draws one number from the generator (torch's base seed of workers), and a
    random sampler one more for its permutation.
    """

    __initialized = False
    _FIXED = frozenset(["batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"])

    def __class_getitem__(cls, item):
        return cls

    def __init__(self, dataset, batch_size: int | None = 1, shuffle: bool | None = None, sampler=None, batch_sampler=None,
                 num_workers: int = 0, collate_fn=None, pin_memory: bool = False, drop_last: bool = False, timeout: float = 0,
                 worker_init_fn=None, multiprocessing_context=None, generator=None, *, prefetch_factor: int | None = None,
                 persistent_workers: bool = False, pin_memory_device: str = "", in_order: bool = True) -> None:
        if num_workers < 0:
            raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing."
                             "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None.")
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if persistent_workers and num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if multiprocessing_context is not None and num_workers == 0:
            raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got num_workers=0")
        if isinstance(multiprocessing_context, str):
            import multiprocessing
            methods = multiprocessing.get_all_start_methods()
            if multiprocessing_context not in methods:
                raise ValueError("multiprocessing_context option should specify a valid start method in " + f"{methods!r}, but got "
                                 f"multiprocessing_context={multiprocessing_context!r}")
        if num_workers > (processors := len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or num_workers):
            warn(f"DataLoader: {num_workers} workers share the {processors} processors that this process may use; more workers than processors rarely help, and may hinder")
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.in_order = in_order
        self.persistent_workers = persistent_workers
        self._pool = None
        self._is_stream = isinstance(dataset, IterableDataset)
        if self._is_stream:
            if shuffle not in (None, False):
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified shuffle option, but got shuffle={shuffle}")
            if sampler is not None:
                raise ValueError(f"DataLoader with IterableDataset: expected unspecified sampler option, but got sampler={sampler}")
            if batch_sampler is not None:
                raise ValueError("DataLoader with IterableDataset: expected unspecified batch_sampler option, but got "
                                 f"batch_sampler={batch_sampler}")
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
        if sampler is None:
            if self._is_stream:
                sampler = _InfiniteConstantSampler()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.generator = generator
        self.collate_fn = collate_fn if collate_fn is not None else (default_collate if self._auto_collation else default_convert)
        self.__initialized = True

    def __setattr__(self, name: str, value) -> None:
        if self.__initialized and name in self._FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self):
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self):
        if self.num_workers == 0:
            return _Iterator(self)
        from .workers import Pool
        if self._pool is not None:
            return self._pool.iterator(self)
        pool = Pool(self, rl.empty((), dtype=rl.int64).random_(generator=self.generator).item())
        if self.persistent_workers:
            self._pool = pool
        return pool.iterator(self)

    def _drop_pool(self) -> None:
        self._pool = None

    def __len__(self) -> int:
        if not self._is_stream:
            return len(self._index_sampler)
        length = len(self.dataset)                    # what a stream says of itself; it may be wrong
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


class _Iterator:
    """One pass over the data, in this process."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._sampler_iter = iter(loader._index_sampler)
        self._base_seed = rl.empty((), dtype=rl.int64).random_(generator=loader.generator).item()
        self._fetch = Fetcher(loader.dataset, loader._auto_collation, loader.collate_fn, loader.drop_last, loader._is_stream)

    def __iter__(self):
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __next__(self):
        return self._fetch(next(self._sampler_iter))


# torch's names for the iterators
_BaseDataLoaderIter = _SingleProcessDataLoaderIter = _Iterator


def __getattr__(name: str):
    if name == "_MultiProcessingDataLoaderIter":
        from .workers import ManyIterator
        return ManyIterator
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
