"""The pointwise tail of a matrix product, emitted inside the template: bias, activation, residual, applied to a finished tile."""
from .. import symbolic
from ..graph import itemsize
from ..loops import closure
from . import values
from .llvm import At, Evaluator, Row


class EpilogueEmitter(Evaluator):
    """Expressions over the axes (batch, row, column) of a product; `product` is the expression that stands for the finished sum.
    `emit` has the signature that templates want. Pointers, integers and scalars are collected as they are first used."""

    def __init__(self, program, axes, product, root):
        # axes: {'batch': a or None, 'row': ..., 'column': ...}
        self.program, self.axes, self.product, self.root = program, axes, product, root
        self.inner, self.exprs = axes['column'], closure([root])
        self.ints, self.int_at, self.pointers, self.pointer_at, self.scalars, self.scalar_at = [], {}, [], {}, [], {}

    def emit(self, f, value, row, column, batch, pointer, integer, scalar):
        self.f, self.give_pointer, self.give_integer, self.give_scalar = f, pointer, integer, scalar
        self.top = Row(self, {})
        self._nowhere = None
        index = {a: v for a, v in ((self.axes['batch'], batch), (self.axes['row'], row)) if a is not None}
        if self.inner is None: at, here = At(None, 1), Row(self, index)
        else: at, here = At(column, value.width), Row(self, index)
        here.memo[self.product, 1] = value
        at.memo[self.product] = value
        if self.varies(self.root):
            here.prepare([e for e in self.exprs if not self.varies(e) and e is not self.product], {value.width})
            return here.element(self.root, at)
        return here.value(self.root, value.width)

    def n(self, x):
        x = self.program.simplify(x) if isinstance(x, symbolic.SymInt) else x
        if not isinstance(x, symbolic.SymInt): return self.f.const(x)
        key = symbolic.key(x)
        if key not in self.int_at:
            self.int_at[key] = len(self.ints)
            self.ints.append(x)
        return self.give_integer(self.int_at[key])

    def pointer(self, memory, offset=0):
        kind, what = memory.place
        key = (kind, what if isinstance(what, int) else id(what), symbolic.key(offset))
        if key not in self.pointer_at:
            self.pointer_at[key] = len(self.pointers)
            self.pointers.append((kind, what, offset * itemsize(memory.dtype)))
        return self.give_pointer(self.pointer_at[key])

    def scalar(self, index, kind, dtype):
        if kind == 'c': raise NotImplementedError('complex scalars in the tail of a product')
        if index not in self.scalar_at:
            self.scalar_at[index] = len(self.scalars)
            self.scalars.append(index)
        k = self.scalar_at[index]
        if kind in 'bi': return values.cast(self.f, self.give_scalar(k, 'i64'), 'i64', dtype)
        return values.cast(self.f, self.give_scalar(k), 'f64', dtype)
