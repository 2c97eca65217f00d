"""torch.fft: Fourier transforms. Everything comes from the registry (ops/fft.py)."""
from . import faces as _faces

globals().update(_faces.functions("fft"))
