"""Every module of torch's database, and those that it leaves out: construction, first values, state dict, text, results, running statistics, gradients, bad input.

A bounded number of configurations each; `modules.py` runs them all.
"""
import copy
import importlib
import io
import pickle
import warnings

import modules
import pytest
import torch
from bridge import difference, to_rl, to_torch

import rushlight as rl

ENTRIES = dict(modules.entries() + modules.more_entries())
# Built of other modules, or the base of some: their tests are in tests/nn.
HOLDERS = {"Container", "DataParallel", "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "RNNBase", "RNNCellBase", "Sequential", "TransformerDecoder"}


@pytest.mark.parametrize("name", ENTRIES)
def test_agrees_with_torch(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        count, _, findings = modules.check_module(ENTRIES[name], (torch.float32,), limit=2)
        findings += modules.check_module(ENTRIES[name], (torch.float64,), limit=1, errors=False)[2]
    assert count
    assert not findings, "\n".join(f"{kind}: {words} ({dtype} {mode} input {i})" for dtype, mode, i, kind, words in findings)


def test_nothing_is_left_out():
    """Every public name of torch.nn is here, and every module is among the entries."""
    classes = {name for name in dir(torch.nn) if isinstance(getattr(torch.nn, name), type) and issubclass(getattr(torch.nn, name), torch.nn.Module)}
    assert classes - HOLDERS == set(ENTRIES)
    quantized = {"intrinsic", "qat", "quantizable", "quantized"}             # moved to torch.ao.nn, which is not here
    assert not {n for n in dir(torch.nn) if not n.startswith("_") and not hasattr(rl.nn, n)} - quantized
    for space in ("init", "utils", "utils.parametrize", "utils.parametrizations", "utils.prune", "utils.rnn", "utils.fusion", "utils.stateless", "parameter", "modules"):
        theirs, ours = (importlib.import_module(f"{library}.nn.{space}") for library in ("torch", "rushlight"))
        public = [n for n in getattr(theirs, "__all__", dir(theirs)) if not n.startswith("_") and getattr(getattr(theirs, n), "__module__", "").startswith("torch.nn")]
        assert not [n for n in public if not hasattr(ours, n)], space


# ------------------------------------------------------------------------------------------------------------------ lazy modules
def lazy(library):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return library.nn.Sequential(library.nn.LazyConv2d(4, 3, groups=2), library.nn.LazyBatchNorm2d(), library.nn.Flatten(), library.nn.LazyLinear(5))


def outcome(call):
    try: return call()
    except Exception as error: return type(error), " ".join(str(error).split()[:6])      # noqa: BLE001 - compared with torch's


@pytest.mark.parametrize("use", [
    lambda lib, m: m[3].weight.shape, lambda lib, m: m[3].weight.numel(), lambda lib, m: m[3].weight + 1, lambda lib, m: len(m[3].weight), lambda lib, m: m[3].bias.clone(),
    lambda lib, m: lib.nn.init.ones_(m[3].weight), lambda lib, m: m.share_memory(), lambda lib, m: m(lib.zeros(2, 3, 5, 5)), lambda lib, m: m[0](lib.zeros(5)),
    lambda lib, m: str(m.double()[3].weight.dtype), lambda lib, m: repr(list(m.parameters())), lambda lib, m: repr(m), lambda lib, m: repr(copy.deepcopy(m[3]).state_dict()),
    lambda lib, m: repr(pickle.loads(pickle.dumps(m[3].weight))), lambda lib, m: lib.nn.Linear(3, 5).load_state_dict(m[3].state_dict()),
    lambda lib, m: repr(m.load_state_dict(lazy(lib).state_dict())), lambda lib, m: [type(p).__name__ for p in (m(lib.zeros(2, 4, 5, 5)), m)[1].parameters()],
    lambda lib, m: (m(lib.zeros(2, 4, 5, 5)), repr(m))[1], lambda lib, m: (m(lib.zeros(2, 4, 5, 5)), list(vars(m[3])))[1],
    lambda lib, m: lib.nn.modules.lazy.LazyModuleMixin.initialize_parameters(m[3]), lambda lib, m: m[1].has_uninitialized_params(),
    lambda lib, m: tuple(m[1].running_mean.size()), lambda lib, m: repr(m[1].running_mean)])
def test_lazy_modules_before_their_first_call(use):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert outcome(lambda: use(rl, lazy(rl))) == outcome(lambda: use(torch, lazy(torch)))


def test_lazy_module_is_loaded_and_saved():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        full = torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3, groups=2), torch.nn.BatchNorm2d(4), torch.nn.Flatten(), torch.nn.Linear(36, 5)).eval()
        ours = lazy(rl).eval()
        held = list(ours.parameters())                     # an optimizer would hold them
        x = torch.randn(2, 4, 5, 5)
        ours.load_state_dict(to_rl(dict(full.state_dict())))
        assert not difference(ours(to_rl(x)), full(x))
        assert all(p is q and type(q) is rl.nn.Parameter for p, q in zip(held, ours.parameters(), strict=True))
        assert repr(ours) == repr(full)                    # with the sizes that were loaded
        file = io.BytesIO()
        rl.save(ours.state_dict(), file)
        file.seek(0)
        assert list(torch.load(file)) == list(full.state_dict())


