"""nn.parallel with one device: DataParallel passes through, what needs more says so."""
import pytest

import rushlight as rl
from rushlight import nn


def test_data_parallel_is_the_module():
    rl.manual_seed(0)
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    wrapped = nn.DataParallel(module, device_ids=[0])
    x = rl.randn(5, 4)
    assert wrapped.module is module and wrapped.device_ids == [] and rl.equal(wrapped(x), module(x))
    assert list(wrapped.state_dict()) == ["module.0.weight", "module.0.bias"]
    wrapped(x).sum().backward()
    assert module[0].weight.grad is not None and next(wrapped.parameters()) is module[0].weight
    wrapped.eval()
    assert not module.training
    again = nn.DataParallel(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    again.load_state_dict(wrapped.state_dict())
    assert rl.equal(again(x), module(x))
    assert rl.equal(nn.parallel.data_parallel(module, x), module(x))


class Options(nn.Module):
    def forward(self, x, *, scale=1): return {"y": x * scale}


def test_keywords_and_results_of_any_kind_pass():
    assert rl.equal(nn.DataParallel(Options())(rl.ones(2), scale=3)["y"], rl.full((2,), 3.0))
    assert rl.equal(nn.parallel.data_parallel(Options(), (rl.ones(2),), module_kwargs={"scale": 2})["y"], rl.full((2,), 2.0))


def test_what_is_not_there_says_so():
    with pytest.raises(RuntimeError, match="distributed training is not available"): nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    assert not isinstance(nn.Linear(2, 2), nn.parallel.DistributedDataParallel)                  # programs ask this of any module
    for name in ("scatter", "gather", "replicate", "parallel_apply"):
        with pytest.raises(RuntimeError, match=f"nn.parallel.{name} .* several devices"): getattr(nn.parallel, name)(rl.ones(2), [0, 1])


@pytest.mark.parametrize("kind", [nn.Embedding, nn.EmbeddingBag])
def test_tables_that_exist_already(kind):
    table = rl.arange(12.0).view(4, 3)
    frozen, free = kind.from_pretrained(table), kind.from_pretrained(table, freeze=False, padding_idx=-1)
    assert not frozen.weight.requires_grad and free.weight.requires_grad and free.padding_idx == 3 and free.weight.data_ptr() == table.data_ptr()
    assert frozen.weight.shape == (4, 3) and rl.equal(frozen(rl.tensor([[1]])).view(3), table[1])
    with pytest.raises(AssertionError, match="Embeddings parameter is expected to be 2-dimensional"): kind.from_pretrained(table[0])
    with pytest.raises(AssertionError, match="must be within num_embeddings"): kind(4, 3, padding_idx=4)
