"""Move part of a graph into another graph with its own integer program.

The backward of an operator is derived in the forward's graph, whose sizes are slots of the forward call. It runs as a call of its own: its
sizes come from the gradients, the saved values and the integers the node kept. `Transplant` rebuilds the nodes there, translating every
SymInt. """
from .graph import closure
from .symbolic import SymInt
from .trace import Group, Sym


class Transplant:
    """nodes: old node -> new node,
        to start from. slots: old entry slot -> value in the new program; a slot that is not there raises KeyError."""

    def __init__(self, graph, nodes, slots):
        self.graph, self.program, self.nodes, self.slots = graph, graph.program, dict(nodes), slots
        self.atoms, self.groups = {}, {}

    def integer(self, x, exact=False):
        """exact: without using equalities (inside operations, which may themselves stand for what they are made of)."""
        if isinstance(x, SymInt) and not exact: x = x.program.simplify(x)
        if not isinstance(x, SymInt): return x
        total = 0
        for mono, coef in x.terms:
            term = coef
            for atom in mono: term = self.program.mul(term, self._atom(x.program.atoms[atom]))
            total = self.program.add(total, term)
        return self.program.simplify(total)

    def _atom(self, atom):
        if atom.id not in self.atoms:
            if atom.op == 'slot': value = self.slots[atom.args[0]]
            else:
                method = {'and': 'logical_and', 'or': 'logical_or', 'not': 'logical_not'}.get(atom.op, atom.op)
                value = getattr(self.program, method)(*[self.integer(a, exact=True) for a in atom.args])
            self.atoms[atom.id] = value
        return self.atoms[atom.id]

    def value(self, x):
        """Attributes: ints, SymInts, nestings of them, groups."""
        if isinstance(x, SymInt): return self.integer(x)
        if isinstance(x, tuple): return tuple(self.value(v) for v in x)
        if isinstance(x, list): return [self.value(v) for v in x]
        if isinstance(x, Sym): return Sym(self.node(x.node), x.kind)
        if isinstance(x, Group): return self.group(x)
        return x

    def node(self, root):
        for n in closure([root], stop=self.nodes):
            if n in self.nodes: continue
            attrs = {k: self.value(v) for k, v in n.attrs.items()}
            self.nodes[n] = self.graph.node(n.op, [self.nodes[a] for a in n.args], attrs, [self.integer(s) for s in n.shape], n.dtype)
        return self.nodes[root]

    def group(self, old):
        """The new group of a call. Its values are rebuilt when they are first asked for: they come from the operands."""
        if old not in self.groups:
            self.groups[old] = LateGroup(self, old)
        return self.groups[old]


class LateGroup(Group):
    def __init__(self, transplant, old):
        self.transplant, self.old, self.definition, self.compute = transplant, old, old.definition, old.compute

    @property
    def results(self):
        """All of them, also those that nothing moved so far asked for: a gradient may be stated in terms of any."""
        return [self.transplant.node(r) for r in self.old.results]

    @property
    def values(self): return {k: self.transplant.value(v) for k, v in self.old.values.items()}
    @property
    def raw(self): return {k: self.transplant.value(v) for k, v in self.old.raw.items()}
    @property
    def operands(self): return [(name, place, self.transplant.node(n)) for name, place, n in self.old.operands]


def slots_of(roots):
    """The entry slots that the shapes and attributes behind roots mention, ascending."""
    found, seen = set(), set()

    def visit(x, exact=False):
        if isinstance(x, SymInt) and not exact: x = x.program.simplify(x)
        if isinstance(x, SymInt):
            for mono, _ in x.terms:
                for a in mono:
                    if a in seen: continue
                    seen.add(a)
                    atom = x.program.atoms[a]
                    if atom.op == 'slot': found.add(atom.args[0])
                    else:
                        for arg in atom.args: visit(arg, exact=True)
        elif isinstance(x, (tuple, list)):
            for v in x: visit(v)

    for n in closure(roots):
        visit(n.shape)
        for k, v in n.attrs.items():
            if k != 'group': visit(v)
            else:
                for w in v.values.values():
                    if isinstance(w, (SymInt, tuple, list)): visit(w)
    return sorted(found)
