"""Seeding and state of the default generator."""
from __future__ import annotations

from contextlib import contextmanager

from . import _C

__all__ = ["set_rng_state", "get_rng_state", "manual_seed", "seed", "initial_seed", "fork_rng"]

default_generator = _C.default_generator
Generator = _C.Generator


def manual_seed(seed) -> _C.Generator:
    """Start the default generator's stream of a seed (any integer from -2**63 to 2**64 - 1), and return the generator."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Start from a seed that the system gives; returns it."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed the default generator was last started from."""
    return default_generator.initial_seed()


def get_rng_state():
    """The default generator's state, a ByteTensor."""
    return default_generator.get_state()


def set_rng_state(new_state) -> None:
    """Continue from a state that get_rng_state gave."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices=None, enabled=True, _caller="fork_rng", _devices_kw="devices", device_type="cuda"):
    """Inside the block the generator may be used and seeded freely; afterwards it continues from where it was."""
    if not enabled:
        yield
        return
    before = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(before)
