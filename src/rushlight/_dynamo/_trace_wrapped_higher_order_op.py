"""torch._dynamo's mode for indexing with 0-dim tensors under vmap: indexing works so anyhow, and the block changes nothing."""
import contextlib


class TransformGetItemToIndex(contextlib.nullcontext):
    pass
