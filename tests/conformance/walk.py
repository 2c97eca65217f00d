"""Walk torch's operator database: each operator's samples run here and in torch: values, layouts, gradients, forms, bad input.

    python tests/conformance/walk.py [NAME ...] [--dtypes float32,int64] [--limit N] [--verbose] [--part 0/2]

prints one line per operator that differs and a summary. NAME may be an entry (`max/reduction_with_dim`), an operator (`max`) or a file of names
(`@list.txt`). Operators that rushlight does not have are counted, not shown. `--part k/n` takes every n-th entry, for several processes.
"""
from __future__ import annotations

import argparse
import os
import sys
import time
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
from opdb import check_operator, entries  # noqa: E402


def chosen(names):
    wanted = []
    for n in names:
        if n.startswith("@"):
            with open(n[1:]) as lines: wanted += lines.read().split()
        else: wanted.append(n)
    return [e for e in entries() if not wanted or e[0] in wanted or e[1].name in wanted]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--limit", type=int, help="samples of one operator and dtype")
    parser.add_argument("--seconds", type=int, default=2, help="samples differentiated twice")
    parser.add_argument("--forms", type=int, default=3, help="samples tried in place and with out=")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    dtypes = [getattr(torch, n) for n in given.dtypes.split(",")]
    part, parts = map(int, given.part.split("/"))
    passed = failed = samples = 0
    for name, info, ours in chosen(given.names)[part::parts]:
        start = time.perf_counter()
        count, found = check_operator(info, ours, dtypes, given.limit, given.seconds, given.forms)
        samples += count
        passed += not found
        failed += bool(found)
        if found:
            kinds = {}
            for dtype, i, kind, words in found: kinds.setdefault(kind, []).append(f"{dtype} sample {i}: {words}")
            print(f"{name} ({count} samples, {time.perf_counter() - start:.1f} s)")
            for kind, words in kinds.items():
                for w in words[:10 if given.verbose else 1]: print(f"    {kind} ({len(words)}): {w}")
            sys.stdout.flush()
    absent = len(torch.testing._internal.common_methods_invocations.op_db) - len(entries())
    print(f"{passed} entries agree, {failed} differ; rushlight lacks {absent}; {samples} samples")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
