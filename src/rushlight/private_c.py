"""Names of torch's private module `torch._C` that programs reach for. `rushlight._C` is our own runtime; asked for a name it has not, it asks here."""
from __future__ import annotations

import builtins

from . import _C


def _log_api_usage_once(event) -> None: pass
def _log_api_usage_metadata(*args, **kwargs) -> None: pass
def _set_grad_enabled(enabled) -> None: _C.set_grad_enabled(enabled)
def _current_graph_task_id() -> builtins.int: return _C.current_run()
def _will_engine_execute_node(node) -> builtins.bool: return _C.run_executes(node)
def _get_tracing_state(): return None
def _set_tracing_state(state) -> None: pass
def _is_tracing() -> builtins.bool: return False
def _get_accelerator(check=None): return _C.device("cpu")
def _cuda_getDeviceCount() -> builtins.int: return 0
def _is_torch_function_mode_enabled() -> builtins.bool: return _C.top_mode() is not None
def _is_torch_function_enabled() -> builtins.bool: return not _C.torch_function_disabled()
def _get_default_device() -> str: return "cpu"
def _get_privateuse1_backend_name() -> str: return "privateuseone"
def _jit_set_profiling_mode(mode): return False
def _jit_set_profiling_executor(mode): return False
def _jit_override_can_fuse_on_cpu(mode) -> None: pass
def _jit_override_can_fuse_on_gpu(mode) -> None: pass
def _jit_set_texpr_fuser_enabled(mode) -> None: pass
def _jit_set_nvfuser_enabled(mode) -> None: pass
def _debug_only_display_vmap_interpreter_stack(): return []
def _are_functorch_transforms_active() -> builtins.bool: return False
def _functorch_stack(): return []
def _autograd_init(): return True
def _has_storage(tensor) -> builtins.bool: return not tensor.is_meta


_has_mkldnn = _has_mkl = _has_cuda = _has_mps = has_openmp = has_mkl = False
has_lapack = has_spectral = True
_GLIBCXX_USE_CXX11_ABI = True
DisableTorchFunction = DisableTorchFunctionSubclass = _C.disable_torch_function
TensorBase = _TensorBase = _C.Tensor
_TensorMeta = type(_C.Tensor)
Graph = Node = Value = Block = ScriptMethod = ScriptModule = ScriptFunction = type("NotTorchScript", (), {"__doc__": "A part of TorchScript: nothing is one."})
ListType = TensorType = NoneType = ScriptModule


class _distributed_rpc:
    @staticmethod
    def _is_current_rpc_agent_set() -> builtins.bool: return False


class _nn:
    """`torch._C._nn`: what programs take from it."""

    @staticmethod
    def _parse_to(*args, **kwargs):
        from .tensor import parse_to
        device, dtype, non_blocking, _, memory_format = parse_to(args, kwargs)
        return device, dtype, non_blocking, memory_format


class _profiler:
    pass


class _VariableFunctionsMeta(type):
    def __getattr__(cls, name):
        import rushlight
        return getattr(rushlight, name)


class _VariableFunctions(metaclass=_VariableFunctionsMeta):
    """torch's functions, under the class that torch generates them in."""


def __getattr__(name: str):
    if name == "_LinAlgError":
        from .linalg import LinAlgError
        return LinAlgError
    raise AttributeError(f"module 'torch._C' has no attribute '{name}'")
