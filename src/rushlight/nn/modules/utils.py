"""One number for every dimension, or one for each."""
from __future__ import annotations

import collections
from itertools import repeat

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse"):
    def parse(value):
        return tuple(value) if isinstance(value, collections.abc.Iterable) else tuple(repeat(value, n))
    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n, name) for n, name in ((1, "_single"), (2, "_pair"), (3, "_triple"), (4, "_quadruple")))


def _reverse_repeat_tuple(t, n: int) -> tuple:
    """(a, b) -> (b, b, a, a): how `pad` wants what a convolution calls padding."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults: list[int]) -> list[int]:
    """Sizes, with the default where None stands."""
    if isinstance(out_size, int):
        return [out_size]
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size):])]


def consume_prefix_in_state_dict_if_present(state_dict: dict, prefix: str) -> None:
    """Take a prefix (`module.`, from a wrapper) off every key, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix):]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in list(metadata or ()):
        if key and (key == prefix.replace(".", "") or key.startswith(prefix)):
            metadata[key[len(prefix):]] = metadata.pop(key)


def factory_kwargs(kwargs: dict | None) -> dict:
    """The `device`, `dtype` and `memory_format` among the keyword arguments of a module, also those that it was given as `factory_kwargs`."""
    if kwargs is None:
        return {}
    simple = ("device", "dtype", "memory_format")
    unknown = kwargs.keys() - {*simple, "factory_kwargs"}
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    out = dict(kwargs.get("factory_kwargs", {}))
    for name in simple:
        if name in kwargs:
            if name in out:
                raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
            out[name] = kwargs[name]
    return out
