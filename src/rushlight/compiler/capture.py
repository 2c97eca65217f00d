"""compile(fn): calls are recorded while fn runs and computed fused when their values are needed.

Python itself runs every time, so side effects, prints and data-dependent branches are always right. The runtime (csrc/record.cpp) notes each
plan instead of running it; at the end of fn, or when Python asks for a value, the recorded *stream* is flushed. A stream the runtime has met
before is replayed from its program. For a new one it calls `program_of(entries)`, which cuts it into segments:

  - calls that make new tensors are *joined*: their graphs become one graph (compiler/join.py), which the backend fuses; results that nobody
    holds any more are not computed unless something needs them;
  - a call that writes (in place, out=) stands alone, in its place; so does a reader of a view that the joined graph cannot express.

Every result rounds to its dtype where the user's program says so, and reductions keep their order, so the bits are those of eager. The
backward pass is recorded like any other calls, when fn runs it. Random draws are never recorded: they run at once, in their order.

Two things differ from eager. An error that depends on values (an index out of range) surfaces at the flush; it names the user's line. And memory
that is shared with others (numpy, another process) is read at the flush: who writes it from there, inside fn, must ask for a value first. (What fn
itself writes to such memory is written at once.)
"""
import functools
import threading

from .. import _C, plans, registry
from . import log

LONGEST = 40              # calls joined into one graph: the time to fuse grows faster than the graph
counters = {'joined': 0, 'calls_joined': 0, 'calls_alone': 0, 'calls_dropped': 0, 'cuts': 0}
_state = threading.local()


# ------------------------------------------------------------------------------------------------------------------ the wrapper
def compile(model=None, *, fullgraph=False, dynamic=None, backend='inductor', mode=None, options=None, disable=False):
    """Record the calls of a function or Module and run them fused, with the same bits as one by one.

    The keywords are torch's. `disable=True` gives the function back as it is; the others choose between compilers that do not exist here:
    there is one, shapes are always dynamic, and there are no graph breaks.

    >>> @rushlight.compile
    ... def f(x): return (x * 2 + 1).relu().sum()
    """
    if model is None:
        return functools.partial(compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode, options=options, disable=disable)
    if not callable(model): raise TypeError(f'compile() needs a function or a Module, not {type(model).__name__}')
    if disable: return model
    install()
    from ..nn import Module
    if isinstance(model, Module):
        from .compiled_module import OptimizedModule
        return OptimizedModule(model)
    return recorded(model)


def recorded(fn):
    """fn, recording. Nested calls record into the outermost one's stream."""
    @functools.wraps(fn)
    def call(*args, **kwargs):
        if getattr(_state, 'depth', 0): return fn(*args, **kwargs)
        _state.depth = 1
        _C.set_guard(_C.G_RECORD, True)
        try: return fn(*args, **kwargs)
        finally:
            _state.depth = 0
            _C.set_guard(_C.G_RECORD, False)
            _C.flush()
    call._torchdynamo_orig_callable = fn
    return call


def install(): _C.set_hooks(flush=program_of)


def is_compiling():
    """Whether a compiled function is running, recording its calls."""
    return bool(getattr(_state, 'depth', 0))


def disable(fn=None, recursive=True):
    """Decorator: fn runs eagerly, also when a compiled function calls it."""
    if fn is None: return functools.partial(disable, recursive=recursive)

    @functools.wraps(fn)
    def call(*args, **kwargs):
        depth = getattr(_state, 'depth', 0)
        if not depth: return fn(*args, **kwargs)
        _C.set_guard(_C.G_RECORD, False)
        try: return fn(*args, **kwargs)
        finally: _C.set_guard(_C.G_RECORD, True)
    return call


def reset():
    """Forget the programs of recorded streams (their code stays in the cache)."""
    _C.clear_streams()


# ---------------------------------------------------------------------------------------------------------------------- entries
class Entry:
    """One recorded call: its request (pure data), operands and results."""
    __slots__ = ('number', 'op', 'form', 'request', 'args', 'dests', 'results', 'scalars', 'fails', 'syms')

    def __init__(self, number, e):
        data = e['recipe'].data
        self.number, self.op, self.form, self.args, self.dests = number, e['op'], e['form'], e['args'], e['dests']
        self.request = plans.request_of(*e['request'])
        made = [o[1] for o in data['outputs'] if o[0] == 'buffer'] + list(data['hidden'])
        self.results = [(b, *e['buffers'][b]) for b in sorted(made)]        # (buffer, storage, description, live); the rest are temporaries
        self.scalars, self.fails = len(e['scalars']), bool(data['errors'])
        self.syms = request_syms(self.request)

    @property
    def joinable(self): return self.form == 0 and not self.dests and all(a is None or a[1][1] == 0 for a in self.args)


