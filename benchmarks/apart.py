"""Matrix products with several threads, each library in a process of its own: `python benchmarks/apart.py [--threads N]`, or `run.py gemm --threads N`.

In one process the idle threads of one library spin on the cores that the other needs, and its sleeping threads wake late: windows that alternate within milliseconds measure that.
Here the processes alternate, and each is warm when it is measured. The figure is the median over the rounds of our time over torch's.
"""
from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

ROUNDS = 11


def cases():
    return [(n, left, right) for n in (64, 128, 256, 512, 1024) for left in (False, True) for right in (False, True)]


def name(n, left, right):
    return f"{n}^3 {'T' if left else 'N'}{'T' if right else 'N'}"


def measure(library, threads):
    """In the child: seconds of each product, the median of windows of at least 10 ms after as much warming up."""
    import importlib
    m = importlib.import_module(library)
    m.set_num_threads(threads)
    m.manual_seed(0)
    out = {}
    for n, left, right in cases():
        a, b = m.randn(n, n), m.randn(n, n)
        a, b = a.t() if left else a, b.t() if right else b
        for _ in range(3): a @ b
        start = time.perf_counter()
        a @ b
        count = max(1, int(0.01 / max(time.perf_counter() - start, 1e-6)))
        windows = []
        for _ in range(9):
            start = time.perf_counter()
            for _ in range(count): a @ b
            windows.append((time.perf_counter() - start) / count)
        out[name(n, left, right)] = statistics.median(windows[2:])
    return out


def gemm(table, threads, limit):
    """Rows for a harness.Table."""
    rounds = {"rushlight": [], "torch": []}
    for _ in range(ROUNDS):
        for library, seen in rounds.items():
            answer = subprocess.run([sys.executable, __file__, "--child", library, "--threads", str(threads)], capture_output=True, text=True, check=True)
            seen.append(json.loads(answer.stdout.splitlines()[-1]))
    table.section(f"gemm f32, {threads} threads, each library in its own process")
    for case in cases():
        ours, peer = ([seen[name(*case)] for seen in rounds[library]] for library in rounds)
        table.add(name(*case), statistics.median(ours), statistics.median(peer), limit, statistics.median(x / y for x, y in zip(ours, peer)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--child")
    given = parser.parse_args()
    if given.child: print(json.dumps(measure(given.child, given.threads)))
    else:
        from harness import Table
        table = Table()
        gemm(table, given.threads, 1.05)
        table.summary()
