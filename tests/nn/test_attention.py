"""scaled_dot_product_attention: the kernel against the definition in float64, its bits, and what it does not do."""
import math

import numpy as np
import pytest

import rushlight as rl
from rushlight.nn import functional as F


def tensors(batch, heads, rows, keys, depth, width, seed=0, dtype="float32"):
    rng = np.random.default_rng(seed)
    return [rl.from_numpy(rng.standard_normal((batch, heads, n, d)).astype(dtype)) for n, d in ((rows, depth), (keys, depth), (keys, width))]


def definition(q, k, v, mask=None, causal=False, scale=None):
    """In numpy, float64."""
    q, k, v = (x.detach().numpy().astype("float64") for x in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if mask is not None:
        m = mask.numpy()
        scores = np.where(m, scores, -np.inf) if m.dtype == bool else scores + m
    if causal: scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    e = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    return (e / np.where(total == 0, 1, total)) @ v


# Less than a block of keys, several, a last one of one key; rows beyond the keys; odd widths; enough batches that rows are not cut.
SHAPES = [(1, 1, 1, 1, 1, 1), (2, 3, 7, 129, 8, 5), (1, 2, 200, 257, 17, 16), (4, 5, 50, 50, 16, 16), (1, 1, 400, 30, 8, 8)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("how", ["plain", "causal", "bool", "float"])
def test_values(shape, how):
    q, k, v = tensors(*shape)
    rng = np.random.default_rng(1)
    mask = None
    if how == "bool": mask = rl.from_numpy(rng.random((shape[2], shape[3])) > 0.4)
    if how == "float": mask = rl.from_numpy(rng.standard_normal((shape[0], 1, shape[2], shape[3])).astype("float32"))
    got = F.scaled_dot_product_attention(q, k, v, mask, is_causal=how == "causal").numpy()
    want = definition(q, k, v, mask, how == "causal")
    assert np.abs(got - want).max() < 3e-6


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_gradients_are_those_of_the_definition(shape, causal):
    """In float64, against operators that keep all weights."""
    q, k, v = (x.requires_grad_() for x in tensors(*shape, dtype="float64"))
    w = rl.from_numpy(np.random.default_rng(2).standard_normal((*shape[:3], shape[5])))
    got = rl.autograd.grad(F.scaled_dot_product_attention(q, k, v, is_causal=causal), (q, k, v), w)
    scores = q @ k.transpose(-1, -2) / math.sqrt(shape[4])
    if causal: scores = scores.masked_fill(rl.ones(*shape[2:4]).triu(1) > 0, -math.inf)
    want = rl.autograd.grad(rl.softmax(scores, -1) @ v, (q, k, v), w)
    for a, b in zip(got, want): assert np.abs(a.numpy() - b.numpy()).max() < 1e-12


def test_second_derivatives():
    q, k, v = (x.requires_grad_() for x in tensors(1, 2, 3, 4, 3, 2, dtype="float64"))
    assert rl.autograd.gradgradcheck(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), (q, k, v))
    bias = rl.zeros(3, 4, dtype=rl.float64, requires_grad=True)
    assert rl.autograd.gradcheck(lambda q, b: F.scaled_dot_product_attention(q, k.detach(), v.detach(), b), (q, bias))


def run(q, k, v, causal):
    q, k, v = (x.detach().requires_grad_() for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return [out.detach(), *rl.autograd.grad(out, (q, k, v), rl.ones_like(out) * 0.5)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads", [2, 20])          # rows cut among threads, and not
def test_bits(heads, causal):
    """The same for any strides, any number of threads, and compiled."""
    q, k, v = tensors(1, heads, 250, 250, 16, 16)
    want = [x.numpy().tobytes() for x in run(q, k, v, causal)]
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v)]
    packed = rl.cat([x.transpose(1, 2).reshape(1, 250, -1) for x in (q, k, v)], -1).split(heads * 16, -1)
    packed = [x.reshape(1, 250, heads, 16).transpose(1, 2) for x in packed]
    for views in (turned, packed): assert [x.contiguous().numpy().tobytes() for x in run(*views, causal)] == want
    threads = rl.get_num_threads()
    try:
        for n in (1, 2, 3):
            rl.set_num_threads(n)
            assert [x.numpy().tobytes() for x in run(q, k, v, causal)] == want
    finally: rl.set_num_threads(threads)
    compiled = rl.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal) * 1.0)
    assert compiled(q, k, v).numpy().tobytes() == want[0]


