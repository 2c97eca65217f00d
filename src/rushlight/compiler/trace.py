"""Trace: the bodies of operators run once on symbolic tensors (`Sym`) and leave a graph.

Definitions import this module as `T`. A `Sym` has Python's operators and .shape .ndim .dtype .numel(); everything else is a function here.
Operands may be Sym, Python numbers (constants of the other operand's dtype, promoted by kind as torch does) and SymInts (their value).

Calling an operator on Syms (`apply`) inlines it: promotion, body, one rounding of the result. An operator that states a gradient is inlined
too, but its results are wrapped in `call` nodes, which the differentiator reads and `decompose` takes out again.

The graph under construction is found through `current()`: constants and iotas have no operand to carry it. It is set by
`tracing(graph)` only, for the duration of one trace or one differentiation.
"""
import math
from contextlib import contextmanager

from .. import registry
from . import promotion
from .graph import DTYPE_OF_TORCH_NAME, SCALAR_TYPE_NAME, broadcast_shapes, hint_of, itemsize, same_shape
from .graph import is_complex as _complex
from .graph import is_float as _float
from .promotion import DIMENSIONED, NUMBER, ZERO_DIM
from .symbolic import SymInt, dimension_order, known_equal, product

KIND_DTYPE = {'b': 'b1', 'i': 'i64', 'f': 'f64', 'c': 'c128'}
FLOAT8 = ('f8e4m3', 'f8e5m2')
HALF = ('f16', 'bf16', *FLOAT8)
WIDER = {'f32': 'f64', 'c64': 'c128'}          # what is computed in where single precision would show
NARROW = (*HALF, 'c32')                  # computed in a wider dtype, rounded once
EXACT_ON_HALF = {'where', 'stop', 'eq', 'ne', 'lt', 'le', 'neg', 'abs', 'copysign'}       # need no rounding: fine on f32 copies either way


class Tracing:
    """The state of one trace: the graph, and the configuration that bodies may ask for."""

    def __init__(self, graph, default='f32'):
        self.graph, self.default = graph, default
        self.result_dtype = []          # of the operators being inlined, innermost last
        self.device = None
        self.strides = {}               # of the nodes that are arguments
        self.warnings = []              # what the call says when it is made (warn)


@contextmanager
def tracing(state):
    stack = registry.tracing.stack
    stack.append(state)
    try: yield state
    finally: stack.pop()


def current():
    stack = registry.tracing.stack
    if not stack: raise RuntimeError('no trace is under way: this function may only be called from an operator body')
    return stack[-1]


class Sym:
    """A tensor whose value is a graph node. `kind` is set for run-time scalars and numbers: 'b' 'i' 'f' 'c'."""
    __slots__ = ('node', 'kind', 'alias')

    def __init__(self, node, kind=None): self.node, self.kind, self.alias = node, kind, False

    shape = property(lambda self: self.node.shape)
    dtype = property(lambda self: self.node.dtype)
    ndim = property(lambda self: len(self.node.shape))
    def dim(self): return len(self.node.shape)
    def numel(self): return product(self.node.shape)
    def size(self, d=None): return self.node.shape if d is None else self.node.shape[d]

    def __add__(self, o): return prim('add', self, o)
    def __radd__(self, o): return prim('add', o, self)
    def __sub__(self, o): return prim('sub', self, o)
    def __rsub__(self, o): return prim('sub', o, self)
    def __mul__(self, o): return prim('mul', self, o)
    def __rmul__(self, o): return prim('mul', o, self)
    def __truediv__(self, o): return divide(self, o)
    def __rtruediv__(self, o): return divide(o, self)
    def __pow__(self, o): return prim('pow', self, o)
    def __rpow__(self, o): return prim('pow', o, self)
    def __neg__(self): return prim('neg', self)
    def __pos__(self): return self
    def __abs__(self): return prim('abs', self)
    def __and__(self, o): return prim('bit_and', self, o)
    def __rand__(self, o): return prim('bit_and', o, self)
    def __or__(self, o): return prim('bit_or', self, o)
    def __ror__(self, o): return prim('bit_or', o, self)
    def __xor__(self, o): return prim('bit_xor', self, o)
    def __rxor__(self, o): return prim('bit_xor', o, self)
    def __invert__(self): return prim('bit_not', self)
    def __lshift__(self, o): return prim('shl', self, o)
    def __rshift__(self, o): return prim('shr', self, o)
    def __lt__(self, o): return prim('lt', self, o)
    def __le__(self, o): return prim('le', self, o)
    def __gt__(self, o): return prim('lt', o, self)
    def __ge__(self, o): return prim('le', o, self)
    def __eq__(self, o): return prim('eq', self, o)
    def __ne__(self, o): return prim('ne', self, o)
    def __hash__(self): return id(self.node)
    def __bool__(self): raise RuntimeError('the value of a tensor is not known while its operator is traced; use T.where')
    def __repr__(self): return f'Sym({self.node!r})'


