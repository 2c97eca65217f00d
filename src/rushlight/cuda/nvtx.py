"""torch.cuda.nvtx: marks for NVIDIA's profiler. There is none to see them."""
import contextlib


def range_push(msg) -> int: return 0
def range_pop() -> int: return 0
def mark(msg) -> None: pass
def range(msg, *args, **kwargs): return contextlib.nullcontext()
