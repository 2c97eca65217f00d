"""The back half of the compiler: a primitive graph becomes buffers, steps and errors of a recipe (contract, section 3).

    build(outputs, inputs, program) -> {'buffers': [...], 'steps': [...], 'errors': [...]}

outputs and inputs are graph.Output and graph.Input; program is the symbolic.Program that gives out slots. Buffers are numbered: results
without a destination in the order of `outputs`, then temporaries. Decisions that others rely on:
  - every kernel's symbol is `kernel`; an object holds one kernel, and is named by the hash of its text, so equal kernels are one object;
  - checks run before any step that writes (they are wave 0: indices come from arguments);
  - a result bound to a destination goes through a temporary when an input that may alias it is read later or elsewhere.
`explain(outputs, inputs, program)` gives the text of every stage. RUSHLIGHT_LOG=loops,llvm,asm prints them as they are made.
"""
from . import jit, log, special
from .emit.beside import BesideEmitter, vector_axis
from .emit.llvm import NestEmitter
from .emit.narrow import NarrowEmitter, narrow_columns
from .emit.taps import TapEmitter, along_taps
from .emit.values import MEMORY
from .fuse import Fusion, partial_layout
from .graph import TORCH_NAME, is_complex, itemsize, same_shape, text
from .graph import closure as closure_of
from .loops import Kernel, Memory, closure, is_zero
from .memory import Allocator, hazard, share_temporaries
from .normalise import normalise
from .request import channels_last_strides, is_channels_last
from .schedule import schedule
from .steps import Step
from .symbolic import product


def nest_step(kernel, program):
    axis, narrow, taps = vector_axis(kernel, program), narrow_columns(kernel, program), along_taps(kernel, program)
    if axis is not None or narrow is not None or taps:
        emitter = BesideEmitter(kernel, program, axis) if axis is not None else TapEmitter(kernel, program) if taps else NarrowEmitter(kernel, program, narrow)
        step = Step(emitter, emitter.units, emitter.grain, emitter.cost, None, kernel)
    else: step = Step(NestEmitter(kernel, program), kernel.units, kernel.grain, kernel.cost, kernel.scratch_bytes, kernel)
    step.read = [e for e in closure(kernel.roots()) if e.op in ('load', 'combine')]
    step.write = list(kernel.stores)
    last = len(kernel.passes) - 1
    step.passes = 1 if all(not p.stores for p in kernel.passes[:last]) else len(kernel.passes)
    return step


def nothing(graph, node):
    """A result without elements, whatever would compute them; its checks run all the same."""
    zero = graph.node('const', (), {'value': False if node.dtype == 'b1' else 0j if is_complex(node.dtype) else 0}, (), node.dtype)
    return graph.node('expand', (zero,), {}, node.shape, node.dtype)


