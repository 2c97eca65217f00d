"""One tensor whose element count and byte offsets do not fit in 32 bits."""
import os

import pytest

import rushlight as rl

COUNT = (1 << 31) + 5


def free_bytes():
    """Memory that can be had without swapping; 0 where that cannot be asked."""
    try:
        with open("/proc/meminfo") as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 0


# Two such tensors and a result of a few bytes live at once; below that much free memory the machine would swap, or kill us.
@pytest.mark.skipif(free_bytes() < 6 * 10**9 and os.environ.get("RUSHLIGHT_LARGE_TESTS") != "1", reason="needs 6 GB of free memory, or RUSHLIGHT_LARGE_TESTS=1")
def test_more_than_two_to_the_31_elements():
    x = rl.zeros(COUNT, dtype=rl.int8)
    try:
        assert x.numel() == COUNT and x.nbytes == COUNT
        x[-1] = 7
        x[1 << 31] = 5
        x[0] = 1
        assert x[-3:].tolist() == [0, 0, 7] and x[(1 << 31) - 1:(1 << 31) + 2].tolist() == [0, 5, 0]
        assert x.sum().item() == 13                                     # every element is read, once
        assert x.argmax().item() == COUNT - 1 and x.view(-1, 1).shape == (COUNT, 1)
        x.add_(1)
        assert x[-1].item() == 8 and x[1 << 31].item() == 6 and x[12345].item() == 1
        y = x + x                                                       # a result as large
        assert y[-1].item() == 16 and y[1 << 31].item() == 12 and y[0].item() == 4
        del y
        strided = x[1::2]
        assert strided.numel() == COUNT // 2 and strided.storage_offset() == 1 and strided[-1].item() == x[COUNT - 2].item()
        index = rl.tensor([0, 1 << 31, COUNT - 1, -1])
        assert x[index].tolist() == [2, 6, 8, 8]
        with pytest.raises(IndexError, match=f"index {COUNT} is out of bounds for dimension 0 with size {COUNT}"):
            x[COUNT]
        assert x.expand(2, COUNT)[1, -1].item() == 8                    # more elements than memory
    finally:
        del x
        rl._C.empty_cache()
