"""Fusion: from a primitive graph to kernels, in execution order.

Fusion is the choice of *roots*, the values that get memory: the results; whatever ends a kernel (partial results of reductions over
outer dimensions or over everything, scans, scatters, matrix products); and values that a later step finds it cannot evaluate in
place. Everything between stored values and a root is pulled into the root's kernel, evaluated on demand at an index. A value that
cannot be evaluated where it is wanted raises `MustStore`; it then becomes a root with that reason, and fusion starts over.

Bits never change by fusion: a pointwise value has the same bits wherever it is evaluated, and a reduction's order is a function of its own
shape (contract, section 8), whatever surrounds it.
"""
from . import symbolic
from .graph import closure, is_complex, same_shape
from .loops import BLOCK, DEAR, ROWS, ZERO, Affine, Expr, Kernel, Memory, Store, is_one, is_zero
from .symbolic import contiguous_strides, hint, known_equal, product

ENDS = {'partial', 'scan', 'scatter', 'cat', 'matmul', 'draw', 'argcolumn', 'checked', 'native', 'native_part', 'stored', 'conv', 'conv_input', 'conv_weight', 'across'}     # never evaluated on demand
CONVOLUTIONS = {'conv', 'conv_input', 'conv_weight'}
PRODUCTS = {'matmul', 'conv', 'conv_input'}          # their results may be written as other views, and what follows them joins them
SMALL = 16384         # elements that a column reduction may sweep without partial results
UNROLLED = 32         # positions of a fold that are written out instead of looped over
FOLDED = {'sum': 'add', 'prod': 'mul', 'amax': 'maximum', 'amin': 'minimum', 'any': 'bit_or', 'all': 'bit_and', 'xor': 'bit_xor'}


class MustStore(Exception):
    def __init__(self, node, why): self.node, self.why = node, why


class Indirect(Exception):
    """A result whose strides do not fit its kernel: to be computed in memory of its own, then copied."""
    def __init__(self, node, why): self.node, self.why = node, why


# ----------------------------------------------------------------------------------------------------------- normal form
def solid(shape): return [i for i, d in enumerate(shape) if not is_one(d)]


def runs(shape, dims):
    """The reduced dimensions in runs of neighbours (dimensions of size 1 do not separate), leading first."""
    out, open_run = [], False
    for i in solid(shape):
        if i in dims:
            if not open_run: out.append([])
            out[-1].append(i)
        open_run = i in dims
    return out


def normalise(graph, roots, inputs=None):
    """Rewrite to what the loops know. Returns (new roots, checks): reductions become one row reduction or combine(partial(x)) per run of
    dimensions, trailing run first; checks are taken out of the data flow; low-precision scatters accumulate in f32."""
    new, checks = {}, []
    for n in closure(roots):
        args = tuple(new[a] for a in n.args)
        if n.op in ('call', 'stop'): out = args[0]
        elif n.op == 'check':
            checks.append((args[0], n.attrs))
            out = args[0]
        elif n.op == 'reduce': out = normal_reduce(graph, n, args[0], inputs or {})
        elif n.op == 'argreduce': out = normal_argreduce(graph, n, args[0])
        elif n.op == 'matmul' and is_complex(n.dtype): out = complex_product(graph, n, *args)
        elif n.op in CONVOLUTIONS and is_complex(n.dtype):
            from .convolution import complex_convolution
            out = complex_convolution(graph, n, *args)
        elif n.op == 'native':               # operands in dense memory: a copy, which is made only where its source is not dense itself
            dense = [graph.node('copy', (a,), {}, a.shape, a.dtype) for a in args]
            out = graph.node(n.op, dense, n.attrs, n.shape, n.dtype)
        elif n.op == 'as_real': out = graph.node(n.op, (graph.node('copy', args, {}, args[0].shape, args[0].dtype),), {}, n.shape, n.dtype)
        elif n.op == 'expand' and same_shape(n.shape, args[0].shape): out = args[0]
        elif n.op == 'scan' and is_one(n.shape[n.attrs['dim']]) and not n.attrs['kind'].startswith('arg'): out = args[0]
        elif n.op == 'reshape' and same_shape(n.shape, args[0].shape): out = args[0]
        elif n.op == 'scatter' and n.dtype in ('f16', 'bf16') and n.attrs['combine'] in ('add', 'mul'):
            wide = [graph.node('cast', (a,), {}, a.shape, 'f32') for a in args[:2]]
            out = graph.node('cast', (graph.node('scatter', (*wide, *args[2:]), n.attrs, n.shape, 'f32'),), {}, n.shape, n.dtype)
        elif args == n.args: out = n
        else: out = graph.node(n.op, args, n.attrs, n.shape, n.dtype)
        new[n] = out
    return [new[r] for r in roots], checks


def normal_reduce(graph, n, x, inputs=()):
    if n.attrs.get('swept'): return graph.node('fold', (x,), n.attrs, n.shape, n.dtype)
    for run in reversed(runs(x.shape, n.attrs['dims'])):
        shape = tuple(1 if i in run else d for i, d in enumerate(x.shape))
        attrs = {'kind': n.attrs['kind'], 'dims': tuple(run)}
        column = solid(x.shape)[-1] not in run
        axis = None if column else dense_across(x, run, inputs)
        if axis is not None: x = graph.node('across', (x,), {**attrs, 'axis': axis}, shape, n.dtype)
        elif not column and solid(shape): x = graph.node('reduce', (x,), attrs, shape, n.dtype)
        elif is_small(graph.program, x, run, column): x = graph.node('fold' if column else 'reduce', (x,), attrs, shape, n.dtype)
        else:
            partial = graph.node('partial', (x,), attrs, shape, n.dtype)
            x = graph.node('combine', (partial,), attrs, shape, n.dtype)
    return x


