"""torch.profiler: labels cost nothing and mean nothing yet; recording a profile raises. `rushlight.explain` and `RUSHLIGHT_LOG` show what calls are made of."""
from __future__ import annotations

import functools
from enum import Enum

__all__ = ["profile", "record_function", "schedule", "ProfilerActivity", "ProfilerAction", "tensorboard_trace_handler", "supported_activities"]


class ProfilerActivity(Enum):
    """Where time can be spent."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a profiler does at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


class DeviceType(Enum):
    CPU = 0
    CUDA = 1


class record_function:
    """A label around a piece of code, as a block or a decorator."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args

    def __enter__(self): return self
    def __exit__(self, *exc) -> bool: return False

    def __call__(self, function):
        @functools.wraps(function)
        def labelled(*args, **kwargs):
            with self:
                return function(*args, **kwargs)
        return labelled


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0):
    """What to do at each step, as a function of its number: wait, warm up, record, and again."""
    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        cycle = wait + warmup + active
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        step %= cycle
        if step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if step < cycle - 1 else ProfilerAction.RECORD_AND_SAVE
    return action


def kineto_available() -> bool: return False
def supported_activities() -> set: return {ProfilerActivity.CPU}


class profile:
    """Recording where time goes: not available yet, and it says so when it is entered."""

    def __init__(self, *, activities=None, schedule=None, on_trace_ready=None, record_shapes=False, profile_memory=False, with_stack=False, with_flops=False,
                 with_modules=False, experimental_config=None, execution_trace_observer=None, acc_events=False, use_cuda=None,
                 custom_trace_id_callback=None, post_processing_timeout_s=None) -> None:
        self.activities = activities

    def start(self) -> None:
        raise NotImplementedError("torch.profiler.profile is not available yet; RUSHLIGHT_LOG=time prints where time goes")

    def __enter__(self): self.start()
    def __exit__(self, *exc) -> bool: return False


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None, use_gzip: bool = False):
    """A handler for traces, of which there are none."""
    def handle(prof) -> None: raise NotImplementedError("torch.profiler: there is no trace to write")
    return handle
