"""Steps that are not nests: checks, concatenation, sweeps along an outer axis (scans, column argmax), scatters, matrix products, draws, routines of the runtime.

lower(build, fusion, node, wave) -> kernels and steps, in order. Any of them may raise MustStore for an operand that has to be in memory.
"""
from .emit.across import AcrossEmitter
from .emit.check import CheckEmitter
from .emit.scatter import ScatterEmitter
from .emit.sweep import SweepEmitter
from .evaluate import Builder, Indirect, MustStore
from .graph import closure as node_closure
from .graph import dtype_code, itemsize
from .loops import ZERO, Affine, Buffer, Kernel, Memory, Store, closure, is_one, is_zero
from .normalise import solid
from .schedule import schedule
from .steps import Step
from .symbolic import contiguous_strides, known_equal, product


def lower(build, fusion, node, wave): return LOWER[node.op](build, fusion, node, wave)


def operand(fusion, node, wave, why):
    """node as a strided view of memory; without one it must be stored first."""
    memory = fusion.memory_of_view(node, wave)
    if memory is None: raise MustStore(first_computed(fusion, node, wave), why)
    return memory


def first_computed(fusion, node, wave):
    """Through views that cost nothing to what must really be stored: a computed value, or a reshape that no strides express."""
    n = node
    while n.op in ('permute', 'slice', 'flip', 'expand') and fusion.memory_at(n, wave) is None: n = n.args[0]
    if n.op == 'reshape' and fusion.memory_of_view(n.args[0], wave) is None: return first_computed(fusion, n.args[0], wave)
    if n.op == 'as_real': return n.args[0]
    if n.op == 'as_complex': return first_computed(fusion, n.args[0], wave)
    return n


def accumulates(expr): return any(e.op in ('reduce', 'argreduce', 'combine', 'fold') for e in closure([expr]))


def is_contiguous(memory):
    return all(is_one(d) or known_equal(s, t) for d, s, t in zip(memory.shape, memory.strides, contiguous_strides(memory.shape)))


def identity_view(node):
    view, axes = [ZERO] * node.ndim, {}
    for a, d in enumerate(solid(node.shape)): view[d] = Affine({a: 1}); axes[d] = a
    return tuple(view), axes


# --------------------------------------------------------------------------------------------------------------- checks
def lower_check(build, fusion, node, wave):
    x, attrs = node.args[0], node.attrs
    view, axes = identity_view(x)
    b = Builder(fusion, wave, [x.shape[d] for d in axes])
    k = Kernel(f'check %{x.id}', 'nest', b.sizes)
    k.builder, k.nodes, k.wave, k.sizes = b, [node], wave, b.sizes
    strides = contiguous_strides(x.shape)
    nowhere = Memory(('none', None), x.dtype, x.shape, strides)
    k.stores = [Store(b.value(x, view), nowhere, {a: strides[d] for d, a in axes.items()}, 0)]
    k.inner_axes, k.outer = [], list(range(b.rank))
    schedule(k, fusion)
    emitter = CheckEmitter(k, build.program, attrs['lo'], attrs['hi'], build.error_code(attrs['error'], attrs['hi']))
    step = Step(emitter, k.units, k.grain, k.cost, None, k)
    step.read = [e for e in closure(k.roots()) if e.op in ('load', 'combine')]
    return [step]


# ----------------------------------------------------------------------------------------------------------------- cat
def lower_cat(build, fusion, node, wave):
    out, dim = fusion.memory(node), node.attrs['dim']
    kernels, at = [], 0
    for x in node.args:
        part = Memory(out.place, out.dtype, x.shape, out.strides, out.offset + out.strides[dim] * at)
        kernels.append(fusion.copy_kernel(x, part, wave, schedule))
        kernels[-1].nodes = [node]
        at = at + x.shape[dim]
    return kernels


# --------------------------------------------------------------------------------------------------------------- stored
def lower_stored(build, fusion, node, wave):
    kernel = fusion.copy_kernel(node.args[0], fusion.memory(node), wave, schedule)
    kernel.nodes = [node]
    return [kernel]


# --------------------------------------------------------------------------------------------------------------- sweeps
def lower_sweep(build, fusion, node, wave):
    """A scan, or an argreduction over outer dimensions: the swept axes in order, vectors across the innermost other axis."""
    x = node.args[0]
    swept = [node.attrs['dim']] if node.op == 'scan' else list(node.attrs['dims'])
    view, axes = identity_view(x)
    b = Builder(fusion, wave, [x.shape[d] for d in axes])
    value, out = b.value(x, view), fusion.memory(node)
    if accumulates(value): raise MustStore(x, 'a sweep reads its operand from memory')
    factor = b.value(node.args[1], view) if len(node.args) > 1 else None          # of a linear recurrence
    if factor is not None and accumulates(factor): raise MustStore(node.args[1], 'a sweep reads its operand from memory')
    along = [axes[d] for d in swept if d in axes]
    others = [a for a in axes.values() if a not in along]
    inner = others[-1] if others and others[-1] > along[-1] else None
    outer = [a for a in others if a != inner]
    store = Store(value, out, {axes[d]: out.strides[d] for d in axes if node.op == 'scan' or d not in swept}, out.offset)
    emitter = SweepEmitter(build.program, b.sizes, outer, along, inner, store, node.op, node.attrs['kind'],
                           node.attrs.get('reverse', False), node.dtype, factor)
    step = Step(emitter, emitter.units, emitter.grain, emitter.cost)
    step.read, step.write = [e for e in closure([value] if factor is None else [value, factor]) if e.op == 'load'], [store]
    step.passes = 1 if node.op == 'scan' else 2
    step.title = f'sweep {node!r}'
    return [step]


