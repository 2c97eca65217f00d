"""autocast: inside the block an operator's floating-point arguments are cast by what the operator is.

Products (LOWER) run in the block's dtype; sums that need range or accuracy (FLOAT32) run in float32; a few (WIDEST) in the widest dtype among
their arguments; all others take what they get. The lists are torch's for the CPU. float64 is left alone. While a block is active the guard bit
sends each call of an operator to `_guarded` below, which casts and calls on; without one nothing is paid.
"""
from __future__ import annotations

import functools
import threading

from .. import _C

__all__ = ["autocast", "custom_fwd", "custom_bwd", "is_autocast_available"]

LOWER = frozenset("""
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution conv_tbc linear matmul mm bmm addmm addbmm baddbmm
    linalg_vecdot linalg_multi_dot chain_matmul scaled_dot_product_attention prelu
""".split())
FLOAT32 = frozenset("""
    avg_pool3d binary_cross_entropy grid_sampler grid_sampler_2d grid_sampler_3d grid_sample polar prod quantile nanquantile stft cdist trace
    view_as_complex cholesky cholesky_inverse cholesky_solve inverse lu_solve orgqr ormqr pinverse max_pool3d max_unpool2d max_unpool3d
    adaptive_avg_pool3d reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d replication_pad3d mse_loss cosine_embedding_loss
    nll_loss cross_entropy hinge_embedding_loss poisson_nll_loss smooth_l1_loss l1_loss huber_loss margin_ranking_loss soft_margin_loss
    triplet_margin_loss multi_margin_loss ctc_loss kl_div multilabel_margin_loss binary_cross_entropy_with_logits fft_fft fft_ifft fft_fft2
    fft_ifft2 fft_fftn fft_ifftn fft_rfft fft_irfft fft_rfft2 fft_irfft2 fft_rfftn fft_irfftn fft_hfft fft_ihfft linalg_cond
    linalg_matrix_rank linalg_solve linalg_cholesky linalg_svdvals linalg_eigvals linalg_eigvalsh linalg_inv linalg_householder_product
    linalg_tensorinv linalg_tensorsolve geqrf qr svd triangular_solve fractional_max_pool2d fractional_max_pool3d adaptive_max_pool3d linalg_qr
    linalg_cholesky_ex linalg_svd linalg_eig linalg_eigh linalg_lstsq linalg_inv_ex
    _adaptive_avg_pool3d _max_unpool1d _max_unpool2d _max_unpool3d _hinge_embedding_loss _cosine_embedding_loss
""".split())
WIDEST = frozenset("stack cat index_copy".split())
# One operator here, in torch a composition whose last product runs in the block's dtype: the result has it.
ENDS_LOWER = frozenset("cov corrcoef linalg_pinv".split())
_SUPPORTED = (_C.bfloat16, _C.float16)
_WIDTH = {_C.bfloat16: 2, _C.float16: 2, _C.float32: 4}


class _State(threading.local):
    """What holds in this thread, by device type; casts of parameters are kept until the outermost block ends."""

    def __init__(self) -> None:
        self.enabled: dict[str, bool] = {}
        self.dtype: dict[str, object] = {"cpu": _C.bfloat16, "cuda": _C.float16}
        self.cache_enabled = True
        self.depth = 0
        self.cache: dict[int, tuple] = {}


_state = _State()


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast has lists for a kind of device."""
    return device_type in ("cpu", "cuda", "xpu", "mps", "mtia")


# ------------------------------------------------------------------------------------------------------------ casting
def _eligible(value) -> bool:
    return isinstance(value, _C.Tensor) and value.dtype in _WIDTH and value.device.type == "cpu"


def _cast(value, dtype):
    if isinstance(value, (list, tuple)) and not isinstance(value, _C.Size):
        return type(value)(_cast(v, dtype) for v in value) if type(value) in (list, tuple) else value
    if not _eligible(value) or value.dtype is dtype:
        return value
    # A float32 leaf that is learned (a weight) is cast once per block, so that its gradient too is cast back once.
    if _state.cache_enabled and value.is_leaf and value.requires_grad and value.dtype is _C.float32 and _C.is_grad_enabled():
        found = _state.cache.get(id(value))
        if found is not None and found[0] is value and found[1].dtype is dtype:
            return found[1]
        cast = value.to(dtype)
        _state.cache[id(value)] = (value, cast)
        return cast
    return value.to(dtype)


def _widest(values):
    tensors = []
    for value in values:
        tensors += [v for v in (value if isinstance(value, (list, tuple)) else (value,)) if isinstance(v, _C.Tensor) and v.is_floating_point()]
    if not tensors or any(t.dtype not in _WIDTH for t in tensors):
        return None
    return max((t.dtype for t in tensors), key=_WIDTH.__getitem__) if any(t.dtype is _C.float32 for t in tensors) else _state.dtype["cpu"]


def _padded_by_torch_in_float32(args, kwargs) -> bool:
    """Reflection of one or two dimensions and replication of up to three are in torch's list."""
    given = dict(zip(("self", "pad", "mode"), args), **kwargs)
    return given["mode"] == "replicate" or given["mode"] == "reflect" and len(given["pad"]) <= 4


def _guarded(function, types, args, kwargs):
    """A call of an operator inside a block: cast, then call it with the bit off."""
    kwargs = kwargs or {}
    before = _C.set_guard(_C.G_AUTOCAST, False)
    try:
        name = function.op.name
        if _state.enabled.get("cpu") and not function.__name__.endswith("_") and "out" not in kwargs:
            dtype = None
            if name in LOWER:
                dtype = _state.dtype["cpu"]
            elif name in FLOAT32 and "dtype" not in kwargs:
                dtype = _C.float32
            elif name == "_pad_around" and _padded_by_torch_in_float32(args, kwargs):
                dtype = _C.float32
            elif name in ENDS_LOWER:
                return _cast(function(*args, **kwargs), _state.dtype["cpu"])
            elif name in WIDEST:
                dtype = _widest((*args, *kwargs.values()))
            if dtype is not None:
                args = tuple(_cast(v, dtype) for v in args)
                kwargs = {k: _cast(v, dtype) for k, v in kwargs.items()}
        return function(*args, **kwargs)
    finally:
        _C.set_guard(_C.G_AUTOCAST, bool(before & _C.G_AUTOCAST))


