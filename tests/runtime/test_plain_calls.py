"""Arguments by position take a shorter way through the parser than the same arguments by keyword: both must come to the same call."""
import gc
import inspect

import pytest

import rushlight as rl
from rushlight import _C
from rushlight.nn import functional as F


def rows(): return rl.arange(12, dtype=rl.float32).reshape(3, 4)


CALLS = {
    "an integer and defaults": (F.softmax, (rows(), 1), ("input", "dim")),
    "all parameters": (F.softmax, (rows(), -1, 3, rl.float64), ("input", "dim", "_stacklevel", "dtype")),
    "absent integer": (F.softmax, (rows(), None), ("input", "dim")),
    "no tensor where one is optional": (F.linear, (rows(), rl.ones(2, 4), None), ("input", "weight", "bias")),
    "three tensors": (F.linear, (rows(), rl.ones(2, 4), rl.ones(2)), ("input", "weight", "bias")),
    "a parameter": (F.linear, (rows(), rl.nn.Parameter(rl.ones(2, 4))), ("input", "weight")),
    "truth values": (rl.argmax, (rows(), 1, True), ("input", "dim", "keepdim")),
    "number or tensor, a tensor": (rl.add, (rows(), rl.ones(4)), ("input", "other")),
    "number or tensor, a number": (rl.add, (rows(), 2.5), ("input", "other")),
    "a list and defaults that are numbers": (F.layer_norm, (rows(), (4,)), ("input", "normalized_shape")),
    "a list among tensors": (F.layer_norm, (rows(), (4,), rl.ones(4), None), ("input", "normalized_shape", "weight", "bias")),
    "a list of a size": (rl.reshape, (rows(), rl.zeros(2, 6).shape), ("input", "shape")),
    "a list that is no tuple": (rl.reshape, (rows(), [2, 6]), ("input", "shape")),
    "an empty list": (rl.sum, (rows(), ()), ("input", "dim")),
    "defaults that are absent tensors": (F.cross_entropy, (rows(), rl.tensor([0, 1, 3])), ("input", "target")),
    "second signature": (rl.max, (rows(), 1), ("input", "dim")),
    "second signature, two tensors": (rl.max, (rows(), rl.ones(3, 4)), ("input", "other")),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("grad", [False, True])
def test_by_position_and_by_keyword(name, grad):
    function, values, names = CALLS[name]
    if grad: values = (values[0].clone().requires_grad_(), *values[1:])
    by_position, by_keyword = function(*values), function(**dict(zip(names, values)))
    pairs = [(by_position, by_keyword)] if isinstance(by_position, rl.Tensor) else list(zip(by_position, by_keyword))
    for a, b in pairs:
        assert a.dtype == b.dtype and rl.equal(a, b) and type(a.grad_fn) is type(b.grad_fn)


@pytest.mark.parametrize("value", [2**40, -2**70, True, 1.0, "1", rl.tensor(1.5)])
def test_what_is_no_small_integer_is_judged_by_the_whole_parser(value):
    said = []
    for call in (lambda: F.softmax(rows(), value), lambda: F.softmax(rows(), dim=value)):
        try: said.append(call().tolist())
        except Exception as error: said.append((type(error), str(error).replace(" (position 2)", "")))
    assert said[0] == said[1]


def test_sizes_one_by_one():
    x = rows()
    for method, sizes in ((x.view, (2, 6)), (x.reshape, (2, -1)), (x.repeat, (2, 1)), (x.permute, (1, 0)), (x.tile, (2,)), (x.new_zeros, (2, 3))):
        spread, listed = method(*sizes), method(sizes)
        assert spread.shape == listed.shape == method(list(sizes)).shape and spread.stride() == listed.stride() and rl.equal(spread, listed)
    assert rl.zeros(2, 3).shape == rl.zeros((2, 3)).shape == (2, 3) and rl.zeros(()).shape == ()
    assert x.view(*[1] * 60, 12).ndim == 61                  # more than a call has room for without asking
    assert x.view(rl.tensor(2), 6).shape == (2, 6)
    for sizes in (((2, 6), 1), (2, (6,)), (2.0, 6), (2, "6"), (True, 12.0), (2, None), (None,)):
        with pytest.raises(TypeError): x.view(*sizes)
    with pytest.raises(RuntimeError): x.view(2, 2**40)
    with pytest.raises(TypeError): x.view(2, 2**70)


def test_too_many_and_too_few():
    with pytest.raises(TypeError): rl.relu()
    with pytest.raises(TypeError): rl.relu(rows(), rows())
    with pytest.raises(TypeError): rl.pow(1, 2)
    with pytest.raises(TypeError): rl.relu(None)
    with pytest.raises(TypeError): F.linear(rows(), None)


def test_a_subclass_is_still_asked():
    asked = []

    class Mine(rl.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            asked.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    mine = rows().as_subclass(Mine)
    rl.relu(mine)
    F.softmax(mine, 1)
    rows() + mine
    assert asked == ["relu", "softmax", "add"]


@pytest.mark.parametrize("count", [1, 2, 8])
def test_what_writes_its_first_argument_takes_no_out(count):
    x, outs = rl.zeros(4), [rl.zeros(4) for _ in range(count)]
    for call in (lambda out: rl.exp_(x, out=out), lambda out: rl.add_(x, 1, out=out), lambda out: x.exp_(out=out)):
        with pytest.raises(TypeError, match="out"): call(outs[0] if count == 1 else outs)
    assert x.tolist() == [0] * 4 and all(out.tolist() == [0] * 4 for out in outs)
    assert "out" in inspect.signature(rl.exp).parameters and "out" not in inspect.signature(rl.exp_).parameters


@pytest.mark.parametrize("name", ["add", "add_", "+=", "copy_", "fill_", "many"])
def test_the_last_plan_is_found_without_the_table(name):
    """Also of a call that writes, and of one whose key is long."""
    x, y, rows = rl.ones(4), rl.ones(4), [rl.ones(2) for _ in range(120)]
    call = {"add": lambda: x + y, "add_": lambda: x.add_(y), "+=": lambda: x.__iadd__(y), "copy_": lambda: x.copy_(y), "fill_": lambda: x.fill_(2.0), "many": lambda: rl.cat(rows)}[name]
    call()
    before = _C.stats()
    for _ in range(10): call()
    after = _C.stats()
    assert after["plan_hits"] - before["plan_hits"] == 10
    assert after["plan_table_hits"] == before["plan_table_hits"] and after["plan_misses"] == before["plan_misses"]


@pytest.mark.parametrize("grad", [False, True])
def test_a_collection_during_a_call_may_forget_its_plan(grad):
    """Where making the result starts the collector (Python 3.11), a finalizer runs in the middle of the call."""
    x, forgotten, kept = rl.ones(4, requires_grad=grad), [], []

    class Cycle:
        def __init__(self): self.me = self

        def __del__(self):
            _C.clear_plans()
            forgotten.append(1)

    limits = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for _ in range(200):               # results are kept, so each is a new object
            Cycle()
            kept.append(F.softmax(x, 0))
            if grad: kept[-1] = kept[-1].detach()         # and no node keeps the plan
    finally: gc.set_threshold(*limits)
    gc.collect()
    assert forgotten and all(k.tolist() == [0.25] * 4 for k in kept)


def test_sums_and_products_of_numbers_alone():
    for got, value, dtype in ((rl.add(1, 2), 3, rl.int64), (rl.sub(1.5, 2), -0.5, rl.float32), (rl.mul(2, True), 2, rl.int64), (rl.div(7, 2), 3.5, rl.float32),
                              (rl.div(7, 2, rounding_mode="floor"), 3, rl.int64), (rl.add(1, 2, alpha=3), 7, rl.int64), (rl.floor_divide(-7, 2), -4, rl.int64)):
        assert got.shape == () and got.dtype is dtype and got.item() == value
    with pytest.raises(RuntimeError, match="bool"): rl.sub(True, False)


def test_softmax_takes_a_dtype_by_position():
    for function in (rl.softmax, rl.log_softmax):
        want = function(rows(), 1, dtype=rl.float64)
        assert rl.equal(function(rows(), 1, rl.float64), want) and rl.equal(getattr(rows(), function.__name__)(1, rl.float64), want)
        assert function(rows(), 1, None).dtype is rl.float32


def test_whole_numbers_in_even_steps():
    """The ends are converted first, and wrap in an unsigned dtype; a single power is computed first."""
    assert rl.linspace(-2, 3, 5, dtype=rl.uint8).tolist() == [254, 191, 128, 65, 3]
    assert rl.linspace(-2.5, 3, 5, dtype=rl.int8).tolist() == [-2, 0, 0, 1, 3]
    assert rl.logspace(1.7, 9, 1, dtype=rl.int64).tolist() == [50] and rl.logspace(2.9, 0, 2, dtype=rl.int64).tolist() == [100, 1]
    assert rl.logspace(float("nan"), 0, 0, dtype=rl.int64).tolist() == []
