"""repr(tensor) is torch's text, character for character."""
import random

import numpy as np
import pytest
import torch
from bridge import to_rl

import rushlight as rl
from rushlight import _tensor_str

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8,
          torch.bool, torch.complex64, torch.complex128)


def example(choose):
    size = lambda: choose.choice([0, 1, 1, 2, 3, 4, 7, 12] if choose.random() < 0.9 else [30, 200, 1100])
    shape = [size() for _ in range(choose.randint(0, 4))]
    if np.prod(shape) > 20000:
        shape = shape[:1]
    dtype = choose.choice(DTYPES)
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if not (dtype.is_floating_point or dtype.is_complex):
        return torch.randint(0 if dtype == torch.uint8 else -100, 101, shape).to(dtype)
    t = torch.randn(shape, dtype=torch.complex128 if dtype.is_complex else torch.float64) * choose.choice([1, 1e-6, 1e-3, 1e5, 1e9])
    if not dtype.is_complex and choose.random() < 0.4:
        t = t.round() if choose.random() < 0.5 else torch.randint(-5, 2000, shape).double()
    t = t.to(dtype)
    for v in (float("nan"), float("inf"), -float("inf"), 0.0, -0.0):
        if choose.random() < 0.12:
            t = torch.where(torch.rand(shape) < 0.3, torch.tensor(v, dtype=dtype), t)
    return t.requires_grad_(choose.random() < 0.2)


@pytest.fixture(autouse=True)
def default_options():
    yield
    torch.set_printoptions(profile="default")
    rl.set_printoptions(profile="default")
    torch.set_default_dtype(torch.float32)
    rl.set_default_dtype(rl.float32)


@pytest.mark.parametrize("seed", range(40))
def test_text(seed):
    choose = random.Random(seed)
    torch.manual_seed(seed)
    options = {"profile": "default"} if seed % 2 else dict(
        precision=choose.choice([None, None, 2, 6, 0]), threshold=choose.choice([None, 5, 50]), edgeitems=choose.choice([None, 1, 2, 5, 0]),
        linewidth=choose.choice([None, 40, 120]), sci_mode=choose.choice([None, None, True, False]),
        profile=choose.choice(["default", "short", "full"]))
    torch.set_printoptions(**options)
    rl.set_printoptions(**options)
    if seed % 5 == 0:
        torch.set_default_dtype(torch.float64)
        rl.set_default_dtype(rl.float64)
    for _ in range(15):
        t = example(choose)
        assert repr(to_rl(t)) == repr(t), (t.dtype, t.shape, options)


@pytest.mark.parametrize("make", [lambda m: m.zeros(2, 3, 0), lambda m: m.zeros(0), lambda m: m.zeros(0, dtype=m.int64),
                                  lambda m: m.arange(2000),
                                  lambda m: m.ones(3, requires_grad=True) * 2, lambda m: m.empty(2, 3, device="meta"),
                                  lambda m: m.empty(2, device="meta", dtype=m.int64), lambda m: m.nn.Parameter(m.ones(2, 2)),
                                  lambda m: m.ones(3, requires_grad=True)[1:],
                                  lambda m: m.tensor([1 + 2j, 3 - 0j]).conj(), lambda m: m.ones(1100, 1, requires_grad=True).exp()])
def test_suffixes(make):
    assert repr(make(rl)) == repr(make(torch))


def test_subclasses_print_under_their_own_name():
    ours, theirs = type("Marked", (rl.Tensor,), {}), type("Marked", (torch.Tensor,), {})
    assert repr(rl.ones(2).as_subclass(ours)) == repr(torch.ones(2).as_subclass(theirs))


@pytest.mark.parametrize("spec", ["", ".2f", "8.3e", ">12"])
def test_format_of_a_number(spec):
    assert format(rl.tensor(3.14159), spec) == format(torch.tensor(3.14159), spec)


def test_printoptions_restores():
    before = _tensor_str.get_printoptions()
    with _tensor_str.printoptions(precision=1):
        assert repr(rl.tensor([1.26])) == "tensor([1.3])"
    assert _tensor_str.get_printoptions() == before
