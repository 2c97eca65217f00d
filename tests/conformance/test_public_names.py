"""Every public name of the parts above tensors is here, or stands below with the reason (tests/conformance/test_modules.py has torch.nn)."""
import importlib

import pytest
import torch  # noqa: F401

PIPES = "data pipes: torch has deprecated them, and torchdata its nodes instead"
CUDA = "only means something with a GPU"
ABSENT = {
    "utils.data": {name: PIPES for name in ("DFIterDataPipe", "DataChunk", "IterDataPipe", "MapDataPipe", "argument_validation", "functional_datapipe",
                                            "guaranteed_datapipes_determinism", "non_deterministic", "runtime_validation", "runtime_validation_disabled")} | {"_DatasetKind": "internal"},
    "autograd": {"NestedIOFunction": "of the time before Function took any arguments"}, "autograd.function": {"NestedIOFunction": "likewise"},
    "autograd.graph": {"set_override_stale_capture_stream": CUDA, "set_warn_on_accumulate_grad_stream_mismatch": CUDA,
                       "region_activation_memory_budget": "advice to torch.compile's partitioner; outside of it an error in torch too"},
    "nn.attention": {name: CUDA for name in ("activate_flash_attention_impl", "current_flash_attention_impl", "list_flash_attention_impls", "register_flash_attention_impl",
                                             "restore_flash_attention_impl")},
    "cuda.amp": {"amp_definitely_not_available": "internal"}, "amp.autocast_mode": {"autocast_decorator": "internal"},
    "optim": {"swap_in_optimizer_params_and_state": "for tracing a step; not written yet"}, "func": {"rearrange": "not written yet"},
}
SPACES = """optim optim.lr_scheduler optim.swa_utils autograd autograd.functional autograd.graph autograd.forward_ad autograd.function autograd.grad_mode autograd.anomaly_mode distributions
distributions.constraints distributions.transforms distributions.kl distributions.constraint_registry func amp amp.autocast_mode amp.grad_scaler cpu.amp cuda.amp utils.data
utils.data.dataloader utils.data.sampler utils.data.dataset utils.data.distributed utils.checkpoint multiprocessing nn.attention nn.parallel nn.utils.clip_grad""".split()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("space", SPACES)
def test_nothing_is_left_out(space):
    theirs, ours = (importlib.import_module(f"{library}.{space}") for library in ("torch", "rushlight"))
    names = getattr(theirs, "__all__", None) or [n for n in dir(theirs) if not n.startswith("_") and str(getattr(getattr(theirs, n), "__module__", "")).startswith(theirs.__name__)]
    assert names and {n for n in names if not hasattr(ours, n)} == set(ABSENT.get(space, ()))
