"""Loops at every element (compiler/region.py), and the scans that carry more than a sum: running log-sum-exp, linear recurrences."""
import uuid

import numpy as np
import pytest

import rushlight as rl
from rushlight import registry
from rushlight.compiler import trace as T


@pytest.fixture(autouse=True)
def registry_as_before():
    before = dict(registry._definitions)
    yield
    registry._definitions.clear()
    registry._definitions.update(before)


def operator(body, count):
    """An operator of `count` tensors. Its name is its own: recipes on disk go by names."""
    names = [f"x{i}" for i in range(count)]
    bound = eval(f"lambda {', '.join(names)}: body({', '.join(names)})", {"body": body})
    return registry.op(f"_t{uuid.uuid4().hex}({', '.join('Tensor ' + n for n in names)}) -> Tensor", rule=None, on="-")(bound).op.function


def run(body, *arrays, grad=False):
    """A body of one operator, called on arrays."""
    return operator(body, len(arrays))(*[rl.tensor(a).requires_grad_(grad) for a in arrays])


def steps_to_one(x):
    """Collatz: the number of steps from x to 1."""
    def advance(n, k, three):
        return T.where((n & 1) == 0, n >> 1, n * three + 1), k + 1
    return T.loop(lambda n, k, three: n > 1, advance, [x, x * 0], [T.const(3, "i64")], trips=1000)[1]