def dense_across(x, run, inputs):
    """The kept dimension along which every full-size argument behind x is dense, while its rows are not: vectors should run there."""
    if x.dtype not in ('f32', 'f64') or any(is_zero(d) for d in x.shape): return None
    axes = set()
    for n in closure([x]):
        memory = inputs[n] if n in inputs else None
        if memory is None or not same_shape(memory.shape, x.shape): continue
        axes.add(next((i for i in solid(x.shape) if i not in run and is_one(memory.strides[i])), None))
    return axes.pop() if len(axes) == 1 else None


def is_small(program, x, run, column):
    """One block only, and little work: no partial results are needed, one kernel does all, and what follows joins it. The order of
    the sum is the same; the two cases are two recipes, told apart by a guard."""
    length, total = product(x.shape[d] for d in run), product(x.shape)
    small = program.le(length, ROWS if column else BLOCK)
    if column: small = program.logical_and(small, program.le(total, SMALL))
    truth = bool(hint(small))
    program.guard(small if truth else program.logical_not(small))
    return truth


def complex_product(graph, n, a, b):
    """The templates know real numbers only: a[.., M, K, 1] * b[.., 1, K, N] summed over K."""
    batch = n.shape[:-2]
    (m, k), cols = a.shape[-2:], b.shape[-1]
    left = graph.node('reshape', (a,), {}, (*a.shape[:-2], m, k, 1), n.dtype)
    right = graph.node('reshape', (b,), {}, (*b.shape[:-2], 1, k, cols), n.dtype)
    terms = graph.node('mul', (left, right), {}, (*batch, m, k, cols), n.dtype)
    dims = (len(batch) + 1,)
    summed = graph.node('reduce', (terms,), {'kind': 'sum', 'dims': dims}, (*batch, m, 1, cols), n.dtype)
    return graph.node('reshape', (normal_reduce(graph, summed, terms),), {}, n.shape, n.dtype)


def normal_argreduce(graph, n, x):
    if n.attrs.get('swept'): return graph.node('fold', (x,), n.attrs, n.shape, 'i64')
    parts = runs(x.shape, n.attrs['dims'])
    if not parts: return graph.node('expand', (graph.node('const', (), {'value': 0}, (), 'i64'),), {}, n.shape, 'i64')
    if len(parts) > 1:                                  # dimensions that are not neighbours are brought together, last; the index counts through them in order
        last = [d for part in parts for d in part]
        order = tuple([d for d in range(x.ndim) if d not in last] + last)
        inverse = tuple(sorted(range(x.ndim), key=lambda i: order[i]))
        moved = graph.node('permute', (x,), {'dims': order}, tuple(x.shape[d] for d in order), x.dtype)
        dims = tuple(range(x.ndim - len(last), x.ndim))
        found = graph.node('argreduce', (moved,), {'kind': n.attrs['kind'], 'dims': dims}, tuple(n.shape[d] for d in order), 'i64')
        return graph.node('permute', (found,), {'dims': inverse}, n.shape, 'i64')
    attrs = {'kind': n.attrs['kind'], 'dims': tuple(parts[0])}
    op = 'argreduce' if solid(x.shape)[-1] in parts[0] else 'argcolumn'
    return graph.node(op, (x,), attrs, n.shape, 'i64')


# ------------------------------------------------------------------------------------------------------------- reshapes
def match_groups(source, target):
    """Pair runs of dimensions of two shapes with equal products: [(source dims, target dims)]."""
    s, t, groups = solid(source), solid(target), []
    i = j = 0
    while i < len(s) or j < len(t):
        a, b = [], []
        p = q = 1
        while True:
            if a and b and known_equal(p, q): break
            if i < len(s) and (j >= len(t) or not a or b and hint(p) <= hint(q)): a.append(s[i]); p = p * source[s[i]]; i += 1
            elif j < len(t): b.append(t[j]); q = q * target[t[j]]; j += 1
            else: break
        groups.append((a, b))
    return groups


def reshape_strides(shape, strides, target):
    """The strides of a stored value seen in another shape, or None when no strides say it."""
    if any(is_zero(d) for d in target): return (0,) * len(target)
    out = [0] * len(target)
    for a, b in match_groups(shape, target):
        for i, j in zip(a, a[1:]):
            if not known_equal(strides[i], shape[j] * strides[j]): return None
        step = strides[a[-1]] if a else 1
        for j in reversed(b): out[j] = step; step = step * target[j]
    return tuple(out)


def positions(sizes):
    """All indices of a small box, in order."""
    out = [()]
    for n in sizes: out = [(*at, i) for at in out for i in range(n)]
    return out


