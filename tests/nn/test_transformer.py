"""Attention and transformer modules beside torch's: the same names, initial values, masks, results and gradients."""
import math

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402


def pair(make, seed=3):
    """The same module here and there, from the same seed."""
    rl.manual_seed(seed)
    torch.manual_seed(seed)
    mine, theirs = make(rl), make(torch)
    a, b = mine.state_dict(), theirs.state_dict()
    assert list(a) == list(b)
    for name in a: assert a[name].tolist() == b[name].tolist(), name
    return mine, theirs


def both(*shape, seed=0):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return rl.from_numpy(x.numpy().copy()), x


def close(mine, theirs, limit=2e-5):
    assert tuple(mine.shape) == tuple(theirs.shape)
    gap = (torch.from_numpy(mine.detach().numpy().copy()) - theirs.detach()).abs().max().item()
    assert gap < limit * max(1.0, theirs.detach().abs().max().item()), gap


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"add_bias_kv": True, "add_zero_attn": True}, {"kdim": 6, "vdim": 10}, {"batch_first": True}])
@pytest.mark.parametrize("need_weights", [True, False])
def test_multihead_attention(options, need_weights):
    mine, theirs = pair(lambda m: m.nn.MultiheadAttention(8, 2, **options))
    order = (lambda s, b, f: (b, s, f)) if options.get("batch_first") else (lambda s, b, f: (s, b, f))
    q, tq = both(*order(5, 3, 8))
    k, tk = both(*order(7, 3, options.get("kdim", 8)), seed=1)
    v, tv = both(*order(7, 3, options.get("vdim", 8)), seed=2)
    padding = torch.zeros(3, 7, dtype=torch.bool)
    padding[1, 5:] = True
    causal = torch.triu(torch.ones(5, 7, dtype=torch.bool), 1)
    for mask, pad in ((None, None), (causal, None), (None, padding), (causal, padding)):
        send = lambda x: None if x is None else rl.from_numpy(x.numpy().copy())
        a, wa = mine(q, k, v, key_padding_mask=send(pad), attn_mask=send(mask), need_weights=need_weights)
        b, wb = theirs(tq, tk, tv, key_padding_mask=pad, attn_mask=mask, need_weights=need_weights)
        close(a, b)
        assert (wa is None) == (wb is None)
        if wa is not None: close(wa, wb)
        mine.zero_grad()
        theirs.zero_grad()
        a.square().sum().backward()
        b.square().sum().backward()
        for (name, p), t in zip(mine.named_parameters(), theirs.parameters()):
            assert (p.grad is None) == (t.grad is None), name
            if t.grad is not None: close(p.grad, t.grad, 1e-4)


def test_weights_of_each_head_and_no_batch():
    mine, theirs = pair(lambda m: m.nn.MultiheadAttention(8, 4))
    x, tx = both(6, 8)
    a, wa = mine(x, x, x, average_attn_weights=False)
    b, wb = theirs(tx, tx, tx, average_attn_weights=False)
    close(a, b)
    close(wa, wb)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder(norm_first, activation):
    make = lambda m: m.nn.TransformerEncoder(m.nn.TransformerEncoderLayer(8, 2, 16, 0.0, activation, batch_first=True, norm_first=norm_first), 2, m.nn.LayerNorm(8))
    mine, theirs = pair(make)
    x, tx = both(3, 5, 8)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(5)
    close(mine(x), theirs(tx))
    a, b = mine(x, rl.nn.Transformer.generate_square_subsequent_mask(5)), theirs(tx, mask)
    close(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    for p, t in zip(mine.parameters(), theirs.parameters()): close(p.grad, t.grad, 1e-4)


def test_padded_places_in_inference():
    make = lambda m: m.nn.TransformerEncoder(m.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
    mine, theirs = pair(make)
    x, tx = both(3, 5, 8)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[0, 3:] = padding[2, 1:] = True
    mine.eval()
    theirs.eval()
    with rl.no_grad(), torch.no_grad():
        close(mine(x, src_key_padding_mask=rl.from_numpy(padding.numpy().copy())), theirs(tx, src_key_padding_mask=padding))


@pytest.mark.parametrize("norm_first", [False, True])
def test_whole(norm_first):
    mine, theirs = pair(lambda m: m.nn.Transformer(8, 2, 2, 2, 16, 0.0, norm_first=norm_first))
    src, tsrc = both(6, 3, 8)
    tgt, ttgt = both(4, 3, 8, seed=1)
    a = mine(src, tgt, tgt_mask=rl.nn.Transformer.generate_square_subsequent_mask(4))
    b = theirs(tsrc, ttgt, tgt_mask=torch.nn.Transformer.generate_square_subsequent_mask(4))
    close(a, b, 1e-4)
    a.square().sum().backward()
    b.square().sum().backward()
    for p, t in zip(mine.parameters(), theirs.parameters()): close(p.grad, t.grad, 1e-3)


def test_refusals():
    with pytest.raises(AssertionError, match="divisible"): rl.nn.MultiheadAttention(8, 3)
    mine = rl.nn.MultiheadAttention(8, 2)
    x = rl.ones(5, 3, 8)
    with pytest.raises(AssertionError, match="embedding dimension"): mine(rl.ones(5, 3, 6), rl.ones(5, 3, 6), rl.ones(5, 3, 6))
    with pytest.raises(RuntimeError, match="The shape of the 2D attn_mask"): mine(x, x, x, attn_mask=rl.zeros(2, 2))
    with pytest.raises(RuntimeError, match="batch number"): rl.nn.Transformer(8, 2, 1, 1, 16)(rl.ones(5, 3, 8), rl.ones(5, 2, 8))
    assert math.isinf(rl.nn.Transformer.generate_square_subsequent_mask(3)[0, 1].item())
