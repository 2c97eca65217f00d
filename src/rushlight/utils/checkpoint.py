"""Checkpointing: a part of the network keeps only its inputs, and computes the rest again when backward comes by.

`use_reentrant=False` (torch's recommendation) gives gradients to everything the part used: it is found by running the part once with the tape on and reading
its leaves off the graph, which is then dropped. `use_reentrant=True` computes gradients of the inputs, and of parameters through their `.grad`.
"""
from __future__ import annotations

import contextlib
import warnings

import rushlight as rl
from rushlight import Tensor
from rushlight.autograd import Function

from . import _pytree

__all__ = ["checkpoint", "checkpoint_sequential", "CheckpointFunction", "check_backward_validity", "detach_variable", "get_device_states", "set_device_states",
           "noop_context_fn", "set_checkpoint_early_stop", "CheckpointPolicy", "DefaultDeviceType"]


class DefaultDeviceType:
    """The kind of device whose generators are kept besides the CPU's: none."""

    @staticmethod
    def set_device_type(device: str = "cuda") -> None: pass
    @staticmethod
    def get_device_type() -> str: return "cuda"


class CheckpointPolicy:
    """What to keep; without effect, since nothing but the inputs is kept."""

    MUST_SAVE, PREFER_SAVE, MUST_RECOMPUTE, PREFER_RECOMPUTE = range(4)


def detach_variable(inputs: tuple) -> tuple:
    """The inputs as new leaves."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(value.detach().requires_grad_(value.requires_grad) if isinstance(value, Tensor) else value for value in inputs)


def check_backward_validity(inputs) -> None:
    if not any(value.requires_grad for value in inputs if isinstance(value, Tensor)):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


def get_device_states(*args) -> tuple[list, list]: return [], []
def set_device_states(devices, states, *, device_type=None) -> None: pass
def noop_context_fn(): return contextlib.nullcontext(), contextlib.nullcontext()
def set_checkpoint_early_stop(enable: bool): return contextlib.nullcontext()
def set_checkpoint_debug_enabled(enabled): return contextlib.nullcontext()


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


def _leaves_of(tensors: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    """The leaves that the tensors were computed from, besides the inputs."""
    known, found, seen = {id(t) for t in inputs}, [], set()
    stack = [t.grad_fn for t in tensors if t.grad_fn is not None]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, Tensor):
            if id(leaf) not in known:
                known.add(id(leaf))
                found.append(leaf)
        else:
            stack += [edge[0] for edge in node.next_functions]
    return found


class _Recomputed(Function):
    """The other kind: `apply(run, surroundings, count of outputs …, *tensors)` where `run(tensors)` gives the outputs anew."""

    @staticmethod
    def forward(ctx, run, surroundings, outputs, contexts, *tensors):
        ctx.run, ctx.surroundings, ctx.contexts, ctx.wanted = run, surroundings, contexts, [t.requires_grad for t in tensors]
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        return tuple(out.detach() for out in outputs)

    @staticmethod
    def backward(ctx, *gradients):
        tensors = ctx.saved_tensors
        # Inputs become leaves of the second graph; parameters, the tensors themselves, keep their identity inside the part.
        create = rl.is_grad_enabled()
        with rl.enable_grad(), ctx.surroundings.again(), ctx.contexts[1]:
            inner, outputs = ctx.run(tensors, create)
        pairs = [(out, grad) for out, grad in zip(outputs, gradients) if grad is not None and out.requires_grad]
        wanted = [t for t, is_wanted in zip(inner, ctx.wanted) if is_wanted]
        found = iter(rl.autograd.grad([out for out, _ in pairs], wanted, [grad for _, grad in pairs], allow_unused=True, create_graph=create)
                     if pairs else [None] * len(wanted))
        return None, None, None, None, *(next(found) if is_wanted else None for is_wanted in ctx.wanted)


def _checkpoint_without_reentry(function, preserve: bool, context_fn, args, kwargs):
    surroundings = _Surroundings(preserve)
    contexts = context_fn()
    leaves, structure = _pytree.tree_flatten((args, kwargs))
    places = [i for i, value in enumerate(leaves) if isinstance(value, Tensor)]
    constants = [None if isinstance(value, Tensor) else value for value in leaves]
    inputs = [leaves[i] for i in places]

    def call(tensors):
        values = list(constants)
        for place, tensor in zip(places, tensors):
            values[place] = tensor
        given, named = structure.unflatten(values)
        return function(*given, **named)

    fresh = [t.detach().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t for t in inputs]
    with contexts[0]:
        result = call(fresh)
    flat, result_structure = _pytree.tree_flatten(result)
    out_places = [i for i, value in enumerate(flat) if isinstance(value, Tensor) and value.requires_grad]
    if not out_places:
        return result
    outputs = [flat[i] for i in out_places]
    parameters = _leaves_of(outputs, fresh)

    def run(tensors, create: bool):
        """The part once more: (the tensors it was computed from, its outputs)."""
        given = tensors[:len(inputs)]
        inner = list(given) if create else [t.detach().requires_grad_(t.requires_grad) for t in given]
        again = _pytree.tree_leaves(call(inner))
        return [*inner, *parameters], [again[i] for i in out_places]

    new = _Recomputed.apply(run, surroundings, outputs, contexts, *inputs, *parameters)
    for place, value in zip(out_places, new if isinstance(new, tuple) else (new,)):
        flat[place] = value
    return result_structure.unflatten(flat)


def checkpoint(function, *args, use_reentrant: bool | None = None, context_fn=noop_context_fn, determinism_check: str = "default", debug: bool = False,
               early_stop: bool = True, **kwargs):
    """`function(*args)`, whose intermediate results are computed again in backward instead of kept."""
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in PyTorch 2.9, calling checkpoint without "
                      "use_reentrant will raise an exception. use_reentrant=False is recommended, but if you need to preserve the current default behavior, "
                      "you can pass use_reentrant=True. Refer to docs for more details on the differences between the two variants.", stacklevel=2)
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
    return _checkpoint_without_reentry(function, preserve, context_fn, args, kwargs)


def checkpoint_sequential(functions, segments: int, input, use_reentrant: bool | None = None, **kwargs):
    """A sequence of modules, cut into segments that are checkpointed, except the last."""
    if use_reentrant is None:
        warnings.warn("torch.utils.checkpoint.checkpoint_sequential: the use_reentrant parameter should be passed explicitly.", stacklevel=2)
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
