"""Random numbers. The streams are torch's, bit for bit; they are drawn in C++ (csrc/rng.cpp), serially, in memory order."""
from __future__ import annotations

import math

from ..compiler import trace as T
from ..compiler.graph import dtype_code
from ..registry import op
from .approximation import wide
from .common import OUT_PARAMETER_DTYPE, broadcast_shapes, numel_of, required, underived
from .gamma import beta_slope
from .sort import topk

_OPTIONS = "*, Generator? generator=None, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool requires_grad=False"
_LIKE = "*, Generator? generator=None, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool requires_grad=False, MemoryFormat? memory_format=None"


def _native(schemas, doc, on="Tensor", **more):
    def body(*args, **kwargs):
        raise AssertionError("implemented in C++")
    first = schemas if isinstance(schemas, str) else schemas[0]
    name = first.split("(")[0]
    body.__name__, body.__doc__ = name, doc
    return op(schemas, native=name, on=on, differentiable=False, **more)(body)


rand = _native(f"rand(SymInt[] size, {_OPTIONS}) -> Tensor", "Uniform numbers in [0, 1).", on="torch", out=OUT_PARAMETER_DTYPE)
randn = _native(f"randn(SymInt[] size, {_OPTIONS}) -> Tensor", "Normal numbers of mean 0 and variance 1.", on="torch", out=OUT_PARAMETER_DTYPE)
rand_like = _native(f"rand_like(Tensor self, {_LIKE}) -> Tensor", "Uniform numbers in the shape of another tensor.", on="torch", out=False)
randn_like = _native(f"randn_like(Tensor self, {_LIKE}) -> Tensor", "Normal numbers in the shape of another tensor.", on="torch", out=False)
randint = _native([f"randint(SymInt high, SymInt[] size, {_OPTIONS}) -> Tensor", f"randint(SymInt low, SymInt high, SymInt[] size, {_OPTIONS}) -> Tensor"],
                  "Integers in [low, high).", on="torch", out=OUT_PARAMETER_DTYPE)
randint_like = _native([f"randint_like(Tensor self, SymInt high, {_LIKE}) -> Tensor", f"randint_like(Tensor self, SymInt low, SymInt high, {_LIKE}) -> Tensor"],
                       "Integers in [low, high) in the shape of another tensor.", on="torch", out=False)
randperm = _native(f"randperm(SymInt n, {_OPTIONS}) -> Tensor", "The integers below n in random order.", on="torch", out=OUT_PARAMETER_DTYPE)

uniform_ = _native("uniform_(Tensor(a!) self, float from=0, float to=1, *, Generator? generator=None) -> Tensor", "Fill with uniform numbers in [from, to).")
normal_ = _native("normal_(Tensor(a!) self, float mean=0, float std=1, *, Generator? generator=None) -> Tensor", "Fill with normal numbers.")
random_ = _native(["random_(Tensor(a!) self, *, Generator? generator=None) -> Tensor", "random_(Tensor(a!) self, SymInt to, *, Generator? generator=None) -> Tensor",
                   "random_(Tensor(a!) self, SymInt from, SymInt? to, *, Generator? generator=None) -> Tensor"], "Fill with integers in [from, to).")
bernoulli_ = _native(["bernoulli_(Tensor(a!) self, float p=0.5, *, Generator? generator=None) -> Tensor",
                      "bernoulli_(Tensor(a!) self, Tensor p, *, Generator? generator=None) -> Tensor"], "Fill with 1 with probability p, else 0.")
exponential_ = _native("exponential_(Tensor(a!) self, float lambd=1, *, Generator? generator=None) -> Tensor", "Fill with exponentially distributed numbers.")
cauchy_ = _native("cauchy_(Tensor(a!) self, float median=0, float sigma=1, *, Generator? generator=None) -> Tensor", "Fill with Cauchy distributed numbers.")
log_normal_ = _native("log_normal_(Tensor(a!) self, float mean=1, float std=2, *, Generator? generator=None) -> Tensor", "Fill with log-normal numbers.")
geometric_ = _native("geometric_(Tensor(a!) self, float p, *, Generator? generator=None) -> Tensor", "Fill with geometrically distributed numbers.")

