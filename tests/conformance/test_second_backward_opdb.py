"""Whether a second backward is refused, for the differentiable operators of op_db (in CI every fourth): torch's verdict."""
import pytest

torch = pytest.importorskip("torch")

from bridge import flatten  # noqa: E402
from opdb import _both, entries, samples_of  # noqa: E402
from parts import over_entries  # noqa: E402

import rushlight as rl  # noqa: E402

# as_strided_scatter is a write into a copy here, and chunks of linear_cross_entropy are one operator: both keep what torch does not. Where there is nothing to do, torch's
# local_response_norm gives the input back; torch's masked.prod has no first backward for some samples; sparse results have no ones_like to start from.
LEFT_OUT = {"as_strided_scatter", "nn.functional.linear_cross_entropy/chunked", "nn.functional.local_response_norm", "masked.prod", "to_sparse"}


def verdict(result, library):
    """True: the second one is refused; None: there is no first."""
    outs = [t for t in flatten([result]) if isinstance(t, library.Tensor) and t.requires_grad and t.grad_fn is not None]
    if not outs: return None
    grads = [library.ones_like(t) for t in outs]
    try: library.autograd.backward(outs, grads)
    except RuntimeError: return None
    try: library.autograd.backward(outs, grads)
    except RuntimeError as error:
        assert "Trying to backward through the graph a second time" in str(error)
        return True
    return False


@over_entries([e for e in entries() if e[1].supports_autograd and torch.float32 in e[1].dtypes and e[0] not in LEFT_OUT])
def test_verdicts(name, info, ours):
    for number, sample in enumerate(samples_of(info, torch.float32, True, 4)):
        expected, got, *_ = _both(info, ours, sample)
        if expected.error is not None or got.error is not None: continue
        theirs, mine = verdict(expected.result, torch), verdict(got.result, rl)
        if theirs != mine: yield f"sample {number}: refused {mine}, torch {theirs}"