# --------------------------------------------------------------------------------------------------- values at an index
class Builder:
    """Evaluates graph nodes at an index of one kernel: makes its expressions."""

    def __init__(self, fusion, wave, sizes, row_axes=()):
        self.fusion, self.wave, self.sizes, self.row_axes = fusion, wave, list(sizes), list(row_axes)
        self.rank = len(self.sizes)                 # axes of the kernel's space; folds add axes of their own after them
        self.memo, self.exprs = {}, {}
        self.guard = None                           # a condition under which only memory may be touched (see gather)

    def expr(self, op, args, dtype, axes=None, **attrs):
        key = (op, dtype, tuple(a.number for a in args), tuple(sorted((k, attr_key(v)) for k, v in attrs.items())))
        found = self.exprs.get(key)
        if found is None:
            if axes is None: axes = frozenset().union(*[a.axes for a in args])
            found = self.exprs[key] = Expr(op, tuple(args), dtype, frozenset(axes), attrs, key, len(self.exprs))
        return found

    # -- indices: an Affine, or an i64 expression
    def index_expr(self, comp):
        if isinstance(comp, Expr): return comp
        if not comp.terms: return self.expr('size', (), 'i64', (), expr=comp.const)
        return self.expr('index', (), 'i64', comp.axes, affine=comp)
    def scaled(self, comp, factor, plus=0):
        if isinstance(comp, Affine): return comp.scale(factor).shift(plus)
        out = comp if is_one(factor) else self.expr('mul', (comp, self.number(factor)), 'i64')
        return out if is_zero(plus) else self.expr('add', (out, self.number(plus)), 'i64')
    def summed(self, a, b):
        if isinstance(a, Affine) and isinstance(b, Affine): return a + b
        return self.expr('add', (self.index_expr(a), self.index_expr(b)), 'i64')
    def number(self, x): return self.expr('size', (), 'i64', (), expr=x)

    def aligned(self, view, node, arg):
        """The view of an operand that broadcasts to node, right-aligned."""
        skip = node.ndim - arg.ndim
        return tuple(ZERO if is_one(d) else view[skip + i] for i, d in enumerate(arg.shape))

    def value(self, node, view):
        key = (node.id, tuple(c.key if isinstance(c, Affine) else ('expr', c.number) for c in view))
        if self.guard is not None: key = (*key, self.guard.number)
        if key not in self.memo: self.memo[key] = self.evaluate(node, view)
        return self.memo[key]

    def evaluate(self, node, view):
        op = node.op
        memory = self.fusion.memory_at(node, self.wave)
        if memory is not None: return self.load(memory, view)
        if op == 'const': return self.expr('const', (), node.dtype, (), value=node.attrs['value'])
        if op == 'scalar': return self.expr('scalar', (), node.dtype, (), index=node.attrs['index'], kind=node.attrs['kind'])
        if op == 'size':
            e = self.number(node.attrs['expr'])
            return e if node.dtype == 'i64' else self.expr('cast', (e,), node.dtype)
        if op == 'iota': return self.index_expr(view[node.attrs['dim']])
        if op in ENDS or op == 'input': raise MustStore(node, END_REASON.get(op, 'it ends a kernel'))
        if op == 'combine': return self.combine(node, view)
        if op == 'fold': return self.fold(node, view)
        if op in ('reduce', 'argreduce'): return self.row_reduction(node, view)
        if op == 'load': return self.gather(node, view)
        x = node.args[0] if node.args else None
        if op == 'expand': return self.value(x, self.aligned(view, node, x))
        if op == 'permute':
            inner = [None] * x.ndim
            for i, d in enumerate(node.attrs['dims']): inner[d] = view[i]
            return self.value(x, tuple(inner))
        if op == 'slice':
            d = node.attrs['dim']
            moved = self.scaled(view[d], node.attrs['step'], node.attrs['start'])
            return self.value(x, (*view[:d], moved, *view[d + 1:]))
        if op == 'flip':
            dims = node.attrs['dims']
            return self.value(x, tuple(self.scaled(c, -1, node.shape[i] - 1) if i in dims else c for i, c in enumerate(view)))
        if op == 'reshape': return self.reshape(node, view)
        if op in ('as_real', 'as_complex'):
            memory = self.fusion.memory_of_view(node, self.wave)
            if memory is None: raise MustStore(x, 'its memory is read as another type')
            return self.load(memory, view)
        args = [self.value(a, self.aligned(view, node, a)) for a in node.args]
        if op == 'loop': return self.expr(op, args, node.dtype, index=node.attrs['index'], region=node.attrs['region'])
        if node.dtype == 'i64' and op in ('add', 'sub', 'mul', 'neg'):
            index = index_arithmetic(op, [as_affine(a) for a in args])
            if index is not None: return self.index_expr(index)
        return self.expr(op, args, node.dtype)

    def load(self, memory, view, guard=None):
        if self.guard is not None:
            guard = (self.guard, self.zero(memory.dtype)) if guard is None else (self.expr('bit_and', (self.guard, guard[0]), 'b1'), guard[1])
        strides, offset, dynamic, dynamic_strides = Affine(), memory.offset, [], []
        for comp, stride in zip(view, memory.strides):
            if isinstance(comp, Affine): strides = strides + comp.scale(stride)
            elif not is_zero(stride): dynamic.append(comp); dynamic_strides.append(stride)
        axes = strides.axes.union(*[e.axes for e in dynamic], *[g.axes for g in guard or ()])
        return self.expr('load', [*dynamic, *(guard or ())], memory.dtype, axes, memory=memory, strides=dict(strides.terms),
                         offset=strides.const + offset, dynamic=tuple(dynamic_strides), guarded=guard is not None)

    def gather(self, node, view):
        x, rank = node.args[0], node.args[0].ndim
        comps = []
        for i, e in enumerate(node.args[1:1 + rank]):
            v = self.value(e, self.aligned(view, node, e))
            comps.append(ZERO if is_one(x.shape[i]) and not node.attrs['guarded'] else as_affine(v) or v)
        if not node.attrs['guarded']: return self.value(x, tuple(comps))
        valid, other = (self.value(a, self.aligned(view, node, a)) for a in node.args[1 + rank:])
        memory = self.fusion.memory_of_view(x, self.wave)
        if memory is not None: return self.load(memory, tuple(comps), (valid, other))
        if not self.cheap(x): raise MustStore(x, f'%{node.id} reads it under a guard, at computed indices')
        # A value of a few operations is computed where it is wanted, its own loads under the guard.
        outside, self.guard = self.guard, valid if self.guard is None else self.expr('bit_and', (self.guard, valid), 'b1')
        try: value = self.value(x, tuple(comps))
        finally: self.guard = outside
        return self.expr('where', (valid, value, other), node.dtype)

    def zero(self, dtype): return self.expr('const', (), dtype, (), value=False if dtype == 'b1' else 0j if is_complex(dtype) else 0)

    def cheap(self, x):
        """May x be computed at each of several reads: a few pointwise operations over memory, none of them dear."""
        seen, todo, work = set(), [x], 0
        while todo:
            n = todo.pop()
            if n in seen or self.fusion.memory_of_view(n, self.wave) is not None: continue
            seen.add(n)
            if n.op in ENDS or n.op in DEAR or n.op in ('reduce', 'argreduce', 'fold', 'combine', 'reshape', 'div', 'idiv', 'fmod', 'load', 'sqrt'): return False
            work += n.op not in ('const', 'size', 'scalar', 'iota', 'expand', 'permute', 'slice', 'flip')
            todo.extend(n.args)
        return work <= 4

    def reshape(self, node, view):
        x = node.args[0]
        memory = self.fusion.memory_of_view(node, self.wave)
        if memory is not None: return self.load(memory, view)
        if any(is_zero(d) for d in node.shape): return self.value(x, (ZERO,) * x.ndim)
        inner = [ZERO] * x.ndim
        for a, b in match_groups(x.shape, node.shape):
            linear, step = ZERO, 1
            for j in reversed(b):
                linear = self.summed(linear, self.scaled(view[j], step))
                step = step * node.shape[j]
            if len(a) <= 1:
                if a: inner[a[0]] = linear
                continue
            # Several source dimensions were merged: their indices are quotients. Fine per row, too slow per element.
            last = self.rank - 1
            if last in linear.axes: raise MustStore(node, 'its source dimensions are merged along the innermost axis')
            rest = self.index_expr(linear)
            for i in reversed(a[1:]):
                inner[i] = self.expr('i.mod', (rest, self.number(x.shape[i])), 'i64')
                rest = self.expr('i.div', (rest, self.number(x.shape[i])), 'i64')
            inner[a[0]] = rest
        return self.value(x, tuple(inner))

    def row_reduction(self, node, view):
        x, dims = node.args[0], node.attrs['dims']
        where = {d: a for d, a in zip(dims, self.row_axes)}
        if len(dims) != len(self.row_axes) or not all(known_equal(x.shape[d], self.sizes[a]) for d, a in where.items()):
            raise MustStore(node, 'a row reduction used in a kernel that does not run along its rows')
        if any(set(c.axes) & set(self.row_axes) for i, c in enumerate(view) if i not in dims):
            raise MustStore(node, 'a row reduction needed at other indices than its row')
        inner = tuple(Affine({where[i]: 1}) if i in where else ZERO if i in dims else c for i, c in enumerate(view))
        arg = self.value(x, inner)
        return self.expr(node.op, (arg,), node.dtype, arg.axes - set(self.row_axes), kind=node.attrs['kind'], node=node)

    def combine(self, node, view):
        self.in_own_space(node, view)
        partial = node.args[0]
        memory = self.fusion.memory_at(partial, self.wave)
        if memory is None: raise MustStore(partial, END_REASON['partial'])
        strides = Affine()
        for i, c in enumerate(view):
            if i in memory_rest(partial): strides = strides + c.scale(memory.strides[i])
        return self.expr('combine', (), node.dtype, strides.axes, kind=node.attrs['kind'], memory=memory, strides=dict(strides.terms),
                         count=memory.shape[-1], step=memory.strides[-1], column=is_column(partial))


    def fold(self, node, view):
        """A short reduction over outer dimensions, swept anew at each of its elements."""
        x, dims = node.args[0], node.attrs['dims']
        count = product(x.shape[d] for d in dims)
        if node.attrs.get('swept') and node.attrs['kind'] in FOLDED and isinstance(count, int) and 0 < count <= UNROLLED: return self.unrolled(node, view)
        self.in_own_space(node, view)
        along = {}
        for d in dims: along[d] = len(self.sizes); self.sizes.append(x.shape[d])
        arg = self.value(x, tuple(Affine({along[i]: 1}) if i in along else c for i, c in enumerate(view)))
        return self.expr('fold', (arg,), node.dtype, arg.axes - set(along.values()), kind=node.attrs['kind'], along=tuple(along.values()))

    def unrolled(self, node, view):
        """A fold over a fixed few positions: their values one after another."""
        x, dims, total = node.args[0], node.attrs['dims'], None
        for at in positions([x.shape[d] for d in dims]):
            here = dict(zip(dims, at))
            value = self.value(x, tuple(Affine({}, here[i]) if i in here else c for i, c in enumerate(view)))
            total = value if total is None else self.expr(FOLDED[node.attrs['kind']], (total, value), node.dtype)
        return total

    def in_own_space(self, node, view):
        """Reductions over outer dimensions are evaluated in a kernel over exactly their own space, or every element would reduce anew."""
        own = [c for i, c in enumerate(view) if not is_one(node.shape[i])]
        plain = all(isinstance(c, Affine) and is_zero(c.const) and len(c.terms) == 1 and all(map(is_one, c.terms.values())) for c in own)
        if self.row_axes or not plain or {a for c in own for a in c.terms} != set(range(self.rank)):
            raise MustStore(node, 'a reduction over outer dimensions is needed in another space than its own')


