"""Samples: the arguments on which an operator is tested, part of its definition.

`samples=unary(-6, 6, near=[0])` makes a function `seed -> [Sample]`. Arrays are numpy's, so the same samples feed this library,
numpy and torch. numpy is imported only when samples are really made.
"""
from __future__ import annotations

import math
from collections.abc import Callable


class Sample:
    """Positional and keyword arguments; numpy arrays stand for tensors."""

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs

    def __repr__(self):
        import numpy as np
        show = lambda v: f"{v.dtype}{list(v.shape)}" if isinstance(v, np.ndarray) else repr(v)
        return "(" + ", ".join([show(a) for a in self.args] + [f"{k}={show(v)}" for k, v in self.kwargs.items()]) + ")"


Maker = Callable[[int], list]
NUMPY = {"f32": "float32", "f64": "float64", "i64": "int64", "i32": "int32", "u8": "uint8", "b1": "bool"}
# Empty, one element, a few, a vector's width and a bit, broadcastable, and enough for a second block of a reduction.
SHAPES = [(), (1,), (0,), (5,), (33,), (3, 4), (2, 1, 7), (2, 3, 40), (70, 3), (5000,)]


def _draw(rng, shape, low, high, dtype="f32"):
    import numpy as np
    if dtype in ("i64", "i32"):
        return rng.integers(math.floor(low), math.ceil(high) + 1, shape).astype(NUMPY[dtype])
    if dtype == "b1":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype == "c64":
        return np.asarray(rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape), dtype="complex64")
    return np.asarray(rng.uniform(low, high, shape), dtype=NUMPY[dtype])


def unary(low: float = -5.0, high: float = 5.0, near=(), dtype: str = "f32", extra=(), plane: bool = False) -> Maker:
    """One tensor in [low, high], of every shape, with the points in `near`; `extra` arguments follow it. `plane`: some complex ones too."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        out = [Sample(_draw(rng, shape, low, high, dtype), *extra) for shape in SHAPES]
        if near and dtype == "f32":
            points = [p + d for p in near for d in (0.0, 1e-6, -1e-6, 1e-3, -1e-3)]
            out.append(Sample(np.array(points, dtype="float32"), *extra))
        if plane:
            out = [Sample(_draw(rng, shape, low, high, "c64"), *extra) for shape in ((), (0,), (5,), (3, 40))] + out
        return out
    return make


def binary(nonzero: bool = False, positive: bool = False, dtype: str = "f32", count: int = 2, condition: bool | str = False) -> Maker:
    """Two (or three) tensors that broadcast together, and a tensor with a number."""
    pairs = [((), ()), ((5,), (5,)), ((3, 4), (4,)), ((3, 1), (1, 4)), ((0, 3), (3,)), ((2, 3, 40), (3, 1)), ((33,), ())]
    low, high = (0.1, 3.0) if positive else (-5.0, 5.0)

    def away(x):
        import numpy as np
        return np.where(np.abs(x) < 1, np.asarray(1, x.dtype), x).astype(x.dtype) if nonzero else x

    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        out = []
        for a, b in pairs:
            x, y = _draw(rng, a, low, high, dtype), away(_draw(rng, b, low, high, dtype))
            if condition == "second":                    # self, mask, one number
                out.append(Sample(x, _draw(rng, b, 0, 1, "b1"), 2.5))
            elif condition:
                out.append(Sample(_draw(rng, b, 0, 1, "b1"), x, y))
            elif count == 3:
                out.append(Sample(_draw(rng, a, low, high, dtype), x, y))
            else:
                out.append(Sample(x, y))
        return out
    return make


def reduction(dim_required: bool = False, keepdim: bool = True, name: str | None = None, high: float = 3.0) -> Maker:
    """One tensor, reduced over nothing named and over each dimension; `name`: the dimension goes by keyword."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        out = []
        for shape in [(5,), (33,), (3, 4), (2, 3, 40), (70, 3), (4, 300), (2, 5000)]:
            x = _draw(rng, shape, -high, high)
            if not dim_required:
                out.append(Sample(x))
            for d in range(-1, len(shape)):
                for more in ({}, {"keepdim": True}) if keepdim else ({},):
                    out.append(Sample(x, **{name: d}, **more) if name else Sample(x, d, **more))
        return out
    return make


