"""torch.fx: a function's calls as a graph that can be read, changed and turned back into Python.

`symbolic_trace` runs a module or function on proxies, which write down what is done to them; a GraphModule's forward is Python generated from its graph.
"""
from ._symbolic_trace import Tracer, symbolic_trace, wrap
from .graph import CodeGen, Graph
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = ["symbolic_trace", "Tracer", "wrap", "Graph", "GraphModule", "Interpreter", "Transformer", "Node", "Proxy", "replace_pattern", "has_side_effect",
           "map_arg", "CodeGen"]


def __getattr__(name: str):
    import importlib
    if name in ("proxy", "node", "graph", "graph_module", "interpreter", "subgraph_rewriter", "immutable_collections", "experimental", "passes"):
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'torch.fx' has no attribute '{name}'")
