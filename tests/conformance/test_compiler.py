"""The compiler against torch, without the runtime: recipes replayed in Python (tests/replay.py), forward, backward and twice backward."""
import itertools

import numpy as np
import pytest

torch = pytest.importorskip('torch')

import replay  # noqa: E402

from rushlight import plans  # noqa: E402

F = torch.nn.functional
RNG = np.random.default_rng(0)


def f(*shape): return RNG.standard_normal(shape).astype(np.float32)
def p(*shape): return (RNG.random(shape) + 0.1).astype(np.float32)
def i(high, *shape): return RNG.integers(0, high, shape)


# name, arguments, arguments that want a gradient, torch's function
CASES = [
    ('add', (f(3, 4), f(4)), (0, 1), torch.add), ('add', (f(3, 4), 2.5), (0,), torch.add), ('add', (i(9, 3), 2.5), (), torch.add),
    ('mul', (f(3, 1), f(1, 4)), (0, 1), torch.mul), ('div', (f(3, 4), p(4)), (0, 1), torch.div), ('pow', (p(3, 4), f(3, 4)), (0, 1),
        torch.pow),
    *[(n, (p(3, 4),), (0,), getattr(torch, n))
        for n in 'exp tanh sigmoid sin cos log sqrt erf log1p expm1 rsqrt square reciprocal'.split()],
    ('sum', (f(3, 4, 5), (0, 2)), (0,), lambda x, d: x.sum(d)), ('sum', (f(3, 4, 5),), (0,), torch.sum), ('mean', (f(3, 4, 5), (1,)), (0,),
        lambda x, d: x.mean(d)),
    ('amax', (f(3, 4), (1,)), (0,), torch.amax), ('maximum', (f(3, 4), f(3, 4)), (0, 1), torch.maximum), ('prod', (f(3, 4), 1), (0,),
        torch.prod),
    ('var', (f(3, 4), (1,)), (0,), lambda x, d: x.var(d)), ('std', (f(3, 4), (1,)), (0,), lambda x, d: x.std(d)),
    ('logsumexp', (f(3, 4), (1,)), (0,), torch.logsumexp), ('cumsum', (f(3, 4), 1), (0,), torch.cumsum), ('softmax', (f(3, 4), 1), (0,),
        torch.softmax),
    ('log_softmax', (f(3, 4), 1), (0,), torch.log_softmax), ('where', (f(3, 4) > 0, f(3, 4), f(4)), (1, 2), torch.where), ('gelu', (f(3,
        4),), (0,), F.gelu),
    ('silu', (f(3, 4),), (0,), F.silu), ('relu', (f(3, 4),), (0,), torch.relu), ('softplus', (f(3, 4),), (0,), F.softplus),
    ('mm', (f(3, 4), f(4, 5)), (0, 1), torch.mm), ('matmul', (f(2, 3, 4), f(4, 5)), (0, 1), torch.matmul), ('bmm', (f(2, 3, 4), f(2, 4,
        5)), (0, 1), torch.bmm),
    ('linear', (f(3, 4), f(5, 4), f(5)), (0, 1, 2), F.linear), ('layer_norm', (f(3, 4), (4,), f(4), f(4), 1e-5), (0, 1, 2), F.layer_norm),
    ('cross_entropy', (f(5, 7), i(7, 5)), (0,), F.cross_entropy), ('nll_loss', (f(5, 7), i(7, 5)), (0,), F.nll_loss), ('mse_loss', (f(5,
        7), f(5, 7)), (0, 1), F.mse_loss),
    ('gather', (f(3, 4), 1, i(4, 3, 2)), (0,), torch.gather), ('index_select', (f(3, 4), 1, i(4, 3)), (0,), torch.index_select),
    ('clamp', (f(3, 4), -0.5, 0.5), (0,), torch.clamp), ('argmax', (f(3, 4), 1), (), torch.argmax), ('tril', (f(4, 4), 0), (0,),
        torch.tril),
    ('flip', (f(3, 4), (0,)), (0,), torch.flip), ('roll', (f(3, 4), (1,), (1,)), (0,), torch.roll), ('repeat', (f(3, 4), (2, 2)), (0,),
        lambda x, r: x.repeat(r)),
]
IDS = [f'{c[0]}{n}' for n, c in enumerate(CASES)]


def close(ours, theirs, tol=3e-4):
    if ours is None or theirs is None:
        assert (0 if ours is None else np.abs(ours).max(initial=0)) == (0 if theirs is None else theirs.abs().max())
        return
    theirs = theirs.detach().numpy()
    assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=tol, atol=tol)


def in_torch(args, wants):
    tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
    places = [k for k, a in enumerate(args) if isinstance(a, np.ndarray)]
    xs = [tensors[places[w]].requires_grad_() for w in wants]
    return tensors, xs


