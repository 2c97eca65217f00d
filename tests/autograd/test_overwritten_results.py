"""Results that backward does not need may be overwritten, as in torch: what an operator keeps is part of its behaviour."""
import pytest

import rushlight as rl

FREE = {"div": 2, "true_divide": 2, "mul": 2, "sub": 2, "logaddexp2": 2, "erfinv": 1, "log": 1, "nn.functional.softsign": 1, "nn.functional.silu": 1}
KEPT = {"exp": 1, "sqrt": 1, "sigmoid": 1, "tanh": 1, "reciprocal": 1}


def function(name):
    found = rl
    for part in name.split("."): found = getattr(found, part)
    return found


def gradients(name, count, overwrite):
    values = [rl.tensor([0.25, 0.5, 0.75], requires_grad=True), rl.tensor([0.4, 0.2, 0.6], requires_grad=True)][:count]
    result = function(name)(*values)
    if overwrite: result.detach().fill_(100.0)
    result.sum().backward()
    return [v.grad.tolist() for v in values]


@pytest.mark.parametrize("name", FREE)
def test_free(name): assert gradients(name, FREE[name], True) == gradients(name, FREE[name], False)


@pytest.mark.parametrize("name", KEPT)
def test_kept(name):
    with pytest.raises(RuntimeError, match="modified by an inplace operation"): gradients(name, KEPT[name], True)
