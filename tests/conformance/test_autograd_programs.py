"""Random programs of views, in-place writes and ordinary operations, run by torch and by Rushlight: same values, gradients and flags.

Two differences are known and allowed. Where a gradient is zero by structure (what `zero_()` overwrote), torch sends zeros through the
nodes above, and may find a saved value changed on the way; here those nodes do not run. And torch sometimes takes a stale view for a leaf.
In both cases torch raises and Rushlight gives the right numbers; the other way round is a failure.
"""
import random
import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

SHAPE_ERRORS = ("output with shape", "number of sizes", "The size of tensor", "expanded size")


class Program:
    """One seed, one library: the same decisions in both, as long as the same steps succeed."""

    def __init__(self, library, seed):
        self.m, self.random, self.log = library, random.Random(seed), []
        m = library
        self.x = m.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        self.w = m.tensor([0.5, -1.0, 2.0], requires_grad=True)
        self.c = m.tensor([[1.0, -2.0, 0.5], [2.0, 1.0, 3.0]])
        self.pool = [self.x * 1, self.c.clone(), self.w * 2]

    def pick(self):
        return self.pool[self.random.randrange(len(self.pool))]

    def views(self):
        return [
            lambda t: t[self.random.randrange(t.shape[0])], lambda t: t[1:] if t.shape[0] > 1 else t[:1], lambda t: t.unsqueeze(0),
            lambda t: t.t() if t.dim() == 2 else t.view(-1), lambda t: t.reshape(-1), lambda t: t.detach(), lambda t: t[..., ::2],
            lambda t: t.expand_as(t), lambda t: t.diagonal() if t.dim() == 2 else t[:1], lambda t: t.unbind()[0],
        ]

    def writes(self):
        return [
            lambda t: t.mul_(2.0), lambda t: t.add_(self.random.choice([self.c, self.w])), lambda t: t.mul_(self.pick()),
            lambda t: t.copy_(self.pick()), lambda t: t.exp_(), lambda t: t.zero_(), lambda t: t.sub_(self.w), lambda t: t.sigmoid_(),
        ]

    def functions(self):
        return [
            lambda t: t * self.pick(), lambda t: t + self.w, lambda t: t.exp(), lambda t: t * t, lambda t: t.tanh(), lambda t: t.clone(),
            lambda t: t.sum(0) if t.dim() else t * 1,
        ]

    def step(self):
        kind, t = self.random.random(), self.pick()
        if kind < 0.35:
            return t * 1 if t.dim() == 0 else self.random.choice(self.views())(t)
        if kind < 0.65:
            write = self.random.choice(self.writes())
            if self.random.random() < 0.15:
                with self.m.no_grad():
                    return write(t)
            return write(t)
        r = self.random.choice(self.functions())(t)
        return r.sum() if r.numel() > 200 else r

    def run(self):
        for _ in range(self.random.randrange(4, 12)):
            try:
                r = self.step()
            except (RuntimeError, IndexError) as error:
                self.log.append(("error", "shape" if any(s in str(error) for s in SHAPE_ERRORS) else str(error)[:20]))
                continue
            self.pool.append(r)
            self.log.append((tuple(r.shape), r.requires_grad, r.is_leaf, r._is_view(), r._version))
        self.log += [np.array(t.detach().tolist()) for t in self.pool]
        try:
            self.differentiate()
        except RuntimeError as error:
            self.log.append(("error", str(error)[:20]))
        return self.log

    def differentiate(self):
        total = sum((t.sum() for t in self.pool if t.requires_grad), self.m.zeros(()))
        if not total.requires_grad:
            return
        if self.random.random() < 0.4:
            first = self.m.autograd.grad(total, [self.x, self.w], create_graph=True, allow_unused=True)
            self.log += [self.numbers(g, leaf) for g, leaf in zip(first, (self.x, self.w))]
            total = sum(((g * g).sum() for g in first if g is not None and g.requires_grad), self.m.zeros(()))
        if total.requires_grad:
            total.backward()
        self.log += [self.numbers(leaf.grad, leaf) for leaf in (self.x, self.w)]

    @staticmethod
    def numbers(gradient, leaf):
        return np.zeros(tuple(leaf.shape)) if gradient is None else np.array(gradient.detach().tolist())


def same(a, b):
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True)
    return type(a) is type(b) and a == b


def is_error(entry):
    return isinstance(entry, tuple) and entry[0] == "error"


@pytest.mark.parametrize("block", range(10))
def test_programs(block):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(block * 40, block * 40 + 40):
            theirs, ours = Program(torch, seed).run(), Program(rl, seed).run()
            for i, (a, b) in enumerate(zip(theirs, ours)):
                if same(a, b) or (is_error(a) and is_error(b)):
                    continue
                assert is_error(a), f"seed {seed}, entry {i}: torch {a}, rushlight {b}"
                break                      # torch refused, Rushlight did not: from here on the programs differ
