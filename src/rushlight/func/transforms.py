"""Function transforms: grad, vjp, jvp, Jacobians. They nest in each other and in vmap.

Reverse mode is the tape's. A transform makes fresh leaves of its inputs, so that an outer transform still sees through them. Under the
levels of an outer vmap or jvp a leaf is made for the whole batch, and carries its tangent; the gradients come back the same way
(`leaf`, `pulled`: one step for each level, innermost first).
"""
from __future__ import annotations

import functools

from .. import _C, registry
from ..autograd import forward_ad
from ..autograd import grad as tape_grad
from ..autograd.grad_mode import enable_grad
from ..functions import arange
from ..utils import _pytree as tree
from .batch import Level as Batch
from .batch import vmap

_depth = 0


def _op(name): return registry.find(name).op.function


def leaf(x):
    """x as something to differentiate by, at every level under way."""
    level = _C.top_mode()
    if isinstance(level, Batch):
        with _C.without_mode(): return level.wrap(leaf(level.whole(x)))
    if isinstance(level, forward_ad.Level):
        with _C.without_mode(): out = leaf(x)
        tangent = forward_ad.tangent_of(x, level)
        if tangent is not None: forward_ad.set_tangent(out, level, tangent)
        return out
    return _op("alias")(x) if x.requires_grad else x.detach().requires_grad_()


def pulled(outputs, leaves, cotangents, keep):
    """The gradients of outputs with respect to leaves. keep: they are differentiated again."""
    level = _C.top_mode()
    if isinstance(level, Batch):
        if all(level.batch_of(x) is None for x in leaves):         # the graph was made outside (vmap of vjp's function): the cotangents of each example go through it
            varying = [level.whole(c) for c in cotangents]
            with _C.without_mode():
                rows = [pulled(outputs, leaves, [c[i] for c in varying], keep) for i in range(level.size)]
                return [level.wrap(_op("stack")(column)) for column in zip(*rows)]
        batches = [[level.whole(t) for t in ts] for ts in (outputs, leaves, cotangents)]
        with _C.without_mode(): return [level.wrap(g) for g in pulled(*batches, keep)]
    if isinstance(level, forward_ad.Level):
        with _C.without_mode():
            found = pulled(outputs, leaves, cotangents, True)
            tangents = _second_order(found, leaves, [forward_ad.tangent_of(x, level) for x in leaves])
            found, tangents = ([None if t is None else _finish(t, keep) for t in ts] for ts in (found, tangents))
        for g, t in zip(found, tangents):
            if t is not None: forward_ad.set_tangent(g, level, t)
        return found
    outputs, cotangents = map(list, zip(*[(o, c) for o, c in zip(outputs, cotangents) if o.requires_grad])) if any(o.requires_grad for o in outputs) else ([], [])
    zeros = [_op("zeros_like")(x) for x in leaves]
    if not outputs: return zeros
    found = tape_grad(outputs, leaves, cotangents, retain_graph=True, create_graph=keep, allow_unused=True)
    return [z if g is None else g for g, z in zip(found, zeros)]


def _second_order(found, leaves, tangents):
    """The tangents of gradients: the transpose of the transpose, on the tape, at the levels that are left."""
    known = [(x, t) for x, t in zip(leaves, tangents) if t is not None]
    if not known: return [None] * len(found)
    return _transposed(lambda marks: pulled(found, [x for x, _ in known], marks, True), found, [t for _, t in known])


def _transposed(linear, like, directions):
    """Aᵀ of `directions`, for a function from marks (in the shapes of `like`) to A of them."""
    marks = [leaf(_op("zeros_like")(g)) for g in like]
    return pulled(linear(marks), marks, directions, True)


class nested:
    """A transform under way: gradients inside another one are kept differentiable."""

    def __enter__(self):
        global _depth
        _depth += 1
        return self

    def __exit__(self, *error):
        global _depth
        _depth -= 1


def _reaches_others(outputs, leaves):
    """Does anything besides the leaves take part in the graph? Then the gradients belong to a graph too."""
    own, seen, todo = {id(x) for x in leaves}, set(), [o.grad_fn for o in outputs if o.grad_fn is not None]
    while todo:
        node = todo.pop()
        if node in seen: continue
        seen.add(node)
        variable = getattr(node, "variable", None)
        if variable is not None and id(variable) not in own: return True
        todo.extend(n for n, _ in node.next_functions if n is not None)
    return False


def _root(t):
    """The tensor that the tape knows: the batch behind a stand-in, behind all of them."""
    while "_batches" in t.__dict__: t = next(iter(t.__dict__["_batches"].values()))
    return t


def _keeps(outputs, leaves, given):
    if _depth > 1 or any(_root(x).requires_grad for x in given): return True
    return _reaches_others([_root(o) for o in outputs], [_root(x) for x in leaves])


