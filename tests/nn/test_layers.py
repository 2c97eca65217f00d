"""Layers and containers: shapes, values that can be said by hand, repr."""
from collections import OrderedDict

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.testing import assert_close


def test_linear_is_an_affine_map():
    layer = nn.Linear(3, 2)
    x = rl.randn(4, 5, 3)
    assert_close(layer(x), (x.reshape(20, 3) @ layer.weight.t() + layer.bias).reshape(4, 5, 2))
    assert nn.Linear(3, 2, bias=False).bias is None
    bound = 1 / 3 ** 0.5
    assert layer.weight.abs().max().item() <= bound and layer.bias.abs().max().item() <= bound


def test_bilinear_by_hand():
    layer = nn.Bilinear(2, 3, 4)
    x, y = rl.randn(5, 2), rl.randn(5, 3)
    by_hand = rl.stack([rl.stack([x[n] @ layer.weight[o] @ y[n] for o in range(4)]) for n in range(5)]) + layer.bias
    assert_close(layer(x, y), by_hand, rtol=1e-4, atol=1e-5)


def test_embedding_padding_and_max_norm():
    layer = nn.Embedding(5, 3, padding_idx=1)
    assert rl.equal(layer.weight[1], rl.zeros(3))
    layer(rl.tensor([[0, 1], [1, 4]])).sum().backward()
    assert rl.equal(layer.weight.grad[:, 0], rl.tensor([1.0, 0.0, 0.0, 0.0, 1.0]))
    short = nn.Embedding(4, 3, max_norm=0.5)
    out = short(rl.tensor([0, 2, 2]))
    assert (out.norm(2, 1) <= 0.5 + 1e-5).all()
    with pytest.raises(IndexError):
        layer(rl.tensor([7]))


@pytest.mark.parametrize("shape, kind", [((8, 3), nn.BatchNorm1d), ((4, 3, 5), nn.BatchNorm1d), ((2, 3, 4, 4), nn.BatchNorm2d),
                                         ((2, 3, 2, 3, 4), nn.BatchNorm3d)])
def test_batch_norm_normalises_and_remembers(shape, kind):
    layer, x = kind(3), rl.randn(shape) * 3 + 1
    out = layer(x)
    dims = [d for d in range(len(shape)) if d != 1]
    assert_close(out.mean(dims), rl.zeros(3), rtol=0, atol=1e-5)
    assert_close(out.var(dims, correction=0), rl.ones(3), rtol=1e-3, atol=1e-4)
    assert_close(layer.running_mean, 0.1 * x.mean(dims), rtol=1e-5, atol=1e-6)
    assert_close(layer.running_var, 0.9 + 0.1 * x.var(dims), rtol=1e-5, atol=1e-6)
    assert layer.num_batches_tracked.item() == 1
    layer.eval()
    before = layer.running_mean.clone()
    layer(x)
    assert rl.equal(before, layer.running_mean)


def test_batch_norm_cumulative_average():
    layer = nn.BatchNorm1d(2, momentum=None)
    a, b = rl.randn(6, 2), rl.randn(6, 2)
    layer(a)
    layer(b)
    assert_close(layer.running_mean, (a.mean(0) + b.mean(0)) / 2)


@pytest.mark.parametrize("kind, text", [(nn.BatchNorm1d, "expected 2D or 3D input"), (nn.BatchNorm2d, "expected 4D input"),
                                        (nn.BatchNorm3d, "expected 5D input")])
def test_batch_norm_wants_its_rank(kind, text):
    with pytest.raises(ValueError, match=text):
        kind(3)(rl.ones(3))


def test_layer_norm_and_rms_norm():
    x = rl.randn(4, 6)
    assert_close(nn.LayerNorm(6)(x).mean(1), rl.zeros(4), rtol=0, atol=1e-6)
    assert_close(nn.RMSNorm(6, eps=0.0)(x).pow(2).mean(1), rl.ones(4), rtol=1e-4, atol=1e-5)
    assert list(nn.LayerNorm(6, bias=False).state_dict()) == ["weight"]