# ------------------------------------------------------------------------------------------------------------------ what no database has
def test_adaptive_softmax_over_all_classes():
    theirs, ours = torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10, 15], div_value=2.0), rl.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10, 15], div_value=2.0)
    ours.load_state_dict(to_rl(dict(theirs.state_dict())))
    x = torch.randn(40, 16) * 4
    assert not difference(ours.log_prob(to_rl(x)), theirs.log_prob(x), 4)
    assert not difference(ours.predict(to_rl(x)), theirs.predict(x))
    assert len(set(theirs.predict(x).tolist()) & set(range(5, 20))) > 1              # clusters were chosen
    for cutoffs in ([], [5, 5], [20], [0], [7, 3]):
        with pytest.raises(ValueError, match="cutoffs should be"): rl.nn.AdaptiveLogSoftmaxWithLoss(16, 20, cutoffs)


def test_gradient_of_cross_map_normalisation():
    """torch's is not that of its own result, so this one is compared with differences of the result."""
    module, x = rl.nn.CrossMapLRN2d(3, 0.5, 0.7, 2.0), to_rl(torch.randn(1, 5, 2, 2, dtype=torch.float64, requires_grad=True))
    assert rl.autograd.gradcheck(module, (x,))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions_as_functions(dims):
    space = (7, 6, 5)[:dims]
    x, w = torch.randn(2, 4, *space, dtype=torch.float64, requires_grad=True), torch.randn(6, 2, *(3,) * dims, dtype=torch.float64, requires_grad=True)
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}
    g = torch.randn_like(getattr(torch.nn.functional, f"conv{dims}d")(x, w, **options)).requires_grad_()
    for what, args in (("input", (x.shape, w, g)), ("weight", (x, w.shape, g))):
        name = f"conv{dims}d_{what}"
        want, have = getattr(torch.nn.grad, name)(*args, **options), getattr(rl.nn.grad, name)(*(mine := to_rl(list(args))), **options)
        assert not difference(have, want)
        pairs = [(a, b) for a, b in zip(args, mine) if isinstance(a, torch.Tensor)]
        weights = torch.randn_like(want)
        again = zip(rl.autograd.grad(have, [b for _, b in pairs], to_rl(weights)), torch.autograd.grad(want, [a for a, _ in pairs], weights), strict=True)
        assert not [word for x1, y1 in again if (word := difference(x1, y1))]


def test_memory_format_of_convolution_weights():
    make = lambda lib: lib.nn.Sequential(lib.nn.Conv2d(3, 4, 3), lib.nn.ConvTranspose2d(3, 4, 3), lib.nn.Conv3d(3, 4, 3), lib.nn.Linear(3, 4))      # noqa: E731
    for lib_format, convert in (("channels_last", "convert_conv2d_weight_memory_format"), ("channels_last_3d", "convert_conv3d_weight_memory_format")):
        strides = []
        for lib in (rl, torch):
            module = make(lib)
            assert getattr(lib.nn.utils, convert)(module, getattr(lib, lib_format)) is module
            strides.append([p.stride() for p in module.parameters()])
        assert strides[0] == strides[1]


def test_synchronised_batch_norm_takes_over_from_batch_norm():
    theirs, ours = (lib.nn.Sequential(lib.nn.BatchNorm2d(3, momentum=0.3), lib.nn.Sequential(lib.nn.BatchNorm1d(3, bias=False))) for lib in (torch, rl))
    weight = ours[0].weight
    theirs, ours = torch.nn.SyncBatchNorm.convert_sync_batchnorm(theirs), rl.nn.SyncBatchNorm.convert_sync_batchnorm(ours)
    assert repr(theirs) == repr(ours) and ours[0].weight is weight
    x = torch.randn(4, 3, 2, 2)
    assert not difference(ours[0](to_rl(x)), theirs[0](x))
    assert not difference(ours[0].running_var, theirs[0].running_var)


def test_buffers_keep_their_place():
    def names(lib):
        m = lib.nn.Module()
        m.register_buffer("a", None)
        m.b = lib.nn.Buffer(lib.zeros(1))
        m.a = lib.nn.Buffer(lib.zeros(1))
        return list(m._buffers)
    assert names(rl) == names(torch) == ["a", "b"]


def test_old_names_warn():
    p = rl.nn.Parameter(rl.ones(2))
    p.grad = rl.ones(2) * 3
    for call in (lambda: rl.nn.utils.clip_grad_norm([p], 1.0), lambda: rl.nn.init.orthogonal(rl.empty(2, 2)), rl.nn.NLLLoss2d, lambda: rl.nn.Container(a=rl.nn.ReLU())):
        with pytest.warns(FutureWarning, match="deprecated"): call()
    assert abs(to_torch(p.grad).norm().item() - 1) < 1e-5


@pytest.mark.parametrize("kwargs", [None, {}, {"device": "cpu"}, {"dtype": 1, "factory_kwargs": {"device": 2}}, {"a": 1}, {"device": 1, "factory_kwargs": {"device": 2}}])
def test_factory_arguments(kwargs):
    assert outcome(lambda: rl.nn.factory_kwargs(kwargs)) == outcome(lambda: torch.nn.factory_kwargs(kwargs))
