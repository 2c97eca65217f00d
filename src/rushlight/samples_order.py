"""Samples for the operators that order, select, count and copy (ops/sort.py, ops/count.py, ops/index_more.py): see samples.py."""
from __future__ import annotations

from .samples import Maker, Sample, _draw


def ordering(kind: str) -> Maker:
    """Tensors whose elements all differ, so that which is picked does not depend on rounding; rows on both sides of every threshold of csrc/sort.cpp."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)

        def t(*shape):
            steps = rng.permutation(int(np.prod(shape))).reshape(shape) - int(np.prod(shape)) / 2
            return np.asarray(steps / 8, dtype="float32")
        cases = {
            "sort": lambda: [Sample(t()), Sample(t(5)), Sample(t(0)), Sample(t(3, 4)), Sample(t(3, 4), 0), Sample(t(2, 3, 40), 1, True), Sample(t(2, 100)),
                             Sample(t(2, 900), -1, True), Sample(t(300, 3), 0), Sample(t(4, 5), stable=True), Sample(t(0, 3), 0)],
            "argsort": lambda: [Sample(t(5)), Sample(t(3, 40), 0), Sample(t(2, 300), -1, True), Sample(t(4, 5), stable=True)],
            "msort": lambda: [Sample(t(5)), Sample(t(7, 3)), Sample(t(200, 2))],
            "topk": lambda: [Sample(t(), 1), Sample(t(5), 2), Sample(t(5), 0), Sample(t(3, 40), 7), Sample(t(40, 3), 3, 0), Sample(t(2, 900), 5, -1, False), Sample(t(2, 30), 30),
                             Sample(t(5000), 9), Sample(t(6000), 3000)],
            "kthvalue": lambda: [Sample(t(), 1), Sample(t(5), 2), Sample(t(3, 40), 7, 0 if seed < 0 else 1), Sample(t(40, 3), 3, 0, True), Sample(t(2, 900), 450), Sample(t(5000), 5000)],
            "median": lambda: [Sample(t()), Sample(t(5)), Sample(t(3, 4)), Sample(t(3, 4), 0), Sample(t(2, 40), 1, True), Sample(t(2, 900), 1), Sample(t(5000))],
            "mode": lambda: [Sample(t(5)), Sample(np.floor(t(3, 40) / 2), 1), Sample(np.floor(t(40, 3) / 2), 0, True), Sample(np.floor(t(2, 900) / 20))],
            "quantile": lambda: [Sample(t(5), 0.5), Sample(t(3, 4), np.array([0.1, 0.75], "float32")), Sample(t(3, 40), 0.3, 1, True), Sample(t(40, 3), np.array([0.5, 0.99, 0.02], "float32"), 0),
                                 *[Sample(t(2, 9), 0.37, 1, interpolation=how) for how in ("lower", "higher", "midpoint", "nearest")]],
        }
        return cases[kind]()
    return make


def counting(kind: str) -> Maker:
    """Values to look up, count and compare with sets."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -2, 2)
        i = lambda high, *shape: rng.integers(0, high, shape)
        ascending = lambda *shape: np.sort(t(*shape), -1)
        cases = {
            "searchsorted": lambda: [Sample(ascending(9), t(3, 5)), Sample(ascending(2, 9), t(2, 40), right=True), Sample(ascending(9), t()), Sample(ascending(0), t(3)),
                                     Sample(ascending(3, 2, 17), t(3, 2, 4), out_int32=True), Sample(np.arange(40), i(50, 100), side="right")],
            "bucketize": lambda: [Sample(t(3, 5), ascending(9)), Sample(t(), ascending(4), right=True), Sample(i(9, 40), np.arange(5)), Sample(t(0), ascending(3))],
            "histc": lambda: [Sample(t(50)), Sample(t(3, 40), 7, -1, 1), Sample(t(5), 4, 0, 3), Sample(t(0), 3, 0, 1), Sample(t(5000), 10)],
            "isin": lambda: [Sample(i(9, 40), i(9, 5)), Sample(i(99, 3, 40), i(99, 60)), Sample(i(9, 5), 3), Sample(3, i(9, 5)), Sample(i(9, 7), i(9, 4), invert=True), Sample(t(0), t(3)), Sample(t(3), t(0))],
            "nonzero_static": lambda: [Sample(np.floor(t(3, 4)), size=5), Sample(np.floor(t(30)), size=40, fill_value=-7), Sample(t(), size=2), Sample(t(0), size=2), Sample(np.floor(t(2, 3, 4)), size=0)],
            "bincount": lambda: [Sample(i(9, 40), None, 9), Sample(i(5, 40), t(40), 7), Sample(i(5, 0), None, 3)],
            "unravel": lambda: [Sample(i(24, 5), (2, 3, 4)), Sample(i(7, 2, 3), (7,))],
        }
        return cases[kind]()
    return make


