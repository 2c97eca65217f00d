"""Every operator that torch's database also has: values, dtypes, shapes, strides, gradients, second gradients, in-place and out= forms, bad input.

A bounded number of samples each; `walk.py` runs them all. What differs is listed in known.py, by name and with the reason; an entry that no longer differs
fails its test, so the table cannot grow stale.
"""
import warnings

import opdb
import pytest
import torch
from known import KNOWN, KNOWN_COMPLEX, KNOWN_DEEPER
from operators import WHOLE

from rushlight import registry

ENTRIES = {name: (info, ours) for name, info, ours in opdb.entries()}
COUNTS = (torch.int64, torch.bool)
# One of these for each entry, in turn: every family of operators meets all of them.
TURNS = (torch.bfloat16, torch.float64, torch.float16, torch.uint8)


def judge(name, findings):
    """Fail on findings that KNOWN does not explain, and on entries of KNOWN that nothing was found for."""
    expected = {kind: KNOWN[entry, kind] for entry, kind in KNOWN if entry == name}
    reasons = {**{kind: KNOWN_DEEPER[entry, kind] for entry, kind in KNOWN_DEEPER if entry == name}, **expected}
    unexplained = [f"{kind}: {words} ({dtype} sample {i})" for dtype, i, kind, words in findings if kind not in reasons or reasons[kind][0] not in words]
    assert not unexplained, "\n".join(unexplained)
    found = {kind for _, _, kind, _ in findings}
    stale = [f"{kind}: {expected[kind][1]}" for kind in expected if kind not in found]
    assert not stale, f"listed in KNOWN and not found: {stale}"


@pytest.mark.parametrize("name", ENTRIES)
def test_agrees_with_torch(name):
    info, ours = ENTRIES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, findings = opdb.check_operator(info, ours, (torch.float32,), limit=4, firsts=None if WHOLE else 3, seconds=1, forms=2)
        others = (*COUNTS, TURNS[list(ENTRIES).index(name) % len(TURNS)])
        findings += opdb.check_operator(info, ours, others, limit=1, seconds=0, forms=0, errors=False)[1]
    judge(name, findings)


@pytest.mark.parametrize("name", [n for n, (info, _) in ENTRIES.items() if info.supports_dtype(torch.complex64, "cpu")])
def test_complex_numbers(name):
    info, ours = ENTRIES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, findings = opdb.check_operator(info, ours, (torch.complex64,), limit=2, seconds=0, forms=0, errors=False)
    findings = [words for _, _, kind, words in findings if (name, kind) not in KNOWN and (name, kind) not in KNOWN_COMPLEX]
    assert not findings, findings


def test_nothing_is_left_out():
    """Every operator of the registry that torch's database knows by name is among the entries."""
    names = {info.name for info, _ in ENTRIES.values()}
    known = {info.name for info in opdb.invocations.op_db}
    for definition in registry.all():
        for space, prefix in (("torch", ""), ("Tensor", ""), ("F", "nn.functional."), ("linalg", "linalg."), ("special", "special."),
                              ("masked", "masked."), ("signal.windows", "signal.windows.")):
            name = prefix + definition.short_name
            if space in definition.on and name in known: assert name in names, name
    assert {name for name, _ in (*KNOWN, *KNOWN_COMPLEX, *KNOWN_DEEPER)} <= set(ENTRIES)
