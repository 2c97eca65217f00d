"""Every operator, one place each. Importing this package registers them all."""
from . import activation, arrange, create, elementwise, index, loss, mathematics, matmul, norm, optimizer, random, reduce, views  # noqa: F401
from . import attention, contraction, loss_margin, loss_sequence, segment  # noqa: F401
from . import recurrent  # noqa: F401
from . import bessel, gamma, orthogonal, signal_windows, special  # noqa: F401
from . import adaptive, pad, patches, pool, resample, sample_grid  # noqa: F401
from . import count, index_more, sort  # noqa: F401
from . import conv  # noqa: F401
from . import factor, fft, solve, spectrogram, spectrum  # noqa: F401
from . import complex_numbers  # noqa: F401
from . import distance, integrate, masked  # noqa: F401


def __getattr__(name):
    """`torch.ops.NAMESPACE.NAME`: operators by name. This package has torch's name for that; see `rushlight._ops`."""
    if name.startswith("__"):
        raise AttributeError(name)
    from .._ops import ops
    return getattr(ops, name)