def matrices(kind: str) -> Maker:
    """Operands for the product named, including none and one row or column."""
    sizes = [(3, 4, 5), (1, 7, 1), (0, 3, 2), (2, 0, 3), (17, 33, 19), (64, 64, 64), (1, 300, 40), (70, 5, 1)]

    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -1, 1)
        out = []
        for m, k, n in sizes:
            if kind in ("mm", "matmul"): out.append(Sample(t(m, k), t(k, n)))
            if kind == "matmul":
                out += [Sample(t(k), t(k)), Sample(t(m, k), t(k)), Sample(t(k), t(k, n)), Sample(t(2, m, k), t(k, n)),
                        Sample(t(2, 1, m, k), t(3, k, n)), Sample(t(m, k), t(2, k, n))]
            if kind == "bmm": out.append(Sample(t(3, m, k), t(3, k, n)))
            if kind == "mv": out.append(Sample(t(m, k), t(k)))
            if kind == "dot": out.append(Sample(t(k), t(k)))
            if kind == "addmm": out += [Sample(t(m, n), t(m, k), t(k, n)), Sample(t(n), t(m, k), t(k, n), beta=0.5, alpha=2.0)]
            if kind == "addmv": out.append(Sample(t(m), t(m, k), t(k)))
            if kind == "baddbmm": out.append(Sample(t(3, m, n), t(3, m, k), t(3, k, n)))
            if kind == "trace": out.append(Sample(t(m, n)))
            if kind == "inner": out += [Sample(t(m, k), t(n, k)), Sample(t(k), t(k)), Sample(t(2, m, k), t(k)), Sample(t(m, k), t())]
            if kind == "addr": out += [Sample(t(m, n), t(m), t(n)), Sample(t(n), t(m), t(n), beta=0.5, alpha=2.0)]
            if kind == "addbmm": out.append(Sample(t(m, n), t(3, m, k), t(3, k, n), beta=0.5, alpha=2.0))
            if kind == "bilinear": out += [Sample(t(2, m), t(2, k), t(n, m, k)), Sample(t(3, m), t(3, k), t(n, m, k), t(n))]
            if kind == "linear": out += [Sample(t(m, k), t(n, k)), Sample(t(m, k), t(n, k), t(n)), Sample(t(2, m, k), t(n, k), t(n))]
        return out
    return make


