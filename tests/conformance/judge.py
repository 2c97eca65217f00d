"""When two results in single precision differ by more than the tolerance, which of them is off? The same call in double precision is the judge.

`nearer(ours, theirs, exact)`: ours is within the tolerance of the double result, or about as near to it as torch's own, element by element beside the
tolerance and at its worst. A judge that disagrees with torch's single result altogether (random numbers, another branch) is none.
"""
from __future__ import annotations

import torch
from bridge import TOLERANCE, flatten, to_torch

WIDER = {torch.complex64: torch.complex128, torch.float32: torch.float64}
# How far torch's own result may be from the judge's, beside the largest of its values.
SANE = 1e-3
# Errors of the same size differ by luck: how many times torch's own ours may be.
LUCK = 2


def single(values) -> bool:
    """Whether something here is in single precision."""
    return any(isinstance(t, torch.Tensor) and t.dtype in WIDER for t in flatten(values))


def double(values):
    """The same arguments, complex64 as complex128 and float32 as float64; leaves stay leaves."""
    if isinstance(values, torch.Tensor):
        if values.dtype not in WIDER: return values
        return values.detach().to(WIDER[values.dtype]).requires_grad_(values.requires_grad)
    if isinstance(values, torch.dtype): return WIDER.get(values, values)
    if isinstance(values, dict): return {k: double(x) for k, x in values.items()}
    return type(values)(map(double, values)) if type(values) in (list, tuple) else values


class Judge:
    """The double run of one sample: its results, and whatever is derived from them, made when first asked for."""

    def __init__(self, function, args, kwargs, process=None):
        self.function, self.process = function, process or (lambda out: out)
        self.args, self.kwargs = double([list(args), dict(kwargs)])
        self.leaves = [t for t in flatten([self.args, self.kwargs]) if isinstance(t, torch.Tensor) and t.requires_grad]
        self._results = self._weights = self._gradients = None

    def results(self):
        if self._results is None:
            torch.manual_seed(7)
            self._results = self.process(self.function(*self.args, **self.kwargs))
        return self._results

    def gradients(self, weights):
        if self._gradients is None:
            out = [o for o in flatten(self.results()) if isinstance(o, torch.Tensor) and o.requires_grad]
            self._weights = [double(w) for w in weights]
            self._gradients = torch.autograd.grad(out, self.leaves, self._weights, allow_unused=True, create_graph=True)
        return self._gradients

    def second_gradients(self, weights, again):
        given = [g for g in self.gradients(weights) if g is not None and g.requires_grad]
        return torch.autograd.grad(given, self.leaves + self._weights, [double(w) for w in again], allow_unused=True)


def nearer(ours, theirs, exact, tolerance=TOLERANCE) -> bool:
    """Whether our results (tensors, some None) are as good as torch's, by the judge's. `exact` makes those; where torch cannot, there is no judge."""
    try: exact = exact()
    except RuntimeError: return False
    ours, theirs, exact = (flatten([*v] if isinstance(v, (list, tuple)) else [v]) for v in (ours, theirs, exact))
    if len(ours) != len(theirs) or len(theirs) != len(exact): return False
    return all(_nearer(*parts, tolerance) for parts in zip(ours, theirs, exact))


def _nearer(a, b, e, tolerance):
    if not isinstance(b, torch.Tensor): return True                       # nothing the precision could change
    if a is None or not isinstance(e, torch.Tensor) or tuple(a.shape) != tuple(b.shape) or b.shape != e.shape: return False
    a, e = to_torch(a), e.detach().resolve_conj().resolve_neg()
    b = b.detach().resolve_conj().resolve_neg()
    if not (b.dtype.is_floating_point or b.dtype.is_complex): return torch.equal(a, b)
    rtol, atol = tolerance[b.dtype]
    kind = torch.complex128 if b.dtype.is_complex else torch.float64
    a, b, e = a.to(kind), b.to(kind), e.to(kind)
    known = e.isfinite() & b.isfinite()
    if not torch.equal(a[~known].nan_to_num(), b[~known].nan_to_num()) or not bool(a[known].isfinite().all()): return False
    if not bool(known.any()): return True
    room = atol + rtol * e[known].abs()
    mine, its = ((x[known] - e[known]).abs() for x in (a, b))
    if bool((mine <= room).all()): return True
    if float(its.max()) > SANE * float(e[known].abs().max()): return False
    return float((mine / room).max()) <= LUCK * float((its / room).max())