# ------------------------------------------------------------------------------------------------------------ leaves
def const(value, dtype=None):
    """A number as a 0-dim value of dtype (by default its kind's)."""
    if isinstance(value, Sym): return cast(value, dtype) if dtype else value
    if isinstance(value, SymInt): return size(value, dtype or 'i64')
    kind = number_kind(value)
    dtype = dtype or {'b': 'b1', 'i': 'i64', 'f': current().default, 'c': promotion.complex_dtype(current().default)}[kind]
    if dtype == 'b1': value = bool(value)
    elif _float(dtype): value = float(value)
    elif _complex(dtype): value = complex(value)
    else: value = int(value)
    return Sym(current().graph.node('const', (), {'value': value}, (), dtype))


def number_kind(value):
    if isinstance(value, bool): return 'b'
    if isinstance(value, (int, SymInt)): return 'i'
    if isinstance(value, float): return 'f'
    if isinstance(value, complex): return 'c'
    raise TypeError(f'expected a number or a symbolic tensor, not {type(value).__name__}')


def size(expr, dtype='i64'):
    """A symbolic integer as a 0-dim value."""
    if not isinstance(expr, SymInt): return const(expr, dtype)
    return Sym(current().graph.node('size', (), {'expr': expr}, (), dtype))


def iota(size, dim, rank):
    """0, 1, 2 ... along dimension dim of rank dimensions, the others having size 1. i64."""
    shape = tuple(size if i == dim else 1 for i in range(rank))
    if not isinstance(size, SymInt) and size == 1: return expand(const(0, 'i64'), shape)
    return Sym(current().graph.node('iota', (), {'dim': dim, 'size': size, 'rank': rank}, shape, 'i64'))


def draw_like(kind, x, dtype, *params):
    """Random numbers in the shape of x, drawn in the order in which x lies in memory: torch draws into an `empty_like`."""
    if x.node not in current().strides: return draw(kind, x.shape, dtype, *params)
    outer_first = dimension_order(x.shape, [(x.shape, current().strides[x.node])])[::-1]
    drawn = draw(kind, [x.shape[d] for d in outer_first], dtype, *params)
    return permute(drawn, [outer_first.index(d) for d in range(x.ndim)])


def draw(kind, shape, dtype, *params):
    """Random numbers in row-major order."""
    args = [lift(p).node for p in params]
    return Sym(current().graph.node('draw', args, {'kind': kind, 'serial': len(current().graph.nodes)}, tuple(shape), dtype))


def native(name, outputs, inputs, ints=(), units=1, grain=1, scratch=0, cost=None, errors=(), template=None, strided=()):
    """A call of the runtime's routine `name` (C++, kernel ABI, registered with native_kernel_register): a list of results.

    outputs: [(shape, dtype), ...], dense row-major memory. inputs: Syms, which arrive dense and row-major; run-time numbers come as 0-dim inputs.
    The routine gets pointers to the outputs, then to the inputs, and `ints` (ints or SymInts) as they are. [0, units) is cut over threads, `grain`
    units at a time; `cost` is the work in bytes touched (default: all operands); `scratch` bytes for each thread. It returns 0 or
    `code | value << 8`, where code is the place, from 1, of the error in `errors`: [(exception name, message with {value}), ...].
    Its results have no derivative: the definition around it states one.

    template: the routine is not C++ but machine code made for this call, `templates.TEXTS[name](*template)`. strided: the inputs, by place, of which only
    the last dimension must be dense; their other strides follow `ints`, in this order."""
    graph, inputs = current().graph, [lift(x) for x in inputs]
    outputs = tuple((tuple(shape), dtype) for shape, dtype in outputs)
    for dtype in [x.dtype for x in inputs] + [dtype for _, dtype in outputs]:                # routines know no 8-bit floats
        if dtype in FLOAT8: raise NotImplementedError(f'"{name}" not implemented for \'{SCALAR_TYPE_NAME[dtype]}\'')
    if cost is None:
        cost = 0
        for shape, dtype in [*outputs, *((x.shape, x.dtype) for x in inputs)]: cost = cost + product(shape) * itemsize(dtype)
    attrs = {'name': name, 'outputs': outputs, 'ints': tuple(ints), 'units': units, 'grain': grain, 'scratch': scratch, 'cost': cost,
             'errors': tuple(map(tuple, errors)), 'template': template, 'strided': tuple(strided)}
    first = graph.node('native', [x.node for x in inputs], attrs, *outputs[0])
    others = [graph.node('native_part', (first,), {'part': i}, *out) for i, out in enumerate(outputs) if i]
    return [Sym(n) for n in (first, *others)]


def lift(x, dtype=None):
    if isinstance(x, Sym): return x
    out = const(x, dtype)
    out.kind = number_kind(x)
    return out


