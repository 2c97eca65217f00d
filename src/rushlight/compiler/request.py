"""From a compile request to a recipe: trace, differentiate, partition, decompose, lay out, and hand over to the backend.

A request is pure data (`plans.py` makes it from what the runtime says), so it can be a key:

    ('op', name, signature index, form, grad mask, params, dests, default dtype)
    ('backward', key of the forward, grad mask, grads, saved, needed mask, syms, scalar kinds, default dtype)

form: 0 plain, 1 in-place, 2 out=. A tensor is (dtype code, device code, shape, strides, bits) or None.

`traced(request)` gives the graph of a request, whichever kind it is; `derivative(traced)` what its backward keeps and needs. Both are
functions of the request alone, so a backward found in a cache after a restart re-traces its forward and meets the same saved values.

Decisions
  - In-place forms of plain operators write the first tensor argument; operators with `Tensor(a!)` parameters write those, in order.
  - An in-place form whose gradient needs the old value of what it overwrites keeps a copy (a hidden value), as torch does.
  - Without stated strides an output follows the operator's `layout`: pointwise (TensorIterator's rule over all tensor arguments),
    contiguous, like / format (as the first argument, or its memory_format argument).
  - Gradients are laid out by the pointwise rule over the arguments of the backward call that have their shape, else contiguous.
  - Strides that chain (stride[i] == size[j] * stride[j], in stride order) are guarded and then known; so a dense tensor is
    recognised as one.
"""
from .. import registry
from . import trace as T
from .decompose import decompose
from .differentiate import differentiable, gradients, partition
from .graph import DTYPE_OF_CODE, SCALAR_TYPE_NAME, Graph, Input, Output, hint_of, same_shape, verify
from .promotion import can_cast
from .structural import is_one
from .symbolic import Program, SymInt, contiguous_strides, dimension_order, hint, known_equal, product
from .transplant import Transplant, slots_of

CONJ, NEG = 16, 32
DEVICE_OF_CODE = ('cpu', 'meta')


class Traced:
    """A request as a graph. `inputs`, `strides`: by flattened tensor argument (None: absent). `values`: the same with conj
        and neg bits resolved."""

    def __init__(self, program, default):
        self.program, self.graph = program, Graph(program)
        self.state = T.Tracing(self.graph, default)
        self.inputs, self.strides, self.values = [], [], []
        self.outputs, self.aliases = [], []
        self.stated = set()               # flattened arguments whose gradient the definition states
        self.dests = None                 # [(shape, strides, dtype, argument index or None)]
        self.grad_mask, self.differentiable = 0, True
        self.keep_outputs, self.node_name, self.layout, self.memory_format = True, None, 'pointwise', None
        self.key, self.definition = None, None     # definition: of an operator; a backward has none
        self.convolved = None             # a backward of a convolution: whether its gradients are channels_last
        self.spatial = False              # a backward of an operator that keeps channels_last: so do its gradients
        self.once = False                 # a second backward through its node is refused
        self.warnings = []                # what a call says before it runs
        self._derivative = None


# ------------------------------------------------------------------------------------------------------------- arguments
def add_tensor(t, description, what, contracted=None):
    """The next tensor argument: its slots, its node. Returns a Sym (None when absent). contracted: its dimension that a product sums over."""
    if description is None:
        t.inputs.append(None)
        t.strides.append(None)
        t.values.append(None)
        return None
    code, _, _, _, bits = description
    shape, strides = tensor_slots(t.program, description, f'{what}{len(t.inputs)}', contracted)
    node = t.graph.node('input', (), {'index': len(t.inputs)}, shape, DTYPE_OF_CODE[code])
    value = T.Sym(node)
    if bits & CONJ: value = T.conj(value)
    if bits & NEG: value = -value
    t.inputs.append(node)
    t.strides.append(strides)
    t.state.strides[node] = strides
    t.values.append(value)
    return value


