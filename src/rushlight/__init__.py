"""Rushlight: a deep-learning framework with PyTorch's API.

    import rushlight as torch

The C++ runtime (`_C`) holds tensors and replays plans; operators are defined in `ops/`, one place each; `compiler/` turns them into
machine code when a kind of call is met for the first time. Submodules load when first used.
"""
from __future__ import annotations

import importlib as _importlib
import math as _math
import sys as _sys

# Imported on behalf of `import torch` (a finder answers with this package): then torch is the module's name, which programs may look at.
if getattr(getattr(_sys.modules.get("torch"), "__spec__", None), "_initializing", False):
    __name__ = "torch"

from . import _C
from . import version
from .torch_version import TorchVersion as _TorchVersion

__version__ = _TorchVersion(f"{version.torch}+rushlight.{version.__version__}")      # programs compare this with versions of torch

# ------------------------------------------------------------------------------------------------------- types and dtypes
from ._C import Generator, Size, Tensor, UntypedStorage, device, dtype, layout, memory_format  # noqa: F401
from ._C import (  # noqa: F401
    bfloat16, bool, channels_last, channels_last_3d, complex64, complex128, contiguous_format, float8_e4m3fn, float8_e5m2, float16, float32, float64,
    _mkldnn, int8, int16, int32, int64, jagged, preserve_format, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided, uint8, uint16, uint32, uint64,
)

half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
cfloat, cdouble = complex64, complex128
complex32 = chalf = _C.complex32

# ------------------------------------------------------------------------------------------ operators: from the registry
from . import ops as _ops  # noqa: E402  (defines every operator)
from . import faces as _faces, plans as _plans, tensor as _tensor  # noqa: E402

globals().update(_faces.functions("torch"))
_tensor.install()
_plans.install()

# ------------------------------------------------------------------------------------------- functions that are not operators
from ._C import (  # noqa: E402, F401
    as_tensor, asarray, frombuffer, from_dlpack, from_numpy, get_default_dtype, get_num_threads, set_num_threads, tensor,
)
from .functions import (  # noqa: E402, F401
    _batch_norm_with_update,
    _native_batch_norm_legit,
    _native_batch_norm_legit_no_training,
    _upsample_bicubic2d_aa,
    _upsample_bilinear2d_aa,
    native_batch_norm,
    native_layer_norm,
    _assert, allclose, arange, are_deterministic_algorithms_enabled, argwhere, atleast_1d, atleast_2d, atleast_3d, broadcast_shapes,
    broadcast_tensors, broadcast_to, can_cast, column_stack, detach_, dstack, equal, get_float32_matmul_precision, hstack, index_put,
    index_put_, is_complex, is_conj, is_deterministic_algorithms_warn_only_enabled, is_floating_point, is_inference, is_neg, is_nonzero,
    is_same_size, is_signed, is_storage, is_tensor, linspace, logspace, meshgrid, nonzero, numel, promote_types, repeat_interleave,
    resize_as_, rot90, result_type, row_stack, set_float32_matmul_precision, tensordot, tril_indices, triu_indices, use_deterministic_algorithms,
    vstack,
)
from .sums_of_products import block_diag, cartesian_prod, chain_matmul, combinations, einsum  # noqa: E402, F401
from .copies import *  # noqa: E402, F403  (NAME_copy for every view, unsafe_split …)
from .counting import histogram, histogramdd, unique, unique_consecutive  # noqa: E402, F401
from .foreach import *  # noqa: E402, F403  (_foreach_NAME)
from .functions import empty_permuted, unravel_index  # noqa: E402, F401
from .autograd.grad_mode import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled  # noqa: E402, F401
from .legacy import TYPES as _LEGACY_TYPES  # noqa: E402
from .dtypes import finfo, get_default_device, iinfo, set_default_device, set_default_dtype, set_default_tensor_type  # noqa: E402, F401
from .random import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state  # noqa: E402, F401

globals().update(_LEGACY_TYPES)
inf, nan, pi, e, newaxis = _math.inf, _math.nan, _math.pi, _math.e, None


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """How tensors are printed; see `torch.set_printoptions`."""
    from ._tensor_str import set_printoptions as set_
    set_(precision=precision, threshold=threshold, edgeitems=edgeitems, linewidth=linewidth, profile=profile, sci_mode=sci_mode)


def save(obj, f, pickle_module=None, pickle_protocol=2, _use_new_zipfile_serialization=True):
    """Write an object with its tensors to a file in torch's zip format."""
    from .serialization import save as save_
    return save_(obj, f, pickle_protocol=pickle_protocol)


def load(f, map_location=None, pickle_module=None, *, weights_only=None, mmap=None, **pickle_load_args):
    """Read what `save`, here or in torch, wrote. By default nothing in the file is executed."""
    from .serialization import load as load_
    return load_(f, map_location=map_location, weights_only=weights_only, mmap=mmap, **pickle_load_args)


def compile(model=None, **options):
    """Record the operators of a function and run them fused, with the same bits as one by one. See `rushlight.compiler.capture`."""
    from .compiler.capture import compile as compile_
    return compile_(model, **options)


