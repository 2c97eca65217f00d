"""A module's forward with other tensors in place of its parameters and buffers."""
from __future__ import annotations

import contextlib

from rushlight import Tensor

__all__ = ["functional_call"]


def _owner(module, name: str):
    """(the submodule that holds a dotted name, the name there)."""
    *path, last = name.split(".")
    for part in path:
        module = getattr(module, part)
    return module, last


def _tied_groups(module) -> list[set[str]]:
    """Names that stand for one tensor."""
    groups: dict[int, set[str]] = {}
    for pairs in (module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
        for name, tensor in pairs:
            groups.setdefault(id(tensor), set()).add(name)
    return [names for names in groups.values() if len(names) > 1]


@contextlib.contextmanager
def _reparametrize_module(module, given: dict[str, Tensor], tie_weights: bool = False, strict: bool = False, stack_weights: bool = False):
    """Inside the block the named tensors are the given ones; afterwards they are what they were (and a buffer that the call replaced stays replaced in `given`)."""
    given_names = dict(given)
    if tie_weights:
        for names in _tied_groups(module):
            present = [name for name in names if name in given]
            if len({id(given[name]) for name in present}) > 1:
                raise ValueError(f"functional_call got multiple values for keys {sorted(present)}, which are tied. Consider using tie_weights=False")
            if present:
                for name in names:
                    given_names[name] = given[present[0]]
    if strict:
        known = {name for name, _ in (*module.named_parameters(remove_duplicate=False), *module.named_buffers(remove_duplicate=False))}
        missing, unexpected = sorted(known - set(given_names)), sorted(set(given_names) - known)
        if missing or unexpected:
            parts = ([f"Unexpected key(s): {', '.join(unexpected)}."] if unexpected else []) + ([f"Missing key(s): {', '.join(missing)}."] if missing else [])
            raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(parts))
    undo = []
    try:
        for name, tensor in given_names.items():
            try:
                holder, last = _owner(module, name)
            except AttributeError:
                continue                                # a name of no part: ignored unless strict
            for table in (holder._parameters, holder._buffers):
                if last in table:
                    undo.append((table, last, table[last], name))
                    table[last] = tensor
                    break
            else:
                if strict:
                    raise AttributeError(f"{module._get_name()} has no parameter or buffer '{name}'")
        yield
    finally:
        for table, last, before, name in reversed(undo):
            if name in given:
                given[name] = table[last]               # what the call put there: a buffer's new value
            table[last] = before


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights: bool = True, strict: bool = False):
    """The result of `module(*args, **kwargs)` with its parameters and buffers replaced by those given by name (a dictionary, or several)."""
    if isinstance(parameter_and_buffer_dicts, (list, tuple)):
        if not all(isinstance(d, dict) for d in parameter_and_buffer_dicts):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        names = [name for d in parameter_and_buffer_dicts for name in d]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        given = {name: tensor for d in parameter_and_buffer_dicts for name, tensor in d.items()}
    elif isinstance(parameter_and_buffer_dicts, dict):
        given = parameter_and_buffer_dicts
    else:
        raise ValueError(f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(parameter_and_buffer_dicts)}")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, given, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))