def tensor_slots(program, description, name, contracted=None):
    """Sizes and strides of a tensor as entry slots. The strides of a dense tensor become products of its sizes, under guards."""
    _, _, sizes, steps, _ = description
    count = None if contracted is None else contracted + len(sizes)
    shape = tuple(program.entry('count' if i == count else 'size', s, f'{name}.{i}') for i, s in enumerate(sizes))
    strides = [program.entry('stride' if sizes[i] > 1 else 'free', s, f'{name}.s{i}') for i, s in enumerate(steps)]
    for i, s in enumerate(sizes):
        if s in (0, 1): strides[i] = 0              # never multiplied by an index other than 0
    order = sorted((i for i, s in enumerate(sizes) if s > 1), key=lambda i: (steps[i], -i))
    for inner, outer in zip(order, order[1:]):
        if steps[outer] == sizes[inner] * steps[inner] and steps[inner]:
            assert strides[outer] == shape[inner] * strides[inner]
    return shape, tuple(program.simplify(s) for s in strides)


def strides_text(t): return [None if s is None else tuple(map(str, s)) for s in t.strides]


# --------------------------------------------------------------------------------------------------------------- tracing
_recent = {}                          # key -> Traced


def traced(request):
    """The graph of a request. The most recent ones are kept: a backward request follows its forward."""
    key = repr(request)
    found = _recent.get(key)
    if found is None:
        if len(_recent) > 256: _recent.clear()
        found = _recent[key] = _trace_operator(request) if request[0] == 'op' else _trace_backward(request)
        found.key = key
    return found


def _trace_operator(request):
    _, name, which, form, grad_mask, params, dests, default = request
    definition = registry.find(name)
    signature = definition.signatures[which]
    t = Traced(Program(), default)
    t.grad_mask = grad_mask
    t.definition, t.differentiable = definition, definition.differentiable
    t.layout = definition.layout
    t.keep_outputs = definition.saves is None or 'result' in definition.saves
    _check_devices(definition, signature, params, form)
    with T.tracing(t.state):
        values, kinds = {}, {p.name: p.kind for p in signature.params}
        flat, scalars = [], 0
        for p, value in zip(signature.params, params):             # tensors first: their slots come first
            before = len(t.inputs)
            if p.kind == 'Tensor[]' and value is not None: values[p.name] = [add_tensor(t, d, p.name) for d in value]
            elif p.is_tensor and (value is None or isinstance(value, tuple)): values[p.name] = add_tensor(t, value, p.name,
                definition.contracts.get(p.name))
            elif p.is_tensor: t_absent(t)                           # a number in a Tensor|Scalar place
            if p.mutated: flat.append(len(t.inputs) - 1)
            if p.name in definition.gradients: t.stated.update(range(before, len(t.inputs)))
        if form == 2:
            t.dests = [_destination(t, d, i, None) for i, d in enumerate(dests)]
        for p, value in zip(signature.params, params):
            if p.kind == 'SymInt': values[p.name] = value if value is None else t.program.entry('sym', value, p.name)
            elif p.kind == 'SymInt[]': values[p.name] = value if value is None else tuple(
                t.program.entry('sym', v, f'{p.name}{i}') for i, v in enumerate(value))
            elif p.kind in ('Scalar', 'float') or p.kind == 'Tensor|Scalar' and isinstance(value, str):
                values[p.name] = None if value is None else _scalar(t, scalars, value)
                scalars += value is not None
            elif not p.is_tensor: values[p.name] = value
        if 'memory_format' in values: t.memory_format = values['memory_format']
        if form == 1 or flat:
            targets = flat or [next(i for i, n in enumerate(t.inputs) if n is not None)]
            t.dests = [(t.inputs[i].shape, t.strides[i], t.inputs[i].dtype, i) for i in targets]
        t.node_name = definition.node(values) if callable(definition.node) else definition.node
        t.once = bool(definition.once(values) if callable(definition.once) else definition.once)
        if callable(definition.layout): t.layout = definition.layout(values)
        out = T.invoke(definition, {p.name: values[p.name] for p in signature.params}, kinds)
        t.outputs = [o for o in (out if isinstance(out, (tuple, list)) else [out])]
        if not name.endswith('.jvp'): t.warnings = list(t.state.warnings)       # the call whose tangent this is has given them; so have those that gradient rules make
        if t.dests is not None: _fit_destinations(t, definition, form)
    t.aliases = [_returned_argument(t, o) for o in t.outputs]
    t.outputs = [o.node for o in t.outputs]
    return t


