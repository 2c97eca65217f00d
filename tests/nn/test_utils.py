"""nn.utils by what each promises; torch's numbers for the same calls are compared in tests/conformance/programs/nn_utils_*.py."""
import copy

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.nn.utils import (
    fuse_conv_bn_eval,
    fuse_linear_bn_eval,
    parameters_to_vector,
    parametrizations,
    parametrize,
    prune,
    remove_spectral_norm,
    remove_weight_norm,
    rnn,
    skip_init,
    spectral_norm,
    stateless,
    vector_to_parameters,
    weight_norm,
)
from rushlight.testing import assert_close


class Symmetric(nn.Module):
    def forward(self, x): return x.triu() + x.triu(1).mT
    def right_inverse(self, a): return a.triu()


class Scaled(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, x): return x * self.factor
    def right_inverse(self, y): return y / self.factor


def linear(n=3, m=3):
    rl.manual_seed(0)
    return nn.Linear(n, m)


# ------------------------------------------------------------------------------------------------------------ parametrize
def test_register_chain_assign_remove():
    layer = linear()
    before = layer.weight.detach().clone()
    parametrize.register_parametrization(layer, "weight", Symmetric())
    assert rl.equal(layer.weight, layer.weight.mT) and isinstance(layer, nn.Linear) and type(layer).__name__ == "ParametrizedLinear"
    assert sorted(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    parametrize.register_parametrization(layer, "weight", Scaled(2.0))
    assert rl.equal(layer.weight, 2 * Symmetric()(before))                  # a second one leaves the original alone
    goal = rl.eye(3) * 4
    layer.weight = goal
    assert rl.equal(layer.weight, goal) and rl.equal(layer.parametrizations.weight.original, rl.eye(3) * 2)
    layer(rl.ones(1, 3)).sum().backward()
    assert layer.parametrizations.weight.original.grad.shape == (3, 3)
    parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and isinstance(layer.weight, nn.Parameter) and rl.equal(layer.weight, goal)


def test_state_dicts_and_copies_of_parametrised_modules():
    one, two = (parametrize.register_parametrization(linear(), "weight", Symmetric()) for _ in range(2))
    with rl.no_grad(): one.parametrizations.weight.original.add_(1)
    two.load_state_dict(one.state_dict())
    twin = copy.deepcopy(one)
    assert rl.equal(two.weight, one.weight) and rl.equal(twin.weight, one.weight)
    with rl.no_grad(): twin.parametrizations.weight.original.add_(1)
    assert not rl.equal(twin.weight, one.weight)


def test_cached_computes_once():
    calls = []

    class Count(nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 1

    layer = parametrize.register_parametrization(linear(), "weight", Count())
    calls.clear()
    with parametrize.cached():
        assert layer.weight is layer.weight
        with parametrize.cached(): assert layer.weight is not None
    assert len(calls) == 1 and layer.weight is not layer.weight and len(calls) == 3


def test_what_parametrize_refuses():
    class Shape(nn.Module):
        def forward(self, x): return x[:1]

    layer = linear()
    with pytest.raises(ValueError, match="may not change the shape"): parametrize.register_parametrization(layer, "weight", Shape())
    with pytest.raises(ValueError, match="does not have a parameter"): parametrize.register_parametrization(layer, "nothing", Symmetric())
    with pytest.raises(ValueError, match="does not have a parametrization"): parametrize.remove_parametrizations(linear(), "weight")
    assert parametrize.register_parametrization(linear(), "weight", Shape(), unsafe=True).weight.shape == (1, 3)


@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(name, shape, trivial):
    layer = parametrizations.orthogonal(linear(*shape), orthogonal_map=name, use_trivialization=trivial)
    optimizer = rl.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(3):
        w = layer.weight
        small = w.mT @ w if w.shape[0] >= w.shape[1] else w @ w.mT
        assert_close(small, rl.eye(small.shape[0]), rtol=0, atol=2e-6)
        optimizer.zero_grad()
        (layer(rl.linspace(0, 1, shape[0]).unsqueeze(0)) ** 2).sum().backward()
        optimizer.step()
    if trivial or name == "householder":
        goal = rl.eye(max(shape))[rl.arange(max(shape)).flip(0)][:shape[1], :shape[0]]
        layer.weight = goal
        assert_close(layer.weight, goal, rtol=0, atol=1e-6)


def test_weight_norm_both_kinds_agree():
    old, new = weight_norm(linear()), parametrizations.weight_norm(linear())
    assert sorted(old.state_dict()) == ["bias", "weight_g", "weight_v"]
    x = rl.linspace(0, 1, 3).unsqueeze(0)
    old(x).sum().backward()
    new(x).sum().backward()
    assert_close(old.weight_v.grad, new.parametrizations.weight.original1.grad, rtol=1e-6, atol=1e-7)
    assert_close(new.weight, linear().weight, rtol=1e-6, atol=1e-7)
    with rl.no_grad(): old.weight_g.mul_(2)
    new.load_state_dict(old.state_dict())                                    # the old names are understood
    assert_close(new.weight, 2 * linear().weight, rtol=1e-6, atol=1e-7)
    remove_weight_norm(old)
    assert_close(old.weight, new.weight, rtol=1e-6, atol=1e-7)
    with pytest.raises(ValueError, match="weight_norm of 'weight' not found"): remove_weight_norm(old)


def test_spectral_norm_both_kinds():
    largest = rl.linalg.matrix_norm(linear().weight.detach(), 2)
    new = parametrizations.spectral_norm(linear(), n_power_iterations=30)
    assert_close(new.weight * largest, linear().weight, rtol=1e-4, atol=1e-5)
    new.eval()
    u = new.parametrizations.weight[0]._u.clone()
    assert new.weight is not None and rl.equal(u, new.parametrizations.weight[0]._u)
    old = spectral_norm(linear(), n_power_iterations=30)
    old(rl.ones(1, 3))
    assert_close(old.weight * largest, linear().weight, rtol=1e-4, atol=1e-5)
    assert sorted(old.state_dict()) == ["bias", "weight_orig", "weight_u", "weight_v"]
    remove_spectral_norm(old)
    assert isinstance(old.weight, nn.Parameter)


def test_the_functions_stay_functions_after_their_modules_were_imported():
    from rushlight.nn import utils

    assert callable(utils.weight_norm) and callable(utils.spectral_norm)
    assert utils.remove_weight_norm is remove_weight_norm and callable(utils.weight_norm)


# ----------------------------------------------------------------------------------------------------------------- pruning
def counted():
    layer = nn.Linear(4, 3)
    with rl.no_grad(): layer.weight.copy_(rl.arange(1.0, 13.0).view(3, 4))
    return layer


METHODS = {"random": (lambda m: prune.random_unstructured(m, "weight", amount=5), 5), "l1": (lambda m: prune.l1_unstructured(m, "weight", amount=0.25), 3),
           "random rows": (lambda m: prune.random_structured(m, "weight", amount=1, dim=0), 4), "identity": (lambda m: prune.identity(m, "weight"), 0),
           "columns": (lambda m: prune.ln_structured(m, "weight", amount=0.5, n=2, dim=1), 6),
           "mask": (lambda m: prune.custom_from_mask(m, "weight", rl.eye(3, 4)), 9)}


@pytest.mark.parametrize("method, zeros", METHODS.values(), ids=METHODS)
def test_pruning_methods(method, zeros):
    layer = method(counted())
    assert int((layer.weight == 0).sum()) == zeros and prune.is_pruned(layer)
    assert rl.equal(layer.weight, layer.weight_orig * layer.weight_mask)
    layer(rl.ones(1, 4)).sum().backward()
    assert rl.equal(layer.weight_orig.grad, layer.weight_mask)
    pruned = layer.weight.detach().clone()
    prune.remove(layer, "weight")
    assert rl.equal(layer.weight, pruned) and not prune.is_pruned(layer) and sorted(layer.state_dict()) == ["bias", "weight"]


def test_pruning_again_adds_to_the_mask():
    layer = prune.l1_unstructured(counted(), "weight", amount=3)
    assert layer.weight_mask.view(-1)[:3].tolist() == [0, 0, 0]
    prune.l1_unstructured(layer, "weight", amount=2)
    prune.ln_structured(layer, "weight", amount=1, n=1, dim=0)
    assert layer.weight_mask.view(-1)[:5].sum() == 0 and layer.weight_mask[1].sum() == 0 and int(layer.weight_mask.sum()) == 4        # row 0 was gone already
    assert isinstance(next(iter(layer._forward_pre_hooks.values())), prune.PruningContainer)


def test_global_and_custom_pruning():
    class Odd(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[1::2] = 0
            return mask

    layer = counted()
    Odd.apply(layer, "weight")
    assert layer.weight_mask.view(-1).tolist() == [1, 0] * 6
    net = nn.Sequential(counted(), nn.Linear(3, 2))
    prune.global_unstructured([(net[0], "weight"), (net[1], "weight")], pruning_method=prune.L1Unstructured, amount=8)
    assert int((net[1].weight == 0).sum()) == 6 and net[0].weight_mask.view(-1)[:3].tolist() == [0, 0, 1]


def test_what_pruning_refuses():
    with pytest.raises(ValueError, match="smaller than"): prune.l1_unstructured(counted(), "weight", amount=13)
    with pytest.raises(ValueError, match="Structured pruning can only be applied to multidimensional"): prune.ln_structured(counted(), "bias", 1, 2, 0)
    with pytest.raises(IndexError, match="Invalid index 5 for tensor of size"): prune.random_structured(counted(), "weight", 1, 5)
    with pytest.raises(ValueError, match="Parameter 'weight' of module"): prune.remove(counted(), "weight")


# ------------------------------------------------------------------------------------------------------- fusion and stateless
@pytest.mark.parametrize("conv, bn, shape", [(nn.Conv1d, nn.BatchNorm1d, (2, 2, 6)), (nn.Conv2d, nn.BatchNorm2d, (2, 2, 5, 5)), (nn.Conv3d, nn.BatchNorm3d, (1, 2, 3, 4, 4))])
@pytest.mark.parametrize("bias", [True, False])
def test_fused_convolutions(conv, bn, shape, bias):
    rl.manual_seed(0)
    conv, bn = conv(2, 3, 2, bias=bias).eval(), bn(3).eval()
    bn.running_mean.copy_(rl.tensor([0.5, -1.0, 2.0]))
    bn.running_var.copy_(rl.tensor([0.5, 1.0, 2.0]))
    x = rl.randn(shape)
    assert_close(fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)), rtol=1e-5, atol=1e-5)
    with pytest.raises(AssertionError, match="Fusion only for eval"): fuse_conv_bn_eval(conv.train(), bn)


def test_fused_linear():
    layer, bn = linear().eval(), nn.BatchNorm1d(3).eval()
    bn.running_mean.fill_(2.0)
    x = rl.randn(4, 3)
    assert_close(fuse_linear_bn_eval(layer, bn)(x), bn(layer(x)), rtol=1e-5, atol=1e-6)
    with pytest.raises(AssertionError, match="To fuse"): fuse_linear_bn_eval(layer, nn.BatchNorm1d(4).eval())


@pytest.mark.parametrize("call", [stateless.functional_call, rl.func.functional_call])
def test_functional_call_leaves_the_module_alone(call):
    layer = linear()
    before = layer.weight
    given = {"weight": rl.zeros(3, 3, requires_grad=True)}
    out = call(layer, given, (rl.ones(2, 3),))
    assert rl.equal(out, layer.bias.expand(2, 3)) and layer.weight is before
    out.sum().backward()
    assert given["weight"].grad is not None and before.grad is None
    with pytest.raises(RuntimeError, match="[Uu]nexpected"): call(layer, {"nothing": rl.ones(1)}, (rl.ones(1, 3),), strict=True)


def test_stacked_modules_run_as_an_ensemble():
    nets = [linear() for _ in range(3)]
    for i, net in enumerate(nets):
        with rl.no_grad(): net.bias.fill_(float(i))
    params, buffers = rl.func.stack_module_state(nets)
    x = rl.randn(2, 3)
    out = rl.func.vmap(lambda p, b: rl.func.functional_call(nets[0], (p, b), (x,)))(params, buffers)
    for got, net in zip(out, nets): assert_close(got, net(x), rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------------------------------------------------------ the rest
def test_skip_init_and_vectors():
    made = skip_init(nn.Linear, 3, 2)
    assert made.weight.shape == (2, 3) and made.weight.device.type == "cpu"
    with pytest.raises(RuntimeError, match="Expected a Module"): skip_init(int)
    layer = linear()
    vector = parameters_to_vector(layer.parameters())
    vector_to_parameters(rl.arange(12.0), layer.parameters())
    assert vector.shape == (12,) and layer.bias.tolist() == [9.0, 10.0, 11.0]
    with pytest.raises(TypeError, match="expected torch.Tensor, but got: list"): vector_to_parameters([1.0], layer.parameters())


def test_sequences_there_and_back():
    sequences = [rl.arange(float(n)) for n in (2, 4, 1)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    assert packed.batch_sizes.tolist() == [3, 2, 1, 1]
    assert all(rl.equal(a, b) for a, b in zip(rnn.unpack_sequence(packed), sequences))
    padded, lengths = rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1, total_length=5)
    assert lengths.tolist() == [2, 4, 1] and padded[2].tolist() == [0, -1, -1, -1, -1]
    assert all(rl.equal(a, b) for a, b in zip(rnn.unpad_sequence(padded, lengths, batch_first=True), sequences))
    with pytest.raises(RuntimeError, match="sorted"): rnn.pack_sequence(sequences)
    with pytest.raises(ValueError, match="Expected total_length to be at least"): rnn.pad_packed_sequence(packed, total_length=2)
