"""How many instructions a small call costs, and whose: `python benchmarks/instructions.py [--functions] [name ...]`.

A clock cannot see ten nanoseconds on a busy machine; a count is the same every time. The calls run in a traced child that is stepped one
instruction at a time (ptrace; Linux on x86-64), until two calls in a row went the same way. Needs no torch. `--functions` names the
functions, by `nm`.
"""
from __future__ import annotations

import argparse
import bisect
import collections
import ctypes
import os
import signal
import subprocess
import sys

import rushlight as rl

TRACEME, SINGLESTEP, GETREGS = 0, 9, 12
RIP = 16                                   # its place among the 27 registers of GETREGS
STEPS = 24_000


def calls():
    F = rl.nn.functional
    a, b, x, w, c = rl.randn(4), rl.randn(4), rl.randn(1, 4), rl.randn(4), rl.randn(4)
    g, target, m = rl.randn(4, requires_grad=True), rl.tensor([1]), rl.randn(4, 4)
    return {"nothing (the loop and a lambda)": lambda: None, "a + b": lambda: a + b, "a + b with grad": lambda: g + b, "a.add_(b)": lambda: a.add_(b),
            "F.relu": lambda: F.relu(a),
            "softmax": lambda: F.softmax(x, -1), "layer_norm": lambda: F.layer_norm(x, (4,), w, c), "cross_entropy": lambda: F.cross_entropy(x, target),
            "view": lambda: m.view(2, 8), "x[0]": lambda: m[0], "x @ y": lambda: m @ m}


def path(call):
    """The addresses of one call's instructions, and the child's memory map."""
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes, ptrace.restype = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p], ctypes.c_long
    for _ in range(3000): call()                   # the interpreter adapts its own code first
    child = os.fork()
    if not child:
        ptrace(TRACEME, 0, None, None)
        os.kill(os.getpid(), signal.SIGUSR1)
        while True: call()
    registers, seen = (ctypes.c_ulonglong * 27)(), []
    if not os.WIFSTOPPED(os.waitpid(child, 0)[1]): raise OSError("this machine does not let a process be traced")       # the signal ended it
    try:
        with open(f"/proc/{child}/maps") as file: maps = [line.split() for line in file]
        for _ in range(STEPS):
            if ptrace(SINGLESTEP, child, None, None) < 0: raise OSError(ctypes.get_errno(), "the traced process cannot be stepped")
            os.waitpid(child, 0)
            ptrace(GETREGS, child, None, registers)
            seen.append(registers[RIP])
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    # A call's length: how far back the same way was gone before.
    inside = [[int(end, 16) for end in line[0].split("-")] for line in maps if len(line) > 5 and "python" in os.path.basename(line[5]) and "_C." not in line[5]]
    for length in range(1, len(seen) // 3):
        if seen[-1 - length] == seen[-1] and seen[-length:] == seen[-2 * length:-length]:
            if any(low <= address < high for address in set(seen[-length:]) for low, high in inside): return seen[-length:], maps      # else a loop inside the call
    raise RuntimeError("no two calls in a row went the same way")


def owner(address, maps, functions):
    for where, _, _, _, _, *file in maps:
        low, high = (int(end, 16) for end in where.split("-"))
        if low <= address < high:
            if not file or not file[0].startswith("/"): return "kernels"
            name = os.path.basename(file[0])
            part = "interpreter" if "python" in name and "_C." not in name else "runtime" if name.startswith("_C.") else name
            return part if not functions else f"{part}: {symbol(file[0], address - base(file[0], maps))}"
    return "?"


def base(file, maps): return min(int(where.split("-")[0], 16) - int(offset, 16) for where, _, offset, _, _, *name in maps if name and name[0] == file)


_symbols = {}
def symbol(file, address):
    if file not in _symbols:
        lines = [line.split(None, 2) for option in ("-C", "-DC") for line in subprocess.run(["nm", option, "--defined-only", file], capture_output=True, text=True).stdout.splitlines()]
        _symbols[file] = sorted((int(line[0], 16), line[2]) for line in lines if len(line) == 3 and line[1] in "tTwWiu")
    at = bisect.bisect_right(_symbols[file], (address, "\xff")) - 1
    return _symbols[file][at][1].split("(")[0] if at >= 0 else "?"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--functions", action="store_true")
    given = parser.parse_args()
    if not sys.platform.startswith("linux") or os.uname().machine != "x86_64": sys.exit("instructions are counted on Linux and x86-64 only")
    for name, call in calls().items():
        if given.names and name not in given.names: continue
        way, maps = path(call)
        counts = collections.Counter(owner(address, maps, given.functions) for address in way)
        parts = counts.most_common()
        print(f"{name:32} {len(way):6}   " + ("" if given.functions else ", ".join(f"{part} {n}" for part, n in parts)))
        if given.functions: print("".join(f"{n:10}   {part}\n" for part, n in parts))
