"""The zoo: sizes of the published models, names of the usual checkpoints, gradients everywhere, and generation with kept keys and values."""
import pytest

import rushlight as rl
from rushlight import models


def trained(net, *inputs, loss=lambda out: out.sum()):
    loss(net(*inputs)).backward()
    assert all(p.grad is not None and bool(p.grad.isfinite().all()) for p in net.parameters())


@pytest.mark.parametrize("make, count, names", [
    (models.resnet18, 11_689_512, ["conv1.weight", "layer2.0.downsample.1.running_var", "layer4.1.bn2.bias", "fc.weight"]),
    (models.resnet50, 25_557_032, ["layer1.0.conv3.weight", "layer3.5.bn3.num_batches_tracked"]),
    (models.mobilenet_v2, 3_504_872, ["features.0.0.weight", "features.1.conv.1.weight", "features.2.conv.3.running_mean", "features.18.1.bias", "classifier.1.weight"]),
    (models.vit_b_16, 86_567_656, ["class_token", "conv_proj.weight", "encoder.pos_embedding", "encoder.layers.encoder_layer_11.self_attention.in_proj_weight", "encoder.layers.encoder_layer_0.mlp.3.bias", "heads.head.bias"]),
    (models.GPT2, 124_439_808, ["transformer.wte.weight", "transformer.h.11.attn.c_attn.weight", "transformer.h.0.mlp.c_proj.bias", "transformer.ln_f.weight", "lm_head.weight"]),
    (models.BertModel, 109_482_240, ["embeddings.LayerNorm.weight", "encoder.layer.11.attention.self.query.weight", "encoder.layer.0.attention.output.dense.bias", "encoder.layer.3.intermediate.dense.weight", "pooler.dense.bias"]),
])
def test_published_size_and_names(make, count, names):
    with rl.device("meta"): net = make()
    assert sum(p.numel() for p in net.parameters()) == count
    assert set(names) <= set(net.state_dict())


def test_image_models_train():
    image = rl.randn(2, 3, 32, 32)
    trained(models.LeNet(), rl.randn(2, 1, 28, 28))
    trained(models.resnet18(num_classes=5), image)
    trained(models.MobileNetV2(num_classes=5, width_mult=0.25), image)
    trained(models.VisionTransformer(32, 8, 2, 2, 16, 32, num_classes=5), image)
    trained(models.UNet(widths=(4, 8)), rl.randn(1, 3, 22, 18))


def test_language_models_train_and_generate():
    ids = rl.randint(0, 50, (2, 9))
    gpt = models.GPT2(50, 32, 24, 2, 3)
    trained(gpt, ids, ids, loss=lambda out: out[1])
    trained(models.BertModel(50, 16, 24, 2, 3, 48), ids, rl.ones(2, 9), loss=lambda out: out[0].sum() + out[1].sum())
    trained(models.LSTMTagger(50, 4, 8, 8), ids, rl.tensor([9, 4]))
    gpt.eval()
    with rl.no_grad():
        slow = ids
        for _ in range(6): slow = rl.cat([slow, gpt(slow)[:, -1].argmax(-1, keepdim=True)], 1)
    assert rl.equal(gpt.generate(ids, 6, temperature=0), slow) and tuple(gpt.generate(ids, 3, top_k=4).shape) == (2, 12)
    with pytest.raises(ValueError, match="do not fit in a context"): gpt(rl.zeros(1, 33, dtype=rl.int64))


def test_generative_and_graph_models_train():
    vae = models.VariationalAutoencoder(64, 16, 4)
    vae.loss(rl.rand(3, 8, 8)).backward()
    assert all(p.grad is not None for p in vae.parameters())
    generator, discriminator = models.DCGANGenerator(8, 4), models.DCGANDiscriminator(4)
    fake = generator(rl.randn(2, 8, 1, 1))
    assert tuple(fake.shape) == (2, 3, 64, 64)
    discriminator(fake).sum().backward()
    assert all(p.grad is not None for p in [*generator.parameters(), *discriminator.parameters()])
    edges = rl.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    net = models.GCN(5, 8, 3).eval()
    x = rl.randn(4, 5)
    trained(net, x, edges)
    turned = rl.tensor([1, 2, 3, 0])                     # a ring looks the same from each node
    rl.testing.assert_close(net(x[turned], edges), net(x, edges)[turned])


def test_several_tokens_after_kept_ones():
    rl.manual_seed(0)
    gpt = models.GPT2(vocabulary=50, context=12, width=16, layers=2, heads=2).eval()
    ids, past = rl.randint(0, 50, (2, 9)), []
    pieces = [gpt(part, past=past) for part in ids.split([3, 4, 2], 1)]
    rl.testing.assert_close(rl.cat(pieces, 1), gpt(ids), rtol=1e-5, atol=1e-5)


def test_models_say_what_does_not_fit():
    gpt = models.GPT2(vocabulary=50, context=12, width=16, layers=1, heads=2)
    bert = models.BertModel(vocabulary=50, context=12, width=16, layers=1, heads=2, hidden=16)
    for net in (gpt, bert):
        with pytest.raises(ValueError, match=r"must be \[batch, time\]"): net(rl.zeros(3, dtype=rl.int64))
        with pytest.raises(ValueError, match="13 tokens do not fit"): net(rl.zeros(1, 13, dtype=rl.int64))
    with pytest.raises(ValueError, match="does not divide into 3 heads"): models.GPT2(width=16, heads=3, layers=1, vocabulary=5)
    noise = rl.randn(2, 100)
    generator = models.DCGANGenerator(width=4).eval()
    assert rl.equal(generator(noise), generator(noise[:, :, None, None]))
