"""Every operator, one place each. Importing this package registers them all."""
from . import (  # noqa: F401  # noqa: F401  # noqa: F401  # noqa: F401  # noqa: F401  # noqa: F401  # noqa: F401
    activation,
    adaptive,
    arrange,
    attention,
    bessel,
    complex_numbers,  # noqa: F401
    contraction,
    conv,  # noqa: F401
    count,
    create,
    distance,
    elementwise,
    factor,
    fft,
    gamma,
    index,
    index_more,
    integrate,
    loss,
    loss_margin,
    loss_sequence,
    masked,
    mathematics,
    matmul,
    norm,
    optimizer,
    orthogonal,
    pad,
    patches,
    pool,
    random,
    recurrent,  # noqa: F401
    reduce,
    resample,
    sample_grid,
    segment,
    signal_windows,
    solve,
    sort,
    sparse,
    special,
    spectrogram,
    spectrum,
    views,
)


def __getattr__(name):
    """`torch.ops.NAMESPACE.NAME`: operators by name. This package has torch's name for that; see `rushlight._ops`."""
    if name.startswith("__"):
        raise AttributeError(name)
    from .._ops import ops
    return getattr(ops, name)
