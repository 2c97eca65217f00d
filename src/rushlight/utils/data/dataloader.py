"""DataLoader: batches from a dataset, in one process."""
from __future__ import annotations

import rushlight as rl

from .collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

__all__ = ["DataLoader", "get_worker_info"]


class _InfiniteConstantSampler(Sampler):
    """What a stream is asked with: None for ever."""

    def __iter__(self):
        while True:
            yield None


def get_worker_info():
    """About the current worker process: None, as loading happens in the process that asks."""
    return None


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
        if num_workers > 0:
            raise NotImplementedError(f"DataLoader: num_workers={num_workers} is not available yet; loading in worker processes comes "
                                      "later. "
                                      "Use num_workers=0, which loads in this process")
        if timeout < 0:
            raise ValueError("timeout option should be non-negative")
        if prefetch_factor is not None:
            raise ValueError("prefetch_factor option could only be specified in multiprocessing."
                             "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None.")
        if persistent_workers:
            raise ValueError("persistent_workers option needs num_workers > 0")
        if multiprocessing_context is not None:
            raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got num_workers=0")
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = None
        self.in_order = in_order
        self.persistent_workers = False
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
        return _Iterator(self)

    def __len__(self) -> int:
        if not self._is_stream:
            return len(self._index_sampler)
        length = len(self.dataset)                    # what a stream says of itself; it may be wrong
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)


class _Iterator:
    """One pass over the data."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._dataset = loader.dataset
        self._collate = loader.collate_fn
        self._sampler_iter = iter(loader._index_sampler)
        self._base_seed = rl.empty((), dtype=rl.int64).random_(generator=loader.generator).item()
        self._stream = iter(loader.dataset) if loader._is_stream else None
        self._ended = False
        self._fetch_many = None if loader._is_stream else getattr(loader.dataset, "__getitems__", None)

    def __iter__(self):
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __next__(self):
        index = next(self._sampler_iter)
        if self._stream is not None:
            return self._next_of_stream(index)
        if not self._loader._auto_collation:
            return self._collate(self._dataset[index])
        if self._fetch_many is not None:
            return self._collate(self._fetch_many(index))
        return self._collate([self._dataset[i] for i in index])

    def _next_of_stream(self, index):
        if self._ended:
            raise StopIteration
        if not self._loader._auto_collation:
            return self._collate(next(self._stream))
        samples = []
        for _ in index:
            try:
                samples.append(next(self._stream))
            except StopIteration:
                self._ended = True
                break
        if not samples or (self._loader.drop_last and len(samples) < len(index)):
            raise StopIteration
        return self._collate(samples)
