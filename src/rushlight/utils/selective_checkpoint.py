"""Selective checkpointing: some results of a checkpointed part are kept, so that computing the part again does not run their operators again.

A policy looks at every call of the part, as torch's does at the operators below autograd. What a kept call saved for backward is still not kept, where it is an argument
or the result: running again passes those over in the same order, from the arguments it has computed again and the result that it has.
"""
from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable

import rushlight as rl
from rushlight import Tensor
from rushlight._ops import OpOverload, ops
from rushlight.overrides import TorchFunctionMode

from . import _pytree

__all__ = ["CheckpointPolicy", "SAC_IGNORED_OPS", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """What a policy answers. There is no compiler that could take "prefer" as less than "must", and what is kept is on the CPU already."""

    MUST_SAVE, PREFER_SAVE, MUST_RECOMPUTE, PREFER_RECOMPUTE, MUST_CPU_OFFLOAD, PREFER_CPU_OFFLOAD = range(6)


_KEPT = (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD)
SAC_IGNORED_OPS = {getattr(ops.aten, name) for name in ("detach", "size", "stride", "storage_offset", "numel", "dim", "is_contiguous")}


class SelectiveCheckpointContext:
    """What a policy is told about the call: whether this is the second run; its result, where there is one."""

    def __init__(self, *, is_recompute: bool, op_output=None) -> None: self.is_recompute, self.op_output = is_recompute, op_output


def _operator(function, args: tuple, kwargs: dict) -> OpOverload:
    """The operator of torch.ops.aten that a call comes down to: policies are written with those."""
    name = getattr(function, "__name__", "")
    if name == "matmul":
        ranks = tuple(value.dim() for value in (*args, *kwargs.values())[:2])
        name = {(1, 1): "dot", (2, 1): "mv", (2, 2): "mm", (1, 2): "mm"}.get(ranks, "bmm")
    elif name == "linear":
        name = "mm" if len(args) < 3 and kwargs.get("bias") is None else "addmm"
    elif name in ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"):
        name = "convolution"
    elif name == "scaled_dot_product_attention":
        name = "_scaled_dot_product_flash_attention_for_cpu"
    elif name == "__getitem__":
        index = args[1] if isinstance(args[1], tuple) else (args[1],)
        name = "index" if any(isinstance(i, (Tensor, list)) for i in index) else "slice"
    return getattr(ops.aten, name)


def _same_memory(a: Tensor, b: Tensor) -> bool:
    return a is b or a.layout is b.layout is rl.strided and (a.data_ptr(), a.dtype, a.shape, a.stride()) == (b.data_ptr(), b.dtype, b.shape, b.stride())


class _Kept:
    """The result of one call, and what the call saved for backward: the place of an argument or of a result, or a tensor that is neither."""

    def __init__(self, result, arguments: list, saved: list[Tensor]) -> None:
        leaves, self.structure = _pytree.tree_flatten(result)
        self.leaves = [(leaf.detach(), leaf._version, leaf.requires_grad) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        known = [*arguments, *leaves]
        self.saved = [next((i for i, value in enumerate(known) if isinstance(value, Tensor) and _same_memory(value, tensor)), tensor) for tensor in saved]

    def again(self, arguments: list, pack: Callable, allow_mutation: bool):
        leaves = []
        for leaf in self.leaves:
            if isinstance(leaf, tuple):
                value, version, requires_grad = leaf
                if value._version != version and not allow_mutation:
                    raise RuntimeError("Tensor cached during selective activation checkpoint has been mutated")
                leaf = value.detach().requires_grad_(requires_grad)
            leaves.append(leaf)
        known = [*arguments, *leaves]
        for place in self.saved: pack(known[place] if isinstance(place, int) else place)
        return self.structure.unflatten(leaves)


class _Selecting(TorchFunctionMode):
    """The first run notes what the policy keeps; the second takes it from there. checkpoint() says whose run it is (`part`)."""

    def __init__(self, policy: Callable, notes: defaultdict, allow_mutation: bool, is_recompute: bool) -> None:
        self.policy, self.notes, self.allow_mutation, self.is_recompute, self.part = policy, notes, allow_mutation, is_recompute, None

    def __enter__(self):
        self.taken: defaultdict = defaultdict(int)
        return super().__enter__()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        # A call that writes its arguments is always repeated: nothing else would write them. Python's own methods (__setitem__, __len__) are no operators.
        if name.endswith("_") and name != "__getitem__" or "out" in kwargs or kwargs.get("inplace") or self.part is None: return func(*args, **kwargs)
        operator = _operator(func, args, kwargs)
        if operator in SAC_IGNORED_OPS: return func(*args, **kwargs)
        answer = self.policy(SelectiveCheckpointContext(is_recompute=self.is_recompute), operator, *args, **kwargs)
        if isinstance(answer, bool): answer = CheckpointPolicy.MUST_SAVE if answer else CheckpointPolicy.PREFER_RECOMPUTE
        if answer not in _KEPT: return func(*args, **kwargs)
        arguments, notes = _pytree.tree_flatten((args, kwargs))[0], self.notes[operator]
        if not self.is_recompute:
            with self.part.watched() as saved: result = func(*args, **kwargs)
            notes.append(_Kept(result, arguments, saved))
            return result
        index = self.taken[operator]
        self.taken[operator] += 1
        if index >= len(notes): raise RuntimeError(f"{operator} encountered during backward, but not found in storage: the policy answered otherwise in forward")
        return notes[index].again(arguments, self.part.pack_again, self.allow_mutation)


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation: bool = False) -> tuple:
    """For checkpoint(context_fn=): keep the results of some operators, by a list of them or by `policy(context, operator, *args, **kwargs) -> CheckpointPolicy`.

    >>> keep = functools.partial(create_selective_checkpoint_contexts, [rushlight.ops.aten.mm.default])
    >>> y = checkpoint(block, x, use_reentrant=False, context_fn=keep)
    """
    if isinstance(policy_fn_or_list, list):
        for operator in policy_fn_or_list:
            if not isinstance(operator, OpOverload): raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {operator} of type {type(operator)}.")
        listed = set(policy_fn_or_list)
        def policy(context, operator, *args, **kwargs): return operator in listed
    elif callable(policy_fn_or_list): policy = policy_fn_or_list
    else: raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    notes: defaultdict = defaultdict(list)
    return tuple(_Selecting(policy, notes, allow_cache_entry_mutation, again) for again in (False, True))
