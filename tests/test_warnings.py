"""What the library warns of: at the user's line, each call or once a process as torch does, by Python's filters; and that a call which warns is otherwise like any other."""
import inspect
import warnings

import numpy as np
import pytest

import rushlight as torch

F = torch.nn.functional
rows, row = torch.ones(3, 1), torch.ones(3)
complexes = torch.ones(3, dtype=torch.complex64)


def heard(call, times=1):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(times): call()
    return said


WARNED = {
    "broadcast mse": lambda: F.mse_loss(rows, row), "broadcast l1": lambda: F.l1_loss(rows, row), "broadcast smooth_l1": lambda: F.smooth_l1_loss(rows, row),
    "broadcast huber": lambda: F.huber_loss(rows, row), "module": lambda: torch.nn.MSELoss()(rows, row), "size_average": lambda: F.mse_loss(row, row, size_average=True),
    "kl_div mean": lambda: F.kl_div(row, row), "softmax": lambda: F.softmax(row), "T": lambda: row.T, "T of nothing": lambda: row[0].T, "mT of nothing": lambda: row[0].mT,
    "var of one": lambda: rows[:1].var(), "correction": lambda: row.std(correction=3), "cov": lambda: rows.cov(),
    "complex to real": lambda: complexes.float(), "written": lambda: row.clone().copy_(complexes), "assigned": lambda: row.clone().__setitem__(0, complexes[0]), "summed": lambda: complexes.sum(dtype=torch.float32),
    "cholesky": lambda: torch.cholesky(torch.eye(2)), "lu": lambda: torch.lu(torch.eye(2)), "cross": lambda: torch.cross(row, row), "same": lambda: F.conv1d(torch.ones(1, 1, 8), torch.ones(1, 1, 4), padding="same"),
    "scatter": lambda: row.scatter(0, torch.tensor([0]), row, reduce="add"), "uint8 condition": lambda: torch.where(row.byte(), row, row), "uint8 index": lambda: row[row.byte()],
    "out": lambda: torch.add(row, row, out=torch.ones(2)), "out of nonzero": lambda: torch.nonzero(row, out=torch.ones(1, dtype=torch.int64)), "tensor of a tensor": lambda: torch.tensor(row),
    "grad of no leaf": lambda: (torch.ones(1, requires_grad=True) * 2).grad, "upsample": lambda: F.upsample(torch.ones(1, 1, 2, 2), scale_factor=2), "resize": lambda: row.resize(3, 1),
    "loader": lambda: torch.utils.data.DataLoader([1], num_workers=10_000), "encoder": lambda: torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(2, 1), 1),
    "meshgrid": lambda: torch.meshgrid(row, row), "new_tensor": lambda: row.new_tensor(row), "loss module": lambda: torch.nn.MSELoss(reduce=True),
}


@pytest.fixture
def warn_always():
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(False)


@pytest.mark.parametrize("name", WARNED)
def test_every_call_warns_at_the_users_line(name, warn_always):
    call = WARNED[name]
    said = heard(call, times=3)
    assert len(said) >= 3, "a plan that is replayed warns as the first call does"
    assert {w.category for w in said} == {UserWarning}
    lines, first = inspect.getsourcelines(call)
    assert {w.filename for w in said} == {__file__} and {w.lineno for w in said} <= set(range(first, first + len(lines)))


NOT_WARNED = {
    "mse": lambda: F.mse_loss(row, row), "mse of other sizes": lambda: F.mse_loss(rows, rows), "softmax": lambda: F.softmax(row, 0), "T": lambda: rows.T, "var": lambda: row.var(), "var without": lambda: rows[:1].var(correction=0),
    "to bool": lambda: complexes.bool(), "to complex": lambda: complexes.to(torch.complex128), "real": lambda: complexes.real.float(), "odd": lambda: F.conv1d(torch.ones(1, 1, 8), torch.ones(1, 1, 3), padding="same"),
    "dilated": lambda: F.conv1d(torch.ones(1, 1, 8), torch.ones(1, 1, 4), padding="same", dilation=2), "none of them": lambda: complexes[:0].float(),
    "empty out": lambda: torch.add(row, row, out=torch.empty(0)), "factory": lambda: torch.ones(3, out=torch.ones(2)), "linspace": lambda: torch.linspace(0, 1, 3, out=torch.ones(2)), "batchmean": lambda: F.kl_div(rows, rows, reduction="batchmean"),
}


@pytest.mark.parametrize("name", NOT_WARNED)
def test_no_warning_without_a_reason(name):
    assert not heard(NOT_WARNED[name], times=2)


# What torch says once a process: those of its operators, where they are not about numbers that come out otherwise than meant.
ONCE = ["T", "T of nothing", "complex to real", "cholesky", "lu", "cross", "same", "scatter", "uint8 condition", "meshgrid"]


@pytest.mark.parametrize("name", ONCE)
def test_once_a_process(name):
    heard(WARNED[name])
    assert not heard(WARNED[name], times=2)


def test_what_became_an_error_was_not_said():
    call = lambda: torch.chain_matmul(rows.T, rows)          # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match="chain_matmul"): call()
    assert [len(heard(call)) for _ in range(2)] == [1, 0]


def test_python_filters_decide(warn_always):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="target's size"): F.mse_loss(rows, row)
        target = torch.ones(3)
        with pytest.raises(UserWarning): target.copy_(complexes * 5)
        assert target.tolist() == [1, 1, 1], "nothing is written before the warning"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        for _ in range(3): F.mse_loss(rows, row)
    assert len(said) == 1, "once for a line"


def test_a_gradient_is_taken_and_says_nothing_more():
    x = torch.zeros(3, 1, requires_grad=True)
    assert len(heard(lambda: F.mse_loss(x, row).backward())) == 1
    assert x.grad.flatten().tolist() == pytest.approx([-2 / 3] * 3)


def test_forward_mode_warns_once():
    import rushlight.autograd.forward_ad as forward
    def call():
        with forward.dual_level(): F.mse_loss(forward.make_dual(rows, rows), row)
    assert len(heard(call)) == 1


def test_compiled_functions_warn_when_they_are_recorded():
    compiled = torch.compile(lambda a, b: F.mse_loss(a, b) + 1)
    assert len(heard(lambda: compiled(rows, row), times=3)) == 3


def test_warn_always_overrides_once():
    frozen = np.zeros(3)
    frozen.setflags(write=False)
    heard(lambda: torch.from_numpy(frozen))
    assert not heard(lambda: torch.from_numpy(frozen))
    torch.set_warn_always(True)
    try: assert torch.is_warn_always_enabled() and len(heard(lambda: torch.from_numpy(frozen), times=2)) == 2
    finally: torch.set_warn_always(False)
    assert not heard(lambda: torch.from_numpy(frozen))


def test_numbers_of_what_requires_grad():
    x = torch.ones((), requires_grad=True)
    torch.set_warn_always(True)
    try: assert [len(heard(lambda: f(x))) for f in (float, complex, int, bool, torch.Tensor.item)] == [1, 1, 0, 0, 0]      # noqa: B023
    finally: torch.set_warn_always(False)


def test_matrices_of_no_dimensions():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = torch.ones((), dtype=torch.complex64)
        assert x.mT is x and x.mH.is_conj() and x.H.is_conj() and x.T._base is x
        real = torch.ones(())
        assert real.mH is real and real.H is real