def _check_devices(definition, signature, params, form):
    """Pointwise operators work on one device; tensors without dimensions go anywhere. (torch asks no more of its meta device.)"""
    tensors = [d for p, value in zip(signature.params, params) if p.is_tensor and isinstance(value, (tuple, list)) for d in (value if p.kind == 'Tensor[]' else [value])]
    devices = [DEVICE_OF_CODE[d[1]] for d in tensors if d is not None and d[2]]
    if definition.name == 'copy_':
        if [DEVICE_OF_CODE[d[1]] for d in tensors] == ['cpu', 'meta']: raise NotImplementedError('Cannot copy out of meta tensor; no data!')
    elif form == 0 and definition.layout == 'pointwise' and len(set(devices)) > 1:
        raise RuntimeError(f'Tensor on device {next(d for d in devices if d != devices[0])} is not on the expected device {devices[0]}!')


def t_absent(t):
    t.inputs.append(None)
    t.strides.append(None)
    t.values.append(None)


def _scalar(t, index, kind):
    return T.Sym(t.graph.node('scalar', (), {'index': index, 'kind': kind}, (), T.KIND_DTYPE[kind]), kind)


def _destination(t, description, i, argument):
    shape, strides = tensor_slots(t.program, description, f'out{i}')
    return shape, strides, DTYPE_OF_CODE[description[0]], argument


def _fit_destinations(t, definition, form):
    """Results written in place or to out= have the destination's shape and dtype, or torch's error says why not."""
    for i, (shape, _, dtype, argument) in enumerate(t.dests):
        o = t.outputs[i]
        if form == 1 and o.dtype != dtype and isinstance(definition.inplace, str):
            raise RuntimeError(definition.inplace.format(self=SCALAR_TYPE_NAME[dtype], result=SCALAR_TYPE_NAME[o.dtype]))
        if len(o.shape) != len(shape) or not all(a == b for a, b in zip(o.shape, shape)): o = _spread_to(o, shape, definition, form)
        if o.dtype != dtype:
            if not can_cast(o.dtype, dtype):
                raise RuntimeError(f"result type {SCALAR_TYPE_NAME[o.dtype]} can't be cast to the desired output type "
                                   f"{SCALAR_TYPE_NAME[dtype]}")
            o = T.cast(o, dtype)
        t.outputs[i] = _resolved(t, argument, o)


def _spread_to(o, shape, definition, form):
    """A smaller result spreads over what an in-place form overwrites; anything else does not fit."""
    if form == 1 and len(o.shape) <= len(shape) and all(is_one(a) or a == b for a, b in zip(reversed(o.shape), reversed(shape))):
        return T.expand(o, shape)
    have, want = [hint_of(s) for s in shape], [hint_of(s) for s in o.shape]
    if form == 1 and callable(definition.inplace): raise RuntimeError(definition.inplace(have, want))
    if form == 1 and not str(definition.layout).startswith('pointwise'):
        raise RuntimeError(f'Bad in-place call: input tensor size {have} and output tensor size {want} should match')
    raise RuntimeError(f"output with shape {have} doesn't match the broadcast shape {want}")


def _returned_argument(t, o):
    """A result that is an argument itself (T.alias)."""
    if not o.alias: return None
    node = o.node
    while node.op == 'call': node = node.args[0]
    return next(('arg', i) for i, n in enumerate(t.inputs) if n is node)