@pytest.mark.parametrize('name, args, wants, function', CASES, ids=IDS)
def test_forward_backward_and_twice(name, args, wants, function):
    tensors, xs = in_torch([a.copy() if isinstance(a, np.ndarray) else a for a in args], wants)
    result = function(*tensors)
    if not wants:
        close(replay.call(name, *args)[0], result)
        return
    flat = flattened(name, args, wants)
    outs, tape = replay.call(name, *args, grad=flat)
    close(outs[0], result)
    g = torch.from_numpy(RNG.standard_normal(result.shape).astype(np.float32)).requires_grad_()
    first = torch.autograd.grad(result, xs, g, create_graph=True)
    n, saved = len(tape.shapes), tape.saved
    everything = [0] + [n + k for k, s in enumerate(saved) if s.dtype.kind == 'f']
    ours, again = tape.backward([g.detach().numpy()], flat, grad=everything)
    for a, b in zip(ours, first): close(a, b)
    seeds = [torch.from_numpy(RNG.standard_normal(t.shape).astype(np.float32)) for t in first]
    live = [(t, v) for t, v in zip(first, seeds) if t.requires_grad]
    second = torch.autograd.grad([t for t, _ in live], [g] + xs, [v for _, v in live], allow_unused=True)
    if any(t is not None and t._is_zerotensor() for t in second) or again.recipe['backward'] is None: return
    back = again.backward([v.numpy() for v in seeds], everything)
    # Gradients of saved outputs and hidden values go on through the first node.
    total, through = {k: 0.0 for k in flat}, [None] * n
    for bit, value in zip(everything[1:], back[1:]):
        kind, k = tape.recipe['saves'][bit - n]
        if value is None: continue
        if kind == 'arg':
            if k in total: total[k] = total[k] + value
        else: through[k + (len(outs) if kind == 'hidden' else 0)] = value
    if any(v is not None for v in through):
        for k, v in zip(flat, tape.backward(through, flat)):
            if v is not None: total[k] = total[k] + v
    for a, b in zip([back[0]] + [total[k] for k in flat], second):
        a, b = (0.0 if v is None else np.asarray(v) for v in (a, b if b is None else b.detach().numpy()))
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def flattened(name, args, wants):
    """Positions among the flattened tensor arguments (numbers in Tensor|Scalar places count)."""
    _, call = replay.make_request(name, args, {})
    present = [k for k, t in enumerate(call.tensors) if t is not None]
    return tuple(present[w] for w in wants)


# ----------------------------------------------------------------------------------------------------------------- layouts
def layouts(shape):
    """Tensors of one shape in different memory: dense, permuted, sliced, expanded."""
    n = len(shape)
    yield torch.randn(shape)
    for order in itertools.permutations(range(n)):
        yield torch.randn([shape[d] for d in order]).permute([order.index(d) for d in range(n)])
    yield torch.randn([s * 2 for s in shape])[tuple(slice(None, None, 2) for _ in shape)]
    yield torch.randn((1,) + shape[1:]).expand(shape)


@pytest.mark.parametrize('shape', [(3, 4), (2, 3, 4), (2, 1, 4)])
def test_pointwise_results_lie_in_memory_as_torchs(shape):
    pool = list(layouts(shape)) + [torch.randn(shape[-1:])]
    for a, b in itertools.product(pool, pool):
        if a.ndim == b.ndim == 1: continue
        want = a + b
        got, = replay.call('add', a.numpy(), b.numpy())
        assert np.array_equal(got, want.numpy())
        live = [d for d in range(want.ndim) if want.shape[d] > 1]
        assert [got.strides[d] // 4 for d in live] == [want.stride(d) for d in live], (a.shape, a.stride(), b.shape, b.stride())


@pytest.mark.parametrize('name', ['add', 'mul', 'softmax', 'sum', 'layer_norm'])
def test_any_strides_same_bits(name):
    shape = (3, 4)
    for x in layouts(shape):
        more = {'add': [f(3, 4)], 'mul': [f(4)], 'softmax': [1], 'sum': [(1,)], 'layer_norm': [(4,), f(4), f(4), 1e-5]}[name]
        strided, dense = x.numpy(), np.ascontiguousarray(x.numpy())
        assert np.array_equal(replay.call(name, strided, *more)[0], replay.call(name, dense, *more)[0])


def test_in_place_writes_self():
    for x in layouts((3, 4)):
        if 0 in x.stride(): continue
        y, ours = f(4), x.clone(memory_format=torch.preserve_format)
        want = x + torch.from_numpy(y)
        replay.call_inplace('add', ours.numpy(), y)
        assert torch.equal(ours, want)


def test_in_place_refuses_what_does_not_fit():
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        replay.call_inplace('add', i(9, 3), 1.5)
    with pytest.raises(RuntimeError, match=r"output with shape \[4\] doesn't match the broadcast shape \[3, 4\]"):
        replay.call_inplace('add', f(4), f(3, 4))


# ----------------------------------------------------------------------------------------------------- one recipe, many sizes
@pytest.mark.parametrize('name, arguments', [
    ('add', lambda n, m: (f(n, m), f(m))), ('softmax', lambda n, m: (f(n, m), 1)), ('sum', lambda n, m: (f(n, m), (0,))),
    ('layer_norm', lambda n, m: (f(n, m), (m,), f(m), f(m), 1e-5)), ('mm', lambda n, m: (f(n, m), f(m, n + 1)))])
def test_growing_shapes_compile_once(name, arguments):
    replay.call(name, *arguments(3, 5))
    before = plans.counters['compiled']
    for n, m in ((4, 7), (33, 65), (2, 130)):
        args = arguments(n, m)
        torch_args = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in args]
        function = {'softmax': torch.softmax, 'layer_norm': F.layer_norm, 'mm': torch.mm, 'add': torch.add, 'sum': lambda x,
            d: x.sum(d)}[name]
        close(replay.call(name, *args)[0], function(*torch_args))
    assert plans.counters['compiled'] == before