# ------------------------------------------------------------------------------------------------------- dtype questions
def is_float(dtype): return _float(dtype)
def is_complex(dtype): return _complex(dtype)
def real_dtype(dtype): return promotion.real_dtype(dtype)
def compute_dtype(dtype): return promotion.compute_dtype(dtype)
def complex_dtype(dtype): return promotion.complex_dtype(dtype)
def default_dtype(): return current().default
def default_complex(): return promotion.complex_dtype(current().default)
def dtype_word(dtype): return SCALAR_TYPE_NAME[dtype]
def scalar_kind(x): return x.kind if isinstance(x, Sym) else number_kind(x)


def result_dtype(x=None):
    """What the operator being traced will return (its compute dtype may be wider)."""
    stack = current().result_dtype
    return stack[-1] if stack and stack[-1] is not None else x.dtype


def finite_range(dtype):
    """The lowest and the highest finite number."""
    high = {'f16': 65504.0, 'bf16': 3.3895313892515355e38, 'f32': 3.4028234663852886e38, 'f64': 1.7976931348623157e308,
            'f8e4m3': 448.0, 'f8e5m2': 57344.0}[dtype]
    return -high, high


def epsilon(dtype):
    """The distance from 1 to the next number."""
    return {'f16': 2.0 ** -10, 'bf16': 2.0 ** -7, 'f32': 2.0 ** -23, 'f64': 2.0 ** -52}[real_dtype(dtype)]


def _level(x):
    if x.kind is not None: return NUMBER
    return DIMENSIONED if x.ndim else ZERO_DIM


def operand_types(xs): return [(x.dtype, _level(x)) for x in xs]


def promote(*xs):
    """torch.result_type of tensors and numbers, as a dtype name."""
    flat = [y for x in xs for y in (x if isinstance(x, (list, tuple)) else [x])]
    return promotion.result_type(operand_types([lift(x) for x in flat]), current().default)


def as_dtype(dtype):
    """A dtype name from a name or a dtype object."""
    if dtype is None or dtype in SCALAR_TYPE_NAME: return dtype
    return DTYPE_OF_TORCH_NAME[str(dtype).rsplit('.', 1)[-1]]


# ------------------------------------------------------------------------------------------------------------ pointwise
def cast(x, dtype):
    x, dtype = lift(x), as_dtype(dtype)
    node = x.node
    if node.dtype == dtype: return x
    if node.op == 'const': return _like(const(_convert_number(node.attrs['value'], dtype), dtype), x)
    if node.op == 'scalar' and not _narrows(node, dtype): return retyped(x, dtype)
    if node.op == 'size' and (dtype == 'i64' or _float(dtype) and node.dtype == 'i64'):
        return Sym(node.graph.node('size', (), node.attrs, (), dtype))
    return _like(Sym(node.graph.node('cast', (node,), None, node.shape, dtype)), x)


def retyped(x, dtype):
    """A run-time number read as another dtype: a later cast starts from the number again."""
    return _like(Sym(x.node.graph.node('scalar', (), x.node.attrs, (), dtype)), x)


def _narrows(scalar, dtype):
    """A number cast to what cannot hold it (a float to an integer, anything to half): a further cast starts from there, not from the number."""
    kind = scalar.attrs['kind']
    return dtype in HALF or kind in 'fc' and not (_float(dtype) or _complex(dtype)) or kind == 'c' and not _complex(dtype)


def _like(new, old):
    new.kind = old.kind
    return new


def _convert_number(value, dtype):
    if _complex(dtype): return complex(value)
    if isinstance(value, complex): value = value.real
    if dtype == 'b1' or _float(dtype): return value
    if isinstance(value, float) and not math.isfinite(value): return 0
    value, bits = int(value), 8 * {'u8': 1, 'i8': 1, 'i16': 2, 'u16': 2, 'i32': 4, 'u32': 4, 'i64': 8, 'u64': 8}[dtype]
    value &= (1 << bits) - 1
    return value - (1 << bits) if dtype[0] == 'i' and value >> (bits - 1) else value


def bitcast(x, dtype): return Sym(x.node.graph.node('bitcast', (x.node,), None, x.shape, dtype))


SWAPPED = {'gt': 'lt', 'ge': 'le'}


