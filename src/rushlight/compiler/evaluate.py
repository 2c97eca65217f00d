"""Values at an index: what a node of the graph is at one place of a kernel's space, as an expression of the loop language.

Everything between stored values and the place is pulled in. A value that cannot be evaluated where it is wanted raises `MustStore`.
"""
from . import symbolic
from .graph import is_complex
from .loops import DEAR, ZERO, Affine, Expr, Memory, is_one, is_zero
from .normalise import match_groups, positions, solid
from .symbolic import contiguous_strides, known_equal, product

# what is never evaluated on demand, and why
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
UNROLLED = 32         # positions of a fold that are written out instead of looped over
FOLDED = {'sum': 'add', 'prod': 'mul', 'amax': 'maximum', 'amin': 'minimum', 'any': 'bit_or', 'all': 'bit_and', 'xor': 'bit_xor'}


class MustStore(Exception):
    """A value that cannot be evaluated where it is wanted: it needs memory."""
    def __init__(self, node, why): self.node, self.why = node, why


class Indirect(Exception):
    """A result whose strides do not fit its kernel: to be computed in memory of its own, then copied."""
    def __init__(self, node, why): self.node, self.why = node, why


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
        if op in END_REASON or op == 'input': raise MustStore(node, END_REASON.get(op, 'it ends a kernel'))
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
            comp, moved = self.parted(comp)
            if moved is not None: strides = strides + moved.scale(stride)
            if comp is not None and not is_zero(stride): dynamic.append(comp); dynamic_strides.append(stride)
        axes = strides.axes.union(*[e.axes for e in dynamic], *[g.axes for g in guard or ()])
        return self.expr('load', [*dynamic, *(guard or ())], memory.dtype, axes, memory=memory, strides=dict(strides.terms),
                         offset=strides.const + offset, dynamic=tuple(dynamic_strides), guarded=guard is not None)

    def parted(self, comp):
        """A computed index and an Affine to be added, either of them None: of `computed + tap` only the first is computed, and the load has a stride along the taps."""
        if isinstance(comp, Affine): return None, comp
        if comp.op == 'add':
            for rest, moved in (comp.args, comp.args[::-1]):
                if as_affine(moved) is not None: return rest, as_affine(moved)
        return comp, None

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
            if n.op in END_REASON or n.op in DEAR or n.op in ('reduce', 'argreduce', 'fold', 'combine', 'reshape', 'div', 'idiv', 'fmod', 'load', 'sqrt'): return False
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
