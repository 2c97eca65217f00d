"""Every operator that torch's database also has: values, dtypes, shapes, strides, gradients, second gradients, in-place and out= forms, bad input.

A bounded number of samples each; `walk.py` runs them all. What differs is listed in KNOWN, by name and with the reason; an entry that no longer differs
fails its test, so the table cannot grow stale.
"""
import warnings

import opdb
import pytest
import torch
from operators import WHOLE

from rushlight import registry

ENTRIES = {name: (info, ours) for name, info, ours in opdb.entries()}
COUNTS = (torch.int64, torch.bool)
# One of these for each entry, in turn: every family of operators meets all of them.
TURNS = (torch.bfloat16, torch.float64, torch.float16, torch.uint8)

# (entry, kind of check): (words that every finding of that kind has, why)
KNOWN = {
    ("as_strided_scatter", "gradient"): ("argument 0", "torch passes the gradient of input where src was written, and none elsewhere: it fails torch's own gradcheck, ours does not"),
    ("nn.functional.linear_cross_entropy/chunked", "gradgrad"): ("torch has None", "torch's chunks can be differentiated once only"),
    ("linalg.norm/subgradients_at_zero", "gradgrad"): ("nan", "the second derivative at the zero vector: NaN in torch, 0 here"),
    ("fft.ihfftn", "out"): ("torch has (0,)", "torch does not fill out="),
}

# The same for complex numbers only.
KNOWN_COMPLEX = {("istft", "gradient"): ("torch has None", "torch has no gradient for the window; ours agrees with differences")}

# What only some samples show, or dtypes that an entry's turn brings: explained where it is met, not missed where it is not.
KNOWN_DEEPER = {
    ("addbmm", "inplace"): ("Bad in-place call", "torch's addbmm_ resizes a tensor that only broadcasts to the result; every other in-place form refuses it, and so does this"),
    ("special.bessel_y1", "value"): ("values differ", "torch is off by 3e-7 near 5.576 in float64; ours is within 2e-16 of scipy's"),
    ("special.bessel_j0", "value"): ("values differ", "torch is off by 2e-7 near its zeros in float64, as bessel_y1"),
    ("nn.functional.triplet_margin_loss", "value"): ("values differ", "uint8: torch subtracts bytes, which wrap around; here the distance is that of the numbers"),
    ("nn.functional.conv_transpose3d", "value"): ("values differ", "a hundred products of up to 81 that cancel, added in another order; op_db allows 2e-4 where it states a tolerance"),
    ("fft.hfft2", "value"): ("values differ", "float32, added in another order: 1.4 times as far from the double result as torch's worst element"),
    ("cov", "gradient"): ("off by up to 3.05e-05 beside 3.05e-05", "bfloat16: of weights whose gradient cancels to nothing; torch's is half as far"),
    ("grid_sampler_2d", "gradient"): ("argument 1", "bicubic: float32 cancels in the gradient of the grid; torch's is as far from the double one (3e-5 to 6e-5 of its size)"),
    ("nn.functional.grid_sample", "gradient"): ("argument 1", "as grid_sampler_2d"),
}


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
