"""The graph: what a call computes, as hash-consed nodes. Contract section 7 lists the operations.

    %7 f32[n0, 64] = add(%3, %5)

A shape is a tuple of ints and SymInts. Broadcasting is implicit and right-aligned, and only a dimension that is the *constant*
1 spreads (a size that may be 1 in one call and not in another does not exist: the layout class tells them apart).

Attributes, by operation (nodes without a line here have none):
    input     index                     flattened tensor argument (None: made by the differentiator and bound later)
    scalar    index, kind               run-time scalar, kind 'b' 'i' 'f' 'c'; dtype is the one it is converted to
    const     value                     a Python number
    size      expr                      an int or SymInt, converted to dtype
    reduce    kind, dims                sum prod amax amin any all xor; dims ascending, kept as 1
    argreduce kind, dims                argmax argmin: index into the flattened reduced dims
    scan      kind, dim, reverse        sum prod max min logaddexp argmax argmin; inclusive. linear: args x, a; y[k] = x[k] + a[k] y[k-1]
    iota      dim, size, rank           i64
    permute   dims                      out.shape[i] = x.shape[dims[i]]
    slice     dim, start, step          out.shape has the length; step > 0
    flip      dims
    load      guarded                   args: x, e0..e(r-1), and when guarded: valid (b1), other
    scatter   combine                   args: base, src, e0..e(r-1); each e broadcasts to src's shape
    cat       dim
    conv, conv_input, conv_weight       stride, padding, dilation, groups, size: see convolution.py
    check     lo, hi, error             value: its argument, after testing lo <= v < hi; error = (exception name, message)
    draw      kind, params              params: ints; args: scalars or tensors the draw needs
    loop      region, index             args: the carry's start, then operands; result `index` of a scalar loop. See region.py
    call      group, index              args: value, *operands. Its value is `value`; the group states a gradient. See decompose.
    as_real   as_complex                c64[n] in memory seen as f32[n, 2], and back
reshape and expand have no attributes: the node's shape says all.
"""
from functools import partial

from .symbolic import SymInt, key, known_equal, product

# name -> (code in the runtime, bytes, kind); kinds: b bool, u unsigned, i signed, f float, c complex
DTYPES = {
    'b1': (0, 1, 'b'), 'u8': (1, 1, 'u'), 'i8': (2, 1, 'i'), 'i16': (3, 2, 'i'), 'i32': (4, 4, 'i'), 'i64': (5, 8, 'i'),
    'f16': (6, 2, 'f'), 'bf16': (7, 2, 'f'), 'f32': (8, 4, 'f'), 'f64': (9, 8, 'f'), 'c64': (10, 8, 'c'), 'c128': (11, 16, 'c'),
    'u16': (12, 2, 'u'), 'u32': (13, 4, 'u'), 'u64': (14, 8, 'u'),
    'f8e4m3': (15, 1, 'f'), 'f8e5m2': (16, 1, 'f'), 'c32': (17, 4, 'c'),
}
DTYPE_OF_CODE = {code: name for name, (code, _, _) in DTYPES.items()}
TORCH_NAME = {
    'b1': 'bool', 'u8': 'uint8', 'i8': 'int8', 'i16': 'int16', 'i32': 'int32', 'i64': 'int64', 'f16': 'float16', 'bf16': 'bfloat16',
    'f32': 'float32', 'f64': 'float64', 'c64': 'complex64', 'c128': 'complex128', 'u16': 'uint16', 'u32': 'uint32', 'u64': 'uint64',
    'f8e4m3': 'float8_e4m3fn', 'f8e5m2': 'float8_e5m2', 'c32': 'complex32',
}
DTYPE_OF_TORCH_NAME = {name: dtype for dtype, name in TORCH_NAME.items()}
SCALAR_TYPE_NAME = {                        # the names torch uses in messages
    'b1': 'Bool', 'u8': 'Byte', 'i8': 'Char', 'i16': 'Short', 'i32': 'Int', 'i64': 'Long', 'f16': 'Half', 'bf16': 'BFloat16',
    'f32': 'Float', 'f64': 'Double', 'c64': 'ComplexFloat', 'c128': 'ComplexDouble', 'u16': 'UInt16', 'u32': 'UInt32', 'u64': 'UInt64',
    'f8e4m3': 'Float8_e4m3fn', 'f8e5m2': 'Float8_e5m2', 'c32': 'ComplexHalf',
}