bernoulli = _native(["bernoulli(Tensor self, *, Generator? generator=None) -> Tensor", "bernoulli(Tensor self, float p, *, Generator? generator=None) -> Tensor"],
                    "1 with the probability each element says (or with probability p), else 0.", on="torch Tensor", out=True)
normal = _native(["normal(Tensor mean, Tensor std, *, Generator? generator=None) -> Tensor", "normal(Tensor mean, float std=1, *, Generator? generator=None) -> Tensor",
                  "normal(float mean, Tensor std, *, Generator? generator=None) -> Tensor",
                  f"normal(float mean, float std, SymInt[] size, {_OPTIONS}) -> Tensor"], "Normal numbers, each of its own mean and standard deviation.",
                 on="torch", out=True)


@op("_dropout(Tensor self, float p, *, Generator? generator=None) -> Tensor", rule="float!", on="-", layout="pointwise", node="MulBackward0", out=False)
def _dropout(x, p, generator):
    """Each element kept with probability 1-p and scaled by 1/(1-p). The draw is torch's: two words an element, in memory order."""
    keep = 1.0 - T.cast(p, "f64")
    kept = T.draw_like("bernoulli", x, "b1", keep)
    return x * (T.cast(kept, x.dtype) / T.cast(keep, x.dtype))


@op("_feature_dropout(Tensor self, float p, *, Generator? generator=None) -> Tensor", rule="float!", on="-", layout="pointwise", node="MulBackward0", out=False)
def _feature_dropout(x, p, generator):
    """Dropout of whole channels: one draw for each pair of sample and channel."""
    if x.ndim < 2:
        raise RuntimeError("Feature dropout requires at least 2 dimensions in the input")
    keep = 1.0 - T.cast(p, "f64")
    noise = tuple(x.shape[:2]) + (1,) * (x.ndim - 2)
    kept = T.draw("bernoulli", noise, "b1", keep)
    return x * (T.cast(kept, x.dtype) / T.cast(keep, x.dtype))


# ------------------------------------------------------------------- draws whose parameters are tensors (csrc/distributions.cpp)
@op("_drawn_from(Tensor drawn, Tensor first, Tensor? second=None) -> Tensor", rule=None, on="-", out=False, node="DrawBackward0")
def _drawn_from(drawn, first, second):
    """Numbers that were drawn by these parameters: in the graph, with gradients of zero."""
    return T.copy(drawn)


@_drawn_from.gradient("drawn")
def _(grad):
    return None


@_drawn_from.gradient("first")
def _(first):
    return T.expand(T.const(0, first.dtype), first.shape)


@_drawn_from.gradient("second")
def _(second):
    return T.expand(T.const(0, second.dtype), second.shape)


def _need_float(x, kernel, halves=False):
    if x.dtype not in (("f32", "f64", "f16", "bf16") if halves else ("f32", "f64")):
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{T.dtype_word(x.dtype)}'")


def _one_by_one(kind, inputs, shape, errors=()):
    """One draw for each element, in order."""
    dtype = inputs[0].dtype
    return T.native("draw_" + kind, [(shape, dtype)], inputs, [dtype_code(dtype), numel_of(shape)], errors=errors)[0]


@op("poisson(Tensor self, Generator? generator=None) -> Tensor", rule=None, on="torch", layout="contiguous", out=False, node="PoissonBackward0")
def poisson(self, generator):
    """Numbers of events, each Poisson distributed with the rate an element says."""
    _need_float(self, "poisson_cpu", halves=True)
    return _one_by_one("poisson", [self], self.shape, [("RuntimeError", "invalid Poisson rate, expected rate to be non-negative")])


