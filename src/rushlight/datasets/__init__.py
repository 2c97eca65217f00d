"""Bundled data. See DIGITS.md beside this file for its origin and licence."""
from __future__ import annotations

import os

import rushlight as rl
from rushlight.utils.data import Dataset

__all__ = ["Digits", "load_digits"]

_COUNT, _SIDE = 1797, 8


def load_digits():
    """The 1797 handwritten digits: images as uint8 (1797, 8, 8) with values 0 to 16, and their classes as int64 (1797,)."""
    import zlib
    with open(os.path.join(os.path.dirname(__file__), "digits.bin"), "rb") as file:
        raw = bytearray(zlib.decompress(file.read()))
    pixels = _COUNT * _SIDE * _SIDE
    values = rl.frombuffer(raw, dtype=rl.uint8)
    return values[:pixels].reshape(_COUNT, _SIDE, _SIDE), values[pixels:].to(rl.int64)


class Digits(Dataset):
    """The handwritten digits as a dataset of (image in [0, 1], class), one of two fixed parts: 1437 for training, 360 for testing."""

    def __init__(self, train: bool = True, transform=None) -> None:
        images, classes = load_digits()
        order = rl.randperm(_COUNT, generator=rl.Generator().manual_seed(0))
        chosen = order[:1437] if train else order[1437:]
        self.images = images[chosen].to(rl.float32) / 16
        self.classes = classes[chosen]
        self.transform = transform

    def __getitem__(self, index):
        image = self.images[index]
        return (image if self.transform is None else self.transform(image)), self.classes[index]

    def __len__(self) -> int:
        return len(self.classes)
