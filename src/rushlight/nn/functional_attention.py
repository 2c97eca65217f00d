"""Attention with several heads: projections, masks and weights around `scaled_dot_product_attention`."""
from __future__ import annotations

import math

import rushlight as rl
from rushlight import Tensor


def _float_mask(mask: Tensor | None, name: str, other: Tensor | None, other_name: str, dtype) -> Tensor | None:
    """A mask as numbers to add. In a boolean mask True says: not this one."""
    if mask is None:
        return None
    if mask.dtype is not rl.bool and not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    if other is not None and mask.dtype is not other.dtype:
        from .._C import warn
        warn(f"Support for mismatched {name} and {other_name} is deprecated. Use same type for both instead.")
    if mask.is_floating_point():
        return mask
    return rl.zeros_like(mask, dtype=dtype).masked_fill_(mask, -math.inf)


def _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads) -> bool:
    """Whether the arguments have a batch dimension; AssertionErrors as torch's where they do not agree."""
    batched = query.dim() == 3
    if query.dim() not in (2, 3):
        raise AssertionError(f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor")
    word, rank = ("batched (3-D)", 3) if batched else ("unbatched (2-D)", 2)
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(f"For {word} `query`, expected `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively")
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(f"For {word} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found {key_padding_mask.dim()}-D tensor instead")
    if attn_mask is not None:
        if attn_mask.dim() not in (2, 3):
            raise AssertionError(f"For {word} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead")
        if not batched and attn_mask.dim() == 3 and tuple(attn_mask.shape) != (num_heads, query.shape[0], key.shape[0]):
            raise AssertionError(f"Expected `attn_mask` shape to be {(num_heads, query.shape[0], key.shape[0])} but got {tuple(attn_mask.shape)}")
    return batched


def _projected(query, key, value, weights, bias):
    """Query, key and value in the embedding's dimension. `weights`: one tensor with all three, or three."""
    functional = rl.nn.functional
    if isinstance(weights, Tensor):
        size = query.shape[-1]
        if query is key and key is value:
            return functional.linear(query, weights, bias).chunk(3, -1)
        weights = weights[:size], weights[size:2 * size], weights[2 * size:]
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return tuple(functional.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases))


def _check_projection(query, key, value, weights, size):
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    for name, weight in zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights):
        if weight is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name} is None")


def multi_head_attention_forward(
        query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None,
        bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Tensor | None,
        training: bool = True, key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
        use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None,
        v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
    """Attention of `num_heads` heads: (result, weights or None). Tensors are (sequence, batch, features) or without the batch.

    A True in a boolean mask means *not* to look. `is_causal` is a hint that `attn_mask` is the causal mask. `bias_k` and `bias_v` add one key and value of
    their own, `add_zero_attn` one of zeros; `static_k` and `static_v` replace the projected ones.
    """
    functional = rl.nn.functional
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask, only_causal = None, True                 # the hint alone says it all
    else:
        only_causal = False
    if not batched:
        same = query is key, key is value
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    rows, batch, embed = query.shape
    if embed != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {embed}")
    width = embed // num_heads
    if width * num_heads != embed:
        raise AssertionError(f"embed_dim {embed} not divisible by num_heads {num_heads}")
    key_padding_mask = _float_mask(key_padding_mask, "key_padding_mask", attn_mask, "attn_mask", query.dtype)
    attn_mask = _float_mask(attn_mask, "attn_mask", None, "", query.dtype)
    if use_separate_proj_weight:
        _check_projection(query, key, value, (q_proj_weight, k_proj_weight, v_proj_weight), embed)
        q, k, v = _projected(query, key, value, (q_proj_weight, k_proj_weight, v_proj_weight), in_proj_bias)
    else:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if in_proj_weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        wanted = (rows, key.shape[0]) if attn_mask.dim() == 2 else (batch * num_heads, rows, key.shape[0])
        if tuple(attn_mask.shape) != wanted:
            raise RuntimeError(f"The shape of the {attn_mask.dim()}D attn_mask is {tuple(attn_mask.shape)}, but should be {wanted}.")
    more = 0
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError(f"bias cannot be added to static {'key' if static_k is not None else 'value'}.")
        k, v = rl.cat([k, bias_k.repeat(1, batch, 1)]), rl.cat([v, bias_v.repeat(1, batch, 1)])
        more += 1
    elif bias_k is not None or bias_v is not None:
        raise AssertionError(f"bias_{'k' if bias_k is not None else 'v'} is given without the other")
    heads = lambda x: x.reshape(x.shape[0], batch * num_heads, width).transpose(0, 1)
    q = heads(q)
    k = _static(static_k, "static_k", batch * num_heads, width) if static_k is not None else heads(k)
    v = _static(static_v, "static_v", batch * num_heads, width) if static_v is not None else heads(v)
    if add_zero_attn:
        none = k.new_zeros((batch * num_heads, 1, width))
        k, v = rl.cat([k, none], 1), rl.cat([v, none], 1)
        more += 1
    columns = k.shape[1]
    if key_padding_mask is not None and tuple(key_padding_mask.shape) != (batch, columns - more):
        raise AssertionError(f"expecting key_padding_mask shape of {(batch, columns - more)}, but got {tuple(key_padding_mask.shape)}")
    mask = _merged_mask(attn_mask, key_padding_mask, more, batch, num_heads, columns)
    p = dropout_p if training else 0.0
    if need_weights:
        scores = rl.bmm(q * math.sqrt(1.0 / width), k.transpose(-2, -1))
        weights = rl.softmax(scores if mask is None else scores + mask.to(scores.dtype), -1)      # of a narrower dtype under autocast
        weights = functional.dropout(weights, p) if p > 0.0 else weights
        out = rl.bmm(weights, v)
    else:
        four = lambda x: x.view(batch, num_heads, x.shape[1], width)
        if mask is not None:
            mask = mask.unsqueeze(0) if mask.shape[0] == 1 and mask.dim() == 3 else mask.view(batch, num_heads, -1, columns)
        out = functional.scaled_dot_product_attention(four(q), four(k), four(v), mask, p, only_causal).reshape(batch * num_heads, rows, width)
    out = out.transpose(0, 1).reshape(rows * batch, embed)
    out = functional.linear(out, out_proj_weight, out_proj_bias).view(rows, batch, out_proj_weight.shape[0])
    if not need_weights:
        return (out if batched else out.squeeze(1)), None
    weights = weights.view(batch, num_heads, rows, columns)
    weights = weights.mean(1) if average_attn_weights else weights
    return (out, weights) if batched else (out.squeeze(1), weights.squeeze(0))


def _static(x, name, groups, width):
    if x.shape[0] != groups:
        raise AssertionError(f"expecting {name}.size(0) of {groups}, but got {x.shape[0]}")
    if x.shape[2] != width:
        raise AssertionError(f"expecting {name}.size(2) of {width}, but got {x.shape[2]}")
    return x


def _merged_mask(attn_mask, key_padding_mask, more, batch, num_heads, columns):
    """One mask to add, (1 or batch * heads, rows, columns); the keys that were added may be seen."""
    pad = lambda m: m if not more else rl.cat([m, m.new_zeros((*m.shape[:-1], more))], -1)
    if attn_mask is not None:
        attn_mask = pad(attn_mask if attn_mask.dim() == 3 else attn_mask.unsqueeze(0))
    if key_padding_mask is None:
        return attn_mask
    spread = pad(key_padding_mask).view(batch, 1, 1, columns).expand(-1, num_heads, -1, -1).reshape(batch * num_heads, 1, columns)
    return spread if attn_mask is None else attn_mask + spread