def dtype_code(dtype): return DTYPES[dtype][0]
def itemsize(dtype): return DTYPES[dtype][1]
def dtype_kind(dtype): return DTYPES[dtype][2]
def is_float(dtype): return DTYPES[dtype][2] == 'f'
def is_complex(dtype): return DTYPES[dtype][2] == 'c'
def is_integral(dtype): return DTYPES[dtype][2] in 'ui'


# Nodes that are not pointwise. Every other operation name is a pointwise primitive (compiler/primitives.py has the list).
LEAVES = {'input', 'scalar', 'const', 'size', 'iota', 'draw'}
INDEX_MAPS = {'reshape', 'permute', 'expand', 'slice', 'flip'}
STRUCTURAL = LEAVES | INDEX_MAPS | {'reduce', 'argreduce', 'scan', 'load', 'scatter', 'cat', 'matmul', 'check', 'call', 'native', 'native_part', 'conv', 'conv_input', 'conv_weight', 'loop', 'carried', 'stored', 'as_real', 'as_complex', 'itself'}
REDUCE_KINDS = ('sum', 'prod', 'amax', 'amin', 'any', 'all', 'xor')


class Node:
    __slots__ = ('graph', 'id', 'op', 'args', 'attrs', 'shape', 'dtype')

    def __init__(self, graph, id, op, args, attrs, shape, dtype):
        self.graph, self.id, self.op, self.args, self.attrs, self.shape, self.dtype = graph, id, op, args, attrs, shape, dtype

    @property
    def ndim(self): return len(self.shape)
    @property
    def is_pointwise(self): return self.op not in STRUCTURAL
    def numel(self): return product(self.shape)

    def __repr__(self):
        inside = [f'%{a.id}' for a in self.args] + [f'{k}={v!r}' for k, v in self.attrs.items() if k != 'group']
        return f'%{self.id} {self.dtype}{shape_text(self.shape)} = {self.op}({", ".join(inside)})'


def shape_text(shape): return '[' + ', '.join(map(str, shape)) + ']'


class Graph:
    """Makes nodes. `node` is the only constructor, so equal computations are one node (forward and backward alike)."""

    def __init__(self, program): self.program, self.nodes, self.memo = program, [], {}

    def node(self, op, args=(), attrs=None, shape=(), dtype='f32'):
        args, attrs = tuple(args), attrs or {}
        shape = tuple(self.program.simplify(d) for d in shape)
        k = (op, tuple(a.id for a in args), key(attrs), key(shape), dtype)
        found = self.memo.get(k)
        if found is None:
            found = self.memo[k] = Node(self, len(self.nodes), op, args, attrs, shape, dtype)
            self.nodes.append(found)
        return found

    def __str__(self): return '\n'.join(map(str, self.nodes))


def closure(roots, stop=()):
    """All nodes behind roots in topological order (creation order is one), not looking behind those in `stop`."""
    stop, seen, todo = set(stop), set(), list(roots)
    while todo:
        n = todo.pop()
        if n in seen: continue
        seen.add(n)
        if n not in stop: todo.extend(n.args)
    return sorted(seen, key=lambda n: n.id)


def text(roots):
    """The part of the graph behind roots, for people to read."""
    lines = [repr(n) for n in closure(roots)]
    return '\n'.join(lines + ['return ' + ', '.join(f'%{r.id}' for r in roots)])


def broadcast_shapes(shapes, names=('a', 'b')):
    """The common shape. Sizes that differ raise torch's error; equal run-time sizes of different tensors become a guard."""
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, start=rank - len(shape)):
            if isinstance(size, int) and size == 1: continue
            if isinstance(out[i], int) and out[i] == 1: out[i] = size
            elif not out[i] == size:
                raise RuntimeError(f'The size of tensor {names[0]} ({hint_of(out[i])}) must match the size of tensor {names[1]} '
                                   f'({hint_of(size)}) at non-singleton dimension {i}')
    return tuple(out)


def hint_of(x): return x.hint if isinstance(x, SymInt) else x


def same_shape(a, b):
    """Known to be equal, no guard."""
    return len(a) == len(b) and all(known_equal(x, y) for x, y in zip(a, b))


class Output:
    """What the backend must produce. strides None: contiguous. dest: the index of the destination it is written to (in-place, out=),
    else a buffer. kind 'output' or 'hidden'. alias: ('arg', k), ('none',) or a view tuple when no kernel is needed. room: the elements of its buffer,
    where the strides leave gaps (None: as many as the result has)."""
    __slots__ = ('node', 'strides', 'dest', 'kind', 'alias', 'shape', 'room')

    def __init__(self, node, strides=None, dest=None, kind='output', alias=None, shape=None, room=None):
        self.node, self.strides, self.dest, self.kind, self.alias, self.room = node, strides, dest, kind, alias, room
        self.shape = shape if shape is not None else node.shape if node is not None else ()

    def __repr__(self):
        where = f'dest {self.dest}' if self.dest is not None else str(self.alias) if self.alias else self.kind
        return f'{where} <- %{self.node.id if self.node else None} strides {self.strides}'


