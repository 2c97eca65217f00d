"""Custom Functions (`autograd.Function`) at the levels of vmap and of forward mode.

A level sees the operators inside a `forward`, but the derivative is what the Function says, not what its operators would give. So a level is
asked for the whole call (`autograd.Function._at_level`): vmap runs the Function's own `vmap`, or with `generate_vmap_rule` another Function made
of its parts over the batch; forward mode runs its `jvp`.
"""
from __future__ import annotations

from collections import namedtuple

from .. import _C
from ..autograd.function import Function, FunctionCtx

VmapInfo = namedtuple("VmapInfo", ["batch_size", "randomness"])


def _overrides(cls, name): return getattr(cls, name) is not getattr(Function, name)


def own(cls):
    """This package's own Functions are written in operators that a level may look at."""
    return cls.__module__.partition(".")[0] == __package__.partition(".")[0]


# ------------------------------------------------------------------------------------------------------------------ vmap
def batched_call(level, cls, args):
    """cls over the batch of a vmap level. Called with the level hidden."""
    batches = [level.batch_of(a) if isinstance(a, _C.Tensor) else None for a in args]
    if all(b is None for b in batches): return cls.apply(*args)
    if not cls._uses_setup_context and not hasattr(cls, "_of_batch"):
        raise RuntimeError(f"In order to use an autograd.Function with functorch transforms, write its setup_context: the forward of {cls.__name__} takes ctx itself")
    if cls.generate_vmap_rule and _overrides(cls, "vmap"):
        raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and a vmap of its own: which of them holds?")
    if not cls.generate_vmap_rule and not _overrides(cls, "vmap"):
        raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it does not have vmap support: write its vmap, or set generate_vmap_rule = True")
    values = [a if b is None else b for a, b in zip(args, batches)]
    varies = [b is not None for b in batches]
    if cls.generate_vmap_rule: return level.wrapped(_over_batch(cls, level, varies).apply(*values))
    result = cls.vmap(VmapInfo(level.size, level.randomness), tuple(0 if v else None for v in varies), *values)
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"The vmap staticmethod of {cls.__name__} must return a tuple of the outputs and their dimensions of the batch")
    outputs, dims = result
    if not isinstance(outputs, tuple): return _placed(level, outputs, dims)
    if not isinstance(dims, tuple): dims = (dims,) * len(outputs)
    return tuple(_placed(level, o, d) for o, d in zip(outputs, dims))


def _placed(level, output, dim): return output if dim is None or not isinstance(output, _C.Tensor) else level.wrap(output.movedim(dim, 0))


class _Seen(FunctionCtx):
    """The ctx that the parts of a Function see over a batch: of one example. It belongs to the ctx of the batch."""
    materialize_grads = True
    saved_tensors = needs_input_grad = ()


class _at:
    """The level on top, for a block."""

    def __init__(self, level): self.level = level

    def __enter__(self): _C.push_mode(self.level)

    def __exit__(self, *error): _C.pop_mode()


