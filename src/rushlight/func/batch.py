"""vmap: a function of one example, run for a batch at once.

Inside the function a varying tensor is a *stand-in*: a tensor of one example's shape (the first example), which remembers the whole batch. A
level is a mode: it sees every call with a stand-in, runs the operator over the batch (`NAME.vmap`, compiler/batching.py) and hands out a
stand-in for the result. Views are shifted by one dimension here. What has no rule runs example by example. The values of a stand-in are never
shown: item(), bool() and the like raise.
"""
from __future__ import annotations

from .. import _C, registry
from ..autograd.forward_ad import bound
from ..compiler.batching import NotBatched
from ..functions import broadcast_shapes
from ..utils import _pytree as tree

SAME_SHAPE = {"conj", "_conj", "_neg_view", "resolve_conj", "resolve_neg", "view_as_real", "view_as_complex", "real", "imag", "detach", "alias", "contiguous",
              "positive"}
RESHAPES = {"view", "reshape", "view_as", "reshape_as", "flatten", "ravel", "unflatten", "squeeze", "unsqueeze"}
EXPANDS = {"expand", "expand_as", "broadcast_to"}
DIMENSIONS = {"dim", "dim0", "dim1", "dim2", "axis0", "axis1", "dimension", "source", "destination"}
VALUE_SIZED = {"_nonzero", "masked_select", "_unique2", "unique_dim", "_unique_consecutive"}
RANDOM = {"uniform", "normal", "random", "bernoulli", "exponential", "cauchy", "log_normal", "geometric", "rand_like", "randn_like", "randint_like", "rand", "randn", "randint", "randperm"}


def _op(name): return registry.find(name).op.function