def indexing(kind: str) -> Maker:
    """A tensor and indices into it, some repeated. Not where a repeated write keeps the last value: torch's gradient counts every one of them."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -1, 1)
        i = lambda high, *shape, low=0: rng.integers(low, high, shape)

        def unique(dim, high, *shape):
            """Indices without repeats along one dimension."""
            order = np.argsort(rng.random(tuple(high if d == dim else n for d, n in enumerate(shape))), axis=dim)
            return np.ascontiguousarray(np.take(order, range(shape[dim]), axis=dim))
        cases = {
            "gather": lambda: [Sample(t(4, 5), 0, i(4, 3, 5)), Sample(t(4, 5), 1, i(5, 4, 7)), Sample(t(40, 3), 0, i(40, 70, 3))],
            "take_along": lambda: [Sample(t(4, 5), i(4, 3, 5, low=-4), 0), Sample(t(4, 1), i(1, 4, 7), 1), Sample(t(4, 5), i(20, 6))],
            # Written places differ from each other: torch's gradient of several writes to one place counts each of them.
            "scatter": lambda: [Sample(t(4, 5), 0, unique(0, 4, 3, 5), t(3, 5)), Sample(t(4, 70), 1, unique(1, 70, 4, 50), t(4, 50))],
            "scatter_add": lambda: [Sample(t(4, 5), 0, i(4, 3, 5), t(3, 5)), Sample(t(4, 50), 1, i(50, 4, 70), t(4, 70))],
            "index_copy": lambda: [Sample(t(4, 5), 0, unique(0, 4, 3), t(3, 5)), Sample(t(4, 5), 1, unique(0, 5, 3), t(4, 3))],
            "index_select": lambda: [Sample(t(4, 5), 0, i(4, 7)), Sample(t(4, 5), 1, i(5, 3)), Sample(t(9), 0, i(9, 40))],
            "index_add": lambda: [Sample(t(4, 5), 0, i(4, 7), t(7, 5)), Sample(t(4, 5), 1, i(5, 3), t(4, 3))],
            "index_fill": lambda: [Sample(t(4, 5), 0, i(4, 2), 2.5), Sample(t(4, 5), 1, i(5, 3, low=-5), -1)],
            "index": lambda: [Sample(t(4, 5), [i(4, 3)]), Sample(t(4, 5, 6), [i(4, 3), None, i(6, 3)]), Sample(t(4, 5), [None, i(5, 2, 3, low=-5)])],
            "index_put": lambda: [Sample(t(4, 5), [unique(0, 4, 3)], t(3, 5)), Sample(t(4, 5), [i(4, 9), i(5, 9)], t(9), accumulate=True)],
            "take": lambda: [Sample(t(4, 5), i(20, 3, 3, low=-20))],
            "embedding": lambda: [Sample(t(10, 4), i(10, 3, 2)), Sample(t(10, 40), i(10, 50, low=4), 3)],       # the padding row is not drawn: its gradient is 0 by definition
        }
        return cases[kind]()
    return make


def normalisation(kind: str) -> Maker:
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -2, 2)
        out = []
        for rows, n in ((3, 4), (2, 40), (5, 300)):
            if kind == "layer_norm": out += [Sample(t(rows, n), (n,)), Sample(t(2, rows, n), (n,), t(n), t(n)), Sample(t(2, rows, n), (rows, n), t(rows, n))]
            if kind == "rms_norm": out += [Sample(t(rows, n), (n,)), Sample(t(2, rows, n), (n,), t(n), 1e-5)]
            if kind == "native_layer_norm": out += [Sample(t(rows, n), (n,), None, None, 1e-5), Sample(t(2, rows, n), (n,), t(n), t(n), 0.1)]
            if kind == "native_group_norm": out += [Sample(t(rows, 6, n), None, None, rows, 6, n, 2, 1e-5), Sample(t(rows, 6, n), t(6), t(6), rows, 6, n, 3, 0.1)]
            if kind == "local_response_norm": out += [Sample(t(2, 5, n), 3), Sample(t(2, rows, 3, n), 2, 0.5, 0.5, 2.0)]
            if kind == "group_norm": out += [Sample(t(rows, 6, n), 2), Sample(t(rows, 6, n), 3, t(6), t(6))]
        return out
    return make


def channels(kind: str) -> Maker:
    """Tensors whose second dimension is channels, with one number for all or one each; `glu`: an even dimension to halve."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -2, 2)
        if kind == "glu": return [Sample(t(6)), Sample(t(3, 8)), Sample(t(4, 3), 0), Sample(t(2, 6, 5), 1), Sample(t(2, 80), -1)]
        return [Sample(t(5), t(1)), Sample(t(), t(1)), Sample(t(3, 4), t(4)), Sample(t(2, 3, 40), t(3)), Sample(t(2, 3, 4), t(1)), Sample(t(0, 3), t(3))]
    return make