def request_syms(request):
    """The run-time integers of a request, in the order of their slots."""
    if request[0] == 'backward': return list(request[6])
    out = []
    for p, v in zip(registry.find(request[1]).signatures[request[2]].params, request[5]):
        if v is not None and p.kind in ('SymInt', 'SymInt[]'): out.extend([v] if p.kind == 'SymInt' else v)
    return out


# ----------------------------------------------------------------------------------------------------------------------- groups
class Group:
    """Consecutive calls that become one graph. `inputs`: tensors from outside, (entry, argument) of their first use by
    (storage, offset, description). `wiring`: by entry, by argument: None, ('in', input) or ('of', entry in the group, buffer, view)."""

    def __init__(self):
        self.entries, self.inputs, self.wiring, self.made = [], {}, [], {}
        self.view_ints = []

    def add(self, entry):
        """Take a call in, or answer False when a view it reads cannot be said in the graph."""
        wires, inputs, ints = [], dict(self.inputs), []
        for k, arg in enumerate(entry.args):
            if arg is None:
                wires.append(None)
                continue
            storage, description, offset = arg
            if storage in self.made:
                source, buffer, layout = self.made[storage]
                view = view_of(layout, description, offset)
                if view is None: return False
                wires.append(('of', source, buffer, view[0]))
                ints.extend(view[1])
            else:
                index, _ = inputs.setdefault((storage, offset, description), (len(inputs), (entry.number, k)))
                wires.append(('in', index))
        self.inputs, self.view_ints = inputs, self.view_ints + ints
        self.wiring.append(wires)
        for buffer, storage, description, _ in entry.results: self.made[storage] = len(self.entries), buffer, description
        self.entries.append(entry)
        return True

    def needed(self, last_use):
        """[(entry in the group, buffer)]: results that somebody holds or reads later. A call that may fail is computed for its error."""
        end = self.entries[-1].number
        return [(i, b) for i, e in enumerate(self.entries) for b, storage, _, live in e.results if live or e.fails or last_use.get(storage, -1) > end]

    def syms(self): return [v for e in self.entries for v in e.syms] + self.view_ints

    def key(self, needed):
        calls = [plans.generic_key(e.request)[1] for e in self.entries]
        return repr(('joined', calls, self.wiring, needed, [plans.sym_class(v) for v in self.view_ints]))

    def entry_values(self):
        out = []
        for _, _, (_, _, shape, strides, _) in self.inputs: out += [*shape, *strides]
        return out + self.syms()


def last_uses(entries):
    """Storage -> the last call that reads or writes it."""
    found = {}
    for e in entries:
        for place in e.args + e.dests:
            if place is not None: found[place[0]] = e.number
    return found


def cut_stream(entries):
    """Groups to be joined and single entries that stand alone, in order."""
    pieces, group = [], Group()
    for e in entries:
        if e.joinable and len(group.entries) < LONGEST and group.add(e): continue
        if group.entries: pieces.append(group)
        group = Group()
        if e.joinable: group.add(e)
        else: pieces.append(e)
    return pieces + [group] * bool(group.entries)


def program_of(entries):
    """The runtime's `hooks.flush`: the program of a new stream (csrc/record.cpp says what that is)."""
    entries = [Entry(i, e) for i, e in enumerate(entries)]
    last_use, program = last_uses(entries), []
    with plans.LOCK:
        for piece in cut_stream(entries):
            if isinstance(piece, Group): program.extend(segments(piece, last_use))
            else:
                counters['calls_alone'] += 1
                program.append((piece.number + 1, piece.number))
    return program


class Unjoinable(Exception):
    """The graphs of a group cannot be one. at: the call before which to cut (None: anywhere)."""
    def __init__(self, why, at=None):
        super().__init__(why)
        self.at = at


def segments(group, last_use):
    """A group as segments of the program: one fused recipe, if all goes well."""
    needed, calls = group.needed(last_use), group.entries
    if not needed:
        counters['calls_dropped'] += len(calls)
        return []
    if len(calls) == 1:
        counters['calls_alone'] += 1
        return [(calls[0].number + 1, calls[0].number)]
    try: recipe = fused(group, needed)
    except Unjoinable as e:
        counters['cuts'] += 1
        at = e.at or len(calls) // 2
        if log.WANTED: log.write('plan', f'{len(calls)} recorded calls are cut before {calls[at].op.name}: {e}')
        return [s for part in (calls[:at], calls[at:]) for s in segments(regrouped_calls(part), last_use)]
    counters['joined'] += 1
    counters['calls_joined'] += len(calls)
    inputs = [where for _, where in group.inputs.values()]
    scalars = [(e.number, k) for e in calls for k in range(e.scalars)]
    outputs = [(calls[i].number, b) for i, b in needed]
    return [(calls[-1].number + 1, recipe, inputs, outputs, scalars, group.syms())]


