"""The library beside torch, when torch is there: repr, names, first values, forward and error texts of every module."""
import warnings
from collections import OrderedDict

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

ACTIVATIONS = "ReLU ReLU6 LeakyReLU RReLU ELU CELU SELU SiLU Mish Hardtanh Hardsigmoid Hardswish".split()
PLAIN = ("PReLU GELU Sigmoid Tanh LogSigmoid Softplus Softshrink Hardshrink Softsign Tanhshrink GLU Softmax Softmin LogSoftmax Softmax2d "
         "Dropout "
         "Dropout1d Dropout2d Dropout3d AlphaDropout FeatureAlphaDropout CrossEntropyLoss NLLLoss MSELoss L1Loss BCEWithLogitsLoss BCELoss "
         "SmoothL1Loss HuberLoss KLDivLoss Flatten Identity").split()

MODULES = {
    "linear": lambda t: t.nn.Linear(3, 4), "linear without bias": lambda t: t.nn.Linear(3, 4, bias=False),
    "bilinear": lambda t: t.nn.Bilinear(2, 3, 4),
    "embedding": lambda t: t.nn.Embedding(5, 3),
    "embedding options": lambda t: t.nn.Embedding(5, 3, padding_idx=-1, max_norm=1.0, norm_type=1.0),
    "layer_norm": lambda t: t.nn.LayerNorm(3), "layer_norm 2": lambda t: t.nn.LayerNorm([2, 3], bias=False),
    "layer_norm plain": lambda t: t.nn.LayerNorm(3, elementwise_affine=False), "rms_norm": lambda t: t.nn.RMSNorm(4),
    "group_norm": lambda t: t.nn.GroupNorm(2, 4), "group_norm plain": lambda t: t.nn.GroupNorm(2, 4, affine=False),
    "threshold": lambda t: t.nn.Threshold(1, 2, True), "unflatten": lambda t: t.nn.Unflatten(1, (2, 3)),
    "sequential": lambda t: t.nn.Sequential(t.nn.Linear(2, 2), t.nn.Sequential(t.nn.ReLU(), t.nn.Linear(2, 3))),
    "named sequential": lambda t: t.nn.Sequential(OrderedDict(a=t.nn.ReLU(), b=t.nn.Linear(2, 2))),
    "module list": lambda t: t.nn.ModuleList([t.nn.Linear(2, 2) for _ in range(4)] + [t.nn.ReLU()] + [t.nn.Sequential(t.nn.ReLU(),
                                                                                                                      t.nn.ReLU())] * 3),
    "module dict": lambda t: t.nn.ModuleDict({"x": t.nn.Linear(1, 1), "y": t.nn.ReLU()}),
    "parameter list": lambda t: t.nn.ParameterList([t.ones(2, 3), t.nn.Parameter(t.ones(1)), 3, "a"]),
    "parameter dict": lambda t: t.nn.ParameterDict({"b": t.ones(2), "a": t.nn.Parameter(t.ones(3, 1)), "c": 5}),
    "weighted loss": lambda t: t.nn.CrossEntropyLoss(weight=t.ones(3)),
}
for _name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"):
    MODULES[_name] = lambda t, n=_name: getattr(t.nn, n)(3)
    MODULES[_name + " plain"] = lambda t, n=_name: getattr(t.nn, n)(3, affine=False, track_running_stats=False, momentum=None)
for _name in ACTIVATIONS:
    MODULES[_name] = lambda t, n=_name: getattr(t.nn, n)()
    MODULES[_name + " in place"] = lambda t, n=_name: getattr(t.nn, n)(inplace=True)
for _name in PLAIN:
    MODULES[_name] = lambda t, n=_name: getattr(t.nn, n)()


def both(function):
    """The function run with each library from one seed; exceptions are results too, and so are warnings: category and first words."""
    results = []
    for library in (rl, torch):
        library.manual_seed(7)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                value = function(library)
            except Exception as error:
                value = f"{type(error).__name__}: {error}"
        results.append((value, [(w.category.__name__, *str(w.message).split()[:2]) for w in caught]))
    return results


@pytest.mark.parametrize("name", MODULES)
def test_repr_names_and_first_values(name):
    (ours, _), (theirs, _) = both(MODULES[name])
    assert repr(ours) == repr(theirs)
    a, b = ours.state_dict(), theirs.state_dict()
    assert list(a) == list(b) and dict(a._metadata) == dict(b._metadata)
    for key in a:
        np.testing.assert_array_equal(a[key].numpy(), b[key].numpy())


