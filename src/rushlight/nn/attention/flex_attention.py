"""torch.nn.attention.flex_attention: not available yet; scaled_dot_product_attention takes any mask."""
from __future__ import annotations

from typing import NamedTuple

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class BlockMask:
    """A mask by blocks."""

    def __init__(self, *args, **kwargs) -> None:
        raise NotImplementedError("flex_attention's BlockMask is not available yet; use scaled_dot_product_attention with attn_mask")


class AuxRequest(NamedTuple):
    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    lse: object = None
    max_scores: object = None


def flex_attention(*args, **kwargs):
    raise NotImplementedError("flex_attention is not available yet; use scaled_dot_product_attention with attn_mask")


def create_block_mask(*args, **kwargs):
    raise NotImplementedError("create_block_mask is not available yet; use scaled_dot_product_attention with attn_mask")


create_mask = create_nested_block_mask = or_masks = and_masks = noop_mask = flex_attention
