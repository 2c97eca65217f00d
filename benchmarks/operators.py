"""Every operator beside torch: `python benchmarks/operators.py [NAME ...] [--sizes 3] [--threads N] [--seconds 0.03] [--best] [--cpu]`.

The operators are those of torch's database. Unary, binary and reducing ones get tensors of 1 K, 64 K and 1 M elements; those in ARGUMENTS the arguments
given there, at three sizes; the rest the largest sample of the database, at one. Prints our time over torch's, the slowest last, and the geometric mean.
Rows above 2 that have a reason are in EXPECTED.
"""
from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
import warnings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "conformance"))

COUNTS = (1 << 10, 1 << 16, 1 << 20)
EXPECTED: dict[str, str] = {}               # name: why


def square(n): return torch.randn(n, n)
def positive(n):
    x = square(n)
    return x @ x.T + n * torch.eye(n)


def image(n, c=16): return torch.randn(2, c, n, n)
def volume(n, c=4): return torch.randn(1, c, n, n, n)
def labels(n, classes): return torch.randint(0, classes, (n,))
def vector(n): return torch.randn(n)
def rows(n): return torch.randn(max(n // 256, 1), 256)


MATRIX, IMAGE, SIGNAL, VOLUME, LENGTH = (16, 64, 256), (8, 32, 96), (32, 256, 2048), (4, 12, 24), (1 << 10, 1 << 14, 1 << 18)
# names: (sizes, arguments for a size). Arguments after a dict are keywords.
ARGUMENTS = {
    "matmul mm __rmatmul__": (MATRIX, lambda n: [square(n), square(n)]), "bmm": (MATRIX, lambda n: [torch.randn(4, n, n), torch.randn(4, n, n)]),
    "addmm": (MATRIX, lambda n: [square(n), square(n), square(n)]), "mv": (MATRIX, lambda n: [square(n), vector(n)]),
    "dot vdot inner linalg.vecdot": (LENGTH, lambda n: [vector(n), vector(n)]), "outer": (MATRIX, lambda n: [vector(n), vector(n)]),
    "linalg.cholesky cholesky linalg.cholesky_ex linalg.eigh linalg.eigvalsh linalg.inv linalg.inv_ex linalg.det linalg.slogdet logdet": (MATRIX, lambda n: [positive(n)]),
    "linalg.svd svd linalg.svdvals linalg.qr qr linalg.lu_factor linalg.lu linalg.pinv matrix_exp linalg.eig linalg.eigvals geqrf": ((8, 32, 96), lambda n: [square(n)]),
    "linalg.solve linalg.solve_ex linalg.lstsq": (MATRIX, lambda n: [positive(n), square(n)]), "linalg.solve_triangular": (MATRIX, lambda n: [positive(n).triu(), square(n), {"upper": True}]),
    "fft.fft fft.ifft fft.rfft fft.hfft fft.ihfft": (LENGTH, lambda n: [vector(n)]), "fft.fft2 fft.rfft2 fft.ifft2 fft.fftn": (MATRIX, lambda n: [square(n)]),
    "sort argsort msort unique median nanmedian mode": (LENGTH, lambda n: [vector(n)]), "topk": (LENGTH, lambda n: [vector(n), 32]), "kthvalue": (LENGTH, lambda n: [vector(n), 32]),
    "quantile nanquantile": (LENGTH, lambda n: [vector(n), 0.3]), "searchsorted bucketize": (LENGTH, lambda n: None),
    "cumsum cumprod logcumsumexp cummax cummin": (COUNTS, lambda n: [rows(n), 1]), "histc": (LENGTH, lambda n: [vector(n)]), "bincount": (LENGTH, lambda n: [labels(n, 100)]),
    "gather": (LENGTH, lambda n: [rows(n), 1, torch.randint(0, 256, rows(n).shape)]), "scatter_add scatter": (LENGTH, lambda n: [rows(n), 1, torch.randint(0, 256, rows(n).shape), rows(n)]),
    "index_select": (LENGTH, lambda n: [rows(n), 0, torch.randint(0, max(n // 256, 1), (max(n // 256, 1),))]),
    "index_add": (LENGTH, lambda n: [rows(n), 0, torch.randint(0, max(n // 256, 1), (max(n // 256, 1),)), rows(n)]),
    "take": (LENGTH, lambda n: [vector(n), torch.randint(0, n, (n,))]), "masked_select": (LENGTH, lambda n: [vector(n), vector(n) > 0]),
    "masked_fill": (LENGTH, lambda n: [vector(n), vector(n) > 0, 1.0]), "nonzero argwhere": (LENGTH, lambda n: [vector(n) > 0]), "where": (COUNTS, lambda n: [vector(n), vector(n) > 0, vector(n)]),
    "softmax log_softmax nn.functional.softmin": (COUNTS, lambda n: [rows(n), 1]), "nn.functional.layer_norm nn.functional.rms_norm": (COUNTS, lambda n: [rows(n), (256,)]),
    "nn.functional.normalize": (COUNTS, lambda n: [rows(n)]), "nn.functional.embedding": (LENGTH, lambda n: [torch.randn(1000, 64), torch.randint(0, 1000, (n // 64,))]),
    "nn.functional.linear": (MATRIX, lambda n: [square(n), square(n), vector(n)]),
    "nn.functional.conv1d": (SIGNAL, lambda n: [torch.randn(2, 16, n), torch.randn(32, 16, 3)]), "nn.functional.conv2d": (IMAGE, lambda n: [image(n), torch.randn(32, 16, 3, 3)]),
    "nn.functional.conv3d": (VOLUME, lambda n: [volume(n), torch.randn(8, 4, 3, 3, 3)]), "nn.functional.conv_transpose1d": (SIGNAL, lambda n: [torch.randn(2, 16, n), torch.randn(16, 32, 3)]),
    "nn.functional.conv_transpose2d": (IMAGE, lambda n: [image(n), torch.randn(16, 32, 3, 3)]), "nn.functional.conv_transpose3d": (VOLUME, lambda n: [volume(n), torch.randn(4, 8, 3, 3, 3)]),
    "nn.functional.max_pool1d nn.functional.avg_pool1d": (SIGNAL, lambda n: [torch.randn(2, 16, n), 2]),
    "nn.functional.max_pool2d nn.functional.avg_pool2d nn.functional.pixel_unshuffle nn.functional.pixel_shuffle": (IMAGE, lambda n: [image(n), 2]),
    "nn.functional.max_pool3d nn.functional.avg_pool3d": (VOLUME, lambda n: [volume(n), 2]), "nn.functional.adaptive_avg_pool1d nn.functional.adaptive_max_pool1d": (SIGNAL, lambda n: [torch.randn(2, 16, n), 8]),
    "nn.functional.adaptive_avg_pool2d nn.functional.adaptive_max_pool2d": (IMAGE, lambda n: [image(n), 4]), "nn.functional.adaptive_avg_pool3d nn.functional.adaptive_max_pool3d": (VOLUME, lambda n: [volume(n), 2]),
    "nn.functional.unfold": (IMAGE, lambda n: [image(n), 3]), "nn.functional.batch_norm": (IMAGE, lambda n: [image(n), torch.zeros(16), torch.ones(16), {"training": True}]),
    "nn.functional.group_norm": (IMAGE, lambda n: [image(n), 4]), "nn.functional.instance_norm": (IMAGE, lambda n: [image(n)]), "nn.functional.local_response_norm": (IMAGE, lambda n: [image(n), 5]),
    "nn.functional.pad/constant nn.functional.pad/reflect nn.functional.pad/circular nn.functional.pad/replicate": (IMAGE, lambda n: [image(n), (2, 2, 2, 2)]),
    "nn.functional.interpolate/nearest nn.functional.interpolate/bilinear nn.functional.interpolate/bicubic nn.functional.interpolate/area": (IMAGE, lambda n: [image(n), None, 2]),
    "nn.functional.upsample_bilinear nn.functional.upsample_nearest": (IMAGE, lambda n: [image(n), None, 2]),
    "nn.functional.grid_sample": (IMAGE, lambda n: [image(n), torch.rand(2, n, n, 2) * 2 - 1]),
    "nn.functional.scaled_dot_product_attention": ((16, 64, 256), lambda n: [torch.randn(2, 8, n, 64) for _ in range(3)]),
    "nn.functional.cross_entropy nn.functional.nll_loss nn.functional.multi_margin_loss": (LENGTH, lambda n: [rows(n), labels(max(n // 256, 1), 256)]),
    "nn.functional.mse_loss nn.functional.l1_loss nn.functional.smooth_l1_loss nn.functional.huber_loss nn.functional.kl_div nn.functional.soft_margin_loss "
    "nn.functional.poisson_nll_loss nn.functional.hinge_embedding_loss nn.functional.cosine_similarity nn.functional.pairwise_distance": (COUNTS, lambda n: [rows(n), rows(n)]),
    "nn.functional.binary_cross_entropy_with_logits": (COUNTS, lambda n: [rows(n), rows(n).sigmoid()]), "nn.functional.binary_cross_entropy": (COUNTS, lambda n: [rows(n).sigmoid(), rows(n).sigmoid()]),
    "cdist": (MATRIX, lambda n: [torch.randn(n, 16), torch.randn(n, 16)]), "nn.functional.pdist": (MATRIX, lambda n: [torch.randn(n, 16)]),
    "tril triu diag trace diagonal": (MATRIX, lambda n: [square(n)]), "flip": (COUNTS, lambda n: [rows(n), (0, 1)]), "roll": (COUNTS, lambda n: [rows(n), 3]), "cat stack hstack vstack": (COUNTS, lambda n: [[rows(n), rows(n)]]),
    "repeat tile": (COUNTS, lambda n: [rows(n), (2, 2)]), "clone contiguous": (COUNTS, lambda n: [rows(n)]), "addcmul addcdiv": (COUNTS, lambda n: [rows(n), rows(n), rows(n).abs() + 1]),
    "lerp": (COUNTS, lambda n: [rows(n), rows(n), 0.3]), "clamp": (COUNTS, lambda n: [rows(n), -1.0, 1.0]), "einsum": (MATRIX, lambda n: [[square(n), square(n)], "ij,jk->ik"]), "kron": ((4, 8, 16), lambda n: [square(n), square(n)]),
    "fill": (COUNTS, lambda n: [rows(n), 1.5]), "nn.functional.prelu": (COUNTS, lambda n: [rows(n), torch.rand(1)]), "nn.functional.threshold": (COUNTS, lambda n: [rows(n), 0.1, 20.0]),
    "linalg.lstsq/grad_oriented": (MATRIX, lambda n: [positive(n), square(n), "gelsd"]), "linalg.pinv/singular": ((8, 32, 96), lambda n: [torch.randn(n, 4), torch.randn(n, 4)]),
    **{f"mvlgamma/mvlgamma_p_{p}": (COUNTS, lambda n, p=p: [torch.rand(n) + p, p]) for p in (1, 3, 5)},
    **{f"polygamma/polygamma_n_{k}": (COUNTS, lambda n, k=k: [torch.rand(n) + 0.5, k]) for k in range(5)},
    # within their domains: outside torch answers NaN (or 0 for a place outside the volume) before it computes anything
    "special.zeta": (COUNTS, lambda n: [torch.rand(n) * 4 + 1.5, torch.rand(n) * 5 + 0.5]), "igamma igammac": (COUNTS, lambda n: [torch.rand(n) * 5 + 0.1, torch.rand(n) * 5]),
    "grid_sampler_3d": (VOLUME, lambda n: [volume(n), torch.rand(1, n, n, n, 3) * 2 - 1, 0, 0, False]),
    "special.polygamma/special_polygamma_n_0": (COUNTS, lambda n: [torch.rand(n) + 0.5, 0]),
}
BY_NAME = {name: value for names, value in ARGUMENTS.items() for name in names.split()}


def arguments_of(name, info):
    """[(size, args, kwargs)] for an entry."""
    made = BY_NAME.get(name) or BY_NAME.get(info.name)
    if made:
        out = []
        for n in made[0]:
            args = made[1](n)
            if args is None: break
            kwargs = args.pop() if isinstance(args[-1], dict) else {}
            out.append((n, args, kwargs))
        if out: return out
    kind = type(info).__name__
    if kind == "UnaryUfuncInfo":
        low, high = (d if d is not None else s * 3.0 for d, s in zip(info.domain, (-1, 1)))
        return [(n, [torch.rand(n) * (min(high, 3.0) - max(low, -3.0)) + max(low, -3.0)], {}) for n in COUNTS if info.supports_dtype(torch.float32, "cpu")]
    if kind == "BinaryUfuncInfo" and info.supports_dtype(torch.float32, "cpu"): return [(n, [rows(n), rows(n).abs() + 0.5], {}) for n in COUNTS]
    if kind == "ReductionOpInfo" and info.supports_dtype(torch.float32, "cpu"): return [(n, [rows(n)], {"dim": 1}) for n in COUNTS]
    dtype = next((d for d in (torch.float32, torch.int64, torch.bool, torch.complex64) if info.supports_dtype(d, "cpu")), None)
    samples = [] if dtype is None else list(info.sample_inputs("cpu", dtype, requires_grad=False))
    if not samples: return []
    size = lambda s: sum(t.numel() for t in flatten([s.input, s.args, s.kwargs]) if isinstance(t, torch.Tensor))
    big = max(samples, key=size)
    return [(size(big), [big.input, *big.args], big.kwargs)]


clock = time.perf_counter         # --cpu: time.process_time, which a busy machine disturbs less (honest with one thread only)


def per_call(call, budget):
    call()
    start, count = clock(), 0
    while clock() - start < budget / 6 or not count:
        call()
        count += 1
    return max(1, count)


def measured(ours, peer, budget, best):
    """Our time over torch's and both times, in alternating windows: the median of the ratios, or (`best`, for a busy machine) the ratio of the shortest."""
    n, m = per_call(ours, budget), per_call(peer, budget)
    a, b = [], []
    for _ in range(15 if best else 5):
        for calls, call, out in ((n, ours, a), (m, peer, b)):
            start = clock()
            for _ in range(calls): call()
            out.append((clock() - start) / calls)
    if best: return min(a) / min(b), min(a), min(b)
    return statistics.median(x / y for x, y in zip(a, b)), statistics.median(a), statistics.median(b)


def main():
    from harness import seconds
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--sizes", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.03, help="for each side and row")
    parser.add_argument("--best", action="store_true", help="compare the shortest of 15 windows, not the median of 5")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of the clock")
    given = parser.parse_args()
    if given.cpu:
        global clock
        clock = time.process_time
    torch.set_num_threads(given.threads)
    rl.set_num_threads(given.threads)
    warnings.simplefilter("ignore")
    table, failed = [], []
    for name, info, ours in entries():
        if given.names and name not in given.names and info.name not in given.names: continue
        try: cases = arguments_of(name, info)[:given.sizes]
        except Exception as error:          # noqa: BLE001 - torch cannot make its own sample
            failed.append((name, error))
            continue
        for size, args, kwargs in cases:
            mine, named = to_rl(args), to_rl(kwargs)
            try: row = measured(lambda: ours(*mine, **named), lambda: info.op(*args, **kwargs), given.seconds, given.best)      # noqa: B023
            except Exception as error:      # noqa: BLE001 - a row that cannot run is a row of the table
                failed.append((f"{name} {size}", error))
                continue
            table.append((row[0], f"{name} {size}", row[1], row[2]))
    table.sort()
    for ratio, name, a, b in table: print(f"{ratio:8.3f}  {name:56} {seconds(a):>11} {seconds(b):>11}" + ("" if ratio <= 2 else "  " + EXPECTED.get(name.rpartition(" ")[0], "<")))
    for name, error in failed: print(f"  failed  {name}: {type(error).__name__}: {str(error)[:90]}")
    if table:
        mean = math.exp(sum(math.log(r[0]) for r in table) / len(table))
        print(f"{len(table)} rows, geometric mean {mean:.3f}, above 2: {sum(r[0] > 2 for r in table)}, failed: {len(failed)}")


if __name__ == "__main__":
    import torch
    from bridge import flatten, to_rl
    from opdb import entries

    import rushlight as rl
    main()