def regrouped_calls(calls):
    group = Group()
    for e in calls: group.add(e)
    return group


def fused(group, needed):
    """The joined recipe of a group: kept in memory, in the disk cache, or compiled."""
    def make():
        from .join import join
        return join(group, needed)
    text = group.key(needed)
    try: return _C.Recipe(plans.kept_or_made(text, group.entry_values(), make), plans.address)
    except plans.MissingObject:                         # a stored recipe whose code is gone
        plans.MEMORY[text] = []
        return _C.Recipe(plans.kept_or_made(text, group.entry_values(), make), plans.address)


# ------------------------------------------------------------------------------------------------------------------------ views
def view_of(source, view, offset):
    """How a view reads a dense result of the group: (structure, integers), or None when the graph has no words for it.

    structure is () for the result itself, else (order, steps, axes, spread, rank):
      order    the source's dimensions larger than 1, outermost in memory first
      steps    ('reshape', ((from, to), ...)): so many of those dimensions become so many others, in groups; or
               ('slice', (None | kept, ...)): per dimension, all of it, or a part (kept: more than one index)
      axes     the view's dimensions these then are, in order;  spread: the view's dimensions of stride 0
    The integers are the sizes, bounds and steps that structure leaves open, in that order."""
    code, _, sizes, strides, _ = source
    view_code, _, shape, steps, _ = view
    if code != view_code or 0 in sizes or 0 in shape: return None
    same = sizes == shape and all(n == 1 or a == b for n, a, b in zip(sizes, strides, steps))
    if same and offset == 0: return (), []
    order = sorted((i for i, n in enumerate(sizes) if n > 1), key=lambda i: -strides[i])
    memory = [(sizes[i], strides[i]) for i in order]
    item = item_bytes(code)
    if offset % item or not chained(memory): return None
    offset //= item
    axes = sorted((j for j, n in enumerate(shape) if n > 1 and steps[j]), key=lambda j: -steps[j])
    spread = [j for j, n in enumerate(shape) if n > 1 and not steps[j]]
    parts = [(shape[j], steps[j]) for j in axes]
    whole = offset == 0 and chained(parts) and total(parts) == total(memory)
    found = regrouped([n for n, _ in memory], [n for n, _ in parts]) if whole else cut(memory, parts, offset)
    if found is None: return None
    structure, integers = found
    return (tuple(order), structure, tuple(axes), tuple(spread), len(shape)), integers + [shape[j] for j in spread]


def item_bytes(code): return (1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8, 1, 1, 4)[code]


def chained(dims):
    """Dense in this order: [(size, stride)], outermost first."""
    step = 1
    for size, stride in reversed(dims):
        if stride != step: return False
        step *= size
    return True


def total(dims):
    n = 1
    for size, _ in dims: n *= size
    return n


def regrouped(source, target):
    """Runs of dimensions with equal products."""
    groups, integers, i, j = [], [], 0, 0
    while i < len(source) or j < len(target):
        a, b, p, q = 0, 0, 1, 1
        while p != q or not a or not b:
            if p <= q and i + a < len(source): p *= source[i + a]; a += 1
            elif j + b < len(target): q *= target[j + b]; b += 1
            else: return None
        groups.append((a, b))
        integers += target[j + 1:j + b]                 # the first of several follows from the rest
        i, j = i + a, j + b
    return ('reshape', tuple(groups)), integers


def cut(memory, parts, offset):
    """Each part is a slice of one dimension of memory, in the same order; dimensions without a part are read at one index."""
    kept, integers, k = [], [], 0
    for size, stride in memory:
        start, offset = divmod(offset, stride)
        if k < len(parts) and parts[k][1] % stride == 0 and start + (parts[k][0] - 1) * (parts[k][1] // stride) < size:
            length, step = parts[k][0], parts[k][1] // stride
            k += 1
            if (start, length, step) == (0, size, 1): kept.append(None)
            else:
                kept.append(True)
                integers += [start, length, step]
        else:
            if start >= size: return None
            kept.append(False)
            integers.append(start)
    return (('slice', tuple(kept)), integers) if k == len(parts) and offset == 0 else None
