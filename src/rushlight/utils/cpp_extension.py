"""torch.utils.cpp_extension: C++ written against torch's headers cannot be built here; operators are added in Python (`rushlight.library`)."""
from __future__ import annotations

CUDA_HOME = ROCM_HOME = None


def _unavailable(*args, **kwargs):
    raise RuntimeError("torch.utils.cpp_extension: extensions compiled against torch's C++ are not supported; write the operator in Python")


load = load_inline = include_paths = CppExtension = CUDAExtension = _unavailable


class BuildExtension:
    def __init__(self, *args, **kwargs) -> None: _unavailable()
