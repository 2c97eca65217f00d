"""compile(): the same bits as eager, in fewer launches, whatever the program does in between."""
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rushlight as rl
from rushlight import nn
from rushlight.compiler import capture

F = nn.functional


def bits(t):
    """Every byte of a tensor's values: -0.0, NaN payloads and all."""
    return t.dtype, tuple(t.shape), t.stride(), bytes(t.detach().contiguous().view(-1).view(rl.uint8).tolist()) if t.numel() else b''


def same(a, b):
    if isinstance(a, (tuple, list)): return len(a) == len(b) and all(map(same, a, b))
    if a is None or b is None: return a is b
    return bits(a) == bits(b)


def launches(fn, *args):
    before = rl.stats()['launches']
    fn(*args)
    return rl.stats()['launches'] - before


def check(fn, *args, cuts_allowed=False):
    """fn compiled gives eager's bits, twice; the second time without the compiler."""
    rl.manual_seed(0)
    want = fn(*args)
    compiled, cuts = rl.compile(fn), capture.counters['cuts']
    rl.manual_seed(0)
    got = compiled(*args)
    assert same(got, want)
    assert cuts_allowed or capture.counters['cuts'] == cuts             # everything recorded was joined as it should
    before = rl.stats()
    rl.manual_seed(0)
    got = compiled(*args)
    after = rl.stats()
    assert same(got, want)
    assert after['compiles'] == before['compiles'] and after['requests'] == before['requests']
    assert after['stream_hits'] - before['stream_hits'] == after['flushes'] - before['flushes']
    return want


# ------------------------------------------------------------------------------------------------------------ random chains
UNARY = [rl.neg, rl.exp, rl.tanh, rl.sigmoid, rl.relu, rl.abs, rl.sin, F.gelu, F.silu, rl.square,
         lambda x: x * 0.5 - 1, lambda x: 2 - x, lambda x: x.clamp(-1, 1), lambda x: rl.softmax(x, -1), lambda x: rl.log_softmax(x, 0),
         lambda x: F.layer_norm(x, x.shape[-1:]), lambda x: x - x.mean(-1, keepdim=True), lambda x: x / (1 + x.abs().sum(0)),
         lambda x: x * x.amax(), lambda x: x.cumsum(-1) * 0.1, lambda x: x.to(rl.float16).to(rl.float32), lambda x: x.to(rl.bfloat16) + 1,
         lambda x: x.double() * 1.1, lambda x: x.float(), lambda x: x.t(), lambda x: x.t().contiguous(), lambda x: x.reshape(-1)[::2].expand(3, -1),
         lambda x: x[1:], lambda x: x[:, ::2] + 1, lambda x: x.unsqueeze(0).squeeze(0), lambda x: x.reshape(x.shape[1], x.shape[0]),
         lambda x: rl.where(x > 0, x, x * 0.1), lambda x: x.sum(0, keepdim=True).expand(4, -1), lambda x: rl.stack([x, x * 2]).sum(0),
         lambda x: rl.cat([x, -x], 1), lambda x: x.flip(0), lambda x: x @ x.t(), lambda x: x.t().float() @ x.float()]
BINARY = [rl.add, rl.mul, rl.sub, rl.maximum, lambda a, b: a + 0.25 * b, lambda a, b: a / (b.abs() + 1)]


@st.composite
def programs(draw, most=8):
    """A chain as a list of (function, which earlier value): steps over a growing list of values, and which values are returned."""
    steps = []
    for k in range(draw(st.integers(2, most))):
        if draw(st.integers(0, 3)): steps.append((draw(st.integers(0, len(UNARY) - 1)), draw(st.integers(max(0, k - 2), k)), None))
        else: steps.append((draw(st.integers(0, len(BINARY) - 1)), draw(st.integers(0, k)), draw(st.integers(0, k))))
    kept = draw(st.sets(st.integers(1, len(steps)), max_size=2))
    return steps, sorted(kept | {len(steps)})


def run(program, x):
    steps, kept = program
    values = [x]
    for f, a, b in steps:
        a = values[a]
        if a.ndim != 2 or min(a.shape) < 2: a = x
        if b is None: values.append(UNARY[f](a))
        else:
            b = values[b]
            values.append(BINARY[f](a, b) if a.shape == b.shape else a * 1.5)
    return [values[k] for k in kept]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(programs(), st.sampled_from([(3, 4), (5, 33), (64, 3), (2, 2)]))
def test_random_chains(program, shape):
    rl.manual_seed(1)
    check(lambda x: run(program, x), rl.randn(shape), cuts_allowed=True)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(programs(6), st.sampled_from([(3, 4), (4, 33)]))
