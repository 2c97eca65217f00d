"""Random numbers. The streams are torch's, bit for bit; they are drawn in C++ (csrc/rng.cpp), serially, in memory order."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from .common import OUT_PARAMETER_DTYPE

_OPTIONS = "*, Generator? generator=None, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool requires_grad=False"
_LIKE = "*, ScalarType? dtype=None, Layout? layout=None, Device? device=None, bool? pin_memory=None, bool requires_grad=False, MemoryFormat? memory_format=None"


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
    kept = T.draw("bernoulli", x.shape, "b1", keep)
    return x * (T.cast(kept, x.dtype) / T.cast(keep, x.dtype))


@op("_feature_dropout(Tensor self, float p, *, Generator? generator=None) -> Tensor", rule="float!", on="-", layout="pointwise", node="MulBackward0", out=False)
def _feature_dropout(x, p, generator):
    """Dropout of whole channels: one draw for each pair of sample and channel."""
    keep = 1.0 - T.cast(p, "f64")
    noise = tuple(x.shape[:2]) + (1,) * (x.ndim - 2)
    kept = T.draw("bernoulli", noise, "b1", keep)
    return x * (T.cast(kept, x.dtype) / T.cast(keep, x.dtype))
