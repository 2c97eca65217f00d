"""What a hostile pickle could do without calling anything that is not allowed, and how it is stopped.

The restricted unpickler hands out only names it knows. Two things are left. A pickle numbers the objects it will use again, and the unpickler makes a
table as long as the largest number: thirty bytes can ask for 64 GB (`check_memo`). And BUILD sets attributes of whatever lies on the stack, so
a class that a file may name could be changed for the whole process (`Unchanged`).
"""
from __future__ import annotations

import pickle
import types

# By opcode: the bytes of its argument; or how many bytes hold its length; or how many lines it is.
_FIXED = {b"K": 1, b"M": 2, b"J": 4, b"G": 8, b"h": 1, b"j": 4, b"q": 1, b"r": 4, b"\x80": 1, b"\x82": 1, b"\x83": 2, b"\x84": 4, b"\x95": 8}
_COUNTED = {b"U": 1, b"C": 1, b"\x8c": 1, b"\x8a": 1, b"T": 4, b"X": 4, b"B": 4, b"\x8b": 4, b"\x8d": 8, b"\x8e": 8, b"\x96": 8}
_LINES = {b"I": 1, b"L": 1, b"F": 1, b"S": 1, b"V": 1, b"g": 1, b"p": 1, b"P": 1, b"c": 2, b"i": 2}
_STEP = [1] * 256                                 # how far it is to the next opcode; below 1: see the tables above
for _code, _size in _FIXED.items(): _STEP[_code[0]] = 1 + _size
for _code, _size in _COUNTED.items(): _STEP[_code[0]] = -_size
for _code in _LINES: _STEP[_code[0]] = 0
_PUT, _LONG_PUT, _STOP = ord("p"), ord("r"), ord(".")


def check_memo(program: bytes) -> bool:
    """Raise UnpicklingError when the pickle at the beginning of `program` numbers an object higher than it could have objects. False: it does not end here."""
    at, size, step_of = 0, len(program), _STEP
    while at < size:
        code = program[at]
        step = step_of[code]
        if step > 0:
            if code == _STOP: return True
            if code == _LONG_PUT: _check_number(int.from_bytes(program[at + 1:at + 5], "little"), size)
            at += step
        elif step < 0:
            at += 1 - step + int.from_bytes(program[at + 1:at + 1 - step], "little")
        else:
            end = at
            for _ in range(_LINES[program[at:at + 1]]):
                end = program.find(b"\n", end + 1)
                if end < 0: return False
            if code == _PUT:
                try: number = int(program[at + 1:end])
                except ValueError: return True               # the unpickler will say so
                _check_number(number, size)
            at = end + 1
    return False


def _check_number(number: int, size: int) -> None:
    if number > size: raise pickle.UnpicklingError(f"the pickle of {size} bytes numbers an object {number}: the file is damaged, or meant to exhaust memory")


def check_memo_of(file) -> None:
    """The same for the next pickle of an open file; its position stays."""
    start, length = file.tell(), 1 << 16
    while True:
        program = file.read(length)
        file.seek(start)
        if check_memo(program) or len(program) < length: return
        length *= 4


class Unchanged:
    """The classes and functions a file names are the same after it was read; where not, they are restored and it is an error."""

    def __init__(self) -> None: self.before: dict = {}

    def watch(self, named):
        """`named`, and how it is now."""
        if isinstance(named, (type, types.FunctionType)): self.before.setdefault(named, _attributes(named))
        return named

    def __enter__(self): return self

    def __exit__(self, *_):
        changed = None
        for named, before in self.before.items():
            now = _attributes(named)
            for name in now.keys() | before.keys():
                if name in before and name in now and now[name] is before[name]: continue
                changed = named
                if name in before: setattr(named, name, before[name])
                else: delattr(named, name)
        if changed is not None: raise pickle.UnpicklingError(f"the file tried to set attributes of {changed.__name__}")


def _attributes(named) -> dict:
    """What BUILD could set."""
    found = {name: value for name, value in vars(named).items() if name not in ("__dict__", "__weakref__", "__abstractmethods__", "_abc_impl")}
    if isinstance(named, types.FunctionType): found.update((name, getattr(named, name)) for name in ("__code__", "__defaults__", "__kwdefaults__", "__name__", "__qualname__"))
    return found