def collatz(n):
    k = 0
    while n > 1: n, k = (n // 2 if n % 2 == 0 else 3 * n + 1), k + 1
    return k


def test_each_lane_ends_by_itself():
    n = np.arange(1, 200)
    got = run(steps_to_one, n)
    assert got.tolist() == [collatz(int(v)) for v in n]


def test_a_lane_does_not_depend_on_its_neighbours():
    def newton(x):                                       # a root by iteration, to the last bit: how long it takes differs from lane to lane
        def better(r, before, x): return (r + x / r) * 0.5, r
        return T.loop(lambda r, before, x: T.prim("abs", r - before) > 0.0, better, [x, x * 0.0], [x], trips=60)[0]
    x = np.exp(np.random.default_rng(0).uniform(-20, 20, 77)).astype("float32")
    together = run(newton, x).numpy()
    assert np.allclose(together, np.sqrt(x), rtol=3e-7)
    alone = np.concatenate([run(newton, x[i:i + 1]).numpy() for i in range(0, 77, 7)])
    assert (together[::7] == alone).all()


def test_the_bound_ends_it():
    got = run(lambda x: T.loop(lambda k: k == k, lambda k: (k + 1.0,), [x], trips=17)[0], np.array([0.0, 5.0], "float32"))
    assert got.tolist() == [17.0, 22.0]


def test_nan_ends_a_loop_whose_test_compares():
    got = run(lambda x: T.loop(lambda x: x < 10.0, lambda x: (x * 2.0,), [x], trips=2 ** 40)[0], np.array([1.0, np.nan, 11.0]))
    assert got.tolist()[0] == 16.0 and np.isnan(got.tolist()[1]) and got.tolist()[2] == 11.0


def test_operands_spread():
    x, y = np.array([[1.0], [2.0]]), np.array([1.0, 2.0, 3.0])
    got = run(lambda x, y: T.loop(lambda a, k, y: k < y, lambda a, k, y: (a * 2.0, k + 1.0), [x, T.const(0.0, "f64")], [y], trips=10)[0], x, y)
    assert got.tolist() == (x * 2 ** y).tolist()


@pytest.mark.parametrize("body, words", [
    (lambda x: T.loop(lambda a: a < 1.0, lambda a: (a + 1.0,), [x]), "bound"),
    (lambda x: T.loop(lambda a: a < x, lambda a: (a + 1.0,), [x], trips=3), "operand"),
    (lambda x: T.loop(lambda a: a + 1.0, lambda a: (a + 1.0,), [x], trips=3), "boolean"),
    (lambda x: T.loop(lambda a: a < 1.0, lambda a: (T.cast(a, "i64"),), [x], trips=3), "comes out as"),
    (lambda x: T.loop(lambda a: a < 1.0, lambda a: (a, a), [x], trips=3), "carries 1 values in and 2 out"),
    (lambda x: T.loop(lambda a: a < 1.0, lambda a: (T.reduce_all("sum", T.expand(a, (3,))),), [x], trips=3), "only pointwise"),
])
def test_malformed_loops_are_refused(body, words):
    with pytest.raises((ValueError, AssertionError), match=words): run(lambda x: body(x)[0], np.ones(3))


def test_a_loop_has_no_derivative():
    with pytest.raises(NotImplementedError, match="derivative of a scalar loop"):
        run(lambda x: T.loop(lambda a: a < 10.0, lambda a: (a * 2.0,), [x], trips=5)[0], np.ones(3), grad=True)


def test_branch_gives_what_where_gives():
    def doubled_thrice(x):                               # a loop inside the branch
        return T.loop(lambda a, k: k < 3, lambda a, k: (a + a, k + 1), [x, T.const(0, "i64")], trips=9)[0]
    for x in (np.linspace(-1, 1, 77), np.linspace(-2, -1, 40), np.array([3.0]), np.linspace(-1, 1, 45).astype("float32")):
        got = run(lambda x: T.branch(x > 0.0, doubled_thrice, [x], x * 0.0 - 1.0), x)
        assert (got.numpy() == np.where(x > 0, x * 8, -1)).all()


def test_loops_over_a_batch_and_inside_compile():
    degree = rl.tensor([1.0, 4.0, 7.0])
    x = rl.tensor(np.random.default_rng(3).uniform(-1, 1, (5, 3)))
    plain = rl.special.legendre_polynomial_p(x, degree)
    assert rl.equal(rl.func.vmap(lambda row: rl.special.legendre_polynomial_p(row, degree))(x), plain)
    assert rl.equal(rl.compile(lambda t: rl.special.legendre_polynomial_p(t, degree) * 2)(x), plain * 2)


# ---------------------------------------------------------------------------------------------------------------- scans
@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_linear_recurrence(dim, reverse, dtype):
    rng = np.random.default_rng(1)
    draw = lambda: rng.normal(size=(5, 41)).astype(dtype) + (1j * rng.normal(size=(5, 41)) if dtype[0] == "c" else 0)
    x, a = draw(), draw() * 0.5
    got = run(lambda x, a: T.recurrence(x, a, dim, reverse), x, a)
    order = range(x.shape[dim])[::-1] if reverse else range(x.shape[dim])
    want, before = np.empty_like(x), None
    for k in order:
        at = (k, slice(None)) if dim == 0 else (slice(None), k)
        before = want[at] = x[at] if before is None else x[at] + a[at] * before
    assert np.allclose(got.numpy(), want, rtol=1e-13)


def test_linear_recurrence_is_differentiated():
    rng = np.random.default_rng(2)
    x, a = rng.normal(size=(3, 7)), rng.normal(size=(3, 7))
    for dim, reverse in ((1, False), (0, True)):
        function = operator(lambda x, a: T.recurrence(x, a, dim, reverse), 2)
        given = [rl.tensor(v).requires_grad_() for v in (x, a)]
        assert rl.autograd.gradcheck(function, given) and rl.autograd.gradgradcheck(function, given)


def test_first_factor_does_not_count():
    got = run(lambda x, a: T.recurrence(x, a, 0), np.array([1.0, 2.0]), np.array([np.nan, 3.0]))
    assert got.tolist() == [1.0, 5.0]


def test_running_log_sum_exp_at_the_ends():
    inf = float("inf")
    got = rl.logcumsumexp(rl.tensor([-inf, -inf, 1000.0, 1000.0, inf, inf, 0.0]), 0).tolist()
    assert got[:3] == [-inf, -inf, 1000.0] and abs(got[3] - (1000 + np.log(2))) < 1e-4 and got[4:] == [inf] * 3
    assert np.isnan(rl.logcumsumexp(rl.tensor([1.0, float("nan"), 1.0]), 0).tolist()[1:]).all()


def test_gradient_of_the_running_log_sum_exp_of_large_numbers():
    """Single precision holds 1e4 to 5e-4: the gradient is that of the double, rounded."""
    values = 1e4 + np.random.default_rng(0).normal(size=(3, 50))
    found = []
    for dtype in (rl.float32, rl.float64):
        x = rl.tensor(values.astype(np.float32)).to(dtype).requires_grad_()
        rl.logcumsumexp(x, 1).backward(rl.linspace(-1, 1, 150).reshape(3, 50).to(dtype))
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape, dim", [((5, 1), 1), ((1, 5), 0), ((1,), 0), ((3, 1, 4), 1)])
@pytest.mark.parametrize("running", [rl.cummax, rl.cummin])
def test_running_extremes_over_one_element(running, shape, dim):
    x = rl.randn(shape, requires_grad=True)
    for f in (running, rl.compile(running)):
        values, places = f(x, dim)
        assert rl.equal(values, x) and places.dtype is rl.int64 and places.stride() == rl.empty(shape).stride() and not places.any()
    assert rl.equal(rl.autograd.grad(values.sum(), x)[0], rl.ones(shape))
    assert not rl.func.vmap(lambda row: running(row, 0).indices)(x.detach().reshape(-1, 1)).any()
    whole = rl.randint(5, 9, shape)                              # of the dtype that places have
    values, places = running(whole, dim)
    assert rl.equal(values, whole) and not places.any()


@pytest.mark.parametrize("running", [rl.cummax, rl.cummin])
def test_running_extremes_are_the_last_of_equals(running):
    """Along rows and across columns, whatever the sign of a zero."""
    x = rl.tensor([[0.0, -0.0, 0.0, -0.0, 0.0], [-0.0, 0.0, 0.0, -0.0, -0.0]])
    for values, places in (running(x, 1), [t.T for t in running(x.T.contiguous(), 0)]):
        assert rl.equal(places, rl.arange(5).expand(2, 5)) and rl.equal(values.signbit(), x.signbit())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("running, better", [(rl.cummax, np.greater_equal), (rl.cummin, np.less_equal)])
def test_running_extremes_along_rows_that_are_read_by_vectors(running, better, dtype):
    """New extremes in every vector, in some, in none; NaN from somewhere on; rows that end within a vector."""
    rng = np.random.default_rng(0)
    for length in (15, 16, 17, 49, 200):
        rows = np.stack([rng.standard_normal(length), np.arange(length) * 1.0, -np.arange(length), rng.integers(0, 3, length), np.zeros(length),
                         np.where(np.arange(length) == length // 2, np.nan, rng.standard_normal(length)), np.full(length, np.nan), np.full(length, -np.inf)]).astype(dtype)
        values, places = running(rl.from_numpy(rows), 1)
        for row, value, place in zip(rows, values.numpy(), places.numpy()):
            best = 0
            for i, x in enumerate(row):
                if np.isnan(x) or better(x, row[best]): best = i
                assert place[i] == best and (value[i] == row[best] or np.isnan(row[best]))
    column = rl.from_numpy(rows.T.copy()).T                          # strided along the row
    assert rl.equal(running(column, 1).indices, places)