def _finish(x, keep):
    """x without its history on the tape, unless that is kept; what the levels know of it stays."""
    if keep: return x
    level = _C.top_mode()
    if isinstance(level, Batch):
        batch = level.batch_of(x)
        with _C.without_mode(): return _finish(x, keep) if batch is None else level.wrap(_finish(batch, keep))
    if isinstance(level, forward_ad.Level):
        tangent = forward_ad.tangent_of(x, level)
        with _C.without_mode(): out = _finish(x, keep)
        if tangent is not None: forward_ad.set_tangent(out, level, tangent)
        return out
    return x.detach()


def _chosen(argnums, args):
    several = isinstance(argnums, tuple)
    numbers = argnums if several else (argnums,)
    for n in numbers:
        if not -len(args) <= n < len(args): raise RuntimeError(f"Got argnum={n}, but only {len(args)} positional inputs were provided.")
    return several, [n % len(args) for n in numbers]


def _differentiated(args, numbers):
    """args with fresh leaves in the places numbered; the leaves; the structure of those places; what was there."""
    chosen = [args[n] for n in numbers]
    given, spec = tree.tree_flatten(chosen)
    for x in given:
        if not isinstance(x, _C.Tensor): raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
    leaves = [leaf(x) for x in given]
    args = list(args)
    for n, value in zip(numbers, tree.tree_unflatten(leaves, spec)): args[n] = value
    return args, leaves, spec, given


def grad_and_value(func, argnums=0, has_aux=False):
    """A function that gives (gradient, value) of func, whose value is a scalar."""
    def transformed(*args, **kwargs):
        with nested(), enable_grad():
            several, numbers = _chosen(argnums, args)
            args, leaves, spec, given = _differentiated(args, numbers)
            output = func(*args, **kwargs)
            aux = None
            if has_aux:
                if not (isinstance(output, tuple) and len(output) == 2):
                    raise RuntimeError("grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True")
                output, aux = output
            if not isinstance(output, _C.Tensor):
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(output)}")
            if output.dim() != 0:
                raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {output.dim()} dims. Maybe you wanted to use the vjp or jacrev "
                                   "APIs instead?")
            keep = _keeps([output], leaves, given)
            found = pulled([output], leaves, [_op("ones_like")(output)], keep)
        gradient = tree.tree_unflatten([_finish(g, keep) for g in found], spec)
        gradient = tuple(gradient) if several else gradient[0]
        value = _finish(output, keep)
        return (gradient, (value, tree.tree_map(lambda a: _finish(a, keep) if isinstance(a, _C.Tensor) else a, aux))) if has_aux else (gradient, value)
    return transformed


def grad(func, argnums=0, has_aux=False):
    """A function that gives the gradient of func with respect to its arguments numbered `argnums`.

    >>> torch.func.grad(lambda x: x.sin().sum())(torch.zeros(2))
    tensor([1., 1.])
    """
    both = grad_and_value(func, argnums, has_aux)

    def transformed(*args, **kwargs):
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient
    return transformed