def test_random_chains_backward(program, shape):
    rl.manual_seed(2)
    start = rl.randn(shape)

    def step(start):
        x = (start * 1).requires_grad_()
        outs = run(program, x)
        sum(o.double().sum() for o in outs).backward()
        return [o.detach() for o in outs] + [x.grad]
    check(step, start, cuts_allowed=True)


def test_what_cannot_be_joined_is_cut(monkeypatch):
    """A backend that gives up on more than two kernels' worth: the same values, in smaller pieces."""
    from rushlight.compiler import join
    real = join.JoinedBuild.run

    def run(self):
        if len(self.graph.nodes) > 12: raise RuntimeError('compiler: too much for this test')
        return real(self)
    monkeypatch.setattr(join.JoinedBuild, 'run', run)
    before = dict(capture.counters)

    def f(x):
        for k in range(6): x = (x * 0.375 + k).sin() - x
        return x.cumprod(0)
    x = rl.randn(9)
    assert same(rl.compile(f)(x), f(x))
    assert capture.counters['cuts'] > before['cuts'] and capture.counters['joined'] > before['joined']


# --------------------------------------------------------------------------------------------------------------- training steps
def mlp():
    rl.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 5))


def train(compiled, optimizer, steps=5):
    model = mlp()
    opt = optimizer(model.parameters())

    def step(x, y):
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()
    if compiled: step = rl.compile(step)
    rl.manual_seed(3)
    losses, counts = [], []
    for _ in range(steps):
        x, y = rl.randn(8, 12), rl.randint(0, 5, (8,))
        before = rl.stats()
        losses.append(step(x, y))
        after = rl.stats()
        counts.append({k: after[k] - before[k] for k in ('launches', 'compiles', 'requests')})
    return losses, [p.detach() for p in model.parameters()], [p.grad for p in model.parameters()], counts


@pytest.mark.parametrize('optimizer', [lambda p: rl.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: rl.optim.AdamW(p, lr=1e-2)], ids=['sgd', 'adamw'])
def test_training_step(optimizer):
    *eager, eager_counts = train(False, optimizer)
    *fused, counts = train(True, optimizer)
    for a, b in zip(eager, fused): assert same(a, b)
    assert counts[-1]['compiles'] == counts[-1]['requests'] == 0
    assert counts[-1]['launches'] < eager_counts[-1]['launches'], (counts, eager_counts)


def test_module():
    model = mlp()
    compiled = rl.compile(model)
    x = rl.randn(3, 12)
    assert same(compiled(x), model(x))
    assert isinstance(compiled, nn.Module) and compiled._orig_mod is model
    assert list(compiled.state_dict()) == ['_orig_mod.' + k for k in model.state_dict()]
    assert [p is q for p, q in zip(compiled.parameters(), model.parameters())] == [True] * 8
    compiled.eval()
    assert not model.training and not model[0].training
    compiled(x).sum().backward()                       # backward outside: the saved values are there
    fused = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    assert same([p.grad for p in model.parameters()], fused)


# ------------------------------------------------------------------------------------------------------ fewer launches, no rests
def test_pointwise_and_row_reductions_are_one_kernel():
    def f(x, w):
        h = (x * w + 1).tanh()
        return (h - h.mean(1, keepdim=True)) * 2
    x, w = rl.randn(64, 32), rl.randn(32)
    check(f, x, w)
    assert launches(rl.compile(f), x, w) == 1 < launches(f, x, w)


def test_dead_results_are_not_computed():
    def f(x):
        (x.exp() + 1).sum()
        return x * 2
    compiled = rl.compile(f)
    x = rl.randn(10)
    compiled(x)
    before = rl.stats()['launches']
    compiled(x)
    assert rl.stats()['launches'] - before == 1


def test_other_sizes_need_no_compiler():
    def f(x, y): return ((x @ y).relu() + 1).softmax(1).sum(0)
    compiled = rl.compile(f)
    for n, m in ((4, 6), (5, 9)): compiled(rl.randn(n, m), rl.randn(m, n + 1))
    before = rl.stats()['compiles']
    for n, m in ((7, 13), (40, 50), (2, 3)):
        x, y = rl.randn(n, m), rl.randn(m, n + 1)
        assert same(compiled(x, y), f(x, y))
    assert rl.stats()['compiles'] == before


