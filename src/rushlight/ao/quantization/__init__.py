"""torch.ao.quantization: not there yet. The stubs that float models contain pass their input on; everything that would quantise raises."""
from __future__ import annotations

from rushlight.nn import Module

__all__ = ["QuantStub", "DeQuantStub"]


class QuantStub(Module):
    """Where a model would quantise its input: passes it on."""

    def __init__(self, qconfig=None) -> None:
        super().__init__()
        self.qconfig = qconfig

    def forward(self, x): return x


class DeQuantStub(QuantStub):
    """Where a model would turn its result to floats: passes it on."""


def _absent(name: str):
    def call(*args, **kwargs):
        raise NotImplementedError(f"torch.ao.quantization.{name}: quantisation is not available yet")
    call.__name__ = call.__qualname__ = name
    return call


for _name in """QConfig convert default_observer default_per_channel_weight_observer default_weight_observer fuse_modules fuse_modules_qat get_default_qat_qconfig
        get_default_qconfig prepare prepare_qat quantize_dynamic quantize QuantWrapper float_qparams_weight_only_qconfig default_dynamic_qconfig
        default_qconfig MinMaxObserver HistogramObserver PerChannelMinMaxObserver FakeQuantize""".split():
    globals()[_name] = _absent(_name)