def as_affine(e):
    """An i64 expression as an Affine, if it is one."""
    if e.op == 'index': return e.attrs['affine']
    if e.op == 'size': return Affine({}, e.attrs['expr'])
    return Affine({}, e.attrs['value']) if e.op == 'const' and e.dtype == 'i64' else None


def index_arithmetic(op, comps):
    """Sums and multiples of indices are indices still: the recipe computes what does not vary, and a load has a stride instead of lanes."""
    if any(c is None for c in comps): return None
    if op == 'neg': return comps[0].scale(-1)
    a, b = comps
    if op == 'mul':
        if a.terms and b.terms: return None
        return a.scale(b.const) if a.terms else b.scale(a.const)
    return a + (b if op == 'add' else b.scale(-1))


def memory_rest(partial): return [i for i in range(partial.ndim) if i not in partial.attrs['dims']]
def is_column(partial):
    x = partial.args[0]
    return solid(x.shape)[-1] not in partial.attrs['dims']


def is_dense(memory):
    return all(is_one(d) or known_equal(s, t) for d, s, t in zip(memory.shape, memory.strides, contiguous_strides(memory.shape)))


def attr_key(v):
    if isinstance(v, Affine): return v.key
    if isinstance(v, Memory): return id(v)
    if isinstance(v, dict): return tuple(sorted((k, symbolic.key(x)) for k, x in v.items()))
    if hasattr(v, 'graph'): return ('node', v.id)
    return symbolic.key(v)


