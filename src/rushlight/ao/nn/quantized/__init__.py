"""torch.ao.nn.quantized: what float models use of it."""
from __future__ import annotations

import rushlight as _rl
from rushlight.nn import Module


class FloatFunctional(Module):
    """Arithmetic as a module, so that it could be quantised: plain arithmetic here."""

    def forward(self, x): raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")
    def add(self, x, y): return _rl.add(x, y)
    def add_scalar(self, x, y): return _rl.add(x, y)
    def mul(self, x, y): return _rl.mul(x, y)
    def mul_scalar(self, x, y): return _rl.mul(x, y)
    def cat(self, x, dim: int = 0): return _rl.cat(x, dim=dim)
    def add_relu(self, x, y): return _rl.relu(_rl.add(x, y))
    def matmul(self, x, y): return _rl.matmul(x, y)