class Build:
    """One compilation: the graph's roots, their memory, and the steps. Passed along, never ambient."""

    def __init__(self, outputs, inputs, program):
        self.program, self.errors, self.redirected, self.plain = program, [], {}, set()
        self.results = [o for o in outputs if o.alias is None and o.node is not None]
        self.inputs = {i.node: Memory(('arg', i.arg), i.node.dtype, i.node.shape, tuple(i.strides)) for i in inputs}
        self.input_of = {i.arg: i for i in inputs}
        if not self.results: self.graph = None; return
        self.graph = graph = self.results[0].node.graph
        wanted = [o.node if same_shape(o.node.shape, o.shape) else graph.node('expand', (o.node,), {}, o.shape, o.node.dtype)
                  for o in self.results]
        for node in closure_of(wanted):
            if node.dtype not in MEMORY:
                raise NotImplementedError(f'{TORCH_NAME[node.dtype]} tensors can be stored and viewed, but not computed with')
        roots, checks = normalise(graph, wanted, self.inputs)
        roots = [nothing(graph, r) if any(is_zero(d) for d in r.shape) else r for r in roots]
        self.outputs = {}
        for number, (out, root) in enumerate(zip(self.results, roots)):
            if root in self.outputs or root in self.inputs: root = graph.node('copy', (root,), {'result': number}, root.shape, root.dtype)
            self.outputs[root] = out
        self.root_of = {id(o): r for r, o in self.outputs.items()}
        self.checks = [graph.node('checked', (x,), attrs, x.shape, 'i64') for x, attrs in checks]

    def run(self):
        """Fuse, schedule and emit until no result is written where something still reads."""
        for _ in range(64):
            allocator = Allocator(self.program, self.outputs, self.layout)
            fusion = self.fusion = Fusion(list(self.outputs) + self.checks, self.inputs, allocator, self.program)
            fusion.redirect, fusion.plain = self.redirect, self.plain
            fusion.must.update(self.redirected)
            steps = []
            for item in fusion.run(schedule, lambda fusion, node, wave: special.lower(self, fusion, node, wave)):
                steps.append(nest_step(item, self.program) if isinstance(item, Kernel) else item)
            problem = hazard(steps, self.may_alias)
            if problem is None: break
            store, why = problem
            self.redirect(next(n for n, o in self.outputs.items() if o.dest == store.memory.place[1]), why)
        self.steps, self.allocator = steps, allocator
        return self

    def layout(self, node):
        if node.op == 'partial': return partial_layout(self.program, node)
        if node.ndim not in (4, 5) or not (node.is_pointwise or node.op in ('stored', 'fold')): return None
        if node.op == 'copy' or node in self.plain: return None     # somebody needs it dense, the last dimension innermost
        # A temporary image lies as the images it is made from: channels innermost, if they are.
        for n in closure_of([node]):
            memory = self.inputs.get(n)
            if memory is None or not same_shape(memory.shape, node.shape) or not is_channels_last(memory.shape, memory.strides): continue
            return node.shape, channels_last_strides(node.shape), product(node.shape)
        return None

    def redirect(self, node, why):
        """Compute a result in memory of its own and copy it to where it belongs as the last thing."""
        out = self.outputs.pop(node)
        copied = self.graph.node('copy', (node,), {'result': why}, node.shape, node.dtype)
        self.redirected[node] = why
        self.outputs[copied] = out
        self.root_of[id(out)] = copied

    def may_alias(self, place, dest):
        """Can an input be the destination itself? In-place: the arguments it names; out=: any argument of its kind (partial overlap is
        refused by the runtime)."""
        if place[0] != 'arg': return False
        given = self.input_of[place[1]]
        if any(i.aliases for i in self.input_of.values()): return dest in given.aliases
        out = next(o for o in self.outputs.values() if o.dest == dest)
        return given.node.dtype == out.node.dtype and given.node.ndim == len(out.shape)

    def error_code(self, error, hi):
        """The status a check returns: its place in the error table, from 1. `{size}` in a message is the bound of this call, not of the first one."""
        error = (*error, self.program.slot(hi) if '{size}' in error[1] else -1)
        if error not in self.errors: self.errors.append(error)
        return self.errors.index(error) + 1

    def native_errors(self, errors):
        """Where a routine's errors, which it counts itself from 1, begin in the table."""
        errors = [(*e, -1) for e in errors]
        for first in range(len(self.errors) - len(errors) + 1):
            if self.errors[first:first + len(errors)] == errors: return first
        self.errors.extend(errors)
        return len(self.errors) - len(errors)

    def recipe(self):
        program = self.program
        if self.graph is None: return {'buffers': [], 'steps': [], 'errors': []}
        buffers = []
        def add(b):
            size = b.elements * itemsize(b.dtype)
            buffers.append((b.dtype, program.slots(b.shape), program.slots(b.strides), program.slot(size)))
            return len(buffers) - 1
        for out in self.results:
            if out.dest is None: b = self.allocator.result_buffers[self.root_of[id(out)]]; b.number = add(b)
        for room in share_temporaries(self.steps): room.number = add(room.buffer)
        for step in self.steps:
            for b in step.buffers():
                if b.shared is not None: b.number = b.shared.number
        return {'buffers': buffers, 'steps': [s.recipe(program) for s in self.steps], 'errors': [tuple(e) for e in self.errors]}


def build(outputs, inputs, program):
    b = Build(outputs, inputs, program)
    if b.graph is not None: b.run()
    log_stages(b)
    return b.recipe()


def log_stages(b):
    """RUSHLIGHT_LOG=graph,loops,llvm,asm."""
    if 'graph' in log.WANTED: log.write('graph', f'{len(b.results)} results', text([o.node for o in b.results]))
    for stage in ('loops', 'llvm', 'asm'):
        if stage in log.WANTED: log.write(stage, f'{len(b.steps) if b.graph is not None else 0} launches', stages(b, (stage,)))


def stages(b, wanted=('loops', 'llvm', 'asm')):
    lines = []
    if b.graph is None: return 'no kernel is needed'
    for i, step in enumerate(b.steps):
        if 'loops' in wanted: lines.append(f'step {i}: ' + (str(step.loops) if step.loops is not None
                else step.title) + f'\n  units {step.units}, grain {step.grain}, cost {step.cost}')
        if 'llvm' in wanted and step.text: lines.append(step.text)
        if 'asm' in wanted and step.text: lines.append(jit.assembly(step.text))
    return '\n'.join(lines)


def explain(outputs, inputs, program, wanted=('loops', 'llvm')):
    """The stages after the graph, as text."""
    b = Build(outputs, inputs, program)
    if b.graph is not None: b.run()
    return stages(b, wanted)
