"""Anomaly mode: every node remembers the forward line that made it, and a NaN gradient is an error."""
from __future__ import annotations

from .. import _C
from .._C import warn

__all__ = ["detect_anomaly", "set_detect_anomaly"]


class detect_anomaly:
    """While active, nodes keep the stack of the forward call, and backward stops at the first NaN and shows that stack.

    >>> with rushlight.autograd.detect_anomaly():
    ...     loss = model(x).sum()
    ...     loss.backward()
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.before = _C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled()
        self.check_nan = check_nan
        warn("Anomaly Detection has been enabled: every call keeps its traceback and every gradient is looked at, which takes time. It is for finding errors.")

    def __enter__(self) -> None:
        self.before = _C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled()
        _C.set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        _C.set_anomaly_enabled(*self.before)


class set_detect_anomaly:
    """Switches anomaly mode at once; as a context manager it switches back at the end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = _C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled()
        _C.set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _C.set_anomaly_enabled(*self.before)


def _forward_stack() -> list[str]:
    """The runtime calls this when it makes a node: the user's stack, without this frame."""
    import traceback

    return traceback.format_stack()[:-1]


def _report(name: str, metadata: dict | None) -> None:
    """The runtime calls this when the node `name` failed: where its forward was called."""
    stack = (metadata or {}).get("traceback_")
    if stack is None:
        warn(f"Error detected in {name}. Its forward was called before anomaly detection was on, so where is not known: put both passes into detect_anomaly().")
        return
    warn(f"Error detected in {name}. Traceback of forward call that caused the error:\n{''.join(stack)}")
    while (metadata := metadata.get("parent_")) is not None:
        stack = metadata.get("traceback_")
        if stack is None:
            warn("No forward pass information available for the function that made it.")
            return
        warn(f"\n\nPrevious calculation was induced by a backward. Traceback of forward call that induced the previous "
             f"calculation:\n{''.join(stack)}")