FORWARD = {
    "linear": lambda t: t.nn.Linear(3, 4)(t.randn(4, 3)), "bilinear": lambda t: t.nn.Bilinear(3, 3, 2)(t.randn(4, 3), t.randn(4, 3)),
    "batch_norm 1": lambda t: t.nn.BatchNorm1d(3)(t.randn(4, 3)), "batch_norm 2": lambda t: t.nn.BatchNorm2d(3)(t.randn(2, 3, 5, 5)),
    "batch_norm 3": lambda t: t.nn.BatchNorm3d(3)(t.randn(2, 3, 2, 2, 2)),
    "batch_norm eval": lambda t: t.nn.BatchNorm1d(3).eval()(t.randn(4, 3)),
    "batch_norm untracked": lambda t: t.nn.BatchNorm1d(3, track_running_stats=False)(t.randn(4, 3)),
    "layer_norm": lambda t: t.nn.LayerNorm(3)(t.randn(4, 3)), "group_norm": lambda t: t.nn.GroupNorm(2, 4)(t.randn(3, 4, 5)),
    "embedding": lambda t: t.nn.Embedding(5, 3, padding_idx=1)(t.tensor([[0, 1], [4, 2]])),
    "embedding max_norm": lambda t: t.nn.Embedding(5, 3, max_norm=0.5)(t.tensor([[0, 1], [4, 4]])),
    "dropout": lambda t: t.nn.Dropout(0.3)(t.randn(40, 3)), "dropout1d": lambda t: t.nn.Dropout1d(0.5)(t.randn(3, 25)),
    "dropout2d": lambda t: t.nn.Dropout2d(0.3)(t.randn(2, 3, 5, 5)), "dropout2d of 3": lambda t: t.nn.Dropout2d(0.3)(t.randn(3, 5, 5)),
    "dropout3d": lambda t: t.nn.Dropout3d(0.3)(t.randn(2, 3, 2, 2, 2)), "dropout all": lambda t: t.nn.Dropout(1.0)(t.randn(3)),
    "alpha_dropout": lambda t: t.nn.AlphaDropout(0.3)(t.randn(4, 3)),
    "feature_alpha": lambda t: t.nn.FeatureAlphaDropout(0.3)(t.randn(2, 3, 5)),
    "softmax2d": lambda t: t.nn.Softmax2d()(t.randn(2, 3, 5, 5)), "softmax implicit": lambda t: t.nn.Softmax()(t.randn(2, 3)),
    "normalize": lambda t: t.nn.functional.normalize(t.randn(4, 3)),
    "cosine": lambda t: t.nn.functional.cosine_similarity(t.randn(4, 3), t.randn(4, 3)),
    "pairwise": lambda t: t.nn.functional.pairwise_distance(t.randn(4, 3), t.randn(4, 3)),
    "one_hot": lambda t: t.nn.functional.one_hot(t.tensor([1, 0, 3])), "gumbel": lambda t: t.nn.functional.gumbel_softmax(t.randn(4, 3)),
    "smoothed": lambda t: t.nn.CrossEntropyLoss(label_smoothing=0.1)(t.randn(4, 3), t.tensor([0, 1, 2, 1])),
    "bce weights": lambda t: t.nn.BCEWithLogitsLoss(pos_weight=t.ones(3) * 2)(t.randn(4, 3), t.rand(4, 3)),
    "kl": lambda t: t.nn.KLDivLoss(reduction="batchmean")(t.randn(4, 3).log_softmax(1), t.randn(4, 3).softmax(1)),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward_from_the_same_seed(name):
    (ours, our_warnings), (theirs, their_warnings) = both(FORWARD[name])
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-5, atol=2e-6)
    assert our_warnings == their_warnings


INIT = [("uniform_", (), (3, 4)), ("normal_", (1, 2), (5, 5)), ("kaiming_uniform_", (), (4, 3, 2, 2)),
        ("kaiming_normal_", (0.1, "fan_out", "relu"), (4, 3)),
        ("xavier_uniform_", (2.0,), (4, 3)), ("xavier_normal_", (), (4, 3)), ("trunc_normal_", (), (200,)),
        ("trunc_normal_", (0, 1, 1.5, 3.0), (200,)),
        ("trunc_normal_", (0, 1, -0.1, 0.1), (300,)), ("trunc_normal_", (5.0, 0.5, -2, 2), (30,)), ("eye_", (), (3, 4)),
        ("dirac_", (2,), (4, 2, 3, 3)),
        ("sparse_", (0.3,), (10, 4))]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("name, args, shape", INIT)
def test_init_draws_torchs_numbers(name, args, shape, dtype):
    def fill(t):
        values = getattr(t.nn.init, name)(t.empty(shape, dtype=getattr(t, dtype)), *args)
        return values.double().numpy(), t.rand(1).item()

    (ours, _), (theirs, _) = both(fill)
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[1] == theirs[1]                          # as many draws, too


