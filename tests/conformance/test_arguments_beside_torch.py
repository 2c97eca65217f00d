"""What passes for a number, a size, a dim or a truth value: the same arguments are taken and refused as torch's, with the same results."""
import numpy as np
import pytest
import torch
from bridge import difference, to_rl
from opdb import Attempt, same_type

import rushlight as rl


class Index:
    def __index__(self): return 1


class Number:
    def __float__(self): return 1.0


VALUES = {"int": 1, "float": 1.0, "bool": True, "numpy bool": np.bool_(True), "numpy int64": np.int64(1), "numpy uint8": np.uint8(1), "numpy float32": np.float32(1), "numpy float64": np.float64(1),
          "__index__": Index(), "__float__": Number(), "0-dim": torch.tensor(1), "0-dim float": torch.tensor(1.0), "one element": torch.tensor([1]), "requires grad": torch.tensor(1.0, requires_grad=True),
          "2**63": 2 ** 63, "2**64 - 1": 2 ** 64 - 1, "2**64": 2 ** 64, "-2**63 - 1": -2 ** 63 - 1, "text": "1", "none": None}
# Calls over the namespace of a library: f, i, m are tensors, v is the value.
CALLS = """
torch.add(f, v)
torch.add(i, v)
f + v
i * v
v - f
v - i
i == v
i < v
i / v
i.pow(v)
f.pow(v)
i.clamp(v)
i.clamp_max(v)
f.clamp(max=v)
i.masked_fill(i > 1, v)
f.masked_fill(f > 1, v)
torch.add(i, i, alpha=v)
torch.full((2,), v)
i.clone().fill_(v)
f.clone().fill_(v)
m.sum(0, keepdim=v)
m.sort(descending=v)
m.var(unbiased=v)
m.var(correction=v)
m.norm(v)
torch.norm(m, p=v)
torch.linalg.norm(m, v)
torch.linalg.matrix_norm(m, v)
torch.linalg.vector_norm(m, v)
m.transpose(0, v)
m.softmax(v)
m.unsqueeze(v)
m.argmax(v)
m.cumsum(v)
m.chunk(v)
m.flatten(v)
torch.cat([m, m], v)
torch.stack([m, m], dim=v)
m.topk(v)
m.select(0, v)
torch.zeros(v)
torch.zeros(2, v)
torch.zeros((2, v))
f[:1].view(v)
f.repeat(v)
torch.eye(v)
torch.arange(v)
m.tril(v)
F.one_hot(i, v)
F.batch_norm(m, None, None, training=v)
torch.tensordot(m, m.t(), v)
torch.result_type(f, v)
torch.result_type(i, v)
f.repeat_interleave(v)
F.layer_norm(m, (3,), eps=v)
F.leaky_relu(f, v)
""".strip().splitlines()
# Refused by both, as another type of exception; or (sizes of result_type, masked_fill's value with a graph) taken by one.
HUGE = ("2**63", "2**64 - 1", "2**64", "-2**63 - 1")
ELSEWHERE = {*(("torch.arange(v)", name) for name in HUGE), *((f"torch.result_type({t}, v)", name) for t in "fi" for name in HUGE[2:]), ("F.one_hot(i, v)", "-2**63 - 1"),
             *(("f.repeat_interleave(v)", name) for name in ("0-dim float", "requires grad", "none")), ("i.masked_fill(i > 1, v)", "requires grad")}


def names(library, convert):
    f, i, m = torch.tensor([1.5, 2.0, -3.0]), torch.tensor([1, 2, 3]), torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, 2.0]])
    return {"torch": library, "F": library.nn.functional, "f": convert(f), "i": convert(i), "m": convert(m)}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call, name", [(call, name) for call in CALLS for name in VALUES if (call, name) not in ELSEWHERE])
def test_taken_as_torch_takes_it(call, name):
    code, value = compile(call, "<call>", "eval"), VALUES[name]
    theirs = Attempt(eval, (code, {**names(torch, lambda t: t), "v": value}), {})
    ours = Attempt(eval, (code, {**names(rl, to_rl), "v": to_rl(value)}), {})
    if theirs.error is not None:
        if "INTERNAL ASSERT" in str(theirs.error) or "isIntegral" in str(theirs.error): return
        assert ours.error is not None, f"torch: {theirs.error}"
        assert same_type(ours.error, theirs.error), (ours.error, theirs.error)
    else:
        assert ours.error is None, ours.error
        if isinstance(theirs.result, (torch.Tensor, tuple, list)): assert difference(ours.result, theirs.result) is None
        else: assert str(ours.result).replace("rushlight", "torch") == str(theirs.result)


@pytest.mark.parametrize("dtype", ("uint8", "int8", "int16", "int32"))
@pytest.mark.parametrize("value", (-2 ** 31 - 1, -32769, -129, -1, 127, 128, 255, 256, 32768, 2 ** 31))
def test_numbers_that_a_dtype_does_not_hold(dtype, value):
    for name in ("pow", "clamp", "clamp_min", "clamp_max", "fill_", "add", "mul", "eq"):
        theirs, ours = (Attempt(getattr(library.tensor([1, 2, 100], dtype=getattr(library, dtype)), name), (value,), {}) for library in (torch, rl))
        assert type(theirs.error) is type(ours.error), (name, theirs.error, ours.error)
        assert difference(ours.result, theirs.result) is None if theirs.error is None else str(ours.error)[:50] == str(theirs.error)[:50], name


@pytest.mark.parametrize("shape, weight", [((1, 2, 0), (2, 3, 3)), ((1, 2, 4), (2, 3, 0)), ((1, 2, 4), (2, 0, 3)), ((1, 2, 2), (2, 3, 1)), ((0, 2, 4), (2, 3, 3)), ((0, 2, 0), (2, 3, 3)),
                                           ((1, 2, 0, 3), (2, 3, 3, 3)), ((1, 2, 3, 3), (2, 3, 0, 3))])
def test_transposed_convolutions_of_nothing(shape, weight):
    padding = 1 if weight[-1] == 1 else 0
    theirs, ours = (Attempt(getattr(library.nn.functional, f"conv_transpose{len(shape) - 2}d"), (library.ones(shape), library.ones(weight)), {"padding": padding}) for library in (torch, rl))
    assert type(theirs.error) is type(ours.error), (theirs.error, ours.error)
    if theirs.error is None: assert difference(ours.result, theirs.result) is None
    else: assert str(theirs.error).split()[:5] == str(ours.error).split()[:5]
