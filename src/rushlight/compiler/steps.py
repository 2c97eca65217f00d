"""A launch, before slots: the kernel's text and its run-time operands, places still symbolic."""
from . import jit


class Step:
    """One launch: the kernel's text and its run-time operands, places still symbolic."""

    def __init__(self, context, units, grain, cost, scratch=None, loops=None, native=None, symbol='kernel'):
        self.native, self.loops, self.symbol = native, loops, symbol
        self.text = context.text() if native is None else None
        self.pointers, self.ints, self.scalars = context.pointers, context.ints, context.scalars
        self.units, self.grain, self.cost, self.scratch = units, grain, cost, scratch
        self.read, self.write = [], []
        self.passes, self.title = 1, native
        self.first_error = 0          # of a routine: where its errors begin in the recipe's table

    def reads(self): return self.read
    def writes(self): return self.write
    def single_pass(self): return self.passes == 1
    def buffers(self): return [what for kind, what, _ in self.pointers if kind == 'buffer']

    def recipe(self, program):
        if self.native is not None: kernel = ('native', self.native, self.first_error) if self.first_error else ('native', self.native)
        else: kernel = ('object', jit.compile(self.text)[0], self.symbol)
        def pointer(kind, what, offset):
            number = what if isinstance(what, int) else what.number
            return kind, number, -1 if isinstance(offset, int) and offset == 0 else program.slot(offset)
        return (kernel, [pointer(*p) for p in self.pointers], [program.slot(x) for x in self.ints], list(self.scalars),
                program.slot(self.units), program.slot(self.grain), program.slot(self.cost),
                -1 if self.scratch is None else program.slot(self.scratch))
