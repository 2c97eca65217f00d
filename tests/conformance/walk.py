"""Walk torch's operator database: each operator's samples run here and in torch: values, layouts, gradients, tangents, forms, bad input.

    python tests/conformance/walk.py [NAME ...] [--dtypes float32,int64] [--limit N] [--verbose] [--part 0/2] [--jobs 2]

prints what differs, operator by operator, and a summary: how many operators pass each kind of check, how many samples ran and kernels were compiled, and
everything that does not pass by name, with the reason that `known.py` lists for it. NAME may be an entry (`max/reduction_with_dim`), an operator (`max`) or a file of names
(`@list.txt`). `--part k/n` takes every n-th entry. `--record FILE` keeps results as they come: a walk that was stopped goes on where it was, several
walks that share one file add up, and an entry whose line is taken out is run again. With `--jobs` the entries run in worker processes: a crash, or an entry that takes longer than
`--timeout` seconds, is one failed operator. `--full` is the whole walk: every sample of five dtypes, in two workers.
"""
from __future__ import annotations

import argparse
import json
import os
import queue
import subprocess
import sys
import threading
import time
import warnings

from rushlight.compiler import jit

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

FULL = "float32,int64,bool,complex64,bfloat16"
# What torch's own tests do not count as public operators: test-only kernels, entries of torch.ops, names that begin with an underscore.
PRIVATE = ("jiterator", "torch.")
GROUPS = {"forward": ("call", "value"), "gradient": ("gradient", "gradgrad"), "tangent": ("tangent",), "strides": ("strides",), "variants": ("inplace", "out"),
          "errors": ("error",), "words": ("words",), "warnings": ("warning",)}


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtypes", default=None)
    parser.add_argument("--limit", type=int, help="samples of one operator and dtype")
    parser.add_argument("--seconds", type=int, default=2, help="samples differentiated twice, and forwards")
    parser.add_argument("--forms", type=int, default=3, help="samples tried in place and with out=")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--jobs", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--record", help="a file that keeps each entry's result as a line of JSON; entries it has already are not run again")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.dtypes = given.dtypes or (FULL if given.full else "float32")
    if given.full and not given.jobs: given.jobs = 2
    return given


def public(name): return not name.startswith(PRIVATE) and (not name.startswith("_") or name.startswith("__"))


def wanted_names(names):
    for n in names:
        if n.startswith("@"):
            with open(n[1:]) as lines: yield from lines.read().split()
        else: yield n


def check(entry, given):
    import torch
    from opdb import check_operator
    name, info, ours = entry
    warnings.simplefilter("ignore")
    dtypes = [getattr(torch, n) for n in given.dtypes.split(",")]
    start, compiled, compiling = time.perf_counter(), jit.times["count"], compile_seconds()
    count, found = check_operator(info, ours, dtypes, given.limit, given.seconds, given.forms)
    return {"name": name, "samples": count, "seconds": round(time.perf_counter() - start, 2), "kernels": jit.times["count"] - compiled,
            "compiling": round(compile_seconds() - compiling, 2), "found": [list(f) for f in found]}


def compile_seconds(): return sum(seconds for name, seconds in jit.times.items() if name != "count")


# --------------------------------------------------------------------------------------------------------------- workers
def serve(given):
    """A worker: entries by name on standard input, one line of JSON for each on standard output."""
    from opdb import entries
    table = {e[0]: e for e in entries()}
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)                                     # whatever prints goes to the errors
    for line in sys.stdin: print(json.dumps(check(table[line.strip()], given)), file=answers, flush=True)


class Worker:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, __file__, "--worker", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)

    def ask(self, name, timeout):
        timer = threading.Timer(timeout, self.process.kill)
        timer.start()
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError: answer = ""
        finally: timer.cancel()
        if answer: return json.loads(answer)
        code = self.process.wait()
        return {"name": name, "samples": 0, "seconds": 0, "found": [["", None, "call", f"the process died with exit code {code}"]]}


def in_workers(chosen, given):
    todo, done = queue.Queue(), queue.Queue()
    for e in chosen: todo.put(e[0])

    def run():
        worker = Worker()
        while True:
            try: name = todo.get_nowait()
            except queue.Empty: break
            done.put(worker.ask(name, given.timeout))
            if worker.process.poll() is not None: worker = Worker()
        worker.process.stdin.close()
        worker.process.wait()
    for _ in range(given.jobs): threading.Thread(target=run, daemon=True).start()
    for _ in chosen: yield done.get()


