"""Walk torch's operator database: each operator's samples run here and in torch, forward, gradients and error inputs.

    python tests/conformance/walk.py [NAME ...] [--dtypes float32,int64] [--limit N] [--verbose]

prints one line per operator that differs and a summary. Operators that rushlight does not have are counted apart.
"""
from __future__ import annotations

import argparse
import os
import sys
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
from bridge import difference, to_rl  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import rushlight as rl  # noqa: E402

TOLERANCE = {torch.float32: (1.3e-6, 1e-5), torch.float64: (1e-7, 1e-7), torch.bfloat16: (1.6e-2, 1e-5), torch.float16: (1e-3, 1e-5),
             torch.complex64: (1.3e-6, 1e-5), torch.complex128: (1e-7, 1e-7)}


def find(name):
    """The rushlight callable for an op_db name, or None."""
    target = rl
    for part in name.split("."):
        target = getattr(target, part, None)
        if target is None: return getattr(rl.Tensor, name, None) if "." not in name else None
    return target


def check_sample(info, ours, sample, dtype, gradients):
    """Words for each difference of one sample."""
    rtol, atol = TOLERANCE.get(dtype, (0, 0))
    reference = info.op
    args = (sample.input, *sample.args)
    mine = [to_rl(a) for a in args]
    kwargs = {k: to_rl(v) for k, v in sample.kwargs.items()}
    expected = reference(*args, **sample.kwargs)
    try:
        got = ours(*mine, **kwargs)
    except Exception as error:
        return [f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]]
    word = difference(got, expected, rtol, atol)
    if word: return [word]
    word = difference(got, expected, rtol, atol, strides=True)
    out = ["strides: " + word] if word else []
    if gradients:
        word = check_gradients(args, mine, sample.kwargs, kwargs, expected, got, rtol, atol)
        if word: out.append("gradient: " + word)
    return out


def check_gradients(args, mine, kwargs, my_kwargs, expected, got, rtol, atol):
    flat = lambda v: [x for y in v for x in flat(y)] if isinstance(v, (list, tuple)) else [v]
    theirs = [o for o in flat([expected]) if isinstance(o, torch.Tensor) and o.requires_grad]
    ours = [o for o in flat([got]) if isinstance(o, rl.Tensor) and o.requires_grad]
    if len(theirs) != len(ours): return f"{len(ours)} results require grad, torch has {len(theirs)}"
    if not theirs: return None
    leaves = [(a, b) for a, b in zip(flat(list(args) + list(kwargs.values())), flat(mine + list(my_kwargs.values())))
              if isinstance(a, torch.Tensor) and a.requires_grad]
    torch.manual_seed(0)
    weights = [torch.randn_like(o) for o in theirs]
    try:
        want = torch.autograd.grad(theirs, [a for a, _ in leaves], weights, allow_unused=True)
    except RuntimeError:
        return None
    try:
        have = rl.autograd.grad(ours, [b for _, b in leaves], [to_rl(w) for w in weights], allow_unused=True)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]
    for i, (x, y) in enumerate(zip(have, want)):
        if (x is None) != (y is None): return f"argument {i}: {'None' if x is None else 'a tensor'}, torch has {'None' if y is None else 'a tensor'}"
        if x is not None:
            word = difference(x, y, max(rtol, 1e-5), max(atol, 1e-5))
            if word: return f"argument {i}: {word}"
    return None


def walk_operator(info, dtypes, limit=None):
    """(samples run, [words of differences])."""
    name = info.aten_name if find(info.name) is None and getattr(info, "aten_name", None) else info.name
    ours = find(info.name) or find(name)
    if ours is None: return None
    bad, count = [], 0
    for dtype in dtypes:
        if not info.supports_dtype(dtype, "cpu"): continue
        gradients = info.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        torch.manual_seed(0)
        try: samples = list(info.sample_inputs("cpu", dtype, requires_grad=gradients))
        except Exception as error:
            bad.append(f"{dtype}: torch's samples cannot be made: {error}")
            continue
        for i, sample in enumerate(samples[:limit]):
            count += 1
            try: words = check_sample(info, ours, sample, dtype, gradients)
            except Exception as error: words = [f"the comparison failed: {type(error).__name__}: {error}"[:200]]
            bad += [f"{str(dtype).rpartition('.')[2]} sample {i}: {w}" for w in words]
    return count, bad


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    dtypes = [getattr(torch, n) for n in given.dtypes.split(",")]
    passed = failed = absent = samples = 0
    for info in op_db:
        full = info.name + (f"/{info.variant_test_name}" if info.variant_test_name else "")
        if given.names and info.name not in given.names: continue
        result = walk_operator(info, dtypes, given.limit)
        if result is None:
            absent += 1
            continue
        count, bad = result
        samples += count
        if bad:
            failed += 1
            print(f"{full}: {len(bad)} of {count}: {bad[0]}")
            if given.verbose:
                for word in bad[1:10]: print("    " + word)
        else: passed += 1
        sys.stdout.flush()
    print(f"{passed} operators agree, {failed} differ, {absent} absent; {samples} samples")
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