# -------------------------------------------------------------------------------------------------------------- backward
class Derivative:
    """What the backward of a traced request needs: saved nodes, and the forward slots whose values it asks for."""
    __slots__ = ('saved', 'stands_for', 'slots', 'hidden')


def wanted(t): return [i for i, n in enumerate(t.inputs) if n is not None and t.grad_mask >> i & 1 and differentiable(n.dtype)]


def joint(t, defined, needed):
    """Gradient nodes of the arguments `needed` in t's own graph, for incoming gradients where `defined`; and those cotangents' nodes."""
    outputs = t.outputs + (t._derivative.hidden if t._derivative else [])
    cotangents = []
    for i, o in enumerate(outputs):
        present = i < len(defined) and defined[i] and o is not None and differentiable(o.dtype)
        cotangents.append(T.Sym(t.graph.node('input', (), {'index': None, 'cotangent': i}, o.shape, o.dtype)) if present else None)
    # A written argument with a conj or neg bit is in the graph as its memory; its gradient arrives as it is seen.
    arguments = [argument for *_, argument in t.dests or ()] + [None] * len(outputs)
    given = [None if c is None else _resolved(t, argument, c) for c, argument in zip(cotangents, arguments)]
    found = gradients(outputs, given, [t.inputs[i] for i in needed])
    return [None if g is None else _as_seen(t, i, g) for g, i in zip(found, needed)], cotangents


def _resolved(t, argument, value):
    """What an argument's memory holds for a value of it as it is seen, and the other way: a conj or neg bit undoes itself."""
    if argument is None: return value
    node = t.values[argument].node
    while node is not t.inputs[argument]:
        value = T.conj(value) if node.op == 'conj' else -value
        node = node.args[0]
    return value


def _as_seen(t, i, gradient):
    """The gradient of an argument from that of its memory, which with a conj or neg bit holds something else."""
    return _resolved(t, i, T.Sym(gradient)).node


def derivative(t):
    """Decided once per traced request, for all gradients defined and all wanted arguments needed."""
    if t._derivative is None:
        d = Derivative()
        with T.tracing(t.state):
            known = len(t.program.guards)
            grads, cotangents = joint(t, [True] * len(t.outputs), wanted(t))
            if len(t.program.guards) > known:            # the rules learned that sizes are equal: the backward's own trace will know it from the start
                grads, cotangents = joint(t, [True] * len(t.outputs), wanted(t))
            grads = [None if g is None else T.expand(T.Sym(g), t.inputs[i].shape).node for g, i in zip(grads, wanted(t))]
            marks = {c.node for c in cotangents if c is not None}
            d.saved, d.stands_for = partition(t.outputs, grads, marks, t.keep_outputs)
        outputs = {o for o in t.outputs if o is not None}
        overwritten = {t.inputs[i] for *_, i in t.dests or () if i is not None}
        d.hidden = [n for n in d.saved if n in overwritten or n.op != 'input' and n not in outputs]
        told = {slot for _, _, slot in _told(t, d)}
        d.slots = [s for s in slots_of([n for n in t.outputs + grads + d.saved + t.inputs if n is not None]) if s not in told]
        t._derivative = d
    return t._derivative


def _told(t, d):
    """(node, dimension, slot): forward slots that the backward call can read off a gradient or saved value that is always there. The
    gradient of a sole output is: without it the backward would not run."""
    sure = [n for n in d.saved]
    if len(t.outputs) == 1 and not d.hidden: sure.append(t.outputs[0])
    for n in sure:
        for i, size in enumerate(n.shape):
            size = t.program.simplify(size)
            if isinstance(size, SymInt) and len(size.terms) == 1 and size.terms[0][1] == 1 and len(size.terms[0][0]) == 1:
                atom = t.program.atoms[size.terms[0][0][0]]
                if atom.op == 'slot': yield n, i, atom.args[0]


