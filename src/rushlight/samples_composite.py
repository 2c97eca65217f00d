"""Samples (see samples.py) of attention, of sums of products of several tensors, and of the losses that take more than a pair."""
from __future__ import annotations

import math

from .samples import Maker, Sample, _draw


def attending() -> Maker:
    """Queries, keys and values, with each kind of mask, shared heads and a scale; some of several blocks of either."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -2, 2)
        mask = rng.integers(0, 2, (5, 7)).astype(bool)
        mask[0] = False                                # a query that sees nothing
        return [Sample(t(4, 8), t(6, 8), t(6, 3)), Sample(t(2, 5, 8), t(2, 7, 8), t(2, 7, 8), mask), Sample(t(2, 3, 5, 4), t(2, 3, 7, 4), t(2, 3, 7, 4), t(2, 1, 5, 7)),
                Sample(t(2, 3, 9, 4), t(2, 3, 9, 4), t(2, 3, 9, 6), is_causal=True), Sample(t(2, 4, 5, 8), t(2, 2, 7, 8), t(2, 2, 7, 8), scale=0.5, enable_gqa=True),
                Sample(t(1, 2, 70, 16), t(1, 2, 150, 16), t(1, 2, 150, 16)), Sample(t(2, 5, 8), t(2, 0, 8), t(2, 0, 8)), Sample(t(3, 1, 40), t(3, 33, 40), t(3, 33, 40)),
                Sample(t(1, 2, 300, 3), t(1, 2, 150, 3), t(1, 2, 150, 3), is_causal=True), Sample(t(1, 60, 4), t(1, 270, 4), t(1, 270, 5), t(60, 270))]
    return make


def margins(kind: str) -> Maker:
    """Arguments of the losses in ops/loss_margin.py, for each reduction. Values keep away from the corners of the margins."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape, low=-2.0, high=2.0: _draw(rng, shape, low, high)
        signs = lambda *shape: np.where(rng.integers(0, 2, shape) > 0, 1.0, -1.0).astype("float32")
        whole = lambda *shape: rng.integers(0, 6, shape).astype("float32")
        labels = np.array([[1, 0, -1, 2], [3, -1, 0, 1], [-1, 0, 1, 2], [0, 1, 2, 3]])
        cases = {
            "signs": lambda: [((t(*s), signs(*s)), {}) for s in ((5,), (3, 4), (2, 3, 40))],
            "choices": lambda: [((t(*s), signs(*s).astype("int64")), {}) for s in ((5,), (3, 4), (2, 3, 40))],
            "ranking": lambda: [((t(*s), t(*s), signs(*s)), {"margin": m}) for s in ((5,), (3, 40)) for m in (0.0, 0.7)],
            "cosine": lambda: [((t(5), t(5), signs().astype("int64")), {}), ((t(3, 40), t(3, 40), signs(3).astype("int64")), {"margin": 0.3})],
            "triplet": lambda: [((t(5), t(5), t(5)), {}), ((t(3, 4), t(3, 4), t(3, 4)), {"p": 1.0, "margin": 4.0}), ((t(3, 40), t(3, 40), t(3, 40)), {"swap": True})],
            "classes": lambda: [((t(3, 4), rng.integers(0, 4, (3,))), {}), ((t(5), rng.integers(0, 5, (1,))), {"p": 2, "margin": 0.5}),
                                ((t(6, 40), rng.integers(0, 40, (6,))), {"weight": t(40, low=0.5)})],
            "label_lists": lambda: [((t(4), labels[0]), {}), ((t(4, 4), labels), {})],
            "labels": lambda: [((t(*s), t(*s, low=0.0, high=1.0)), {"weight": w}) for s in ((5,), (3, 4), (2, 3, 40)) for w in (None, t(s[-1], low=0.5))],
            "counts": lambda: [((t(3, 40, low=0.1), whole(3, 40)), more) for more in ({}, {"full": True}, {"log_input": False})],
            "variances": lambda: [((t(3, 40), t(3, 40), t(*s, low=0.1)), {"full": full}) for s in ((3, 40), (3, 1), (3,)) for full in (False, True)],
        }
        return [Sample(*args, **more, reduction=r) for args, more in cases[kind]() for r in ("mean", "sum", "none")]
    return make


