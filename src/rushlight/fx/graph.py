"""A graph: nodes in order, and the Python it stands for."""
from __future__ import annotations

import builtins
import keyword
import operator
import re
from contextlib import contextmanager
from typing import Any, NamedTuple

from .node import Node, _qualified_name, map_arg

__all__ = ["Graph", "PythonCode", "CodeGen"]

_BINARY = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//", operator.mod: "%", operator.pow: "**",
           operator.matmul: "@", operator.and_: "&", operator.or_: "|", operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>", operator.eq: "==",
           operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">="}
_UNARY = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}
_INPLACE = {operator.iadd: "+=", operator.isub: "-=", operator.imul: "*=", operator.itruediv: "/=", operator.ifloordiv: "//=", operator.imod: "%=",
            operator.ipow: "**=", operator.imatmul: "@=", operator.iand: "&=", operator.ior: "|=", operator.ixor: "^="}


class PythonCode(NamedTuple):
    """The source of forward, and the objects that its names stand for."""
    src: str
    globals: dict[str, Any]


class CodeGen:
    """How a graph becomes Python. Only the plain way exists."""


class _Names:
    """Names of nodes: snake case, each once."""

    def __init__(self) -> None: self._used: dict[str, int] = {}

    def new(self, candidate: str) -> str:
        candidate = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate)
        if not candidate or candidate[0].isdigit():
            candidate = f"_{candidate}"
        match = re.match(r"(.*)_(\d+)$", candidate)
        base, number = (candidate, None) if match is None else (match.group(1), int(match.group(2)))
        name = candidate if number is None else f"{base}_{number}"
        count = number or 0
        if number is None and base in self._used:
            count = self._used[base]
        while name in self._used or keyword.iskeyword(name) or (hasattr(builtins, name) and name not in ("input", "id")):
            count += 1
            name = f"{base}_{count}"
        self._used.setdefault(name, 0)
        self._used[base] = count
        return name


def _snake(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text).lower() if text[:1].isupper() or any(c.isupper() for c in text) else text


class _NodeList:
    def __init__(self, graph: Graph) -> None: self.graph = graph

    def __iter__(self):
        node = self.graph._root._next
        while node is not self.graph._root:
            following = node._next
            if not node._erased:
                yield node
                following = node._next if not node._erased else following
            node = following

    def __reversed__(self): return iter(list(self)[::-1])
    def __len__(self) -> int: return sum(1 for _ in self)


