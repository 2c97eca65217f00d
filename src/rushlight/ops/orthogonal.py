"""torch.special, the orthogonal polynomials. The degree is a tensor, its fraction cut off; a negative degree (or none: NaN) gives 0. They have no derivative in
torch. Three-term recurrences as scalar loops; Chebyshev's polynomials of higher degree inside [-1, 1] by their trigonometric form."""
from __future__ import annotations

from ..compiler import trace as T
from ..registry import op
from ..samples import Sample, _draw
from .approximation import absolute, cos, floor, number, sin, wide

TRIPS = 2 ** 40                                          # the recurrence ends by itself, at the degree
CLOSED = 8.0                                             # from this degree on by closed form, where there is one


def _degree(n):
    """The degree as a whole double, -1 for what int64 cannot hold."""
    n = wide(n)[0]
    return T.where((n < 2.0 ** 63) & (n > -1.0), T.prim("trunc", n), -1.0)


def recurrence(x, n, first, step):
    """p(n) from p(0) = 1, p(1) = first and p(k+1) = step(x, p(k-1), p(k), k). It stops at NaN."""
    def unfinished(p, q, k, x, n):
        return (k < n) & (q == q)

    def advance(p, q, k, x, n):
        return q, step(x, p, q, k), k + 1.0
    _, q, _ = T.loop(unfinished, advance, [number(1.0), first, number(1.0)], [x, n], TRIPS)
    return T.where(n == 0.0, 1.0, q)


def _polynomial(name, doc, body):
    def samples(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        shapes = (((), ()), ((5,), (5,)), ((3, 1), (1, 40)), ((0,), (0,)), ((33,), ()))
        return [Sample(_draw(rng, a, -1.2, 1.2), np.floor(_draw(rng, b, -1, 14)).astype("float32")) for a, b in shapes]

    def apply(x, n):
        n = _degree(n)
        return T.where(n < 0.0, 0.0, body(wide(x)[0], n))
    apply.__doc__ = doc
    return op(f"{name}(Tensor|Scalar x, Tensor|Scalar n) -> Tensor", rule="float", on="special", differentiable=False, refuses="ch", kernel=f"{name}_cpu",
              samples=samples)(apply)


# ------------------------------------------------------------------------------------------------------------ Chebyshev
def chebyshev(kind):
    """The body for one of Chebyshev's four kinds: they share the recurrence and differ in p(1), in their values at the ends and in the closed form."""
    def closed(u, n):
        angle = T.prim("acos", u)
        if kind == "t":
            return cos(angle * n)
        if kind == "u":
            return sin(angle * (n + 1.0)) / sin(angle)
        return cos(angle * (n + 0.5)) / cos(angle * 0.5) if kind == "v" else sin(angle * (n + 0.5)) / sin(angle * 0.5)

    def body(u, n):
        parity = T.where(floor(n * 0.5) * 2.0 == n, 1.0, -1.0)
        twice = n + n + 1.0
        first, ends = {"t": (u, (number(1.0), parity)), "u": (u + u, (n + 1.0, parity * (n + 1.0))),
                       "v": (u + u - 1.0, (number(1.0), parity * twice)), "w": (u + u + 1.0, (twice, parity))}[kind]
        inside = (absolute(u) < 1.0) & (n > CLOSED)
        edge = absolute(u) == 1.0
        out = recurrence(u, T.where(inside | edge, T.where(n < 1.0, n, 1.0), n), first, lambda u, p, q, k: (u + u) * q - p)
        out = T.where(inside, T.branch(inside, closed, [T.where(inside, u, 0.0), n], number(0.0)), out)        # a branch: degrees are mostly low
        return T.where(edge, T.where(u > 0.0, *ends), out)
    return body


def _shifted(body):
    return lambda x, n: body(x + x - 1.0, n)


_KINDS = {"t": "first", "u": "second", "v": "third", "w": "fourth"}
for _letter, _word in _KINDS.items():
    globals()[f"chebyshev_polynomial_{_letter}"] = _polynomial(f"chebyshev_polynomial_{_letter}", f"Chebyshev's polynomial of the {_word} kind, of degree n.", chebyshev(_letter))
    globals()[f"shifted_chebyshev_polynomial_{_letter}"] = _polynomial(
        f"shifted_chebyshev_polynomial_{_letter}", f"Chebyshev's polynomial of the {_word} kind, of degree n, of `2 x - 1`: on [0, 1] as the plain one on [-1, 1].",
        _shifted(chebyshev(_letter)))


# --------------------------------------------------------------------------------------------------------------- others
hermite_polynomial_h = _polynomial("hermite_polynomial_h", "The physicist's Hermite polynomial of degree n.",
                                   lambda x, n: recurrence(x, n, x + x, lambda x, p, q, k: (x + x) * q - (k + k) * p))
hermite_polynomial_he = _polynomial("hermite_polynomial_he", "The probabilist's Hermite polynomial of degree n.",
                                    lambda x, n: recurrence(x, n, x, lambda x, p, q, k: x * q - k * p))
laguerre_polynomial_l = _polynomial("laguerre_polynomial_l", "Laguerre's polynomial of degree n.",
                                    lambda x, n: recurrence(x, n, 1.0 - x, lambda x, p, q, k: ((k + k + (1.0 - x)) * q - k * p) / (k + 1.0)))
legendre_polynomial_p = _polynomial("legendre_polynomial_p", "Legendre's polynomial of degree n.",
                                    lambda x, n: recurrence(x, n, x, lambda x, p, q, k: ((k + k + 1.0) * x * q - k * p) / (k + 1.0)))
