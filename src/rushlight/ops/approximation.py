"""What the special functions share: they are computed in double, by polynomials on pieces, and rounded once."""
from __future__ import annotations

import math

from ..compiler import trace as T

INF, NAN = math.inf, math.nan


def wide(x):
    """x in double, and which length of the tables its result needs."""
    return (x, "f64") if x.dtype == "f64" else (T.cast(x, "f64"), "mid")


def number(value):
    return T.const(value, "f64")


def polynomial(t, table, kind=None):
    """Horner's rule, one fused step for each coefficient. A table by kind, or its coefficients, lowest first. For 'mid', which has bits to spare, even and odd powers
    apart: steps that wait for each other are most of the time."""
    coefficients = table[kind] if kind else table
    if kind == "mid" and len(coefficients) > 5:
        square = t * t
        return T.prim("fma", polynomial(square, coefficients[1::2]), t, polynomial(square, coefficients[::2]))
    total = number(coefficients[-1])
    for c in coefficients[-2::-1]:
        total = T.prim("fma", total, t, number(c))
    return total


def at_most(x, limit):
    """min(x, limit), NaN kept."""
    return T.where(x > limit, limit, x)


def at_least(x, limit):
    return T.where(x < limit, limit, x)


def is_nan(x):
    return T.prim("ne", x, x)


def f(name):
    """A mathematical primitive as a function."""
    return lambda *args: T.prim(name, *args)


exp, log, log1p, sqrt, sin, cos, absolute, erfc, floor = map(f, ("exp", "log", "log1p", "sqrt", "sin", "cos", "abs", "erfc", "floor"))
