"""The dtypes of results under autocast, for the operators of op_db (in CI every fourth): torch's, whichever of its lists the operator is on."""
import warnings

import pytest

torch = pytest.importorskip("torch")
autocasts = pytest.importorskip("autocasts")

from opdb import entries, sampled  # noqa: E402

PART = 8
TABLE = sampled(entries())
# masked.prod: torch takes its float32 product only where the mask leaves one dimension. embedding: sparse gradients are refused with or without autocast.
# linear_cross_entropy in chunks: torch gives the dtype of the input or float32 by how many rows a chunk has.
LEFT_OUT = {"masked.prod", "nn.functional.embedding", "nn.functional.linear_cross_entropy/chunked", "nn.functional.linear_cross_entropy/chunked_none"}


@pytest.mark.parametrize("block", ["bfloat16", "float16"])
@pytest.mark.parametrize("first", range(0, len(TABLE), PART))
def test_dtypes(first, block):
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, info, ours in TABLE[first:first + PART]:
            if name in LEFT_OUT: continue
            for given in ("float32", "bfloat16"): found += [f"{name}: {words}" for words in autocasts.compare(info, ours, given, block, 2)]
    assert not found, "\n".join(found)
