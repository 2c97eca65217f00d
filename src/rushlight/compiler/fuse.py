"""Fusion: from a primitive graph to kernels, in execution order.

Fusion is the choice of *roots*, the values that get memory: the results; whatever ends a kernel (partial results of reductions over
outer dimensions or over everything, scans, scatters, matrix products); and values that a later step finds it cannot evaluate in
place. Everything between stored values and a root is pulled into the root's kernel, evaluated on demand at an index. A value that
cannot be evaluated where it is wanted raises `MustStore`; it then becomes a root with that reason, and fusion starts over.

Bits never change by fusion: a pointwise value has the same bits wherever it is evaluated, and a reduction's order is a function of its own
shape (contract, section 8), whatever surrounds it.
"""
from . import symbolic
from .evaluate import END_REASON, Builder, Indirect, MustStore, is_column, is_dense, memory_rest
from .graph import closure, is_complex, same_shape
from .loops import BLOCK, ROWS, ZERO, Affine, Kernel, Memory, Store, is_one, is_zero
from .normalise import reshape_strides, solid
from .symbolic import contiguous_strides, known_equal, product

PRODUCTS = {'matmul', 'conv', 'conv_input'}          # their results may be written as other views, and what follows them joins them


class Fusion:
    """One attempt after another at cutting the graph into kernels. allocate(node, redirected) -> Memory decides where a root lives."""

    def __init__(self, roots, inputs, allocate, program):
        self.roots_wanted, self.program, self.allocate = roots, program, allocate
        self.inputs = inputs                        # node -> Memory, in memory when the recipe starts
        self.must, self.stored = {}, {}             # node -> why it is in memory; those of `must` are complete before any use
        self.after = {}                             # root -> values it needs in memory
        self.plain = set()                          # temporaries that must lie row-major
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
                if settled and e.node in self.stored: self.lay_otherwise(e)
                self.stored.setdefault(e.node, e.why)
            except Indirect as e: self.lay_otherwise(e)
            self.memories = {}
        raise RuntimeError('compiler: fusion does not settle')

    def lay_otherwise(self, e):
        """A value is in memory, but not as it is needed: a result has the strides its caller wants, a temporary lies as the images it is made from."""
        if e.node in self.allocate.outputs: self.set_apart(e.node, e.why)
        elif e.node in self.plain: raise RuntimeError(f'compiler: {e.node!r} is stored and still not usable: {e.why}') from e
        else: self.plain.add(e.node)

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
            if n.op in END_REASON: self.roots.setdefault(n, END_REASON[n.op]); ends.add(n)
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
            if n.op in END_REASON and n.op != 'partial': specials.setdefault(wave[n], []).append(n)
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
        beneath = self.memory_beneath(chain, memory) if n.op not in END_REASON else None
        return (t, memory) if beneath is None else (n, beneath)

    def written_by(self, n, t):
        """t is complete when n is: later kernels read it, and never see n itself, whose memory now holds t."""
        self.forwarded.add(t)
        self.wave[t] = self.wave[n]

    def absorb(self, users):
        """A result that is pointwise over one matrix product, and all that becomes of it, is computed as the product is finished."""
        self.tails = {}              # matmul -> (result, axes of the product, result's expression, expression that stands for the product)
        for t in sorted(self.roots, key=lambda n: n.id):
            if t.op in END_REASON or t in self.forwarded or t in self.inputs: continue
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
            if m is not n and (m in self.roots or m.op in END_REASON) or not users.get(m): return False
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