def test_sizes_that_happen_to_be_one():
    """A window over all of an image: the convolution has a polynomial where the call after it has 1. Other sizes follow, of one stream and of others."""
    def f(x, w): return F.silu(F.conv2d(x, w) * 0.5 + 1)
    compiled = rl.compile(f)
    for x, w in (((1, 4, 5, 7), (6, 4, 5, 7)), ((1, 4, 6, 7), (6, 4, 5, 7)), ((1, 4, 6, 8), (6, 4, 5, 7)), ((1, 3, 4, 4), (5, 3, 4, 4)), ((2, 3, 4, 4), (5, 3, 4, 4)), ((1, 3, 4, 1), (5, 3, 4, 1))):
        x, w = rl.randn(*x), rl.randn(*w)
        assert same(compiled(x, w), f(x, w))
    check(lambda x, w: F.relu(F.conv1d(x, w) + 1).sum(1), rl.randn(1, 3, 9), rl.randn(4, 3, 9), cuts_allowed=True)


def test_scalars_are_run_time_numbers():
    def f(x, a, b): return (x * a + b) / a
    compiled, x = rl.compile(f), rl.randn(5)
    compiled(x, 2.0, 3.0)
    before = rl.stats()['streams']
    for a, b in ((1.5, -2.0), (math.inf, 0.0), (-0.25, 1e30)): assert same(compiled(x, a, b), f(x, a, b))
    assert rl.stats()['streams'] == before


# ------------------------------------------------------------------------------------------------------ in place, views, aliases
def test_in_place():
    def f(x, buffer):
        y = x * 2
        y.add_(1).mul_(y)
        buffer.mul_(0.5)
        buffer[1:3].add_(y[1:3])
        y[0] = 7
        z = buffer.view(2, 2).t() + y.view(2, 2)
        z += 1
        return y, z, buffer.clone()
    eager, compiled = rl.arange(4.0), rl.arange(4.0)
    x = rl.randn(4)
    want = f(x, eager)
    assert same(rl.compile(f)(x, compiled), want) and same(eager, compiled)


def test_reads_come_before_writes():
    """A recorded read of a tensor that is then written by something that is not recorded."""
    def f(x, w):
        y = x * 2
        x.uniform_(0, 1)
        a = x + 1
        x[0] = 5
        b = x + 1
        x.storage_offset()
        c = w + 1
        w.zero_()
        d = w + 2
        w.fill_(3)
        return y, a, b, c, d, w * 1
    for fn in (f, rl.compile(f)):
        rl.manual_seed(0)
        x, w = rl.ones(3), rl.ones(3)
        got = fn(x, w)
        if fn is f: want = got
    assert same(got, want)


def test_aliases_of_an_input():
    def f(x):
        v = x.t()
        y = v + 1
        v.mul_(3)
        return y, x + v.t(), x[0] * 2
    a, b = rl.ones(3, 3), rl.ones(3, 3)
    assert same(rl.compile(f)(a), f(b)) and same(a, b)


def test_views_of_results():
    def f(x):
        y = x.exp()
        return (y[1:, ::3] + 1, y.t()[2] * 2, y.view(-1)[5:9].neg(), y.unsqueeze(1).expand(-1, 3, -1).sum(2), y.diagonal() * 2, y.reshape(2, 2, 6).permute(2, 0, 1) + 0,
                y[None, 1] * y[:, None], y.as_strided((2, 2), (1, 1)) * 1, y.view(rl.int32) + 1)
    check(f, rl.randn(4, 6))


def test_results_that_are_views_or_arguments():
    def f(x):
        y = x + 1
        return y.t(), y[0], x, x.view(-1)
    x = rl.randn(2, 3)
    got = rl.compile(f)(x)
    assert same(got, f(x)) and got[2] is x and got[0].t().data_ptr() == got[1].data_ptr()


def test_out():
    def f(x, out):
        y = x + 1
        rl.mul(y, 2, out=out)
        return out + y
    a, b, x = rl.empty(3), rl.empty(3), rl.randn(3)
    assert same(rl.compile(f)(x, a), f(x, b)) and same(a, b)


# ------------------------------------------------------------------------------------------------------------ Python in between
def test_values_are_there_when_python_asks(capsys):
    def f(x):
        y = (x * 2).sum()
        print(y, y.item(), bool(y > 0), float(y + 1), y.tolist(), (y * 3).numpy())
        if y > 0: return y * 2
        return y * 3
    for x in (rl.ones(3), -rl.ones(3)):
        want = f(x)
        text = capsys.readouterr().out
        assert same(rl.compile(f)(x), want) and capsys.readouterr().out == text


def test_nested_and_decorator_forms():
    @rl.compile
    def inner(x): return x * 2 + 1

    @rl.compile(fullgraph=True, dynamic=True, mode='max-autotune')
    def outer(x): return inner(x).relu() + inner(x * 2)
    x = rl.randn(6)
    want = (x * 2 + 1).relu() + (x * 2 * 2 + 1)
    assert same(outer(x), want)
    before = rl.stats()['flushes']
    outer(x)
    assert rl.stats()['flushes'] == before + 1
    assert inner.__name__ == 'inner'
    def plain(x): return x
    assert rl.compile(plain, disable=True) is plain
    with pytest.raises(TypeError): rl.compile(3)
    with pytest.raises(TypeError): rl.compile(plain, no_such_option=1)