def prim(name, *args):
    """A pointwise primitive. Operands of different dtypes are promoted; half types compute in f32 and are rounded once."""
    from .primitives import PRIMITIVES
    if name in SWAPPED: name, args = SWAPPED[name], args[::-1]
    first = next(a for a in args if isinstance(a, Sym))
    graph, record = first.node.graph, PRIMITIVES[name]
    if name == 'where':
        return where(*args)
    literal = [not isinstance(a, Sym) for a in args]
    args = [lift(a) for a in args]
    dtypes = {a.dtype for a in args}
    if len(dtypes) > 1:
        types = operand_types(args)
        if all(a.kind is not None for a in args):                  # numbers only: those that have a dtype already keep it beside literals
            types = [(a.dtype, NUMBER if new else DIMENSIONED) for a, new in zip(args, literal)]
        dtype = promotion.result_type(types, current().default)
        args = [cast(a, dtype) for a in args]
    dtype = args[0].dtype
    if dtype in HALF and name not in EXACT_ON_HALF:
        return cast(prim(name, *[cast(a, 'f32') for a in args]), promotion.complex_dtype(dtype) if record.result == 'complex' else dtype)
    if dtype == 'c32' and name not in EXACT_ON_HALF and name not in ('conj', 'real', 'imag'):
        out = prim(name, *[cast(a, 'c64') for a in args])
        return cast(out, 'c32') if _complex(out.dtype) else cast(out, 'f16') if _float(out.dtype) else out
    return _keep_kind(_pointwise(graph, record, [a.node for a in args]), args)


def _keep_kind(out, args):
    """Arithmetic on numbers only is a number still (its kind decides promotion)."""
    if all(a.kind is not None for a in args) and out.dtype != 'b1':
        out.kind = max((a.kind for a in args), key='bifc'.index)
    return out


def _pointwise(graph, record, nodes):
    simple = _simplify(record.name, nodes)
    if simple is not None: return Sym(simple)
    if record.commutes: nodes = sorted(nodes, key=lambda n: n.id)
    shape = broadcast_shapes([n.shape for n in nodes])
    dtype = nodes[-1].dtype
    if record.result == 'bool': dtype = 'b1'
    elif record.result == 'real': dtype = promotion.real_dtype(dtype)
    elif record.result == 'complex': dtype = promotion.complex_dtype(dtype)
    return Sym(graph.node(record.name, nodes, None, shape, dtype))


def _part(name, node):
    """The real or imaginary part of a complex value that was put together from parts."""
    if node.op == 'const': return const(node.attrs['value'].real if name == 'real' else node.attrs['value'].imag, promotion.real_dtype(node.dtype)).node
    if node.op == 'make_complex':
        part = node.args[name == 'imag']
        return part if same_shape(part.shape, node.shape) else expand(Sym(part), node.shape).node
    if node.op == 'cast' and not _complex(node.args[0].dtype):
        real = promotion.real_dtype(node.dtype)
        return cast(Sym(node.args[0]), real).node if name == 'real' else expand(const(0, real), node.shape).node
    return None


def _number(node): return node.attrs['value'] if node.op == 'const' else None


def _simplify(name, nodes):
    """Exact identities only: x*1, x-0, x/1, -(-x), arithmetic of constants. x+0 is not one (-0)."""
    if name == 'neg' and nodes[0].op == 'neg': return nodes[0].args[0]
    if name in ('conj', 'real') and not _complex(nodes[0].dtype): return nodes[0]
    if name == 'conj' and nodes[0].op == 'conj': return nodes[0].args[0]
    if name in ('real', 'imag'):
        part = _part(name, nodes[0])
        if part is not None: return part
    if name in ('floor', 'ceil', 'trunc', 'round') and not _float(nodes[0].dtype): return nodes[0]
    if len(nodes) == 1:
        value = _number(nodes[0])
        if name == 'neg' and value is not None and nodes[0].dtype != 'b1': return const(-value, nodes[0].dtype).node
        return None
    if len(nodes) != 2 or nodes[0].dtype == 'b1': return None
    a, b = nodes
    va, vb = _number(a), _number(b)
    if name == 'mul':
        if vb == 1 and vb is not None: return a
        if va == 1 and va is not None: return b
    if name == 'div' and vb == 1 and vb is not None: return a
    if name == 'sub' and vb is not None and vb == 0 and math.copysign(1, vb.real) > 0: return a
    if va is not None and vb is not None and a.dtype in ('f64', 'i64', 'f32') and name in ('add', 'sub', 'mul'):
        return _fold(name, va, vb, a.dtype)
    return None


def _fold(name, a, b, dtype):
    value = a + b if name == 'add' else a - b if name == 'sub' else a * b
    if dtype == 'i64': value = _convert_number(value, 'i64')
    if dtype == 'f32':
        import struct  # one rounding of a double result is the right single: products and sums are exact enough
        a, b = (struct.unpack('f', struct.pack('f', v))[0] for v in (a, b))
        value = a + b if name == 'add' else a - b if name == 'sub' else a * b
        try: value = struct.unpack('f', struct.pack('f', value))[0]
        except OverflowError: value = math.copysign(math.inf, value)
    return const(value, dtype).node


def divide(a, b):
    """True division: integers become the default float dtype."""
    a, b = lift(a), lift(b)
    dtype = promotion.result_type(operand_types([a, b]), current().default)
    if not (_float(dtype) or _complex(dtype)): a, b = cast(a, current().default), cast(b, current().default)
    return prim('div', a, b)


