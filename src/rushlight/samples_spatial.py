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
