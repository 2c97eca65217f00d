"""Random numbers are torch's, bit for bit, and leave the generator in torch's state."""
import warnings

import numpy as np
import pytest
import torch

import rushlight as rl

FLOATS = ("float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8", "bool")
SIZES = (0, 1, 5, 15, 16, 17, 100, 1001)
SEEDS = (0, 12345, 2**40 + 7, -3)


def raw(t, lib):
    t = t.detach()
    return (t.view(lib.int16) if str(t.dtype) == "torch.bfloat16" else t).numpy()


def same(draw):
    """Run a draw in both libraries from several seeds and compare values, layout and the generator afterwards."""
    for seed in SEEDS:
        torch.manual_seed(seed)
        rl.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs, ours = draw(torch), draw(rl)
        a, b = raw(theirs, torch), raw(ours, rl)
        assert a.dtype == b.dtype and a.shape == b.shape and theirs.stride() == ours.stride()
        assert a.tobytes() == b.tobytes(), (seed, a.ravel()[:4], b.ravel()[:4])
        assert torch.get_rng_state().numpy().tobytes() == rl.get_rng_state().numpy().tobytes(), seed


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS + COMPLEX)
def test_uniform_and_normal(dtype, n):
    same(lambda lib: lib.rand(n, dtype=getattr(lib, dtype)))
    same(lambda lib: lib.randn(n, dtype=getattr(lib, dtype)))
    for low, high in ((-2.0, 3.0), (0.1, 0.7)):
        same(lambda lib, low=low, high=high: lib.empty(n, dtype=getattr(lib, dtype)).uniform_(low, high))
    same(lambda lib: lib.empty(n, dtype=getattr(lib, dtype)).normal_(1.5, 0.3))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_integers(dtype, n):
    same(lambda lib: lib.empty(n, dtype=getattr(lib, dtype)).random_())
    same(lambda lib: lib.empty(n, dtype=getattr(lib, dtype)).random_(2))
    same(lambda lib: lib.empty(n, dtype=getattr(lib, dtype)).random_(1, None))
    same(lambda lib: lib.empty(n, dtype=getattr(lib, dtype)).bernoulli_(0.3))
    same(lambda lib: lib.randint(0, 2, (n,), dtype=getattr(lib, dtype)))
    if dtype != "bool":
        same(lambda lib: lib.randint(1, 99, (n,), dtype=getattr(lib, dtype)))
    if dtype not in ("bool", "int8", "uint8") or n <= 100 and dtype != "bool":
        same(lambda lib: lib.randperm(n, dtype=getattr(lib, dtype)))


@pytest.mark.parametrize("low, high", [(0, 10), (-5, 1000), (0, 2**28 - 1), (0, 2**28), (0, 2**32), (-2**40, 2**40), (0, 2**63 - 1)])
def test_wide_ranges_draw_two_words(low, high):
    same(lambda lib: lib.randint(low, high, (50,)))


@pytest.mark.parametrize("dtype", ("float32", "float16", "bfloat16", "float64"))
@pytest.mark.parametrize("low, high", [(3, 2**26 + 5), (-301, 60001), (-2**20, 2**16)])
def test_bounds_that_a_float_dtype_cannot_hold(dtype, low, high):
    if dtype == "float16" and max(-low, high) > 65504:
        pytest.skip("beyond the range of float16: an error in both")
    same(lambda lib: lib.empty(50, dtype=getattr(lib, dtype)).random_(low, high))


@pytest.mark.parametrize("n", (1, 5, 16, 100, 1001))
@pytest.mark.parametrize("dtype", FLOATS)
def test_distributions(dtype, n):
    new = lambda lib: lib.empty(n, dtype=getattr(lib, dtype))
    same(lambda lib: new(lib).exponential_(1.5))
    same(lambda lib: new(lib).cauchy_(1, 2))
    same(lambda lib: new(lib).log_normal_())
    same(lambda lib: new(lib).geometric_(0.3))
    if dtype in ("float32", "float64"):
        chances = np.linspace(0, 1, n).astype(dtype)
        same(lambda lib: new(lib).bernoulli_(lib.from_numpy(chances)))


