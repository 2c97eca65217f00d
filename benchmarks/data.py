"""DataLoader beside torch's: `python benchmarks/data.py [--rounds N] [--only TEXT] [--cpu] [--best]`, or `python benchmarks/run.py data`.

Every measurement is a process of its own with one of the two libraries in it, and the two alternate, so that a busy machine disturbs both. Three figures come
out of one: a batch's share of whole epochs, from workers that are up; how long a new loader takes to its first batch, its workers' start included; and the
same for the first loader of a process, from the start of Python on, since what one library does when it is imported the other may do when it is first used.
The batch is read by numpy on both sides: memory that a worker filled costs something only when it is touched. The ratio is our time over torch's.
With `--cpu` the epochs are counted in processor time, the workers' included, which a busy machine disturbs less.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

BATCH = 64
KINDS = {
    "rows": "28x28 float images and labels, in memory",
    "images": "64x64 colour images, bytes to normalised floats",
    "stream": "an IterableDataset of 28x28 float images and labels",
}
# kind: samples of an epoch; epochs of one measurement
EPOCHS = {"rows": (12800, 6), "images": (2560, 4), "stream": (6400, 5)}
LIMIT = 1.0

MEASURE = """
import json, multiprocessing, os, sys, time
born = float(sys.argv[1])
import numpy
import {library} as library
from {library}.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

kind, workers, samples, epochs, batch, cpu = {kind!r}, {workers}, {samples}, {epochs}, {batch}, {cpu}
numbers = numpy.random.default_rng(0)


class Images(Dataset):
    "What a folder of pictures costs after decoding: bytes, height x width x colour, to normalised floats with the colours first."
    mean, scale = numpy.array([0.485, 0.456, 0.406], "f4"), 1 / numpy.array([0.229, 0.224, 0.225], "f4")

    def __init__(self): self.pixels = numbers.integers(0, 256, (256, 64, 64, 3), dtype="u1")
    def __len__(self): return samples

    def __getitem__(self, index):
        image = self.pixels[index % 256]
        if index % 2: image = image[:, ::-1]
        normal = (image.astype("f4") / 255 - self.mean) * self.scale
        return library.from_numpy(numpy.ascontiguousarray(normal.transpose(2, 0, 1))), index % 10


class Stream(IterableDataset):
    def __init__(self): self.images = library.from_numpy(numbers.random((1024, 1, 28, 28), dtype="f4"))

    def __iter__(self):
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(first, samples, step): yield self.images[i % 1024], i % 10


if kind == "rows":
    dataset = TensorDataset(library.from_numpy(numbers.random((samples, 1, 28, 28), dtype="f4")), library.from_numpy(numbers.integers(0, 10, samples)))
else: dataset = Images() if kind == "images" else Stream()


def epoch(loader):
    seen = 0
    for pictures, classes in loader:
        seen += len(classes)
        pictures.numpy().max()
    assert seen == samples, seen


def first_batch():
    loader = DataLoader(dataset, batch_size=batch, shuffle=kind != "stream", num_workers=workers, persistent_workers=workers > 0)
    batches = iter(loader)
    pictures, classes = next(batches)
    pictures.numpy().max()
    return loader, batches


def spent():
    "Seconds that this process and its workers have been on a processor."
    total = 0
    for pid in [os.getpid(), *(p.pid for p in multiprocessing.active_children())]:
        for thread in os.listdir(f"/proc/{{pid}}/task"):
            with open(f"/proc/{{pid}}/task/{{thread}}/schedstat") as file: total += int(file.read().split()[0])
    return total / 1e9


clock = spent if cpu else time.perf_counter
library.set_num_threads(1)
loader, batches = first_batch()
process = time.time() - born
del loader, batches
start = time.perf_counter()
loader, batches = first_batch()
first = time.perf_counter() - start
for _ in batches: pass
times = []
for _ in range(epochs):
    start = clock()
    epoch(loader)
    times.append(clock() - start)
print(json.dumps(dict(process=process, first=first, epoch=sorted(times)[len(times) // 2], best=min(times))))
"""


def measure(library, kind, workers, cpu=False):
    samples, epochs = EPOCHS[kind]
    code = MEASURE.format(library=library, kind=kind, workers=workers, samples=samples, epochs=epochs, batch=BATCH, cpu=cpu)
    done = subprocess.run([sys.executable, "-c", code, repr(time.time())], capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode: raise RuntimeError(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}")
    return json.loads(done.stdout)


def loaders(table, rounds=5, cpu=False):
    """The rows of the table, for each kind of dataset and number of workers."""
    for kind, title in KINDS.items():
        names = {workers: f"{kind}, {workers} worker{'' if workers == 1 else 's'}" for workers in (0, 1, 2)}
        names = {workers: name for workers, name in names.items() if table.only in name}
        if not names: continue
        table.section(f"DataLoader, batches of {BATCH}: {title}{', processor time' if cpu else ''}")
        measure("rushlight", kind, 0)                               # kernels that are compiled at the first use ever are not what this compares
        for workers, name in names.items():
            ours, peer = [], []
            for _ in range(rounds):
                ours.append(measure("rushlight", kind, workers, cpu))
                peer.append(measure("torch", kind, workers, cpu))
            batches = EPOCHS[kind][0] / BATCH
            pick, epoch = (min, "best") if table.best else (statistics.median, "epoch")
            for what, key, share in (("a batch", epoch, batches), ("first batch of a new loader", "first", 1), ("first batch of a process", "process", 1)):
                table.add(f"{name}: {what}", pick(r[key] for r in ours) / share, pick(r[key] for r in peer) / share, LIMIT)


if __name__ == "__main__":
    from harness import Table
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--cpu", action="store_true", help="processor time for the epochs")
    parser.add_argument("--best", action="store_true", help="the fastest of the runs instead of the median: for a busy machine")
    given = parser.parse_args()
    table = Table(given.only, given.best)
    loaders(table, given.rounds, given.cpu)
    table.summary()
