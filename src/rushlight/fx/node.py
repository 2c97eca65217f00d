"""One step of a graph."""
from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any

from .immutable_collections import immutable_dict, immutable_list

__all__ = ["Node", "map_arg", "map_aggregate", "has_side_effect"]

Argument = Any
Target = Any
base_types = (str, int, float, bool, complex, type(None))
_side_effects: set = {builtins.print}


def has_side_effect(function):
    """Mark a function whose call must stay even if nobody uses its result."""
    _side_effects.add(function)
    return function


def map_aggregate(a: Argument, fn: Callable) -> Argument:
    """`fn` of everything inside nested tuples, lists, dictionaries and slices."""
    if isinstance(a, tuple):
        parts = [map_aggregate(x, fn) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list(map_aggregate(x, fn) for x in a)
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Argument, fn: Callable) -> Argument:
    """`fn` of every Node inside arguments."""
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _qualified_name(function: Callable) -> str:
    """How generated code names a function."""
    if getattr(builtins, getattr(function, "__name__", ""), None) is function:
        return function.__name__
    name = getattr(function, "__name__", str(function))
    module = getattr(function, "__module__", None) or ""
    module = {"_operator": "operator", "": "torch"}.get(module, module)
    if module == "rushlight" or module.startswith("rushlight."):
        import rushlight
        space = getattr(rushlight.nn, "functional", None)
        if getattr(space, name, None) is function and getattr(rushlight, name, None) is not function:
            return f"torch.nn.functional.{name}"
        module = "torch" if getattr(rushlight, name, None) is function else "torch" + module[len("rushlight"):]
    return f"{module}.{name}"


class Node:
    """`op` is placeholder, get_attr, call_function, call_module, call_method or output; `target` what is called; `users` who uses the result."""

    def __init__(self, graph, name: str, op: str, target: Target, args: tuple = (), kwargs: dict | None = None, return_type: Any = None) -> None:
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.meta: dict = {}
        self.users: dict[Node, None] = {}
        self._input_nodes: dict[Node, None] = {}
        self._args: tuple = ()
        self._kwargs: dict = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn = None
        self._update(tuple(args), dict(kwargs or {}))

    # ----------------------------------------------------------------------------------------------------------- arguments
    def _update(self, args: tuple, kwargs: dict) -> None:
        for old in self._input_nodes:
            old.users.pop(self, None)
        self._input_nodes = {}

        def note(node):
            self._input_nodes[node] = None
            node.users[self] = None
            return node
        self._args, self._kwargs = map_arg(args, note), map_arg(kwargs, note)

    args = property(lambda self: self._args, lambda self, value: self._update(tuple(value), self._kwargs))
    kwargs = property(lambda self: self._kwargs, lambda self, value: self._update(self._args, dict(value)))
    @property
    def all_input_nodes(self) -> list[Node]: return list(self._input_nodes)
    def update_arg(self, index: int, value) -> None: self.args = (*self.args[:index], value, *self.args[index + 1:])
    def insert_arg(self, index: int, value) -> None: self.args = (*self.args[:index], value, *self.args[index:])
    def update_kwarg(self, key: str, value) -> None: self.kwargs = {**self.kwargs, key: value}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use another node in place of one of the inputs."""
        swap = lambda n: new_input if n is old_input else n
        self._update(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_all_uses_with(self, replace_with: Node, delete_user_cb=lambda user: True, *, propagate_meta: bool = False) -> list[Node]:
        """Let everyone who uses this node use another; returns who did."""
        if propagate_meta:
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # -------------------------------------------------------------------------------------------------------------- order
    @property
    def next(self) -> Node: return self._next
    @property
    def prev(self) -> Node: return self._prev

    def _unlink(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def prepend(self, x: Node) -> None:
        """Put a node before this one."""
        if x is self:
            return
        x._unlink()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Put a node after this one."""
        self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        order = {node: i for i, node in enumerate(self.graph.nodes)}
        return order[self] < order[other]

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether the call must stay even if nobody uses its result."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _side_effects
        return self.op == "call_method" and isinstance(self.target, str) and self.target.endswith("_") and not self.target.endswith("__")

    # --------------------------------------------------------------------------------------------------------------- text
    def __repr__(self) -> str: return self.name

    def _pretty_print_target(self, target) -> str:
        if isinstance(target, str):
            return target
        name = _qualified_name(target)
        return name if "." in name else f"builtins.{name}"

    def format_node(self, placeholder_names: list | None = None, maybe_return_typename: list | None = None, **options) -> str | None:
        """The line of `print(graph)`."""
        if self.op == "placeholder":
            default = f"(default={self.args[0]})" if self.args else ""
            shown = f"%{self.name} : [num_users={len(self.users)}] = placeholder[target={self.target}]"
            return shown + default
        if self.op == "output":
            return f"return {self.args[0]}"
        args = ", ".join(_reference(a) for a in self.args)
        kwargs = ", ".join(f"{k}: {_reference(v)}" for k, v in self.kwargs.items())
        if self.op == "get_attr":
            return f"%{self.name} : [num_users={len(self.users)}] = get_attr[target={self.target}]"
        return (f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={self._pretty_print_target(self.target)}]"
                f"(args = ({args}{',' if len(self.args) == 1 else ''}), kwargs = {{{kwargs}}})")


def _reference(value) -> str:
    if isinstance(value, Node):
        return f"%{value.name}"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_reference, value)) + ("," if len(value) == 1 else "") + ")"
    if isinstance(value, list):
        return "[" + ", ".join(map(_reference, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_reference(v)}" for k, v in value.items()) + "}"
    return str(value) if not isinstance(value, types.FunctionType) else _qualified_name(value)
