"""Attention: a weighted mean of values, the weights being the softmax of how well each query fits each key."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..compiler.promotion import C_NAME
from ..registry import op
from ..samples_composite import attending
from .common import broadcast_shapes, hint, numel_of, shape_text
from .matmul import matmul


@op("_safe_softmax(Tensor self, int dim) -> Tensor", rule="float!", on="-", layout="contiguous", node="SafeSoftmaxBackward0", saves="result", out=False)
def _safe_softmax(x, dim):
    """softmax of which a row of nothing but -inf is 0, not NaN: a query that may look at no key gets no value."""
    top = T.stop(T.reduce("amax", x, (dim,)))
    e = T.prim("exp", x - T.where(T.prim("eq", top, -math.inf), 0, top))
    total = T.reduce("sum", e, (dim,))
    return e / T.where(T.prim("eq", total, 0), 1, total)


@_safe_softmax.gradient("self")
def _(grad, result, dim):
    return result * (grad - T.reduce("sum", grad * result, (dim % result.ndim,)))


def _attention_rule(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    words = [C_NAME[x.dtype] for x in (query, key, value)]
    if len(set(words)) > 1:
        raise RuntimeError(f"Expected query, key, and value to have the same dtype, but got query.dtype: {words[0]} key.dtype: {words[1]} and "
                           f"value.dtype: {words[2]} instead.")
    ranks = [x.ndim for x in (query, key, value)]
    if min(ranks) < 2:
        raise RuntimeError(f"Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: {ranks[0]} key.dim: {ranks[1]} and "
                           f"value.dim: {ranks[2]} instead.")
    if attn_mask is not None and attn_mask.dtype not in ("b1", query.dtype) and not (attn_mask.dtype == "f32" and query.dtype in T.HALF):
        raise RuntimeError("Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                           f"{C_NAME[attn_mask.dtype]} and  query.dtype: {words[0]} instead.")
    if T.is_complex(query.dtype):
        raise NotImplementedError(f"\"softmax_lastdim_kernel_impl\" not implemented for '{T.dtype_word(query.dtype)}'")
    if not T.is_float(query.dtype):
        raise RuntimeError(f"expected scalar type Float but found {T.dtype_word(query.dtype)}")
    return T.compute_dtype(query.dtype), query.dtype


def _repeated_heads(x, heads):
    """Each head of a key or value as often as it takes to face every head of the query, the repeats side by side."""
    own = x.shape[-3]
    if own == heads:
        return x
    if not heads % own == 0:
        raise RuntimeError(f"Number of heads in key and value must divide the number of heads in query: {hint(own)} and {hint(heads)}")
    lead, rest = x.shape[:-3], x.shape[-2:]
    spread = T.expand(T.reshape(x, lead + (own, 1) + rest), lead + (own, heads // own) + rest)
    return T.reshape(spread, lead + (heads,) + rest)


def _bias(attn_mask, causal, rows, columns, dtype):
    """What is added to the scores: 0 where a key may be seen, -inf where not; None when every key may."""
    bias = None
    if attn_mask is not None:
        bias = T.where(attn_mask, T.const(0, dtype), T.const(-math.inf, dtype)) if attn_mask.dtype == "b1" else T.cast(attn_mask, dtype)
    if causal:                                            # aligned at the top left: query i sees keys 0 .. i
        seen = T.prim("le", T.iota(columns, 1, 2), T.iota(rows, 0, 2))
        if bias is None:
            return T.where(seen, T.const(0, dtype), T.const(-math.inf, dtype))
        bias = T.where(seen, bias, T.const(-math.inf, dtype))
    return bias


@op("scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float! dropout_p=0.0, bool is_causal=False, *, "
    "float? scale=None, bool enable_gqa=False) -> Tensor", rule=_attention_rule, promote=("query", "key", "value"), on="F", layout="contiguous", out=False,
    node="ScaledDotProductFlashAttentionForCpuBackward0", samples=attending())
def scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa):
    """`softmax(query @ key.T * scale + mask) @ value`.

    A boolean mask says which keys a query may look at, a floating one is added to the scores; with `is_causal` query i sees the keys up to i. A query
    that may see nothing gets zeros. `scale` is 1 / sqrt(the last size of query) unless given. With `enable_gqa` there may be fewer heads
    (dimension -3) of key and value than of query: each is shared by several in a row. Dropout acts on the weights.
    """
    if not 0.0 <= dropout_p <= 1.0:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")
    if is_causal and attn_mask is not None and (query.ndim != 4 or dropout_p):
        raise RuntimeError("_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True")
    if not query.shape[-1] == key.shape[-1]:
        pairs = hint(numel_of(key.shape[:-2]))
        raise RuntimeError(f"Expected size for first two dimensions of batch2 tensor to be: [{pairs}, {hint(query.shape[-1])}] but got: [{pairs}, "
                           f"{hint(key.shape[-1])}]: the last sizes of query and key must agree")
    if not key.shape[-2] == value.shape[-2]:
        raise RuntimeError(f"scaled_dot_product_attention: key and value must have as many entries, but their shapes are {shape_text(key.shape)} and "
                           f"{shape_text(value.shape)}")
    if enable_gqa:
        key, value = _repeated_heads(key, query.shape[-3]), _repeated_heads(value, query.shape[-3])
    dtype, rows, columns = query.dtype, query.shape[-2], key.shape[-2]
    if columns == 0:
        batch = broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
        return T.expand(T.const(0, dtype), batch + (rows, value.shape[-1]))
    scale = T.cast(scale, dtype) if scale is not None else 1.0 / T.prim("sqrt", T.cast(T.size(query.shape[-1], "i64"), dtype))
    bias = _bias(attn_mask, is_causal and dropout_p, rows, columns, dtype)
    if dropout_p > 0:
        weights = _weights(query, key, scale, bias)
        keep = 1.0 - dropout_p
        kept = T.draw("bernoulli", weights.shape, "b1", T.const(keep, "f64"))
        return matmul(weights * (T.cast(kept, dtype) / keep) if keep else weights * 0, value)
    batch = broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    if bias is not None:
        broadcast_shapes(batch + (rows, columns), bias.shape)
        batch = broadcast_shapes(batch, bias.shape[:-2])
        bias = _four(bias, bias.shape[:-2] if len(batch) <= 2 else batch, bias.shape[-2:] if bias.ndim > 1 else (1,) * (2 - bias.ndim) + tuple(bias.shape))
        bias = T.expand(bias, bias.shape[:2] + (rows, columns))
    query, key, value = (_four(x, batch, x.shape[-2:]) for x in (query, key, value))
    out, _ = _attention(query, key, value, bias, scale, is_causal)
    return T.reshape(out, batch + (rows, value.shape[-1]))


def _four(x, batch, matrix):
    """x with two dimensions before its matrix; more than two are folded into the first."""
    x = T.expand(x, tuple(batch) + tuple(matrix))
    lead = (1,) * (2 - len(batch)) + tuple(batch) if len(batch) < 2 else (numel_of(batch[:-1]), batch[-1])
    return T.reshape(x, lead + tuple(matrix))


def _weights(query, key, scale, bias):
    """softmax(query @ key.T * scale + bias), all of it."""
    last = key.ndim - 1
    scores = matmul(query, T.transpose(key, last - 1, last)) * scale
    if bias is not None:
        broadcast_shapes(scores.shape, bias.shape)
        scores = scores + bias
    return _safe_softmax(scores, scores.ndim - 1)


# ----------------------------------------------------------------------------------------- without the matrix of weights
@op("_attention(Tensor query, Tensor key, Tensor value, Tensor? bias, float scale, bool causal) -> (Tensor, Tensor)", rule="keep", on="-",
    layout="contiguous", out=False, node="ScaledDotProductFlashAttentionForCpuBackward0")
def _attention(query, key, value, bias, scale, causal):
    """(result, logarithm of each row's sum of weights) of queries, keys and values [batch, head, row, feature] by one kernel that keeps a block of weights at
    a time. The bias is [batch or 1, head or 1, row, key]."""
    from ..compiler.templates import attention as flash
    batch, heads, rows, depth = query.shape
    keys, width = value.shape[-2:]
    program = T.current().graph.program
    unit_rows = program.select(program.lt(batch * heads, flash.UNITS), program.min(rows, flash.UNIT_ROWS), rows)
    row_units = program.max(program.ceildiv(rows, program.max(unit_rows, 1)), 1)
    inputs = [query, key, value, scale] + ([bias] if bias is not None else [])
    out, lse = T.native("attention_forward", [((batch, heads, rows, width), query.dtype), ((batch, heads, rows), query.dtype)], inputs,
                        [rows, keys, depth, width, heads, unit_rows, row_units], units=batch * heads * row_units,
                        scratch=flash.scratch_forward(query.dtype, depth, unit_rows), cost=_work(query, value),
                        template=(query.dtype, bias is not None, causal), strided=(0, 1, 2, 4)[:4 if bias is not None else 3])
    return out, T.stop(lse)


def _work(query, value):
    """In bytes touched: the products, each so many operations a byte."""
    batch, heads, rows, depth = query.shape
    keys, width = value.shape[-2:]
    return batch * heads * rows * keys * (depth + width) // 6


def _attention_gradient(place):
    def rule(grads, results, query, key, value, bias, scale, causal):
        if grads[0] is None:
            return None
        return _attention_backward(grads[0], query, key, value, bias, scale, T.stop(results[0]), T.stop(results[1]), causal)[place]
    return rule


for _place, _name in enumerate(("query", "key", "value")):
    _attention.gradient(_name)(_attention_gradient(_place))


@_attention.gradient("bias")
def _(grads, results, query, key, value, bias, scale, causal):
    weights = _all_weights(query, key, bias, scale, causal)
    return T.sum_to(_score_gradient(grads[0], weights, value), bias.shape)


@_attention.gradient("scale")
def _(grads, results, query, key, value, bias, scale, causal):
    return None                                          # torch takes it for a constant


def _all_weights(query, key, bias, scale, causal):
    return _weights(query, key, scale, _bias(bias, causal, query.shape[-2], key.shape[-2], query.dtype))


def _score_gradient(grad, weights, value):
    slope = matmul(grad, T.transpose(value, 2, 3))
    return weights * (slope - T.reduce("sum", slope * weights, (3,)))


@op("_attention_backward(Tensor slope, Tensor query, Tensor key, Tensor value, Tensor? bias, float scale, Tensor attended, Tensor lse, bool causal) "
    "-> (Tensor, Tensor, Tensor)", rule="keep", on="-", layout="contiguous", out=False, node="ScaledDotProductFlashAttentionForCpuBackwardBackward0")
def _attention_backward(slope, query, key, value, bias, scale, attended, lse, causal):
    """The gradients of query, key and value, given that of the result (`slope`), by one kernel; the weights are computed again, block by block."""
    from ..compiler.templates import attention as flash
    batch, heads, rows, depth = query.shape
    keys, width = value.shape[-2:]
    inputs = [slope, query, key, value, attended, lse, scale] + ([bias] if bias is not None else [])
    return tuple(T.native("attention_backward", [(x.shape, x.dtype) for x in (query, key, value)], inputs, [rows, keys, depth, width, heads],
                          units=batch * heads, scratch=flash.scratch_backward(query.dtype, depth, width, rows), cost=_work(query, value) * 2,
                          template=(query.dtype, bias is not None, causal), strided=(0, 1, 2, 3, 7)[:5 if bias is not None else 4]))


def _backward_by_definition(slope, query, key, value, bias, scale, causal):
    """The same gradients in operators that can be differentiated again."""
    weights = _all_weights(query, key, bias, scale, causal)
    inner = _score_gradient(slope, weights, value) * scale
    return matmul(inner, key), matmul(T.transpose(inner, 2, 3), query), matmul(T.transpose(weights, 2, 3), slope)


def _second_gradient(name):
    def rule(grads, slope, query, key, value, bias, scale, causal):
        from ..compiler.differentiate import gradients as derivatives
        given = {k: None if x is None else T.itself(x) for k, x in (("slope", slope), ("query", query), ("key", key), ("value", value), ("bias", bias))}
        outs = _backward_by_definition(**given, scale=scale, causal=causal)
        found = derivatives([o.node for o in outs], grads, [given[name].node])[0]
        return None if found is None else T.Sym(found)
    return rule


for _name in ("slope", "query", "key", "value", "bias"):
    _attention_backward.gradient(_name)(_second_gradient(_name))


@_attention_backward.gradient("attended", "lse", "scale")
def _(grad):
    return None                                          # parts of the definition above, not arguments of their own
