"""Running a graph node by node; derive to do something else at a node."""
from __future__ import annotations

from typing import Any

from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_aggregate, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """`Interpreter(graph_module).run(*args)`. Each kind of node has a method."""

    def __init__(self, module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module, self.graph = module, module.graph if graph is None else graph
        self.submodules = dict(module.named_modules())
        self.env: dict[Node, Any] = {}
        self.garbage_collect_values, self.name = garbage_collect_values, "Interpreter"
        self.extra_traceback = True

    def run(self, *args, initial_env: dict | None = None, enable_io_processing: bool = True):
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        last_use: dict[Node, Node] = {used: node for node in self.graph.nodes for used in node.all_input_nodes}
        for node in self.graph.nodes:
            if node in self.env:
                continue
            self.env[node] = self.run_node(node)
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for used in node.all_input_nodes:
                    if last_use[used] is node:
                        self.env.pop(used, None)
        return None

    def run_node(self, n: Node):
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple: return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args, n: Node):
        def load(node):
            if node not in self.env:
                raise RuntimeError(f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues")
            return self.env[node]
        return map_arg(args, load)

    def placeholder(self, target, args: tuple, kwargs: dict):
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!") from None

    def fetch_attr(self, target: str):
        value = self.module
        for i, part in enumerate(target.split(".")):
            if not hasattr(value, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(target.split('.')[:i + 1])}")
            value = getattr(value, part)
        return value

    def get_attr(self, target, args: tuple, kwargs: dict): return self.fetch_attr(target)
    def call_function(self, target, args: tuple, kwargs: dict): return target(*args, **kwargs)
    def call_method(self, target, args: tuple, kwargs: dict): return getattr(args[0], target)(*args[1:], **kwargs)
    def call_module(self, target, args: tuple, kwargs: dict): return self.fetch_attr(target)(*args, **kwargs)
    def output(self, target, args: tuple, kwargs: dict): return args[0]


class Transformer(Interpreter):
    """Runs a graph on proxies, which makes a new one: override a kind of node to change it."""

    def __init__(self, module) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        from ._symbolic_trace import Tracer

        class Appending(Tracer):
            def is_leaf_module(self, m, name): return True

        self.tracer = Appending()
        self.tracer.graph, self.tracer.root = self.new_graph, module

    def placeholder(self, target, args, kwargs): return Proxy(self.new_graph.placeholder(target, default_value=args[0] if args else ...), self.tracer)
    def get_attr(self, target, args, kwargs): return self.tracer.create_proxy("get_attr", target, args, kwargs)
    def call_module(self, target, args, kwargs): return self.tracer.create_proxy("call_module", target, args, kwargs)
    def call_function(self, target, args, kwargs): return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The new GraphModule."""
        result = super().run()
        if result is not None:
            self.new_graph.output(map_aggregate(result, lambda a: a.node if isinstance(a, Proxy) else a))
        return GraphModule(self.module, self.new_graph)

    def run(self, *args, **kwargs): return super().run(*args, **kwargs)
