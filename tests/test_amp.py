"""autocast and GradScaler, without torch beside them (tests/conformance/test_autocast.py has torch's verdict on every operator)."""
import threading

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.amp import GradScaler, autocast, custom_bwd, custom_fwd
from rushlight.nn import functional as F

NARROW = [rl.bfloat16, rl.float16]


@pytest.fixture
def pair():
    return rl.full((2, 2), 0.5), rl.full((2, 2), 0.25)


@pytest.mark.parametrize("dtype", NARROW)
def test_products_losses_and_the_rest(pair, dtype):
    a, b = pair
    with autocast("cpu", dtype=dtype):
        assert (a @ b).dtype == F.linear(a, b).dtype == rl.mm(a, b).dtype == dtype
        narrow = a @ b
        assert F.mse_loss(narrow, narrow).dtype == rl.prod(narrow).dtype == rl.fft.fft(narrow).real.dtype == rl.float32
        assert (narrow + 1).dtype == narrow.exp().dtype == narrow.sum().dtype == dtype
        assert rl.cat([narrow, a]).dtype == rl.stack([a, narrow]).dtype == rl.float32 and rl.cat([narrow, narrow]).dtype == dtype
        assert (a.double() @ b.double()).dtype == rl.float64 and (a.long() @ b.long()).dtype == rl.int64
    assert (a @ b).dtype == rl.float32


def test_blocks_nest_and_end_with_exceptions(pair):
    a, b = pair
    with autocast("cpu", dtype=rl.float16):
        with autocast("cpu", enabled=False):
            assert (a @ b).dtype == rl.float32
            with autocast("cpu", dtype=rl.bfloat16): assert (a @ b).dtype == rl.bfloat16
            with autocast("cpu"): assert (a @ b).dtype == rl.float16                # the dtype around it
            assert (a @ b).dtype == rl.float32
        assert (a @ b).dtype == rl.float16 and rl.get_autocast_dtype("cpu") == rl.float16
    with pytest.raises(KeyError), autocast("cpu"):
        raise KeyError
    assert not rl.is_autocast_enabled("cpu") and rl.get_autocast_dtype("cpu") == rl.bfloat16 and (a @ b).dtype == rl.float32


def test_a_block_belongs_to_its_thread(pair):
    a, b = pair
    seen = []
    with autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((a @ b).dtype))
        thread.start()
        thread.join()
    assert seen == [rl.float32]


def test_as_a_decorator_even_of_a_function_that_calls_itself(pair):
    a, _ = pair

    @autocast("cpu")
    def square(x, depth=0): return square(x, depth + 1) if depth < 2 else x @ x

    assert square(a).dtype == rl.bfloat16 and square.__name__ == "square" and not rl.is_autocast_enabled("cpu")


@pytest.mark.parametrize("cache, casts", [(True, 1), (False, 2)])
def test_a_weight_is_cast_once_per_block(pair, cache, casts):
    a, b = pair
    w = rl.full((2, 2), 0.5, requires_grad=True)
    with autocast("cpu", cache_enabled=cache):
        first, second = a @ w, b @ w
        assert rl.is_autocast_cache_enabled() is cache
    assert len({out.grad_fn.next_functions[1][0] for out in (first, second)}) == casts
    (first + second).sum().backward()
    assert w.grad.dtype == rl.float32 and w.grad.tolist() == [[1.5, 1.5], [1.5, 1.5]]


def test_the_cache_ends_with_the_outermost_block(pair):
    a, _ = pair
    w = rl.full((2, 2), 0.5, requires_grad=True)
    with autocast("cpu"): first = a @ w
    with rl.no_grad(): w.fill_(2.0)
    with autocast("cpu"): second = a @ w
    assert first[0, 0].item() == 0.5 and second[0, 0].item() == 2.0


def test_refused_devices():
    with pytest.raises(RuntimeError, match="Expected one of cpu"): autocast("nothing")
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'meta'"): autocast("meta")
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"): autocast(5)
    with pytest.warns(UserWarning, match="target dtype is not supported"): block = autocast("cpu", dtype=rl.float64)
    with block: assert not rl.is_autocast_enabled("cpu")


