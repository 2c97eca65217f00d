"""Batching: the graph of one example becomes the graph of a batch.

    BatchDef(definition)        the operator `NAME.vmap`: arguments that vary from example to example have a leading batch dimension

The operator's body is traced on stand-ins of one example's shape; then every node that depends on a varying argument is rebuilt with one
dimension more, in front. A rule is a line for each kind of node (BATCH), and pointwise nodes need none beyond broadcasting. The gradient is
batched the same way, from the gradient of one example, so what an operator states about its gradient holds.
"""
from .. import registry
from . import trace as T
from .differentiate import differentiable, gradients
from .graph import broadcast_shapes, closure


class NotBatched(NotImplementedError):
    """A node without a rule: whoever asked runs the examples one by one."""


class Batch:
    """Rebuilds nodes for a batch. `start`: node of one example -> Sym of the batch, size first."""

    def __init__(self, size, start, randomness):
        self.size, self.known, self.randomness = size, dict(start), randomness

    def varying(self, node): return node in self.known

    def of(self, nodes):
        """(Sym, varies) of each node."""
        for n in closure(nodes, stop=self.known):
            if n in self.known: continue
            if n.op in ('call', 'stop', 'itself'):
                if n.args[0] in self.known: self.known[n] = self.known[n.args[0]]
            elif n.op == 'draw' and self.randomness != 'same' or any(a in self.known for a in n.args):
                self.known[n] = self.rebuilt(n)
        return [(self.known[n], True) if n in self.known else (T.Sym(n), False) for n in nodes]

    def rebuilt(self, n):
        rule = BATCH.get(n.op)
        if rule is not None: return rule(self, n)
        if not n.is_pointwise: raise NotBatched(f'{n.op} has no batching rule')
        args = [self.aligned(a, n.ndim) for a in n.args]
        if n.op in ('cast', 'bitcast'): return T.Sym(n.graph.node(n.op, [args[0].node], n.attrs, args[0].shape, n.dtype))
        return T.prim(n.op, *args)

    def aligned(self, node, rank):
        """An operand of something of `rank` dimensions: the batch stays in front of all of them."""
        if node not in self.known: return T.Sym(node)
        x = self.known[node]
        return T.reshape(x, (x.shape[0],) + (1,) * (rank - node.ndim) + x.shape[1:]) if node.ndim < rank else x

    def whole(self, node):
        """With a batch dimension, whether it varies or not."""
        if node in self.known: return self.known[node]
        return T.expand(T.reshape(T.Sym(node), (1,) + node.shape), (self.size,) + node.shape)


def _reduce(b, n):
    x, dims, swept = b.known[n.args[0]], tuple(d + 1 for d in n.attrs['dims']), n.attrs.get('swept')
    if n.op == 'argreduce': return T.argfold(x, dims) if swept else T.argreduce(n.attrs['kind'], x, dims)
    return (T.fold if swept else T.reduce)(n.attrs['kind'], x, dims)


def _load(b, n):
    x, rank = n.args[0], n.args[0].ndim
    rest = [b.aligned(a, n.ndim) for a in n.args[1:]]
    indices, guard = rest[:rank], rest[rank:]
    shape = (b.size,) + n.shape
    if b.varying(x): indices = [T.iota(b.size, 0, len(shape)), *indices]
    source = b.known.get(x, T.Sym(x))
    return T.expand(T.load(source, indices, *(guard or (None, None)), shape=shape), shape)


def _scatter(b, n):
    base, src, *indices = n.args
    places = [b.aligned(e, src.ndim) for e in indices]
    return T.scatter(b.whole(base), [T.iota(b.size, 0, src.ndim + 1), *places], b.whole(src), n.attrs['combine'])


def _matmul(b, n):
    left, right = n.args
    if n.ndim == 2 and not b.varying(right):                      # one matrix for all: their rows in one product
        x = b.known[left]
        return T.reshape(T.matmul(T.reshape(x, (x.shape[0] * x.shape[1], x.shape[2])), T.Sym(right)), (b.size,) + n.shape)
    x, y = b.whole(left), b.whole(right)
    if n.ndim == 2: return T.matmul(x, y)
    merged = lambda v: T.reshape(v, (v.shape[0] * v.shape[1],) + v.shape[2:])
    return T.reshape(T.matmul(merged(x), merged(y)), (b.size,) + n.shape)


def _draw(b, n):
    if b.randomness == 'error':
        raise RuntimeError("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness "
                           "flags on vmap or perform the randomness operation out of vmap")
    if any(b.varying(a) for a in n.args): raise NotBatched('a draw whose parameters vary')
    return T.draw(n.attrs['kind'], (b.size,) + n.shape, n.dtype, *[T.Sym(a) for a in n.args])


def _check(b, n):
    return T.check(b.known[n.args[0]], n.attrs['lo'], n.attrs['hi'], n.attrs['error'], n.attrs['underived'])


def _expand(b, n): return T.expand(b.aligned(n.args[0], n.ndim), (b.size,) + n.shape)


BATCH = {
    'reduce': _reduce, 'argreduce': _reduce, 'load': _load, 'scatter': _scatter, 'matmul': _matmul, 'draw': _draw, 'check': _check, 'expand': _expand,
    'scan': lambda b, n: (T.recurrence(b.whole(n.args[0]), b.whole(n.args[1]), n.attrs['dim'] + 1, n.attrs['reverse']) if n.attrs['kind'] == 'linear' else
                          T.scan(n.attrs['kind'], b.known[n.args[0]], n.attrs['dim'] + 1, n.attrs['reverse'])),
    'reshape': lambda b, n: T.reshape(b.known[n.args[0]], (b.size,) + n.shape),
    'permute': lambda b, n: T.permute(b.known[n.args[0]], (0, *(d + 1 for d in n.attrs['dims']))),
    'flip': lambda b, n: T.flip(b.known[n.args[0]], tuple(d + 1 for d in n.attrs['dims'])),
    'slice': lambda b, n: _slice(b, n), 'loop': lambda b, n: _loop(b, n),
    'cat': lambda b, n: T.cat([b.whole(a) for a in n.args], n.attrs['dim'] + 1),
    **dict.fromkeys(('conv', 'conv_input', 'conv_weight'), lambda b, n: _convolution(b, n)),
}


