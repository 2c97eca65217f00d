"""Checkpointing: a part of the network keeps only its inputs, and computes the rest again when backward comes by.

`use_reentrant=False` (torch's recommendation) records the part as it is, with hooks that keep a number in place of every value its operations save
(`autograd.graph.saved_tensors_hooks`); the first of these that backward asks for runs the part again, which gives them all. `use_reentrant=True` records one
node: it computes gradients of the inputs, and of parameters through their `.grad`.
"""
from __future__ import annotations

import contextlib
import weakref

import rushlight as rl
from rushlight import _C, Tensor
from rushlight.autograd import Function
from rushlight.autograd.graph import saved_tensors_hooks

from .._C import warn
from . import _pytree
from .selective_checkpoint import SAC_IGNORED_OPS, CheckpointPolicy, SelectiveCheckpointContext, _Selecting, create_selective_checkpoint_contexts

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointError", "CheckpointFunction", "check_backward_validity", "detach_variable", "get_device_states", "set_device_states",
           "noop_context_fn", "set_checkpoint_early_stop", "set_checkpoint_debug_enabled", "CheckpointPolicy", "DefaultDeviceType", "GraphExecGroup", "SAC_IGNORED_OPS",
           "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class DefaultDeviceType:
    """The kind of device whose generators are kept besides the CPU's: none."""

    @staticmethod
    def set_device_type(device: str = "cuda") -> None: pass
    @staticmethod
    def get_device_type() -> str: return "cuda"


