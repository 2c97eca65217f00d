"""explain(fn, *args): what one call is made of, stage by stage, for people.

fn runs once, recording; then each recorded call is taken through the compiler again, from its request, and every stage is printed as the
compiler sees it. For a function made by compile() the joined graphs are shown instead of the single calls.
"""
import sys
import time
from functools import partial

from .. import _C, plans
from . import jit
from .backend import Build
from .backend import stages as build_stages
from .graph import DTYPE_OF_CODE, TORCH_NAME, Input, dtype_code, text
from .request import _parse, compile_request, derivative, planned, traced, wanted
from .symbolic import evaluate, hint

STAGES = ('graph', 'backward', 'loops', 'plan', 'llvm', 'asm', 'time')


def explain(fn, *args, stages=('graph', 'backward', 'loops', 'plan', 'time'), file=None, **kwargs):
    """Run fn(*args, **kwargs) once and print how it is computed.

    stages: which of graph, backward, loops, plan, llvm, asm, time, as a list or as text with spaces or commas; 'all' for all of them.
    Views compute nothing and random draws run in the runtime, so neither appears.

    >>> rushlight.explain(rushlight.add, a, b, stages='graph llvm')
    """
    stages = chosen(stages)
    compiled = getattr(fn, '_torchdynamo_orig_callable', None)
    seen, seconds = observe(compiled or fn, args, kwargs)
    out = file or sys.stdout
    print(f'{len(seen)} call{"s" * (len(seen) != 1)} recorded; run one by one in {seconds * 1e6:.0f} us', file=out)
    if compiled is not None:
        for part in joined(seen, stages): print(part, file=out)
        return
    known = {}
    for number, e in enumerate(seen):
        request = plans.request_of(*e['request'])
        key = repr(request)
        head = f'\n─── call {number}: {signature_text(request)} '
        if key in known:
            print(head + f'is the same as call {known[key]}', file=out)
            continue
        known[key] = number
        print(head + '─' * max(0, 110 - len(head)), file=out)
        for part in explain_request(request, stages): print(part, file=out)


def chosen(stages):
    names = stages.replace(',', ' ').split() if isinstance(stages, str) else list(stages)
    if 'all' in names: return STAGES
    unknown = set(names) - set(STAGES)
    if unknown: raise ValueError(f'explain(): unknown stage {", ".join(sorted(unknown))}; the stages are {", ".join(STAGES)}')
    return tuple(s for s in STAGES if s in names)


def observe(fn, args, kwargs):
    """The entries that fn records, and how long it took to run them."""
    from . import capture
    seen, started = [], []

    def hook(entries):
        seen.extend(entries)
        started.append(time.perf_counter())
        return None                                     # run them one by one
    _C.flush()
    _C.clear_streams()
    _C.set_hooks(flush=hook)
    seconds = 0.0
    try:
        _C.set_guard(_C.G_RECORD, True)
        try: result = fn(*args, **kwargs)
        finally:
            _C.set_guard(_C.G_RECORD, False)
            _C.flush()
        if started: seconds = time.perf_counter() - started[-1]
        del result
    finally: capture.install()
    return seen, seconds


# ------------------------------------------------------------------------------------------------------------------ one request
def explain_request(request, stages):
    start = time.perf_counter()
    p = planned(request)
    t = p.traced
    traced_in = time.perf_counter() - start
    if 'graph' in stages:
        yield section('graph: what is computed', text([o.node for o in p.outputs if o.node is not None]))
        if t.program.guards: yield section('guards: what must hold of the sizes for this code to be used', '\n'.join(map(str, t.program.guards)))
    if 'backward' in stages and p.backward is not None: yield backward_text(request, t)
    inputs = [Input(n, s, i, [k for k, d in enumerate(t.dests or ()) if d[3] == i])
              for i, (n, s) in enumerate(zip(t.inputs, t.strides)) if n is not None]
    yield from backend_parts(Build(p.outputs, inputs, t.program), stages, lambda: compile_request(request), plans.entry_values(request), traced_in)