def explain(fn, *args, **kwargs):
    """What one call is made of: graph, loops, fusion and its refusals, generated code."""
    from .compiler.explain import explain as explain_
    return explain_(fn, *args, **kwargs)


def typename(obj):
    """The name of an object's type, as torch words it."""
    from .utils.names import typename as typename_
    return typename_(obj)


def stats():
    """Counters of the runtime: plans found, recipes evaluated; `requests` for a recipe, of which `found` in memory, pack or disk and
    `compiles` by entering the compiler."""
    counters = _C.stats()
    counters["requests"], counters["found"], counters["compiles"] = counters["compiles"], _plans.counters["found"], _plans.counters["compiled"]
    return counters


def install_as_torch():
    """Let `import torch` mean Rushlight from here on, in this process: programs run unmodified. See `rushlight.as_torch`."""
    from .as_torch import install
    install()


_LAZY = ("autograd", "nn", "optim", "utils", "linalg", "special", "masked", "signal", "testing", "cuda", "serialization", "safetensors", "compiler", "random", "backends", "datasets",
         "overrides", "models", "vision", "return_types", "dtypes", "multiprocessing", "amp", "accelerator", "cpu", "distributed", "distributions", "func", "hub", "jit",
         "library", "mps", "mtia", "profiler", "torch_version", "types", "xpu", "futures", "_dynamo", "_utils", "_tensor", "fx", "onnx",
         "functional", "quasirandom", "_jit_internal", "__config__", "fft", "sparse", "export", "array_api", "storage")

# Functions that few programs call, by the module that defines them: read when first used.
_LAZY_NAMES = {name: module for module, names in {
    "differences": "gradient",
    "lowrank": "svd_lowrank pca_lowrank lu",
    "lobpcg": "lobpcg",
    "amp": "autocast GradScaler",
    "amp.autocast_mode": "is_autocast_enabled set_autocast_enabled get_autocast_dtype set_autocast_dtype is_autocast_cpu_enabled "
                         "set_autocast_cpu_enabled get_autocast_cpu_dtype set_autocast_cpu_dtype get_autocast_gpu_dtype set_autocast_gpu_dtype "
                         "is_autocast_cache_enabled set_autocast_cache_enabled clear_autocast_cache autocast_increment_nesting "
                         "autocast_decrement_nesting is_autocast_available",
    "_ops": "classes",
    "jit": "ScriptModule",
    "func": "vmap",
    "settings": "PyTorchFileReader PyTorchFileWriter set_deterministic_debug_mode get_deterministic_debug_mode set_warn_always is_warn_always_enabled get_num_interop_threads "
                "set_num_interop_threads set_flush_denormal compiled_with_cxx11_abi is_vulkan_available get_device_module _check_with "
                "_check _check_index _check_value _check_type _check_not_implemented _check_is_size _check_tensor_all_with "
                "_check_tensor_all _has_compatible_shallow_copy_type _is_all_true _shape_as_tensor SymInt SymFloat SymBool sym_int "
                "sym_float sym_not sym_max sym_min sym_ite Stream Event OutOfMemoryError AcceleratorError",
    "storage": "TypedStorage FloatStorage DoubleStorage HalfStorage BFloat16Storage LongStorage IntStorage ShortStorage CharStorage ByteStorage BoolStorage "
               "ComplexFloatStorage ComplexDoubleStorage",
    "aten": "dropout dropout_ alpha_dropout alpha_dropout_ feature_dropout feature_dropout_ feature_alpha_dropout feature_alpha_dropout_ rrelu rrelu_ batch_norm instance_norm "
            "embedding embedding_bag embedding_renorm_ _grouped_mm _scaled_mm pairwise_distance binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss hinge_embedding_loss kl_div "
            "margin_ranking_loss poisson_nll_loss triplet_margin_loss frobenius_norm nuclear_norm norm_except_dim grid_sampler range from_file get_device is_distributed cond",
    "private_c": "has_openmp has_mkl has_lapack has_spectral DisableTorchFunction DisableTorchFunctionSubclass",
    "_C": "is_anomaly_enabled is_anomaly_check_nan_enabled set_anomaly_enabled",
    "sparse": "sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor spmm dsmm hspmm hsmm smm sspaddmm",
    "nn.recurrent": "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
}.items() for name in names.split()}


def __getattr__(name):
    if name in _LAZY:
        try:
            module = globals()[name] = _importlib.import_module("." + name, __package__)
            return module
        except ModuleNotFoundError as error:             # a part that is not there yet is an absent attribute
            if error.name != f"{__package__}.{name}":
                raise
    if name in _LAZY_NAMES:
        value = globals()[name] = getattr(_importlib.import_module("." + _LAZY_NAMES[name], __package__), name)
        return value
    raise AttributeError(f"module 'torch' has no attribute '{name}'")


def _private(name):
    """What programs ask of torch's private module `torch._C`."""
    from . import private_c
    return getattr(private_c, name)


_C.__getattr__ = _private


def __dir__():
    return sorted(set(globals()) | set(_LAZY) | set(_LAZY_NAMES))
