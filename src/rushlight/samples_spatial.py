"""Samples for windows and geometry: signals, images and volumes (see samples.py)."""
from __future__ import annotations

from .samples import Maker, Sample


def pooling(kind: str, count: int) -> Maker:
    """Signals, images or volumes with windows: side by side, overlapping, padded, hanging over, one large window; without a batch dimension too."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: np.asarray(rng.permutation(int(np.prod(shape))).reshape(shape) / 8 - 3, dtype="float32")       # no ties: differences know one gradient
        sizes = {1: (11,), 2: (7, 9), 3: (5, 4, 6)}[count]
        out = [Sample(t(2, 3, *sizes), 2), Sample(t(2, 3, *sizes), 3, 2, 1), Sample(t(3, *sizes), 2, 1), Sample(t(0, 3, *sizes), 2)]
        if kind == "avg":
            out += [Sample(t(1, 2, *sizes), 3, 2, 1, True, False), Sample(t(1, 2, *sizes), 3, 2, 1, True)]
            return out + ([Sample(t(1, 2, *sizes), 2, divisor_override=3)] if count > 1 else [])
        out += [Sample(t(1, 2, *sizes), 3, 2, 1, 1, True), Sample(t(1, 2, *sizes), 2, 1, 1, 2)]
        return out + [Sample(t(1, 2, *(40,) * count), 37, 3)] if count == 1 else out + [Sample(t(1, 1, *sizes), 4, 1, 2)]
    return make


_SIZES = {1: (11,), 2: (7, 9), 3: (5, 4, 6)}


def _distinct(rng, *shape):
    """Numbers that all differ, so that a maximum has one place."""
    import numpy as np
    return np.asarray(rng.permutation(int(np.prod(shape))).reshape(shape) / 8 - 3, dtype="float32")


def adaptive(count: int) -> Maker:
    """Results smaller than, as large as, larger than the input, and of one element."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        sizes = _SIZES[count]
        return [Sample(_distinct(rng, 2, 3, *sizes), m) for m in ((1,) * count, (3,) * count, sizes, (13,) * count)] + [Sample(_distinct(rng, 3, *(8,) * count), (4,) * count)]
    return make


def fractional(count: int) -> Maker:
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        u = lambda *lead: rng.random((*lead, count)).astype("float32")
        sizes = _SIZES[count]
        return [Sample(_distinct(rng, 2, 3, *sizes), 2, (3,) * count, u(2, 3)), Sample(_distinct(rng, 3, *sizes), 2, (1,) * count, u(1, 3))]
    return make


def unpooling(count: int) -> Maker:
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        plane = 5 ** count
        places = np.argsort(rng.random((2, 3, plane)), axis=-1)[..., : 2 ** count].reshape(2, 3, *(2,) * count)       # no place twice
        return [Sample(_distinct(rng, 2, 3, *(2,) * count), places, (5,) * count), Sample(_distinct(rng, 3, *(2,) * count), places[0], (5,) * count)]
    return make


def padding(kind: str) -> Maker:
    """Signals and images with something around them, or cropped."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: np.asarray(rng.uniform(-2, 2, shape), dtype="float32")
        if kind == "constant":
            return [Sample(t(5), (1, 2)), Sample(t(3, 4), (1, 0, 2, 1), 2.5), Sample(t(2, 3, 40), (-1, 2)), Sample(t(2, 3), (-1, -1)), Sample(t(0, 3), (1, 1)), Sample(t(3), ())]
        cases = [(t(2, 7), (2, 3)), (t(2, 3, 5, 40), (1, 2, 3, 0)), (t(2, 3, 5, 4), (-1, 2, 1, -2)), (t(1, 2, 3, 4, 5), (2, 1, 1, 2, 2, 2))]
        if kind == "circular":
            return [Sample(x, pad) for x, pad in cases]
        modes = ("reflect", "replicate", "circular") if kind == "remap" else ("reflect", "replicate")
        return [Sample(x, pad, mode) for x, pad in cases for mode in modes]
    return make


def patches(kind: str) -> Maker:
    """Windows of images, and columns to put back."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: np.asarray(rng.uniform(-2, 2, shape), dtype="float32")
        if kind == "unfold":
            return [Sample(t(2, 3, 6, 7), (2, 2)), Sample(t(1, 2, 6, 7), (3, 2), (1, 2), (1, 1), (2, 1)), Sample(t(3, 5, 5), (2, 2), (2, 2))]
        return [Sample(t(2, 12, 30), (6, 7), (2, 2)), Sample(t(1, 12, 21), (6, 7), (3, 2), (1, 2), (1, 1), (2, 1)), Sample(t(12, 9), (5, 5), (2, 2), (2, 2))]
    return make


