"""torch.distributed: not there yet. `is_available()` says so, which is what programs ask first; the calls that need a process group raise."""
from __future__ import annotations

from enum import Enum
from typing import Any

__all__ = ["is_available", "is_initialized", "ReduceOp", "ProcessGroup", "group", "GroupMember"]


def is_available() -> bool:
    """Whether processes can work together: not yet."""
    return False


def is_initialized() -> bool: return False
def is_nccl_available() -> bool: return False
def is_gloo_available() -> bool: return False
def is_mpi_available() -> bool: return False
def is_ucc_available() -> bool: return False
def is_xccl_available() -> bool: return False
def is_torchelastic_launched() -> bool: return False


class ReduceOp(Enum):
    """How values of several processes are combined."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


class ProcessGroup:
    """Processes that work together: there are none."""


class Work:
    """A collective call under way: there is none."""


class group:
    WORLD = None


class GroupMember:
    WORLD = None
    NON_GROUP_MEMBER = object()


def _needs_group(name: str):
    def call(*args: Any, **kwargs: Any):
        raise RuntimeError(f"torch.distributed.{name}: distributed training is not available in this version of Rushlight")
    call.__name__ = call.__qualname__ = name
    return call


for _name in """init_process_group new_group barrier monitored_barrier all_reduce all_gather all_gather_object all_gather_into_tensor broadcast
        broadcast_object_list reduce reduce_scatter reduce_scatter_tensor gather gather_object scatter scatter_object_list send recv isend irecv all_to_all
        all_to_all_single batch_isend_irecv P2POp FileStore TCPStore HashStore PrefixStore Store init_device_mesh get_global_rank
        get_process_group_ranks""".split():
    globals()[_name] = _needs_group(_name)


def destroy_process_group(group=None) -> None:
    """There is nothing to end."""


_NOT_INITIALISED = "Default process group has not been initialized, please make sure to call init_process_group."


def get_rank(group=None) -> int:
    raise ValueError(_NOT_INITIALISED)


def get_world_size(group=None) -> int:
    raise ValueError(_NOT_INITIALISED)


def get_backend(group=None) -> str:
    raise ValueError(_NOT_INITIALISED)


def __getattr__(name: str):
    import importlib
    if name in ("rpc", "tensor", "device_mesh", "fsdp", "checkpoint", "algorithms", "distributed_c10d"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'torch.distributed' has no attribute '{name}'")
