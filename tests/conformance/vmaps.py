"""vmap of each operator over a leading batch dimension of its first tensor argument, beside torch's own vmap.

    python tests/conformance/vmaps.py [NAME ...] [--limit N]

prints what differs and how many entries agree.
"""
from __future__ import annotations

import sys
import warnings

import torch
from bridge import difference, flatten, to_rl
from closeness import DOUBLE as WIDER
from closeness import stated_tolerances, widened
from opdb import ARBITRARY_CHOICE, UNDEFINED, UP_TO_PHASES, Attempt, entries, samples_of, words_of

import rushlight as rl

SIZE = 3
# torch draws without asking for randomness=; it has no ComplexHalf on its numpy side.
LEFT_OUT = {"nn.functional.rrelu", "chalf"}
# Compared with torch's float64: its float32 is off by up to 2e-5 between its poles (polygamma), or by its own rounding of large powers (matrix_exp).
DOUBLE = {"polygamma", "special.polygamma", "matrix_exp"}
# Not batched here: a size or number is read from a varying tensor. It raises and names the call.
REFUSED = {"linspace/tensor_overload", "logspace/tensor_overload", "histogram", "argwhere", "resize_"}


def first_tensor(args):
    """(where, the tensor): the first tensor argument, in a list or not; None if there is none."""
    for i, value in enumerate(args):
        if isinstance(value, torch.Tensor): return (i,), value
        if isinstance(value, (list, tuple)):
            for j, item in enumerate(value):
                if isinstance(item, torch.Tensor): return (i, j), item
    return None


def put(args, where, tensor):
    args = list(args)
    if len(where) == 1: args[where[0]] = tensor
    else:
        inside = list(args[where[0]])
        inside[where[1]] = tensor
        args[where[0]] = type(args[where[0]])(inside)
    return args


def batch_of(t: torch.Tensor) -> torch.Tensor:
    """Three examples: the sample itself, another in its domain, and itself again."""
    other = t * 0.5 if t.is_floating_point() else t
    return torch.stack([t, other, t])


def check_sample(info, ours, sample):
    """Findings of one sample: [] when both agree; None when there is nothing to compare."""
    args, kwargs = (sample.input, *sample.args), sample.kwargs
    found = first_tensor(args)
    if found is None or found[1].is_sparse or found[1].device.type == "meta": return None
    where, tensor = found
    batch = batch_of(tensor.detach())
    storages: dict = {}
    mine, my_kwargs, my_batch = to_rl(list(args), storages), to_rl(kwargs, storages), to_rl(batch, {})
    torch.manual_seed(7)
    expected = Attempt(torch.func.vmap(lambda t: info.op(*put(args, where, t), **kwargs)), (batch,), {})
    rl.manual_seed(7)
    got = Attempt(rl.func.vmap(lambda t: ours(*put(mine, where, t), **my_kwargs)), (my_batch,), {})
    if expected.error is not None and got.error is not None: return []                     # both refuse
    loop = Attempt(looped, (info.op, args, kwargs, where, batch), {})
    if expected.error is not None and loop.error is not None: return None
    if got.error is not None: return [words_of(got.error)]
    found = compare(info, got.result, loop.result if expected.error is not None else expected.result)
    # Where torch's rule differs from its own operator (roll of numbers, rounding of another kernel) the operator is right.
    if found and info.name in DOUBLE: return compare(info, got.result, in_double(info.op, args, kwargs, where, batch))
    return found if expected.error is not None or not found or loop.error is not None else compare(info, got.result, loop.result)


def in_double(op, args, kwargs, where, batch):
    return [t.float() for t in looped(op, widened(list(args), WIDER), kwargs, where, batch.double())]


def looped(op, args, kwargs, where, batch):
    """The examples one by one, stacked; ValueError when their results have different sizes."""
    columns = list(zip(*(flatten([op(*put(args, where, t.clone()), **kwargs)]) for t in batch)))
    if any(not isinstance(t, torch.Tensor) or t.shape != c[0].shape for c in columns for t in c): raise ValueError("different sizes")
    return [torch.stack(c) for c in columns]


def compare(info, got, expected) -> list[str]:
    want, have = flatten([expected]), flatten([got])
    if info.name in UNDEFINED or info.name in UP_TO_PHASES or info.name in ARBITRARY_CHOICE and len(want) > 1: want, have = want[:1], have[:1]
    if len(want) != len(have): return [f"{len(have)} results, torch has {len(want)}"]
    out = []
    for w, h in zip(want, have):
        if not isinstance(w, torch.Tensor): continue
        if tuple(w.shape) != tuple(h.shape): out.append(f"shape {tuple(h.shape)}, torch has {tuple(w.shape)}")
        elif info.name not in UNDEFINED and info.name not in UP_TO_PHASES:
            words = difference(h, w.detach(), tolerance=stated_tolerances(info))
            if words: out.append(words)
    return out


def check(info, ours, limit: int = 2):
    """(samples compared, findings) of one entry."""
    if torch.float32 not in info.dtypes or info.name in LEFT_OUT: return 0, []
    count, findings = 0, []
    for number, sample in enumerate(samples_of(info, torch.float32, False, limit)):
        found = check_sample(info, ours, sample)
        if found is None: continue
        count += 1
        findings += [f"sample {number}: {words}" for words in found]
    return count, findings


def main(names, limit):
    warnings.simplefilter("ignore")
    compared = agree = 0
    for name, info, ours in entries():
        if names and name not in names and info.name not in names: continue
        try: count, findings = check(info, ours, limit)
        except Exception as error: count, findings = 1, [f"the test itself failed: {words_of(error)}"]       # noqa: BLE001
        if not count: continue
        compared += 1
        agree += not findings
        if findings: print(f"{name}: {len(findings)}: {findings[0]}", flush=True)
    print(f"{agree} of {compared} entries agree under vmap")
    return agree != compared


if __name__ == "__main__":
    words = sys.argv[1:]
    limit = 2
    if "--limit" in words:
        at = words.index("--limit")
        limit = int(words[at + 1])
        del words[at:at + 2]
    sys.exit(main(words, limit))
