"""Every operator, one place each. Importing this package registers them all."""
from . import activation, arrange, create, elementwise, index, loss, mathematics, matmul, norm, optimizer, random, reduce, views  # noqa: F401
from . import attention, loss_margin  # noqa: F401
from . import recurrent  # noqa: F401
from . import bessel, gamma, orthogonal, special  # noqa: F401
from . import adaptive, pool  # noqa: F401
from . import sort  # noqa: F401
from . import conv  # noqa: F401
from . import factor  # noqa: F401
