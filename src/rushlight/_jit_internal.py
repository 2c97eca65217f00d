"""torch._jit_internal: marks for TorchScript, without effect."""
from __future__ import annotations

from typing import Any

from .jit import Final, annotate, export, ignore, is_scripting, unused  # noqa: F401
from .jit.annotations import BroadcastingList1, BroadcastingList2, BroadcastingList3  # noqa: F401


def _overload(func): return func
def _overload_method(func): return func
def _copy_to_script_wrapper(fn): return fn
def weak_script(fn): return fn


class FunctionModifiers:
    UNUSED = EXPORT = IGNORE = DEFAULT = COPY_TO_SCRIPT_WRAPPER = ""


def boolean_dispatch(arg_name: str, arg_index: int, default: bool, if_true, if_false, module_name: str, func_name: str) -> Any:
    """One function or the other, by an argument."""
    def call(*args, **kwargs):
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)
    call.__name__ = func_name
    return call
