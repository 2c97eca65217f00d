"""Join the graphs of recorded calls into one, and compile that.

Each call is traced from its request, as it is when it runs alone: a graph over its own integer program, whose entry slots are the sizes and
strides of its arguments and its run-time integers. Joining moves it into the common graph (transplant.py): an argument from outside becomes
an input of the whole, one that an earlier call of the group made becomes that call's node, seen through the view it was read by. The slots
become the common program's integers. What the call's own recipe was allowed to assume (its guards and equalities) is required again.

Nothing is simplified across calls: every result has been rounded to its dtype by its own call, and its bits are the ones eager computes.
"""
from . import loops
from . import trace as T
from .backend import Build, log_stages
from .capture import Unjoinable
from .graph import DTYPE_OF_CODE, Graph, Input, Output, closure, verify
from .loops import DEAR, REDUCTIONS
from .request import planned, tensor_slots
from .symbolic import Program, contiguous_strides, known_equal, product
from .transplant import Transplant

RECOMPUTE = 16            # a value dearer than this is not computed in two kernels
ROUNDS = 4


def join(group, needed):
    """The recipe (data) of a capture.Group whose results `needed` are to exist."""
    return Joined(group, needed).recipe()


class Joined:
    def __init__(self, group, needed):
        self.program = Program()
        self.graph = Graph(self.program)
        self.inputs, self.results = [], {}                  # results: (entry in the group, buffer) -> (node, strides)
        for index, (_, _, description) in enumerate(group.inputs):
            shape, strides = tensor_slots(self.program, description, f'x{index}')
            node = self.graph.node('input', (), {'index': index}, shape, DTYPE_OF_CODE[description[0]])
            self.inputs.append((node, strides))
        syms = [self.program.entry('sym', v, f'k{i}') for i, v in enumerate(group.syms())]
        self.syms, self.view_ints = iter(syms), iter(syms[len(syms) - len(group.view_ints):])
        self.scalars = 0
        for i, (entry, wires) in enumerate(zip(group.entries, group.wiring)): self.add(i, entry, wires)
        self.outputs = [Output(*self.results[place]) for place in needed]
        verify([o.node for o in self.outputs])

    def add(self, number, entry, wires):
        """One call: its arguments' nodes, its slots, its results."""
        p = planned(entry.request)
        t = p.traced
        state = T.Tracing(self.graph, t.state.default)
        with T.tracing(state):
            values = [None if w is None else self.inputs[w[1]] if w[0] == 'in' else self.seen(self.results[w[1], w[2]], w[3]) for w in wires]
            values = [v if v is None else self.classed(argument, v, number) for argument, v in zip(t.inputs, values)]
        slots, at, start = {}, 0, {}
        for argument, value in zip(t.inputs, values):
            if argument is None: continue
            node, strides = value
            for integer in (*node.shape, *strides): slots[at] = integer; at += 1
            start[argument] = node
        for _ in entry.syms: slots[at] = next(self.syms); at += 1
        move = Transplant(self.graph, start, slots)
        self.require(t.program, move, number)
        for scalar in [n for n in t.graph.nodes if n.op == 'scalar']:
            attrs = {'index': self.scalars + scalar.attrs['index'], 'kind': scalar.attrs['kind']}
            move.nodes[scalar] = self.graph.node('scalar', (), attrs, (), scalar.dtype)
        self.scalars += entry.scalars
        buffer = 0
        for o in p.outputs:
            if o.alias is not None: continue
            if o.room is not None: raise Unjoinable('a result has gaps in its memory', number)
            node = move.node(o.node)
            strides = contiguous_strides(node.shape) if o.strides is None else tuple(move.integer(s) for s in o.strides)
            self.results[number, buffer] = node, strides
            buffer += 1

    def classed(self, argument, value, number):
        """A value whose sizes are as plain as the call's own trace has them: 1 (or 0) there may be a polynomial here, that of a window over all of an image."""
        node, strides = value
        learned = [d for d, (want, have) in enumerate(zip(argument.shape, node.shape)) if isinstance(want, int) and not isinstance(have, int)]
        if not learned: return value
        for d in learned:
            if not node.shape[d] == argument.shape[d]: raise Unjoinable(f'{node.shape[d]} is {argument.shape[d]} for one call and not for another', number)
        return T.reshape(T.Sym(node), [argument.shape[d] if d in learned else s for d, s in enumerate(node.shape)]).node, strides

    def require(self, program, move, number):
        """What was decided when the call was traced alone holds here too: the same guards, and equal sizes get one name."""
        for atom, other in list(program.replaced.items()):
            a, b = move._atom(program.atoms[atom]), move.integer(other, exact=True)
            if not a == b or not known_equal(a, b): raise Unjoinable(f'{a} and {b} are equal, but not for a reason that the algebra sees', number)
        for guard in list(program.guards): self.program.guard(move.integer(guard, exact=True))

    def seen(self, source, structure):
        """(node, strides) of a result read through a view; capture.view_of explains the structure."""
        node, strides = source
        if not structure: return source
        order, (kind, detail), axes, spread, ndim = structure
        x = T.permute(T.Sym(node), order + tuple(i for i in range(node.ndim) if i not in order))
        x = T.reshape(x, [node.shape[i] for i in order])
        steps = contiguous_strides(x.shape)
        if kind == 'reshape':
            shape, at = [], 0
            for a, b in detail:
                rest = [next(self.view_ints) for _ in range(b - 1)]
                shape += [product(x.shape[at:at + a]) // product(rest), *rest]
                at += a
            x = T.reshape(x, shape)
            steps = contiguous_strides(shape)
        else:
            apart = []
            for d, kept in enumerate(detail):
                if kept is None: apart.append(steps[d]); continue
                start = next(self.view_ints)
                if not kept: x = T.slice(x, d, start, start + 1); continue
                length, step = next(self.view_ints), next(self.view_ints)
                x = T.slice(x, d, start, start + (length - 1) * step + 1, step)
                apart.append(steps[d] * step)
            x = T.reshape(x, [s for s, kept in zip(x.shape, detail) if kept is not False])
            steps = apart
        place = sorted(range(len(axes)), key=lambda k: axes[k])
        x = T.permute(x, place) if len(place) > 1 else x
        shape, out = [1] * ndim, [0] * ndim
        for k, j in zip(place, sorted(axes)): shape[j], out[j] = x.shape[place.index(k)], steps[k]
        x = T.reshape(x, shape)
        for j in spread: shape[j] = next(self.view_ints)
        return T.expand(x, shape).node, tuple(out)

    def recipe(self):
        inputs = [Input(node, strides, i, []) for i, (node, strides) in enumerate(self.inputs)]
        try: build = JoinedBuild(self.outputs, inputs, self.program).run()
        except (RuntimeError, NotImplementedError) as e: raise Unjoinable(str(e)) from e        # smaller graphs, the same values
        log_stages(build)
        recipe = {'saves': [], 'backward': None, 'backward_syms': [], 'node': None, 'hidden': [], **build.recipe()}
        recipe['outputs'] = [('buffer', i) for i in range(len(self.outputs))]
        return self.program.finish(recipe)


class JoinedBuild(Build):
    """A build that does not compute dear values again and again: what several kernels would evaluate is stored."""

    def run(self):
        for _ in range(ROUNDS):
            super().run()
            shared = self.shared()
            if not shared: break
            for n in shared: self.redirected[n] = 'dear, and several kernels need it'
        return self

    def shared(self):
        """Values above RECOMPUTE that more than one kernel evaluates (and does not load); of those that depend on each other, the last."""
        kernels = [s.loops.builder.memo for s in self.steps if getattr(s.loops, 'builder', None) is not None]
        count = {}
        for memo in kernels:
            dear = {key[0] for key, e in memo.items() if e.op not in ('load', 'combine') and cost(e) >= RECOMPUTE}
            for number in dear: count[number] = count.get(number, 0) + 1
        nodes = self.graph.nodes
        many = {nodes[i] for i, c in count.items() if c > 1 and nodes[i] not in self.redirected}
        behind = set(closure([a for n in many for a in n.args]))
        return [n for n in many if n not in behind]


def cost(e):
    """What evaluating an expression takes, in pointwise operations on values that are in memory."""
    return sum(RECOMPUTE if x.op in DEAR or x.op in REDUCTIONS else x.op not in ('load', 'const', 'scalar', 'size', 'index') for x in loops.closure([e]))