def where(c, a, b):
    """a where c, else b, element by element."""
    from .primitives import PRIMITIVES
    c = lift(c)
    if c.dtype != 'b1': c = prim('ne', c, 0)
    if not isinstance(a, Sym) and isinstance(b, Sym): a = _number_like(a, b)
    if not isinstance(b, Sym) and isinstance(a, Sym): b = _number_like(b, a)
    a, b = lift(a), lift(b)
    if a.dtype != b.dtype:
        dtype = promotion.result_type(operand_types([a, b]), current().default)
        a, b = cast(a, dtype), cast(b, dtype)
    if a.node is b.node and c.ndim == 0: return a
    return _keep_kind(_pointwise(c.node.graph, PRIMITIVES['where'], [c.node, a.node, b.node]), [a, b])


def _number_like(value, other):
    """A Python number beside a tensor: of the tensor's dtype unless its kind is higher."""
    lifted = lift(value)
    dtype = promotion.result_type(operand_types([lifted, other]), current().default)
    return cast(lifted, dtype) if dtype != other.dtype else const(value, other.dtype)


def loop(test, body, carry, operands=(), trips=None):
    """A `while` at every element: the values of `carry` when `test` is first false. See region.py."""
    from .region import loop as scalar_loop
    return scalar_loop(test, body, carry, operands, trips)


def branch(condition, body, operands, otherwise):
    """body(*operands) where the condition holds, else `otherwise`; skipped where no lane needs it. See region.py."""
    from .region import branch as lazy
    return lazy(condition, body, operands, otherwise)


def stored(x):
    """x itself, in memory: what follows reads it several times and must not compute it again each time."""
    return x if x.node.op == 'input' else Sym(x.node.graph.node('stored', (x.node,), None, x.shape, x.dtype))


def as_real(x):
    """A complex value in memory as pairs of real numbers, in a new last dimension. For `decompose`: it has no gradient."""
    return Sym(x.node.graph.node('as_real', (x.node,), None, (*x.shape, 2), promotion.real_dtype(x.dtype)))


def as_complex(x):
    """Pairs of real numbers in memory (the last dimension) as complex ones. For `decompose`: it has no gradient."""
    return Sym(x.node.graph.node('as_complex', (x.node,), None, x.shape[:-1], promotion.complex_dtype(x.dtype)))


def kept(x):
    """A value without a gradient that the backward reads instead of computing it again."""
    return Sym(x.node.graph.node('stop', (x.node,), {'kept': True}, x.shape, x.dtype))


def stop(x): return Sym(x.node.graph.node('stop', (x.node,), None, x.shape, x.dtype))
def constant(x): return Sym(x.node.graph.node('stop', (x.node,), {'constant': True}, x.shape, x.dtype))      # as a result: it does not require grad
def copy(x): return Sym(x.node)
def itself(x): return Sym(x.node.graph.node('itself', (x.node,), None, x.shape, x.dtype))      # the same value under a name of its own
def conj(x): return prim('conj', x) if _complex(x.dtype) else x


def alias(x):
    """As a result: the argument itself, not a copy ("returns self")."""
    out = Sym(x.node, x.kind)
    out.alias = True
    return out


def on_device(x, device):
    """The result lives on `device` (None: where the arguments are)."""
    if device is not None: current().device = str(device).split(':')[0]
    return x


# ------------------------------------------------------------------------------------------------------------ reductions
def _dims(x, dims):
    dims = (dims,) if isinstance(dims, int) else tuple(range(x.ndim)) if dims is None else dims
    return tuple(sorted({d % x.ndim if x.ndim else d for d in dims}))


def _is_one(size): return isinstance(size, int) and size == 1


def reduce(kind, x, dims):
    """sum prod amax amin any all over dims, which stay with size 1."""
    if x.dtype in NARROW and kind in ('sum', 'prod'): return cast(reduce(kind, cast(x, compute_dtype(x.dtype)), dims), x.dtype)
    if kind in ('any', 'all') and x.dtype != 'b1': x = prim('ne', x, 0)
    dims = tuple(d for d in _dims(x, dims) if x.ndim and not _is_one(x.shape[d]))
    if not dims: return x
    # Trailing run first (contract, section 8): what follows is then a reduction of columns.
    last = [d for d in range(x.ndim) if not _is_one(x.shape[d])]
    run = []
    while last and last[-1] in dims: run.append(last.pop())
    if run and len(run) < len(dims):
        return reduce(kind, reduce(kind, x, tuple(run)), tuple(d for d in dims if d not in run))
    shape = tuple(1 if d in dims else s for d, s in enumerate(x.shape))
    return Sym(x.node.graph.node('reduce', (x.node,), {'kind': kind, 'dims': dims}, shape, x.dtype))


