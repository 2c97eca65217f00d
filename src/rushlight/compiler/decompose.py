"""Decompose: from the traced graph to one of primitives only. `call` nodes are their value, `stop` is its operand, and functions and products of
complex numbers become real algebra on their parts."""
from . import complex_math
from . import trace as T
from .graph import closure, is_complex


def decompose(roots):
    """The roots with everything taken out that the loops do not know (None stays None)."""
    present = [r for r in roots if r is not None]
    if not present: return list(roots)
    new = {}
    with T.tracing(T.Tracing(present[0].graph)):
        for n in closure(present):
            args = [new[a] for a in n.args]
            if n.op in ('call', 'stop', 'itself'): new[n] = args[0]
            elif n.op in complex_math.BODY and is_complex(n.dtype):
                new[n] = complex_math.expand(n.op, [T.Sym(a) for a in args]).node
            elif n.op == 'matmul' and is_complex(n.dtype): new[n] = complex_math.product(*[T.Sym(a) for a in args]).node
            elif all(x is a for x, a in zip(args, n.args)): new[n] = n
            else: new[n] = n.graph.node(n.op, args, n.attrs, n.shape, n.dtype)
    return [None if r is None else new[r] for r in roots]
