"""Sparse tensors beside torch's, one thread, both in one process in turn: a matrix of 10,000 x 10,000 with 100,000 elements, 64 dense columns.

    python benchmarks/sparse.py [NAME ...]           names of rows to run; all without
"""
import sys
import time
import warnings

import numpy as np
import torch

import rushlight as rl

SIZE, STORED, COLUMNS, TIMES = 10_000, 100_000, 64, 15


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
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rl.set_num_threads(1)
    theirs, ours = rows(torch), rows(rl)
    for name in theirs:
        if sys.argv[1:] and name not in sys.argv[1:]: continue
        best = [float("inf")] * 2
        for _ in range(TIMES):
            for k, function in enumerate((theirs[name], ours[name])):
                start = time.perf_counter()
                function()
                best[k] = min(best[k], time.perf_counter() - start)
        print(f"{name:24s} torch {best[0] * 1e3:8.2f} ms   rushlight {best[1] * 1e3:8.2f} ms   torch/rushlight {best[0] / best[1]:5.2f}", flush=True)


if __name__ == "__main__": main()
