"""Every operator, one place each. Importing this package registers them all."""
from . import activation, create, elementwise, index, loss, matmul, norm, optimizer, random, reduce, views  # noqa: F401