def backend_parts(build, stages, recipe_of, entries, traced_in):
    """Everything after the graph: loops, plan, code, times."""
    start = time.perf_counter()
    if build.graph is not None: build.run()
    fused_in = time.perf_counter() - start
    steps = build.steps if build.graph is not None else []
    if 'loops' in stages: yield section(f'loops: {len(steps)} launch{"es" * (len(steps) != 1)}, and why each value is stored', build_stages(build, ('loops',)))
    recipe = recipe_of()
    if 'plan' in stages: yield section('recipe, with the integers of this call: the plan', recipe_text(recipe, entries))
    for i, step in enumerate(steps):
        if step.text is None: continue
        if 'llvm' in stages: yield section(f'LLVM IR of launch {i}', step.text)
        if 'asm' in stages: yield section(f'machine code of launch {i} ({jit.tier()})', jit.assembly(step.text))
    if 'time' in stages:
        texts = {s.text for s in steps if s.text is not None}
        start = time.perf_counter()
        code = sum(len(jit.generate(s)) for s in texts)
        generated = time.perf_counter() - start
        slots = evaluate(entries, recipe['consts'], recipe['program'])
        touched = sum(slots[s[6]] for s in recipe['steps'] if s[6] >= 0)
        yield section('time and size', f'trace {traced_in * 1e3:.2f} ms, fuse and emit {fused_in * 1e3:.2f} ms, LLVM {generated * 1e3:.1f} ms\n'
                      f'{sum(t.count(chr(10)) for t in texts)} lines of IR, {code} bytes of object code; about {touched} bytes touched in a call')


def backward_text(request, t):
    """The derived gradient of a call, as the tape would ask for it: dense gradients for every output."""
    d = derivative(t)

    def described(node):
        return dtype_code(node.dtype), 0, tuple(map(hint, node.shape)), tuple(map(hint, dense(node.shape))), 0
    grads = [described(o) if o is not None else None for o in t.outputs] + [described(h) for h in d.hidden]
    scalars = sorted((n for n in t.graph.nodes if n.op == 'scalar'), key=lambda n: n.attrs['index'])
    kinds = list(dict((n.attrs['index'], n.attrs['kind']) for n in scalars).values())
    mask = sum(1 << i for i in wanted(t))
    asked = ('backward', t.key, 0, grads, [described(n) for n in d.saved], mask, tuple(t.program.entry_hints[s] for s in d.slots), kinds, request[-1])
    b = traced(asked)
    names = ', '.join(f'%{n.id} ({n.op})' for n in d.saved) or 'nothing'
    body = text([o for o in b.outputs if o is not None])
    return section(f'backward: node {t.node_name}, keeps {names}', body)


def dense(shape):
    out, step = [], 1
    for s in reversed(shape):
        out.append(step)
        step = step * s
    return tuple(reversed(out))


# --------------------------------------------------------------------------------------------------------------- joined streams
def joined(seen, stages):
    """The segments of a compiled function."""
    from . import capture, join
    entries = [capture.Entry(i, e) for i, e in enumerate(seen)]
    last_use = capture.last_uses(entries)
    for number, group in enumerate(capture.cut_stream(entries)):
        if isinstance(group, capture.Entry):
            yield f'\n─── segment {number}: {signature_text(group.request)}, as it is: it writes its operands'
            continue
        needed = group.needed(last_use)
        names = ', '.join(call_name(e.request) for e in group.entries)
        yield f'\n─── segment {number}: {len(group.entries)} calls, {len(needed)} results somebody holds: {names}'
        if not needed: continue
        start = time.perf_counter()
        try: j = join.Joined(group, needed)
        except capture.Unjoinable as e:
            yield f'    cut before call {e.at}: {e}'
            continue
        traced_in = time.perf_counter() - start
        if 'graph' in stages: yield section('graph: what is computed', text([o.node for o in j.outputs]))
        inputs = [Input(node, strides, i, []) for i, (node, strides) in enumerate(j.inputs)]
        build = join.JoinedBuild(j.outputs, inputs, j.program)
        yield from backend_parts(build, stages, partial(join.join, group, needed), group.entry_values(), traced_in)


# ------------------------------------------------------------------------------------------------------------------------- text
def section(title, body): return f'{title}\n' + '\n'.join('    ' + line for line in body.splitlines())


