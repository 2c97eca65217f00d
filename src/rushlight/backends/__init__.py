"""torch.backends: switches of libraries that are not here. Each can be asked (the answer is no) and set (it is remembered, without effect).

Programs import them as modules (`import torch.backends.cudnn as cudnn`), so each is one; they differ only in their switches, which the table
below lists.
"""
from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any

from .. import _C


class _Switches:
    """A group of settings such as `torch.backends.cuda.matmul`."""

    def __init__(self, **settings: Any) -> None:
        self.__dict__.update(settings)


class _Backend(ModuleType):
    """One absent library: what it answers, and its settings."""

    def __init__(self, name: str, settings: dict[str, Any]) -> None:
        super().__init__(f"{__name__}.{name}", f"torch.backends.{name}: the library is not used; settings are remembered, without effect.")
        self.__dict__.update(settings)
        self.__path__: list[str] = []

    def is_available(self) -> bool: return False
    def is_built(self) -> bool: return False
    def version(self): return None

    def is_acceptable(self, tensor) -> bool: return False

    @contextlib.contextmanager
    def flags(self, **settings):
        """The settings inside the block; what they were comes back after it."""
        before = {name: getattr(self, name, None) for name in settings}
        self.__dict__.update(settings)
        try:
            yield
        finally:
            self.__dict__.update(before)

    def set_flags(self, **settings):
        before = tuple(getattr(self, "_" + name if name == "enabled" else name, None) for name in settings)
        self.__dict__.update({name.removeprefix("_"): value for name, value in settings.items() if value is not None})
        return before


def _sdp_switches() -> dict[str, Any]:
    """Which ways attention may be computed. Here there is one, which every setting leaves as it is."""
    state = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}

    def pair(name: str):
        return {f"{name}_sdp_enabled": lambda: state[name], f"enable_{name}_sdp": lambda enabled: state.__setitem__(name, bool(enabled))}

    def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
        _C.warn("sdp_kernel is deprecated: nn.attention.sdpa_kernel takes its place", FutureWarning)
        return switched(enable_flash, enable_math, enable_mem_efficient, enable_cudnn)

    @contextlib.contextmanager
    def switched(enable_flash, enable_math, enable_mem_efficient, enable_cudnn):
        before = dict(state)
        state.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
        try:
            yield {}
        finally:
            state.update(before)

    return {"sdp_kernel": sdp_kernel, **pair("flash"), **pair("mem_efficient"), **pair("math"), **pair("cudnn"),
            "is_flash_attention_available": lambda: False}


_TABLE: dict[str, dict[str, Any]] = {
    "cuda": {"matmul": _Switches(allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True,
                                 allow_fp16_accumulation=False, fp32_precision="none"),
             "cufft_plan_cache": _Switches(size=0, max_size=0), "preferred_linalg_library": lambda backend=None: "default",
             "preferred_blas_library": lambda backend=None: "default", "can_use_flash_attention": lambda params, debug=False: False,
             "can_use_efficient_attention": lambda params, debug=False: False, **_sdp_switches()},
    "cudnn": {"enabled": True, "benchmark": False, "deterministic": False, "allow_tf32": True, "benchmark_limit": 10, "fp32_precision": "none",
              "conv": _Switches(fp32_precision="none"), "rnn": _Switches(fp32_precision="none"), "CUDNN_TENSOR_DTYPES": frozenset()},
    "mps": {"is_macos13_or_newer": lambda minor=0: False, "is_macos_or_newer": lambda major, minor: False},
    "mkl": {"VERBOSE_OFF": 0, "VERBOSE_ON": 1}, "mkldnn": {"enabled": True, "deterministic": False, "allow_tf32": True, "fp32_precision": "none",
                                                           "matmul": _Switches(fp32_precision="none"), "conv": _Switches(fp32_precision="none"),
                                                           "rnn": _Switches(fp32_precision="none")},
    "openmp": {}, "xnnpack": {"enabled": False}, "nnpack": {}, "miopen": {"immediate": False}, "cusparselt": {}, "mha": {"get_fastpath_enabled": lambda: True,
                                                                                                      "set_fastpath_enabled": lambda value: None},
    "quantized": {"engine": "none", "supported_engines": ["none"]},
    "opt_einsum": {"enabled": False, "strategy": None, "get_opt_einsum": lambda: None},
    "cpu": {"get_cpu_capability": lambda: "DEFAULT"},
}

for _name, _settings in _TABLE.items():
    _module = _Backend(_name, _settings)
    sys.modules[_module.__name__] = globals()[_name] = _module

cuda.is_built = lambda: False                                                               # type: ignore[name-defined]  # noqa: F821
fp32_precision = "none"


@contextlib.contextmanager
def __allow_nonbracketed_mutation():
    yield
