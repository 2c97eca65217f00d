"""What the matrix templates share: their arithmetic types, internal functions, switches and register transposes."""
from contextlib import contextmanager

from rushlight.compiler.emit.ir import Fn, Module, Val, llvm_elem
from rushlight.compiler.emit.values import prefetch

# dtype -> (element in memory and registers, bytes, lanes of one vector register of 32 bytes)
ELEMENT = {'f32': ('float', 4, 8), 'f64': ('double', 8, 4), 'i64': ('i64', 8, 4), 'i32': ('i32', 4, 8), 'i16': ('i16', 2, 16),
           'i8': ('i8', 1, 32), 'u8': ('u8', 1, 32)}


class Internal(Fn):
    """A function only its own module sees. Arguments are pointers and integers; it returns nothing."""

    def __init__(self, module, name, args):
        super().__init__(module, name, args)
        self.head = self.head.replace('define ', 'define internal ', 1)


class Kernel(Fn):
    """A kernel of the runtime's ABI. `n(i)` and `p(i)` load its integers and pointers where they are first wanted."""

    def __init__(self, module, name):
        super().__init__(module, name, [('ptr', 'p'), ('ptr', 'n'), ('ptr', 's'), ('ptr', 'scratch'), ('i64', 'lo'), ('i64', 'hi')], 'i64')
        self.pointers, self.integers, self.scalars, self.scratch, self.lo, self.hi = self.args

    def n(self, i):
        return self.load(self.at(self.integers, self.const(i), 'i64'), 'i64')

    def p(self, i):
        return self.load(self.at(self.pointers, self.const(i), 'ptr'), 'ptr')


def invoke(f, name, *args):
    """Call a void function of this module."""
    f.line(f'call void @{name}({", ".join(f"{a.type} {a.name}" for a in args)})')


def element(f, base, index, elem):
    """The address of base[index]; inbounds, so that address arithmetic folds into the memory operand."""
    name = index.name if isinstance(index, Val) else str(index)
    if name == '0':
        return base
    return f.emit(f'getelementptr inbounds {llvm_elem(elem)}, ptr {base.name}, i64 {name}', 'ptr')


def offset(f, base, byte_count):
    """The address `byte_count` bytes after base."""
    return f.emit(f'getelementptr inbounds i8, ptr {base.name}, i64 {byte_count.name}', 'ptr')


@contextmanager
def switch(f, value, count):
    """`with switch(f, v, 3) as case: for i in range(3): with case(i): ...`: one jump; a value outside [0, count) does nothing."""
    labels, end = [f.fresh() for _ in range(count)], f.fresh()
    f.line(f'switch i64 {value.name}, label {end} [' + ' '.join(f'i64 {i}, label {label}' for i, label in enumerate(labels)) + ']')

    @contextmanager
    def case(i):
        f.label(labels[i])
        yield
        f.line(f'br label {end}')
    yield case
    f.label(end)


def multiply_add(f, a, b, c):
    """One link of a chain: fused for floats, wrapping for integers."""
    return f.fma(a, b, c) if a.is_float else a * b + c


def lane_mask(f, count, lanes):
    narrow = f.convert('trunc', count, 'i32')
    return f.lanes(lanes) < f.splat(narrow, lanes)


def transpose(f, rows):
    """Transpose w vectors of w lanes (w a power of two), by log2(w) rounds of exchanging halves of growing blocks."""
    w = len(rows)
    span = 1
    while span < w:
        out = list(rows)
        low = [(i - span + w) if i & span else i for i in range(w)]
        high = [i + w if i & span else i + span for i in range(w)]
        for i in range(w):
            if not i & span:
                a, b = rows[i], rows[i + span]
                out[i], out[i + span] = f.shuffle(a, low, b), f.shuffle(a, high, b)
        rows, span = out, span * 2
    return rows


__all__ = ['ELEMENT', 'Internal', 'Kernel', 'Module', 'Val', 'element', 'invoke', 'lane_mask', 'multiply_add', 'offset', 'prefetch',
           'switch', 'transpose']