class Level:
    """One vmap under way."""

    looks_inside = True                            # of sparse tensors (overrides.dispatch)

    def __init__(self, size, randomness): self.size, self.randomness = size, randomness

    # -- stand-ins
    def batch_of(self, tensor):
        batch = tensor.__dict__.get("_batches", {}).get(self)
        if batch is not None and batch.shape[1:] != tensor.shape:
            raise RuntimeError("vmap: resize_ (or another change of shape in place) of a varying tensor is not supported; use reshape")
        return batch

    def wrap(self, batch):
        """The stand-in for a batch."""
        if batch.layout is not _C.strided: raise NotImplementedError(f"vmap: tensors of layout {batch.layout} cannot be batched; their values can")
        with _C.disable_torch_function(): example = batch.detach()
        with _C.disable_torch_function(): example = example.select(0, 0)
        example.__dict__["_batches"] = {self: batch}
        return example

    def whole(self, tensor):
        """The batch of a tensor; one that does not vary is repeated."""
        batch = self.batch_of(tensor)
        return tensor.unsqueeze(0).expand(self.size, *tensor.shape) if batch is None else batch

    def wrapped(self, result): return tree.tree_map(lambda o: self.wrap(o) if isinstance(o, _C.Tensor) else o, result)

    # -- calls
    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = [t for t in tree.tree_leaves([args, kwargs]) if isinstance(t, _C.Tensor)]
        op = getattr(function, "op", None)
        if not any(self.batch_of(t) is not None for t in tensors):
            drawn = op is not None and op.definition.name.rstrip("_") in RANDOM
            return self._draw(function, op.definition, args, kwargs) if drawn else function(*args, **kwargs)
        if op is None: return self._index(function, args, kwargs)
        definition = op.definition
        if kwargs.get("out") is not None: raise RuntimeError(f"vmap: {op.name} with out= is not supported")
        if isinstance(definition.native, str): return self._native(function, definition, args, kwargs)
        return self._compiled(function, definition, args, kwargs)

    def run_function(self, cls, args):
        """A custom Function as a whole (autograd.Function._at_level)."""
        from .functions import batched_call
        return batched_call(self, cls, args)

    def _compiled(self, function, definition, args, kwargs):
        if definition.name == "zero_" and self.batch_of(args[0]) is not None:
            self.batch_of(args[0]).zero_()
            return args[0]
        values = bound(definition, args, kwargs)
        mask, batches = "", {}
        for name, value in values.items():
            if isinstance(value, _C.Tensor) or type(value) in (list, tuple) and any(isinstance(v, _C.Tensor) for v in value):
                several = [value] if isinstance(value, _C.Tensor) else list(value)
                mask += "".join("0" if self.batch_of(v) is None else "1" for v in several if v is not None)
                several = [v if v is None or self.batch_of(v) is None else self.batch_of(v) for v in several]
                value = several[0] if isinstance(value, _C.Tensor) else several
            batches["input" if name == "self" else name] = value
        batched = registry.find(definition.name + ".vmap")
        try: result = batched.op.function(**batches, **{batched.mask: mask, batched.chance: self.randomness})
        except (NotBatched, TypeError): result = self._one_by_one(function, args, kwargs)       # a form without a rule; a wrong call is refused there too
        target = args[0] if args else None
        if function.__name__ == definition.short_name + "_" and isinstance(target, _C.Tensor): return self._write(target, result, definition)
        if definition.mutated: raise RuntimeError(f"vmap: {definition.name} writes its arguments, which is not supported")
        return self.wrapped(result)

    def _write(self, target, result, definition):
        batch = self.batch_of(target)
        if batch is None:
            raise RuntimeError(f"vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has "
                               f"more elements than `self`: {definition.name}_ writes one tensor for all examples. Use {definition.name} instead")
        batch.copy_(result)
        return target

    def _one_by_one(self, function, args, kwargs):
        """Without a rule: each example by itself, the results stacked."""
        results = []
        for i in range(self.size):
            pick = lambda v: self.batch_of(v).select(0, i) if isinstance(v, _C.Tensor) and self.batch_of(v) is not None else v      # noqa: B023
            mine, named = tree.tree_map(pick, (args, kwargs))
            results.append(tree.tree_flatten(function(*mine, **named)))
        columns = [_op("stack")(list(column)) for column in zip(*(leaves for leaves, _ in results))]
        return tree.tree_unflatten(columns, results[0][1])

    def _native(self, function, definition, args, kwargs):
        name = definition.name
        fixed = name == "masked_select" and self.batch_of(bound(definition, args, kwargs)["mask"]) is None       # the same mask for all: the same size
        if name in VALUE_SIZED and not fixed:
            raise RuntimeError(f"vmap: It looks like you're attempting to use an operation whose result's size depends on values ({name}); "
                               "its results could have a different size for each example")
        if name.rstrip("_") in RANDOM: return self._draw(function, definition, args, kwargs)
        values = bound(definition, args, kwargs)
        first = next(iter(values))
        batch = self.batch_of(values[first])
        if batch is None: return self.wrapped(self._one_by_one(function, args, kwargs))
        if name in SAME_SHAPE: return self.wrap(function(batch, *args[1:], **kwargs))
        if name == "as_strided": return self._strided(batch, values)
        if fixed: return self._selected(batch, values["mask"])
        if name == "unfold" and batch.ndim == 1: return self.wrapped(self._one_by_one(function, args, kwargs))       # a number: it has no dimension to shift
        if name == "view" and "dtype" in values: return self.wrap(batch.view(values["dtype"]))
        if name in RESHAPES or name in EXPANDS:
            with _C.disable_torch_function(): shape = function(*args, **kwargs).shape
            if name in RESHAPES: return self.wrap(batch.reshape(self.size, *shape))
            lead = batch.reshape(self.size, *(1,) * (len(shape) - batch.ndim + 1), *batch.shape[1:])
            return self.wrap(lead.expand(self.size, *shape))
        rank = batch.ndim - 1
        shift = lambda d: (d + rank if d < 0 else d) + 1
        if name == "permute": return self.wrap(batch.permute(0, *map(shift, values["dims"])))
        if name in ("t", "adjoint"):
            turned = batch.transpose(-2, -1) if rank > 1 else batch
            return self.wrap(turned.conj() if name == "adjoint" else turned)
        if any(k in DIMENSIONS for k in values) and not name.endswith("_"):
            moved = {k: (tuple(map(shift, v)) if isinstance(v, tuple) else shift(v)) if k in DIMENSIONS else v for k, v in values.items() if k != first}
            return self.wrapped(definition.op.function(batch, **moved))
        return self.wrapped(self._one_by_one(function, args, kwargs))

    def _strided(self, batch, values):
        """as_strided counts from the start of an example's memory: the strides of the batch lead from one to the next."""
        offset = values.get("storage_offset")
        return self.wrap(batch.as_strided((self.size, *values["size"]), (batch.stride(0), *values["stride"]), batch.storage_offset() if offset is None else offset))

    def _selected(self, batch, mask):
        shape = broadcast_shapes(batch.shape[1:], mask.shape)
        lead = batch.reshape(self.size, *(1,) * (len(shape) - batch.ndim + 1), *batch.shape[1:]).expand(self.size, *shape)
        return self.wrap(lead[:, mask.expand(shape)])

    def _index(self, function, args, kwargs):
        if function.__name__ not in ("__getitem__", "__setitem__"): return function(*args, **kwargs)
        target, where = args[:2]
        where = where if isinstance(where, tuple) else (where,)
        batch = self.batch_of(target)
        varying = any(isinstance(w, _C.Tensor) and self.batch_of(w) is not None for w in where)
        if any(isinstance(w, _C.Tensor) and w.dtype in (_C.bool, _C.uint8) and self.batch_of(w) is not None for w in where):
            raise RuntimeError("vmap: It looks like you're attempting to use an operation whose result's size depends on values (a mask as an index); "
                               "use torch.where instead")
        advanced = sum(isinstance(w, (_C.Tensor, list)) for w in where)
        plain = batch is not None and not varying and (advanced == 0 or advanced == 1)
        if function.__name__ == "__getitem__":
            if plain: return self.wrap(batch[(slice(None), *where)])
            return self.wrapped(self._one_by_one(lambda x, w: x[w], (target, where), {}))
        if not plain: raise RuntimeError("vmap: assignment to a tensor that does not vary, or at indices that do, is not supported; use torch.where or scatter")
        value = args[2]
        if isinstance(value, _C.Tensor) and self.batch_of(value) is not None:
            value = self.batch_of(value)
            with _C.disable_torch_function(): rank = target[where].ndim
            value = value.reshape(self.size, *(1,) * (rank - value.ndim + 1), *value.shape[1:])
        batch[(slice(None), *where)] = value
        return None

    def _draw(self, function, definition, args, kwargs):
        if self.randomness == "error":
            raise RuntimeError("vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags on "
                               "vmap or perform the randomness operation out of vmap")
        target = args[0] if args and isinstance(args[0], _C.Tensor) else None
        batch = None if target is None else self.batch_of(target)
        if batch is not None and self.randomness == "different":
            out = function(batch, *args[1:], **kwargs)
            return target if function.__name__.endswith("_") else self.wrap(out)
        if batch is not None: raise RuntimeError(f"vmap: {definition.name} of a varying tensor with randomness='same' is not supported")
        if self.randomness == "same" or target is not None: return function(*args, **kwargs)
        return self.wrap(_op("stack")([function(*args, **kwargs) for _ in range(self.size)]))


