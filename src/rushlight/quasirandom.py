"""Sobol's sequences: points that fill a cube more evenly than random ones do."""
from __future__ import annotations

import base64

import rushlight as rl

from .sobol_table import PACKED

MAXBIT, MAXDEGREE = 30, 13


class SobolEngine:
    """Points of [0, 1)^d from a Sobol sequence (Joe and Kuo's direction numbers, in the order of Gray's code), scrambled or not.

    Scrambling multiplies each direction number's bits by a random triangular matrix and shifts all points by a random number, bit by bit (Owen, Matousek); with a seed the points are torch's. Torch's
    table goes to 21201 dimensions, this one to 1111.
    """

    MAXBIT = MAXBIT
    MAXDIM = 1111

    def __init__(self, dimension, scramble=False, seed=None):
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = rl.tensor(direction_numbers(dimension))
        self.shift = rl.zeros(dimension, dtype=rl.int64)
        if scramble: self._scramble()
        self.quasi, self.num_generated = self.shift.clone(), 0

    def _scramble(self) -> None:
        generator = rl.Generator()
        if self.seed is None: generator.seed()
        else: generator.manual_seed(self.seed)
        d = self.dimension
        self.shift = (rl.randint(2, (d, MAXBIT), generator=generator) << rl.arange(MAXBIT)).sum(1)
        mix = rl.randint(2, (d, MAXBIT, MAXBIT), generator=generator).tril()
        mix.diagonal(dim1=1, dim2=2).fill_(1)
        places = rl.arange(MAXBIT - 1, -1, -1)                 # the highest bit first
        bits = self.sobolstate.unsqueeze(-1) >> places & 1      # (d, number, bit)
        mixed = (mix.unsqueeze(1) & bits.unsqueeze(2)).sum(-1) & 1
        self.sobolstate = (mixed << places).sum(-1)

    def _points(self, first: int, count: int):
        """The points from one number on, as integers: the directions at the ones of the number's Gray code, added without carry."""
        number = rl.arange(first, first + count)
        gray = number ^ number >> 1
        points = self.shift.expand(count, -1)
        for bit in range((first + count).bit_length()):
            points = points ^ self.sobolstate[:, bit] * (gray >> bit & 1).unsqueeze(1)
        return points

    def draw(self, n=1, out=None, dtype=None):
        """The next n points, as rows. Without a dtype: the default one."""
        if self.num_generated + n > 2 ** MAXBIT:
            raise ValueError(f"At most 2**{MAXBIT}={2 ** MAXBIT} distinct points can be generated. {self.num_generated} points have been previously generated, and {n} more were asked for")
        dtype = rl.get_default_dtype() if dtype is None else dtype
        points = self._points(self.num_generated, n)
        if n: self.quasi = points[-1].clone()
        self.num_generated += n
        points = points.to(dtype) * 2.0 ** -MAXBIT
        if out is None: return points
        return out.resize_(points.shape).copy_(points)

    def draw_base2(self, m, out=None, dtype=None):
        """The next 2**m points; with those before they must be a power of 2, or they are not balanced."""
        n = 2 ** m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(f"The balance properties of Sobol' points require n to be a power of 2. {self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}={total}. "
                             "draw() gives any number of them.")
        return self.draw(n, out=out, dtype=dtype)

    def reset(self):
        """Begin again, with the same scrambling."""
        self.quasi, self.num_generated = self.shift.clone(), 0
        return self

    def fast_forward(self, n):
        """Leave out the next n points."""
        if n: self.quasi = self._points(self.num_generated + n - 1, 1)[0]
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        words = [f"dimension={self.dimension}", *(["scramble=True"] if self.scramble else []), *([] if self.seed is None else [f"seed={self.seed}"])]
        return f"SobolEngine({', '.join(words)})"


# --------------------------------------------------------------------------------------------------------- direction numbers
def direction_numbers(dimension: int) -> list:
    """For each dimension MAXBIT numbers, the first with its highest bit set. The first dimension's are the powers of 2; each other has a primitive polynomial over {0, 1}, in order, and its numbers
    follow from the first few by the polynomial's recurrence."""
    packed, at = int.from_bytes(base64.b85decode(PACKED), "little"), 0
    out = [[1 << MAXBIT - 1 - i for i in range(MAXBIT)]]
    for degree, inner in primitive_polynomials():
        if len(out) >= dimension: break
        numbers = []
        for i in range(degree):
            odd = (packed >> at & (1 << i) - 1) << 1 | 1
            at += i
            numbers.append(odd << MAXBIT - 1 - i)
        for i in range(degree, MAXBIT):
            value = numbers[i - degree] ^ numbers[i - degree] >> degree
            for k in range(1, degree):
                if inner >> degree - 1 - k & 1: value ^= numbers[i - k]
            numbers.append(value)
        out.append(numbers)
    return out


def primitive_polynomials():
    """(degree, the coefficients between the first and the last, which are 1), in increasing order: those modulo which x has the largest order there is."""
    yield 1, 0
    for degree in range(2, MAXDEGREE + 1):
        order = 2 ** degree - 1
        parts = [order // p for p in _prime_factors(order)]
        for inner in range(2 ** (degree - 1)):
            polynomial = 1 << degree | inner << 1 | 1
            if _power_of_x(order, polynomial, degree) == 1 and all(_power_of_x(part, polynomial, degree) != 1 for part in parts): yield degree, inner


def _prime_factors(n: int) -> list:
    return [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, int(p ** 0.5) + 1))]


def _power_of_x(exponent: int, polynomial: int, degree: int) -> int:
    result, base = 1, 2
    while exponent:
        if exponent & 1: result = _product(result, base, polynomial, degree)
        base = _product(base, base, polynomial, degree)
        exponent >>= 1
    return result


def _product(a: int, b: int, polynomial: int, degree: int) -> int:
    out = 0
    while b:
        if b & 1: out ^= a
        a <<= 1
        if a >> degree: a ^= polynomial
        b >>= 1
    return out


__all__ = ["SobolEngine"]
