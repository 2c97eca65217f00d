"""Smaller names above tensors, beside torch: averaged weights, data sets and samplers, autograd.functional, pruning."""
import numpy as np
import pytest
import torch
import torch.nn.utils.prune

import rushlight as rl

BOTH = (rl, torch)


def array(value): return value.detach().numpy() if hasattr(value, "detach") else value


def leaves(value): return [leaf for v in value for leaf in leaves(v)] if isinstance(value, (tuple, list)) else [array(value)]


def same(call, rtol=1e-6):
    ours, theirs = (leaves([call(library)]) for library in BOTH)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs): np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


def model(library):
    layer = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.BatchNorm1d(4)).double()
    with library.no_grad():
        for i, p in enumerate(layer.parameters()): p.copy_((library.arange(p.numel(), dtype=library.float64) * 0.1 - i).reshape(p.shape).sin())
    return layer


def batches(library): return [library.arange(18, dtype=library.float64).reshape(6, 3).mul(0.3 * (i + 1)).sin() for i in range(4)]


@pytest.mark.parametrize("average", [None, "get_ema_avg_fn", "get_swa_avg_fn", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn"])
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averaged_weights(average, use_buffers):
    def run(library):
        swa, net = library.optim.swa_utils, model(library)
        how = {} if average is None else {"multi_avg_fn" if "multi" in average else "avg_fn": getattr(swa, average)()}
        mean = swa.AveragedModel(net, use_buffers=use_buffers, **how)
        for step in range(3):
            with library.no_grad():
                for p in net.parameters(): p.mul_(0.9).add_(0.01 * step)
            net(batches(library)[step])
            mean.update_parameters(net)
        before = [v.clone() for v in mean.state_dict().values()]
        swa.update_bn([(batch, None) for batch in batches(library)], mean)
        return [*before, *mean.state_dict().values(), mean(batches(library)[0])]
    if use_buffers and average == "get_swa_multi_avg_fn":         # a batch norm counts in integers, and their mean is none
        for library in BOTH:
            with pytest.raises(RuntimeError): run(library)
    else: same(run, rtol=1e-7)                                    # torch divides by a count in float32


@pytest.mark.parametrize("name", ["jacobian", "hessian", "vjp", "jvp", "vhp", "hvp"])
@pytest.mark.parametrize("several", [False, True])
def test_autograd_functional(name, several):
    def run(library):
        x, y = library.tensor([0.5, -1.0, 2.0], dtype=library.float64), library.tensor([[1.0, 0.3, -0.7]], dtype=library.float64)
        v = x.cos(), y.exp()
        given = (x, y) if several else x
        scalar = (lambda a, b: (a.exp() * b).sum() + (a * a * b).sin().sum()) if several else lambda a: (a.exp() * a).sum()
        vector = (lambda a, b: (a * b, b.sum() * a)) if several else lambda a: a.sin() * a.sum()
        call = getattr(library.autograd.functional, name)
        if name in ("jacobian", "hessian"):
            return call(vector if name == "jacobian" else scalar, given)
        if name == "vjp": return call(vector, given, (v[1], v[0]) if several else v[0])
        return call(vector if name == "jvp" else scalar, given, v if several else v[0])
    same(run)
    if name in ("jacobian", "hessian"): return
    for wrong in (lambda library: library.ones(5), lambda library: (library.ones(5),)):
        words = []
        for library in BOTH:
            with pytest.raises(RuntimeError) as error: getattr(library.autograd.functional, name)(lambda a: (a * a).sum(), library.ones(3), wrong(library))
            words.append(str(error.value))
        assert words[0] == words[1]


def test_datasets_and_samplers():
    def run(library):
        data = library.utils.data
        parts = [data.TensorDataset(library.arange(5), library.arange(5) * 2), data.TensorDataset(library.arange(3) + 10, library.arange(3))]
        joined = parts[0] + parts[1]
        assert isinstance(joined, data.ConcatDataset) and joined.cumulative_sizes == [5, 8] and joined[-1][0].item() == 12

        class Stream(data.IterableDataset):
            def __init__(self, count): self.count = count
            def __iter__(self): return iter(range(self.count))
            def __len__(self): return self.count
        chained = Stream(3) + Stream(2)
        assert isinstance(chained, data.ChainDataset) and len(chained) == 5
        library.manual_seed(3)
        weighted = list(data.WeightedRandomSampler([0.1, 0.6, 0.3], 7)), list(data.WeightedRandomSampler([0.1, 0.6, 0.3], 2, replacement=False))
        spread = []
        for options in ({}, {"shuffle": False}, {"drop_last": True}, {"seed": 5}):
            for rank in range(3):
                sampler = data.DistributedSampler(joined, num_replicas=3, rank=rank, **options)
                sampler.set_epoch(2)
                spread.append(list(sampler))
                assert len(sampler) == len(spread[-1])
        converted = data.default_convert([np.arange(3.0), {"a": np.float32(2)}, ("text", 5)])
        assert converted[2] == ["text", 5]
        return [item for pair in joined for item in pair], list(chained), weighted, spread, converted[0], converted[1]["a"]
    same(run)


def test_pruning():
    def run(library):
        prune, layer = library.nn.utils.prune, model(library)[0]
        prune.custom_from_mask(layer, "weight", library.tensor([[1, 0, 1], [1, 1, 1], [0, 1, 1], [1, 1, 0]]))
        assert prune.is_pruned(layer) and any(isinstance(hook, prune.CustomFromMask) for hook in layer._forward_pre_hooks.values())
        library.manual_seed(1)
        prune.RandomStructured.apply(layer, "weight", 0.5, dim=1)
        masked = [layer.weight, layer.weight_mask, layer.weight_orig]
        prune.remove(layer, "weight")
        return [*masked, layer.weight]
    same(run)