def _trace_backward(request):
    _, forward_key, grad_mask, grads, saved, needed_mask, syms, kinds, default = request
    forward = traced(_parse(forward_key))
    d = derivative(forward)
    t = Traced(Program(), default)
    t.grad_mask = grad_mask
    t.node_name = (forward.node_name or 'Unknown') + 'Backward' if not (forward.node_name
        or '').endswith('BackwardBackward') else forward.node_name
    t.spatial = forward.layout == 'spatial' or forward.spatial
    t.convolved = convolution_last(forward) if forward.definition is not None and forward.layout == 'convolution' else forward.convolved
    wide = needed_mask == -1
    needed = [i for i in range(len(forward.inputs)) if wide or needed_mask >> i & 1]
    with T.tracing(t.state):
        incoming = [add_tensor(t, g, 'grad') for g in grads]
        kept = [add_tensor(t, s, 'saved') for s in saved]
        # What the forward graph calls its input is the memory, without conj and neg bits: it resolves them itself.
        kept = [None if k is None else T.Sym(t.inputs[len(grads) + j]) for j, k in enumerate(kept)]
        slots = {slot: t.program.entry('sym', v, f'k{slot}') for slot, v in zip(d.slots, syms)}
        arrived = dict(zip(d.saved, kept))
        if len(forward.outputs) == 1 and not d.hidden: arrived.setdefault(forward.outputs[0], incoming[0])
        for node, i, slot in _told(forward, d):
            if arrived.get(node) is not None: slots.setdefault(slot, arrived[node].shape[i])
    with T.tracing(forward.state):
        usable = [i for i in needed if forward.inputs[i] is not None and differentiable(forward.inputs[i].dtype)]
        found, cotangents = joint(forward, [g is not None for g in grads], usable)
        if forward.definition is not None and not forward.definition.unreached and any(c is not None for c in cotangents):
            # A float that only steers the result (sign, floor of a quotient) has the gradient 0, not none; a stated gradient means its
            # None, and so does an operator with `unreached`.
            found = [T.const(0, forward.inputs[i].dtype).node if g is None and i not in forward.stated else g for g, i in zip(found,
                usable)]
        found = [None if g is None else T.expand(T.Sym(g), forward.inputs[i].shape).node for g, i in zip(found, usable)]
        marks = {c.node for c in cotangents if c is not None}
        _, stands_for = partition(forward.outputs + d.hidden, found, marks, forward.keep_outputs)
    with T.tracing(t.state):
        start, move = {}, Transplant(t.graph, {}, slots)
        for c, g in zip(cotangents, incoming):
            if c is not None: start[c.node] = _meet(move, c.node, g).node
        values = {}
        for n, v in zip(d.saved, kept):
            if v is not None: values[n] = _meet(move, n, v)
        for n, source in {**d.stands_for, **stands_for}.items():
            if source in values: start[n] = T.cast(values[source], n.dtype).node
        for n, v in values.items(): start.setdefault(n, v.node)
        move.nodes.update(start)
        by_argument = {i: None if g is None else move.node(g) for g, i in zip(found, usable)}
    t.outputs = [by_argument.get(i) for i in needed]
    t.aliases = [_passed_through(t, o) for o in t.outputs]
    return t


def _meet(move, node, value):
    """A gradient or saved value has the shape the forward says: guards, and from then on one name for each size."""
    for want, have in zip(node.shape, value.shape):
        if not move.integer(want) == have:
            raise RuntimeError(f'Mismatch in shape: a gradient of shape {[hint(s) for s in value.shape]} for an output of shape '
                               f'{[hint(move.integer(s)) for s in node.shape]}')
    return value


def _passed_through(t, node):
    if node is None: return ('none',)
    return next((('arg', i) for i, n in enumerate(t.inputs) if n is node), None) or _spread(t, node)


