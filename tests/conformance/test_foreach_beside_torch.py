"""`_foreach_NAME` against torch: every name it has, every kind of operand, both forms, the same errors."""
import numpy as np
import pytest
import torch

import rushlight as rl

NAMES = sorted(n[len("_foreach_"):].rstrip("_") for n in dir(torch) if n.startswith("_foreach_"))
SHAPES = [(3,), (2, 4), (1,), ()]


def lists(dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(rng.uniform(0.1, 0.9, s) if dtype == np.float32 else rng.integers(1, 5, s), dtype) for s in SHAPES]
    return [torch.from_numpy(a.copy()) for a in arrays], [rl.from_numpy(a.copy()) for a in arrays]


def operands(name):
    """Argument lists after the tensors: in torch and here."""
    second, third = lists(seed=1), lists(seed=2)
    numbers = [0.5, 2.0, 1.5, 3.0]
    if name in ("add", "sub", "mul", "div", "pow", "clamp_max", "clamp_min", "maximum", "minimum"):
        kinds = [second, (2.5, 2.5), (2, 2), (numbers, numbers)]
        return [((a,), (b,)) for a, b in kinds + ([(torch.tensor(2.0), rl.tensor(2.0))] if name in ("add", "mul", "div") else [])]
    if name in ("addcmul", "addcdiv"):
        values = [(), (2,), (numbers,)]
        return [((second[0], third[0], *v), (second[1], third[1], *v)) for v in values] + [((second[0], third[0], torch.tensor(numbers)), (second[1], third[1], rl.tensor(numbers)))]
    if name == "lerp": return [((second[0], w), (second[1], v)) for w, v in (third, (0.25, 0.25), (numbers, numbers))]
    if name == "copy": return [((second[0],), (second[1],))]
    if name in ("norm", "powsum"): return [((), ()), ((3,), (3,))]
    return [((), ())]


@pytest.mark.parametrize("name", [n for n in dict.fromkeys(NAMES) if n != "mm"])
def test_agrees(name):
    for form in ("", "_"):
        theirs, ours = getattr(torch, f"_foreach_{name}{form}", None), getattr(rl, f"_foreach_{name}{form}", None)
        assert (theirs is None) == (ours is None), f"_foreach_{name}{form}"
        if theirs is None: continue
        for their_args, our_args in operands(name):
            a, b = lists()
            want, got = theirs(a, *their_args), ours(b, *our_args)
            assert len(got) == len(want)
            for x, y in zip(got, want):
                assert str(x.dtype) == str(y.dtype)
                np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-6, atol=1e-6)


def test_integers_promote_as_torch_has_it():
    for call in (lambda m, x: m._foreach_add(x, 1.5), lambda m, x: m._foreach_div(x, 2), lambda m, x: m._foreach_sqrt(x), lambda m, x: m._foreach_mul(x, [1, 2.5, 3, 4])):
        theirs, ours = lists(np.int64)
        for x, y in zip(call(rl, ours), call(torch, theirs)):
            assert str(x.dtype) == str(y.dtype)
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=2e-6)


@pytest.mark.parametrize("call", [lambda m, x: m._foreach_add([], 1), lambda m, x: m._foreach_add(x, x[:1]), lambda m, x: m._foreach_add(x, [1]), lambda m, x: m._foreach_add(x, x[0]),
                                  lambda m, x: m._foreach_add(x, 1, alpha=2), lambda m, x: m._foreach_exp("a"), lambda m, x: m._foreach_addcmul(x, x, x, x[0])])
def test_bad_input(call):
    theirs, ours = lists()
    with pytest.raises((RuntimeError, TypeError)) as expected: call(torch, theirs)
    with pytest.raises(type(expected.value)) as got: call(rl, ours)
    if expected.type is RuntimeError: assert str(got.value).split()[:6] == str(expected.value).split()[:6]