def joining(kind: str) -> Maker:
    """Tensors to join, repeat, turn round, move along or cut to a triangle."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -2, 2)
        cases = {
            "cat": lambda: [Sample([t(3), t(2)]), Sample([t(2, 3), t(4, 3)]), Sample([t(2, 3), t(2, 1), t(2, 40)], -1), Sample([t(0), t(2, 3)]), Sample([t(2, 3)])],
            "stack": lambda: [Sample([t(), t()]), Sample([t(3), t(3)]), Sample([t(2, 3), t(2, 3), t(2, 3)], 1), Sample([t(2, 3), t(2, 3)], -1)],
            "repeat": lambda: [Sample(t(), (2,)), Sample(t(3), (2,)), Sample(t(2, 3), (2, 1, 3)), Sample(t(2, 3), (0, 2)), Sample(t(2, 3), (1, 1))],
            "flip": lambda: [Sample(t(5), (0,)), Sample(t(2, 3, 4), (0, 2)), Sample(t(3, 40), (-1,)), Sample(t(2, 0), (1,))],
            "roll": lambda: [Sample(t(5), 2), Sample(t(2, 3), -1), Sample(t(3, 4), 1, 0), Sample(t(3, 4), (5, -2), (0, 1)), Sample(t(0, 3), 1, 0)],
            "triangle": lambda: [Sample(t(3, 3)), Sample(t(2, 5, 4), 1), Sample(t(4, 40), -2), Sample(t(0, 3)), Sample(t(3, 3), 9)],
        }
        return cases[kind]()
    return make


def arranging(kind: str) -> Maker:
    """For the operators of ops/arrange.py: tensors to turn, tile and lay on diagonals, and parts to put into them."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -2, 2)
        i = lambda high, *shape: rng.integers(0, high, shape)
        scattered = lambda reduce, **more: Sample(t(4, 5), 0, i(4, 6, 5), t(6, 5), reduce, **more)
        cases = {
            "tile": lambda: [Sample(t(), (2,)), Sample(t(3), (2, 2)), Sample(t(2, 3), (3,)), Sample(t(2, 3), (0, 2))],
            "repeat_each": lambda: [Sample(t(3), 2), Sample(t(2, 3), 3, 0), Sample(t(2, 3), 2, 1), Sample(t(2, 3), 0, 1), Sample(t(2, 3), 40)],
            "matrix": lambda: [Sample(t(2, 3)), Sample(t(3, 40)), Sample(t(2, 3, 4)), Sample(t(0, 3))],
            "diag_embed": lambda: [Sample(t(3)), Sample(t(2, 3), 1), Sample(t(2, 3), -1, 0, 2), Sample(t(4, 0)), Sample(t(2, 40))],
            "diag": lambda: [Sample(t(3)), Sample(t(3), -1), Sample(t(3, 4)), Sample(t(4, 3), 1), Sample(t(40, 50), -2), Sample(t(2, 2), 5)],
            "diagflat": lambda: [Sample(t(3)), Sample(t(2, 3), 1), Sample(t())],
            "select_scatter": lambda: [Sample(t(3, 4), t(4), 0, 1), Sample(t(3, 4), t(3), 1, -1), Sample(t(3), t(), 0, 2)],
            "slice_scatter": lambda: [Sample(t(6, 4), t(2, 4), 0, 1, 3), Sample(t(6, 4), t(6, 2), 1, 0, 4, 2), Sample(t(6), t(6)), Sample(t(6), t(2), 0, -2)],
            "diagonal_scatter": lambda: [Sample(t(3, 3), t(3)), Sample(t(3, 5), t(3), 1), Sample(t(2, 3, 4), t(3, 2), 0, 0, 2), Sample(t(3, 3), t(2), -1)],
            "masked_scatter": lambda: [Sample(t(3, 4), t(3, 4) > 0, t(12)), Sample(t(3, 4), t(4) > 0, t(3, 4)), Sample(t(), np.array(True), t(3))],
            "scatter_reduce": lambda: [scattered(r) for r in ("sum", "prod", "mean", "amax", "amin")] + [scattered("sum", include_self=False), scattered(
                "amax", include_self=False), scattered("mean", include_self=False)],
        }
        return cases[kind]()
    return make


