"""Stand-ins for values: whatever is done to a proxy becomes a node."""
from __future__ import annotations

import operator
from typing import Any

from .graph import Graph
from .node import Node, map_aggregate

__all__ = ["TracerBase", "GraphAppendingTracer", "TraceError", "Proxy", "Attribute"]


class TraceError(ValueError):
    """Something that a graph cannot say."""


class Scope:
    def __init__(self, module_path: str = "", module_type: Any = None) -> None: self.module_path, self.module_type = module_path, module_type


class TracerBase:
    """Makes nodes and proxies in `self.graph`."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False

    def create_node(self, kind: str, target, args: tuple, kwargs: dict, name: str | None = None, type_expr: Any = None) -> Node:
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy: return Proxy(node, self)

    def create_proxy(self, kind: str, target, args: tuple, kwargs: dict, name: str | None = None, type_expr: Any = None, proxy_factory_fn=None) -> Proxy:
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def create_arg(self, a: Any) -> Any:
        """A value as it stands in a graph: proxies as their nodes."""
        def one(x):
            if isinstance(x, Proxy):
                return x.node
            if isinstance(x, range):
                return range(*(one(v) for v in (x.start, x.stop, x.step)))
            return x
        return map_aggregate(a, one)

    def to_bool(self, obj: Proxy) -> bool:
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy):
        raise TraceError("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or **kwargs function argument. "
                         "See the torch.fx docs on pytorch.org for a more detailed explanation of what types of control flow can be traced, and check out the "
                         "Proxy docstring for help troubleshooting Proxy iteration errors")

    def keys(self, obj: Proxy): return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Appends to a given graph."""

    def __init__(self, graph: Graph) -> None: self.graph = graph


class Proxy:
    """Stands for the value of a node. Operators, methods, attributes and torch's functions on it become nodes of the graph."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str: return f"Proxy({self.node.name})"

    def __getattr__(self, k: str):
        if k in ("__torch_function__", "tracer", "node", "__array__", "__len__"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args, **kwargs): return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self):
        import dis
        import inspect
        frame = inspect.currentframe().f_back
        # `a, b = proxy` says how many there are: the instruction that unpacks names the number.
        for instruction in dis.get_instructions(frame.f_code):
            if instruction.offset == frame.f_lasti:
                if instruction.opname == "UNPACK_SEQUENCE":
                    return (self[i] for i in range(instruction.argval))
                break
        return self.tracer.iter(self)

    def __bool__(self) -> bool: return self.tracer.to_bool(self)
    def __abs__(self): return self.tracer.create_proxy("call_function", abs, (self,), {})
    def __len__(self): raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call torch.fx.wrap('len') at module scope")
    def keys(self): return self.tracer.keys(self)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        found: list[Proxy] = []
        map_aggregate((args, kwargs), lambda x: found.append(x) if isinstance(x, Proxy) else None)
        tracer = found[0].tracer
        import rushlight
        name = getattr(function, "__name__", None)
        if isinstance(function, rushlight._C.OpMethod) or vars(rushlight.Tensor).get(name) is function:
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy("call_function", function, args, kwargs)


class Attribute(Proxy):
    """`proxy.name`: a method call if it is called, an attribute if it is used."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer, self._node = root, attr, root.tracer, None

    @property
    def node(self) -> Node:
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args, **kwargs): return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _operators() -> None:
    binary = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor".split()
    for name in binary:
        function = getattr(operator, name + "_" if name in ("and", "or") else name)
        setattr(Proxy, f"__{name}__", lambda self, other, f=function: self.tracer.create_proxy("call_function", f, (self, other), {}))
        setattr(Proxy, f"__r{name}__", lambda self, other, f=function: self.tracer.create_proxy("call_function", f, (other, self), {}))
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "getitem"):
        function = getattr(operator, name)
        setattr(Proxy, f"__{name}__", lambda self, other, f=function: self.tracer.create_proxy("call_function", f, (self, other), {}))
    for name in ("neg", "pos", "invert"):
        function = getattr(operator, name)
        setattr(Proxy, f"__{name}__", lambda self, f=function: self.tracer.create_proxy("call_function", f, (self,), {}))
    Proxy.__hash__ = object.__hash__                # type: ignore[method-assign]


_operators()
