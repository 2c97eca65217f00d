"""torch.utils._python_dispatch: what programs ask of tensor subclasses that wrap other tensors. None do here: a subclass is one tensor."""
from __future__ import annotations

import contextlib


def is_traceable_wrapper_subclass(t) -> bool: return False
def is_traceable_wrapper_subclass_type(t) -> bool: return False


class TorchDispatchMode(contextlib.ContextDecorator):
    """A mode below autograd: not available; `torch.overrides.TorchFunctionMode` sees every call above it."""

    def __enter__(self):
        raise NotImplementedError("TorchDispatchMode is not available: use torch.overrides.TorchFunctionMode")

    def __exit__(self, *exc): return False


@contextlib.contextmanager
def _disable_current_modes():
    yield []


def _get_current_dispatch_mode(): return None
def _get_current_dispatch_mode_stack(): return []