def copying(kind: str) -> Maker:
    """Tensors for the operators that copy what a view would show."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -2, 2)
        i = lambda high, *shape: rng.integers(0, high, shape)
        cases = {
            "alias": lambda: [Sample(t()), Sample(t(3, 4)), Sample(t(0, 3))],
            "expand": lambda: [Sample(t(3, 1), (3, 4)), Sample(t(4), (2, 3, 4)), Sample(t(3, 1), (-1, 5))],
            "diagonal": lambda: [Sample(t(3, 4)), Sample(t(2, 3, 4), 1, 0, 2), Sample(t(4, 3), -1)],
            "narrow": lambda: [Sample(t(5, 3), 0, 1, 3), Sample(t(2, 40), -1, -9, 5)],
            "view": lambda: [Sample(t(6), (2, 3)), Sample(t(2, 3, 4), (6, -1))],
            "permute": lambda: [Sample(t(2, 3, 4), (2, 0, 1)), Sample(t(2, 40), (1, 0))],
            "split_sizes": lambda: [Sample(t(5, 3), (2, 3)), Sample(t(2, 40), (10, 0, 30), 1)],
            "unbind": lambda: [Sample(t(3, 4)), Sample(t(2, 3), -1)],
            "unfold": lambda: [Sample(t(7), 0, 3, 2), Sample(t(2, 40), 1, 5, 5)],
            "squeeze": lambda: [Sample(t(2, 1, 3)), Sample(t(2, 1, 3), 1), Sample(t(1, 2, 1), (0, 1))],
            "unsqueeze": lambda: [Sample(t(2, 3), 1), Sample(t(3), -1)],
            "transpose": lambda: [Sample(t(2, 3, 4), 0, 2), Sample(t(2, 40), -1, 0)],
            "t": lambda: [Sample(t(3)), Sample(t(3, 40))],
            "slice": lambda: [Sample(t(7, 3), 0, 1, 5, 2), Sample(t(2, 40), 1, -5)],
            "chunk": lambda: [Sample(t(7, 3), 3), Sample(t(2, 40), 4, 1)],
            "as_strided": lambda: [Sample(t(12), (2, 3), (3, 1)), Sample(t(3, 4), (2, 2), (4, 2), 1)],
            "as_strided_scatter": lambda: [Sample(t(12), t(2, 3), (2, 3), (3, 1)), Sample(t(3, 4), t(2, 2), (2, 2), (4, 2), 1)],
            "chunk_cat": lambda: [Sample([t(4, 3), t(6, 3)], 0, 2), Sample([t(3, 2), t(5, 2)], 0, 2)],
            "index_reduce": lambda: [Sample(t(4, 5), 0, i(4, 6), t(6, 5), r, include_self=s) for r in ("prod", "mean", "amax", "amin") for s in (True, False)],
            "put": lambda: [Sample(t(4, 5), rng.permutation(20)[:7], t(7)), Sample(t(4, 5), i(20, 30) - 10, t(30), True)],
        }
        return cases[kind]()
    return make
