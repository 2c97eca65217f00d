"""torch's module database seen from here: each module made on both sides from the same arguments, and what one configuration says about it.

    python tests/conformance/modules.py [NAME ...] [--dtypes float32,float64] [--limit N] [--verbose] [--part 0/2] [--more]

prints one line per module that differs, and how many configurations agree. A configuration is an input of the database in training mode, and once more
in evaluation mode where the database says that the two differ (2,067 of them in torch 2.13 for one dtype).

Every check returns a list of findings, `(kind, words)`; an empty list is agreement. Kinds: missing, construct, initial, state, repr, call, value, buffers,
gradient, error.
"""
from __future__ import annotations

import argparse
import dataclasses
import os
import sys
import time
import types
import warnings

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import modules_more
import torch
from bridge import TOLERANCE, difference, flatten, to_rl
from opdb import Attempt, _same_failure, spread, words_of
from torch.testing._internal import common_modules

import rushlight as rl

SEED = 7
# Gradients: sums may be in another order.
GRADIENT_TOLERANCE = {**TOLERANCE, torch.float32: (1e-5, 1e-5), torch.complex64: (1e-5, 1e-5)}
# Gradients of attention: how many times the tolerance. Its backward takes the sum of a row's weighted gradients from the result (as flash attention does), so
# a gradient of 0, at a row that one key has decided, is the rounding of numbers of the result's size.
ATTENTION = {"Transformer": 2, "MultiheadAttention": 3}


def entries():
    """(name, info) for every module of the database."""
    return [(info.name.removeprefix("nn."), info) for info in common_modules.module_db]


def more_entries():
    """The same for modules that the database leaves out."""
    return [(info.name.removeprefix("nn."), info) for info in modules_more.infos()]


def modes(info):
    """Training mode, and evaluation mode where it does something else."""
    return (True, False) if info.train_and_eval_differ else (True,)


def inputs_of(info, dtype, training):
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return list(info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training))


# ------------------------------------------------------------------------------------------------------------- arguments
def translate(value, storages):
    """Arguments of a constructor or a forward: what the bridge translates, and modules, functions, options and packed sequences. A tensor that is given
    twice is one tensor on the other side too: its gradients add up. `storages` remembers what was translated."""
    if isinstance(value, torch.Tensor):
        key = "tensor", id(value)
        if key not in storages: storages[key] = value, to_rl(value, storages)
        return storages[key][1]
    inside = lambda v: translate(v, storages)      # noqa: E731
    if isinstance(value, torch.nn.utils.rnn.PackedSequence): return rl.nn.utils.rnn.PackedSequence(*map(inside, value))
    if isinstance(value, torch.nn.TransformerEncoderLayer): return encoder_layer(value)
    if dataclasses.is_dataclass(value): return getattr(rl.nn, type(value).__name__)(**{f.name: inside(getattr(value, f.name)) for f in dataclasses.fields(value)})
    if isinstance(value, types.BuiltinFunctionType | types.FunctionType): return getattr(rl.nn.functional, value.__name__)
    if type(value) in (list, tuple): return type(value)(map(inside, value))
    if type(value) is dict: return {k: inside(v) for k, v in value.items()}
    return to_rl(value, storages)


def encoder_layer(layer):
    """The layer that torch's TransformerEncoder is given to repeat."""
    attention = layer.self_attn
    ours = rl.nn.TransformerEncoderLayer(attention.embed_dim, attention.num_heads, layer.linear1.out_features, layer.dropout.p,
                                         getattr(rl.nn.functional, layer.activation.__name__), layer.norm1.eps, attention.batch_first, layer.norm_first,
                                         layer.linear1.bias is not None, dtype=to_rl(layer.linear1.weight.dtype))
    ours.load_state_dict(to_rl(dict(layer.state_dict())))
    return ours


def made(info, sample, dtype):
    """The module on both sides, with the same seed: two attempts."""
    ours = getattr(rl.nn, info.module_cls.__name__)
    args, kwargs = sample.constructor_input.args, sample.constructor_input.kwargs
    storages: dict = {}
    mine, my_kwargs = translate(args, storages), translate(kwargs, storages)
    torch.manual_seed(SEED)
    theirs = Attempt(lambda: info.module_cls(*args, **kwargs).to(dtype), (), {})
    rl.manual_seed(SEED)
    return theirs, Attempt(lambda: ours(*mine, **my_kwargs).to(to_rl(dtype)), (), {})