def _show() -> None:
    """The guard bit is set exactly while something is to be cast."""
    _C.set_hooks(guarded=_guarded)
    _C.set_guard(_C.G_AUTOCAST, bool(_state.enabled.get("cpu")))


# ------------------------------------------------------------------------------------------------------------ the block
class autocast:
    """`with autocast("cpu", dtype=torch.bfloat16):` or as a decorator. On other kinds of device, which are not here, it changes nothing.

    >>> with rushlight.autocast("cpu"):
    ...     print((rushlight.ones(2, 2) @ rushlight.ones(2, 2)).dtype)
    torch.bfloat16
    """

    def __init__(self, device_type: str, dtype=None, enabled: bool = True, cache_enabled: bool | None = None) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(_C.device(device_type).type):        # what is no kind of device at all is refused as such
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        self._enabled = bool(enabled)
        self._cache_enabled = _state.cache_enabled if cache_enabled is None else cache_enabled
        if self._enabled and device_type == "cpu" and self.fast_dtype not in _SUPPORTED:
            from .._C import warn
            if self.fast_dtype is not _C.float32:
                warn("In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                     "CPU Autocast only supports dtype of torch.bfloat16, torch.float16 currently.")
            self._enabled = False
        if self._enabled and device_type == "cuda":
            from .._C import warn
            warn("User provided device_type of 'cuda', but CUDA is not available. Disabling")
            self._enabled = False

    def __enter__(self):
        state = _state
        self._before = (state.enabled.get(self.device, False), state.dtype.get(self.device), state.cache_enabled)
        state.enabled[self.device], state.dtype[self.device], state.cache_enabled = self._enabled, self.fast_dtype, self._cache_enabled
        state.depth += 1
        _show()
        return self

    def __exit__(self, *exc) -> bool:
        state = _state
        state.enabled[self.device], state.dtype[self.device], state.cache_enabled = self._before
        state.depth -= 1
        if state.depth == 0:
            state.cache.clear()
        _show()
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def decorated(*args, **kwargs):
            with type(self).__new__(type(self))._like(self):
                return function(*args, **kwargs)
        return decorated

    def _like(self, other: autocast) -> autocast:
        """A block with another's settings: a decorated function may call itself, and each call is a block of its own."""
        self.__dict__.update({k: v for k, v in other.__dict__.items() if k != "_before"})
        return self


# ------------------------------------------------------------------------------------------------ functions of torch itself
def is_autocast_enabled(device_type: str = "cuda") -> bool:
    return _state.enabled.get(device_type, False)


def set_autocast_enabled(*args) -> None:
    """`(enabled)` for CUDA, or `(device_type, enabled)`."""
    device_type, enabled = args if len(args) == 2 else ("cuda", args[0])
    _state.enabled[device_type] = bool(enabled)
    _show()


def get_autocast_dtype(device_type: str):
    if device_type not in _state.dtype:
        _state.dtype[device_type] = _C.float16
    return _state.dtype[device_type]


def set_autocast_dtype(device_type: str, dtype) -> None:
    _state.dtype[device_type] = dtype


def is_autocast_cpu_enabled() -> bool: return is_autocast_enabled("cpu")
def set_autocast_cpu_enabled(enabled) -> None: set_autocast_enabled("cpu", enabled)
def get_autocast_cpu_dtype(): return get_autocast_dtype("cpu")
def set_autocast_cpu_dtype(dtype) -> None: set_autocast_dtype("cpu", dtype)
def get_autocast_gpu_dtype(): return get_autocast_dtype("cuda")
def set_autocast_gpu_dtype(dtype) -> None: set_autocast_dtype("cuda", dtype)
def is_autocast_cache_enabled() -> bool: return _state.cache_enabled
def set_autocast_cache_enabled(enabled) -> None: _state.cache_enabled = bool(enabled)
def clear_autocast_cache() -> None: _state.cache.clear()


def autocast_increment_nesting() -> int:
    _state.depth += 1
    return _state.depth


def autocast_decrement_nesting() -> int:
    _state.depth -= 1
    return _state.depth


# ------------------------------------------------------------------------------------------------------- custom Functions
def _map(value, change):
    if isinstance(value, _C.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {_map(k, change): _map(v, change) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_map(v, change) for v in value)
    return value


def custom_fwd(fwd=None, *, device_type: str, cast_inputs=None):
    """For the `forward` of an autograd.Function: with `cast_inputs` the tensors come in that dtype and the body runs without autocast."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorated(ctx, *args, **kwargs):
        ctx._dtype = get_autocast_dtype(device_type)
        if cast_inputs is None:
            ctx._fwd_used_autocast = is_autocast_enabled(device_type)
            return fwd(ctx, *args, **kwargs)
        active = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = False
        if not active:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            def change(tensor):
                return tensor.to(cast_inputs) if tensor.is_floating_point() and tensor.dtype is not _C.float64 else tensor
            return fwd(ctx, *_map(args, change), **_map(kwargs, change))
    return decorated


def custom_bwd(bwd=None, *, device_type: str):
    """For the `backward` of an autograd.Function: it runs under the autocast that its forward ran under."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorated(ctx, *args, **kwargs):
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)
    return decorated
