"""Draws whose results are stored in random_streams.json, as torch 2.13 gave them: every dtype, the sizes at which its algorithms change, views.

`python tests/random_streams.py` writes the file anew; that needs torch.
"""
import hashlib
import json
import pathlib

FILE = pathlib.Path(__file__).with_suffix(".json")
SIZES = (1, 5, 15, 16, 17, 100)
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("bool", "uint8", "int8", "int16", "int32", "int64")


def calls():
    """Expressions in `lib`; each is one draw from a generator seeded afresh."""
    for n in SIZES:
        for dtype in FLOATS + COMPLEX:
            yield f"lib.rand({n}, dtype=lib.{dtype})"
            yield f"lib.randn({n}, dtype=lib.{dtype})"
            yield f"lib.empty({n}, dtype=lib.{dtype}).uniform_(-2.5, 3.0)"
            yield f"lib.empty({n}, dtype=lib.{dtype}).normal_(1.5, 0.25)"
        for dtype in FLOATS + INTEGERS:
            yield f"lib.randint(0, 2, ({n},), dtype=lib.{dtype})"
            yield f"lib.empty({n}, dtype=lib.{dtype}).random_()"
            yield f"lib.empty({n}, dtype=lib.{dtype}).bernoulli_(0.3)"
            if dtype != "bool":
                yield f"lib.randint(-3, 99, ({n},), dtype=lib.{dtype})" if dtype != "uint8" else f"lib.randint(3, 99, ({n},), dtype=lib.uint8)"
                yield f"lib.randperm({n}, dtype=lib.{dtype})"
        for high in ("2**28", "2**32", "2**40", "2**63 - 1"):
            yield f"lib.randint(0, {high}, ({n},))"
    for fill in ("uniform_()", "normal_()", "random_(50)"):
        for view in (".t()", "[:, ::2]", "[1:3].t()", "[::2, 1:4].t()"):
            yield f"lib.zeros(6, 14){view}.{fill}"


def fingerprint(lib, call, seed=12345):
    """A hash of the bytes drawn, and of the number that comes next: how much of the stream was used."""
    lib.manual_seed(seed)
    t = eval(call, {"lib": lib}).contiguous()
    t = t.view(lib.int16) if str(t.dtype) == "torch.bfloat16" else t
    after = lib.randint(0, 2**60, (1,)).item()
    return hashlib.sha256(t.numpy().tobytes() + str(after).encode()).hexdigest()[:16]


def write():
    import torch
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(c)}: {json.dumps(fingerprint(torch, c))}" for c in calls()) + "\n}\n")


if __name__ == "__main__":
    write()
