"""Counting multiplications and additions: the products' share, by the shapes that calls see."""
from __future__ import annotations

import math

from rushlight import Tensor
from rushlight.overrides import TorchFunctionMode

__all__ = ["FlopCounterMode", "register_flop_formula"]


def _matmul(a: Tensor, b: Tensor, *rest, **kwargs) -> int:
    rows = math.prod(a.shape[:-1]) if a.dim() > 1 else 1
    columns = b.shape[-1] if b.dim() > 1 else 1
    batch = math.prod(b.shape[:-2]) // max(math.prod(a.shape[:-2]), 1) if b.dim() > a.dim() else 1
    return 2 * rows * a.shape[-1] * columns * max(batch, 1)


def _linear(x: Tensor, weight: Tensor, bias=None) -> int: return 2 * x.numel() * weight.shape[0]
def _addmm(c, a: Tensor, b: Tensor, *rest, **kwargs) -> int: return _matmul(a, b)


def _conv(x: Tensor, weight: Tensor, *rest, out: Tensor, **kwargs) -> int: return 2 * out.numel() * math.prod(weight.shape[1:])


def _attention(q: Tensor, k: Tensor, v: Tensor, *rest, **kwargs) -> int:
    return 2 * math.prod(q.shape[:-1]) * k.shape[-2] * (q.shape[-1] + v.shape[-1])


_FORMULAS = {"matmul": _matmul, "mm": _matmul, "bmm": _matmul, "linear": _linear, "addmm": _addmm, "baddbmm": _addmm,
             "scaled_dot_product_attention": _attention}
_WITH_RESULT = {f"conv{n}d": _conv for n in (1, 2, 3)}


def register_flop_formula(targets, get_raw: bool = False):
    """Decorator: how many operations a function takes, from its arguments."""
    def register(formula):
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            _FORMULAS[getattr(target, "__name__", str(target))] = formula
        return formula
    return register


class FlopCounterMode(TorchFunctionMode):
    """Counts inside its block, forward only: `get_total_flops()`, and by operator `get_flop_counts()["Global"]`."""

    def __init__(self, mods=None, depth: int = 2, display: bool = True, custom_mapping: dict | None = None) -> None:
        self.display, self.flop_counts = display, {"Global": {}}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if name in _FORMULAS:
            count = _FORMULAS[name](*args, **kwargs)
        elif name in _WITH_RESULT:
            count = _WITH_RESULT[name](*args, out=result, **kwargs)
        else:
            return result
        table = self.flop_counts["Global"]
        table[name] = table.get(name, 0) + count
        return result

    def get_total_flops(self) -> int: return sum(self.flop_counts["Global"].values())
    def get_flop_counts(self) -> dict: return {key: dict(value) for key, value in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        rows = [f"{name:<30} {count}" for name, count in self.flop_counts["Global"].items()]
        return "\n".join([*rows, f"{'Total':<30} {self.get_total_flops()}"])

    def __exit__(self, *exc) -> None:
        super().__exit__(*exc)
        if self.display:
            print(self.get_table())