def detach_variable(inputs: tuple) -> tuple:
    """The inputs as new leaves."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value for value in inputs)


def check_backward_validity(inputs) -> None:
    if not any(value.requires_grad for value in inputs if isinstance(value, Tensor)):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def get_device_states(*args) -> tuple[list, list]: return [], []
def set_device_states(devices, states, *, device_type=None) -> None: pass
def noop_context_fn(): return contextlib.nullcontext(), contextlib.nullcontext()
def set_checkpoint_debug_enabled(enabled): return contextlib.nullcontext()


_early_stop: bool | None = None        # what set_checkpoint_early_stop says, over checkpoint()'s own argument


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool):
    """Whether the second run of a part ends as soon as it has given everything that backward needs."""
    global _early_stop
    outer, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = outer


class GraphExecGroup:
    """Several backward passes inside the block, over different parts of a graph, count as one: a part that more than one of them needs is computed again once."""

    _active: GraphExecGroup | None = None

    def __enter__(self) -> GraphExecGroup:
        if GraphExecGroup._active is not None: raise RuntimeError("GraphExecGroup contexts cannot be nested.")
        GraphExecGroup._active = self
        return self

    def __exit__(self, *exc) -> None: GraphExecGroup._active = None


class _Surroundings:
    """The state of the generator and of autocast at the first run, brought back for the second."""

    def __init__(self, preserve: bool) -> None:
        self.random = rl.get_rng_state() if preserve else None
        self.autocast = {"enabled": rl.is_autocast_enabled("cpu"), "dtype": rl.get_autocast_dtype("cpu"), "cache_enabled": rl.is_autocast_cache_enabled()}

    @contextlib.contextmanager
    def again(self):
        with rl.random.fork_rng(enabled=self.random is not None), rl.amp.autocast("cpu", **self.autocast):
            if self.random is not None:
                rl.set_rng_state(self.random)
            yield


class CheckpointFunction(Function):
    """The reentrant kind: `apply(function, preserve_rng_state, *inputs)`."""

    @staticmethod
    def forward(ctx, function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.function, ctx.surroundings = function, _Surroundings(preserve_rng_state)
        ctx.places = [i for i, value in enumerate(args) if isinstance(value, Tensor)]
        ctx.args = [None if isinstance(value, Tensor) else value for value in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        with rl.no_grad():
            return function(*args)

    @staticmethod
    def backward(ctx, *gradients):
        args = list(ctx.args)
        for place, tensor in zip(ctx.places, ctx.saved_tensors):
            args[place] = tensor
        args = detach_variable(tuple(args))
        with rl.enable_grad(), ctx.surroundings.again():
            outputs = ctx.function(*args)
        outputs = (outputs,) if isinstance(outputs, Tensor) else outputs
        pairs = [(out, grad) for out, grad in zip(outputs, gradients) if isinstance(out, Tensor) and out.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        rl.autograd.backward([out for out, _ in pairs], [grad for _, grad in pairs])
        return None, None, *(value.grad if isinstance(value, Tensor) else None for value in args)


class CheckpointError(RuntimeError):
    """The part did not compute the same thing the second time."""


class _Holder:
    """Stands in the graph for a value that is not kept: the number of the value among those the part saved."""

    __slots__ = ("index", "__weakref__")

    def __init__(self, index: int) -> None: self.index = index


class _Enough(Exception):
    """Everything that was asked for has been computed again."""


class _Inputs(Function):
    """Keeps the tensors a part is called with: saved for backward like any others, so the hooks of an outer part apply to them."""

    @staticmethod
    def forward(ctx, anchor, *tensors):
        ctx.save_for_backward(*tensors)
        return anchor.new_empty(0)

    @staticmethod
    def backward(ctx, *gradients): raise AssertionError("nothing is computed from this")


def _facts(tensor: Tensor) -> dict: return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


class _Part:
    """One call of a checkpointed function. Forward packs what operations save into holders; the first holder that backward unpacks runs the function again,
    which gives the values of all of them."""

    def __init__(self, run, surroundings: _Surroundings, context, early_stop: bool, check: bool) -> None:
        self.run, self.surroundings, self.context, self.early_stop, self.check = run, surroundings, context, early_stop, check
        self.holders: list[weakref.ref] = []
        self.facts: list[dict] = []
        self.values: dict[int, Tensor] = {}
        self.computed_for: int | GraphExecGroup | None = None      # the backward pass, or the group of them, that the values were computed for
        self.watching: list | None = None        # what is saved, for who asks (`watched`)
        self.running = True                      # the function may call grad() itself: then it runs again up to the place it has come to

    def pack(self, tensor: Tensor) -> _Holder:
        holder = _Holder(len(self.holders))
        self.holders.append(weakref.ref(holder))
        self.facts.append(_facts(tensor))
        if self.watching is not None: self.watching.append(tensor.detach())
        return holder

    @contextlib.contextmanager
    def watched(self):
        """The tensors that operations inside the block save."""
        self.watching = saved = []
        try: yield saved
        finally: self.watching = None

    def unpack(self, holder: _Holder) -> Tensor:
        now = GraphExecGroup._active or _C.current_run()
        if now != self.computed_for or now == -1 or holder.index not in self.values:
            self.compute_again()
            self.computed_for = now
        return self.values.pop(holder.index)

    def compute_again(self) -> None:
        self.values = values = {}
        count, expected_count = 0, len(self.holders)
        stop = self.early_stop or self.running

        def pack(tensor: Tensor) -> Tensor:
            nonlocal count
            if count >= expected_count:
                raise CheckpointError("torch.utils.checkpoint: trying to save more tensors during recomputation than during the original forward pass.")
            value = tensor.detach()
            if self.holders[count]() is not None:
                values[count] = value
            found, expected = _facts(tensor), self.facts[count]
            if self.check and found != expected:
                raise CheckpointError("torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass.\n"
                                      f"tensor at position {count}:\nsaved metadata: {expected}\nrecomputed metadata: {found}")
            count += 1
            if stop and count == expected_count:
                raise _Enough
            return value

        self.pack_again = pack
        with contextlib.suppress(_Enough), rl.enable_grad(), self.surroundings.again(), self.context, saved_tensors_hooks(pack, lambda value: value):
            self.run()
        if count != expected_count:
            raise CheckpointError("torch.utils.checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                                  f"Number of tensors saved during forward: {expected_count}\nNumber of tensors saved during recomputation: {count}.")


def _checkpoint_without_reentry(function, preserve: bool, context_fn, determinism_check: str, early_stop: bool, args, kwargs):
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    surroundings = _Surroundings(preserve)
    contexts = context_fn()
    leaves, structure = _pytree.tree_flatten((args, kwargs))
    places = [i for i, value in enumerate(leaves) if isinstance(value, Tensor)]
    constants = [None if isinstance(value, Tensor) else value for value in leaves]
    kept = _Inputs.apply(rl.empty(0, requires_grad=True), *(leaves[i] for i in places))

    def run():
        values = list(constants)
        for place, tensor in zip(places, kept.grad_fn.saved_tensors):
            values[place] = tensor
        given, named = structure.unflatten(values)
        return function(*given, **named)

    early_stop = early_stop if _early_stop is None else _early_stop
    part = _Part(run, surroundings, contexts[1], early_stop, determinism_check == "default")
    for context in contexts:
        if isinstance(context, _Selecting): context.part = part
    try:
        with contexts[0], saved_tensors_hooks(part.pack, part.unpack):
            return function(*args, **kwargs)
    finally:
        part.running = False


def checkpoint(function, *args, use_reentrant: bool | None = None, context_fn=noop_context_fn, determinism_check: str = "default", debug: bool = False,
               early_stop: bool = True, **kwargs):
    """`function(*args)`, whose intermediate results are computed again in backward instead of kept."""
    if use_reentrant is None:
        warn("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. It is taken to be True; False is the better of the two: gradients also "
             "reach what the function uses without being given it, and keyword arguments work")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve, *args)
    if not rl.is_grad_enabled():
        return function(*args, **kwargs)
    return _checkpoint_without_reentry(function, preserve, context_fn, determinism_check, early_stop, args, kwargs)


def checkpoint_sequential(functions, segments: int, input, use_reentrant: bool | None = None, **kwargs):
    """A sequence of modules, cut into segments that are checkpointed, except the last."""
    if use_reentrant is None:
        warn("torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly.")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    functions = list(functions.children()) if isinstance(functions, rl.nn.Sequential) else list(functions)

    def part(start: int, end: int):
        def run(value):
            for function in functions[start:end]:
                value = function(value)
            return value
        return run

    size, start = len(functions) // segments, 0
    for start_ in range(0, size * (segments - 1), size) if size else ():
        input = checkpoint(part(start_, start_ + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
        start = start_ + size
    return part(start, len(functions))(input)
