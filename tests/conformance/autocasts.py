"""What autocast makes of each operator: the dtypes of its results, here and in torch, over op_db's samples."""
from __future__ import annotations

import torch
from bridge import flatten, to_rl
from opdb import Attempt, samples_of

import rushlight as rl


def dtypes_of(result, library) -> list[str]:
    return [str(t.dtype) for t in flatten([result]) if isinstance(t, library.Tensor)]


def compare(info, ours, given: str, block: str, count: int) -> list[str]:
    """Where the dtypes under autocast(block) differ for inputs of dtype `given`, in words."""
    dtype = getattr(torch, given)
    if dtype not in info.dtypes: return []
    found = []
    for number, sample in enumerate(samples_of(info, dtype, False, count)):
        storages: dict = {}
        args, kwargs = (sample.input, *sample.args), sample.kwargs
        mine, my_kwargs = to_rl(list(args), storages), to_rl(kwargs, storages)
        torch.manual_seed(7)
        with torch.autocast("cpu", getattr(torch, block)): expected = Attempt(info.op, args, kwargs)
        if expected.error is not None: continue                      # torch has no such kernel for the narrow dtype
        rl.manual_seed(7)
        with rl.autocast("cpu", getattr(rl, block)): got = Attempt(ours, mine, my_kwargs)
        if got.error is not None: found.append(f"{given} sample {number}: {type(got.error).__name__}: {str(got.error)[:120]}")
        else:
            want, have = dtypes_of(expected.result, torch), dtypes_of(got.result, rl)
            if want != have: found.append(f"{given} sample {number}: {have}, torch has {want}")
    return found