class Graph:
    """Nodes in the order they run. New ones go to the insertion point, the end unless told otherwise (`inserting_before`, `inserting_after`)."""

    def __init__(self, owning_module=None, tracer_cls=None, tracer_extras=None) -> None:
        self._root = Node(self, "", "root", "")
        self._names = _Names()
        self.owning_module, self._tracer_cls = owning_module, tracer_cls
        self._insert = self._root.prepend
        self._codegen = CodeGen()

    @property
    def nodes(self) -> _NodeList: return _NodeList(self)

    # ------------------------------------------------------------------------------------------------------------ making
    def create_node(self, op: str, target, args: tuple | None = None, kwargs: dict | None = None, name: str | None = None, type_expr: Any = None) -> Node:
        if op not in ("call_function", "call_method", "get_attr", "call_module", "placeholder", "output"):
            raise AssertionError(f"op '{op}' is not a valid opcode.")
        node = Node(self, self._names.new(name if name is not None else self._suggested(op, target)), op, target, args or (), kwargs, type_expr)
        self._insert(node)
        return node

    @staticmethod
    def _suggested(op: str, target) -> str:
        name = target if isinstance(target, str) else getattr(target, "__name__", "call")
        if op != "placeholder":
            name = _snake(name.strip("_") if name.startswith("__") else name).replace(".", "_")
        return name.lstrip("*")

    def placeholder(self, name: str, type_expr=None, default_value=...) -> Node:
        return self.create_node("placeholder", name, () if default_value is ... else (default_value,), type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr=None) -> Node: return self.create_node("get_attr", qualified_name, type_expr=type_expr)
    def call_function(self, the_function, args=None, kwargs=None, type_expr=None, name=None) -> Node:
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)
    def call_method(self, method_name: str, args=None, kwargs=None, type_expr=None) -> Node:
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)
    def call_module(self, module_name: str, args=None, kwargs=None, type_expr=None) -> Node:
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)
    def output(self, result, type_expr=None) -> Node: return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform=lambda x: x) -> Node:
        """A node of another graph, here; `arg_transform` says what stands for its inputs."""
        new = self.create_node(node.op, node.target, map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform), node.name, node.type)
        new.meta = dict(node.meta)
        return new

    def graph_copy(self, g: Graph, val_map: dict, return_output_node: bool = False):
        """All of another graph but its output, whose value is returned."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                value = map_arg(node.args[0], lambda n: val_map[n])
                return (value, node) if return_output_node else value
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo=None) -> Graph:
        graph = Graph(tracer_cls=self._tracer_cls)
        value = graph.graph_copy(self, val_map := {}, return_output_node=True)
        if value is not None:
            graph.output(value[0]).meta = dict(value[1].meta)
        if memo is not None:
            memo.update((id(old), new) for old, new in val_map.items())
        return graph

    # ---------------------------------------------------------------------------------------------------------- changing
    @contextmanager
    def _inserting(self, insert):
        before, self._insert = self._insert, insert
        try:
            yield self
        finally:
            self._insert = before

    def inserting_before(self, n: Node | None = None): return self._inserting((n if n is not None else self._root._next).prepend)

    def inserting_after(self, n: Node | None = None):
        place = [n if n is not None else self._root]

        def insert(node: Node) -> None:             # several new nodes keep their order
            place[0].append(node)
            place[0] = node
        return self._inserting(insert)

    def erase_node(self, to_erase: Node) -> None:
        if to_erase.users:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: {to_erase.users}!")
        if to_erase._erased:
            return
        to_erase._unlink()
        to_erase._update((), {})
        to_erase._erased = True

    def eliminate_dead_code(self, is_impure_node=None) -> bool:
        """Take out what nobody uses; whether something was."""
        changed = False
        for node in reversed(self.nodes):
            if not node.users and not (is_impure_node or Node.is_impure)(node):
                self.erase_node(node)
                changed = True
        return changed

    def lint(self) -> None:
        """Raise if a node uses one that does not come before it, or a module has not what the graph names."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in node.all_input_nodes:
                if used not in seen:
                    raise RuntimeError(f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that Nodes in the graph are "
                                       f"topologically ordered\n{self}")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            seen.add(node)

    def find_nodes(self, *, op: str, target=None, sort: bool = True) -> list[Node]:
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node: return next(n for n in reversed(self.nodes) if n.op == "output")
    def set_codegen(self, codegen) -> None: self._codegen = codegen
    def on_generate_code(self, make_transformer): raise NotImplementedError("Graph.on_generate_code is not available")

    # --------------------------------------------------------------------------------------------------------------- code
    def python_code(self, root_module: str, **options) -> PythonCode:
        """`def forward(...)` of this graph; attributes are looked up on `root_module` ("self")."""
        scope: dict[str, Any] = {}
        params, lines = [], []
        last_use: dict[Node, Node] = {}
        for node in self.nodes:
            for used in node.all_input_nodes:
                last_use[used] = node
        done_with: dict[Node, list[Node]] = {}
        for used, user in last_use.items():
            done_with.setdefault(user, []).append(used)

        def name_of(function) -> str:
            text = _qualified_name(function)
            root = text.partition(".")[0]
            if "." not in text:
                return text
            import importlib
            import sys
            if root == "torch":
                import rushlight
                scope["torch"] = rushlight
                found: Any = rushlight
                try:
                    for part in text.split(".")[1:]:
                        found = getattr(found, part)
                except AttributeError:
                    found = None
                if found is function:
                    return text
            elif root in sys.modules:
                try:
                    found = importlib.import_module(root)
                    for part in text.split(".")[1:]:
                        found = getattr(found, part)
                except (AttributeError, ImportError):
                    found = None
                if found is function:
                    scope[root] = sys.modules[root]
                    return text
            plain = re.sub(r"[^0-9a-zA-Z_]", "_", text)      # no import gives this object: hand it over under a name of its own
            while scope.get(plain, function) is not function:
                plain += "_1"
            scope[plain] = function
            return plain

        def value(a) -> str:
            if isinstance(a, Node):
                return a.name
            if isinstance(a, tuple):
                if hasattr(a, "_fields"):
                    return f"{name_of(type(a))}({', '.join(map(value, a))})"
                return "(" + ", ".join(map(value, a)) + ("," if len(a) == 1 else "") + ")"
            if isinstance(a, list):
                return "[" + ", ".join(map(value, a)) + "]"
            if isinstance(a, dict):
                return "{" + ", ".join(f"{k!r}: {value(v)}" for k, v in a.items()) + "}"
            if isinstance(a, slice):
                return f"slice({value(a.start)}, {value(a.stop)}, {value(a.step)})"
            import rushlight
            if isinstance(a, (rushlight.dtype, rushlight.device, rushlight.memory_format, rushlight.layout)):
                scope["torch"] = rushlight
                if isinstance(a, rushlight.device):
                    return f"torch.device({str(a)!r})"
                return str(a)
            if isinstance(a, float) and (a != a or a in (float("inf"), float("-inf"))):
                return f"float({str(a)!r})"
            if callable(a) and not isinstance(a, type(None)):
                return name_of(a)
            return repr(a)

        def attribute(target: str) -> str:
            out = root_module
            for part in target.split("."):
                out = f"{out}.{part}" if part.isidentifier() else f'getattr({out}, "{part}")'
            return out

        def line_of(node: Node) -> str:
            args = [value(a) for a in node.args]
            given = ", ".join([*args, *(f"{k} = {value(v)}" for k, v in node.kwargs.items())])
            target = node.target
            if node.op == "get_attr":
                return f"{node.name} = {attribute(target)}"
            if node.op == "call_module":
                return f"{node.name} = {attribute(target)}({given})"
            if node.op == "call_method":
                rest = ", ".join([*args[1:], *(f"{k} = {value(v)}" for k, v in node.kwargs.items())])
                return f"{node.name} = {args[0]}.{target}({rest})"
            if not node.kwargs and target in _BINARY and len(args) == 2:
                return f"{node.name} = {args[0]} {_BINARY[target]} {args[1]}"
            if not node.kwargs and target in _UNARY and len(args) == 1:
                return f"{node.name} = {_UNARY[target]}{args[0]}"
            if not node.kwargs and target in _INPLACE and len(args) == 2:
                return f"{args[0]} {_INPLACE[target]} {args[1]};  {node.name} = {args[0]}"
            if target is operator.getitem and len(args) == 2 and not node.kwargs:
                return f"{node.name} = {args[0]}[{args[1]}]"
            if target is getattr and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
                return f"{node.name} = {args[0]}.{node.args[1]}"
            return f"{node.name} = {name_of(target)}({given})"

        for node in self.nodes:
            if node.op == "placeholder":
                default = f" = {value(node.args[0])}" if node.args else ""
                params.append(f"{node.target}{default}")
                if node.target.lstrip("*") != node.name:
                    lines.append(f"{node.name} = {node.target.lstrip('*')}")
                continue
            if node.op == "output":
                lines.append(f"return {value(node.args[0])}")
                continue
            line = line_of(node)
            if not node.users:
                line += f";  {node.name} = None"
            dropped = [n.name for n in done_with.get(node, ()) if n.users]
            if dropped:
                line += ";  " + " = ".join(sorted(dropped, key=[n.name for n in node.all_input_nodes if n in done_with[node]].index)) + " = None"
            lines.append(line)
        body = "".join(f"    {line}\n" for line in lines or ["pass"])
        return PythonCode(f"\n\n\ndef forward({', '.join(['self', *params])}):\n{body}    ", scope)

    # --------------------------------------------------------------------------------------------------------------- text
    def __str__(self) -> str:
        params = ", ".join(f"%{n.name}" for n in self.nodes if n.op == "placeholder")
        rows = [n.format_node() for n in self.nodes]
        return "graph():\n    " + "\n    ".join(r for r in rows if r) if params or rows else "graph():"

    def print_tabular(self) -> None:
        """One row a node: what it is, what it is called, what it calls, and on what."""
        rows = [("opcode", "name", "target", "args", "kwargs"), *((n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes)]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        show = lambda row: "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip()
        print("\n".join([show(rows[0]), "  ".join("-" * w for w in widths), *map(show, rows[1:])]))