@poisson.gradient("self")
def _(grad, self):
    return T.expand(T.const(0, grad.dtype), self.shape)


@op("binomial(Tensor count, Tensor prob, Generator? generator=None) -> Tensor", rule=None, on="torch", layout="contiguous", out=False, differentiable=False)
def binomial(count, prob, generator):
    """Numbers of successes in `count` trials that succeed with probability `prob`."""
    for name, x in (("count", count), ("prob", prob)):
        if not T.is_float(x.dtype):
            raise ValueError(f"binomial only supports floating-point dtypes for {name}, got: {T.dtype_word(x.dtype)}")
    if count.dtype != prob.dtype:
        raise RuntimeError(f"Found dtype {T.dtype_word(prob.dtype)} but expected {T.dtype_word(count.dtype)}")
    _need_float(count, "binomial_cpu")
    shape = broadcast_shapes(count.shape, prob.shape)
    return _one_by_one("binomial", [T.expand(count, shape), T.expand(prob, shape)], shape)


@op("_standard_gamma(Tensor self, Generator? generator=None) -> Tensor", rule=None, on="torch", layout="contiguous", out=False, node="StandardGammaBackward0")
def _standard_gamma(self, generator):
    """Gamma distributed numbers of scale 1, each with the shape an element says."""
    _need_float(self, "gamma_cpu")
    return _one_by_one("gamma", [self], self.shape)


@_standard_gamma.gradient("self")
def _(grad, self, result):
    return grad * _standard_gamma_grad(self, result)


@op("_standard_gamma_grad(Tensor self, Tensor output) -> Tensor", rule=None, on="torch", layout="contiguous", out=False, differentiable=False)
def _standard_gamma_grad(self, output):
    """How gamma draws move with their shape parameter."""
    _need_float(self, "_standard_gamma_grad_cpu")
    shape = broadcast_shapes(self.shape, output.shape)
    return T.native("gamma_slopes", [(shape, self.dtype)], [T.expand(self, shape), T.expand(output, shape)], [dtype_code(self.dtype)], units=numel_of(shape), grain=64,
                    cost=numel_of(shape) * 512)[0]


@op("_sample_dirichlet(Tensor self, Generator? generator=None) -> Tensor", rule=None, on="torch", layout="contiguous", out=False)
def _sample_dirichlet(self, generator):
    """Rows of shares that sum to 1: Dirichlet distributed, with the concentrations that each row says."""
    _need_float(self, "dirichlet")
    length = self.shape[-1]
    return T.native("draw_dirichlet", [(self.shape, self.dtype)], [self], [dtype_code(self.dtype), numel_of(self.shape[:-1]), length])[0]


@_sample_dirichlet.gradient("self")
def _(grad, self, result):
    (share, _), (a, _) = wide(result), wide(self)                # the others' concentrations may be lost in a narrower sum
    slopes = T.cast(_dirichlet_grad(share, a, T.expand(T.reduce("sum", a, (-1,)), a.shape)), result.dtype)
    return slopes * (grad - T.reduce("sum", result * grad, (-1,)))


@op("_dirichlet_grad(Tensor x, Tensor alpha, Tensor total) -> Tensor", rule=None, on="torch", out=False)
def _dirichlet_grad(x, alpha, total):
    """How shares x move with their concentrations alpha, of which each row has `total`: along the marginal distributions, Beta(alpha, total - alpha)."""
    for other in (alpha, total):
        if other.dtype != x.dtype: raise RuntimeError(f"Found dtype {T.dtype_word(other.dtype)} but expected {T.dtype_word(x.dtype)}")
    _need_float(x, "_dirichlet_grad_cpu")
    broadcast_shapes(x.shape, alpha.shape, total.shape)
    (share, _), (a, _), (both, _) = wide(x), wide(alpha), wide(total)
    return T.cast(beta_slope(share, a, both - a), x.dtype)


_dirichlet_grad.gradient("x", "alpha", "total")(underived("_dirichlet_grad"))