def test_rows_do_not_see_each_other():
    """A row alone has the bits it has among others."""
    q, k, v = tensors(1, 2, 130, 90, 16, 16)
    whole = F.scaled_dot_product_attention(q, k, v)
    for i in (0, 47, 48, 129): assert F.scaled_dot_product_attention(q[:, :, i:i + 1], k, v).numpy().tobytes() == whole[:, :, i:i + 1].contiguous().numpy().tobytes()


def test_nothing_to_see_and_infinities():
    q, k, v = tensors(1, 1, 3, 4, 2, 2)
    mask = rl.tensor([[True] * 4, [False] * 4, [True, False, False, False]])
    q.requires_grad_()
    out = F.scaled_dot_product_attention(q, k, v, mask)
    assert out[0, 0, 1].tolist() == [0.0, 0.0]
    assert np.allclose(out[0, 0, 2].detach().numpy(), v[0, 0, 0].numpy())
    out.sum().backward()
    assert np.isfinite(q.grad.numpy()).all() and q.grad[0, 0, 1].tolist() == [0.0, 0.0]
    v[0, 0, 2, 0] = math.nan
    assert math.isnan(F.scaled_dot_product_attention(q, k, v)[0, 0, 0, 0].item())
    k[0, 0, 1, 0] = math.nan
    assert np.isnan(F.scaled_dot_product_attention(q, k, v).detach().numpy()).all()
    assert F.scaled_dot_product_attention(q, k[:, :, :0], v[:, :, :0]).tolist() == rl.zeros(1, 1, 3, 2).tolist()


def test_shared_heads():
    q, _, _ = tensors(2, 4, 5, 5, 8, 8)
    _, k, v = tensors(2, 2, 5, 6, 8, 8, seed=1)
    got = F.scaled_dot_product_attention(q, k, v, enable_gqa=True)
    want = F.scaled_dot_product_attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    assert got.numpy().tobytes() == want.numpy().tobytes()
    with pytest.raises(RuntimeError, match="Number of heads"): F.scaled_dot_product_attention(q[:, :3], k, v, enable_gqa=True)


def test_half_types_round_once():
    for dtype in (rl.float16, rl.bfloat16):
        q, k, v = (x.to(dtype) for x in tensors(1, 2, 40, 150, 16, 16))
        got = F.scaled_dot_product_attention(q, k, v)
        want = F.scaled_dot_product_attention(q.float(), k.float(), v.float()).to(dtype)
        assert got.dtype is dtype and got.float().numpy().tobytes() == want.float().numpy().tobytes()


def test_dropout():
    q, k, v = tensors(1, 2, 60, 60, 8, 8)
    rl.manual_seed(3)
    a = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    rl.manual_seed(3)
    assert a.tolist() == F.scaled_dot_product_attention(q, k, v, dropout_p=0.5).tolist()
    assert a.tolist() != F.scaled_dot_product_attention(q, k, v).tolist()
    mean = sum(F.scaled_dot_product_attention(q, k, v, dropout_p=0.3).numpy() for _ in range(200)) / 200
    assert np.abs(mean - F.scaled_dot_product_attention(q, k, v).numpy()).max() < 0.2


def test_refusals():
    q, k, v = tensors(1, 2, 3, 4, 8, 8)
    with pytest.raises(RuntimeError, match="Expected query, key, and value to have the same dtype"): F.scaled_dot_product_attention(q, k.double(), v)
    with pytest.raises(RuntimeError, match="at least 2 dimensional"): F.scaled_dot_product_attention(q[0, 0, 0], k, v)
    with pytest.raises(RuntimeError, match="Expected attn_mask dtype"): F.scaled_dot_product_attention(q, k, v, rl.zeros(3, 4, dtype=rl.int64))
    with pytest.raises(RuntimeError, match="must match the size of tensor b"): F.scaled_dot_product_attention(q, k, v, rl.zeros(3, 5))
    with pytest.raises(RuntimeError, match="key and value"): F.scaled_dot_product_attention(q, k, v[:, :, :2])
    with pytest.raises(RuntimeError): F.scaled_dot_product_attention(q, k[..., :7], v)
    with pytest.raises(NotImplementedError): F.scaled_dot_product_attention(*(x.to(rl.complex64) for x in (q, k, v)))
