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
    """Horner's rule, one fused step for each coefficient. A table by kind, or its coefficients, lowest first."""
    coefficients = table[kind] if kind else table
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


exp, log, log1p, sqrt, sin, cos, absolute, erfc, erfinv, floor = map(f, ("exp", "log", "log1p", "sqrt", "sin", "cos", "abs", "erfc", "erfinv", "floor"))
