"""Sparse tensors beside torch's, one thread: `python benchmarks/sparse.py [--only TEXT] [--cpu] [--best]`. A matrix of 10,000 x 10,000 with 100,000 elements, 64 dense columns."""
import argparse
import warnings

import harness
import numpy as np
import torch

import rushlight as rl

SIZE, STORED, COLUMNS = 10_000, 100_000, 64


def rows(m):
    """name -> function, for torch or rushlight."""
    rng = np.random.default_rng(0)
    places = m.from_numpy(np.stack([np.sort(rng.integers(0, SIZE, STORED)), rng.integers(0, SIZE, STORED)]))
    values, dense = (m.from_numpy(rng.standard_normal(shape).astype("float32")) for shape in (STORED, (SIZE, COLUMNS)))
    coo = m.sparse_coo_tensor(places, values, (SIZE, SIZE)).coalesce()
    csr, turned, backwards = coo.to_sparse_csr(), dense.t().contiguous(), places.flip(1)
    weight, leaf = dense.clone().requires_grad_(), coo.to_sparse_csr().detach().requires_grad_()
    return {
        "coo mm": lambda: m.sparse.mm(coo, dense), "csr mm": lambda: m.sparse.mm(csr, dense), "csr mv": lambda: csr @ dense[:, 0],
        "csr mm, dense gradient": lambda: m.autograd.grad(m.sparse.mm(csr, weight), (weight,), dense),
        "csr mm, both gradients": lambda: m.autograd.grad(m.sparse.mm(leaf, weight), (leaf, weight), dense),
        "reduce mean": lambda: m.sparse.mm(csr, dense, "mean"), "reduce amax": lambda: m.sparse.mm(csr, dense, "amax"),
        "sampled_addmm": lambda: m.sparse.sampled_addmm(csr, dense, turned), "csr @ csr": lambda: csr @ csr, "coo + coo": lambda: coo + coo.t().coalesce(),
        "coalesce": lambda: m.sparse_coo_tensor(backwards, values, (SIZE, SIZE)).coalesce(), "to_sparse_csr": lambda: coo.to_sparse_csr(),
        "softmax": lambda: m.sparse.softmax(coo, 1), "sum": lambda: m.sparse.sum(coo, 1),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of the clock: for a busy machine")
    parser.add_argument("--best", action="store_true", help="the fastest windows instead of the median: for a busy machine")
    given = parser.parse_args()
    if given.cpu: harness.clock = harness.time.process_time
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rl.set_num_threads(1)
    peer, ours = rows(torch), rows(rl)
    table = harness.Table(given.only, given.best)
    table.section(f"sparse: {SIZE}x{SIZE} with {STORED} elements, {COLUMNS} dense columns")
    for name in peer: table.bench(name, ours[name], peer[name])


if __name__ == "__main__": main()
