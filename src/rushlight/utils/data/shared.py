"""A list and a dictionary whose items live in shared memory as bytes.

A forked worker that reads a Python list writes to it all the same: every look at an object changes its reference count, and the page is copied.
With millions of small objects each worker ends up with a copy of its own. Here the items are pickled once, side by side in one piece of shared
memory, and made anew when they are read.
"""
from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping, Sequence

import rushlight as rl

from .transport import shared_empty


class SharedList(Sequence):
    """An unchangeable list in shared memory: processes read it without copying it."""

    def __init__(self, items: Iterable):
        pieces = [pickle.dumps(item, pickle.HIGHEST_PROTOCOL) for item in items]
        ends, total = [], 0
        for p in pieces:
            total += len(p)
            ends.append(total)
        self._ends = shared_empty((len(ends),), rl.int64)
        self._bytes = shared_empty((max(total, 1),), rl.uint8)
        if ends: self._ends.copy_(rl.tensor(ends))
        view, at = memoryview(self._bytes.numpy()).cast("B"), 0
        for p in pieces:
            view[at:at + len(p)] = p
            at += len(p)

    def __len__(self): return self._ends.shape[0]

    def __getitem__(self, index):
        if isinstance(index, slice): return [self[i] for i in range(*index.indices(len(self)))]
        count = len(self)
        if not -count <= index < count: raise IndexError(f"index {index} is out of range for a SharedList of {count}")
        index %= count
        start = self._ends[index - 1].item() if index else 0
        return pickle.loads(self._bytes[start:self._ends[index].item()].numpy())

    def __repr__(self): return f"SharedList of {len(self)} items, {self._bytes.numel()} bytes"


class SharedDict(Mapping):
    """An unchangeable dictionary whose values are in shared memory; the keys are looked up by a sorted index of their hashes."""

    def __init__(self, items):
        pairs = list(dict(items).items())
        order = sorted(range(len(pairs)), key=lambda i: _digest(pairs[i][0]))
        self._pairs = SharedList(pairs[i] for i in order)
        self._digests = shared_empty((len(pairs),), rl.int64)
        if pairs: self._digests.copy_(rl.tensor([_digest(pairs[i][0]) for i in order]))

    def __len__(self): return len(self._pairs)
    def __iter__(self): return (self._pairs[i][0] for i in range(len(self)))

    def __getitem__(self, key):
        import bisect
        digest, table = _digest(key), self._digests.numpy()
        i = bisect.bisect_left(table, digest)
        while i < len(self) and table[i] == digest:
            found, value = self._pairs[i]
            if found == key: return value
            i += 1
        raise KeyError(key)


def _digest(key) -> int:
    """The same number in every process: Python's hash of text is not."""
    import hashlib
    return int.from_bytes(hashlib.blake2b(pickle.dumps(key, 4), digest_size=8).digest(), "little", signed=True)
