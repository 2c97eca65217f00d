"""Every operator, one place each. Importing this package registers them all."""
from . import activation, arrange, create, elementwise, index, loss, mathematics, matmul, norm, optimizer, random, reduce, views  # noqa: F401
from . import attention, contraction, loss_margin  # noqa: F401
from . import recurrent  # noqa: F401
from . import bessel, gamma, orthogonal, signal_windows, special  # noqa: F401
from . import adaptive, pad, patches, pool, resample  # noqa: F401
from . import count, sort  # noqa: F401
from . import conv  # noqa: F401
from . import factor, solve, spectrum  # noqa: F401
from . import complex_numbers  # noqa: F401
from . import masked  # noqa: F401
