"""Random graphs through the backend against the interpreter. Values are small whole numbers in f64: every order of sums agrees exactly."""
import os
import random

import numpy as np
import pytest
import replay
from graphs import Graphs

from rushlight.compiler.symbolic import hint, product


class Maker:
    """Grows a graph by random steps over a few values."""

    def __init__(self, seed):
        self.r, self.g = random.Random(seed), Graphs()
        rank = self.r.choice((1, 2, 2, 3, 3, 4))
        sizes = [self.r.choice((1, 2, 3, 5, 7, 33, 40)) for _ in range(rank)]
        self.values = [self.tensor(sizes)]
        self.values += [self.tensor([d if self.r.random() < .7 else 1 for d in sizes]) for _ in range(self.r.randint(0, 2))]

    def tensor(self, sizes):
        """An input behind random strides. Dimensions equal to the first input's are the same symbol, as guards would make them."""
        order = list(range(len(sizes)))
        self.r.shuffle(order)
        a = np.random.default_rng(self.r.getrandbits(30)).integers(-2, 3, [sizes[d] for d in order]).astype(np.float64)
        wide = np.repeat(a, 2, -1)[..., ::2] if self.r.random() < .3 else a
        x = self.g.input(wide.transpose(np.argsort(order)))
        if len(self.g.inputs) > 1:
            for d, first in zip(x.shape, self.g.inputs[0].node.shape):
                if hint(d) == hint(first): assert d == first
        return x

    def pick(self): return self.r.choice(self.values[-6:])

    def step(self):
        x, g, r = self.pick(), self.g, self.r
        kind = r.choice(('matmul', 'add', 'sub', 'maximum', 'where', 'reduce', 'reduce', 'broadcast', 'permute', 'flip', 'slice', 'reshape',
                         'merge', 'split', 'scan', 'cat',
                         'gather', 'iota', 'expand', 'argreduce', 'matmul', 'scatter', 'pad'))
        rank = len(x.shape)
        d = r.randrange(rank) if rank else 0
        if kind in ('add', 'sub', 'maximum'):
            y = self.like(x)
            if y is not None: return g.op(kind, x, y)
        if kind == 'where':
            y = self.like(x)
            if y is not None: return g.op('where', x.op('lt', y), y, x * 2.0)
        if not rank: return x + 1.0
        if kind == 'reduce': return x.reduce(r.choice(('sum', 'amax', 'amin', 'sum')), *sorted(r.sample(range(rank), r.randint(1, rank))))
        if kind == 'broadcast': return x - x.reduce(r.choice(('sum', 'amax')), *sorted(r.sample(range(rank), r.randint(1, rank))))
        if kind == 'permute': return x.permute(*r.sample(range(rank), rank))
        if kind == 'flip': return x.flip(d)
        if kind == 'slice' and hint(x.shape[d]) > 1:
            step = r.randint(1, 2)
            return x.slice(d, r.randint(0, 1), (hint(x.shape[d]) - 1 + step - 1) // step, step)
        if kind == 'merge' and rank > 1:
            k = r.randrange(rank - 1)
            return x.reshape(*x.shape[:k], x.shape[k] * x.shape[k + 1], *x.shape[k + 2:])
        if kind == 'reshape': return x.reshape(product(x.shape))
        if kind == 'split': return x.reshape(*x.shape[:d], 1, *x.shape[d:])
        if kind == 'scan' and not (isinstance(x.shape[d], int) and x.shape[d] == 1): return x.scan(r.choice(('sum', 'max')), d,
                                                                                                   r.random() < .5)
        if kind == 'cat':
            y = self.like(x, exact=True)
            if y is not None: return g.op('cat', x, y, dim=d, shape=(*x.shape[:d], x.shape[d] * 2, *x.shape[d + 1:]), dtype='f64')
        if kind == 'gather':
            last = g.op('fmod', x.op('abs').cast('i64'), g.size(x.shape[d], 'i64'))
            index = [last if i == d else g.iota(n, i, rank) if not (isinstance(n, int) and n == 1) else g.const(0, 'i64') for i,
                     n in enumerate(x.shape)]
            return g.op('load', x, *index, guarded=False, shape=x.shape, dtype='f64')
        if kind == 'iota' and not (isinstance(x.shape[d], int) and x.shape[d] == 1): return x + g.iota(x.shape[d], d, rank).cast('f64')
        if kind == 'expand' and r.random() < .5: return x.expand(2, *x.shape)
        if kind == 'argreduce': return x.argreduce('argmax', d).cast('f64')
        if kind == 'matmul' and rank == 2:
            made = g.op('matmul', x, x.permute(1, 0), shape=(x.shape[0], x.shape[0]), dtype='f64')
            if r.random() < .5: made = made + x.reduce('sum', 1)
            self.values += [made, made.op('maximum', 0.0)]
            return r.choice((made, made.permute(1, 0), made - 1.0))
        if kind == 'scatter':
            index = [g.op('fmod', x.op('abs').cast('i64'), g.size(n, 'i64')) if i == d else g.iota(n, i, rank)
                     if not (isinstance(n, int) and n == 1) else g.const(0, 'i64')
                     for i, n in enumerate(x.shape)]
            return g.op('scatter', x, x + 1.0, *index, combine='add', shape=x.shape, dtype='f64')
        if kind == 'pad':
            at = g.iota(x.shape[d] + 3, d, rank) - 2
            inside = g.op('bit_and', g.op('le', g.const(0, 'i64'), at), g.op('lt', at, g.size(x.shape[d], 'i64')))
            index = [at if i == d else g.iota(n, i, rank) if not (isinstance(n, int) and n == 1) else g.const(0, 'i64') for i,
                     n in enumerate(x.shape)]
            shape = (*x.shape[:d], x.shape[d] + 3, *x.shape[d + 1:])
            return g.op('load', x, *index, inside, g.const(7.0, 'f64'), guarded=True, shape=shape, dtype='f64')
        return x + 1.0

    def like(self, x, exact=False):
        """Another value that broadcasts with x (or has its very shape)."""
        def fits(y):
            if exact: return len(y.shape) == len(x.shape) and all(hint(a) == hint(b) and str(a) == str(b) for a, b in zip(x.shape, y.shape))
            for a, b in zip(reversed(x.shape), reversed(y.shape)):
                if isinstance(a, int) and a == 1 or isinstance(b, int) and b == 1: continue
                if str(a) != str(b): return False
            return True
        return next((y for y in self.r.sample(self.values, len(self.values)) if fits(y)), None)


@pytest.mark.parametrize('seed', range(int(os.environ.get('RUSHLIGHT_SEED', 0)), int(os.environ.get('RUSHLIGHT_SEED', 0)) + 120))
def test_random_graph(seed):
    m = Maker(seed)
    for _ in range(m.r.randint(2, 9)):
        v = m.step()
        if np.prod([hint(d) for d in v.shape]) < 50000: m.values.append(v)
    roots = list(dict.fromkeys(m.r.sample(m.values, min(len(m.values), m.r.randint(1, 3))) + [m.values[-1]]))
    want = replay.interpret([v.node for v in roots], m.g.arrays)
    everything = replay.interpret([v.node for v in m.values], m.g.arrays)
    if any(w.size and np.abs(w).max() > 2.0 ** 40 for w in everything): pytest.skip('sums would round')
    strides = []
    for w in want:
        order = m.r.sample(range(w.ndim), w.ndim)
        strides.append(None if m.r.random() < .6 else order)
    recipe = m.g.recipe(roots, strides=[None if o is None else permuted(v.shape, o) for v, o in zip(roots, strides)])
    for threads in (1, 2):
        for got, expected in zip(m.g.replay(recipe, threads=threads), want):
            assert got.shape == expected.shape and np.array_equal(got, expected), f'seed {seed}'


def permuted(shape, order):
    out, step = [0] * len(shape), 1
    for d in order: out[d] = step; step = step * shape[d]
    return tuple(out)
