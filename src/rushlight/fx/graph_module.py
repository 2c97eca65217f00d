"""A module whose forward is generated from a graph."""
from __future__ import annotations

import copy
import linecache

from ..nn import Module
from .graph import Graph, PythonCode

__all__ = ["GraphModule"]

_count = [0]


def _copy_attribute(source, target, name: str) -> None:
    """`a.b.c` of one module, put in the same place of another."""
    *path, last = name.split(".")
    for part in path:
        source = getattr(source, part)
        below = getattr(target, part, None) if part in getattr(target, "_modules", {}) else None
        if below is None:
            below = Module()
            setattr(target, part, below)
        target = below
    value = getattr(source, last)
    if last in getattr(source, "_buffers", {}):
        target.register_buffer(last, value)
    else:
        setattr(target, last, value)


class GraphModule(Module):
    """`root` gives the submodules and tensors that the graph names; after changing the graph call `recompile`."""

    def __new__(cls, *args, **kwargs):
        # Each has a class of its own, since forward is a method.
        for base in cls.__mro__:
            if base.__qualname__ == "GraphModule":
                break
        return super().__new__(type(cls.__name__, (cls,), {"__module__": cls.__module__}))

    def __init__(self, root, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attribute(root, self, node.target)
        elif isinstance(root, dict):
            for name in sorted((n.target for n in graph.nodes if n.op in ("get_attr", "call_module")), key=lambda n: n.count(".")):
                if name not in root:
                    raise RuntimeError(f"Node referenced target {name} but that target was not provided in `root`!")
                holder = self
                *path, last = name.split(".")
                for part in path:
                    if part not in holder._modules:
                        setattr(holder, part, Module())
                    holder = getattr(holder, part)
                setattr(holder, last, root[name])
        else:
            raise RuntimeError("Unsupported type " + str(root) + " passed for root!")
        self.meta: dict = {}
        self.graph = graph

    @property
    def graph(self) -> Graph: return self.__dict__["_graph"]

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        if g.owning_module is not None and g.owning_module is not self:
            g = copy.deepcopy(g)
        g.owning_module = self
        self.__dict__["_graph"] = g
        self.recompile()

    def recompile(self) -> PythonCode:
        """Generate forward anew."""
        python = self.graph.python_code("self")
        self.__dict__["_code"] = python.src
        _count[0] += 1
        filename = f"<eval_with_key>.{_count[0]}"
        linecache.cache[filename] = (len(python.src), None, python.src.splitlines(keepends=True), filename)      # so that tracebacks show it
        scope = dict(python.globals)
        exec(compile(python.src, filename, "exec"), scope)
        type(self).forward = scope["forward"]
        return python

    @property
    def code(self) -> str:
        """The source of forward."""
        return self.__dict__["_code"]

    def __str__(self) -> str: return super().__str__() + "\n" + self.code + "\n# To see more debug info, please use `graph_module.print_readable()`"

    def print_readable(self, print_output: bool = True, **options) -> str:
        text = f"class {type(self).__name__}(torch.nn.Module):" + self.code.replace("\n", "\n    ")
        if print_output:
            print(text)
        return text

    def add_submodule(self, target: str, m: Module) -> bool:
        """Put a module at a dotted name; False if something else is in the way."""
        holder = self
        *path, last = target.split(".")
        for part in path:
            below = getattr(holder, part, None)
            if below is None:
                below = Module()
                setattr(holder, part, below)
            if not isinstance(below, Module):
                return False
            holder = below
        holder.add_module(last, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        *path, last = target.split(".")
        holder = self
        for part in path:
            if part not in holder._modules:
                return False
            holder = holder._modules[part]
        return holder._modules.pop(last, None) is not None

    def delete_all_unused_submodules(self) -> None:
        used = set()
        for node in self.graph.nodes:
            if node.op in ("call_module", "get_attr"):
                parts = node.target.split(".")
                used.update(".".join(parts[:i + 1]) for i in range(len(parts)))
                if node.op == "call_module":
                    used.update(f"{node.target}.{name}" for name, _ in self.get_submodule(node.target).named_modules() if name)
        for name in [n for n, _ in self.named_modules() if n and n not in used]:
            self.delete_submodule(name)

    def __deepcopy__(self, memo):
        new = _restored(copy.deepcopy({k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}, memo), copy.deepcopy(self.graph, memo), type(self).__name__)
        memo[id(self)] = new
        return new

    def __copy__(self): return GraphModule(self, self.graph, type(self).__name__)

    def __reduce__(self):
        """Saved as its attributes and its code, which is traced again."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
        return _from_code, (state, self.code, {k: v for k, v in self.graph.python_code("self").globals.items() if k != "torch"}, type(self).__name__)


def _restored(state: dict, graph: Graph, name: str) -> GraphModule:
    new = GraphModule.__new__(GraphModule)
    Module.__init__(new)
    new.__dict__.update(state)
    type(new).__name__ = name
    new.graph = graph
    return new


def _from_code(state: dict, code: str, scope: dict, name: str) -> GraphModule:
    import rushlight

    from ._symbolic_trace import Tracer
    scope = {**scope, "torch": rushlight}
    exec(code, scope)
    module = type("CodeOnlyModule", (Module,), {"forward": scope["forward"]})()
    module.__dict__.update(state)

    class KeepModules(Tracer):
        def is_leaf_module(self, m, module_qualified_name): return True

    return _restored(state, KeepModules().trace(module), name)