def lower_across(build, fusion, node, wave):
    """A row reduction whose operand is dense along another axis: see emit/across.py."""
    x, dims = node.args[0], node.attrs['dims']
    view, axes = identity_view(x)
    b = Builder(fusion, wave, [x.shape[d] for d in axes])
    value, out = b.value(x, view), fusion.memory(node)
    if accumulates(value): raise MustStore(x, 'a reduction across rows reads its operand from memory')
    along, inner = [axes[d] for d in dims if d in axes], axes[node.attrs['axis']]
    outer = [a for a in axes.values() if a not in along and a != inner]
    store = Store(value, out, {axes[d]: out.strides[d] for d in axes if d not in dims}, out.offset)
    emitter = AcrossEmitter(build.program, b.sizes, outer, along, inner, store, node.attrs['kind'])
    step = Step(emitter, emitter.units, emitter.grain, emitter.cost)
    step.read, step.write, step.passes = [e for e in closure([value]) if e.op == 'load'], [store], 2
    step.title = f'across {node!r}'
    return [step]


# -------------------------------------------------------------------------------------------------------------- scatter
def lower_scatter(build, fusion, node, wave):
    base, src, *indices = node.args
    out = fusion.memory(node)
    steps = []
    given = fusion.inputs.get(base)
    in_place = given is not None and out.place[0] == 'dest' and out.place[1] in build.input_of[given.place[1]].aliases
    if not in_place: steps.append(fusion.copy_kernel(base, out, wave, schedule)); steps[-1].nodes = [node]
    view, axes = identity_view(src)
    b = Builder(fusion, wave, [src.shape[d] for d in axes])
    value = b.value(src, view)
    places = [b.value(e, b.aligned(view, src, e)) for e in indices]
    for e, x in zip([value, *places], [src, *indices]):
        if accumulates(e): raise MustStore(x, 'a scatter reads its operands from memory')
    emitter = ScatterEmitter(build.program, b, value, places, out, node.attrs['combine'], base.shape)
    step = Step(emitter, emitter.units, emitter.grain, emitter.cost)
    store = Store(value, out, {}, 0)
    step.read, step.write, step.passes = [e for e in closure([value, *places]) if e.op == 'load'], [store], 2
    step.title = f'scatter {node!r}'
    return steps + [step]


# --------------------------------------------------------------------------------------------------------------- matmul
def lower_matmul(build, fusion, node, wave):
    from . import templates
    why = 'an operand of a matrix product must be in memory'
    a, b = (operand(fusion, x, wave, why) for x in node.args)
    out = fusion.memory(node)
    if not (is_one(out.strides[-1]) or is_one(out.strides[-2]) or is_one(node.shape[-1]) or is_one(node.shape[-2])):
        raise Indirect(node, 'a matrix product writes dense rows')
    def three(m, shape):
        strides = [0 if is_one(d) else s for d, s in zip(shape, m.strides)]
        return templates.Operand(m.place, m.offset * itemsize(m.dtype), tuple(([0] if len(shape) == 2 else []) + strides))
    def result(m, shape):
        strides = list(m.strides)
        if is_one(shape[-1]): strides[-1] = 1
        elif is_one(shape[-2]) and not is_one(strides[-1]): strides[-2] = 1
        return templates.Operand(m.place, m.offset * itemsize(m.dtype), tuple(([0] if len(shape) == 2 else []) + strides))
    batch = node.shape[0] if node.ndim == 3 else 1
    m, n, k = node.shape[-2], node.shape[-1], node.args[0].shape[-1]
    epilogue, tail_reads = product_tail(build, fusion, node)
    left, right = three(a, node.args[0].shape), three(b, node.args[1].shape)
    sizes, launches = templates.lower_matmul(build.program, node.dtype, batch, m, n, k, left, right, result(out, node.shape), epilogue)
    rooms = [Buffer('temporary', 'u8', (size,), (1,), size) for size in sizes]
    steps = []
    for s in launches:
        scratch = None if is_zero(s.scratch) else s.scratch
        step = Step(Template(s, rooms), s.units, s.grain, s.cost, scratch, symbol=s.symbol)
        step.title = f'{s.symbol} {node!r}'
        step.read, step.write, step.passes = [a, b, *tail_reads], [Store(None, out, {}, 0)], 2
        if epilogue is not None: step.title += f' then {fusion.tails[node][0]!r}'
        steps.append(step)
    return steps


