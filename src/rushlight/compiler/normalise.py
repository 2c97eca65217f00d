"""The normal form of a graph before fusion: reductions split into what one kernel can do, complex products in parts; and the arithmetic of reshapes."""
from .graph import closure, is_complex, same_shape
from .loops import BLOCK, ROWS, is_one, is_zero
from .symbolic import hint, known_equal, product

CONVOLUTIONS = {'conv', 'conv_input', 'conv_weight'}
SMALL = 16384         # elements that a column reduction may sweep without partial results


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
        elif n.op == 'scan' and is_one(n.shape[n.attrs['dim']]): out = first_places(graph, n) if n.attrs['kind'].startswith('arg') else args[0]
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


def first_places(graph, n):
    """Where the best of one element is."""
    return graph.node('expand', (graph.node('const', (), {'value': 0}, (), 'i64'),), {}, n.shape, 'i64')


def normal_argreduce(graph, n, x):
    if n.attrs.get('swept'): return graph.node('fold', (x,), n.attrs, n.shape, 'i64')
    parts = runs(x.shape, n.attrs['dims'])
    if not parts: return first_places(graph, n)
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