def shuffles(kind: str) -> Maker:
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: np.asarray(rng.uniform(-2, 2, shape), dtype="float32")
        shapes = {"pixel_shuffle": [(2, 8, 3, 5), (9, 2, 2), (1, 2, 4, 3, 40)], "pixel_unshuffle": [(2, 3, 4, 6), (1, 6, 9), (2, 1, 4, 40)],
                  "channel_shuffle": [(2, 8, 3, 5), (1, 6, 4), (2, 4, 2, 3, 2)]}[kind]
        return [Sample(t(*shape), 3 if shape[0] in (9,) or shape == (1, 6, 9) else 2) for shape in shapes]
    return make


def resampling() -> Maker:
    """Up, down, by uneven factors, with and without a stated scale, in every mode."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: np.asarray(rng.uniform(-2, 2, shape), dtype="float32")
        out = [Sample(t(2, 3, 5), (10,), None, None, None, mode, align) for mode, align in (("nearest", False), ("nearest-exact", False), ("linear", False), ("linear", True))]
        for mode in ("nearest", "nearest-exact", "linear", "cubic"):
            for size in ((8, 12), (3, 4), (9, 7), (1, 5)):
                out += [Sample(t(1, 2, 4, 6), size, None, None, None, mode, align) for align in ((False, True) if mode in ("linear", "cubic") else (False,))]
        out += [Sample(t(1, 2, 8, 6), (3, 9), None, None, None, mode, False) for mode in ("linear-aa", "cubic-aa", "lanczos-aa")]
        out += [Sample(t(1, 2, 4, 6), (6, 10), 1.7, 1.7, None, mode, False) for mode in ("nearest", "linear", "cubic")]
        return out + [Sample(t(1, 2, 3, 4, 2), (6, 3, 4), None, None, None, mode, False) for mode in ("nearest", "linear")] + [Sample(t(1, 2, 1, 1), (3, 3), None, None, None, "linear", False)]
    return make


def grids(count: int) -> Maker:
    """Every mode, padding and alignment; positions inside and beyond, none on a pixel (there the gradient jumps)."""
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        sizes, places = {2: ((5, 6), (3, 4)), 3: ((3, 4, 3), (2, 3, 2))}[count]
        t = lambda *shape: np.asarray(rng.uniform(-2, 2, shape), dtype="float32")
        grid = lambda: np.asarray(rng.uniform(-1.3, 1.3, (2, *places, count)), dtype="float32")
        return [Sample(t(2, 3, *sizes), grid(), mode, pad, align) for mode in ((0, 1, 2) if count == 2 else (0, 1)) for pad in (0, 1, 2) for align in (False, True)]
    return make


def affine() -> Maker:
    def make(seed=0):
        import numpy as np
        rng = np.random.default_rng(seed)
        t = lambda *shape: np.asarray(rng.uniform(-2, 2, shape), dtype="float32")
        return [Sample(t(2, 2, 3), (2, 3, 4, 5), align) for align in (False, True)] + [Sample(t(1, 3, 4), (1, 2, 3, 4, 1), align) for align in (False, True)]
    return make
