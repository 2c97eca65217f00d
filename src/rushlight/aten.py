"""Functions of `torch` that stand one level below torch.nn.functional: the same operators under the signatures of torch's operator library,
with fewer defaults and with integers for modes and reductions (0 none, which is torch's default
here, 1 mean, 2 sum). Read when first used."""
from __future__ import annotations

import builtins

from . import _C, nn
from .functions import _into, _need_strided, _op
from .ops.common import wrap_dim

F = nn.functional
_REDUCTIONS = ("none", "mean", "sum")


def _reduction(number):
    if number not in (0, 1, 2): raise ValueError(f"{number} is not a valid value for reduction: 0 is none, 1 mean, 2 sum")
    return _REDUCTIONS[number]


# ------------------------------------------------------------------------------------------------------------------ dropout
def _dropout(name, plain, inplace):
    def function(input, p, train):
        if not 0 <= p <= 1: raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p:g}")
        return plain(input, p, train, inplace)
    function.__name__ = function.__qualname__ = name + "_" * inplace
    function.__doc__ = f"{plain.__doc__}{' In place.' if inplace else ''} All arguments are required."
    return function


dropout, dropout_ = (_dropout("dropout", F.dropout, inplace) for inplace in (False, True))
alpha_dropout, alpha_dropout_ = (_dropout("alpha_dropout", F.alpha_dropout, inplace) for inplace in (False, True))
feature_dropout, feature_dropout_ = (_dropout("feature_dropout", F._channel_dropout, inplace) for inplace in (False, True))
feature_alpha_dropout, feature_alpha_dropout_ = (_dropout("feature_alpha_dropout", F.feature_alpha_dropout, inplace) for inplace in (False, True))


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    """`nn.functional.rrelu`."""
    return F._rrelu(input, lower, upper, training, False, generator)


def rrelu_(input, lower=1.0 / 8, upper=1.0 / 3, training=False, generator=None):
    """`nn.functional.rrelu`, in place."""
    return F._rrelu(input, lower, upper, training, True, generator)


# ------------------------------------------------------------------------------------------------- normalisation, embedding
def batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, cudnn_enabled):
    """`nn.functional.batch_norm`, the arguments in another order."""
    return F.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


def instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled):
    """`nn.functional.instance_norm`, the arguments in another order."""
    return F.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """Rows of `weight`. Unlike `nn.functional.embedding` the table comes first, and padding_idx=-1 means none."""
    return F.embedding(indices, weight, None if padding_idx == -1 else padding_idx, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


def embedding_bag(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, per_sample_weights=None, include_last_offset=False, padding_idx=None):
    """`nn.functional.embedding_bag` (mode 0 sum, 1 mean, 2 max) with the bag of each index, the size of each bag and, for the largest, whose row each element is.
    Sums need none of the three: as in torch they are then empty or 0."""
    if indices.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got {indices.dtype} instead")
    if mode not in (0, 1, 2): raise ValueError(f"mode has to be 0 (sum), 1 (mean) or 2 (max), and is {mode}")
    if per_sample_weights is not None and mode: raise RuntimeError("embedding_bag: per_sample_weights only supported with mode='sum'")
    out = F.embedding_bag(indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode], sparse, per_sample_weights, include_last_offset, padding_idx)
    bounds = F._bag_bounds(offsets, indices, include_last_offset)
    nothing = offsets.new_zeros(offsets.shape)
    counted = None if padding_idx is None else indices != padding_idx % weight.shape[0]
    bag = _op("searchsorted")(bounds[1:], _op("_arange")(indices.numel(), 0, 1, dtype=_C.int64), right=True).to(indices.dtype)
    if mode == 0: return out, bag if padding_idx is not None else indices.new_empty(0), nothing, nothing.clone()
    sizes = (bounds[1:] - bounds[:-1]) if counted is None else bounds.new_zeros(bounds.numel() - 1).index_add(0, bag, counted.to(bounds.dtype))
    if mode == 1: return out, bag, sizes, sizes.clone()
    ends = bounds.tolist()
    chosen = [indices[start:end] if counted is None else indices[start:end][counted[start:end]] for start, end in zip(ends, ends[1:])]
    rows = [part[weight.detach()[part].argmax(0)] if part.numel() else indices.new_zeros(weight.shape[1]) for part in chosen]
    return out, bag, sizes, _op("stack")(rows) if rows else indices.new_zeros(0, weight.shape[1])


def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    """`nn.functional.grouped_mm`."""
    return F.grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


_scaled_mm = nn.functional_products._scaled_mm


def embedding_renorm_(weight, indices, max_norm, norm_type):
    """Rows of `weight` that are looked up and longer than max_norm, shortened to it, in place."""
    if indices.dtype not in (_C.int64, _C.int32):
        raise RuntimeError(f"Expected tensor for argument #2 'indices' to have one of the following scalar types: Long, Int; but got {indices.type()} instead "
                           "(while checking arguments for embedding_renorm_)")
    F._renormalise_rows(weight, indices, max_norm, norm_type)
    return weight