def tensor_text(d):
    if not isinstance(d, tuple): return str(d)
    code, device, shape, strides, bits = d
    name = TORCH_NAME[DTYPE_OF_CODE[code]]
    usual = tuple(map(hint, dense(shape)))
    lies = '' if all(n < 2 or a == b for n, a, b in zip(shape, strides, usual)) else f' strides {list(strides)}'
    return f'{name}{list(shape)}{lies}{" conj" * bool(bits & 16)}{" neg" * bool(bits & 32)}{" on meta" * (device == 1)}'


def call_name(request):
    if request[0] == 'op': return request[1] + ('', '_', ' out=')[request[3]]
    forward = _parse(request[1])
    depth = 'backward of '
    while forward[0] == 'backward': forward, depth = _parse(forward[1]), depth + 'backward of '
    return depth + forward[1]


def signature_text(request):
    if request[0] == 'backward':
        return f'{call_name(request)}(gradients {", ".join(map(tensor_text, request[3]))}; saved {", ".join(map(tensor_text, request[4])) or "nothing"})'
    from .. import registry
    params = registry.find(request[1]).signatures[request[2]].params
    kinds = {'b': 'a bool', 'i': 'an int', 'f': 'a float', 'c': 'a complex'}

    def shown(p, v):
        if isinstance(v, list): return '[' + ', '.join(map(tensor_text, v)) + ']'
        if p.is_tensor and isinstance(v, tuple): return tensor_text(v)
        return kinds.get(v, v) if isinstance(v, str) and p.kind in ('Scalar', 'float', 'Tensor|Scalar') else repr(v)
    return f'{call_name(request)}(' + ', '.join(f'{p.name}: {shown(p, v)}' for p, v in zip(params, request[5]) if v is not None) + ')'


def recipe_text(recipe, entries=None):
    """A recipe for people. With entries, the values of this call's slots stand beside the program."""
    slots = evaluate(entries, recipe['consts'], recipe['program']) if entries is not None else None
    first = None if entries is None else len(entries)
    value = (lambda s: '-' if s < 0 else str(slots[s])) if slots else (lambda s: '-' if s < 0 else f's{s}')
    lines = []
    if entries is not None: lines.append(f'entry slots s0..s{first - 1}: {entries}' if first else 'no entry slots')
    if recipe['consts']: lines.append(f'constants{"" if first is None else f" from s{first}"}: {recipe["consts"]}')
    for i, (op, *operands) in enumerate(recipe['program']):
        n = 1 if op in ('not', 'neg') else 3 if op == 'select' else 2
        inside = ', '.join(f's{o}' for o in operands[:n])
        if slots is None: lines.append(f'{op}({inside})')
        else: lines.append(f's{first + len(recipe["consts"]) + i} = {op}({inside}) = {slots[first + len(recipe["consts"]) + i]}')
    if recipe['guards']: lines.append('guards: ' + ', '.join(f's{g}' for g in recipe['guards']))
    for i, (dtype, shape, strides, size) in enumerate(recipe['buffers']):
        name = f'buffer {i}: {dtype}[{", ".join(map(value, shape))}]' if isinstance(dtype, str) else f'buffer {i}: dtype {dtype}'
        lines.append(f'{name}, strides [{", ".join(map(value, strides))}], {value(size)} bytes')
    for i, (kernel, pointers, ints, scalars, units, grain, cost, scratch) in enumerate(recipe['steps']):
        where = ', '.join(f'{kind} {n}' + (f' + {value(o)} bytes' if o >= 0 else '') for kind, n, o in pointers)
        name = f'native {kernel[1]}' if kernel[0] == 'native' else f'object {kernel[1][:12]}'
        lines.append(f'launch {i}: {name}({where}; integers {[value(v) for v in ints]}; scalars {scalars}), units {value(units)}, grain {value(grain)}, '
                     f'cost {value(cost)}' + (f', scratch {value(scratch)}' if scratch >= 0 else ''))
    lines.append('results: ' + ', '.join(' '.join(map(str, o[:2])) for o in recipe['outputs']))
    if recipe['hidden']: lines.append(f'hidden, kept for the backward: buffers {recipe["hidden"]}')
    if recipe['saves']: lines.append('the tape node keeps: ' + ', '.join(f'{kind} {k}' for kind, k in recipe['saves']))
    return '\n'.join(lines)
