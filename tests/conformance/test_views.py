"""Random chains of view operators on both sides: the same sizes, strides, offsets, values and identities, or the same error."""
import random

import numpy as np
import pytest
import torch

import rushlight as rl


class Chain:
    """Arguments for view operators, mostly valid, from one random stream."""
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.integer, self.chance, self.one_of = self.random.randint, lambda p: self.random.random() < p, self.random.choice

    def dim(self, n):
        if self.chance(0.1): return self.integer(-n - 1, n)
        return self.integer(-n, n - 1) if n else self.one_of([-1, 0])

    def sizes(self, numel):
        out = []
        while numel > 1 and self.chance(0.8):
            out.append(self.one_of([k for k in range(1, numel + 1) if numel % k == 0]))
            numel //= out[-1]
        out.append(numel)
        if self.chance(0.2): out.insert(self.integer(0, len(out)), 1)
        if self.chance(0.3): out[self.integer(0, len(out) - 1)] = -1
        if self.chance(0.05): out[self.integer(0, len(out) - 1)] = self.integer(0, 5)
        return out

    def expanded(self, shape):
        out = [s if s != 1 or self.chance(0.4) else self.integer(0, 3) for s in shape]
        return [self.integer(1, 3) for _ in range(self.one_of([0, 0, 1, 2]))] + [-1 if self.chance(0.2) else s for s in out]

    def permutation(self, n):
        out = self.random.sample(range(n), n)
        return [d - n if self.chance(0.3) else d for d in out]

    def few(self, low, high, most=3): return [self.integer(low, high) for _ in range(self.integer(0, most))]

    def step(self, x):
        """(method, arguments) for a tensor."""
        n, shape, dim, integer = x.dim(), list(x.shape), self.dim, self.integer
        d = dim(n)
        size = shape[d] if n and -n <= d < n else 1
        moved = integer(0, min(n, 2))
        rank = integer(0, 3)
        return self.one_of([
            ("view", (*self.sizes(x.numel()),)), ("reshape", (*self.sizes(x.numel()),)), ("permute", (self.permutation(n),)),
            ("transpose", (d, dim(n))), ("t", ()),
            ("select", (d, integer(-size - 1, size))), ("narrow", (d, integer(-3, 3), integer(-1, 3))), ("expand", (self.expanded(shape),)),
            ("squeeze", ()), ("squeeze", (d,)), ("squeeze", (tuple(dim(n) for _ in range(integer(0, 2))),)), ("unsqueeze", (dim(n + 1),)),
            ("as_strided", ([integer(0, 3) for _ in range(rank)], [integer(0, 3) for _ in range(rank)], integer(-1, 6))),
            ("diagonal", (integer(-4, 4), d, dim(n))),
            ("unfold", (d, integer(-1, 3), integer(0, 3))), ("flatten", (d, dim(n))), ("unflatten", (d, self.sizes(size))),
            ("movedim", ([dim(n) for _ in range(moved)], [dim(n) for _ in range(moved)])), ("movedim", (d, dim(n))),
            ("split", (integer(-1, 3), d)), ("split", (self.few(0, 2), d)), ("chunk", (integer(0, 4), d)), ("unbind", (d,)),
            ("tensor_split", (integer(0, 4), d)), ("tensor_split", (self.few(-3, 5), d)),
            (self.one_of(["hsplit", "vsplit", "dsplit"]), (integer(1, 3),)),
            ("ravel", ()), ("swapaxes", (d, dim(n))), ("adjoint", ()), ("detach", ()), ("contiguous", ())])


def attempt(tensor, name, arguments):
    try:
        result = getattr(tensor, name)(*arguments)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return error
    return list(result) if isinstance(result, tuple) else [result]


def facts(results, source):
    return [(tuple(t.shape), t.stride(), t.storage_offset(), t.is_contiguous(), t._is_view(), t is source, t.tolist()) for t in results]


@pytest.mark.parametrize("seed", range(20))
def test_chains_of_views(seed):
    chain = Chain(seed)
    for _ in range(150):
        shape = [chain.one_of([0, 1, 1, 2, 3, 4, 6]) for _ in range(chain.integer(0, 4))]
        values = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
        theirs, ours = (torch.tensor(values), rl.tensor(values)) if values.size else (torch.empty(shape), rl.empty(shape))
        history = [shape]
        for _ in range(chain.integer(1, 5)):
            name, arguments = chain.step(theirs)
            history.append((name, arguments))
            expected, got = attempt(theirs, name, arguments), attempt(ours, name, arguments)
            if isinstance(expected, Exception):
                assert type(got) is type(expected), (history, expected, got)
                words = str(expected).split("\n")[0].rstrip(".")
                assert str(got).startswith(words[:60]), (history, words, str(got))
                break
            assert not isinstance(got, Exception), (history, got)
            assert facts(got, ours) == facts(expected, theirs), history
            if not expected: break
            which = chain.integer(0, len(expected) - 1)
            theirs, ours = expected[which], got[which]


@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "complex64", "int16"])
@pytest.mark.parametrize("target", ["int8", "float64", "int32", "complex64", "bfloat16"])
def test_view_as_another_dtype(dtype, target):
    for make in (lambda m: m.zeros(4, 8), lambda m: m.zeros(4, 8).t(), lambda m: m.zeros(4, 9)[:, 1:], lambda m: m.zeros(4, 9)[:, ::2],
                 lambda m: m.zeros(3), lambda m: m.zeros(())):
        theirs, ours = (make(m).to(getattr(m, dtype)) for m in (torch, rl))
        if theirs.stride() != ours.stride(): continue
        expected, got = (attempt(t, "view", (getattr(m, target),)) for t, m in ((theirs, torch), (ours, rl)))
        if isinstance(expected, Exception): assert type(got) is type(expected) and str(got).startswith(str(expected)), (expected, got)
        else: assert facts(got, None) == facts(expected, None)


def test_complex_parts():
    values = np.array([[1 + 2j, 3 - 4j], [0 - 1j, 2.5 + 0j]], dtype=np.complex64)
    theirs, ours = torch.tensor(values), rl.tensor(values)
    for make in (lambda m, t: t.real, lambda m, t: t.imag, lambda m, t: t.conj(), lambda m, t: t.conj().conj(), lambda m, t: t.conj().imag,
                 lambda m, t: t.H, lambda m, t: t.mH, lambda m, t: m.view_as_real(t), lambda m, t: m.view_as_complex(m.view_as_real(t)),
                 lambda m, t: t.conj().resolve_conj(), lambda m, t: t.adjoint().imag):
        expected, got = make(torch, theirs), make(rl, ours)
        assert facts([got], ours) == facts([expected], theirs)
        assert (got.is_conj(), got.is_neg()) == (expected.is_conj(), expected.is_neg())