@pytest.mark.parametrize("fill", ("uniform_", "normal_", "random_"))
@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[1:3].t(),
                                  lambda x: x.reshape(2, 3, 7, 2).permute(2, 0, 3, 1)[1:]])
def test_memory_order(view, fill):
    same(lambda lib: getattr(view(lib.empty(6, 14)), fill)())


def test_channels_last():
    nhwc = lambda lib: lib.empty(2, 3, 4, 5, memory_format=lib.channels_last)
    same(lambda lib: lib.rand_like(nhwc(lib)))
    same(lambda lib: lib.randn_like(nhwc(lib)))


@pytest.mark.parametrize("draw", [lambda lib, x: lib.nn.functional.dropout(x, 0.4), lambda lib, x: lib.nn.functional.alpha_dropout(x, 0.4, True),
                                  lambda lib, x: lib.nn.functional.feature_alpha_dropout(x, 0.4, True), lambda lib, x: lib.native_dropout(x, 0.3, True)[0],
                                  lambda lib, x: lib.multinomial(x[0, 0], 3), lambda lib, x: lib.multinomial(x[0, 0], 1)])
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x.permute(1, 3, 0, 2), lambda x: x.transpose(2, 3), lambda x: x[:, :, ::2].transpose(0, 1),
                                  lambda x: x[:1].expand(3, -1, -1, -1), lambda x: x[:1].transpose(1, 3)])
def test_draws_follow_the_memory_of_their_tensor(draw, view):
    """torch draws into an `empty_like`: a channels_last image gets other numbers than the same image otherwise."""
    start = np.arange(1, 241, dtype=np.float32).reshape(2, 3, 8, 5)
    same(lambda lib: draw(lib, view(lib.from_numpy(start.copy()))))
    same(lambda lib: draw(lib, view(lib.from_numpy(start.copy()).to(memory_format=lib.channels_last))))


def test_the_cached_normal_survives_other_draws():
    def chain(lib):
        lib.randn(3), lib.rand(2), lib.randn(3), lib.randn(20)
        return lib.randn(1)
    same(chain)


def test_states_travel_between_the_libraries():
    theirs = torch.Generator().manual_seed(4)
    torch.randn(5, generator=theirs)
    ours = rl.Generator().set_state(rl.from_numpy(theirs.get_state().numpy()))
    assert rl.randn(7, generator=ours).tolist() == torch.randn(7, generator=theirs).tolist()


ERRORS = """empty(3).uniform_(2,1)
empty(3).uniform_(0,1e39)
empty(3,dtype=lib.int64).uniform_()
empty(3,dtype=lib.int64).normal_()
empty(3).normal_(0,-1)
randint(5,2,(3,))
randint(300,(3,),dtype=lib.uint8)
randint(-5,3,(3,),dtype=lib.uint8)
randint(3,(3,),dtype=lib.complex64)
randperm(-1)
randperm(300,dtype=lib.uint8)
randperm(5,dtype=lib.bool)
randperm(5000,dtype=lib.float16)
empty(3).bernoulli_(2)
empty(3).bernoulli_(lib.tensor([.1,.2,3]))
empty(3).bernoulli_(lib.tensor([.1,.2]))
empty(3).exponential_(0)
empty(3,dtype=lib.int64).exponential_()
empty(3).cauchy_(0,-1)
empty(3,dtype=lib.int64).cauchy_()
empty(3).log_normal_(0,-1)
empty(3).geometric_(2)
empty(3,dtype=lib.bool).geometric_(.5)
empty(1).expand(3).uniform_()
zeros(3,requires_grad=True).uniform_()
Generator().manual_seed(2**64)
Generator().manual_seed(1.5)
Generator().set_state(lib.zeros(3))
Generator().set_state(lib.zeros(3,dtype=lib.uint8))
Generator().set_state(3)
Generator().set_state(lib.zeros(5056,dtype=lib.uint8))""".splitlines()


@pytest.mark.parametrize("call", ERRORS)
def test_errors(call):
    said = []
    for lib in (torch, rl):
        with pytest.raises(Exception) as caught:
            eval("lib." + call, {"lib": lib})
        said.append((caught.type, str(caught.value)[:40]))
    assert said[0] == said[1]
