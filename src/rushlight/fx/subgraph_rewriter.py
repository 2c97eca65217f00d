"""Replacing one piece of a graph by another, wherever it occurs."""
from __future__ import annotations

import copy
from typing import NamedTuple

from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """An occurrence: its last node, and which node stands for each of the pattern's."""
    anchor: Node
    nodes_map: dict[Node, Node]


def _graph_of(pattern) -> Graph:
    return pattern if isinstance(pattern, Graph) else pattern.graph if isinstance(pattern, GraphModule) else symbolic_trace(pattern).graph


def _matches(pattern: Node, node, found: dict[Node, Node]) -> bool:
    """Whether `node` computes what the pattern's node does; `found` gathers which stands for which."""
    if not isinstance(node, Node):
        return False
    if pattern in found:
        return found[pattern] is node
    if pattern.op != "placeholder":
        if pattern.op != node.op or pattern.target != node.target or len(pattern.args) != len(node.args) or set(pattern.kwargs) != set(node.kwargs):
            return False
    found[pattern] = node
    if pattern.op == "placeholder":
        return True

    def same(a, b) -> bool:
        if isinstance(a, Node):
            # an input of the pattern may be a constant in the graph
            return _matches(a, b, found) if isinstance(b, Node) else a.op == "placeholder"
        if isinstance(a, (tuple, list)):
            return isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(same, a, b))
        return type(a) is type(b) and a == b
    return all(map(same, pattern.args, node.args)) and all(same(pattern.kwargs[k], node.kwargs[k]) for k in pattern.kwargs)


def replace_pattern(gm: GraphModule, pattern, replacement) -> list[Match]:
    """Put `replacement` (a function, graph or module with the same inputs) where `pattern` occurs, without overlaps; returns the places."""
    pattern_graph, new_graph = _graph_of(pattern), _graph_of(replacement)
    inputs = [n for n in pattern_graph.nodes if n.op == "placeholder"]
    new_inputs = [n for n in new_graph.nodes if n.op == "placeholder"]
    output = pattern_graph.output_node().args[0]
    anchors = list(output) if isinstance(output, (tuple, list)) else [output]
    if len(anchors) != 1:
        raise NotImplementedError("replace_pattern: patterns with several results are not supported")
    anchor, taken, places = anchors[0], set(), []
    for node in list(gm.graph.nodes):
        found: dict[Node, Node] = {}
        if not _matches(anchor, node, found):
            continue
        inner = {found[p] for p in found if p.op != "placeholder"}
        if inner & taken or any(user not in inner for n in inner if n is not node for user in n.users):
            continue                                # overlaps another place, or an inner value is used elsewhere
        taken |= inner
        places.append(Match(node, found))
    replaced: dict[Node, Node] = {}
    for place in places:
        values = {new: replaced.get(place.nodes_map[old], place.nodes_map[old]) for old, new in zip(inputs, new_inputs) if old in place.nodes_map}
        with gm.graph.inserting_before(place.anchor):
            result = gm.graph.graph_copy(new_graph, values)
        result = result[0] if isinstance(result, (tuple, list)) else result
        place.anchor.replace_all_uses_with(result)
        replaced[place.anchor] = result
        for node in sorted((n for p, n in place.nodes_map.items() if p.op != "placeholder"), key=list(gm.graph.nodes).index, reverse=True):
            if not node.users:
                gm.graph.erase_node(node)
    module = replacement if isinstance(replacement, GraphModule) else None
    if module is not None:
        for node in new_graph.nodes:
            if node.op in ("call_module", "get_attr") and not hasattr(gm, node.target.split(".")[0]):
                setattr(gm, node.target.split(".")[0], copy.copy(getattr(module, node.target.split(".")[0])))
    gm.recompile()
    return places
