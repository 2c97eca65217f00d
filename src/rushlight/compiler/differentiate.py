"""Differentiate a traced graph: vjp rules in reverse, hoisting, and what the backward keeps.

    gradients(outputs, cotangents, wrt)          nodes of the gradients, in the same graph (None: structurally zero)
    partition(...)                               which forward values are saved

Conjugation is done here, once: a rule is written as for reals and is handed conjugated arguments and result where they are complex, which
gives torch's convention (g * conj(f'(z))) for every holomorphic function.
"""
from . import trace as T
from .graph import closure, is_complex, is_float
from .primitives import PRIMITIVES
from .structural import LINEAR, NO_GRADIENT, VJP, is_one, unbroadcast
from .symbolic import product


def differentiable(dtype): return is_float(dtype) or is_complex(dtype)


def gradients(outputs, cotangents, wrt):
    """Cotangents of the nodes `wrt`, given those of `outputs` (Syms; None: zero). Nothing is propagated past a node of `wrt`."""
    ct, wrt_set, done = {}, set(wrt), set()

    def accumulate(node, g):
        if g is None: return
        ct[node] = ct[node] + g if node in ct else g

    for o, g in zip(outputs, cotangents):
        if o is not None: accumulate(o, g)
    order = closure([o for o in outputs if o is not None], stop=wrt_set)
    needs = set(wrt_set)
    for n in order:
        if n not in needs and n.op not in NO_GRADIENT and differentiable(n.dtype) and any(a in needs for a in n.args): needs.add(n)
    for n in reversed(order):
        if n not in ct or n not in needs or n in wrt_set or n in done: continue
        if n.op == 'call':
            group = n.attrs['group']
            done.update(group.results)
            for node, g in _call_gradients(group, [ct.get(r) for r in group.results], needs): accumulate(node, g)
            continue
        spreads = n.op == 'expand' or n.op not in VJP          # only there may an operand be smaller than the result
        for a, g in zip(n.args, _vjp(n, ct[n])):
            if g is not None and a in needs: accumulate(a, _fit(g, n.shape if spreads else a.shape, a))
    return hoist([ct[w].node if w in ct else None for w in wrt], [g.node for g in cotangents if g is not None])


def _fit(g, shape, node):
    g = unbroadcast(T.lift(g), shape, node.shape)
    if g.dtype != node.dtype: g = VJP['cast'](g, None, T.Sym(node))[0]
    return g


def _vjp(n, g):
    structural = n.op in VJP
    rule = VJP[n.op] if structural else PRIMITIVES[n.op].vjp
    y, args = T.Sym(n), [T.Sym(a) for a in n.args]
    linear = n.op in LINEAR and n.attrs.get('combine') != 'mul'
    conjugate = is_complex(n.dtype) and (not linear if structural else PRIMITIVES[n.op].holomorphic)
    if conjugate and not (n.op in ('reduce', 'scan') and n.attrs['kind'] == 'sum'):
        if n.op == 'matmul' or n.op.startswith('conv'): return rule(g, y, *[T.conj(a) for a in args])
        if structural:                                         # g conj(f') = conj(conj(g) f'): the rules read the node's attributes
            return tuple(None if x is None else T.conj(x) for x in rule(T.conj(g), y, *args))
        y, args = T.conj(y), [T.conj(a) for a in args]
    return rule(g, y, *args)


def _call_gradients(group, grads, needs):
    """(operand node, cotangent) of a call with stated gradients. Parameters without a statement are derived through the body."""
    definition = group.definition
    available = _available(group, grads)
    derived = []
    for name, place, node in group.operands:
        if node not in needs: continue
        rule = definition.gradients.get(name)
        if rule is None:
            derived.append(node)
            continue
        if hasattr(rule, 'of_group'): g = rule.of_group(group, grads)          # a rule made for the whole call: it conjugates by itself
        else: g = _stated(definition, name, rule, available)
        if isinstance(g, (tuple, list)) and place is not None: g = g[place]
        if g is None: continue
        g = T.lift(g)
        yield node, _fit(g, g.shape if g.ndim >= len(node.shape) else node.shape, node)
    if derived:
        values = [r.args[0] for r in group.results]
        for node, g in zip(derived, gradients(values, grads, derived)):
            if g is not None: yield node, T.Sym(g)


def _stated(definition, name, rule, available):
    code, defaults = rule.__code__, rule.__defaults__ or ()
    names = code.co_varnames[:code.co_argcount]
    fallback = dict(zip(names[len(names) - len(defaults):], defaults))
    missing = [k for k in names if k not in available and k not in fallback]
    if missing: raise TypeError(f'the gradient of {definition.name} with respect to {name} asks for {missing}, which it cannot have')
    return rule(*[available[k] if k in available else fallback[k] for k in names])


