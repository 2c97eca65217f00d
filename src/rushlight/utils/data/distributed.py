"""A sampler that gives each process its share of the data."""
from __future__ import annotations

import math

import rushlight as rl

from .sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """The indices of one of `num_replicas` processes: every `num_replicas`-th of a common order, shuffled by seed and epoch (`set_epoch`)."""

    def __init__(self, dataset, num_replicas: int | None = None, rank: int | None = None, shuffle: bool = True, seed: int = 0, drop_last: bool = False) -> None:
        if num_replicas is None or rank is None:
            import rushlight.distributed as dist
            if not dist.is_available():
                raise RuntimeError("Requires distributed package to be available")
            num_replicas = dist.get_world_size() if num_replicas is None else num_replicas
            rank = dist.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank, self.epoch, self.drop_last = dataset, num_replicas, rank, 0, drop_last
        count = len(dataset)
        self.num_samples = math.ceil((count - num_replicas) / num_replicas) if drop_last and count % num_replicas else math.ceil(count / num_replicas)
        self.total_size, self.shuffle, self.seed = self.num_samples * num_replicas, shuffle, seed

    def __iter__(self):
        count = len(self.dataset)
        if self.shuffle:
            indices = rl.randperm(count, generator=rl.Generator().manual_seed(self.seed + self.epoch)).tolist()
        else:
            indices = list(range(count))
        if self.drop_last:
            indices = indices[:self.total_size]
        else:                                            # all processes get as many: the first indices again
            missing = self.total_size - len(indices)
            indices += (indices * math.ceil(missing / max(count, 1)))[:missing]
        return iter(indices[self.rank:self.total_size:self.num_replicas])

    def __len__(self) -> int: return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass be shuffled otherwise than the one before."""
        self.epoch = epoch
