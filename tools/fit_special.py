"""Write src/rushlight/ops/special_tables.py: `python tools/fit_special.py` (needs mpmath; only when a table changes).

Each table is the Chebyshev interpolant of a smooth part of a function, computed with 50 digits, of the lowest degree at which its relative error is below
2^-54 (`f64`) and 2^-31 (`mid`: for results that are about to be rounded to float), rewritten in powers of t.
"""
from __future__ import annotations

import pathlib

import mpmath as mp

mp.mp.dps = 50
MOST = 52                                                # coefficients of the interpolants that are cut to length
TARGET = {"f64": mp.mpf(2) ** -54, "mid": mp.mpf(2) ** -31}
OUT = pathlib.Path(__file__).resolve().parent.parent / "src" / "rushlight" / "ops" / "special_tables.py"


def chebyshev(function, low, high, count):
    """The coefficients of the Chebyshev interpolant on [low, high]."""
    middle, half = (mp.mpf(high) + low) / 2, (mp.mpf(high) - low) / 2
    angles = [mp.pi * (k + mp.mpf(1) / 2) / count for k in range(count)]
    values = [function(middle + half * mp.cos(a)) for a in angles]
    out = [2 * mp.fsum(v * mp.cos(j * a) for a, v in zip(angles, values)) / count for j in range(count)]
    out[0] /= 2
    return out


def powers(coefficients, low, high):
    """A sum of Chebyshev polynomials on [low, high] in powers of t, lowest first."""
    n = len(coefficients)
    middle, half = (mp.mpf(high) + low) / 2, (mp.mpf(high) - low) / 2
    before, now, total = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)], [mp.mpf(0)] * n
    for j, c in enumerate(coefficients):                 # powers of s = (t - middle) / half
        for i, p in enumerate(before if j == 0 else now): total[i] += c * p
        if j > 0:
            following = [mp.mpf(0)] + [2 * p for p in now]
            for i, p in enumerate(before): following[i] -= p
            before, now = now, following
    out, power = [mp.mpf(0)] * n, [mp.mpf(1)]
    for c in total:
        for i, p in enumerate(power): out[i] += c * p
        power = [(a * -middle + b) / half for a, b in zip(power + [mp.mpf(0)], [mp.mpf(0)] + power)]
    return out


def fit(function, low=-1, high=1, absolute=False):
    """absolute: the function has zeros, and is of size 1."""
    series = chebyshev(function, low, high, MOST)
    points = [low + (mp.mpf(high) - low) * (k + mp.mpf(1) / 3) / 102 for k in range(101)]
    wanted = [function(t) for t in points]
    out, degree = {}, 3
    for kind in ("mid", "f64"):
        while True:
            coefficients = powers(series[:degree + 1], low, high)
            errors = [abs(mp.polyval(coefficients[::-1], t) - w) / (1 if absolute else abs(w)) for t, w in zip(points, wanted)]
            if max(errors) < TARGET[kind]: break
            degree += 1
            if degree >= MOST - 4: raise ValueError(f"the interpolant does not converge: {mp.nstr(max(errors), 3)}")
        out[kind] = tuple(float(c) for c in coefficients)
    return out


def split(x):
    """A number as a double and the double of what is left."""
    high = float(x)
    return high, float(x - mp.mpf(high))


def hankel(order):
    """The slow parts of sqrt(pi x / 2) (J, Y) = (P cos X - Q sin X, P sin X + Q cos X), X = x - (order/2 + 1/4) pi; x Q is given."""
    def parts(x):
        angle = x - (mp.mpf(order) / 2 + mp.mpf(1) / 4) * mp.pi
        j, y, scale = mp.besselj(order, x), mp.bessely(order, x), mp.sqrt(mp.pi * x / 2)
        return scale * (j * mp.cos(angle) + y * mp.sin(angle)), scale * (y * mp.cos(angle) - j * mp.sin(angle)) * x
    limit = (mp.mpf(1), mp.mpf(4 * order * order - 1) / 8)
    at = lambda t: 8 / mp.sqrt((t + 1) / 2)              # t = 2 (8/x)^2 - 1
    return [fit(lambda t, k=k: parts(at(t))[k] if t > -1 + mp.mpf(10) ** -20 else limit[k]) for k in (0, 1)]


