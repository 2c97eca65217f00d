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


def no_derivative(name):
    """The gradient of a parameter with respect to which nobody knows the derivative: torch's error, when the backward runs and not before."""
    def rule(grad):
        from .common import required
        return required(T.expand(T.const(False, "b1"), grad.shape), grad, ("NotImplementedError", f"the derivative for '{name}' is not implemented."))
    rule.unknown = True                                  # the generated tests do not ask for it
    return rule
