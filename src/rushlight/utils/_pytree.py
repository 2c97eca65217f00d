"""Trees of Python containers: take the leaves out in order, put others in their place.

A container type is known by how it gives up its children and how it is built from them; `register_pytree_node` adds one. Everything else is a leaf.
"""
from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

__all__ = ["PyTree", "LeafSpec", "TreeSpec", "register_pytree_node", "tree_flatten", "tree_unflatten", "tree_leaves", "tree_structure", "tree_map",
           "tree_map_", "tree_map_only", "tree_all", "tree_any", "tree_iter", "treespec_dumps"]

PyTree = Any
Context = Any


class NodeDef(NamedTuple):
    type: type
    flatten_fn: Callable
    unflatten_fn: Callable
    flatten_with_keys_fn: Callable | None


class SequenceKey(NamedTuple):
    idx: int
    def get(self, sequence): return sequence[self.idx]
    def __str__(self): return f"[{self.idx!r}]"


class MappingKey(NamedTuple):
    key: Any
    def get(self, mapping): return mapping[self.key]
    def __str__(self): return f"[{self.key!r}]"


class GetAttrKey(NamedTuple):
    name: str
    def get(self, obj): return getattr(obj, self.name)
    def __str__(self): return f".{self.name}"


KeyEntry = Any
KeyPath = tuple
SUPPORTED_NODES: dict[type, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict = {}
BUILTIN_TYPES: set = set()


def register_pytree_node(cls: type, flatten_fn: Callable, unflatten_fn: Callable, *, serialized_type_name: str | None = None,
                         to_dumpable_context=None, from_dumpable_context=None, flatten_with_keys_fn: Callable | None = None) -> None:
    """Make a class a container: `flatten_fn(x) -> (children, context)`, `unflatten_fn(children, context) -> x`."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = _private_register_pytree_node = register_pytree_node


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None) -> None:
    """A dataclass as a container of its fields."""
    import dataclasses
    names = field_names or [f.name for f in dataclasses.fields(cls) if f.init and f.name not in (drop_field_names or ())]
    register_pytree_node(cls, lambda x: ([getattr(x, n) for n in names], None), lambda values, _: cls(**dict(zip(names, values))))


def register_constant(cls) -> None:
    """A class whose instances are part of the structure, not leaves."""
    register_pytree_node(cls, lambda x: ([], x), lambda _, context: context)


def is_namedtuple_class(cls: type) -> bool:
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def is_namedtuple(value) -> bool:
    return is_namedtuple_class(type(value))


_is_namedtuple_instance = is_namedtuple


def _dict_flatten(d): return list(d.values()), list(d.keys())
def _dict_unflatten(values, keys): return dict(zip(keys, values))
def _dict_flatten_with_keys(d): return [(MappingKey(k), v) for k, v in d.items()], list(d.keys())
def _list_flatten(values): return values, None
def _list_unflatten(values, _): return list(values)
def _list_flatten_with_keys(values): return [(SequenceKey(i), v) for i, v in enumerate(values)], None
def _tuple_unflatten(values, _): return tuple(values)
def _namedtuple_flatten(t): return list(t), type(t)
def _namedtuple_unflatten(values, cls): return cls(*values)
def _namedtuple_flatten_with_keys(t): return [(GetAttrKey(n), v) for n, v in zip(t._fields, t)], type(t)


register_pytree_node(tuple, lambda t: (list(t), None), _tuple_unflatten, flatten_with_keys_fn=_list_flatten_with_keys)
register_pytree_node(list, _list_flatten, _list_unflatten, flatten_with_keys_fn=_list_flatten_with_keys)
register_pytree_node(dict, _dict_flatten, _dict_unflatten, flatten_with_keys_fn=_dict_flatten_with_keys)
register_pytree_node(OrderedDict, _dict_flatten, lambda values, keys: OrderedDict(zip(keys, values)), flatten_with_keys_fn=_dict_flatten_with_keys)
register_pytree_node(defaultdict, lambda d: (list(d.values()), (d.default_factory, list(d))),
                     lambda values, context: defaultdict(context[0], zip(context[1], values)),
                     flatten_with_keys_fn=lambda d: (_dict_flatten_with_keys(d)[0], (d.default_factory, list(d))))
register_pytree_node(deque, lambda d: (list(d), d.maxlen), lambda values, maxlen: deque(values, maxlen=maxlen), flatten_with_keys_fn=lambda d: (_list_flatten_with_keys(d)[0], d.maxlen))
register_pytree_node(namedtuple, _namedtuple_flatten, _namedtuple_unflatten, flatten_with_keys_fn=_namedtuple_flatten_with_keys)    # type: ignore[arg-type]
STANDARD_DICT_TYPES = BUILTIN_MAPPING = frozenset({dict, OrderedDict, defaultdict})
BUILTIN_TYPES.update({tuple, list, dict, OrderedDict, defaultdict, deque, namedtuple})


def is_structseq_class(cls: type) -> bool:
    """The results of operators (`torch.return_types.sort`) and of Python's own time.struct_time."""
    return isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "n_sequence_fields", None), int)


