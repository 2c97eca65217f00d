"""Rows whose interior runs without the tests of its borders: the same values, wherever the bounds fall (compiler/emit/interior.py)."""
import io
import itertools

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", MODES)
def test_pads_of_every_width(mode):
    """One recipe serves them all: its interior was chosen for the first, and is empty, short or shifted for others."""
    for width, before, after in itertools.product((40, 3, 7, 100), (0, 1, 2, 6), (0, 2, 5)):
        if mode != "constant" and max(before, after) >= width: continue
        x = np.random.default_rng(width).standard_normal((2, 3, 5, width)).astype(np.float32)
        ours = F.pad(torch.tensor(x), (before, after, 1, 2), mode=mode)
        np.testing.assert_array_equal(ours.numpy(), np.pad(x, ((0, 0), (0, 0), (1, 2), (before, after)), mode=MODES[mode]))


def test_a_row_that_is_all_border():
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
    for before, after in ((1, 1), (50, 3), (3, 50), (40, 40)):
        np.testing.assert_array_equal(F.pad(torch.tensor(x), (before, after)).numpy(), np.pad(x, ((0, 0), (0, 0), (0, 0), (before, after))))


@pytest.mark.parametrize("shift", [0, 1, 5, 31, 60, 63, -1, -40, 130])
def test_both_sides_of_a_roll(shift):
    x = np.arange(3 * 64, dtype=np.float32).reshape(3, 64)
    np.testing.assert_array_equal(torch.roll(torch.tensor(x), shift, 1).numpy(), np.roll(x, shift, 1))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_gradients_count_each_element(mode):
    """The sum of all gradients is the number of elements of the padded tensor, and the interior's own are 1."""
    x = torch.zeros(2, 2, 20, 50, requires_grad=True)
    F.pad(x, (3, 4, 2, 1), mode=mode).sum().backward()
    assert x.grad.sum().item() == 2 * 2 * 23 * 57
    assert (x.grad[:, :, 4:-4, 6:-6] == 1).all()


def test_crops():
    x = torch.randn(4, 64)
    assert F.pad(x, (-3, 2)).tolist() == [row[3:] + [0.0, 0.0] for row in x.tolist()]
    assert F.pad(x, (2, -3)).tolist() == [[0.0, 0.0] + row[:-3] for row in x.tolist()]


def test_the_interior_is_found(monkeypatch):
    """The kernel of a pad has a row body without a guard: were it lost, only time would show it."""
    from rushlight.compiler.emit import interior, llvm
    found = []

    def watched(kernel, program):
        found.append(interior.interior_of(kernel, program))
        return found[-1]
    monkeypatch.setattr(llvm, "interior_of", watched)
    torch.explain(F.pad, torch.randn(3, 5, 7, 41), (1, 2, 0, 3), stages="llvm", file=io.StringIO())         # it compiles, whatever a cache has
    stores = [[s.expr for s in i.pass_.stores] for i in found if i is not None]
    assert stores and all(len(of_one) == 1 and of_one[0].attrs["guarded"] is True and of_one[0].axes for of_one in stores)