def contractions(kind: str) -> Maker:
    """Operands for the operators in ops/contraction.py."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -1, 1)
        whole = lambda *shape: rng.integers(1, 4, shape)
        cases = {
            "einsum": lambda: [Sample([t(3, 4), t(4, 5)], "ab,bc->ac"), Sample([t(2, 3, 4), t(2, 5, 4)], "abc,adc->adb"), Sample([t(3, 4), t(3, 4)], "ab,ab->a"),
                               Sample([t(3, 4), t(4, 5), t(5, 2)], "ab,bc,cd->da"), Sample([t(3, 1), t(4, 5)], "ab,bc->ac"), Sample([t(3), t(4), t(5)], "a,b,c->cab"),
                               Sample([t(2, 3), t(2, 40)], "ab,ac->"), Sample([t(0, 3), t(3, 2)], "ab,bc->ac")],
            "multi_dot": lambda: [Sample([t(3, 4), t(4, 5)]), Sample([t(3, 4), t(4, 50), t(50, 2)]), Sample([t(4), t(4, 5), t(5)]), Sample([t(2, 9), t(9, 3), t(3, 8), t(8, 1)])],
            "matrix_power": lambda: [Sample(t(3, 3), n) for n in (0, 1, 2, 3, 7)] + [Sample(t(2, 4, 4), 5)],
            "matrix_norm": lambda: [Sample(t(3, 4), o) for o in ("fro", 1, -1, math.inf, -math.inf)] + [Sample(t(2, 3, 40), 1, (0, 2), True), Sample(t(2, 3, 40), "fro", (1, 0))],
            "norm": lambda: [Sample(t(3, 4)), Sample(t(5), 3), Sample(t(3, 4), 1), Sample(t(2, 3, 4), 2.0, 1), Sample(t(2, 3, 4), math.inf, (0, 1), True), Sample(t(3, 4), None, (1,))],
            "vecdot": lambda: [Sample(t(5), t(5)), Sample(t(3, 40), t(3, 40)), Sample(t(3, 4), t(2, 3, 4), dim=-2)],
            "kron": lambda: [Sample(t(2, 3), t(4, 5)), Sample(t(3), t(2, 2)), Sample(t(), t(3)), Sample(t(2, 1, 2), t(1, 3, 20))],
            "block_diag": lambda: [Sample([t(2, 3), t(4), t(3, 1)]), Sample([t(2, 3)]), Sample([t(), t(0, 2), t(2, 40)])],
            "cross": lambda: [Sample(t(3), t(3)), Sample(t(4, 3), t(4, 3), dim=-1), Sample(t(3, 5), t(3, 5), dim=0), Sample(t(2, 3, 40), t(2, 3, 40), dim=1)],
            "vander": lambda: [Sample(t(4)), Sample(t(5), N=3), Sample(np.array([0.5, 0.0, -2.0, 0.0], "float32"), N=4)],
            "cov": lambda: [Sample(t(3, 5)), Sample(t(7)), Sample(t(3, 40), correction=0), Sample(t(3, 5), fweights=whole(5), aweights=_draw(rng, (5,), 0.1, 1))],
            "corrcoef": lambda: [Sample(t(3, 5)), Sample(t(2, 40))],
        }
        return cases[kind]()
    return make


def segments(kind: str) -> Maker:
    """Values and the bounds of stretches of them, some empty."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -2, 2)
        if kind == "segment_reduce":
            lengths, batches = np.array([0, 3, 2, 0, 5]), np.array([[2, 0, 3], [0, 4, 1]])
            cases = [Sample(t(10), r, lengths=lengths, initial=1.5) for r in ("sum", "mean", "max", "min", "prod")]
            return cases + [Sample(t(10, 40), "sum", lengths=lengths), Sample(t(2, 5, 3), "max", lengths=batches, axis=1, initial=0.0),
                            Sample(t(10), "sum", offsets=np.array([0, 2, 2, 9])), Sample(t(5, 3), "prod", offsets=np.array([0, 2, 5]), initial=2.0)]
        rows, offsets = rng.integers(0, 10, (12,)), np.array([0, 3, 3, 9, 12])
        return [Sample(t(10, 4), rows, offsets, m) for m in ("sum", "mean", "max")] + [
            Sample(t(10, 40), rows, offsets, "sum", -1, t(12)), Sample(t(3, 1), np.array([0, 2]), np.array([0, 0, 2]), "mean")]
    return make


def places_and_matrices(kind: str) -> Maker:
    """Rows and columns of nonzeros, some of them twice, with the factors of a product."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -2, 2)
        places = lambda n, size: rng.integers(0, size, (n,))
        if kind == "product":
            return [Sample(places(9, 4), places(9, 6), t(9), t(6, 3), 4), Sample(places(1, 1), places(1, 2), t(1), t(2, 40), 1),
                    Sample(places(0, 1), places(0, 1), t(0), t(3, 2), 5), Sample(places(300, 7), places(300, 50), t(300), t(50, 33), 7)]
        if kind == "terms":
            return [Sample(places(12, 5), places(12, 4), places(12, 7), t(5), t(4), 7), Sample(places(0, 1), places(0, 1), places(0, 1), t(3), t(2), 2)]
        if kind == "extreme":
            return [Sample(places(9, 4), places(9, 6), t(9), t(6, 3), 5, largest) for largest in (True, False)] + [
                Sample(places(0, 1), places(0, 1), t(0), t(3, 2), 5, True), Sample(places(300, 7), places(300, 50), t(300), t(50, 33), 7, False)]
        return [Sample(places(9, 4), places(9, 6), t(4, 5), t(6, 5)), Sample(places(0, 1), places(0, 1), t(4, 5), t(6, 5)),
                Sample(places(30, 3), places(30, 3), t(3, 40), t(3, 40))]
    return make
