"""Decompose: from the traced graph to one of primitives only. `call` nodes are their value, `stop` is its operand."""
from .graph import closure


def decompose(roots):
    """The roots with every call and stop taken out (None stays None)."""
    new = {}
    for n in closure([r for r in roots if r is not None]):
        if n.op in ('call', 'stop'): new[n] = new[n.args[0]]
        elif all(new[a] is a for a in n.args): new[n] = n
        else: new[n] = n.graph.node(n.op, [new[a] for a in n.args], n.attrs, n.shape, n.dtype)
    return [None if r is None else new[r] for r in roots]
