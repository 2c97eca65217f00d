"""The numbers a seed gives, against what torch 2.13 gave (stored): values and how much of the stream each draw uses."""
import json

import pytest
import random_streams

import rushlight as rl

STORED = json.loads(random_streams.FILE.read_text())


def test_every_call_is_stored():
    assert list(random_streams.calls()) == list(STORED)


@pytest.mark.parametrize("n", random_streams.SIZES)
def test_streams_of_size(n):
    wrong = [call for call in STORED if f"({n}," in call and random_streams.fingerprint(rl, call) != STORED[call]]
    assert not wrong


def test_streams_over_ranges_and_strides():
    rest = [call for call in STORED if not any(f"({n}," in call for n in random_streams.SIZES)]
    assert len(rest) == 12
    assert not [call for call in rest if random_streams.fingerprint(rl, call) != STORED[call]]


def test_a_fingerprint_sees_one_bit_and_one_draw():
    class Shifted:
        def __getattr__(self, name): return getattr(rl, name)

        @staticmethod
        def randn(*args, **kwargs): return -rl.randn(*args, **kwargs)

        @staticmethod
        def rand(*args, **kwargs):
            rl.rand(1)
            return rl.rand(*args, **kwargs)
    for call in ("lib.randn(5, dtype=lib.float32)", "lib.rand(5, dtype=lib.float32)"):
        assert random_streams.fingerprint(Shifted(), call) != STORED[call]


def test_the_seed_chooses_the_stream():
    rl.manual_seed(7)
    a = rl.rand(4).tolist()
    rl.manual_seed(8)
    assert rl.rand(4).tolist() != a
    rl.manual_seed(7)
    assert rl.rand(4).tolist() == a
    rl.seed()
    assert rl.rand(4).tolist() != a


def test_threads_do_not_change_the_stream():
    before = rl.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            rl.set_num_threads(n)
            rl.manual_seed(5)
            results.append((rl.randn(70_001).numpy().tobytes(), rl.rand(70_001).numpy().tobytes(), rl.nn.functional.dropout(rl.ones(70_001)).numpy().tobytes()))
    finally:
        rl.set_num_threads(before)
    assert results[0] == results[1] == results[2]


def test_a_refused_draw_uses_nothing():
    rl.manual_seed(3)
    state = rl.get_rng_state().numpy().tobytes()
    for bad in (lambda: rl.empty(3).uniform_(2, 1), lambda: rl.empty(3).normal_(0, -1), lambda: rl.randint(5, 5, (2,)), lambda: rl.rand(-1),
                lambda: rl.empty(3, dtype=rl.int64).normal_(), lambda: rl.empty(1).expand(3).uniform_(), lambda: rl.randperm(300, dtype=rl.uint8)):
        with pytest.raises(RuntimeError):
            bad()
    assert rl.get_rng_state().numpy().tobytes() == state


def test_a_generator_of_its_own_leaves_the_default_alone():
    rl.manual_seed(3)
    state = rl.get_rng_state().numpy().tobytes()
    g = rl.Generator().manual_seed(3)
    draws = [rl.rand(5, generator=g), rl.randn(5, generator=g), rl.randint(9, (5,), generator=g), rl.randperm(5, generator=g),
             rl.empty(5).uniform_(generator=g), rl.empty(5).normal_(generator=g), rl.empty(5).bernoulli_(0.5, generator=g)]
    assert rl.get_rng_state().numpy().tobytes() == state
    again = [rl.rand(5), rl.randn(5), rl.randint(9, (5,)), rl.randperm(5), rl.empty(5).uniform_(), rl.empty(5).normal_(), rl.empty(5).bernoulli_(0.5)]
    assert [d.tolist() for d in draws] == [d.tolist() for d in again]