def fold(kind, x, dims):
    """sum prod amax amin any all over a few outer positions (the window of a pool, the taps of a filter), swept in order at each element: no partial
    results. The dims stay with size 1."""
    if x.dtype in HALF and kind in ('sum', 'prod'): return cast(fold(kind, cast(x, 'f32'), dims), x.dtype)
    dims = tuple(d for d in _dims(x, dims) if not _is_one(x.shape[d]))
    if not dims: return x
    shape = tuple(1 if d in dims else s for d, s in enumerate(x.shape))
    return Sym(x.node.graph.node('reduce', (x.node,), {'kind': kind, 'dims': dims, 'swept': True}, shape, x.dtype))


def argfold(x, dims):
    """Where the largest element of a few outer positions is (see `fold`), counted through them in order: the first of equals, but the last NaN. The dims stay
    with size 1."""
    dims = tuple(d for d in _dims(x, dims) if not _is_one(x.shape[d]))
    shape = tuple(1 if d in dims else s for d, s in enumerate(x.shape))
    if not dims: return expand(const(0, 'i64'), shape)
    return Sym(x.node.graph.node('argreduce', (x.node,), {'kind': 'argmax', 'dims': dims, 'swept': True}, shape, 'i64'))


def reduce_all(kind, x):
    """Over everything, to a 0-dim value."""
    return reshape(reduce(kind, x, None), ()) if x.ndim else x


def argreduce(kind, x, dims):
    """argmax argmin: the index of the first extreme element in the flattened reduced dims, which stay with size 1."""
    dims = _dims(x, dims)
    shape = tuple(1 if d in dims else s for d, s in enumerate(x.shape))
    if all(_is_one(x.shape[d]) for d in dims): return expand(const(0, 'i64'), shape)
    return Sym(x.node.graph.node('argreduce', (x.node,), {'kind': kind, 'dims': dims}, shape, 'i64'))


def scan(kind, x, dim, reverse=False):
    """Inclusive running sum prod max min logaddexp (or argmax argmin: the index of the latest extreme) along dim."""
    if x.dtype in NARROW and kind in ('sum', 'prod', 'logaddexp'): return cast(scan(kind, cast(x, compute_dtype(x.dtype)), dim, reverse), x.dtype)
    dim = dim % x.ndim
    dtype = 'i64' if kind in ('argmax', 'argmin') else x.dtype
    if _is_one(x.shape[dim]): return expand(const(0, 'i64'), x.shape) if kind in ('argmax', 'argmin') else x
    return Sym(x.node.graph.node('scan', (x.node,), {'kind': kind, 'dim': dim, 'reverse': bool(reverse)}, x.shape, dtype))


def recurrence(x, factor, dim, reverse=False):
    """y[k] = x[k] + factor[k] * y[k-1] along dim (from the end: y[k+1]). The first element is x's: its factor does not count."""
    if x.dtype in HALF: return cast(recurrence(cast(x, 'f32'), cast(factor, 'f32'), dim, reverse), x.dtype)
    dim = dim % x.ndim
    factor = expand(cast(factor, x.dtype), x.shape)
    if _is_one(x.shape[dim]): return x
    return Sym(x.node.graph.node('scan', (x.node, factor.node), {'kind': 'linear', 'dim': dim, 'reverse': bool(reverse)}, x.shape, x.dtype))


# ------------------------------------------------------------------------------------------------------------ index maps
def reshape(x, shape):
    """The same elements in row-major order under another shape; one size may be -1."""
    shape = tuple(shape)
    if any(isinstance(s, int) and s == -1 for s in shape):
        rest = product(s for s in shape if not (isinstance(s, int) and s == -1))
        missing = x.numel() // rest if not (isinstance(rest, int) and rest == 0) else 0
        shape = tuple(missing if isinstance(s, int) and s == -1 else s for s in shape)
    if same_shape(shape, x.shape): return x
    if not product(shape) == x.numel():
        raise RuntimeError(f"shape '{[hint_of(s) for s in shape]}' is invalid for input of size {hint_of(x.numel())}")
    node = x.node
    if node.op == 'reshape': node = node.args[0]
    if same_shape(shape, node.shape): return Sym(node)
    return Sym(node.graph.node('reshape', (node,), None, shape, x.dtype))


def permute(x, dims):
    dims = tuple(d % x.ndim for d in dims)
    if dims == tuple(range(x.ndim)): return x
    node = x.node
    if node.op == 'permute':
        dims, node = tuple(node.attrs['dims'][d] for d in dims), node.args[0]
        if dims == tuple(range(len(dims))): return Sym(node)
    shape = tuple(node.shape[d] for d in dims)
    return Sym(node.graph.node('permute', (node,), {'dims': dims}, shape, x.dtype))


