"""The dtypes of results under autocast, for the operators of op_db (in CI every fourth): torch's, whichever of its lists the operator is on."""
import itertools

import pytest

torch = pytest.importorskip("torch")
autocasts = pytest.importorskip("autocasts")

from opdb import entries  # noqa: E402
from operators import WHOLE  # noqa: E402
from parts import over_entries  # noqa: E402

# masked.prod: torch takes its float32 product only where the mask leaves one dimension.
# linear_cross_entropy in chunks: torch gives the dtype of the input or float32 by how many rows a chunk has.
LEFT_OUT = {"masked.prod", "nn.functional.linear_cross_entropy/chunked", "nn.functional.linear_cross_entropy/chunked_none"}


# Every dtype with every block; without RUSHLIGHT_WHOLE=1 an entry meets both dtypes and both blocks, in one of the two ways to pair them.
PAIRS = list(itertools.product(("float32", "bfloat16"), ("bfloat16", "float16")))


@over_entries([e for e in entries() if e[0] not in LEFT_OUT])
def test_dtypes(name, info, ours):
    pairs = PAIRS if WHOLE else PAIRS[::3] if len(name) % 2 else PAIRS[1:3]
    return [f"autocast({block}): {words}" for given, block in pairs for words in autocasts.compare(info, ours, given, block, 2)]