def airy_parts(z):
    """sqrt(pi) x^(1/4) Ai(-x) = P sin(z + pi/4) - Q cos(z + pi/4), z = 2/3 x^(3/2); and Bi likewise, which tells P and Q apart."""
    x = (mp.mpf(3) / 2 * z) ** (mp.mpf(2) / 3)
    scale, angle = mp.sqrt(mp.pi) * mp.root(x, 4), z + mp.pi / 4
    a, b = scale * mp.airyai(-x), scale * mp.airybi(-x)
    return a * mp.sin(angle) + b * mp.cos(angle), (b * mp.sin(angle) - a * mp.cos(angle)) * z


def temme(orders, length):
    """The coefficients of Temme's expansion of the incomplete gamma functions: R = exp(-a eta^2/2) / sqrt(2 pi a) * sum_k C_k(eta) a^-k, each C_k a series in
    eta. C_0 = 1/mu - 1/eta, eta C_k = C_(k-1)' + (the coefficient that makes it regular) / mu, where eta^2/2 = mu - log(1 + mu)."""
    n = length + 2 * orders + 4
    # mu as a series of eta: mu mu' = (1 + mu) eta
    m = [mp.mpf(0), mp.mpf(1)]
    for k in range(2, n + 2):                            # the coefficient of eta^k on both sides of mu mu' = eta + mu eta
        known = mp.fsum(m[i] * m[k + 1 - i] * (k + 1 - i) for i in range(2, k))
        m.append((m[k - 1] - known) / (k + 1))
    quotient = m[1:]                                     # mu / eta
    inverse = [1 / quotient[0]]                          # eta / mu
    for k in range(1, n): inverse.append(-mp.fsum(quotient[i] * inverse[k - i] for i in range(1, k + 1)) / quotient[0])
    out, c = [], inverse[1:]                             # 1/mu - 1/eta
    out.append(c)
    for _ in range(1, orders):
        derivative = [c[i] * i for i in range(1, len(c))]
        gamma = -derivative[0]                           # eta C_k = C' + gamma eta/mu, without a constant term
        total = [d + gamma * v for d, v in zip(derivative, inverse)]
        c = total[1:]
        out.append(c)
    return out