class _Errors:
    """Calls that fail, given a library and a fresh module with a submodule `l`, a parameter `p` and a buffer `b`."""

    calls = [
        lambda t, m: m.foo, lambda t, m: m(1), lambda t, m: m.register_buffer(3, None), lambda t, m: m.register_buffer("a.b", None),
        lambda t, m: m.register_buffer("", None), lambda t, m: m.register_buffer("l", None), lambda t, m: m.register_buffer("x", 3),
        lambda t, m: m.register_parameter("x", t.ones(1)), lambda t, m: m.register_parameter("l", None), lambda t, m: m.add_module("x", 3),
        lambda t, m: m.add_module("a.b", t.nn.ReLU()), lambda t, m: m.add_module("", t.nn.ReLU()), lambda t,
        m: m.add_module(3, t.nn.ReLU()),
        lambda t, m: m.add_module("p", t.nn.ReLU()), lambda t, m: setattr(m, "p", t.ones(1)), lambda t, m: setattr(m, "l", 3),
        lambda t, m: setattr(m, "b", 3), lambda t, m: m.get_submodule("l.x"), lambda t, m: m.get_submodule("l.weight"),
        lambda t, m: m.get_parameter("l.zz"), lambda t, m: m.get_parameter("b"), lambda t, m: m.get_buffer("p"), lambda t, m: m.train(3),
        lambda t, m: m.to(t.int64), lambda t, m: t.nn.Module(3), lambda t, m: t.nn.Module(a=3), lambda t, m: m.load_state_dict(3),
        lambda t, m: m.load_state_dict({}), lambda t,
        m: m.load_state_dict({"l.weight": t.ones(3, 2), "zz": t.ones(1), "l.bias": 3, "l.w.x": t.ones(1)}),
        lambda t, m: m.state_dict(None, "a."), lambda t, m: t.nn.Sequential(t.nn.ReLU())[3], lambda t, m: t.nn.ModuleList([t.nn.ReLU()])[3],
        lambda t, m: t.nn.ModuleList(3), lambda t, m: t.nn.ModuleDict(3), lambda t, m: t.nn.ModuleDict([3]), lambda t,
        m: t.nn.ModuleDict([(1, 2, 3)]),
        lambda t, m: t.nn.Sequential(3), lambda t, m: t.nn.Sequential(t.nn.ReLU()) * 0, lambda t,
        m: t.nn.Sequential(t.nn.ReLU()).insert(5, t.nn.ReLU()),
        lambda t, m: t.nn.Dropout(2), lambda t, m: t.nn.BatchNorm1d(3)(t.ones(3)), lambda t, m: t.nn.BatchNorm2d(3)(t.ones(3)),
        lambda t, m: t.nn.Softmax2d()(t.ones(2)), lambda t, m: t.nn.Embedding(3, 2, padding_idx=7), lambda t,
        m: t.nn.Embedding.from_pretrained(t.ones(3)),
        lambda t, m: t.nn.Hardtanh(2, 1), lambda t, m: t.nn.MSELoss(size_average=True), lambda t, m: t.nn.GroupNorm(3, 4), lambda t,
        m: t.nn.Bilinear(0, 1, 1),
        lambda t, m: t.nn.Unflatten(1, 3), lambda t, m: t.nn.Unflatten(1, (1.5,)), lambda t, m: t.nn.init.calculate_gain("x"),
        lambda t, m: t.nn.init.calculate_gain("leaky_relu", "a"), lambda t, m: t.nn.init.eye_(t.ones(1)), lambda t,
        m: t.nn.init.dirac_(t.ones(1)),
        lambda t, m: t.nn.ParameterDict()[3], lambda t, m: t.nn.ParameterList(3), lambda t, m: t.nn.ParameterList([t.ones(1)])(3),
        lambda t, m: m.set_submodule("", t.nn.ReLU()), lambda t, m: m.set_submodule("l.weight", t.nn.ReLU()), lambda t,
        m: m.set_submodule("l", 3),
        lambda t, m: m.cuda(), lambda t, m: delattr(m, "nope"), lambda t, m: m.register_parameter("nl", t.nn.Linear(2, 2).weight * 2),
    ]


@pytest.mark.parametrize("number", range(len(_Errors.calls)))
def test_error_texts(number):
    def fail(t):
        module = t.nn.Module()
        module.l = t.nn.Linear(2, 2)
        module.register_parameter("p", t.nn.Parameter(t.ones(1)))
        module.register_buffer("b", t.ones(1))
        _Errors.calls[number](t, module)

    (ours, our_warnings), (theirs, their_warnings) = both(fail)
    assert str(ours).replace("rushlight", "torch") == str(theirs)
    assert our_warnings == their_warnings