@op("multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> Tensor", rule=None, layout="contiguous", differentiable=False,
    out="multinomial expects Long tensor out, got: {out}")
def multinomial(self, num_samples, replacement, generator):
    """Categories drawn by their weights, one row for each row of weights; without replacement no category twice.

    Without replacement, or for one sample, each weight is divided by an exponential draw and the largest win: a race.
    """
    if not T.is_float(self.dtype):
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {T.dtype_word(self.dtype)}")
    if self.ndim not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if num_samples <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    count = self.shape[-1]
    if not replacement and num_samples > count:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if count > 2 ** 24:
        raise RuntimeError("number of categories cannot exceed 2^24")
    shape = self.shape[:-1] + (num_samples,)
    if numel_of(self.shape) == 0:
        return T.expand(T.const(0, "i64"), shape)
    if replacement and not (num_samples == 1):
        words = "invalid multinomial distribution (encountering probability entry {})"
        return T.native("draw_multinomial", [(shape, "i64")], [self], [dtype_code(self.dtype), numel_of(self.shape[:-1]), count, num_samples],
                        errors=[("RuntimeError", words.format("< 0")), ("RuntimeError", words.format("= infinity or NaN")),
                                ("RuntimeError", "invalid multinomial distribution (sum of probabilities <= 0)")])[0]
    wide = T.cast(self, T.compute_dtype(self.dtype))
    good = T.prim("le", T.const(0, wide.dtype), wide) & T.prim("lt", wide, T.const(math.inf, wide.dtype))
    weights = required(good, wide, ("RuntimeError", "probability tensor contains either `inf`, `nan` or element < 0"))
    last = self.ndim - 1
    total = T.reduce("sum", weights, (last,))
    weights = required(T.prim("lt", T.const(0, total.dtype), total), weights, ("RuntimeError", "invalid multinomial distribution (sum of probabilities <= 0)"))
    race = T.draw_like("exponential", self, self.dtype, T.const(1.0, "f64"))
    ratio = T.cast(weights / T.cast(race, wide.dtype), self.dtype)
    if count == 1:                                       # no choice; but the race is run, since the numbers after it depend on that
        return T.cast(T.prim("lt", ratio, T.const(0, ratio.dtype)), "i64")
    if num_samples == 1:
        return T.argreduce("argmax", ratio, (last,))
    return topk(ratio, num_samples)[1]


@op("_rrelu_training(Tensor self, float lower, float upper, *, Generator? generator=None) -> Tensor", rule=None, on="-", layout="contiguous", out=False, node="RreluWithNoiseBackward0")
def _rrelu_training(self, lower, upper, generator):
    """Elements that are not above zero, each times a slope of its own between the bounds; the others as they are."""
    _need_float(self, "rrelu_with_noise_out_cpu", halves=True)
    dtype = T.compute_dtype(self.dtype)
    slopes = T.native("draw_rrelu", [(self.shape, dtype)], [self, T.cast(lower, "f64"), T.cast(upper, "f64")], [dtype_code(self.dtype), numel_of(self.shape)])[0]
    return T.cast(T.cast(self, dtype) * slopes, self.dtype)


@op("native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", rule=None, on="torch", out=False, node="NativeDropoutBackward0")
def native_dropout(input, p, train):
    """Dropout and the mask of what it kept."""
    if train is False:
        return input, T.expand(T.const(True, "b1"), input.shape)
    _need_float(input, "dropout", halves=True)
    dtype = T.compute_dtype(input.dtype)
    keep = 1.0 - T.cast(p, "f64")
    kept = T.draw_like("bernoulli", input, "b1", keep)
    scale = T.where(T.prim("eq", keep, T.const(0.0, "f64")), T.const(0.0, "f64"), 1.0 / keep)
    return T.cast(T.cast(input, dtype) * T.cast(kept, dtype) * T.cast(scale, dtype), input.dtype), kept