# ---------------------------------------------------------------------------------------------------------------- checks
def check_states(theirs, ours, kind, **options):
    """The state dicts: the same names in the same order, the same shapes, dtypes and (with `values`) numbers."""
    want, have = theirs.state_dict(), ours.state_dict()
    if list(want) != list(have): return [(kind, f"names {list(have)}, torch has {list(want)}")]
    if dict(want._metadata) != dict(have._metadata): return [(kind, f"versions {dict(have._metadata)}, torch has {dict(want._metadata)}")]
    words = ((name, difference(have[name], tensor, strides=True, **options)) for name, tensor in want.items())
    return [(kind, f"{name}: {word}") for name, word in words if word]


def check_parts(theirs, ours):
    """What the two modules consist of besides their state."""
    for what in ("named_parameters", "named_buffers", "named_children"):
        want, have = ([name for name, _ in getattr(m, what)()] for m in (theirs, ours))
        if want != have: return [("state", f"{what}: {have}, torch has {want}")]
    asked = [[p.requires_grad for p in m.parameters()] for m in (theirs, ours)]
    if asked[0] != asked[1]: return [("state", f"requires_grad {asked[1]}, torch has {asked[0]}")]
    if repr(theirs) != repr(ours): return [("repr", f"{ours!r} against {theirs!r}")]
    return []


def check_input(info, sample, training, dtype):
    """One configuration: construction, first values, state, text, result, running statistics, gradients."""
    if not hasattr(rl.nn, info.module_cls.__name__): return [("missing", info.module_cls.__name__)]
    want, have = made(info, sample, dtype)
    failure = _same_failure(want, have, "construct")
    if failure is not None: return failure
    theirs, ours = want.result.train(training), have.result.train(training)
    args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
    storages: dict = {}
    mine, my_kwargs = translate(args, storages), translate(kwargs, storages)
    if isinstance(theirs, torch.nn.modules.lazy.LazyModuleMixin):           # the first call gives it its shapes
        if repr(theirs) != repr(ours): return [("repr", f"{ours!r} against {theirs!r}")]
        if list(theirs.state_dict()) != list(ours.state_dict()): return [("state", f"names before the first call: {list(ours.state_dict())}")]
        torch.manual_seed(SEED)
        theirs(*args, **kwargs)
        rl.manual_seed(SEED)
        ours(*mine, **my_kwargs)
        if type(ours).__name__ != type(theirs).__name__: return [("state", f"became {type(ours).__name__}, torch's {type(theirs).__name__}")]
    found = check_states(theirs, ours, "state", values=False) or check_states(theirs, ours, "initial") + check_parts(theirs, ours)
    if any(kind == "state" for kind, _ in found): return found
    ours.load_state_dict(to_rl(dict(theirs.state_dict())))
    torch.manual_seed(SEED)
    expected = Attempt(theirs, args, kwargs)
    rl.manual_seed(SEED)
    got = Attempt(ours, mine, my_kwargs)
    failure = _same_failure(expected, got, "call")
    if failure is not None: return found + failure
    word = difference(got.result, expected.result, strides=True)
    if word: return found + [("value", word)]
    found += check_states(theirs, ours, "buffers")
    leaves = [(a, b) for a, b in zip(flatten([args, kwargs]), flatten([mine, my_kwargs])) if isinstance(a, torch.Tensor) and a.requires_grad]
    leaves += list(zip(theirs.parameters(), ours.parameters()))
    names = [f"input {i}" for i in range(len(leaves))][:len(leaves) - len(list(theirs.parameters()))] + [n for n, _ in theirs.named_parameters()]
    return found + check_gradients(expected.result, got.result, leaves, names, ATTENTION.get(info.module_cls.__name__, 1))


