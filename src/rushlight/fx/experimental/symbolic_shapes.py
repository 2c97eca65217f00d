"""Questions about sizes that a tracer may not know. Here every size is a number, and each question has its answer."""
from __future__ import annotations


class GuardOnDataDependentSymNode(RuntimeError):
    """A decision on a size that is not known. Never raised here."""


def guard_or_true(value) -> bool: return bool(value)
def guard_or_false(value) -> bool: return bool(value)
def guard_size_oblivious(value) -> bool: return bool(value)
def statically_known_true(value) -> bool: return bool(value)
def free_symbols(value) -> set: return set()
def free_unbacked_symbols(value) -> set: return set()
def is_concrete_int(value) -> bool: return isinstance(value, int)
def is_symbolic(value) -> bool: return False


class ShapeEnv:
    """What is known of unknown sizes: there are none."""