def _convolution(b, n):
    from .convolution import batched
    return batched(b, n)


def _loop(b, n):
    args = [b.aligned(a, n.ndim).node for a in n.args]
    return T.Sym(n.graph.node('loop', args, n.attrs, broadcast_shapes([a.shape for a in args]), n.dtype))


def _slice(b, n):
    d, start, step = n.attrs['dim'], n.attrs['start'], n.attrs['step']
    return T.slice(b.known[n.args[0]], d + 1, start, start + (n.shape[d] - 1) * step + 1, step)


class BatchDef(registry.OpDef):
    """An operator over a batch. Its mask has a digit for each flattened tensor argument, 1 where it has a batch dimension in front."""

    def __init__(self, primal):
        self.primal = primal
        nesting = primal.name.count('.vmap')                     # a batch of batches has two masks
        self.mask, self.chance = f'varying{nesting}', f'randomness{nesting}'
        options = dict(on='-', layout='contiguous', kernel=primal.kernel, node=f'{primal.short_name}VmapBackward0', differentiable=primal.differentiable, linear=primal.linear)
        super().__init__(primal.body, [self._extended(s) for s in primal.signatures], options)
        self.name = primal.name + '.vmap'
        self.body = self._trace
        self.gradients = {p: self._gradient(p) for p in self.params if self.params[p].is_tensor}

    def _extended(self, s):
        params = [registry.Param(p.name, p.type.replace('(a!)', ''), p.default, p.keyword_only) for p in s.params]
        extra = [registry.Param(self.mask, 'str', registry.REQUIRED, True), registry.Param(self.chance, 'str', 'error', True)]
        return registry.Signature(s.name, params + extra, s.returns, f'{s.text} over a batch')

    def _bind_body(self): self.body_binding, self.body_defaults = [], {}
    def arguments(self, values): return [values]

    def _one(self, values):
        """One example: its outputs, {stand-in: batch}, batch size, [(parameter, place, node, varies)]."""
        graph, digits = T.current().graph, iter(values[self.mask])
        start, size, operands = {}, None, []

        def stand_in(x, name, place):
            nonlocal size
            if x is None or x.kind is not None: return x
            varies = next(digits) == '1'
            node = x.node
            if varies:
                if size is not None and not size == x.shape[0]:
                    raise ValueError('vmap: Expected all tensors to have the same size in the mapped dimension')
                size = x.shape[0]
                node = graph.node('input', (), {'index': None, 'example': len(graph.nodes)}, x.shape[1:], x.dtype)
                start[node] = x
            operands.append((name, place, node, varies))
            return T.Sym(node)
        primals = {}
        for name, value in values.items():
            if name in (self.mask, self.chance): continue
            if isinstance(value, T.Sym): value = stand_in(value, name, None)
            elif isinstance(value, list) and any(isinstance(v, T.Sym) for v in value): value = [stand_in(v, name, i) for i, v in enumerate(value)]
            primals[name] = value
        signature = next(s for s in self.primal.signatures if set(s.by_name) == set(primals))
        out = T.invoke(self.primal, primals, {p.name: p.kind for p in signature.params})
        return (list(out) if isinstance(out, (tuple, list)) else [out]), start, size, operands

    def _trace(self, values):
        outputs, start, size, _ = self._one(values)
        batch = Batch(size, start, values[self.chance])
        batch.of([o.node for o in outputs])
        wide = tuple(batch.whole(o.node) for o in outputs)
        return wide if len(wide) > 1 else wide[0]

    def _gradient(self, wanted): return BatchGradient(self, wanted)


class BatchGradient:
    """The gradient of one parameter: that of one example, batched. A parameter that does not vary gets the sum over the batch."""

    def __init__(self, definition, wanted): self.definition, self.wanted = definition, wanted

    def of_group(self, group, grads):
        outputs, start, size, operands = self.definition._one(group.values)
        graph, marks = T.current().graph, []
        for g, o, r in zip(grads, outputs, group.results):
            present = g is not None and differentiable(o.dtype)
            marks.append(graph.node('input', (), {'index': None, 'example': len(graph.nodes)}, o.shape, o.dtype) if present else None)
            if present: start[marks[-1]] = T.expand(g, r.shape)
        mine = [(place, node, varies) for name, place, node, varies in operands if name == self.wanted]
        found = gradients([o.node for o in outputs], [None if m is None else T.Sym(m) for m in marks], [n for _, n, _ in mine])
        batch, out = Batch(size, start, group.values[self.definition.chance]), {}
        for (place, node, varies), g in zip(mine, found):
            if g is None: continue
            g = T.expand(T.Sym(g), node.shape).node
            [(value, wide)] = batch.of([g])
            if varies: out[place] = batch.whole(g)
            elif wide: out[place] = T.reshape(T.reduce('sum', value, (0,)), node.shape)
            else: out[place] = value * T.cast(T.size(size, T.real_dtype(value.dtype)), value.dtype)
        if not out or None in out: return out.get(None)
        return [out.get(place) for place in range(1 + max(p for p, _, _ in mine))]


def derive(name): return BatchDef(registry.find(name.removesuffix('.vmap')))