def convolving(dims: int, transposed: bool = False, general: bool = False, time_first: bool = False) -> Maker:
    """Signals, images or volumes and filters: strides, paddings, dilations, groups, without a batch, one channel each, no batch entries."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -1, 1)
        image = lambda n, c, size: t(*((n, c) if n is not None else (c,)), *((size,) * dims))
        weight = lambda f, c, taps: t(*((c, f) if transposed else (f, c)), *((taps,) * dims))
        if time_first: return [Sample(t(6, 2, 3), t(3, 3, 4), t(4)), Sample(t(9, 1, 2), t(2, 2, 17), t(17), 1)]
        if general:
            numbers = ((2, 1), (1, 0), (1, 2))
            return [Sample(t(2, 3, 6, 7), t(4, 3, 3, 2), t(4), *numbers, False, (0, 0), 1), Sample(t(2, 4, 5, 4), t(4, 3, 2, 3), None, *numbers, True, (1, 1), 2)]
        big, small = (40, 9) if dims == 1 else (19, 6) if dims == 2 else (8, 5)
        out = [Sample(image(2, 3, small), weight(4, 3, 3), t(4)), Sample(image(1, 1, small), weight(1, 1, 1)), Sample(image(None, 4, big), weight(7, 4, 3), padding=1),
               Sample(image(2, 5, big), weight(18, 5, 3), t(18), stride=2, padding=2), Sample(image(2, 3, big), weight(5, 3, 2), dilation=2),
               Sample(image(1, 6, small), weight(1, 1 if not transposed else 6, 3) if transposed else weight(6, 1, 3), groups=6 if not transposed else 1),
               Sample(image(2, 4, small), weight(3, 4, 3) if transposed else weight(6, 2, 3), groups=2), Sample(image(0, 3, small), weight(4, 3, 3)),
               Sample(image(2, 2, big), weight(3, 2, 3), stride=3, padding=1, dilation=2)]
        if transposed: out.append(Sample(image(2, 3, small), weight(4, 3, 3), stride=2, output_padding=1))
        else: out += [Sample(image(2, 3, small), weight(4, 3, 2), t(4), padding="same"), Sample(image(2, 3, small), weight(4, 3, 3), padding="valid")]
        return out
    return make


def losses(kind: str) -> Maker:
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape, low=-2.0, high=2.0: _draw(rng, shape, low, high)
        out = []
        for reduction_ in ("mean", "sum", "none"):
            for shape in ((5,), (3, 4), (2, 3, 40)):
                if kind == "pair": out.append(Sample(t(*shape), t(*shape, low=0.05, high=0.95), reduction=reduction_))
                if kind == "probability": out.append(Sample(t(*shape, low=0.05, high=0.95), t(*shape, low=0.0, high=1.0), reduction=reduction_))
                if kind == "classes" and len(shape) > 1:
                    target = rng.integers(0, shape[1], (shape[0],) + shape[2:])
                    out.append(Sample(t(*shape), target, reduction=reduction_))
                    out.append(Sample(t(*shape), np.where(target == 1, -100, target), t(shape[1], low=0.5, high=2.0), reduction=reduction_))
        return out
    return make


def linear_algebra(kind: str) -> Maker:
    """Matrices for the operators of linear algebra, alone and in batches, also empty ones: well conditioned, singular values apart."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -1, 1)

        def apart(*shape):
            """Random matrices whose singular values are 1, 1.5, 2, ..."""
            if 0 in shape: return t(*shape)
            u, _, v = np.linalg.svd(rng.standard_normal(shape), full_matrices=False)
            return ((u * (1 + 0.5 * np.arange(u.shape[-1]))) @ v).astype("float32")

        def positive(*shape):
            a = apart(*shape)
            return (a @ np.swapaxes(a, -1, -2)).astype("float32")
        triangle = lambda *shape: (np.tril(t(*shape)) + 2 * np.eye(shape[-1])).astype("float32")
        squares = [(1, 1), (3, 3), (2, 4, 4), (2, 1, 5, 5), (17, 17), (0, 0), (0, 3, 3)]
        tall = [(4, 3), (2, 6, 2), (20, 9), (3, 0)]
        wide = [(3, 4), (2, 2, 6), (9, 20), (0, 3)]

        def reflectors():
            out = []
            for shape in [*squares[:5], *tall[:3]]:
                k = shape[-1]
                packed = t(*shape)
                v = np.tril(packed, -1)[..., :k] + np.eye(shape[-2], k)
                out.append((packed, (2 / np.sum(v * v, axis=-2)).astype("float32")))
            return out

        def factored(shape):
            """What LAPACK makes of random matrices: packed factors and pivots in any order."""
            n = shape[-1]
            return (t(*shape) + 3 * np.eye(n)).astype("float32"), rng.integers(np.arange(1, n + 1), n + 1, size=(*shape[:-2], n)).astype("int32")
        cases = {
            "square": lambda: [Sample(apart(*s)) for s in squares],
            "rectangular": lambda: [Sample(apart(*s)) for s in [*squares, *tall, *wide]],
            "positive": lambda: [Sample(positive(*s)) for s in squares],
            "factor": lambda: [Sample(triangle(*s)) for s in squares],
            "solve": lambda: [Sample(apart(*s), t(*s[:-1], 2)) for s in squares] + [Sample(apart(3, 3), t(3)), Sample(apart(2, 3, 3), t(3, 4))],
            "triangular": lambda: [Sample(triangle(*s), t(*s[:-1], 2), upper=False) for s in squares] + [
                Sample(np.ascontiguousarray(triangle(3, 3).T), t(4, 3), upper=True, left=False), Sample(triangle(2, 3, 3), t(3, 2), upper=False, unitriangular=True)],
            "triangular_solve": lambda: [Sample(t(*s[:-1], 2), triangle(*s), False) for s in squares] + [Sample(t(3, 2), triangle(3, 3), False, True)],
            "cholesky_solve": lambda: [Sample(t(*s[:-1], 2), triangle(*s)) for s in squares],
            "reflectors": lambda: [Sample(a, tau) for a, tau in reflectors()],
            "ormqr": lambda: [Sample(a, tau, t(*a.shape[:-1], 3)) for a, tau in reflectors()] + [Sample(a, tau, t(*a.shape[:-2], 2, a.shape[-2]), False, True) for a, tau in reflectors()],
            "lu_unpack": lambda: [Sample(*factored(s)) for s in squares[:5]],
            "lu_solve": lambda: [Sample(*factored(s), t(*s[:-1], 2)) for s in squares[:5]],
            "old_lu_solve": lambda: [Sample(t(*s[:-1], 2), *factored(s)) for s in squares[:5]],
            "ldl_solve": lambda: [Sample(triangle(*s), np.broadcast_to(np.arange(1, s[-1] + 1, dtype="int32"), s[:-1]).copy(), t(*s[:-1], 2)) for s in squares[:5]],
            "lstsq": lambda: [Sample(apart(*s), t(*s[:-1], 2)) for s in [(3, 3), (6, 4), (2, 5, 3)]],
            "tensorinv": lambda: [Sample(apart(6, 6).reshape(2, 3, 6)), Sample(apart(4, 4).reshape(4, 2, 2), 1)],
            "tensorsolve": lambda: [Sample(apart(6, 6).reshape(2, 3, 6), t(2, 3)), Sample(apart(4, 4).reshape(2, 2, 4), t(2, 2))],
            "vectors": lambda: [Sample(t(3)), Sample(t(2, 4)), Sample(t(5), N=3), Sample(t(1))],
            "norms": lambda: [Sample(apart(*s), o) for s in [(3, 3), (2, 4, 3), (3, 5)] for o in ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)],
            "cond": lambda: [Sample(apart(*s), *o) for s in [(3, 3), (2, 4, 4)] for o in ((), ("fro",), ("nuc",), (1,), (2,), (-2,))],
        }
        return cases[kind]()
    return make


