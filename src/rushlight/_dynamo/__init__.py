"""torch._dynamo: marks for torch's bytecode tracer. `rushlight.compile` records instead of reading bytecode, so none of them has anything to change."""
from __future__ import annotations

import importlib as _importlib
from types import SimpleNamespace as _Namespace
from typing import Any

from ..compiler.compiled_module import OptimizedModule  # noqa: F401

config: Any = _Namespace(cache_size_limit=8, recompile_limit=8, suppress_errors=False, capture_scalar_outputs=False, verbose=False, optimize_ddp=False,
                         capture_dynamic_output_shape_ops=False, skip_fwd_side_effects_in_bwd_under_checkpoint=False, assume_static_by_default=True,
                         automatic_dynamic_shapes=True, allow_unspec_int_on_nn_module=False, inline_inbuilt_nn_modules=True, accumulated_cache_size_limit=256,
                         compiled_autograd=False, numpy_default_float="float32", trace_numpy=True, dynamic_shapes=True)


def disable(fn=None, recursive: bool = True, *, reason=None, wrapping: bool = True):
    """The function itself, or a decorator that gives it."""
    return (lambda f: f) if fn is None else fn


def allow_in_graph(fn): return fn
def disallow_in_graph(fn): return fn
def assume_constant_result(fn): return fn
def graph_break(msg: str = "") -> None: pass
def nonstrict_trace(fn): return fn
def forbid_in_graph(fn): return fn
def mark_dynamic(t, index, **kwargs) -> None: pass
def maybe_mark_dynamic(t, index) -> None: pass
def mark_static(t, index=None) -> None: pass
def mark_static_address(t, guard: bool = False) -> None: pass
def is_compiling() -> bool: return False
def reset() -> None: pass
def list_backends(*args, **kwargs) -> list: return []


def optimize(*args, **kwargs):
    """`rushlight.compile` as a decorator."""
    from .. import compile
    return lambda fn: compile(fn)


def export(*args, **kwargs):
    raise NotImplementedError("torch._dynamo.export is not available")


def __getattr__(name: str):
    if name in ("utils", "eval_frame", "external_utils"):
        return _importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'torch._dynamo' has no attribute '{name}'")
