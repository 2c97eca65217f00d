"""Forward mode beside torch's: the tangents of one sample's results, for random tangents of everything differentiable."""
from __future__ import annotations

import torch
import torch.autograd.forward_ad as theirs
from bridge import difference, flatten, to_rl
from closeness import DOUBLE, derivative_tolerances, settled, widened

import rushlight as rl
from rushlight.autograd import forward_ad as mine


def mapped(value, change):
    if isinstance(value, (torch.Tensor, rl.Tensor)): return change(value)
    if isinstance(value, (list, tuple)): return type(value)(mapped(v, change) for v in value)
    if isinstance(value, dict): return {k: mapped(v, change) for k, v in value.items()}
    return value


def duals(module, values, leaves, tangents):
    """`values` with each leaf that wants a gradient made dual."""
    known = {id(leaf): module.make_dual(leaf.detach(), tangent) for leaf, tangent in zip(leaves, tangents)}
    return mapped(values, lambda t: known.get(id(t), t))


def tangents_of(module, function, args, kwargs, leaves, tangents):
    with module.dual_level():
        args, kwargs = duals(module, [args, kwargs], leaves, tangents)
        out = function(*args, **kwargs)
        kind = torch.Tensor if module is theirs else rl.Tensor
        return [module.unpack_dual(o).tangent for o in flatten(out) if isinstance(o, kind) and (o.is_floating_point() or o.is_complex())]


def check_tangents(info, ours, sample, process=None, translated=None):
    """Findings of kind `tangent`; nothing where torch has no forward derivative. `process` makes what is compared of the results (op_db's function that
    does not see signs and phases); `translated` gives op_db's helpers over our names."""
    op = info.op
    wrapper = getattr(info, "gradcheck_wrapper", None)
    names = " ".join((getattr(wrapper, "__name__", ""), *getattr(getattr(wrapper, "__code__", None), "co_names", ())))           # a lambda's are those it calls
    if any(word in names for word in ("hermitian", "triangular")):       # operators that read half of a matrix: so must the tangent
        here = (translated(wrapper) if translated else None) or wrapper
        op, ours = (lambda *a, w=w, f=f, **k: w(f, *a, **k) for w, f in ((wrapper, op), (here, ours)))
    if process is not None: op, ours = (lambda *a, f=f, **k: process(f(*a, **k)) for f in (op, ours))
    args, kwargs = [sample.input, *sample.args], sample.kwargs
    leaves = [t for t in flatten([args, kwargs]) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not leaves: return []
    torch.manual_seed(11)
    tangents = [torch.randn_like(t.detach()) for t in leaves]
    torch.manual_seed(7)
    try: want = tangents_of(theirs, op, args, kwargs, leaves, tangents)
    except Exception: return []          # noqa: BLE001 - torch has none, whatever it says
    storages: dict = {}
    my_args, my_kwargs = to_rl(args, storages), to_rl(kwargs, storages)
    my_leaves = [b for a, b in zip(flatten([args, kwargs]), flatten([my_args, my_kwargs])) if isinstance(a, torch.Tensor) and a.requires_grad]
    rl.manual_seed(7)
    try: have = tangents_of(mine, ours, my_args, my_kwargs, my_leaves, [to_rl(t) for t in tangents])
    except Exception as error:           # noqa: BLE001
        return [("tangent", f"{type(error).__name__}: {str(error)[:160]}")]
    exact = None
    for i, (x, y) in enumerate(zip(have, want)):
        if y is None or x is None:
            given = y if x is None else x
            if given is not None and bool((given != 0).any()): return [("tangent", f"result {i}: {'None' if x is None else 'a tangent'}, torch has {'None' if y is None else 'one'}")]
            continue
        word = difference(x, y, tolerance=derivative_tolerances(info, "tangent"))
        if word:
            if exact is None: exact = in_double(op, args, kwargs, tangents)
            word = settled(word, x, y, exact[i] if exact else None, derivative_tolerances(info, "tangent"))
        if word: return [("tangent", f"result {i}: {word}")]
    return []


def in_double(op, args, kwargs, tangents):
    """torch's tangents in double precision, () where it has none."""
    args, kwargs, tangents = (widened(v, DOUBLE) for v in (args, kwargs, tangents))
    leaves = [t for t in flatten([args, kwargs]) if isinstance(t, torch.Tensor) and t.requires_grad]
    torch.manual_seed(7)
    try: return tangents_of(theirs, op, args, kwargs, leaves, tangents)
    except Exception: return ()          # noqa: BLE001