def _over_batch(cls, level, varies):
    """The Function over a whole batch whose parts are cls's, each run at the level. varies: by argument."""

    def whole(value): return level.whole(value) if isinstance(value, _C.Tensor) else value

    def known(value):
        batch = level.batch_of(value) if isinstance(value, _C.Tensor) else None
        return value if batch is None else batch

    def stand_ins(values, which): return tuple(level.wrap(v) if w and isinstance(v, _C.Tensor) else v for v, w in zip(values, which))

    def forward(ctx, *args):
        seen = ctx.seen = _Seen()
        seen.needs_input_grad = ctx.needs_input_grad
        with _at(level):
            inputs = stand_ins(args, varies)
            if cls._uses_setup_context:
                result = cls.forward(*inputs)
                cls.setup_context(seen, inputs, result)
            else: result = cls.forward(seen, *inputs)                  # one of these itself, at another level
            made = {id(o): whole(o) for o in (result if isinstance(result, tuple) else (result,))}
        def kept(tensors): return tuple(made[id(v)] if id(v) in made else known(v) for v in tensors)

        saved = seen.__dict__.pop("to_save", ())
        ctx.saved_vary = [v is not None and (id(v) in made or level.batch_of(v) is not None) for v in saved]
        ctx.save_for_backward(*kept(saved))
        if "saved_for_forward" in seen.__dict__:
            ctx.forward_vary = [v is not None and (id(v) in made or level.batch_of(v) is not None) for v in seen.saved_for_forward]
            ctx.save_for_forward(*kept(seen.__dict__.pop("saved_for_forward")))
        if "dirty_tensors" in seen.__dict__: ctx.mark_dirty(*kept(seen.dirty_tensors))
        if "non_differentiable" in seen.__dict__: ctx.mark_non_differentiable(*kept(seen.non_differentiable))
        ctx.set_materialize_grads(seen.materialize_grads)
        return tuple(made[id(o)] for o in result) if isinstance(result, tuple) else made[id(result)]

    def backward(ctx, *gradients):
        seen = ctx.seen
        seen.saved_tensors = stand_ins(ctx.saved_tensors, ctx.saved_vary)
        with _at(level):
            found = (cls.vjp if _overrides(cls, "vjp") else cls.backward)(seen, *stand_ins(gradients, [True] * len(gradients)))
            found = tuple(whole(g) for g in (found if isinstance(found, tuple) else (found,)))
        seen.saved_tensors = ()
        return tuple(g if g is None or v else g.sum(0) for g, v in zip(found, varies))

    def jvp(ctx, *tangents):
        seen = ctx.seen
        seen.saved_tensors = stand_ins(ctx.saved_tensors, getattr(ctx, "forward_vary", ctx.saved_vary))
        with _at(level):
            found = cls.jvp(seen, *stand_ins(tangents, varies))
            found = tuple(map(whole, found)) if isinstance(found, tuple) else whole(found)
        seen.saved_tensors = ()
        return found

    parts = {"forward": staticmethod(forward), "backward": staticmethod(backward), "__module__": cls.__module__, "generate_vmap_rule": True, "_of_batch": True}
    if _overrides(cls, "jvp"): parts["jvp"] = staticmethod(jvp)
    return type(Function)(cls.__name__, (Function,), parts)


# ----------------------------------------------------------------------------------------------------------------- forward mode
class _InForward:
    """A ctx as `jvp` sees it: what `save_for_forward` kept is saved_tensors."""

    def __init__(self, ctx): self.__dict__.update(_ctx=ctx, _kept=getattr(ctx, "saved_for_forward", None))

    def __getattr__(self, name): return getattr(self._ctx, name)

    def __setattr__(self, name, value): setattr(self._ctx, name, value)

    @property
    def saved_tensors(self):
        return self._ctx.saved_tensors if self._kept is None else self._kept


def tangent_call(level, cls, args):
    """cls with tangents by its jvp. Called with the level of forward mode hidden."""
    from ..autograd.forward_ad import set_tangent, tangent_of
    tangents = [tangent_of(a, level) if isinstance(a, _C.Tensor) else None for a in args]
    if all(t is None for t in tangents): return cls.apply(*args)
    if not _overrides(cls, "jvp"): cls.jvp(None)                             # says what is missing
    contexts = []
    if cls._uses_setup_context:
        def setup_context(ctx, inputs, output):
            cls.setup_context(ctx, inputs, output)
            contexts.append(_InForward(ctx))
        part = {"setup_context": staticmethod(setup_context)}
    else:
        def forward(ctx, *args):
            output = cls.forward(ctx, *args)
            contexts.append(_InForward(ctx))
            return output
        part = {"forward": staticmethod(forward)}
    result = type(Function)(cls.__name__, (cls,), {**part, "__module__": cls.__module__}).apply(*args)
    found = cls.jvp(contexts.pop(), *tangents)
    outputs, found = (v if isinstance(v, tuple) else (v,) for v in (result, found))
    for o, t in zip(outputs, found):
        if isinstance(o, _C.Tensor) and t is not None: set_tangent(o, level, t)
    return result