def _available(group, grads):
    """What a gradient function may name."""
    definition, compute = group.definition, group.compute
    to_compute = lambda x: T.cast(x, compute) if compute is not None and differentiable(x.dtype) and differentiable(compute) else x
    # A real result of complex operands (a norm, an angle) has a real gradient.
    as_result = lambda x: T.cast(x, T.real_dtype(compute)) if is_float(x.dtype) and compute is not None and is_complex(compute) else to_compute(x)
    results = [as_result(T.Sym(r)) for r in group.results]
    full = [None if g is None else as_result(T.expand(g, r.shape)) for g, r in zip(grads, group.results)]
    first = full[0]
    if first is None: first = T.expand(T.const(0, results[0].dtype), results[0].shape) if differentiable(results[0].dtype) else None
    out = dict(group.values)
    out.update(grads=full, grad=first, results=results, result=results[0])
    # What the operator saw, in the compute dtype; complex values conjugated as the rules expect.
    if first is not None and is_complex(first.dtype):
        for k, v in out.items():
            if k not in ('grads', 'grad') and isinstance(v, T.Sym): out[k] = T.conj(v)
    signature = next((s for s in definition.signatures if len(s.returns) == len(results)), definition.signatures[0])
    for i, (_, rname) in enumerate(signature.returns[:len(results)]):
        if rname:
            out.setdefault(rname, results[i])
            out['grad_' + rname] = full[i] if full[i] is not None or not differentiable(results[i].dtype) \
                else T.expand(T.const(0, results[i].dtype), results[i].shape)
    return out


# ---- hoist: fewer and earlier reductions -----------------------------------------------------------------------------
# sum(v * s) -> sum(v) * s when s does not vary along the summed dimensions; sum(a + b) -> sum(a) + sum(b) when that frees the sums from
# waiting for another reduction over the same dimensions (layer_norm backward: one pass instead of two). It changes rounding, so it runs
# once, on the derived graph of one operator, before the operator is fused anywhere: eager and compiled then see the same sums.

def hoist(roots, cotangents):
    """Rebuild what depends on the cotangents; forward values stay exactly what they are."""
    present = [r for r in roots if r is not None]
    order, derived = closure(present), set(cotangents)
    for n in order:
        if any(a in derived for a in n.args): derived.add(n)
    new, depths = {}, {}

    def varies(n, dims, rank): return [d for d in dims if d - (rank - n.ndim) >= 0 and not is_one(n.shape[d - (rank - n.ndim)])]

    def depth(n, dims, rank):
        key = (n, dims, rank)
        if key not in depths:
            here = n.op == 'reduce' and tuple(d + rank - n.ndim for d in n.attrs['dims']) == dims
            depths[key] = int(here) + max((depth(a, dims, rank) for a in n.args), default=0)
        return depths[key]

    def factors(n, dims, rank):
        """n as a product: (factors that do not vary along dims, factors that do)."""
        if not varies(n, dims, rank): return [T.Sym(n)], []
        if n.op == 'expand': return factors(n.args[0], dims, rank)
        if n.op == 'neg':
            inv, var = factors(n.args[0], dims, rank)
            return inv + [T.const(-1, n.dtype)], var
        if n.op == 'mul':
            (i, v), (j, w) = (factors(a, dims, rank) for a in n.args)
            return i + j, v + w
        if n.op == 'div' and not varies(n.args[1], dims, rank):
            inv, var = factors(n.args[0], dims, rank)
            return inv + [1 / T.Sym(n.args[1])], var
        return [], [T.Sym(n)]

    def addends(n):
        if n.op == 'add': return addends(n.args[0]) + addends(n.args[1])
        if n.op == 'sub': return addends(n.args[0]) + [(-T.Sym(a)).node for a in addends(n.args[1])]
        return [n]

    def multiply(values):
        out = values[0]
        for v in values[1:]: out = out * v
        return out

    def rebuild_sum(x, dims, rank, shape):
        inv, var = factors(x, dims, rank)
        if not var: return multiply(inv + [T.cast(T.size(product(shape[d] for d in dims), T.real_dtype(x.dtype)), x.dtype)])
        base = multiply(sorted(var, key=lambda v: v.node.id))              # one order, so that equal sums meet
        moving = varies(base.node, dims, rank)
        still = [d for d in dims if d not in moving]
        parts, chained = addends(base.node), depth(base.node, dims, rank)
        frees = len(parts) > 1 and chained and not still and all(
            depth(v.node, dims, rank) < chained for p in parts for v in factors(p, dims, rank)[1])
        if frees:
            total = None
            for p in parts:
                s = rebuild_sum(p, dims, rank, shape)
                total = s if total is None else total + s
        else: total = T.reduce('sum', base, tuple(d - (rank - base.ndim) for d in moving))
        if still: total = total * T.cast(T.size(product(shape[d] for d in still), T.real_dtype(x.dtype)), x.dtype)
        return multiply([total] + inv)

    for n in order:
        if n not in derived or n in cotangents: new[n] = n
        elif n.op == 'reduce' and n.attrs['kind'] == 'sum' and is_float(n.dtype) and not n.attrs.get('swept'):
            x = new[n.args[0]]
            out = rebuild_sum(x, n.attrs['dims'], x.ndim, x.shape)
            new[n] = out.node
        elif all(new[a] is a for a in n.args): new[n] = n
        else: new[n] = remake(n, [new[a] for a in n.args]).node
    return [None if r is None else new[r] for r in roots]


