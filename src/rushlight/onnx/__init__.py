"""torch.onnx: writing ONNX files is not available yet."""
from __future__ import annotations

import importlib as _importlib
from enum import IntEnum

__all__ = ["export", "is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic", "TensorProtoDataType", "select_model_mode_for_export"]


class TensorProtoDataType(IntEnum):
    """ONNX's numbers for dtypes."""

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16


class OperatorExportTypes(IntEnum):
    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(IntEnum):
    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


def export(*args, **kwargs):
    raise NotImplementedError("torch.onnx.export is not available yet")


def is_in_onnx_export() -> bool:
    """Whether a model is being written to ONNX: never."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn, opset_version: int) -> None:
    """Kept for nobody: there is no exporter to use it."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """There is nothing to take away."""


def __getattr__(name: str):
    if name in ("operators", "symbolic_helper", "symbolic_opset9", "symbolic_opset11"):
        return _importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'torch.onnx' has no attribute '{name}'")
