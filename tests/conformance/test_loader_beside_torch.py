"""Worker processes draw torch's numbers: the order of batches, and what a dataset draws from torch, `random` and numpy."""
import random

import numpy
import pytest
import torch

import rushlight as rl


class Draws:
    """A dataset of draws; `module` is the library whose generator it uses."""
    def __init__(self, module): self.module = module
    def __len__(self): return 12
    def __getitem__(self, i): return [float(i), float(self.module.rand(1)), random.random(), float(numpy.random.rand())]


def passes(module, **options):
    module.manual_seed(3)
    loader = module.utils.data.DataLoader(Draws(module), batch_size=2, collate_fn=list, shuffle=True, num_workers=2, **options)
    seen = []
    for stop in (None, 1, None):                     # the second pass is left half-way
        seen.append([])
        for k, batch in enumerate(loader):
            seen[-1].append(batch)
            if k == stop: break
    return seen


@pytest.mark.parametrize("persistent", [False, True])
def test_same_draws(persistent):
    ours, theirs = passes(rl, persistent_workers=persistent), passes(torch, persistent_workers=persistent)
    if persistent:                                   # how far a worker was ahead when the pass was left is a race: compare the order only
        for side in (ours, theirs): side[2] = [[sample[0] for sample in batch] for batch in side[2]]
    assert ours == theirs
