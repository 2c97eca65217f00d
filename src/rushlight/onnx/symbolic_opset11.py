"""The translations of operators into ONNX: there is no exporter yet, so calling one raises."""
from .symbolic_helper import _unavailable

select = squeeze = unsqueeze = reshape = cast = add = mul = _unavailable
