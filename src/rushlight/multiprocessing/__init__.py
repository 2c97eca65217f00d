"""Python's multiprocessing, with tensors that travel as shared memory: a tensor put in a queue or given to a process
is not copied, both sides see its writes.

Importing this module is what teaches pickling between processes about tensors; the names are multiprocessing's own.
"""
from __future__ import annotations

import multiprocessing
import sys
from multiprocessing import *  # noqa: F403

from .reductions import init_reductions
from .spawn import ProcessContext, ProcessExitedException, ProcessRaisedException, SpawnContext, spawn, start_processes

__all__ = [*multiprocessing.__all__, "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies", "get_sharing_strategy",
           "set_sharing_strategy", "spawn", "start_processes"]

_STRATEGIES = {"file_descriptor"} if sys.platform != "win32" else set()


def get_all_sharing_strategies() -> set[str]:
    """How memory can be shared here: by passing file descriptors, which leaves nothing behind when a process dies."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    if new_strategy not in _STRATEGIES:
        raise ValueError(f"unknown sharing strategy '{new_strategy}': this platform has {sorted(_STRATEGIES)}")


init_reductions()