def _spread(t, node):
    """A gradient that is an incoming one seen expanded (of a sum): a view, as torch's is, instead of copies in memory. None: something is computed. Where the gradient is differentiated in turn
    it stays a result of its own, whose history is the operator's."""
    if t.grad_mask or node.op not in ('expand', 'reshape'): return None
    shape, source = node.shape, list(range(node.ndim))          # source: of each dimension of the gradient, its place in the node; None: it is repeated
    while node.op in ('expand', 'reshape'):
        x = node.args[0]
        if node.op == 'expand':
            lead = node.ndim - x.ndim
            place = [None if d < lead or is_one(x.shape[d - lead]) else d - lead for d in range(node.ndim)]
        else:
            inner, outer = ([d for d, s in enumerate(n.shape) if not is_one(s)] for n in (x, node))
            if len(inner) != len(outer) or not all(known_equal(x.shape[a], node.shape[b]) for a, b in zip(inner, outer)): return None
            place = [inner[outer.index(d)] if d in outer else None for d in range(node.ndim)]
        source, node = [None if d is None else place[d] for d in source], x
    index = next((i for i, n in enumerate(t.inputs) if n is node), None)
    if index is None: return None
    strides = [0 if d is None else t.strides[index][d] for d in source]
    return ('view', index, node.dtype, t.program.slots(shape), t.program.slots(strides), t.program.constant(0))


def _parse(key):
    """The request behind a key: its repr. Only literals, and the two numbers Python writes as names."""
    return eval(key, {'__builtins__': {}, 'inf': float('inf'), 'nan': float('nan')})


# --------------------------------------------------------------------------------------------------------------- layouts
def pointwise_strides(shape, operands):
    """torch's TensorIterator: a dense output, its dimensions in the order of the operands' memory."""
    strides, step = [0] * len(shape), 1
    for d in dimension_order(shape, operands):
        strides[d] = step
        if not (isinstance(shape[d], int) and shape[d] == 0): step = step * shape[d]
    return tuple(strides)


def channels_last_strides(shape):
    order = [1] + list(range(len(shape) - 1, 1, -1)) + [0]
    strides, step = [0] * len(shape), 1
    for d in order:
        strides[d] = step
        if not (isinstance(shape[d], int) and shape[d] == 0): step = step * shape[d]
    return tuple(strides)


def is_channels_last(shape, strides):
    """torch's suggested memory format, for images and volumes: channels innermost, then the last spatial dimension ... A tensor whose sizes do not
    tell (one channel, one pixel) counts as contiguous."""
    if len(shape) not in (4, 5) or is_one(shape[1]) or all(is_one(s) for s in shape[2:]) or any(isinstance(s, int) and s == 0 for s in shape): return False
    least = 0
    for d in [1, *range(len(shape) - 1, 1, -1), 0]:
        if is_one(shape[d]): continue
        if isinstance(strides[d], int) and strides[d] == 0: return False
        if d != 1 and not strides[d] >= least: return False
        least = strides[d] * shape[d]
    return True


def convolution_last(t):
    """Is a convolution channels_last: its input or its weight is."""
    both = [(n.shape, s) for n, s in zip(t.inputs[:2], t.strides[:2])]
    return all(len(shape) in (4, 5) for shape, _ in both) and len(both[0][0]) == len(both[1][0]) and any(is_channels_last(*x) for x in both)


def columns_strides(shape):
    """Matrices of the last two dimensions with dense columns, as LAPACK has them."""
    return (*contiguous_strides(shape[:-2] + (shape[-1], shape[-2]))[:-2], 1, at_least_one(shape[-2])) if len(shape) > 1 else contiguous_strides(shape)


def tall_layout(t, shape, vectors):
    """(strides, elements of the buffer): the first rows of matrices (or vectors) with dense columns as long as the longer side of the first argument. Least
    squares, where a right side's memory becomes the solution's."""
    given = t.inputs[0].shape
    rows = given[-2] if given[-2] >= given[-1] else given[-1]
    if vectors: return (*contiguous_strides((*shape[:-1], rows))[:-1], 1), product((*shape[:-1], rows))
    whole = (*shape[:-2], shape[-1], rows)
    return (*contiguous_strides(whole)[:-2], 1, at_least_one(rows)), product(whole)


