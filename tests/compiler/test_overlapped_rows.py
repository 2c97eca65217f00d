"""The last pass over a row goes together with the first pass over the next (schedule.overlapped): a row's bits are those it has alone."""
import pytest

import rushlight as rl

F = rl.nn.functional
LENGTHS = (33, 64, 100, 4096, 4097, 8300)           # with and without a tail, one block and several


def operations(n, dtype):
    weight, bias = rl.rand(n).to(dtype), rl.rand(n).to(dtype)
    return {
        'layer_norm': lambda x: F.layer_norm(x, (n,), weight, bias),
        'softmax': lambda x: F.softmax(x, -1),               # keeps its exponentials in the result's row
        'log_softmax': lambda x: F.log_softmax(x, -1),
    }


@pytest.mark.parametrize('dtype', [rl.float32, rl.float64, rl.bfloat16])
@pytest.mark.parametrize('n', LENGTHS)
def test_rows_together_as_alone(n, dtype):
    rl.manual_seed(n)
    x = rl.randn(7, n).to(dtype)
    for name, f in operations(n, dtype).items():
        alone = rl.cat([f(x[i:i + 1]) for i in range(len(x))])
        assert rl.equal(f(x), alone), name
        assert rl.equal(f(x.t().contiguous().t()), alone), name                                     # elements apart: no masks, tails one by one
        apart = rl.stack([x, x], 1)[:, 0]                                                           # rows apart
        assert rl.equal(f(apart), alone), name


def test_rows_of_several_axes():
    x = rl.randn(3, 8, 5, 70)[:, ::2]                        # axes that cannot be one: counters step from row to row
    for name, f in operations(70, rl.float32).items():
        assert rl.equal(f(x), f(x.contiguous())), name


def test_wherever_the_work_is_cut():
    x = rl.randn(300, 700)
    threads = rl.get_num_threads()
    for name, f in operations(700, rl.float32).items():
        rl.set_num_threads(1)
        one = f(x)
        try:
            rl.set_num_threads(3)
            assert rl.equal(f(x), one), name
        finally: rl.set_num_threads(threads)


@pytest.mark.parametrize('rows', [1, 2, 9])
def test_into_its_own_operand(rows):
    x = rl.randn(rows, 500)
    expected = rl.softmax(x, -1)
    rl.softmax(x, -1, out=x)
    assert rl.equal(x, expected)


def test_no_rows_and_rows_of_nothing():
    for shape in ((0, 40), (4, 0)):
        assert rl.softmax(rl.rand(shape), -1).shape == shape


def test_the_kernel_does_overlap():
    """What this file is about would go untested if the choice were never made."""
    from rushlight.compiler import schedule
    seen, original = [], schedule.overlapped
    def noting(k):
        seen.append(original(k))
        return seen[-1]
    schedule.overlapped = noting
    try: rl.explain(lambda: F.layer_norm(rl.rand(5, 200, 77)[:, ::2], (77,)), stages='loops')
    finally: schedule.overlapped = original
    assert any(seen)