def test_dropout_scales_what_it_keeps():
    rl.manual_seed(0)
    out = nn.Dropout(0.25)(rl.ones(10000))
    kept = (out != 0).float().mean().item()
    assert abs(kept - 0.75) < 0.02
    assert set(out.tolist()) == {0.0, (1 / rl.tensor(0.75)).item()}
    layer = nn.Dropout(0.25).eval()
    x = rl.randn(3)
    assert layer(x) is x
    channels = nn.Dropout2d(0.5)(rl.ones(8, 16, 3, 3)).reshape(128, 9)
    assert ((channels == channels[:, :1]).all(1)).all()
    assert rl.equal(nn.Dropout(1.0)(x), rl.zeros(3))


@pytest.mark.parametrize("kind", [nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SELU, nn.SiLU, nn.Mish, nn.Hardtanh, nn.Hardsigmoid,
                                  nn.Hardswish])
def test_inplace_activations_equal_the_others(kind):
    start = rl.randn(50) * 4
    leaves = [start.clone().requires_grad_() for _ in range(2)]
    outs = []
    for leaf, inplace in zip(leaves, (False, True)):
        x = leaf * 1
        out = kind(inplace=inplace)(x)
        assert (out is x) == inplace
        out.sum().backward()
        outs.append(out.detach())
    assert_close(outs[0], outs[1])
    assert_close(leaves[0].grad, leaves[1].grad)


@pytest.mark.parametrize("loss, target", [
    (nn.MSELoss, "same"), (nn.L1Loss, "same"), (nn.SmoothL1Loss, "same"), (nn.HuberLoss, "same"), (nn.BCEWithLogitsLoss, "probability"),
    (nn.CrossEntropyLoss, "class"), (nn.NLLLoss, "class"), (nn.KLDivLoss, "probability")])
def test_losses_reduce_three_ways(loss, target):
    x = rl.randn(6, 4)
    y = {"same": rl.randn(6, 4), "probability": rl.rand(6, 4), "class": rl.tensor([0, 1, 2, 3, 0, 1])}[target]
    parts = loss(reduction="none")(x, y)
    assert_close(loss(reduction="sum")(x, y), parts.sum(), rtol=1e-5, atol=1e-5)
    assert_close(loss()(x, y), parts.mean(), rtol=1e-5, atol=1e-5)


def test_cross_entropy_weight_is_a_buffer():
    loss = nn.CrossEntropyLoss(weight=rl.ones(3))
    assert list(loss.state_dict()) == ["weight"]


# --------------------------------------------------------------------------------------------------------- containers
def test_sequential_is_a_list_of_modules():
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    assert len(model) == 3 and isinstance(model[-1], nn.Linear)
    assert [type(module) for module in model[1:]] == [nn.ReLU, nn.Linear]
    model.insert(1, nn.Tanh())
    model.append(nn.Sigmoid())
    del model[2]
    assert [type(module).__name__ for module in model] == ["Linear", "Tanh", "Linear", "Sigmoid"]
    assert list(model._modules) == ["0", "1", "2", "3"]
    assert len(model + nn.Sequential(nn.ReLU())) == 5 and len(model * 2) == 8
    assert isinstance(model.pop(0), nn.Linear) and len(model) == 3
    named = nn.Sequential(OrderedDict(first=nn.ReLU(), second=nn.Tanh()))
    assert named.first is named[0] and list(named[:1]._modules) == ["first"]
    with pytest.raises(IndexError, match="index 5 is out of range"):
        named[5]