# ------------------------------------------------------------------------------------------------------------------ vmap
def _spread_dims(dims, args, func_name):
    """One dimension (or None) for each leaf of args."""
    leaves, spec = tree.tree_flatten(args)
    flat = tree._broadcast_to_and_flatten(dims, spec)
    if flat is None:
        raise ValueError(f"vmap({func_name}, in_dims={dims}, ...)(<inputs>): in_dims is not compatible with the structure of inputs. in_dims has structure "
                         f"{tree.tree_flatten(dims)[1]} but inputs has structure {spec}.")
    return leaves, flat, spec


def _entered(leaves, dims, func_name, in_dims):
    sizes = []
    for leaf, d in zip(leaves, dims):
        if d is None: continue
        if not isinstance(d, int):
            raise ValueError(f"vmap({func_name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for an input but in_dim must be either an integer dimension "
                             "or None.")
        if not isinstance(leaf, _C.Tensor):
            raise ValueError(f"vmap({func_name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for an input but the input is of type {type(leaf)}. We cannot "
                             "vmap over non-Tensor arguments, please use None as the respective in_dim")
        if d < -leaf.ndim or d >= leaf.ndim:
            raise ValueError(f"vmap({func_name}, in_dims={in_dims}, ...)(<inputs>): Got in_dim={d} for some input, but that input is a Tensor of dimensionality "
                             f"{leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}.")
        sizes.append(leaf.shape[d])
    if not sizes: raise ValueError(f"vmap({func_name}, in_dims={in_dims}, ...): at least one input must be mapped over: all in_dims are None or there are no inputs")
    if any(s != sizes[0] for s in sizes):
        raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension")
    return sizes[0]