# --------------------------------------------------------------------------------------------------------------- report
def show(result, verbose):
    kinds = {}
    for dtype, i, kind, words in result["found"]: kinds.setdefault(kind, []).append(f"{dtype} sample {i}: {words}")
    print(f"{result['name']} ({result['samples']} samples, {result['seconds']:.1f} s)")
    for kind, words in kinds.items():
        for w in words[:10 if verbose else 1]: print(f"    {kind} ({len(words)}): {w}")
    sys.stdout.flush()


def results_of(chosen, given):
    """A result for each entry: from the record what it has, the rest by running it, and into the record."""
    known = {}
    if given.record and os.path.exists(given.record):
        with open(given.record) as lines: known = {r["name"]: r for r in map(json.loads, lines)}
    yield from (known[e[0]] for e in chosen if e[0] in known)
    todo = [e for e in chosen if e[0] not in known]
    for result in in_workers(todo, given) if given.jobs else (check(e, given) for e in todo):
        if given.record:
            with open(given.record, "a") as kept: print(json.dumps(result), file=kept)
        yield result


def reason(name, finding):
    """Why one finding is as it is: from the tables of `test_opdb.py`, or the finding itself."""
    from known import KNOWN, KNOWN_COMPLEX, KNOWN_DEEPER
    dtype, i, kind, words = finding
    for table in (KNOWN, KNOWN_DEEPER, KNOWN_COMPLEX) if dtype.startswith("complex") else (KNOWN, KNOWN_DEEPER):
        mark, why = table.get((name, kind), (None, None))
        if mark is not None and mark in words: return f"known: {why}"
    return f"{dtype} sample {i}: {words}" if dtype else words


def summary(results, infos, here):
    """Operators that pass each kind of check, of those it applies to; then those that do not, with one reason for each kind of finding."""
    from opdb import error_inputs, full_name
    names = {full_name(i) for i in infos}
    applies = {"gradient": lambda i: i.supports_autograd, "tangent": lambda i: i.supports_autograd, "variants": lambda i: i.supports_out or i.get_inplace() is not None,
               "errors": lambda i: i.error_inputs_func is not None, "words": lambda i: i.error_inputs_func is not None}
    failing = {group: {} for group in GROUPS}
    for r in results:
        for f in r["found"]:
            group, why = next(g for g, kinds in GROUPS.items() if f[2] in kinds), reason(r["name"], f)
            failing[group].setdefault(r["name"], {}).setdefault(why if why.startswith("known: ") else f[2], why)
    walked = {r["name"] for r in results}
    for group in GROUPS:
        of = {full_name(i) for i in infos if applies.get(group, lambda i: True)(i)} & (walked | (names - here))
        passing = of & here - set(failing[group])
        print(f"{group}: {len(passing)} of {len(of)}" + ("" if group != "errors" else f" ({sum(1 for i in infos if full_name(i) in of for _ in error_inputs(i))} error inputs)"))
        for name in sorted(of - passing):
            why = "; ".join(failing[group][name].values()) if name in failing[group] else "not there"
            print(f"    {name}: {why[:400]}")


def main():
    given = arguments()
    if given.worker: return serve(given)
    from opdb import entries, full_name, invocations
    wanted = list(wanted_names(given.names))
    part, parts = map(int, given.part.split("/"))
    have = entries()
    chosen = [e for e in have if not wanted or e[0] in wanted or e[1].name in wanted][part::parts]
    results, start = [], time.perf_counter()
    for result in results_of(chosen, given):
        results.append(result)
        if result["found"]: show(result, given.verbose)
    infos = [i for i in invocations.op_db if public(full_name(i)) and (not wanted or full_name(i) in wanted or i.name in wanted)]
    here = {e[0] for e in have}
    failed = sum(bool(r["found"]) for r in results)
    summary([r for r in results if public(r["name"])], infos, here)
    print(f"{len(results) - failed} entries agree, {failed} differ; {sum(r['samples'] for r in results)} samples of {given.dtypes}"
          + (f", at most {given.limit} each" if given.limit else ""))
    print(f"{sum(r.get('kernels', 0) for r in results)} kernels compiled in {sum(r.get('compiling', 0) for r in results):.0f} s of the entries' {sum(r['seconds'] for r in results):.0f} s; "
          f"{time.perf_counter() - start:.0f} s in all")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