def check_gradients(expected, got, leaves, names, scale):
    theirs, ours = ([t for t in flatten(r) if isinstance(t, kind) and t.requires_grad] for r, kind in ((expected, torch.Tensor), (got, rl.Tensor)))
    if len(theirs) != len(ours): return [("gradient", f"{len(ours)} results require grad, torch has {len(theirs)}")]
    if not theirs or not leaves: return []
    torch.manual_seed(0)
    weights = [torch.randn_like(t) for t in theirs]
    want = Attempt(torch.autograd.grad, (theirs, [a for a, _ in leaves], weights), {"allow_unused": True})
    have = Attempt(rl.autograd.grad, (ours, [b for _, b in leaves], [to_rl(w) for w in weights]), {"allow_unused": True})
    failure = _same_failure(want, have, "gradient")
    if failure is not None: return failure
    found = []
    for name, x, y in zip(names, have.result, want.result):
        if (x is None) != (y is None): found.append(("gradient", f"{name}: {'None' if x is None else 'a tensor'}, torch has {'None' if y is None else 'a tensor'}"))
        elif y is not None:
            word = difference(x, y, scale, tolerance=GRADIENT_TOLERANCE)
            if word: found.append(("gradient", f"{name}: {word}"))
    return found


def check_errors(info, dtype):
    """The database's bad input: refused by the constructor or by forward, with torch's exception type and first words."""
    if info.module_error_inputs_func is None or not hasattr(rl.nn, info.module_cls.__name__): return []
    found = []
    for i, bad in enumerate(info.module_error_inputs_func(info, device="cpu", dtype=dtype, requires_grad=False, training=True)):
        sample = bad.module_error_input
        want, have = made(info, sample, dtype)
        if want.error is None and have.error is None and sample.forward_input is not None:
            args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
            want, have = Attempt(want.result, args, kwargs), Attempt(have.result, translate(args, {}), translate(kwargs, {}))
        if want.error is not None: found += [("error", f"error input {i}: {words}") for _, words in _same_failure(want, have, "error") or ()]
    return found


def check_module(info, dtypes, limit=None, errors=True):
    """(configurations, how many of them agree, [(dtype, mode, input, kind, words)]): everything about one module, `limit` inputs of each dtype and mode."""
    count, agreed, findings = 0, 0, []
    for dtype in dtypes:
        if dtype not in info.dtypes: continue
        name = str(dtype).rpartition(".")[2]
        for training in modes(info):
            inputs = inputs_of(info, dtype, training)
            for i in spread(range(len(inputs)), limit):
                count += 1
                try: found = check_input(info, inputs[i], training, dtype)
                except Exception as error:      # noqa: BLE001
                    found = [("call", f"the comparison failed: {words_of(error)}")]
                agreed += not found
                findings += [(name, "train" if training else "eval", i, kind, words) for kind, words in found]
    if errors: findings += [("", "", None, kind, words) for kind, words in check_errors(info, dtypes[0])]
    return count, agreed, findings


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtypes", default="float32")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--more", action="store_true", help="also the modules that the database leaves out (modules_more.py)")
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    part, parts = map(int, given.part.split("/"))
    known = entries() + more_entries() if given.more or given.names else entries()
    chosen = [(name, info) for name, info in known if not given.names or name in given.names][part::parts]
    unknown = set(given.names) - {name for name, _ in known}
    if unknown: parser.error(f"there is no {' '.join(sorted(unknown))}")
    total = agreeing = modules = 0
    for name, info in chosen:
        start = time.perf_counter()
        count, agreed, found = check_module(info, [getattr(torch, d) for d in given.dtypes.split(",")], given.limit)
        total, agreeing, modules = total + count, agreeing + agreed, modules + (not found)
        if found or given.verbose: print(f"{name}: {agreed} of {count} agree ({time.perf_counter() - start:.1f} s)")
        kinds: dict = {}
        for dtype, mode, i, kind, words in found: kinds.setdefault(kind, []).append(f"{dtype} {mode} input {i}: {words}")
        for kind, words in kinds.items():
            for w in words[:10 if given.verbose else 1]: print(f"    {kind} ({len(words)}): {w}")
        sys.stdout.flush()
    print(f"{agreeing} of {total} configurations agree; {modules} of {len(chosen)} modules")
    return modules < len(chosen)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
