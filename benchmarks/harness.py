"""Side by side with torch, in one process, as ratios.

Both sides run in alternating windows of about equal length, so that a busy machine slows both; the figure is the median over the windows of
our time divided by torch's.

On a machine that others use too, `--cpu` counts the process's own time and `--best` compares the fastest windows instead of the median.
"""
from __future__ import annotations

import statistics
import sys
import time

WINDOW = 0.004          # seconds a window aims at
ROUNDS = 25
FEW = 8                 # calls of a window: the first one finds the other side's data in the caches, so both sides make as many


# With several threads: each side's idle threads spin for a while, on the cores that the other side needs, so they are given time to fall
# asleep; then a processor that slept takes a while to be back at full speed, so each window has a running start.
SETTLE = 0.0            # seconds of sleep before a window
RUNNING_START = 0.0     # seconds of calls before a window, not counted

clock = time.perf_counter         # --cpu: time.process_time, which a busy machine disturbs less (honest with one thread only)


def _time(call, count):
    start = clock()
    for _ in range(count):
        call()
    return (clock() - start) / count


def _settle(call):
    time.sleep(SETTLE)
    end = time.perf_counter() + RUNNING_START
    while time.perf_counter() < end:
        call()


def _count(call):
    call()
    call()
    once = min(_time(call, 1) for _ in range(3))
    return max(1, int(WINDOW / max(once, 1e-8)))


class Table:
    """Rows are printed as they come; `limit` is what the row must stay below to be called reached."""

    def __init__(self, only="", best=False):
        self.rows, self.only, self.best = [], only, best

    def section(self, title):
        print(f"\n{title}\n{'':2}{'what':58} {'ours':>11} {'torch':>11} {'ratio':>7} {'limit':>6}")

    def bench(self, name, ours, peer, limit=None, rounds=ROUNDS):
        if self.only and self.only not in name:
            return None
        try:
            n, m = _count(ours), _count(peer)
            if max(n, m) < FEW: n = m = max(n, m)
            a, b = [], []
            for _ in range(min(rounds, 7) if SETTLE else rounds):
                for call, count, out in ((ours, n, a), (peer, m, b)):
                    if SETTLE: _settle(call)
                    out.append(_time(call, count))
        except Exception as error:              # a row that cannot run is a row of the table, not the end of it
            print(f"  {name:58} failed: {type(error).__name__}: {str(error).splitlines()[0][:80]}")
            self.rows.append((name, None, None, None, limit))
            return None
        if self.best:
            ratio = min(a) / min(b)
            self.add(name, min(a), min(b), limit, ratio)
        else:
            ratio = statistics.median(x / y for x, y in zip(a, b))
            self.add(name, statistics.median(a), statistics.median(b), limit, ratio)
        return ratio

    def add(self, name, ours, torch, limit=None, ratio=None, unit=None):
        ratio = ours / torch if ratio is None else ratio
        mark = "" if limit is None else " " if ratio <= limit else " <"
        show = unit or seconds
        print(f"  {name:58} {show(ours):>11} {show(torch):>11} {ratio:7.3f} {'' if limit is None else f'{limit:6.2f}'}{mark}")
        sys.stdout.flush()
        self.rows.append((name, ours, torch, ratio, limit))

    def summary(self):
        judged = [r for r in self.rows if r[4] is not None]
        reached = [r for r in judged if r[3] is not None and r[3] <= r[4]]
        print(f"\n{len(reached)} of {len(judged)} rows within their limit")


def seconds(s):
    for unit, scale in (("s", 1), ("ms", 1e3), ("us", 1e6)):
        if s * scale >= 1:
            return f"{s * scale:.2f} {unit}"
    return f"{s * 1e9:.0f} ns"


def megabytes(b):
    return f"{b / 1e6:.1f} MB"
