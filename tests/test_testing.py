"""assert_close: what it accepts, and its words."""
import pytest

import rushlight as rl
from rushlight.testing import assert_close

NAN = float("nan")


@pytest.mark.parametrize("actual, expected, options", [
    (lambda: rl.ones(3), lambda: rl.ones(3) + 1e-6, {}), (lambda: 1.0, lambda: 1.0 + 1e-9, {}),
    (lambda: [1, {"a": rl.ones(2)}], lambda: [1, {"a": rl.ones(2)}], {}),
    (lambda: rl.tensor([NAN]), lambda: rl.tensor([NAN]), {"equal_nan": True}), (lambda: None, lambda: None, {}),
    (lambda: rl.empty(0), lambda: rl.empty(0), {}),
    (lambda: rl.ones(2), lambda: rl.ones(2, dtype=rl.float64), {"check_dtype": False}),
    (lambda: rl.nn.Parameter(rl.ones(2)), lambda: rl.ones(2), {}),
])
def test_accepts(actual, expected, options):
    assert_close(actual(), expected(), **options)


@pytest.mark.parametrize("actual, expected, error, text", [
    (lambda: rl.ones(2, 2), lambda: rl.tensor([[1.0, 1], [1, 2]]), AssertionError,
     "Tensor-likes are not close!\n\nMismatched elements: 1 / 4 (25.0%)\nGreatest absolute difference: 1.0 at index (1, 1) (up to 1e-05 "
     "allowed)\n"
     "Greatest relative difference: 0.5 at index (1, 1) (up to 1.3e-06 allowed)"),
    (lambda: rl.tensor([1, 2]), lambda: rl.tensor([1, 3]), AssertionError,
     "Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)\nGreatest absolute difference: 1 at index (1,)\n"
     "Greatest relative difference: 0.3333333432674408 at index (1,)"),
    (lambda: 1.0, lambda: 2.0, AssertionError,
     "Scalars are not close!\n\nExpected 2.0 but got 1.0.\nAbsolute difference: 1.0 (up to 1e-07 allowed)\nRelative difference: 0.5 (up "
     "to 1e-07 allowed)"),
    (lambda: [1, 2], lambda: [1, 3], AssertionError,
     "Scalars are not equal!\n\nExpected 3 but got 2.\nAbsolute difference: 1\nRelative difference: 0.3333333333333333\n\nThe failure "
     "occurred for item [1]"),
    (lambda: rl.ones(2), lambda: rl.ones(3), AssertionError, "The values for attribute 'shape' do not match: torch.Size([2]) != "
                                                             "torch.Size([3])."),
    (lambda: rl.ones(2), lambda: rl.ones(2).double(), AssertionError, "The values for attribute 'dtype' do not match: torch.float32 != "
                                                                      "torch.float64."),
    (lambda: {"a": 1}, lambda: {"b": 1}, AssertionError,
     "The keys of the mappings do not match:\nMissing keys in the actual mapping: ['b']\nAdditional keys in the actual mapping: ['a']"),
    (lambda: "a", lambda: "b", TypeError, "No comparison pair was able to handle inputs of type <class 'str'> and <class 'str'>."),
    (lambda: True, lambda: False, AssertionError, "Booleans mismatch: True is not False"),
])
def test_refuses(actual, expected, error, text):
    with pytest.raises(error) as caught:
        assert_close(actual(), expected())
    assert str(caught.value) == text


def test_messages_and_tolerances():
    with pytest.raises(AssertionError, match="^mine$"):
        assert_close(1, 2, msg="mine")
    with pytest.raises(AssertionError, match="^mine: Scalars"):
        assert_close(1, 2, msg=lambda text: "mine: " + text)
    with pytest.raises(ValueError, match="Both 'rtol' and 'atol' must be either specified or omitted, but got no atol."):
        assert_close(1, 2, rtol=1e-3)