def split_columns_strides(shape, count):
    """The same for matrices whose rows are `count` leading dimensions together, and whose columns are the others."""
    rows = 1
    for size in shape[:count]: rows = rows * at_least_one(size)
    return (*contiguous_strides(shape[:count]), *(s * rows for s in contiguous_strides(shape[count:])))


def transformed_strides(t, shape, words):
    """Dense, the other dimensions first in the order of the first argument's memory, then those named; `sorted` first: these in that order too."""
    strides, dims = t.strides[0], [int(w) for w in words if w != 'sorted']
    def ordered(ds):
        out = []
        for d in ds:
            at = len(out)
            while at and not is_one(shape[d]) and not is_one(shape[out[at - 1]]) and strides[out[at - 1]] < strides[d]: at -= 1
            out.insert(at, d)
        return out
    order = ordered([d for d in range(len(shape)) if d not in dims]) + (ordered(sorted(dims)) if 'sorted' in words else dims)
    found, step = [0] * len(shape), 1
    for d in reversed(order):
        found[d] = step
        step = step * at_least_one(shape[d])
    return tuple(found)


def at_least_one(size): return 1 if isinstance(size, int) and size == 0 else size


TALL = ('tall columns', 'tall vectors')


def layout_of(t, number): return t.layout[number] if isinstance(t.layout, tuple) else t.layout


def output_room(t, node, number):
    """The elements of a result's buffer where its layout has gaps, else None."""
    layout = layout_of(t, number)
    return tall_layout(t, node.shape, layout == 'tall vectors')[1] if layout in TALL else None


def output_strides(t, node, number=0):
    """Strides of a result; number: which of them, where the operator's layout says it for each (a tuple)."""
    shape = node.shape
    layout = layout_of(t, number)
    if layout == 'columns': return columns_strides(shape)
    if layout in TALL: return tall_layout(t, shape, layout == 'tall vectors')[0]
    if layout.startswith('columns '): return split_columns_strides(shape, int(layout.split()[1]))
    if layout.startswith('transformed '): return transformed_strides(t, shape, layout.split()[1:])
    if layout == 'first innermost':       # the first dimension runs fastest
        strides = contiguous_strides(tuple(shape[1:]) + tuple(shape[:1]))
        return strides[-1:] + strides[:-1]
    memory_format = str(t.memory_format).rsplit('.', 1)[-1] if t.memory_format is not None else None
    if memory_format in ('channels_last', 'channels_last_3d'):
        want = 4 if memory_format == 'channels_last' else 5
        if len(shape) != want: raise RuntimeError(f'required rank {want} tensor to use {memory_format} format')
        return channels_last_strides(shape)
    if memory_format == 'contiguous_format' or layout in ('contiguous', 'pointwise contiguous'): return contiguous_strides(shape)
    operands = [(n.shape, s) for n, s in zip(t.inputs, t.strides) if n is not None]
    if layout == 'joined':                # channels last when every operand is
        last = len(shape) in (4, 5) and operands and all(
            len(sh) == len(shape) and all(map(known_equal, pointwise_strides(sh, [(sh, st)]), channels_last_strides(sh))) for sh, st in operands)
        return channels_last_strides(shape) if last else contiguous_strides(shape)
    if layout == 'convolution':           # channels last when the input or the weight is
        return channels_last_strides(shape) if len(shape) > 3 and convolution_last(t) else contiguous_strides(shape)
    if layout.startswith('spatial'):      # as the first operand suggests, or the one named
        suggests = operands[int(layout[7:] or 0)] if operands else ((), ())
        return channels_last_strides(shape) if len(suggests[0]) == len(shape) and is_channels_last(*suggests) else contiguous_strides(shape)
    if layout == 'narrowed': return pointwise_strides(shape, [(shape, operands[0][1])])       # a pointwise operator of parts of the first operand
    if layout in ('like', 'format'): operands = operands[:1]
    if layout == 'gradient' and t.convolved is not None:
        return channels_last_strides(shape) if t.convolved and len(shape) in (4, 5) else contiguous_strides(shape)
    if layout == 'gradient':
        alike = [(sh, s) for sh, s in operands if same_shape(sh, shape)]
        if not alike and t.spatial and operands and len(operands[0][0]) == len(shape) and is_channels_last(*operands[0]): return channels_last_strides(shape)
        operands = alike
    return pointwise_strides(shape, operands)


