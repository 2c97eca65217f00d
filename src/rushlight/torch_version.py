"""The version that programs compare with: PyTorch's, with Rushlight's own behind it as a local label."""
from __future__ import annotations

__all__ = ["TorchVersion"]


def _release(version: str) -> tuple[int, ...]:
    """The leading numbers of a version: '2.13.0+rushlight.0.1.0' -> (2, 13, 0)."""
    numbers: list[int] = []
    for part in version.removeprefix("v").partition("+")[0].split("."):
        digits = part[:len(part) - len(part.lstrip("0123456789"))]
        if digits:
            numbers.append(int(digits))
        if digits != part:                              # '2.13.0a1': what follows is not part of the release
            break
    if not numbers:
        raise ValueError(f"Invalid version: '{version}'")
    return tuple(numbers)


class TorchVersion(str):
    """A string that compares as a version, with strings ("2.0") and with tuples ((2, 0)). Trailing zeros do not count."""

    __slots__ = ()

    def _pair(self, other):
        if isinstance(other, str):
            theirs = _release(other)
        elif isinstance(other, (tuple, list)):
            theirs = tuple(int(part) for part in other)
        else:
            theirs = _release(str(other))             # packaging's Version and the like
        ours = _release(self)
        width = max(len(ours), len(theirs))
        return ours + (0,) * (width - len(ours)), theirs + (0,) * (width - len(theirs))

    def __lt__(self, other): ours, theirs = self._pair(other); return ours < theirs
    def __le__(self, other): ours, theirs = self._pair(other); return ours <= theirs
    def __gt__(self, other): ours, theirs = self._pair(other); return ours > theirs
    def __ge__(self, other): ours, theirs = self._pair(other); return ours >= theirs
    def __ne__(self, other): return not self == other
    __hash__ = str.__hash__

    def __eq__(self, other):
        if str.__eq__(self, other) is True:
            return True
        try:
            ours, theirs = self._pair(other)
        except ValueError:
            return False
        return ours == theirs