END_REASON = {
    'stored': 'its definition asks for it in memory',
    'partial': 'partial results must be complete before they are combined', 'scan': 'a scan writes every prefix',
    'scatter': 'a scatter needs its destination in memory', 'across': 'its rows are read side by side, in a kernel of its own', 'cat': 'its parts are written side by side',
    'matmul': 'a matrix product is a template of its own', 'draw': 'random numbers are drawn in memory order',
    'conv': 'a convolution is a template of its own', 'conv_input': 'a convolution is a template of its own',
    'conv_weight': 'a convolution is a template of its own',
    'native': 'a routine of the runtime writes it', 'native_part': 'a routine of the runtime writes it',
    'argcolumn': 'an argreduction over an outer dimension sweeps all rows', 'checked': 'indices are checked before anything is written',
}


# --------------------------------------------------------------------------------------------------------------- fusion
class Fusion:
    """One attempt after another at cutting the graph into kernels. allocate(node, redirected) -> Memory decides where a root lives."""

    def __init__(self, roots, inputs, allocate, program):
        self.roots_wanted, self.program, self.allocate = roots, program, allocate
        self.inputs = inputs                        # node -> Memory, in memory when the recipe starts
        self.must, self.stored = {}, {}             # node -> why it is in memory; those of `must` are complete before any use
        self.after = {}                             # root -> values it needs in memory
        self.redirect = None                        # called with a result that cannot be written where it belongs by its own kernel
        self.memories = {}

    # -- what is in memory
    def memory_at(self, node, wave):
        if node in self.roots and self.wave[node] < wave: return self.memory(node)
        return self.inputs.get(node)

    def memory(self, node):
        if node not in self.memories: self.memories[node] = self.allocate(node)
        return self.memories[node]

    def memory_of_view(self, node, wave):
        """node as a strided view of something in memory (through reshapes, permutes, slices ...), or None."""
        memory = self.memory_at(node, wave)
        if memory is not None: return memory
        if node.op in ('as_real', 'as_complex'): return self.retyped_memory(node, wave)
        if node.op not in ('reshape', 'permute', 'slice', 'flip', 'expand'): return None
        m = self.memory_of_view(node.args[0], wave)
        if m is None: return None
        x = node.args[0]
        strides, offset = list(m.strides), m.offset
        if node.op == 'reshape':
            strides = reshape_strides(x.shape, m.strides, node.shape)
            if strides is None: return None
        elif node.op == 'permute': strides = [m.strides[d] for d in node.attrs['dims']]
        elif node.op == 'expand':
            skip = node.ndim - x.ndim
            strides = [0] * skip + [0 if is_one(d) else s for d, s in zip(x.shape, m.strides)]
        elif node.op == 'slice':
            d = node.attrs['dim']
            offset = offset + node.attrs['start'] * strides[d]
            strides[d] = strides[d] * node.attrs['step']
        else:
            for d in node.attrs['dims']:
                offset = offset + (x.shape[d] - 1) * strides[d]
                strides[d] = strides[d] * -1
        return Memory(m.place, m.dtype, node.shape, strides, offset)

    def retyped_memory(self, node, wave):
        """Complex memory as real pairs, or the other way round. What as_real reads is a copy, which is made only where its source has gaps."""
        x = node.args[0]
        if node.op == 'as_real':
            m = self.memory_of_view(x.args[0], wave)
            if m is None or not is_one(m.strides[-1]): m = self.memory_at(x, wave)
            return None if m is None else Memory(m.place, node.dtype, node.shape, [*[s * 2 for s in m.strides], 1], m.offset * 2)
        m = self.memory_of_view(x, wave)
        dense = m is not None and is_zero(m.offset) and all(is_one(d) or known_equal(s, t) for d, s, t in zip(m.shape, m.strides, contiguous_strides(m.shape)))
        return Memory(m.place, node.dtype, node.shape, contiguous_strides(node.shape), 0) if dense else None

    def run(self, schedule, lower):
        """Kernels, and what lower(self, node, wave) makes of nodes that are not nests, in order. Both callbacks may raise MustStore
        or Indirect."""
        for _ in range(10000):
            self.building = ()
            try: return self.attempt(schedule, lower)
            except MustStore as e:
                settled = True
                for root in self.building:
                    if root is e.node: continue
                    waits = self.after.setdefault(root, set())
                    settled = settled and e.node in waits
                    waits.add(e.node)
                if settled and e.node in self.stored:
                    # In memory, but not as it is needed: a result has the strides its caller wants.
                    if e.node not in self.allocate.outputs:
                        raise RuntimeError(f'compiler: {e.node!r} is stored and still not usable: {e.why}') from e
                    self.set_apart(e.node, e.why)
                self.stored.setdefault(e.node, e.why)
            except Indirect as e: self.set_apart(e.node, e.why)
            self.memories = {}
        raise RuntimeError('compiler: fusion does not settle')

    def set_apart(self, node, why):
        """Compute a result in dense memory of its own; a copy of it, made last, becomes the result."""
        self.redirect(node, why)
        self.roots_wanted = [r for r in self.roots_wanted if r is not node and r not in self.allocate.outputs] + list(self.allocate.outputs)
        self.must[node] = why

    def attempt(self, schedule, lower):
        order = closure(self.roots_wanted)
        self.roots = {}
        for r in self.roots_wanted: self.roots[r] = 'a result'
        ends = set()
        for n in order:
            if n.op in ENDS: self.roots.setdefault(n, END_REASON[n.op]); ends.add(n)
            if n in self.must: self.roots.setdefault(n, self.must[n]); ends.add(n)
            if n in self.stored: self.roots.setdefault(n, self.stored[n])
        # A root runs after everything that ends a kernel behind it, and after the values it could not evaluate in place. Those others
        # may still evaluate in place: they keep their wave.
        self.wave = wave = {}
        for n in order:
            wave[n] = max([wave[a] + (a in ends) for a in n.args] + [wave[a] + 1 for a in self.after.get(n, ()) if a in wave], default=0)
        users = {}
        for n in order:
            for a in n.args: users.setdefault(a, []).append(n)
        for n in order:          # recomputing a row reduction in a later kernel would read all its rows again
            if n.op in ('reduce', 'argreduce') and n not in self.roots and any(wave[u] > wave[n] for u in users.get(n, ())):
                self.roots[n] = 'a row reduction that a later kernel needs'
        self.forward(users)
        self.absorb(users)
        groups, specials = {}, {}
        for n in sorted(self.roots, key=lambda n: n.id):
            self.building = (n,)
            if n in self.forwarded: continue
            if n.op in ENDS and n.op != 'partial': specials.setdefault(wave[n], []).append(n)
            else:
                signature = self.signature(n)
                groups.setdefault((wave[n], signature.key), (signature, []))[1].append(n)
        self.merge(groups)
        steps = []
        def special(w, checks):
            for n in specials.get(w, ()):
                self.building = (n,)
                if (n.op == 'checked') == checks: steps.extend(lower(self, n, w))
        for w in sorted({w for w, _ in groups} | set(specials)):
            special(w, True)
            for (gw, _), (signature, nodes) in groups.items():
                if gw == w: steps.append(self.kernel(f'k{len(steps)}', signature, nodes, w, schedule))
            special(w, False)
        return steps

    def forward(self, users):
        """A result that is only another view of a product, a scatter, joined parts or a routine's result is written by that itself."""
        self.forwarded = set()
        for t in list(self.roots):
            n, chain = t, []
            while n.op in ('permute', 'reshape') and n not in self.inputs and (n is t or n not in self.roots):
                chain.append(n)
                n = n.args[0]
            routine = n.op in ('native', 'native_part')
            readers = lambda m: [u for u in users.get(m, ()) if u.op != 'native_part']
            if not chain or not routine and n.op not in PRODUCTS | {'scatter', 'cat'} or n in self.roots_wanted or any(len(readers(m)) != 1 for m in [n, *chain[1:]]): continue
            memory = self.memory_beneath(chain, self.memory(t))
            if routine:                              # dense, and not what a caller would find changed after an error
                dense = memory is not None and memory.place[0] != 'dest' and is_dense(memory)
                if not dense: continue
                self.memories[n] = memory
                self.written_by(n, t)
                continue
            if n.op == 'cat' and (memory is None or memory.place[0] == 'dest'): continue          # a part may read what another writes
            if memory is not None and (n.op in ('scatter', 'cat') or is_one(memory.strides[-1]) or is_one(memory.strides[-2])):
                self.memories[n] = memory
                self.written_by(n, t)

    def memory_beneath(self, chain, memory):
        """The memory of what `chain` (permutes and reshapes, outermost first) are views of, given that of the outermost; None if no strides say it."""
        for m in chain:
            if m.op == 'permute':
                inner = [None] * m.ndim
                for i, d in enumerate(m.attrs['dims']): inner[d] = memory.strides[i]
            else: inner = reshape_strides(m.shape, memory.strides, m.args[0].shape)
            if inner is None: return None
            memory = Memory(memory.place, memory.dtype, m.args[0].shape, inner, memory.offset)
        return memory

    def tail_source(self, t):
        """(value, memory): what the result t is written from, in the space of a product, and where."""
        source, memory = self.contiguous_source(t), self.memory(t)
        if source is not t: return source, Memory(memory.place, memory.dtype, source.shape, contiguous_strides(source.shape), memory.offset)
        chain, n = [], t
        while n.op in ('permute', 'reshape') and n not in self.inputs and (n is t or n not in self.roots):
            chain.append(n)
            n = n.args[0]
        beneath = self.memory_beneath(chain, memory) if n.op not in ENDS else None
        return (t, memory) if beneath is None else (n, beneath)

    def written_by(self, n, t):
        """t is complete when n is: later kernels read it, and never see n itself, whose memory now holds t."""
        self.forwarded.add(t)
        self.wave[t] = self.wave[n]

    def absorb(self, users):
        """A result that is pointwise over one matrix product, and all that becomes of it, is computed as the product is finished."""
        self.tails = {}              # matmul -> (result, axes of the product, result's expression, expression that stands for the product)
        for t in sorted(self.roots, key=lambda n: n.id):
            if t.op in ENDS or t in self.forwarded or t in self.inputs: continue
            source, memory = self.tail_source(t)
            others = [n for n in self.roots if n is not source and n.op not in PRODUCTS]
            products = [n for n in closure([source], stop=others) if n.op in PRODUCTS]
            if len(products) != 1 or not self.only_leads_to(products[0], t, users): continue
            n = products[0]
            if n.op == 'conv_input': continue               # strided, its pixels are finished phase by phase
            if n.dtype not in ('f32', 'f64') or t.dtype != n.dtype or n in self.roots_wanted: continue
            if not same_shape(n.shape, source.shape): continue
            strides = memory.strides
            by_channel = n.op == 'conv' and is_one(strides[-2]) and not is_one(n.shape[-2])       # its rows are then pixels
            if not is_one(strides[-1]) and not is_one(n.shape[-1]) and not by_channel: continue
            dense = solid(n.shape)
            b = Builder(self, self.wave[n], [n.shape[d] for d in dense])
            places = ('batch', n.ndim - 3), ('row', n.ndim - 2 + by_channel), ('column', n.ndim - 1 - by_channel)
            axes = {name: dense.index(d) if d in dense else None for name, d in places}
            view = tuple(Affine({dense.index(d): 1}) if d in dense else ZERO for d in range(n.ndim))
            product = b.expr('product', (), n.dtype, frozenset(range(len(dense))))
            b.memo[n.id, tuple(c.key for c in view)] = product
            try: root = b.value(source, view)
            except MustStore: continue
            beyond = ('reduce', 'argreduce', 'combine', 'fold', 'index')
            if any(e.op in beyond or is_complex(e.dtype) or e.op == 'load' and e.args for e in b.exprs.values()): continue
            self.tails[n] = t, axes, root, product
            self.memories[n] = Memory(memory.place, memory.dtype, n.shape, strides, memory.offset)
            self.written_by(n, t)

    def only_leads_to(self, n, t, users):
        """Does every use of n end in t?"""
        seen, todo = set(), [n]
        while todo:
            m = todo.pop()
            if m is t or m in seen: continue
            seen.add(m)
            if m is not n and (m in self.roots or m.op in ENDS) or not users.get(m): return False
            todo.extend(users[m])
        return True

    def merge(self, groups):
        """Column sums of a space that row kernels also run over: one kernel reads the operands once for both."""
        for key, (signature, nodes) in list(groups.items()):
            if signature.form != 'columns' or signature.keep: continue
            for other_key, (other, others) in list(groups.items()):
                same_space = other_key[0] == key[0] and other.form == 'rows' and other.shape_key == signature.shape_key
                if same_space and len(other.row) == len(signature.inner):
                    others.extend(nodes)
                    del groups[key]
                    break

    # -- spaces
    def signature(self, n):
        w = self.wave[n]
        if n.op == 'partial':
            x, dims = n.args[0], n.attrs['dims']
            if is_column(n):
                dense = solid(x.shape)
                return Space('columns', x.shape, keep=[d for d in dense if d < dims[0]], rows=list(dims),
                             inner=[d for d in dense if d > dims[-1]])
            return Space('flat', x.shape, inner=list(dims))
        source = self.contiguous_source(n)
        for r in reversed(self.row_reductions(n, w)):
            x, dims = r.args[0], r.attrs['dims']
            outer = [x.shape[i] for i in solid(x.shape) if i not in dims]
            row = [x.shape[d] for d in dims]
            own = [source.shape[i] for i in solid(source.shape)]
            if same_shape(own, outer + row) or same_shape(own, outer):
                return Space('rows', tuple(outer + row), row=list(range(len(outer), len(outer) + len(row))))
            raise MustStore(r, f'%{n.id} needs it in another space than its rows')
        return Space('map', tuple(source.shape[i] for i in solid(source.shape)))

    def row_reductions(self, n, w):
        """Row reductions that a kernel for n would contain."""
        seen, out, todo = set(), [], [n]
        while todo:
            m = todo.pop()
            if m in seen or m is not n and self.memory_at(m, w) is not None: continue
            seen.add(m)
            if m.op in ('reduce', 'argreduce'): out.append(m)
            todo.extend(m.args)
        return sorted(out, key=lambda m: m.id)

    def contiguous_source(self, n):
        """A reshape that gets contiguous memory of its own is written in its operand's space: the same bytes."""
        def computed(n): return n not in self.inputs and self.memory_at(n.args[0], self.wave[n]) is None
        while n.op == 'reshape' and self.contiguous_root(n) and computed(n): n = n.args[0]
        if n.op == 'reshape' and self.contiguous_root(n) and self.memory_of_view(n, self.wave[n]) is None: n = n.args[0]
        return n

    def contiguous_root(self, n):
        m = self.memory(n) if n in self.roots else None
        return m is None or all(is_one(d) or known_equal(s, t) for d, s, t in zip(m.shape, m.strides, contiguous_strides(m.shape)))

    # -- one kernel
    def kernel(self, name, space, nodes, w, schedule):
        sizes = [space.shape[i] for i in solid(space.shape)] if space.form in ('columns', 'flat') else list(space.shape)
        number = {d: k for k, d in enumerate(solid(space.shape))} if space.form in ('columns', 'flat') else None
        row_axes = space.row if space.form == 'rows' else []
        b = Builder(self, w, sizes, row_axes)
        k = Kernel(name, 'flat' if space.form == 'flat' else 'nest', sizes)
        k.nodes, k.builder, k.wave, k.sizes = list(nodes), b, w, b.sizes
        for n in nodes:
            self.building = (n,)
            if n.op == 'partial': self.partial_effect(k, b, n)
            else: self.store_effect(k, b, n, space)
        self.building = tuple(nodes)
        axes = list(range(len(sizes)))
        if space.form == 'columns':
            k.outer, k.rows, k.inner_axes = ([number[d] for d in ds] for ds in (space.keep, space.rows, space.inner))
        elif space.form == 'flat': k.inner_axes = axes
        elif space.form == 'rows':
            k.inner_axes = row_axes
            k.outer = [a for a in axes if a not in row_axes]
            if k.columns: k.rows, k.outer = k.outer, []
        else: k.inner_axes, k.outer = [], axes
        k.reasons = {f'%{n.id}:{n.op}': self.roots[n] for n in nodes}
        schedule(k, self)
        return k

    def store_effect(self, k, b, n, space):
        source = self.contiguous_source(n)
        dense = solid(source.shape)
        per_row = space.form == 'rows' and len(dense) != b.rank
        axes = [a for a in range(b.rank) if a not in space.row] if per_row else list(range(b.rank))
        view = [ZERO] * source.ndim
        for d, a in zip(dense, axes): view[d] = Affine({a: 1})
        memory = self.memory(n)
        strides, offset = {}, memory.offset
        target = memory.strides if source is n else contiguous_strides(source.shape)
        for d, a in zip(dense, axes): strides[a] = target[d]
        value = b.value(source, tuple(view))
        k.stores.append(Store(value, memory, strides, offset))
        k.stores[-1].node = n

    def copy_kernel(self, node, memory, w, schedule):
        """A kernel that evaluates node over its own shape into given memory."""
        dense = solid(node.shape)
        b = Builder(self, w, [node.shape[d] for d in dense])
        k = Kernel(f'write %{node.id}', 'nest', b.sizes)
        k.builder, k.wave, k.nodes, k.sizes = b, w, [node], b.sizes
        view = [ZERO] * node.ndim
        for a, d in enumerate(dense): view[d] = Affine({a: 1})
        store = Store(b.value(node, tuple(view)), memory, {a: memory.strides[d] for a, d in enumerate(dense)}, memory.offset)
        store.node = node
        k.stores, k.inner_axes, k.outer = [store], [], list(range(len(dense)))
        schedule(k, self)
        return k

    def partial_effect(self, k, b, n):
        """The operand at every index of its space; partial results laid out [kept leading dims, blocks, kept trailing dims]."""
        x = n.args[0]
        view, axis = [ZERO] * x.ndim, {}
        for a, d in enumerate(solid(x.shape)): view[d] = Affine({a: 1}); axis[d] = a
        value = b.value(x, tuple(view))
        memory = self.memory(n)
        if not is_column(n): value = b.expr('reduce', (value,), n.dtype, (), kind=n.attrs['kind'], node=n)
        store = Store(value, memory, {axis[d]: memory.strides[d] for d in memory_rest(n) if d in axis}, 0)
        store.node, store.kind, store.step, store.count = n, n.attrs['kind'], memory.strides[-1], memory.shape[-1]
        (k.columns if is_column(n) else k.partials).append(store)


