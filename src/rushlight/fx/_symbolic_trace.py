"""Tracing: run a module or function on proxies."""
from __future__ import annotations

import inspect
import sys
from typing import Any

from .graph import Graph
from .graph_module import GraphModule
from .node import map_aggregate
from .proxy import Proxy, TracerBase

__all__ = ["Tracer", "symbolic_trace", "wrap", "is_fx_tracing"]

_wrapped: list[tuple[dict, str]] = []
_tracing = [0]


def is_fx_tracing() -> bool: return _tracing[0] > 0


def wrap(fn_or_name):
    """Let calls of a function of this module be one node each instead of being traced into: `wrap("len")`, or as a decorator."""
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe().f_back
    _wrapped.append((frame.f_globals, name))
    return fn_or_name


def _has_proxy(values) -> Proxy | None:
    found: list[Proxy] = []
    map_aggregate(values, lambda x: found.append(x) if isinstance(x, Proxy) else None)
    return found[0] if found else None


def _recorded(function):
    """The function, or a node of it if an argument is a proxy."""
    def call(*args, **kwargs):
        proxy = _has_proxy((args, kwargs))
        return function(*args, **kwargs) if proxy is None else proxy.tracer.create_proxy("call_function", function, args, kwargs)
    call.__name__, call.__wrapped__ = getattr(function, "__name__", "call"), function
    return call


class Tracer(TracerBase):
    """Traces a root module or function into a Graph. Modules of torch.nn are leaves: one node each."""

    def __init__(self, autowrap_modules: tuple = (), autowrap_functions: tuple = (), param_shapes_constant: bool = False) -> None:
        self._autowrap_functions = tuple(autowrap_functions)
        self._paths: dict = {}
        self.module_stack: dict = {}

    def is_leaf_module(self, m, module_qualified_name: str) -> bool:
        import rushlight
        return type(m).__module__.startswith(("rushlight.nn", "torch.nn")) and not isinstance(m, rushlight.nn.Sequential)

    def path_of_module(self, mod) -> str:
        for name, module in self.root.named_modules():
            if module is mod:
                return name
        raise NameError("module is not installed as a submodule")

    def call_module(self, m, forward, args: tuple, kwargs: dict):
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val, parameter_proxy_cache: dict): return self._attribute(attr_val, parameter_proxy_cache)

    def _attribute(self, value, cache: dict):
        import rushlight
        if isinstance(value, rushlight.nn.Parameter):
            for name, parameter in self.root.named_parameters():
                if parameter is value:
                    if name not in cache:
                        cache[name] = self.create_proxy("get_attr", name, (), {})
                    return cache[name]
        return value

    def create_arg(self, a: Any) -> Any:
        import rushlight

        def one(x):
            if isinstance(x, Proxy):
                return x.node
            if isinstance(x, rushlight.Tensor):
                return self.create_node("get_attr", self._name_of_tensor(x), (), {})
            if isinstance(x, rushlight.nn.Module):
                return self.create_node("get_attr", self.path_of_module(x), (), {})
            return x
        return map_aggregate(a, one)

    def _name_of_tensor(self, tensor) -> str:
        for pairs in (self.root.named_parameters(), self.root.named_buffers()):
            for name, value in pairs:
                if value is tensor:
                    return name
        for path, module in self.root.named_modules():
            for name, value in vars(module).items():
                if value is tensor:
                    return f"{path}.{name}" if path else name
        number = 0
        while hasattr(self.root, f"_tensor_constant{number}"):
            number += 1
        setattr(self.root, f"_tensor_constant{number}", tensor)
        return f"_tensor_constant{number}"

    def create_args_for_root(self, root_fn, is_module: bool, concrete_args: dict | None = None) -> tuple:
        parameters = list(inspect.signature(root_fn).parameters.values())
        if is_module:
            parameters = parameters[1:]
        args, kwargs = [], {}
        for p in parameters:
            if concrete_args and p.name in concrete_args:
                value = concrete_args[p.name]
            else:
                star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(p.kind, "")
                default = () if p.default is inspect.Parameter.empty else (p.default,)
                value = self.create_proxy("placeholder", star + p.name, default, {}, p.name)
            if p.kind is inspect.Parameter.KEYWORD_ONLY:
                kwargs[p.name] = value
            else:
                args.append(value)
        return args, kwargs

    def trace(self, root, concrete_args: dict | None = None) -> Graph:
        """The graph of `root`."""
        import rushlight
        from rushlight.nn import functional
        is_module = isinstance(root, rushlight.nn.Module)
        self.root = root if is_module else rushlight.nn.Module()
        function = type(root).forward if is_module else root
        self.root_module_name = type(root).__name__
        self.graph = Graph(tracer_cls=type(self))
        args, kwargs = self.create_args_for_root(function, is_module, concrete_args)
        if is_module:
            args.insert(0, root)
        cache: dict = {}
        original_call, original_getattr = rushlight.nn.Module.__call__, rushlight.nn.Module.__getattr__
        tracer = self

        def call(module, *a, **k):
            return tracer.call_module(module, lambda *a, **k: original_call(module, *a, **k), a, k)

        def get(module, name):
            value = original_getattr(module, name)
            return tracer.getattr(name, value, cache) if isinstance(value, rushlight.Tensor) else value

        patched: list[tuple[dict, str, Any]] = []

        def patch(scope: dict, name: str) -> None:
            function = scope.get(name, getattr(sys.modules["builtins"], name, None))
            if function is not None:
                patched.append((scope, name, scope.get(name, patched)))
                scope[name] = _recorded(function)

        _tracing[0] += 1
        try:
            rushlight.nn.Module.__call__, rushlight.nn.Module.__getattr__ = call, get
            for scope in (vars(functional), vars(rushlight)):       # functions in Python would be traced into; operators record themselves
                for name in [n for n, v in scope.items() if inspect.isfunction(v) and not n.startswith("_")]:
                    patch(scope, name)
            for scope, name in dict.fromkeys((id(s), n) for s, n in _wrapped):
                patch(next(s for s, n in _wrapped if id(s) == scope), name)
            result = function(*args, **kwargs)
            self.create_node("output", "output", (self.create_arg(result),), {})
        finally:
            rushlight.nn.Module.__call__, rushlight.nn.Module.__getattr__ = original_call, original_getattr
            for scope, name, before in reversed(patched):
                if before is patched:                               # it was a builtin, not the module's own
                    del scope[name]
                else:
                    scope[name] = before
            _tracing[0] -= 1
        return self.graph


def symbolic_trace(root, concrete_args: dict | None = None) -> GraphModule:
    """A GraphModule that does what `root` does, with its graph."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    import rushlight
    name = type(root).__name__ if isinstance(root, rushlight.nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
