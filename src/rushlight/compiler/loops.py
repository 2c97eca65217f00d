"""The loop IR: kernels as nests of axes whose bodies are expressions at an index.

An `Axis` is one loop; an `Affine` is an index `c + Σ coef·axis` whose numbers are ints or SymInts, evaluated by the recipe, never by
the kernel. An `Expr` is a value at the current index: every index map of the graph (permute, slice, flip, expand, most reshapes) has
already disappeared into the Affines of the loads, so a transposed or sliced operand is just a load with other strides.

    Expr('load', ...)     memory, strides per axis, offset, and computed indices (a gather) with their strides
    Expr('index', ...)    an Affine as an i64 value (iota)
    Expr('reduce', ...)   its argument reduced along the row axis; available to the passes after the one that accumulates it
    Expr('combine', ...)  partial results of an earlier kernel, combined in their fixed order
    Expr('fold', ...)     its argument reduced along axes of its own, swept in order at each element
    any primitive's name  a pointwise value

A `Kernel` is what one function runs:

    for unit in units:                       parallel; cut by shape only
        for row in rows of the unit:         (a block of rows when columns are accumulated, else one)
            pass 0: for i in inner axis: ...   effects: accumulate row reductions, store, add to a column accumulator
            pass 1: for i in inner axis: ...   may use what pass 0 reduced
            row stores
"""
from . import symbolic
from .graph import itemsize

BLOCK = 4096          # elements of a row per partial result
ROWS = 64             # rows per partial result of a column reduction, and the arity of the tree that combines them
REDUCTIONS = ('reduce', 'argreduce')
# Worth a scratch row rather than a second evaluation.
DEAR = {'exp', 'exp2', 'expm1', 'log', 'log2', 'log10', 'log1p', 'sin', 'cos', 'tan', 'asin', 'acos', 'atan', 'sinh', 'cosh', 'tanh',
        'asinh', 'acosh', 'atanh', 'sigmoid', 'erf', 'erfc', 'erfinv', 'lgamma', 'digamma', 'pow', 'atan2', 'loop'}


def is_one(x): return isinstance(x, int) and x == 1
def is_zero(x): return isinstance(x, int) and x == 0


class Affine:
    """const + Σ coef * axis. terms: {axis number: coef}, no zero coefs."""
    __slots__ = ('terms', 'const')

    def __init__(self, terms=None, const=0):
        self.terms = {a: c for a, c in (terms or {}).items() if not is_zero(c)}
        self.const = const

    def __add__(self, o):
        terms = dict(self.terms)
        for a, c in o.terms.items(): terms[a] = terms[a] + c if a in terms else c
        return Affine(terms, self.const + o.const)
    def scale(self, k): return Affine({a: c * k for a, c in self.terms.items()}, self.const * k)
    def shift(self, k): return Affine(self.terms, self.const + k)
    @property
    def axes(self): return frozenset(self.terms)
    @property
    def key(self): return ('affine', tuple(sorted((a, symbolic.key(c)) for a, c in self.terms.items())), symbolic.key(self.const))
    def __repr__(self): return ' + '.join([f'{c}*i{a}' if not is_one(c) else f'i{a}' for a,
                                           c in sorted(self.terms.items())] + [str(self.const)] * (not is_zero(self.const))) or '0'


ZERO = Affine()


class Memory:
    """Where a value lives: a place of the recipe (('arg', k) ('dest', k) ('buffer', Buffer)), and its strides and offset in elements."""
    __slots__ = ('place', 'dtype', 'shape', 'strides', 'offset')

    def __init__(self, place, dtype, shape, strides, offset=0):
        self.place, self.dtype, self.shape, self.strides, self.offset = place, dtype, tuple(shape), tuple(strides), offset
    def __repr__(self): return f'{self.place[0]} {self.place[1]}'


class Buffer:
    """Memory made by the recipe. kind: output, hidden, temporary. Numbered by memory.py."""
    __slots__ = ('kind', 'dtype', 'shape', 'strides', 'elements', 'number', 'shared')

    def __init__(self, kind, dtype, shape, strides, elements):
        self.kind, self.dtype, self.shape, self.strides, self.elements = kind, dtype, shape, strides, elements
        self.number, self.shared = None, None
    def __repr__(self): return f'{self.kind}{"" if self.number is None else self.number}'


