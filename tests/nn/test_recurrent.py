"""Recurrent layers beside torch: values, last states and gradients, over plain, unbatched and packed sequences."""
import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

LAYERS = {"rnn": ("RNN", {}), "relu": ("RNN", {"nonlinearity": "relu"}), "lstm": ("LSTM", {}), "gru": ("GRU", {}), "projected": ("LSTM", {"proj_size": 3})}
OPTIONS = {"plain": {}, "stacked": {"num_layers": 2}, "both ways": {"num_layers": 2, "bidirectional": True}, "batch first": {"batch_first": True},
           "without bias": {"bias": False}}


def pair(kind, options):
    name, own = LAYERS[kind]
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(4, 5, **own, **options).double()
    rl.manual_seed(0)
    ours = getattr(rl.nn, name)(4, 5, **own, **options).double()
    for (a, p), (b, q) in zip(theirs.named_parameters(), ours.named_parameters()):
        assert a == b and np.array_equal(p.detach().numpy(), q.detach().numpy()), "the same first values"
    return theirs, ours


def flat(result):
    out = []
    for part in result if isinstance(result, tuple) else (result,):
        out += [part.data] if hasattr(part, "batch_sizes") else flat(part) if isinstance(part, tuple) else [part]
    return out


def assert_same(theirs, ours, their_results, our_results, their_inputs, our_inputs):
    a, b = flat(their_results), flat(our_results)
    assert len(a) == len(b)
    for x, y in zip(a, b):
        np.testing.assert_allclose(y.detach().numpy(), x.detach().numpy(), rtol=1e-10, atol=1e-12)
        assert tuple(x.shape) == tuple(y.shape)
    sum((x * x).sum() for x in a).backward()
    sum((y * y).sum() for y in b).backward()
    for x, y in zip([*their_inputs, *theirs.parameters()], [*our_inputs, *ours.parameters()]):
        np.testing.assert_allclose(y.grad.numpy(), x.grad.numpy(), rtol=1e-9, atol=1e-11)


def both(array):
    return torch.tensor(array, requires_grad=True), rl.tensor(array, requires_grad=True)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", LAYERS)
def test_sequences(kind, options):
    theirs, ours = pair(kind, OPTIONS[options])
    x, y = both(np.random.default_rng(0).standard_normal((6, 3, 4)))
    assert_same(theirs, ours, theirs(x), ours(y), [x], [y])


@pytest.mark.parametrize("kind", LAYERS)
def test_with_first_state(kind):
    theirs, ours = pair(kind, {"num_layers": 2})
    rng = np.random.default_rng(0)
    x, y = both(rng.standard_normal((6, 3, 4)))
    h, g = both(rng.standard_normal((2, 3, 3 if kind == "projected" else 5)))
    states = [(h, g)]
    if LAYERS[kind][0] == "LSTM":
        states.append(both(rng.standard_normal((2, 3, 5))))
    their_hx, our_hx = (tuple(s) if len(s) > 1 else s[0] for s in zip(*states))
    assert_same(theirs, ours, theirs(x, their_hx), ours(y, our_hx), [x, *[s[0] for s in states]], [y, *[s[1] for s in states]])


@pytest.mark.parametrize("kind", LAYERS)
def test_unbatched(kind):
    theirs, ours = pair(kind, {"bidirectional": True})
    x, y = both(np.random.default_rng(0).standard_normal((6, 4)))
    assert_same(theirs, ours, theirs(x), ours(y), [x], [y])


@pytest.mark.parametrize("lengths", [[5, 3, 3, 1], [2, 5, 1, 4]], ids=["sorted", "any order"])
@pytest.mark.parametrize("kind", LAYERS)
def test_packed(kind, lengths):
    theirs, ours = pair(kind, {"num_layers": 2, "bidirectional": True})
    x, y = both(np.random.default_rng(0).standard_normal((5, 4, 4)))
    results = []
    for library, layer, value in ((torch, theirs, x), (rl, ours, y)):
        packed = library.nn.utils.rnn.pack_padded_sequence(value, library.tensor(lengths), enforce_sorted=lengths == sorted(lengths, reverse=True))
        output, state = layer(packed)
        results.append((*library.nn.utils.rnn.pad_packed_sequence(output)[:1], state))
    assert_same(theirs, ours, *results, [x], [y])


@pytest.mark.parametrize("name", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells(name):
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(4, 5).double()
    rl.manual_seed(0)
    ours = getattr(rl.nn, name)(4, 5).double()
    x, y = both(np.random.default_rng(0).standard_normal((3, 4)))
    assert_same(theirs, ours, theirs(x, theirs(x)), ours(y, ours(y)), [x], [y])


def test_dropout_between_layers_draws_torchs_stream():
    theirs, ours = pair("lstm", {"num_layers": 2, "dropout": 0.5})
    x, y = both(np.random.default_rng(0).standard_normal((6, 3, 4)))
    torch.manual_seed(1)
    rl.manual_seed(1)
    assert_same(theirs, ours, theirs(x), ours(y), [x], [y])


def test_double_backward():
    layer = rl.nn.LSTM(2, 3).double()
    assert rl.autograd.gradgradcheck(lambda x: layer(x)[0], rl.randn(3, 2, 2, dtype=rl.float64, requires_grad=True))