def test_custom_functions(pair):
    a, b = pair
    seen = []

    class Plain(rl.autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu")
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            return x @ y

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            seen.append((rl.is_autocast_enabled("cpu"), rl.get_autocast_dtype("cpu")))
            x, y = ctx.saved_tensors
            return g @ y.t(), x.t() @ g

    class Cast(Plain):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=rl.float32)
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            seen.append((rl.is_autocast_enabled("cpu"), x.dtype))
            return x @ y

    x, y = a.clone().requires_grad_(), b.clone().requires_grad_()
    with autocast("cpu", dtype=rl.float16): out = Plain.apply(x, y)
    out.float().sum().backward()
    assert out.dtype == rl.float16 and seen == [(True, rl.float16)] and x.grad.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    seen.clear()
    with autocast("cpu"): out = Cast.apply(x.detach().bfloat16().requires_grad_(), y)
    out.sum().backward()
    assert out.dtype == rl.float32 and seen[0] == (False, rl.float32) and seen[1][0] is False


# ---------------------------------------------------------------------------------------------------------------- GradScaler
def training(**options):
    p = nn.Parameter(rl.tensor([1.0, 2.0]))
    return p, rl.optim.SGD([p], lr=0.5), GradScaler("cpu", init_scale=8.0, growth_interval=2, **options)


def iteration(p, optimizer, scaler, factor=1.0):
    optimizer.zero_grad()
    scaler.scale((p * factor).sum()).backward()
    scaler.step(optimizer)
    scaler.update()


def test_the_scale_grows_and_backs_off():
    p, optimizer, scaler = training()
    scales = []
    for factor in (1.0, 1.0, 1.0, float("inf"), float("nan"), 1.0, 1.0):
        before = p.tolist()
        iteration(p, optimizer, scaler, factor)
        scales.append(scaler.get_scale())
        stepped = factor == 1.0
        assert p.tolist() == ([v - 0.5 for v in before] if stepped else before)
    assert scales == [8.0, 16.0, 16.0, 8.0, 4.0, 4.0, 8.0]


def test_unscale_once_per_iteration():
    p, optimizer, scaler = training()
    for call, words in ((scaler.unscale_, "Attempted unscale_ but _scale is None"), (scaler.step, "Attempted step but _scale is None")):
        with pytest.raises(AssertionError, match=words): call(optimizer)
    with pytest.raises(AssertionError, match="Attempted update but _scale is None"): scaler.update()
    scaler.scale(p.sum()).backward()
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="has already been called on this optimizer"): scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="has already been called since the last update"): scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="is being called after step"): scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"): scaler.step(optimizer, closure=lambda: 1)
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0
    optimizer.zero_grad()
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"): scaler.step(optimizer)


def test_one_optimizer_with_inf_does_not_stop_another():
    p, q = nn.Parameter(rl.ones(2)), nn.Parameter(rl.ones(2))
    first, second, scaler = rl.optim.SGD([p], lr=0.5), rl.optim.SGD([q], lr=0.5), GradScaler("cpu", init_scale=4.0)
    scaler.scale((p * float("inf")).sum() + q.sum()).backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert p.tolist() == [1.0, 1.0] and q.tolist() == [0.5, 0.5] and scaler.get_scale() == 2.0


def test_state_dicts():
    one, two = training()[2], training(growth_factor=3.0, backoff_factor=0.25)[2]
    one.load_state_dict(two.state_dict())
    assert one.state_dict() == {"scale": 8.0, "growth_factor": 3.0, "backoff_factor": 0.25, "growth_interval": 2, "_growth_tracker": 0}
    off = GradScaler("cpu", enabled=False)
    assert off.state_dict() == {} and off.get_scale() == 1.0
    with pytest.raises(RuntimeError, match="The source state dict is empty"): one.load_state_dict({})
    with pytest.raises(AssertionError, match="growth factor"): GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="backoff factor"): GradScaler("cpu", backoff_factor=1.0)
    p, optimizer, _ = training()
    iteration(p, optimizer, off)
    assert p.tolist() == [0.5, 1.5]


def test_half_gradients_are_not_unscaled():
    p = nn.Parameter(rl.ones(1, dtype=rl.float16))
    scaler, optimizer = GradScaler("cpu", init_scale=8.0), rl.optim.SGD([p], lr=0.1)
    scaler.scale(p.sum()).backward()
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"): scaler.unscale_(optimizer)
