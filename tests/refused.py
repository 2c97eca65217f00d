"""Programs that must be refused, and how torch 2.13 refuses them (stored in refused.json: the exception's type and its first words).

`python tests/refused.py` writes the file anew; that needs torch. Each line of PROGRAMS is one program; `names` says what it may use.
conformance/test_bad_input.py compares many more with torch itself; these are the ones that must hold where torch is absent.
"""
import copy
import io
import json
import pathlib
import warnings

import numpy as np

FILE = pathlib.Path(__file__).with_suffix(".json")

PROGRAMS = """
# shapes
x + m.ones(2)
x.add_(m.ones(4))
m.add(x, x, out=x[0].expand(2, 3))
x @ x
m.mm(x, v)
m.bmm(x, x)
x.view(4)
x.view(-1, -1)
x.view(5, -1)
x.reshape(7)
x.t().view(6)
x.expand(4, 3)
x.expand(3)
x.permute(0, 0)
x.permute(0)
x.transpose(0, 5)
x.squeeze(4)
x.unsqueeze(9)
m.cat([x, m.ones(2, 4)])
m.cat([])
m.stack([x, v])
x.split(-1)
x.narrow(0, 1, 5)
x.narrow(0, 0, -1)
x.select(0, 5)
x.unfold(0, 5, 1)
x.diagonal(0, 0, 0)
x.as_strided((3,), (1, 1))
x.as_strided((100,), (1,))
x.as_strided((2,), (-1,))
x.flatten(1, 0)
x.unbind(3)
F.linear(x, m.ones(4, 5))
F.layer_norm(x, (4,))
F.cross_entropy(x, m.tensor([0, 1, 2]))
# dtypes
i / 'a'
i.add_(1.5)
i.div_(2)
i.sqrt_()
m.add(x, x, out=i)
b - b
-b
~x
x & x
x << 1
i.mean()
m.softmax(i, 1)
x[m.tensor([0.5])]
x.gather(0, x)
m.ones(2, dtype=m.int64, requires_grad=True)
i.requires_grad_()
z < z
z.max()
m.mm(x, d.t())
x.view(m.int64)
F.embedding(x, x)
m.rand(2, dtype=m.int64)
i.normal_()
m.promote_types(x, x)
m.stft(m.ones(64, dtype=m.bfloat16), 16, return_complex=True)
m.stft(m.ones(64, dtype=m.float16), 16, return_complex=True)
m.fft.fft(m.ones(8, dtype=m.complex32))
m.istft(m.ones(9, 17, dtype=m.complex32), 16)
# devices
m.device('nowhere')
m.device('cpu:x')
m.zeros(2, device='nowhere')
x.to('nowhere')
m.empty(2, device='meta').item()
m.empty(2, device='meta').tolist()
m.empty(2, device='meta').numpy()
m.empty(2, device='meta').to('cpu')
# indices
x[5]
x[0, 0, 0]
x[:, 3]
x[-3]
x[::-1]
x[::0]
x['a']
x[0.5]
x[1.5:2]
x[m.tensor([0, 5])]
x[m.tensor([-3])]
x[m.tensor([True])]
x[:, m.tensor([True, False])]
x[[0, 5]] = 1.0
x[m.tensor([0, 7])] = m.ones(2, 3)
x[0] = m.ones(4)
x[0] = 'a'
x[b] = m.ones(5)
x[m.tensor([0, 1]), m.tensor([0, 1, 2])]
s[0]
del x[0]
x.index_select(0, m.tensor([0, 9]))
x.index_select(0, x)
x.gather(1, m.tensor([[0, 9]]))
x.gather(0, m.tensor([0]))
x.scatter_(1, m.tensor([[0, 9]]), 1.0)
x.scatter_add_(0, m.tensor([[0, 1, 9]]), m.ones(1, 3))
x.index_fill_(0, m.tensor([9]), 1.0)
F.embedding(m.tensor([0, 9]), x)
F.nll_loss(x, m.tensor([0, 9]))
F.one_hot(m.tensor([-1]))
# sizes that are negative, not numbers, too large
m.zeros(-1)
m.ones(2, -3)
m.empty((2, -1))
m.zeros(float('nan'))
m.zeros(2.5)
m.zeros('a')
m.full((2.0,), 1)
m.zeros(float('inf'))
m.empty(1 << 62, 1 << 62)
m.empty(1 << 63)
m.zeros(10 ** 30)
m.empty(1 << 40, 1 << 12)
m.empty_strided((2, 2), (1,))
m.empty_strided((2,), (-1,))
m.eye(-1)
m.arange(0, 1, 0)
m.arange(0, float('nan'))
m.arange(0, float('inf'))
m.arange(0, 3, 1, 5)
m.linspace(0, 1, -1)
m.linspace(0, 1, True)
m.linspace(1e10, 0, 2, dtype=m.int32)
m.linspace(-1.5, 0, 2, dtype=m.uint8)
m.logspace(float('nan'), 1, 2, dtype=m.int32)
m.logspace(10, 1, 1, dtype=m.int32)
m.logspace(0, 1, 3, dtype=m.bool)
m.tril_indices(2, 2, dtype=m.float32)
x.transpose(0, 2 ** 70)
x.size(2 ** 70)
x.softmax(-2 ** 70)
m.randperm(-1)
m.rand(-2)
m.randint(5, 5, (2,))
x.view(1 << 63)
x.expand(-1, -1, -1)
x.expand(-2, 3)
x.repeat(-1, 1)
x.repeat(2)
x.new_zeros(-1)
m.ones(2).unfold(0, -1, 1)
m.ones(2).unfold(0, 1, 0)
# keywords and arguments
m.add(x)
m.mul(x, x, x, x)
m.mul(x, other=x, nonsense=2)
m.mul(x, 'a')
m.exp()
m.exp(1)
m.sum(x, 'a')
m.softmax(x)
x.sum(0, dim=0)
x.view()
x.to(m.float64, nonsense=1)
m.zeros(2, dtype=3)
m.zeros(2, dtype='float')
m.zeros(2, requires_grad=1)
m.clamp(x)
m.tensor()
m.tensor('a')
m.tensor([1, 'a'])
m.tensor([[1], [1, 2]])
m.tensor([1 << 70])
m.tensor([None])
m.tensor({})
m.tensor(object())
m.tensor(300, dtype=m.uint8)
m.as_tensor([[1], 2])
m.Tensor(2.5)
m.set_default_dtype(m.int64)
m.set_default_dtype(3)
m.manual_seed('a')
bool(x)
int(x)
float(m.ones(2))
len(s)
list(s)
x.item()
hash([x])
x.shape = (3, 2)
x.grad = 3
x.grad = m.ones(5)
x.data = 3
x.requires_grad = 1
# overlapping memory
v.expand(2, 3).add_(1)
x[:, :1].expand(2, 3).mul_(2)
x.view(6)[1:].add_(x.view(6)[:-1])
x.view(6)[1:].copy_(x.view(6)[:-1])
m.add(x, x, out=v.expand(2, 3))
v.expand(2, 3).copy_(x)
# the graph
x.backward()
x.sum().backward()
(leaf * 2).backward()
(leaf * 2).backward(m.ones(2))
leaf.sum().backward(m.ones(2))
y = (leaf * leaf).sum(); y.backward(); y.backward()
y = leaf.exp(); y.mul_(2); y.sum().backward()
w = m.ones(2, 3); y = (leaf * w).sum(); w.add_(1); y.backward()
y = leaf * 2; z = (y * y).sum(); y[0].zero_(); z.backward()
leaf.add_(1)
leaf[0] = 1.0
leaf.view(6).mul_(2)
leaf.t_()
leaf.resize_(2)
leaf.numpy()
(leaf * 2).requires_grad_(False)
leaf.unbind()[0].mul_(2)
y = leaf * 1; y.unbind()[0].mul_(2)
y = leaf * 1; a, c = y.split(1); a.add_(1)
a = m.no_grad()(lambda: leaf.view(6))(); a.mul_(2)
m.add(leaf, leaf, out=x)
m.autograd.grad(x.sum(), x)
m.autograd.grad((leaf * 2).sum(), v)
m.autograd.grad((leaf * 2).sum(), m.ones(3, requires_grad=True))
m.autograd.grad(leaf * 2, leaf)
m.autograd.backward([leaf.sum()], [1])
leaf.sum().backward(inputs=[])
x.register_hook(print)
x.retain_grad()
(leaf * 2).register_post_accumulate_grad_hook(print)
leaf.register_hook(lambda g: m.ones(7)); leaf.sum().backward()
leaf.register_hook(lambda g: 'a'); leaf.sum().backward()
copy.deepcopy(leaf * 2)
leaf.detach().requires_grad_().detach_().backward()
a = m.inference_mode()(lambda: m.ones(3))(); (a * leaf[0]).sum().backward(); (m.ones(3, requires_grad=True) * a).sum()
a = m.inference_mode()(lambda: m.ones(3))(); a.requires_grad_()
a = m.inference_mode()(lambda: m.ones(3))(); a.add_(1)
# foreign arrays and memory
m.from_numpy([1])
m.from_numpy(np.array(['a']))
m.from_numpy(np.array([object()]))
m.from_numpy(np.arange(3)[::-1])
m.from_numpy(np.zeros(2, dtype='>f4'))
m.from_numpy(np.zeros(2, dtype=[('a', 'i4')]))
m.tensor(np.array(['a']))
m.as_tensor(np.array([None]))
m.tensor(np.array('2020-01-01', dtype='datetime64[D]'))
m.from_dlpack(3)
m.frombuffer(b'abc', dtype=m.int32)
m.frombuffer(bytearray(b''), dtype=m.int32)
m.frombuffer(bytearray(b'abcd'), dtype=m.int32, offset=9)
m.frombuffer(bytearray(b'abcd'), dtype=m.int32, count=7)
m.frombuffer(3, dtype=m.int32)
m.tensor([1j]).conj().numpy()
m.ones(2, dtype=m.bfloat16).numpy()
a = x.numpy(); x.resize_(100)
x.set_(i)
x.set_(x.untyped_storage(), -1, (2,), (1,))
x.set_(3)
x.untyped_storage()[99]
x.as_subclass(list)
m.Tensor._make_subclass(list, x)
m.Generator().set_state(m.zeros(3))
m.Generator().set_state(m.zeros(3, dtype=m.uint8))
m.Generator().manual_seed(2 ** 65)
m.load(io.BytesIO(b'nonsense'))
m.load(io.BytesIO(b''))
m.set_num_threads(0)
m.set_num_threads('a')
"""


