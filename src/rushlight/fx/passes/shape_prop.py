"""Running a graph once to note every value's shape and dtype in its node's `meta["tensor_meta"]`."""
from __future__ import annotations

from typing import Any, NamedTuple

from ..interpreter import Interpreter
from ..node import Node, map_aggregate


class TensorMetadata(NamedTuple):
    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple
    memory_format: Any
    is_quantized: bool
    qparams: dict


def _extract_tensor_metadata(value, include_contiguity: bool = True) -> TensorMetadata:
    return TensorMetadata(value.shape, value.dtype, value.requires_grad, value.stride(), None, False, {})


class ShapeProp(Interpreter):
    """`ShapeProp(graph_module).propagate(*args)`."""

    def __init__(self, gm, fake_mode=None) -> None: super().__init__(gm)

    def run_node(self, n: Node):
        from rushlight import Tensor
        result = super().run_node(n)
        seen = []

        def note(x):
            if isinstance(x, Tensor):
                seen.append(x)
                return _extract_tensor_metadata(x)
            return x
        meta = map_aggregate(result, note)
        if seen:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args): return super().run(*args)
