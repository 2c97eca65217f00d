"""ctc_loss against the sum over all alignments written out, and its gradient against differences."""
import itertools
import math

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F


def collapsed(path, blank):
    """An alignment without repeats and blanks."""
    return [c for i, c in enumerate(path) if c != blank and (i == 0 or path[i - 1] != c)]


def enumerated(log_probs, target, blank):
    """Minus the logarithm of the summed probability of every path that collapses to the target."""
    time, classes = log_probs.shape
    total = 0.0
    for path in itertools.product(range(classes), repeat=time):
        if collapsed(path, blank) == list(target): total += math.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
    return -math.log(total) if total else math.inf


def normalised(*shape, seed=0):
    return rl.log_softmax(rl.from_numpy(np.random.default_rng(seed).standard_normal(shape)), -1)


@pytest.mark.parametrize("blank", [0, 2])
def test_all_alignments(blank):
    labels = [c for c in range(3) if c != blank]
    log_probs = normalised(5, 4, 3)
    targets = [[labels[0]], [labels[0], labels[0]], [labels[1], labels[0], labels[1]], []]
    lengths = [5, 4, 5, 3]
    flat = rl.tensor([c for t in targets for c in t])
    got = F.ctc_loss(log_probs, flat, lengths, [len(t) for t in targets], blank=blank, reduction="none")
    for i, t in enumerate(targets):
        want = enumerated(log_probs[:lengths[i], i].numpy(), t, blank)
        assert abs(got[i].item() - want) < 1e-12
    padded = rl.tensor([t + [labels[0]] * (3 - len(t)) for t in targets])
    again = F.ctc_loss(log_probs, padded, rl.tensor(lengths), rl.tensor([len(t) for t in targets]), blank=blank, reduction="none")
    assert again.tolist() == got.tolist()
    sizes = np.maximum([len(t) for t in targets], 1)
    mean = F.ctc_loss(log_probs, flat, lengths, [len(t) for t in targets], blank=blank)
    assert abs(mean.item() - (got.numpy() / sizes).mean()) < 1e-12
    alone = F.ctc_loss(log_probs[:, 0], rl.tensor(targets[0]), rl.tensor(5), rl.tensor(1), blank=blank, reduction="none")
    assert alone.dim() == 0 and alone.item() == got[0].item()


def test_gradient_through_log_softmax():
    """torch's gradient is the one for normalised inputs: right behind a log_softmax."""
    x = rl.from_numpy(np.random.default_rng(1).standard_normal((4, 2, 3))).requires_grad_()
    loss = lambda x: F.ctc_loss(rl.log_softmax(x, -1), rl.tensor([[1, 2], [1, 1]]), [4, 3], [2, 2], reduction="none")
    assert rl.autograd.gradcheck(loss, x)


def test_impossible_targets():
    log_probs = normalised(2, 2, 3).requires_grad_()
    args = log_probs, rl.tensor([[1, 1], [1, 2]]), [2, 2], [2, 2]
    assert F.ctc_loss(*args, reduction="none")[0].item() == math.inf
    loss = F.ctc_loss(*args, reduction="none", zero_infinity=True)
    assert loss[0].item() == 0 and loss[1].item() > 0
    loss.sum().backward()
    assert log_probs.grad[:, 0].abs().max().item() == 0 and np.isfinite(log_probs.grad.numpy()).all()
    module = rl.nn.CTCLoss(reduction="sum", zero_infinity=True)
    assert module(*args).item() == loss.sum().item()


def test_same_bits_on_any_number_of_threads():
    log_probs = normalised(30, 40, 7).float().requires_grad_()
    targets = rl.from_numpy(np.random.default_rng(2).integers(1, 7, (40, 9)))
    threads, seen = rl.get_num_threads(), set()
    try:
        for n in (1, 2):
            rl.set_num_threads(n)
            loss = F.ctc_loss(log_probs, targets, [30] * 40, [9] * 40)
            seen.add((loss.item(), rl.autograd.grad(loss, log_probs)[0].numpy().tobytes()))
    finally: rl.set_num_threads(threads)
    assert len(seen) == 1


def test_refusals():
    log_probs = normalised(4, 2, 3)
    targets = rl.tensor([[1, 2], [1, 1]])
    with pytest.raises(RuntimeError, match="blank must be in label range"): F.ctc_loss(log_probs, targets, [4, 4], [2, 2], blank=3)
    with pytest.raises(RuntimeError, match="Expected input_lengths to have value at most 4"): F.ctc_loss(log_probs, targets, [5, 4], [2, 2])
    with pytest.raises(RuntimeError, match="Expected target_lengths to have value at least 0"): F.ctc_loss(log_probs, targets, [4, 4], [-1, 2])
    with pytest.raises(RuntimeError, match="must be of size batch_size"): F.ctc_loss(log_probs, targets, [4], [2, 2])
    with pytest.raises(RuntimeError, match="is not a class"): F.ctc_loss(log_probs, targets + 2, [4, 4], [2, 2])
    with pytest.raises(NotImplementedError, match="ctc_loss_cpu"): F.ctc_loss(log_probs.half(), targets, [4, 4], [2, 2])
    with pytest.raises(ValueError, match="not a valid value"): F.ctc_loss(log_probs, targets, [4, 4], [2, 2], reduction="all")
    x = log_probs.clone().requires_grad_()
    first, = rl.autograd.grad(F.ctc_loss(x, targets, [4, 4], [2, 2]), x, create_graph=True)
    with pytest.raises(RuntimeError, match="_ctc_loss_backward is not implemented"): first.sum().backward()