class Input:
    """A stored value: node (op 'input'), its strides in elements, and its place: arg (index of the flattened tensor argument).
    aliases: destinations that are the same tensor (in-place)."""
    __slots__ = ('node', 'strides', 'arg', 'aliases')

    def __init__(self, node, strides, arg, aliases=()): self.node, self.strides, self.arg, self.aliases = node, strides, arg, tuple(aliases)

    def __repr__(self): return f'arg {self.arg} -> %{self.node.id} strides {self.strides}'


class GraphError(AssertionError):
    """A malformed graph: always a bug in a definition or in the compiler, never the user's."""


def _require(node, ok, why):
    if not ok: raise GraphError(f'{why}\n  {node!r}\n  ' + '\n  '.join(repr(a) for a in node.args))


def verify(roots):
    """Check every node behind roots against the contract."""
    from .primitives import PRIMITIVES
    for n in closure(roots):
        require = partial(_require, n)
        require(n.dtype in DTYPES, 'unknown dtype')
        require(all(isinstance(d, (int, SymInt)) for d in n.shape), 'a shape is made of ints and SymInts')
        require(all(a.graph is n.graph and a.id < n.id for a in n.args), 'arguments come first, in the same graph')
        if n.is_pointwise: _verify_pointwise(n, PRIMITIVES, require)
        elif n.op in VERIFY: VERIFY[n.op](n, require)


def _spreads(small, big):
    """small broadcasts to big."""
    if len(small) > len(big): return False
    return all(isinstance(s, int) and s == 1 or known_equal(s, b) for s, b in zip(reversed(small), reversed(big)))


def _verify_pointwise(n, primitives, require):
    if n.op not in ('cast', 'bitcast', 'stop'):
        require(n.op in primitives, 'unknown operation')
        require(len(n.args) == primitives[n.op].arity, 'wrong number of operands')
    operands = n.args[1:] if n.op == 'where' else n.args
    if n.op == 'where': require(n.args[0].dtype == 'b1', 'the condition is boolean')
    require(len({a.dtype for a in operands}) == 1, 'operands have one dtype')
    require(all(_spreads(a.shape, n.shape) for a in n.args), 'operands spread to the result')


def _verify_reduce(n, require):
    x = n.args[0]
    require(len(x.shape) == len(n.shape) and n.attrs['dims'] == tuple(sorted(set(n.attrs['dims']))), 'dims are kept, ascending')
    for i, (a, b) in enumerate(zip(x.shape, n.shape)):
        require(b == 1 if i in n.attrs['dims'] else known_equal(a, b), 'reduced dims are 1, others stay')


def _verify_load(n, require):
    rank = n.args[0].ndim
    require(len(n.args) == 1 + rank + (2 if n.attrs['guarded'] else 0), 'one index per dimension')
    require(all(e.dtype == 'i64' and _spreads(e.shape, n.shape) for e in n.args[1:1 + rank]), 'indices are i64 and spread')


def _verify_scatter(n, require):
    base, src, *indices = n.args
    require(same_shape(base.shape, n.shape) and len(indices) == base.ndim, 'one index per dimension of base')
    require(all(e.dtype == 'i64' and _spreads(e.shape, src.shape) for e in indices), 'indices are i64 and spread to src')
    require(base.dtype == src.dtype == n.dtype, 'one dtype')


def _verify_matmul(n, require):
    a, b = n.args
    require(a.ndim == b.ndim == n.ndim and n.ndim in (2, 3), 'rank 2 or 3')
    require(known_equal(a.shape[-1], b.shape[-2]), 'K agrees')
    require(a.dtype == b.dtype, 'one dtype')


def _verify_loop(n, require):
    region, count = n.attrs['region'], len(n.attrs['region'].results)
    require(0 <= n.attrs['index'] < count <= len(n.args) and n.dtype == n.args[n.attrs['index']].dtype, 'a result has the dtype of its start')
    require(region.test.dtype == 'b1' and region.trips > 0, 'a boolean test and a bound on the trips')
    require(all(_spreads(a.shape, n.shape) for a in n.args), 'operands spread to the result')


VERIFY = {'loop': _verify_loop, 'reduce': _verify_reduce, 'argreduce': _verify_reduce, 'load': _verify_load, 'scatter': _verify_scatter, 'matmul': _verify_matmul}