def _structseq_unflatten(values, cls): return cls(values)
register_pytree_node(is_structseq_class, _namedtuple_flatten, _structseq_unflatten)    # type: ignore[arg-type]


def _get_node_type(tree) -> Any:
    kind = type(tree)
    if kind not in SUPPORTED_NODES:
        if is_namedtuple_class(kind): return namedtuple
        if is_structseq_class(kind): return is_structseq_class
    return kind


def _is_leaf(tree, is_leaf: Callable | None = None) -> bool:
    return is_leaf is not None and is_leaf(tree) or _get_node_type(tree) not in SUPPORTED_NODES


class TreeSpec:
    """The structure of a tree: its container's type and context, and the structures of its children."""

    __slots__ = ("type", "context", "children_specs", "num_leaves", "num_nodes", "num_children")

    def __init__(self, type: Any, context: Any = None, children_specs: Iterable[TreeSpec] = ()) -> None:
        self.type, self.context, self.children_specs = type, context, list(children_specs)
        self.num_children = len(self.children_specs)
        self.num_leaves = 1 if type is None else sum(c.num_leaves for c in self.children_specs)
        self.num_nodes = 1 + sum(c.num_nodes for c in self.children_specs)

    def is_leaf(self) -> bool: return self.type is None
    def child(self, index: int) -> TreeSpec: return self.children_specs[index]
    def children(self) -> list[TreeSpec]: return list(self.children_specs)

    def __eq__(self, other) -> bool:
        return (isinstance(other, TreeSpec) and self.type == other.type and self.context == other.context
                and self.children_specs == other.children_specs)

    def __hash__(self) -> int: return hash((self.type, self.num_leaves, self.num_nodes))

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"TreeSpec({getattr(self.type, '__name__', self.type)}, {self.context!r}, [{', '.join(map(repr, self.children_specs))}])"

    def unflatten(self, leaves: Iterable) -> PyTree:
        """The tree of this structure with these leaves."""
        leaves = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that holds "
                             f"{self.num_leaves} items ({self}).")
        return self._build(iter(leaves))

    def _build(self, leaves) -> PyTree:
        if self.type is None:
            return next(leaves)
        return SUPPORTED_NODES[self.type].unflatten_fn([child._build(leaves) for child in self.children_specs], self.context)

    def flatten_up_to(self, tree: PyTree) -> list:
        """The subtrees of `tree` that stand where this structure has leaves."""
        if self.type is None:
            return [tree]
        kind = _get_node_type(tree)
        if kind is not self.type and not {kind, self.type} <= STANDARD_DICT_TYPES:
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {kind!r}.")
        if self.type in STANDARD_DICT_TYPES:
            keys = self.context[1] if self.type is defaultdict else self.context
            if set(keys) != set(tree):
                raise ValueError(f"Node keys mismatch; expected {keys}, but got {list(tree)}.")
            children = [tree[k] for k in keys]
        else:
            children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
            if len(children) != self.num_children:
                raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
            if context != self.context:
                raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
        return [leaf for child, spec in zip(children, self.children_specs) for leaf in spec.flatten_up_to(child)]


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None: super().__init__(None)


_LEAF = LeafSpec()


def treespec_leaf(): return _LEAF
def treespec_tuple(specs=()): return TreeSpec(tuple, None, specs)
def treespec_dict(mapping=()): mapping = dict(mapping); return TreeSpec(dict, list(mapping), mapping.values())