def tables():
    b = mp.besselk
    out = {}
    out["I0_NEAR", "I0(8 sqrt(t)), 0 <= t <= 1"] = fit(lambda t: mp.besseli(0, 8 * mp.sqrt(t)), 0)
    out["I1_NEAR", "I1(x) / x, x = 8 sqrt(t)"] = fit(lambda t: mp.besseli(1, 8 * mp.sqrt(t)) / (8 * mp.sqrt(t)), 0)
    out["I0_FAR", "sqrt(x) exp(-x) I0(x), t = 16/x - 1"] = fit(lambda t: mp.sqrt(16 / (t + 1)) * mp.exp(-16 / (t + 1)) * mp.besseli(0, 16 / (t + 1)))
    out["I1_FAR", "sqrt(x) exp(-x) I1(x), t = 16/x - 1"] = fit(lambda t: mp.sqrt(16 / (t + 1)) * mp.exp(-16 / (t + 1)) * mp.besseli(1, 16 / (t + 1)))
    def k0(t):
        x = 2 * mp.sqrt(t)
        return b(0, x) + mp.log(x / 2) * mp.besseli(0, x)
    def k1(t):
        x = 2 * mp.sqrt(t)
        return (b(1, x) - mp.log(x / 2) * mp.besseli(1, x)) * x
    out["K0_NEAR", "K0(x) + log(x/2) I0(x), x = 2 sqrt(t), 0 <= t <= 1; absolute"] = fit(k0, 0, absolute=True)
    out["K1_NEAR", "x (K1(x) - log(x/2) I1(x)), x = 2 sqrt(t); absolute"] = fit(k1, 0, absolute=True)
    out["K0_FAR", "sqrt(x) exp(x) K0(x), t = 4/x - 1"] = fit(lambda t: mp.sqrt(4 / (t + 1)) * mp.exp(4 / (t + 1)) * b(0, 4 / (t + 1)))
    out["K1_FAR", "sqrt(x) exp(x) K1(x), t = 4/x - 1"] = fit(lambda t: mp.sqrt(4 / (t + 1)) * mp.exp(4 / (t + 1)) * b(1, 4 / (t + 1)))
    zeros = {n: [mp.besseljzero(n, k) for k in (1, 2)] for n in (0, 1)}
    near = lambda t: 8 * mp.sqrt((t + 1) / 2)            # t = x^2/32 - 1
    def j(n):
        def part(t):
            x = near(t)
            return mp.besselj(n, x) / (x ** n * (x * x - zeros[n][0] ** 2) * (x * x - zeros[n][1] ** 2))
        return part
    out["J0_NEAR", "J0(x) / ((x^2 - a^2) (x^2 - b^2)), t = x^2/32 - 1, a and b its zeros"] = fit(j(0))
    out["J1_NEAR", "J1(x) / (x (x^2 - a^2) (x^2 - b^2)), t = x^2/32 - 1"] = fit(j(1))
    out["Y0_NEAR", "Y0(x) - 2/pi log(x) J0(x), t = x^2/32 - 1; absolute"] = fit(lambda t: mp.bessely(0, near(t)) - 2 / mp.pi * mp.log(near(t)) * mp.besselj(0, near(t)), absolute=True)
    out["Y1_NEAR", "(Y1(x) - 2/pi (log(x) J1(x) - 1/x)) / x, t = x^2/32 - 1; absolute"] = fit(
        lambda t: (mp.bessely(1, near(t)) - 2 / mp.pi * (mp.log(near(t)) * mp.besselj(1, near(t)) - 1 / near(t))) / near(t), absolute=True)
    for n in (0, 1):
        p, q = hankel(n)
        out[f"JY{n}_P", "the modulus part of Hankel's form, t = 2 (8/x)^2 - 1"] = p
        out[f"JY{n}_Q", "the phase part times x"] = q
    out["AIRY_MIDDLE", "Ai(3 t - 1); absolute"] = fit(lambda t: mp.airyai(3 * t - 1), absolute=True)
    def airy_right(t):
        z = (mp.mpf(2) / 3 * mp.mpf(2) ** mp.mpf("1.5")) * 2 / (t + 1)
        x = (mp.mpf(3) / 2 * z) ** (mp.mpf(2) / 3)
        return 2 * mp.sqrt(mp.pi) * mp.root(x, 4) * mp.exp(z) * mp.airyai(x)
    out["AIRY_RIGHT", "2 sqrt(pi) x^(1/4) exp(z) Ai(x), z = 2/3 x^(3/2), t = 2 z(2) / z - 1"] = fit(airy_right)
    edge = mp.mpf(16) / 3                                # z at x = 4
    for k, name in ((0, "AIRY_P"), (1, "AIRY_Q")):
        out[name, "Ai(-x) in Hankel's form (Q times z), t = 2 (z(4) / z)^2 - 1"] = fit(lambda t, k=k: airy_parts(edge / mp.sqrt((t + 1) / 2))[k])
    def erfcx(x): return mp.exp(x * x) * mp.erfc(x)
    def erfcx_near(t): return erfcx(3 * (1 + t) / (1 - t)) * (1 + 6 * (1 + t) / (1 - t))
    out["ERFCX_NEAR", "(1 + 2 x) erfcx(x), t = (x - 3) / (x + 3), 1/2 <= x <= 8"] = fit(erfcx_near, mp.mpf(-5) / 7, mp.mpf(5) / 11)
    def erfcx_far(t):
        x = 8 / mp.sqrt((t + 1) / 2)
        return erfcx(x) * x if x < 60 else mp.nsum(lambda k: (-1) ** int(k) * mp.fac2(2 * k - 1) / (2 * x * x) ** k, [0, 24]) / mp.sqrt(mp.pi)
    out["ERFCX_FAR", "x erfcx(x), t = 2 (8/x)^2 - 1"] = fit(erfcx_far)
    def tail(w):
        p = mp.exp(-w * w / 2)
        y = mp.findroot(lambda v: mp.log(mp.erfc(v / mp.sqrt(2)) / 2) + w * w / 2, w - mp.log(w) / w - 1 / w)
        assert abs(mp.erfc(y / mp.sqrt(2)) / 2 / p - 1) < mp.mpf(10) ** -30
        return (w - mp.log(w) / w - y) * w
    def centre(u): return mp.sqrt(2) * mp.erfinv(2 * u) / u if u > mp.mpf(10) ** -20 else mp.sqrt(2 * mp.pi)
    out["NDTRI_NEAR", "w (w - log(w)/w + ndtri(p)), w = sqrt(-2 log p), t = (w - 3.95)/2.05, 1.9 <= w <= 6; absolute"] = fit(lambda t: tail(mp.mpf("3.95") + mp.mpf("2.05") * t), absolute=True)
    out["NDTRI_CENTRE", "ndtri(1/2 + u) / u, t = u^2 / 0.06125 - 1, |u| <= 0.35"] = fit(lambda t: centre(mp.sqrt((t + 1) * mp.mpf("0.06125"))))
    out["NDTRI_FAR", "the same, w = 6 / (0.575 + 0.425 t), 6 <= w <= 40; absolute"] = fit(lambda t: tail(6 / (mp.mpf("0.575") + mp.mpf("0.425") * t)), absolute=True)
    out["LOG1P_TAIL", "(mu - log(1 + mu)) / mu^2, mu = 0.45 t"] = fit(lambda t: (mp.mpf("0.45") * t - mp.log1p(mp.mpf("0.45") * t)) / (mp.mpf("0.45") * t) ** 2 if abs(t) > mp.mpf(10) ** -15 else mp.mpf(1) / 2)
    constants = {"J0_ZEROS": [split(z * z) for z in zeros[0]], "J1_ZEROS": [split(z * z) for z in zeros[1]]}
    lengths = [20, 17, 15, 13, 11, 9, 7, 5]
    gamma = [tuple(float(v) for v in c[:n]) for c, n in zip(temme(len(lengths), max(lengths)), lengths)]
    return out, constants, gamma


def numbers(values, indent):
    lines, line = [], indent
    for v in values:
        word = repr(v) + ", "
        if len(line) + len(word) > 158:
            lines.append(line.rstrip())
            line = indent
        line += word
    return "\n".join([*lines, line.rstrip()])


def main():
    out, constants, gamma = tables()
    text = ['"""Polynomial coefficients of the special functions, lowest degree first. Written by tools/fit_special.py: Chebyshev interpolants computed with',
            '50 digits, in powers of t. `f64`: relative error below 2^-54; `mid`: below 2^-31, for results that are rounded to float."""', ""]
    for name, values in constants.items():
        text += ["# Squares of the first zeros, each as a sum of two doubles", f"{name} = {tuple(values)!r}"]
    for (name, what), table in out.items():
        text += ["", f"# {what}", f"{name} = {{"]
        for kind in ("mid", "f64"):
            text += [f"    {kind!r}: (", numbers(table[kind], " " * 8), "    ),"]
        text += ["}"]
    text += ["", "# Temme's expansion: for each power of 1/a the series in eta", "TEMME = ("]
    for row in gamma: text += ["    (", numbers(row, " " * 8), "    ),"]
    text += [")", ""]
    OUT.write_text("\n".join(text))


if __name__ == "__main__":
    main()