def product_tail(build, fusion, node):
    """The epilogue of a product, when fusion found one: (Epilogue or None, what it reads)."""
    from . import templates
    from .emit.epilogue import EpilogueEmitter
    from .emit.ir import Fn, Module
    if node not in fusion.tails: return None, []
    _, axes, root, product = fusion.tails[node]
    emitter = EpilogueEmitter(build.program, axes, product, root)
    scrap = Fn(Module(), 'scrap', [])                      # a first time, to learn which operands it needs
    number = scrap.const(0)
    pointer, integer = lambda i: scrap.poison('ptr', 1), lambda i: number
    elem = 'float' if node.dtype == 'f32' else 'double'
    emitter.emit(scrap, scrap.const(0.0, elem), number, number, number, pointer, integer, lambda i, kind='double': scrap.const(0, kind))
    return templates.Epilogue(emitter.emit, emitter.pointers, emitter.ints, emitter.scalars), [e for e in closure([root]) if e.op == 'load']


class Template:
    """A template's step in the form of an emitter."""
    def __init__(self, step, rooms):
        self._text, self.ints, self.scalars = step.text, list(step.ints), list(step.scalars)
        self.pointers = [('buffer', rooms[i], offset) if kind == 'temporary' else (kind, i, offset) for kind, i, offset in step.pointers]
    def text(self): return self._text


# ---------------------------------------------------------------------------------------------------------------- draws
def lower_draw(build, fusion, node, wave):
    """Random numbers by the runtime, in memory order. p: the result, then each parameter; n: elements, dtype codes."""
    parameters = [operand(fusion, x, wave, 'a parameter of a draw must be in memory') for x in node.args]
    out = fusion.memory(node)
    if not is_contiguous(out) or out.place[0] == 'dest':
        raise Indirect(node, 'random numbers are drawn into dense memory')
    count = product(node.shape)
    ints = [count, *[dtype_code(m.dtype) for m in (out, *parameters)]]
    step = Step(Operands([out, *parameters], ints), 1, 1, count * itemsize(node.dtype), native='draw_' + node.attrs['kind'])
    step.read, step.write = parameters, [Store(None, out, {}, 0)]
    step.title = f'draw {node!r}'
    return [step]


# --------------------------------------------------------------------------------------------------------------- natives
def lower_native(build, fusion, node, wave):
    """A routine of the runtime (trace.native). It writes all its results in one launch; those nobody asks for go to a temporary."""
    attrs = node.attrs
    why = 'a routine of the runtime reads dense memory'
    inputs, strides = [], []
    for i, copy in enumerate(node.args):
        memory = fusion.memory_of_view(copy.args[0], wave)
        rows = i in attrs['strided']
        if memory is None or not (is_contiguous(memory) or rows and (is_one(memory.strides[-1]) or is_one(memory.shape[-1]))):
            memory = operand(fusion, copy, wave, why)
        inputs.append(memory)
        if rows: strides += [0 if is_one(d) else s for d, s in zip(memory.shape[:-1], memory.strides)]
    parts = {n.attrs['part']: n for n in node_closure(fusion.roots_wanted) if n.op == 'native_part' and n.args[0] is node}
    outputs = []
    for i, (shape, dtype) in enumerate(attrs['outputs']):
        result = node if i == 0 else parts.get(i)
        if result is None:
            size = product(shape) * itemsize(dtype)
            outputs.append(Memory(('buffer', Buffer('temporary', 'u8', (size,), (1,), size)), dtype, shape, contiguous_strides(shape)))
            continue
        memory = fusion.memory(result)
        if not is_contiguous(memory) or memory.place[0] == 'dest': raise Indirect(result, 'a routine of the runtime writes dense memory')
        outputs.append(memory)
    operands = Operands(outputs + inputs, [*attrs['ints'], *strides])
    made = attrs['template'] is not None
    if made:
        from . import templates
        operands.text = lambda: templates.TEXTS[attrs['name']](*attrs['template'])
    step = Step(operands, attrs['units'], attrs['grain'], attrs['cost'], None if is_zero(attrs['scratch']) else attrs['scratch'],
                native=None if made else attrs['name'], symbol=attrs['name'])
    step.first_error = build.native_errors(attrs['errors'])
    step.read, step.write, step.passes = inputs, [Store(None, m, {}, 0) for m in outputs], 2
    step.title = f'native {node!r}'
    return [step]


class Operands:
    def __init__(self, memories, ints):
        self.pointers = [(m.place[0], m.place[1], m.offset * itemsize(m.dtype)) for m in memories]
        self.ints, self.scalars = list(ints), []


def lower_convolution(build, fusion, node, wave):
    from . import convolution
    return convolution.lower(build, fusion, node, wave)


LOWER = {'checked': lower_check, 'cat': lower_cat, 'stored': lower_stored, 'across': lower_across, 'scan': lower_sweep, 'argcolumn': lower_sweep, 'scatter': lower_scatter,
         'matmul': lower_matmul, 'draw': lower_draw, 'native': lower_native, 'conv': lower_convolution, 'conv_input': lower_convolution, 'conv_weight': lower_convolution, 'native_part': lambda *_: []}
