"""torch.nn.quantized: the older name of torch.ao.nn.quantized."""
from ...ao.nn.quantized import FloatFunctional  # noqa: F401