def test_module_list_and_dict():
    layers = nn.ModuleList([nn.ReLU()])
    layers.extend([nn.Tanh(), nn.Sigmoid()])
    layers.insert(0, nn.Linear(1, 1))
    assert [type(layer).__name__ for layer in layers] == ["Linear", "ReLU", "Tanh", "Sigmoid"]
    del layers[1:3]
    assert list(layers.state_dict()) == ["0.weight", "0.bias"]
    table = nn.ModuleDict({"a": nn.ReLU()})
    table["b"] = nn.Tanh()
    assert list(table) == ["a", "b"] and "a" in table and len(table) == 2
    assert isinstance(table.pop("a"), nn.ReLU) and list(table.keys()) == ["b"]


def test_parameter_list_and_dict():
    params = nn.ParameterList([rl.ones(2), nn.Parameter(rl.ones(1))])
    params.append(rl.zeros(3))
    assert all(isinstance(param, nn.Parameter) for param in params) and len(params) == 3
    assert list(params.state_dict()) == ["0", "1", "2"]
    table = nn.ParameterDict({"b": rl.ones(1), "a": rl.ones(2)})
    assert list(table.keys()) == ["a", "b"]
    assert isinstance(table.pop("a"), nn.Parameter) and list(table.state_dict()) == ["b"]
    with pytest.raises(KeyError, match="attribute 'type' already exists"):
        table["type"] = rl.ones(1)


@pytest.mark.parametrize("make, text", [
    (lambda: nn.Linear(2, 3), "Linear(in_features=2, out_features=3, bias=True)"),
    (lambda: nn.Sequential(nn.Linear(2, 3), nn.ReLU(inplace=True)),
     "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n  (1): ReLU(inplace=True)\n)"),
    (lambda: nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Tanh()]), "ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Tanh()\n)"),
    (lambda: nn.BatchNorm1d(4), "BatchNorm1d(4, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)"),
    (lambda: nn.LayerNorm(4), "LayerNorm((4,), eps=1e-05, elementwise_affine=True, bias=True)"),
    (lambda: nn.Embedding(5, 2, padding_idx=-1), "Embedding(5, 2, padding_idx=4)"),
    (lambda: nn.Dropout(0.1), "Dropout(p=0.1, inplace=False)"),
    (lambda: nn.ParameterList([rl.ones(2, 3)]), "ParameterList(  (0): Parameter containing: [torch.float32 of size 2x3])"),
])
def test_repr(make, text):
    assert repr(make()) == text


# ---------------------------------------------------------------------------------------------------------- functional
def test_functions_of_their_own():
    x = rl.randn(3, 4)
    assert_close(F.normalize(x).norm(2, 1), rl.ones(3), rtol=1e-5, atol=1e-5)
    assert rl.equal(F.one_hot(rl.tensor([0, 2])), rl.tensor([[1, 0, 0], [0, 0, 1]]))
    assert_close(F.cosine_similarity(x, x), rl.ones(3), rtol=1e-5, atol=1e-5)
    hard = F.gumbel_softmax(x, hard=True)
    assert_close(hard.sum(1), rl.ones(3))
    assert {round(value, 5) for row in hard.tolist() for value in row} <= {0.0, 1.0}
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1, but got 2"):
        F.dropout(x, 2)


def test_functions_do_not_bind():
    class Model(nn.Module):
        act = staticmethod(F.relu)

        def forward(self, x):
            return self.act(x)

    assert rl.equal(Model()(rl.tensor([-1.0, 1.0])), rl.tensor([0.0, 1.0]))


def test_a_bias_that_spreads_over_the_result():
    x, w = rl.arange(12.0).reshape(3, 4), rl.ones(2, 4)
    plain = F.linear(x, w)
    for bias in (rl.tensor([[1.0, 2.0]]), rl.tensor([[1.0], [2.0], [3.0]]), rl.arange(6.0).reshape(3, 2)):
        assert rl.equal(F.linear(x, w, bias), plain + bias)
    for bias in (rl.ones(5, 2), rl.ones(2, 3, 2)):
        with pytest.raises(RuntimeError): F.linear(x, w, bias)