def test_an_exception_leaves_everything_computed():
    kept = []

    def f(x):
        y = x * 2 + 1
        kept.append(y)
        raise KeyError('stop')
    x = rl.randn(4)
    with pytest.raises(KeyError, match='stop'): rl.compile(f)(x)
    assert same(kept[0], x * 2 + 1)
    assert same(rl.compile(lambda x: x + 1)(x), x + 1)         # recording is off and on again as it should
    assert not capture.is_compiling() and rl._C.recording() == []


def test_an_error_of_values_names_the_line():
    def f(table, index):
        good = table * 2
        return good[index] + 1
    with pytest.raises(IndexError) as caught: rl.compile(f)(rl.ones(3), rl.tensor([0, 7]))
    assert any('test_capture.py' in note and ' in f at' in note for note in caught.value.__notes__)
    kept, before = [], []

    def later(table, index):
        before.append(table * 3)
        bad = table[index]
        kept.extend([bad, bad * 2, table + 1])
        return kept[1]
    with pytest.raises(IndexError): rl.compile(later)(rl.ones(3), rl.tensor([0, 7]))
    assert before[0].tolist() == [3.0] * 3
    for lost in kept:                                  # recorded after the failing call, or made by it: no number is made up
        with pytest.raises(RuntimeError, match='never computed'): lost.tolist()
        with pytest.raises(RuntimeError, match='never computed'): rl.compile(lambda x: x * 2 + 1)(lost)
    with pytest.raises(IndexError): rl.compile(lambda t, i: (t[i] * 2, t + 1)[1])(rl.ones(3), rl.tensor([7]))      # although nobody wants the value


def test_draws_keep_their_order():
    def f(x):
        a = x * 2
        m = rl.rand(4)
        b = F.dropout(a, 0.5) + m
        return b * rl.randn(4), rl.randint(0, 9, (3,))
    check(f, rl.ones(4))


def test_disable_runs_at_once():
    seen = []

    @rl.compiler.disable
    def now(x):
        y = x + 1
        seen.append(len(rl._C.recording()))
        return y

    def f(x): return now(x * 2) * 3
    x = rl.randn(3)
    assert same(rl.compile(f)(x), (x * 2 + 1) * 3) and seen == [0]


def test_grad_modes_double_backward_and_hooks():
    def f(x):
        x = (x * 1).requires_grad_()
        hooked = []
        y = (x ** 3).sum()
        y.register_hook(lambda g: hooked.append(g) or g * 2)
        g, = rl.autograd.grad(y, x, create_graph=True)
        (g * g).sum().backward()
        with rl.no_grad(): z = x * 2
        return x.grad, g.detach(), z, hooked[0].detach()
    check(f, rl.randn(5))


def test_many_calls_and_many_streams():
    def f(x, n):
        for k in range(n): x = (x * 1.01 + k).sin()
        return x
    x = rl.randn(7)
    compiled = rl.compile(f)
    assert same(compiled(x, 100), f(x, 100))
    for n in range(1, 300): compiled(x, 1) if n % 2 else compiled(x[:n % 7 + 1], 1)
    assert rl.stats()['streams'] <= 256


@pytest.mark.parametrize('dtype', [rl.float16, rl.bfloat16, rl.float64, rl.complex64, rl.int32, rl.bool], ids=str)
def test_dtypes(dtype):
    def f(x):
        y = x + x
        z = y * x
        return z, (z == y), z.sum(), z.to(rl.float32) if not dtype.is_complex else z.conj() * y
    x = (rl.randn(40) * 3).to(dtype) if not dtype.is_complex else rl.complex(rl.randn(40), rl.randn(40)) if hasattr(rl, 'complex') else rl.randn(40).to(dtype)
    check(f, x)


def test_empty_and_zero_dim():
    check(lambda x, s: ((x * 2).sum(0) + s, x + 1, s * 2 + 1), rl.empty(0, 3), rl.tensor(2.0))


def test_memory_that_others_look_at_is_written_at_once():
    @rl.compile
    def f(x):
        seen = x.numpy()
        x.add_(1)
        first = float(seen[0])
        result = x * 2
        made = result.numpy()
        result.mul_(10)
        return first, float(made[0]), result
    assert f(rl.zeros(3))[:2] == (1, 20)
    array = np.zeros(3, "float32")
    def write(x):
        x.fill_(3)
        return float(array[1])
    assert rl.compile(write)(rl.from_numpy(array)) == 3
