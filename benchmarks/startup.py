"""Figures of a fresh process: `python benchmarks/startup.py [--rounds N]`.

Import time and memory beside torch's (when torch is there); the first training step of the demo with nothing cached, with a warm disk cache, and with
only the kernel pack of an installed package; how often a loop whose shapes change at every step enters the compiler. Each figure is the median over
fresh processes, which alternate so that a busy machine disturbs all alike. Exits with 1 when a limit is missed.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile

from harness import Table, megabytes

IMPORT = """
import json, resource, sys, time
wall, cpu = time.perf_counter(), time.process_time()
import {name}
print(json.dumps(dict(wall=time.perf_counter() - wall, cpu=time.process_time() - cpu, memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                      numpy="numpy" in sys.modules, llvmlite="llvmlite" in sys.modules)))
"""

# The demo's own model, data and optimizer; the step is timed from the first batch to the loss's value, as `rushlight demo` reports it.
STEP = """
import json, sys, time
began, spent = time.perf_counter(), time.process_time()
import rushlight as torch
from rushlight import demo
torch.manual_seed(0)
model = demo.Classifier()
digits = demo.Digits(train=True)
loader = demo.DataLoader(demo.TensorDataset(digits.images, digits.classes), batch_size=64, shuffle=True)
loss_function = torch.nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
start, busy = time.perf_counter(), time.process_time()
for images, classes in loader:
    optimizer.zero_grad()
    loss = loss_function(model(images), classes)
    loss.backward()
    optimizer.step()
    loss.item()
    break
now, end = time.perf_counter(), time.process_time()
stats = torch.stats()
print(json.dumps(dict(step=now - start, process=now - began, step_cpu=end - busy, process_cpu=end - spent, compiles=stats["compiles"], found=stats["found"], llvmlite="llvmlite" in sys.modules)))
"""

GROWING = """
import json
import rushlight as torch
x, w = torch.rand(8, 300), torch.rand(300, 16)
before = torch.stats()["compiles"]
for t in range(1, 301):
    (x[:, :t] @ w[:t]).softmax(-1)
print(json.dumps(dict(compiles=torch.stats()["compiles"] - before)))
"""


def fresh(code, **environment):
    """What a new process prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def median(runs, key):
    return statistics.median(r[key] for r in runs)


def imports(table, rounds):
    names = ["rushlight"] + (["torch"] if importlib.util.find_spec("torch") else [])
    runs = {name: [] for name in names}
    for _ in range(rounds + 1):
        for name in names:
            runs[name].append(fresh(IMPORT.format(name=name)))
    runs = {name: got[1:] for name, got in runs.items()}            # the first reads the files from disk
    ours = runs["rushlight"]
    if any(r["numpy"] or r["llvmlite"] for r in ours):
        sys.exit("import rushlight imports numpy or llvmlite")
    if len(names) == 1:
        print(f"  import {median(ours, 'wall') * 1e3:.0f} ms, {median(ours, 'memory') / 1e6:.1f} MB (torch is not here to compare with)")
        return
    table.section("importing, beside torch")
    peer = runs["torch"]
    table.add("import time", median(ours, "wall"), median(peer, "wall"), 0.12)
    table.add("import time, processor", median(ours, "cpu"), median(peer, "cpu"), 0.12)
    table.add("memory after import", median(ours, "memory"), median(peer, "memory"), 0.25, unit=megabytes)


def first_steps(rounds):
    """The first training step of the demo. Limits: 3 s with an empty cache, 0.5 s with a warm one."""
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        empty = [fresh(STEP, RUSHLIGHT_CACHE_DIR=os.path.join(folder, str(i))) for i in range(max(1, rounds // 2))]
        warm = [fresh(STEP, RUSHLIGHT_CACHE_DIR=os.path.join(folder, "0")) for _ in range(rounds)]
    alone = [fresh(STEP, RUSHLIGHT_CACHE_DIR="off") for _ in range(max(1, rounds // 2))]
    print(f"\nfirst training step of the demo, fresh processes\n  {'what':42} {'step':>9} {'process':>9} {'limit':>7} {'step cpu':>9} {'all cpu':>9} {'compiled':>9} {'found':>6}")
    for what, runs, limit in (("cache empty", empty, 3.0), ("cache warm", warm, 0.5), ("no cache (only the kernel pack, if built)", alone, 3.0)):
        step, late = median(runs, "step"), median(runs, "step") > limit
        print(f"  {what:42} {step:7.3f} s {median(runs, 'process'):7.3f} s {limit:5.1f} s {median(runs, 'step_cpu'):7.3f} s {median(runs, 'process_cpu'):7.3f} s "
              f"{runs[0]['compiles']:9} {runs[0]['found']:6}{' <' if late else ''}")
        if late:
            missed.append(what)
    if any(r["llvmlite"] for r in warm):
        missed.append("llvmlite is imported although the cache is warm")
    return missed


def growing():
    """x[:, :t] @ w[:t], then softmax, t from 1 to 300: at most two entries into the compiler, with nothing cached."""
    compiles = fresh(GROWING, RUSHLIGHT_CACHE_DIR="off")["compiles"]
    print(f"\na loop of 300 growing shapes enters the compiler {compiles} times (limit 2){' <' if compiles > 2 else ''}")
    return ["growing shapes"] if compiles > 2 else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    table = Table()
    imports(table, given.rounds)
    missed = first_steps(given.rounds) + growing()
    missed += [row[0] for row in table.rows if row[3] > row[4]]
    if missed:
        sys.exit("missed: " + ", ".join(missed))