def transpose(x, a, b):
    dims = list(range(x.ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return permute(x, dims)


def expand(x, shape):
    """Spread dimensions of size 1 (and new leading ones) to `shape`."""
    x, shape = lift(x), tuple(shape)
    if same_shape(x.shape, shape): return x
    node = x.node.args[0] if x.node.op == 'expand' else x.node
    for s, want in zip(reversed(node.shape), reversed(shape)):
        if not _is_one(s) and not s == want:
            raise RuntimeError(f'The expanded size of the tensor ({hint_of(want)}) must match the existing size ({hint_of(s)})')
    return Sym(node.graph.node('expand', (node,), None, shape, x.dtype))


def slice(x, dim, start, stop, step=1):
    """x[start:stop:step] along dim; bounds already in range, step > 0."""
    dim = dim % x.ndim
    length = stop - start
    if not (isinstance(step, int) and step == 1):
        length = (length + step - 1) // step
    if isinstance(start, int) and start == 0 and known_equal(length, x.shape[dim]): return x
    shape = x.shape[:dim] + (length,) + x.shape[dim + 1:]
    return Sym(x.node.graph.node('slice', (x.node,), {'dim': dim, 'start': start, 'step': step}, shape, x.dtype))


def flip(x, dims):
    dims = tuple(sorted(d % x.ndim for d in ((dims,) if isinstance(dims, int) else dims)))
    dims = tuple(d for d in dims if not _is_one(x.shape[d]))
    if not dims: return x
    return Sym(x.node.graph.node('flip', (x.node,), {'dims': dims}, x.shape, x.dtype))


def squeeze(x, dims): return reshape(x, tuple(s for i, s in enumerate(x.shape) if i not in dims))
def unsqueeze(x, dim): return reshape(x, x.shape[:dim] + (1,) + x.shape[dim:])


# ------------------------------------------------------------------------------------------------- indirect access, joining
def _index(e):
    e = lift(e)
    return e if e.dtype == 'i64' else cast(e, 'i64')


def load(x, indices, valid=None, other=None, shape=None):
    """x[e0, e1, ...]: each index is an i64 value; they broadcast to the result's shape. Where valid is false: other,
        and no memory is touched."""
    indices = [_index(e) for e in indices]
    args = [x.node] + [e.node for e in indices]
    shapes = [e.shape for e in indices]
    if valid is not None:
        other = cast(lift(other if other is not None else 0), x.dtype)
        args += [valid.node, other.node]
        shapes += [valid.shape, other.shape]
    shape = broadcast_shapes(shapes + ([tuple(shape)] if shape is not None else []))
    return Sym(x.node.graph.node('load', args, {'guarded': valid is not None}, shape, x.dtype))


def iotas(shape): return [iota(s, i, len(shape)) for i, s in enumerate(shape)]


def gather_dim(x, dim, index):
    """x[..., index, ...] along dim: index has x's rank; its other sizes are at most x's."""
    dim = dim % x.ndim
    where_ = [_index(index) if i == dim else iota(s, i, x.ndim) for i, s in enumerate(index.shape)]
    return load(x, where_, shape=index.shape)


def scatter(base, indices, src, combine='set'):
    """base with src written ('set') or combined (add mul max min) at the indices, in row-major order of src."""
    indices = [_index(e) for e in indices]
    src = cast(src, base.dtype)
    shape = broadcast_shapes([src.shape] + [e.shape for e in indices])
    src = expand(src, shape)
    if base.dtype in NARROW and combine in ('add', 'mul'):
        wide = compute_dtype(base.dtype)
        return cast(scatter(cast(base, wide), indices, cast(src, wide), combine), base.dtype)
    return Sym(base.node.graph.node('scatter', [base.node, src.node] + [e.node for e in indices], {'combine': combine}, base.shape,
        base.dtype))


def scatter_dim(base, dim, index, src, combine='set'):
    dim = dim % base.ndim
    where_ = [_index(index) if i == dim else iota(s, i, base.ndim) for i, s in enumerate(index.shape)]
    return scatter(base, where_, src, combine)


def cat(xs, dim):
    xs = [x for x in xs if not (isinstance(x.shape[dim], int) and x.shape[dim] == 0)] or list(xs[:1])
    if len(xs) == 1: return xs[0]
    dim = dim % xs[0].ndim
    total = 0
    for x in xs: total = total + x.shape[dim]
    shape = tuple(total if i == dim else s for i, s in enumerate(xs[0].shape))
    return Sym(xs[0].node.graph.node('cat', [x.node for x in xs], {'dim': dim}, shape, xs[0].dtype))


def pad(x, dim, before, after, value=0):
    """`value` before and after x along dim (a guarded load, no copy)."""
    n = x.shape[dim]
    i = iota(n + before + after, dim, x.ndim) - before
    valid = (i >= 0) & (i < size(n, 'i64'))
    where_ = [i if k == dim else iota(s, k, x.ndim) for k, s in enumerate(x.shape)]
    return load(x, where_, valid, value)


def matmul(a, b):
    """[M, K] @ [K, N], or batches of them (rank 3); sizes of 1 in the batch spread."""
    if a.dtype in NARROW or a.dtype in promotion.WIDE_UNSIGNED:                # unsigned sums wrap as the signed ones do
        wide = 'i64' if a.dtype in promotion.WIDE_UNSIGNED else compute_dtype(a.dtype)
        return cast(matmul(cast(a, wide), cast(b, wide)), a.dtype)
    if not a.shape[-1] == b.shape[-2]:
        raise RuntimeError(f'mat1 and mat2 shapes cannot be multiplied ({hint_of(a.shape[-2])}x{hint_of(a.shape[-1])} and '
                           f'{hint_of(b.shape[-2])}x{hint_of(b.shape[-1])})')
    batch = broadcast_shapes([a.shape[:-2], b.shape[:-2]])
    a, b = expand(a, batch + a.shape[-2:]), expand(b, batch + b.shape[-2:])
    return Sym(a.node.graph.node('matmul', (a.node, b.node), None, batch + (a.shape[-2], b.shape[-1]), a.dtype))


def _convolution(kind, a, b, stride, padding, dilation, groups, size, shape):
    if a.dtype in ('f16', 'bf16'):
        wide = _convolution(kind, cast(a, 'f32'), cast(b, 'f32'), stride, padding, dilation, groups, size, shape)
        return cast(wide, a.dtype)
    attrs = {'stride': tuple(stride), 'padding': tuple(padding), 'dilation': tuple(dilation), 'groups': groups, 'size': tuple(size)}
    return Sym(a.node.graph.node(kind, (a.node, b.node), attrs, shape, a.dtype))


def conv(x, w, stride, padding, dilation, groups, size):
    """x [n, channels, d, h, w] convolved with w [filters, channels of a group, d, h, w]: [n, filters, pixels], `size` the three extents of the
    result. See compiler/convolution.py."""
    return _convolution('conv', x, w, stride, padding, dilation, groups, size, (x.shape[0], w.shape[0], product(size)))


def conv_input(y, w, stride, padding, dilation, groups, size):
    """The transpose of conv with respect to x: [n, channels, pixels] of an image with the extents `size`."""
    return _convolution('conv_input', y, w, stride, padding, dilation, groups, size, (y.shape[0], groups * w.shape[1], product(size)))


def conv_weight(x, y, stride, padding, dilation, groups, size):
    """The transpose of conv with respect to w: [groups, channels of a group, taps, filters of a group], taps the product of `size`."""
    return _convolution('conv_weight', x, y, stride, padding, dilation, groups, size, (groups, x.shape[1] // groups, product(size), y.shape[1] // groups))


def warn(text, once=False):
    """The call gives this warning (a UserWarning, at the user's line) each time, or once a process, before anything runs. What a body found out about sizes on the way here is guarded, so it holds whenever the warning
    is given; the text itself names no sizes."""
    said = current().warnings
    if (text, int(once)) not in said: said.append((text, int(once)))


def lose_parts(x, dtype):
    """Warns where complex numbers become real ones, if there are any. Whether they are zero (bool) is asked of both parts."""
    if _complex(x.dtype) and not _complex(dtype) and dtype != 'b1' and not any(isinstance(s, int) and s == 0 for s in x.shape):
        warn('A complex number becomes a real one here: its imaginary part is left out (x.real says that it is meant)', once=True)


def check(index, lo, hi, error, underived=None):
    """index itself, after testing lo <= index < hi (ints or SymInts; None: no bound). error: (exception name, message with {value}). underived: the name of the operator
    whose derivative is not there, where that is what the error says."""
    index = lift(index)
    lo, hi = -2 ** 63 if lo is None else lo, 2 ** 63 - 1 if hi is None else hi
    return _like(Sym(index.node.graph.node('check', (index.node,), {'lo': lo, 'hi': hi, 'error': tuple(error), 'underived': underived}, index.shape, index.dtype)),
        index)


def check_range(x, lo, hi, error): return check(x, lo, hi, error)


def check_nonzero(x, error):
    """x itself, after testing that no element is 0."""
    bad = cast(prim('eq', x, 0), 'i64')
    tested = check(bad, 0, 1, error)
    # The test must stay in the value's history: a select that always takes x.
    return _like(where(prim('eq', tested, 0), x, const(1, x.dtype)), x)


def sum_to(x, shape):
    """x summed over the dimensions along which `shape` was broadcast."""
    shape = tuple(shape)
    extra = x.ndim - len(shape)
    dims = tuple(range(extra)) + tuple(i + extra for i, s in enumerate(shape) if _is_one(s) and not _is_one(x.shape[i + extra]))
    out = reduce('sum', x, dims) if dims else x
    return reshape(out, out.shape[extra:]) if extra else out


from .inline import Group, _tensors, apply, invoke  # noqa: E402, F401 - they need everything above