def programs():
    return [line for line in PROGRAMS.strip().splitlines() if not line.startswith("#")]


def names(m):
    """x (2, 3) float, v (3,), i (2, 3) int64, b (2, 3) bool, s without dimensions, z complex, d double, leaf: requires grad."""
    x = m.arange(6.0).reshape(2, 3) + 1
    return {"m": m, "F": m.nn.functional, "np": np, "copy": copy, "io": io, "x": x, "v": m.ones(3), "i": m.arange(6).reshape(2, 3), "b": x > 2,
            "s": m.tensor(1.0), "z": m.ones(2, 3, dtype=m.complex64), "d": m.ones(2, 3, dtype=m.float64), "leaf": m.ones(2, 3, requires_grad=True)}


def refusal(m, program):
    """(type's name, message, tensors that were written to although it was refused); None if it is not refused."""
    scope = names(m)
    given = {k: v for k, v in scope.items() if isinstance(v, m.Tensor)}
    bits = lambda: {k: (tuple(v.shape), v.detach().numpy().tobytes()) for k, v in given.items()}
    *setup, last = program.split("; ")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for step in setup: exec(step, scope)
            before = bits()
            try:
                exec(last, scope)
                return None
            except Exception as error:
                after = bits()
                return type(error).__name__, str(error), [k for k in before if before[k] != after[k]]
        except Exception as error:                               # one of the first steps is the one that is refused
            return type(error).__name__, str(error), []


def first_words(text):
    """As much of a message as is compared: the beginning of the first line, without torch's own file and line."""
    line = text.strip().splitlines()[0] if text.strip() else ""
    line = line.rpartition("] err == 0. ")[2]                     # "[enforce fail at alloc_cpu.cpp:…] err == 0. DefaultCPUAllocator: …"
    return line[:70].rstrip()


def write():
    import torch
    stored = {}
    for program in programs():
        found = refusal(torch, program)
        assert found is not None, f"torch accepts: {program}"
        stored[program] = [found[0], first_words(found[1])]
    FILE.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in stored.items()) + "\n}\n")


if __name__ == "__main__":
    write()