class Expr:
    __slots__ = ('op', 'args', 'dtype', 'axes', 'attrs', 'key', 'number')

    def __init__(self, op, args, dtype, axes, attrs, key, number):
        self.op, self.args, self.dtype, self.axes, self.attrs, self.key, self.number = op, args, dtype, axes, attrs, key, number

    def __repr__(self): return f'v{self.number}:{self.op}'

    def text(self):
        if self.op == 'load':
            a = self.attrs
            where = ' + '.join([f'i{x}*{s}' for x, s in a['strides'].items()] + [f'{e!r}*{s}' for e, s in zip(self.args, a['dynamic'])] +
                               ([str(a['offset'])] if not is_zero(a['offset']) else [])) or '0'
            return f'v{self.number} {self.dtype} = load {a["memory"]}[{where}]' + (' guarded' if a['guarded'] else '')
        if self.op == 'index': return f'v{self.number} {self.dtype} = index {self.attrs["affine"]}'
        extra = {k: v for k, v in self.attrs.items() if k not in ('memory', 'node')}
        inside = [f'v{a.number}' for a in self.args] + [f'{k}={v}' for k, v in extra.items()]
        return f'v{self.number} {self.dtype} = {self.op}({", ".join(inside)})'


def closure(roots, stop=()):
    """Expressions behind roots, operands first."""
    seen, todo = set(), list(roots)
    while todo:
        e = todo.pop()
        if e in seen: continue
        seen.add(e)
        if e not in stop: todo.extend(e.args)
    return sorted(seen, key=lambda e: e.number)


class Store:
    """expr goes to memory at the current index. strides: {axis: stride}."""
    __slots__ = ('expr', 'memory', 'strides', 'offset', 'node', 'kind', 'step', 'count')
    def __init__(self, expr, memory, strides, offset):
        self.expr, self.memory, self.strides, self.offset = expr, memory, strides, offset
        self.node = self.kind = self.step = self.count = None
    def __repr__(self): return f'{self.memory} <- v{self.expr.number}'


class Pass:
    def __init__(self): self.reduces, self.stores, self.columns, self.keep, self.reuse = [], [], [], {}, {}
    def operands(self):
        return [r.args[0] for r in self.reduces] + [c.expr for c in self.columns] + [s.expr for s in self.stores] + list(self.keep)


class Kernel:
    """form: 'nest' (map, rows, columns), 'flat' (blocks of one long row), 'scan', 'scatter', 'check'.
    sizes: of all axes. outer: axes iterated row by row; rows: column-reduced axes (in order); inner: the vectorised axes, in order, that
    schedule.py has made one (or none). stores, reduces (flat partials), columns (column partials): the effects."""

    def __init__(self, name, form, sizes):
        self.name, self.form, self.sizes = name, form, list(sizes)
        self.outer, self.rows, self.inner = [], [], None
        self.stores, self.columns, self.partials = [], [], []
        self.passes, self.row_stores, self.scratch = [], [], []
        self.reasons, self.attrs = {}, {}

    def roots(self): return [s.expr for s in self.stores] + [s.expr for s in self.columns] + [s.expr for s in self.partials]

    def bytes_per_element(self):
        """Rough memory traffic and work of one innermost element, in bytes; decides inline or parallel, nothing else."""
        total = 0
        for e in closure(self.roots() + list(self.attrs.get('roots', ()))):
            if e.op == 'load': total += itemsize(e.dtype)
            elif e.op in DEAR: total += 16
            else: total += 1
        return total + sum(itemsize(s.expr.dtype) for s in self.stores)

    def __str__(self):
        axis = lambda a: f'i{a}<{self.sizes[a]}'
        head = f'kernel {self.name} ({self.form})'
        if self.outer: head += '  for ' + ', '.join(map(axis, self.outer))
        if self.rows: head += f'  rows {", ".join(map(axis, self.rows))} in blocks of {ROWS}'
        if self.inner is not None: head += f'  inner {axis(self.inner)}'
        if self.partials: head += f' in blocks of {BLOCK}'
        lines = [head]
        for e in closure(self.roots() + list(self.attrs.get('roots', ()))): lines.append('    ' + e.text())
        for i, p in enumerate(self.passes):
            if len(self.passes) > 1: lines.append(f'  pass {i}:')
            for label, items in (('accumulate', p.reduces), ('store', p.stores), ('column', p.columns), ('keep', list(p.keep)),
                                 ('reuse', list(p.reuse))):
                if items: lines.append(f'    {label} ' + ', '.join(map(repr, items)))
        if self.row_stores: lines.append('  per row: ' + ', '.join(map(repr, self.row_stores)))
        for s in self.partials: lines.append(f'  partial {s!r}')
        for root, why in self.reasons.items(): lines.append(f'  {root} is stored: {why}')
        return '\n'.join(lines)