def debug_unwrap(tensor, *, recurse=True):
    """The batch that a tensor inside vmap stands for, to look at: of the innermost level, or with `recurse` of all of them. Any other tensor is itself."""
    batches = getattr(tensor, "_batches", None)
    if not batches: return tensor
    batch = list(batches.values())[-1]
    return debug_unwrap(batch) if recurse else batch


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """func over a batch: each argument's dimension `in_dims` (None: the same for all examples) is taken away before func sees it, and each
    result has it back at `out_dims`.

    >>> dot = torch.func.vmap(torch.dot)
    >>> dot(torch.ones(3, 4), torch.ones(3, 4))
    tensor([4., 4., 4.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0: raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    name = getattr(func, "__name__", repr(func))

    def run(leaves, dims, spec, kwargs, size):
        level = Level(size, randomness)
        entered = [leaf if d is None else level.wrap(leaf.movedim(d, 0)) for leaf, d in zip(leaves, dims)]
        _C.push_mode(level)
        try: result = func(*tree.tree_unflatten(entered, spec), **kwargs)
        finally: _C.pop_mode()
        outs, out_spec = tree.tree_flatten(result)
        flat = tree._broadcast_to_and_flatten(out_dims, out_spec)
        if flat is None:
            raise ValueError(f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of outputs. out_dims has structure "
                             f"{tree.tree_flatten(out_dims)[1]} but outputs has structure {out_spec}.")
        for i, o in enumerate(outs):
            if not isinstance(o, _C.Tensor):
                raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(o)}. Did you mean to set out_dims= to None for output?")
            if flat[i] is None:
                if level.batch_of(o) is not None:
                    raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
            else: outs[i] = level.whole(o).movedim(0, flat[i])
        return outs, flat, out_spec

    def mapped(*args, **kwargs):
        leaves, dims, spec = _spread_dims(in_dims, args, name)
        size = _entered(leaves, dims, name, in_dims)
        if size == 0: raise RuntimeError("vmap: the mapped dimension has size 0; there is no example to run")
        if chunk_size is None or chunk_size >= size:
            outs, _, out_spec = run(leaves, dims, spec, kwargs, size)
            return tree.tree_unflatten(outs, out_spec)
        pieces = []
        for at in range(0, size, chunk_size):
            count = min(chunk_size, size - at)
            part = [leaf if d is None else leaf.narrow(d, at, count) for leaf, d in zip(leaves, dims)]
            pieces.append(run(part, dims, spec, kwargs, count))
        joined = [column[0] if d is None else _op("cat")(list(column), d) for column, d in zip(zip(*(p[0] for p in pieces)), pieces[0][1])]
        return tree.tree_unflatten(joined, pieces[0][2])
    mapped.__name__ = f"vmap({name})"
    return mapped