def tree_flatten(tree: PyTree, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    """(the leaves in order, the structure)."""
    leaves: list = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree, leaves: list, is_leaf) -> TreeSpec:
    if _is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable, treespec: TreeSpec) -> PyTree:
    """The tree of a structure with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type {type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: Callable | None = None):
    if _is_leaf(tree, is_leaf):
        yield tree
    else:
        for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
            yield from tree_iter(child, is_leaf)


def tree_leaves(tree: PyTree, is_leaf: Callable | None = None) -> list: return list(tree_iter(tree, is_leaf))
def tree_structure(tree: PyTree, is_leaf: Callable | None = None) -> TreeSpec: return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable | None = None) -> PyTree:
    """The same tree with `func` of each leaf (and of the leaves that other trees have in its place)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(*values) for values in zip(leaves, *others)] if others else [func(leaf) for leaf in leaves])


def tree_map_(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable | None = None) -> PyTree:
    """`func` of each leaf for its effect; the tree itself is returned."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _of_type(kinds, func: Callable | None):
    def of_type(kinds):
        return kinds if not isinstance(kinds, type) and callable(kinds) else lambda value: isinstance(value, kinds)
    chosen = of_type(kinds)
    return lambda value: func(value) if chosen(value) else value


def map_only(kinds): return lambda func: _of_type(kinds, func)


def tree_map_only(type_or_types_or_pred, func: Callable, tree: PyTree, is_leaf: Callable | None = None) -> PyTree:
    """tree_map over the leaves of some types, leaving the others."""
    return tree_map(_of_type(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, func: Callable, tree: PyTree, is_leaf: Callable | None = None) -> PyTree:
    return tree_map_(_of_type(type_or_types_or_pred, func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable, tree: PyTree, is_leaf: Callable | None = None) -> bool: return all(map(pred, tree_iter(tree, is_leaf)))
def tree_any(pred: Callable, tree: PyTree, is_leaf: Callable | None = None) -> bool: return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(kinds, pred: Callable, tree: PyTree, is_leaf: Callable | None = None) -> bool:
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, kinds))


def tree_any_only(kinds, pred: Callable, tree: PyTree, is_leaf: Callable | None = None) -> bool:
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, kinds))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: Callable | None = None) -> list | None:
    """The leaves of `tree` spread over `treespec`, where a leaf stands for a whole subtree; None if the structures disagree."""
    if _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.is_leaf() or _get_node_type(tree) != treespec.type:
        return None
    children, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    out: list = []
    for child, spec in zip(children, treespec.children_specs):
        flat = _broadcast_to_and_flatten(child, spec, is_leaf)
        if flat is None:
            return None
        out += flat
    return out


def tree_flatten_with_path(tree: PyTree, is_leaf: Callable | None = None) -> tuple[list, TreeSpec]:
    """([(key path, leaf), …], the structure)."""
    return list(_with_path((), tree, is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: Callable | None = None) -> list: return list(_with_path((), tree, is_leaf))


def _with_path(path: tuple, tree, is_leaf):
    if _is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {type(tree)}. Please pass a flatten_with_keys_fn argument to register_pytree_node.")
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _with_path((*path, key), child, is_leaf)


def tree_map_with_path(func: Callable, tree: PyTree, *rests: PyTree, is_leaf: Callable | None = None) -> PyTree:
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten([func(path, leaf, *more) for (path, leaf), *more in zip(pairs, *others)])


def keystr(path: tuple) -> str: return "".join(str(key) for key in path)


def key_get(obj, path: tuple):
    for key in path:
        obj = key.get(obj)
    return obj


def treespec_dumps(treespec: TreeSpec, protocol=None) -> str:
    """A structure of plain containers as text."""
    import json

    def plain(spec: TreeSpec):
        if spec.is_leaf():
            return "*"
        if spec.type not in (tuple, list, dict, OrderedDict):
            raise NotImplementedError(f"Serializing {spec.type} in pytree is not supported: only plain containers are.")
        return {"type": spec.type.__name__, "context": spec.context, "children": [plain(c) for c in spec.children_specs]}
    return json.dumps([1, plain(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """The structure that `treespec_dumps` wrote."""
    import json
    kinds = {"tuple": tuple, "list": list, "dict": dict, "OrderedDict": OrderedDict}

    def build(value) -> TreeSpec:
        return _LEAF if value == "*" else TreeSpec(kinds[value["type"]], value["context"], [build(c) for c in value["children"]])
    return build(json.loads(serialized)[1])