def transforms(kind: str, rank: int) -> Maker:
    """Signals of lengths with small and large prime factors, along inner and outer dimensions, cut and filled."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: _draw(rng, shape, -1, 1)
        if kind == "frequencies": return [Sample(5), Sample(8, 0.5), Sample(1)]
        if kind == "stft": return [Sample(t(40), 8, return_complex=False), Sample(t(2, 50), 10, 3, 6, np.abs(t(6)) + 0.5, return_complex=False), Sample(t(30), 6, center=False, normalized=True, return_complex=False)]
        if kind == "istft":
            spectrum = lambda *shape: (t(*shape) + 1j * t(*shape)).astype("complex64")
            return [Sample(spectrum(5, 9), 8), Sample(spectrum(2, 6, 7), 10, 3, 6, np.abs(t(6)) + 0.5), Sample(spectrum(4, 8), 6, length=7)]
        if kind == "shift": return [Sample(t(5)), Sample(t(4, 6)), Sample(t(3, 4, 5), 1), Sample(t(2, 7), (0, 1)), Sample(t(0, 3))]
        if rank == 1:
            out = [Sample(t(n)) for n in ((2, 3, 4, 5, 8, 12, 17, 30, 64, 77, 101, 128, 256) if kind == "inverse" else (1, 2, 3, 4, 5, 8, 12, 17, 30, 64, 77, 101, 128, 256))]
            return out + [Sample(t(3, 20)), Sample(t(20, 5), dim=0), Sample(t(2, 9, 21), dim=1), Sample(t(6), 9), Sample(t(9), 6, norm="ortho"), Sample(t(4, 7), norm="forward")]
        return [Sample(t(4, 6)), Sample(t(2, 5, 8)), Sample(t(6, 7), (4, 9)), Sample(t(3, 4, 5), dim=(0, 2)), Sample(t(9, 20), norm="ortho"), Sample(t(5, 4), norm="forward")]
    return make