def vjp(func, *primals, has_aux=False):
    """(outputs, function from cotangents to gradients[, aux]) at `primals`."""
    with nested(), enable_grad():
        args, leaves, spec, given = _differentiated(primals, list(range(len(primals))))
        result = func(*args)
        aux = None
        if has_aux:
            if not (isinstance(result, tuple) and len(result) == 2):
                raise RuntimeError("vjp(f, *primals): output of function f should be a tuple: (output, aux) if has_aux is True")
            result, aux = result
        outs, out_spec = tree.tree_flatten(result)
        for o in outs:
            if not isinstance(o, _C.Tensor): raise RuntimeError(f"vjp(f, *primals): expected f(*primals) to return only tensors, got unsupported type {type(o)}")
        keep = _keeps(outs, leaves, given)

    def back(cotangents, retain_graph=True, create_graph=None):
        given_cotangents, given_spec = tree.tree_flatten(cotangents)
        if given_spec != out_spec:
            raise RuntimeError(f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. cotangents: {given_spec}, "
                               f"primal output: {out_spec}")
        kept = keep or any(_root(c).requires_grad for c in given_cotangents)
        with enable_grad(): found = pulled(outs, leaves, given_cotangents, kept)
        found = tree.tree_unflatten([_finish(g, kept) for g in found], spec)
        return tuple(found)
    values = tree.tree_unflatten([_finish(o, keep) for o in outs], out_spec)
    return (values, back, aux) if has_aux else (values, back)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """(outputs, their tangents[, aux]) of func at `primals` in the direction `tangents`."""
    if not isinstance(primals, tuple): raise RuntimeError("jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    given, spec = tree.tree_flatten(primals)
    directions, direction_spec = tree.tree_flatten(tangents)
    if spec != direction_spec:
        raise RuntimeError(f"jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, if primals is a tuple of 3 "
                           f"tensors, tangents also must be. Got primals with structure {spec} and tangents with structure {direction_spec}")
    if not given: raise RuntimeError("jvp(f, primals, tangents): Expected primals to contain at least one Tensor.")
    for x, t in zip(given, directions):
        if not isinstance(x, _C.Tensor) or not isinstance(t, _C.Tensor): raise RuntimeError("jvp(f, primals, tangents): Expected primals and tangents to contain only Tensors")
        forward_ad.check_size(x, t)
    level = forward_ad.Level()
    duals = []
    for x, t in zip(given, directions):
        dual = _op("alias")(x)
        forward_ad.set_tangent(dual, level, t)
        duals.append(dual)
    _C.push_mode(level)
    try: result = func(*tree.tree_unflatten(duals, spec))
    finally: _C.pop_mode()
    aux = None
    if has_aux: result, aux = result
    outs, out_spec = tree.tree_flatten(result)
    found = []
    for o in outs:
        if not isinstance(o, _C.Tensor): raise RuntimeError(f"jvp(f, primals, tangents): expected f(*primals) to return only tensors, got unsupported type {type(o)}")
        tangent = forward_ad.tangent_of(o, level)
        found.append(_op("zeros_like")(o) if tangent is None else tangent)
    pair = result, tree.tree_unflatten(found, out_spec)
    return (*pair, aux) if has_aux else pair


def linearize(func, *primals):
    """(outputs, function from tangents to the tangents of the outputs), with the derivative taken at `primals` once."""
    outputs, back = vjp(func, *primals)
    leaves, spec = tree.tree_flatten(outputs)

    def forth(*tangents):
        with nested(), enable_grad():
            found = _transposed(lambda marks: tree.tree_leaves(back(tree.tree_unflatten(marks, spec))), leaves, tree.tree_leaves(tangents))
        return tree.tree_unflatten([_finish(t, False) for t in found], spec)
    return outputs, forth


# --------------------------------------------------------------------------------------------------------------- Jacobians
def _basis(tensors):
    """One direction for each element of all tensors: a stack for each tensor."""
    total, at, out = sum(t.numel() for t in tensors), 0, []
    for t in tensors:
        here = arange(total, device=t.device).unsqueeze(1) - at == arange(t.numel(), device=t.device)
        at += t.numel()
        out.append(here.to(t.dtype).reshape(total, *t.shape))
    return out


def jacrev(func, argnums=0, *, has_aux=False, chunk_size=None, _preallocate_and_copy=False):
    """The Jacobian of func by reverse mode: for each element of the output one backward pass."""
    def transformed(*args, **kwargs):
        several, numbers = _chosen(argnums, args)

        def of_chosen(*values):
            full = list(args)
            for n, v in zip(numbers, values): full[n] = v
            return func(*full, **kwargs)
        answer = vjp(of_chosen, *(args[n] for n in numbers), has_aux=has_aux)
        outputs, back = answer[:2]
        outs, out_spec = tree.tree_flatten(outputs)
        rows = _basis(outs)
        with nested():
            per_row = [tree.tree_flatten(back(tree.tree_unflatten([r[i] for r in rows], out_spec))) for i in range(sum(o.numel() for o in outs))]
        in_spec = per_row[0][1] if per_row else None
        jacobian, at = [], 0
        for o in outs:
            block = per_row[at:at + o.numel()]
            at += o.numel()
            leaves = [_op("stack")([b[0][k] for b in block]).reshape(*o.shape, *block[0][0][k].shape) for k in range(len(block[0][0]))]
            pieces = tree.tree_unflatten(leaves, in_spec)
            jacobian.append(tuple(pieces) if several else pieces[0])
        result = tree.tree_unflatten(jacobian, out_spec)
        return (result, answer[2]) if has_aux else result
    return transformed


def jacfwd(func, argnums=0, has_aux=False, *, randomness="error"):
    """The Jacobian of func by forward mode: the directions of all elements of the input at once."""
    def transformed(*args, **kwargs):
        several, numbers = _chosen(argnums, args)
        chosen, spec = tree.tree_flatten([args[n] for n in numbers])
        rows = _basis(chosen)
        aux = None

        def push(*directions):
            nonlocal aux

            def of_chosen(*values):
                full = list(args)
                for n, v in zip(numbers, tree.tree_unflatten(list(values), spec)): full[n] = v
                return func(*full, **kwargs)
            answer = jvp(of_chosen, tuple(chosen), tuple(directions), has_aux=has_aux)
            if has_aux: aux = answer[2]
            return answer[1]
        outs, out_spec = tree.tree_flatten(vmap(push, randomness=randomness)(*rows))
        jacobian = []
        for o in outs:
            pieces, at = [], 0
            for x in chosen:
                block = o[at:at + x.numel()].movedim(0, -1)
                pieces.append(block.reshape(*o.shape[1:], *x.shape))
                at += x.numel()
            pieces = tree.tree_unflatten(pieces, spec)
            jacobian.append(tuple(pieces) if several else pieces[0])
        result = tree.tree_unflatten(jacobian, out_spec)
        return (result, aux) if has_aux else result
    return transformed


def hessian(func, argnums=0):
    """The second derivatives of a function with a scalar value."""
    return jacfwd(jacrev(func, argnums), argnums)


def functionalize(func, *, remove="mutations"):
    """The function without writes in place, for who traces it. Nothing traces below this interface: the compiled form of a call has no writes in it whatever the function says, so
    calling it is calling `func`."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: 'mutations' and 'mutations_and_views'")

    @functools.wraps(func)
    def call(*args, **kwargs): return func(*args, **kwargs)
    return call