# -------------------------------------------------------------------------------------------------------- distances, losses
pairwise_distance = F.pairwise_distance


def binary_cross_entropy_with_logits(input, target, weight=None, pos_weight=None, reduction=0):
    """`nn.functional.binary_cross_entropy_with_logits`."""
    return F.binary_cross_entropy_with_logits(input, target, weight, reduction=_reduction(reduction), pos_weight=pos_weight)


def cosine_embedding_loss(input1, input2, target, margin=0.0, reduction=0):
    """`nn.functional.cosine_embedding_loss`."""
    return F.cosine_embedding_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction=0, zero_infinity=False):
    """`nn.functional.ctc_loss`."""
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, _reduction(reduction), zero_infinity)


def hinge_embedding_loss(input, target, margin=1.0, reduction=0):
    """`nn.functional.hinge_embedding_loss`."""
    return F.hinge_embedding_loss(input, target, margin, reduction=_reduction(reduction))


def kl_div(input, target, reduction=0, *, log_target=False):
    """`nn.functional.kl_div`."""
    return F.kl_div(input, target, reduction=_reduction(reduction), log_target=log_target)


def margin_ranking_loss(input1, input2, target, margin=0.0, reduction=0):
    """`nn.functional.margin_ranking_loss`."""
    return F.margin_ranking_loss(input1, input2, target, margin, reduction=_reduction(reduction))


def poisson_nll_loss(input, target, log_input, full, eps, reduction):
    """`nn.functional.poisson_nll_loss`."""
    return F.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=_reduction(reduction))


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction=0):
    """`nn.functional.triplet_margin_loss`."""
    return F.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction=_reduction(reduction))


# --------------------------------------------------------------------------------------------------------- norms, the rest
def frobenius_norm(input, dim, keepdim=False, *, out=None):
    """The root of the sum of squares over `dim`."""
    return _op("linalg_vector_norm")(input, 2, dim, keepdim, out=out)


def nuclear_norm(input, dim=None, keepdim=False, *, out=None):
    """The sum of the singular values of a matrix, or of the matrices in two dimensions `dim`."""
    if isinstance(dim, bool): dim, keepdim = None, dim
    return _op("linalg_matrix_norm")(input, "nuc", (-2, -1) if dim is None else dim, keepdim, out=out)


def norm_except_dim(v, pow=2, dim=0):
    """The norm over all dimensions but one, which keeps its place; dim=-1: over all."""
    if dim == -1: return _op("linalg_vector_norm")(v, pow)
    return _op("linalg_vector_norm")(v, pow, [d for d in builtins.range(v.dim()) if d != wrap_dim(dim, v.dim())], True)


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    """`nn.functional.grid_sample` with numbers: 0 bilinear, 1 nearest, 2 bicubic; 0 zeros, 1 border, 2 reflection."""
    return _op("grid_sampler_2d" if input.dim() == 4 else "grid_sampler_3d")(input, grid, interpolation_mode, padding_mode, align_corners)


def range(start=0, end=None, step=1, *, out=None, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False):      # noqa: A001 - torch's name
    """Deprecated: numbers from start to end, *included*. Use arange."""
    if layout is not None: _need_strided("range", layout)
    from ._C import warn
    from .functions import arange
    warn("torch.range is deprecated: it includes its end, unlike Python's range. arange leaves it out")
    if end is None: raise TypeError('range() missing 1 required positional arguments: "end"')
    if not step: raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0: raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((end - start) / step) + 1
    dtype = dtype or (out.dtype if out is not None else _C.get_default_dtype())
    made = (arange(count, dtype=_C.float64, device=device) * step + start).to(dtype)
    return made.requires_grad_(requires_grad) if out is None else _into(out, made)


def from_file(filename, shared=None, size=0, *, dtype=None, layout=None, device=None, pin_memory=None, requires_grad=False):
    """A tensor of `size` elements over a file, mapped. With `shared`, writing the tensor writes the file, which grows as needed."""
    if layout is not None: _need_strided("from_file", layout)
    dtype = dtype or _C.get_default_dtype()
    storage = _C.UntypedStorage.from_file(filename, bool(shared), size * dtype.itemsize)
    return _C.tensor_over(storage, dtype, 0, (size,), (1,)).requires_grad_(requires_grad)


def get_device(input):
    """-1: tensors here are in the memory of the processor."""
    return input.get_device()


def is_distributed(input):
    """Whether a tensor is spread over devices: never."""
    return False


def cond(pred, true_fn, false_fn, operands=()):
    """`true_fn(*operands)` if pred holds, else `false_fn(*operands)`."""
    if isinstance(pred, _C.Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    return true_fn(*operands) if bool(pred) else false_fn(*operands)
