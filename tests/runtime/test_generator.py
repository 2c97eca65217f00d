"""Random streams by their fingerprints (taken from torch 2.13), and the generator's own behaviour.

The full comparison is in conformance/test_random.py.
"""
import copy
import hashlib
import pickle

import pytest

import rushlight as rl

FINGERPRINTS = [
    ("rand(1001)", "216cdf3c60f62c16"),
    ("rand(100, dtype=lib.float64)", "8942eb7bb053518a"),
    ("rand(1001, dtype=lib.bfloat16)", "eaf42339131b04ac"),
    ("rand(1001, dtype=lib.float16)", "95ecadec9883e2be"),
    ("randn(1001)", "d42ae14580396893"),
    ("randn(5)", "524757960c0f17ff"),
    ("randn(1001, dtype=lib.bfloat16)", "e288a0da188f07f0"),
    ("empty(5, 7).t().normal_()", "101266fc789f83b3"),
    ("randint(-5, 1000, (100,))", "78a5b79b76fb4a7b"),
    ("randint(0, 2**40, (100,))", "75405885bcdf9233"),
    ("empty(100, dtype=lib.int64).random_()", "672a052b6a53432f"),
    ("empty(100, dtype=lib.uint8).random_()", "b8604a3782b4abb7"),
    ("randperm(1000)", "4305397719749378"),
    ("empty(1000).bernoulli_(0.3)", "a80c08a171178c9c"),
    ("empty(100).exponential_(1.5)", "795b25bec53bd977"),
    ("empty(100).geometric_(0.3)", "53954e9aa9f854b0"),
    ("zeros(6, 8)[:, ::2].uniform_(-2, 3)", "3f70708688444a0b"),
]


@pytest.mark.parametrize("call, fingerprint", FINGERPRINTS)
def test_streams(call, fingerprint):
    rl.manual_seed(12345)
    t = eval("lib." + call, {"lib": rl})
    t = t.contiguous()
    t = t.view(rl.int16) if t.dtype is rl.bfloat16 else t
    assert hashlib.sha256(t.numpy().tobytes()).hexdigest()[:16] == fingerprint


def test_state_brings_the_stream_back():
    rl.manual_seed(3)
    rl.randn(3)                                       # leaves a cached normal, which is part of the state
    state = rl.get_rng_state()
    first = rl.randn(5).tolist()
    rl.set_rng_state(state)
    assert rl.randn(5).tolist() == first
    assert state.shape == (5056,) and state.dtype is rl.uint8


def test_generators_are_independent_and_copy():
    g = rl.Generator().manual_seed(9)
    rl.rand(3, generator=g)
    for other in (pickle.loads(pickle.dumps(g)), copy.deepcopy(g), g.clone_state()):
        assert other is not g and rl.rand(5, generator=other).tolist() == rl.rand(5, generator=g.clone_state()).tolist()
    assert g.initial_seed() == 9 and g.device == rl.device("cpu")


@pytest.mark.parametrize("seed, initial", [(5, 5), (-5, 2**64 - 5), (2**64 - 1, 2**64 - 1), (-2**63, 2**63)])
def test_seeds(seed, initial):
    assert rl.Generator().manual_seed(seed).initial_seed() == initial


def test_fork_rng():
    rl.manual_seed(1)
    expected = rl.rand(2).tolist()
    rl.manual_seed(1)
    with rl.random.fork_rng():
        rl.manual_seed(99)
        rl.rand(100)
    assert rl.rand(2).tolist() == expected


def test_fills_count_as_in_place():
    x = rl.zeros(3)
    before = x._version
    x.uniform_()
    assert x._version == before + 1
    y = rl.ones(3, requires_grad=True)
    z = y * 2
    z.normal_()
    (z * y).sum().backward()
    assert y.grad.tolist() == z.tolist()              # nothing flows through what was overwritten


def test_meta_tensors_draw_nothing():
    rl.manual_seed(0)
    state = rl.get_rng_state().tolist()
    rl.rand(5, device="meta")
    rl.empty(5, device="meta").normal_()
    assert rl.get_rng_state().tolist() == state


def test_probabilities_without_values_are_refused():
    with pytest.raises(NotImplementedError): rl.ones(2, 3).bernoulli_(rl.empty(2, 3, device="meta"))
    assert rl.empty(2, 3, device="meta").bernoulli_(rl.ones(2, 3)).device.type == "meta"
