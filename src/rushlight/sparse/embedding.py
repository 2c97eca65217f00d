"""Rows of a table whose gradient is sparse, or counts each row by how often it was used."""
from __future__ import annotations

import rushlight as rl

from .. import registry
from ..autograd.function import Function
from .pattern import COO, Pattern
from .tensor import assemble, named


@named("EmbeddingBackward0")
class _Embedding(Function):
    @staticmethod
    def forward(ctx, weight, input, padding, by_frequency, sparse):
        ctx.set_materialize_grads(False)
        ctx.size, ctx.options = weight.shape, (padding, by_frequency, sparse)
        ctx.save_for_backward(input)
        return registry.find("_embedding").op.function(weight, input, padding)

    @staticmethod
    def backward(ctx, grad):
        if grad is None: return (None,) * 5
        (input,), (padding, by_frequency, sparse) = ctx.saved_tensors, ctx.options
        rows, values = input.reshape(-1).to(rl.int64), grad.reshape(-1, ctx.size[1])
        if padding >= 0:
            kept = (rows != padding).nonzero().squeeze(1)
            rows, values = rows.index_select(0, kept), values.index_select(0, kept)
        if by_frequency:
            values = values / rl.bincount(rows, minlength=ctx.size[0]).index_select(0, rows).to(values.dtype).unsqueeze(1)
        if not sparse: return rl.zeros(ctx.size, dtype=values.dtype).index_add(0, rows, values), None, None, None, None
        return assemble(Pattern(COO, ctx.size, (rows.unsqueeze(0),), coalesced=False), values), None, None, None, None


def embedding(weight, input, padding, by_frequency, sparse): return _Embedding.apply(weight, input, padding, by_frequency, sparse)