# ---------------------------------------------------------------------------------------------------------------- recipe
class Planned:
    """What a request computes and where its results go. outputs: graph.Output, public results then hidden ones."""
    __slots__ = ('traced', 'outputs', 'saves', 'backward', 'slots')


def planned(request):
    p = Planned()
    p.traced = t = traced(request)
    if request[0] == 'backward': t.layout = 'gradient'
    p.saves, p.backward, p.slots, hidden = [], None, [], []
    if t.grad_mask and t.differentiable and wanted(t) and any(o is not None and differentiable(o.dtype) for o in t.outputs):
        d = derivative(t)
        hidden = d.hidden
        p.saves = [_save(t, n, hidden) for n in d.saved]
        p.backward, p.slots = t.key, d.slots
    roots = decompose(list(t.outputs) + hidden)
    verify([r for r in roots if r is not None])
    p.outputs = []
    for i, node in enumerate(roots):
        public = i < len(t.outputs)
        alias = t.aliases[i] if public else None
        if alias is not None: p.outputs.append(Output(node, alias=alias))
        elif public and t.dests is not None: p.outputs.append(Output(node, t.dests[i][1], dest=i))
        elif public: p.outputs.append(Output(node, output_strides(t, node, i), room=output_room(t, node, i)))
        else: p.outputs.append(Output(node, kind='hidden'))
    return p


def compile_request(request):
    """The recipe of a request, as pure data (contract, section 3)."""
    from . import backend
    p = planned(request)
    t, outputs = p.traced, p.outputs
    recipe = {'saves': p.saves, 'backward': p.backward, 'backward_syms': list(p.slots), 'node': t.node_name}
    inputs = [Input(n, s, i, [k for k, d in enumerate(t.dests or ()) if d[3] == i])
              for i, (n, s) in enumerate(zip(t.inputs, t.strides)) if n is not None]
    program = t.program
    parts = backend.build(outputs, inputs, program)
    recipe.update(parts)
    count, public = 0, []
    for o in outputs:
        if o.alias is not None: place = o.alias
        elif o.dest is not None: place = ('dest', o.dest)
        else:
            place = ('buffer', count)
            count += 1
        if o.kind == 'output': public.append(place)
        else: recipe.setdefault('hidden', []).append(place[1])
    recipe.setdefault('hidden', [])
    recipe['outputs'] = public
    constant = sum(1 << j for j, o in enumerate(t.outputs[:63]) if o is not None and beneath_calls(o).attrs.get('constant'))
    if constant: recipe['constant'] = constant               # floating results that the body says have no gradient
    if p.backward is not None and t.once: recipe['once'] = 1
    if p.backward is not None and t.definition is not None and t.definition.unreached: recipe['unreached'] = 1
    if t.warnings: recipe['warnings'] = t.warnings
    if t.state.device is not None: recipe['device'] = t.state.device
    return program.finish(recipe)


def beneath_calls(node):
    while node.op == 'call': node = node.args[0]
    return node


def _save(t, node, hidden):
    if node in hidden: return ('hidden', hidden.index(node))
    if node.op == 'input': return ('arg', next(i for i, n in enumerate(t.inputs) if n is node))
    return ('output', t.outputs.index(node))


__all__ = ['compile_request', 'traced', 'derivative', 'planned', 'SymInt']