def remake(n, args):
    """n with other arguments of equal value (their shapes may be smaller where they spread)."""
    if n.op in PRIMITIVES: return T.prim(n.op, *[T.Sym(a) for a in args])
    args = [a if n.op == 'expand' else T.expand(T.Sym(a), old.shape).node for a, old in zip(args, n.args)]
    return T.Sym(n.graph.node(n.op, args, n.attrs, n.shape, n.dtype))


# ---- partition -------------------------------------------------------------------------------------------------------
DEAR = {'matmul', 'draw', 'scan', 'scatter', 'native', 'native_part', 'conv', 'conv_input', 'conv_weight'}           # never computed twice


def _by_routine(n):
    """The result of a routine: its backward is written for what it really computed, not for that rounded."""
    while n.op == 'call': n = n.args[0]
    return n.op in ('native', 'native_part')


def partition(outputs, grads, cotangents, keep_outputs=True):
    """What the backward starts from, demand-driven from the gradients. Inputs and outputs of the operator exist anyway; the small result
    of a reduction is dear to recompute and cheap to keep; full-size pointwise values are recomputed (on a CPU a trip to memory costs
    more than a polynomial).

    Returns (saved, stands_for): the saved nodes in the order they are met, and for each forward node that is read off a saved one, which.
    A value whose rounding to half precision is an output is read off that output, as torch does."""
    grads, outputs = [g for g in grads if g is not None], [o for o in outputs if o is not None]
    everything = closure(outputs + grads)
    dependent, forward = set(cotangents), set(closure(outputs))
    for n in everything:
        if any(a in dependent for a in n.args): dependent.add(n)
    reduced = {}
    for n in everything: reduced[n] = n.op in ('reduce', 'argreduce') or any(reduced[a] for a in n.args)
    size_class = lambda n: sum(not is_one(s) for s in n.shape)
    full = max((size_class(n) for n in everything), default=0)
    free = {}
    for o in outputs if keep_outputs else ():
        n = o
        free.setdefault(n, o)
        while n.op == 'call':
            n = n.args[0]
            free.setdefault(n, o)
        if n.op == 'cast' and n.dtype in T.HALF and is_float(n.args[0].dtype) and not _by_routine(n.args[0]): free.setdefault(n.args[0], o)
    saved, stands_for, seen, todo = [], {}, set(), list(reversed(grads))
    while todo:
        n = todo.pop()
        if n in seen: continue
        seen.add(n)
        if n in cotangents: continue
        small = n in forward and reduced[n] and size_class(n) < full and n.op not in ('const', 'size', 'scalar')
        if n in dependent: kept = None
        elif n.op == 'input': kept = n
        elif n in free: kept = free[n]
        else: kept = n if small or n.attrs.get('kept') or n.op in DEAR and _runs(n, forward) or _routine_result(n, forward) else None
        if kept is None: todo.extend(reversed(n.args))
        else:
            stands_for[n] = kept
            if kept not in saved: saved.append(kept)
    for n in sorted((n for n in saved if n.op != 'input' and n not in outputs), key=lambda n: -n.id):
        if _cheap(n, [m for m in saved if m is not n]):
            saved.remove(n)
            del stands_for[n]
    return saved, stands_for


def _routine_result(n, forward):
    """What an operator with a stated gradient made of a routine's result. Kept as the operator gave it, not as the routine wrote it: in a second
    derivative its gradient goes back through the operator's statement, and a routine has none."""
    if n.op != 'call': return False
    while n.op in ('call', 'reshape', 'permute', 'slice', 'cast'): n = n.args[0]
    return n.op in ('native', 'native_part') and _runs(n, forward)


def _runs(n, forward):
    """Whether the forward computes n: a routine computes all its results, also those that only the backward asks for."""
    return n in forward or n.op == 'native_part' and n.args[0] in forward


def _cheap(n, saved):
    """A hidden value that follows from other saved ones element by element (the mean from the sum): not worth memory of its own."""
    allowed = ('const', 'size', 'scalar', 'reshape', 'expand')
    return n.op in PRIMITIVES and all(m in saved or m.op in PRIMITIVES or m.op in allowed for m in closure([n], stop=saved))