class Space:
    """What a kernel runs over. form: map, rows, columns, flat."""
    def __init__(self, form, shape, keep=(), rows=(), inner=(), row=()):
        self.form, self.shape = form, tuple(shape)
        self.keep, self.rows, self.inner, self.row = list(keep), list(rows), list(inner), list(row)
        self.shape_key = symbolic.key(tuple(d for d in shape if not is_one(d)))
        self.key = (form, self.shape_key, tuple(keep), tuple(rows), tuple(row))


def partial_layout(program, node):
    """(shape, strides) of the memory of partial results: the kept dims of the reduction with its own numbers, then one for the blocks."""
    x, dims = node.args[0], node.attrs['dims']
    column = is_column(node)
    length = product(x.shape[d] for d in dims)
    count = program.max(1, program.ceildiv(length, ROWS if column else BLOCK))
    inner = [d for d in range(x.ndim) if d > dims[-1]]
    outer = [d for d in range(x.ndim) if d < dims[0]]
    strides, step = [0] * x.ndim, 1
    for d in reversed(inner): strides[d] = step; step = step * x.shape[d]
    block = step
    step = step * count
    for d in reversed(outer): strides[d] = step; step = step * x.shape[d]
    return tuple(node.shape) + (count,), tuple(strides) + (block,), step
