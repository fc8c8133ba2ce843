"""Regions of a graph that backward runs again: the nodes of each become a module that the graph calls by a checkpoint.

What the program passes to the checkpoint must not be changed until backward has run, and torch refuses it; what the
function finds elsewhere, its parameters for one, is read again as it is then.  So these go in a list, which is not
looked at.

While a graph is recorded, a region is no more than a number on its nodes: whatever is used of it later, by the program
or by the graph, is known only at the end.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence

import torch
import torch.utils.checkpoint
from torch import fx

from capture.graph_modules import graph_module

_PATH = "regions"  # in a node's meta: the regions that it is in, outermost first


def is_in_region(node: fx.Node) -> bool:
    """True if backward runs this node again."""
    return bool(node.meta.get(_PATH))


class Regions:
    """The regions of one graph: marks on nodes while it is recorded, modules in the end."""

    def __init__(self) -> None:
        self._calls: list[tuple[Sequence[fx.Node], Mapping[str, object]]] = []

    def close(self, nodes: Iterable[fx.Node], passed: Sequence[fx.Node], options: Mapping[str, object]) -> None:
        """Makes these nodes a region, called with what is passed to it; regions among them are inside of it."""
        number = len(self._calls)
        self._calls.append((passed, options))
        for node in nodes:
            node.meta[_PATH] = (number, *node.meta.get(_PATH, ()))

    def fold(self, graph: fx.Graph, outputs: Sequence[fx.Node], root: torch.nn.Module) -> list[fx.Node]:
        """Put calls in their place, of modules that ``root`` then holds; returns ``outputs`` as they are called now."""
        replaced: dict[fx.Node, fx.Node] = {}
        # Innermost regions first: the module of an outer one then has the calls of the inner ones among its nodes.
        pending = dict(enumerate(self._calls))
        while deepest := max((len(node.meta.get(_PATH, ())) for node in graph.nodes), default=0):
            path = next(node.meta[_PATH] for node in graph.nodes if len(node.meta.get(_PATH, ())) == deepest)
            nodes = [node for node in graph.nodes if node.meta.get(_PATH) == path]
            name = f"region_{path[-1]}"
            given, options = pending.pop(path[-1])
            passed_on = (node for others, _ in pending.values() for node in others)  # though nobody reads it there
            wanted = {_follow(replaced, node) for node in (*outputs, *passed_on)}
            passed = dict.fromkeys(_follow(replaced, node) for node in given)
            replaced.update(_fold(graph, nodes, wanted, name, root, (list(passed), options)))
        return [_follow(replaced, node) for node in outputs]


def _follow(replaced: Mapping[fx.Node, fx.Node], node: fx.Node) -> fx.Node:
    """The node that has the place of this one by now."""
    while node in replaced:
        node = replaced[node]
    return node


def _fold(
    graph: fx.Graph,
    nodes: Sequence[fx.Node],
    wanted: set[fx.Node],
    name: str,
    root: torch.nn.Module,
    call_with: tuple[Sequence[fx.Node], Mapping[str, object]],
) -> dict[fx.Node, fx.Node]:
    """Puts the call of a module in the place of a region's nodes; returns which results stand for which nodes."""
    inside = set(nodes)
    passed, options = call_with
    used = dict.fromkeys(step for node in nodes for step in node.all_input_nodes if step not in inside)
    found = [step for step in used if step not in passed]
    # Only what somebody outside reads comes out of the region: the rest is what backward computes again.
    left = [node for node in nodes if node in wanted or any(user not in inside for user in node.users)]
    root.add_module(name, module_of(nodes, passed, left, name, root, found))
    path = nodes[-1].meta[_PATH][:-1]
    with graph.inserting_after(nodes[-1]):
        module = graph.get_attr(name)
    with graph.inserting_after(module):
        call = graph.call_function(torch.utils.checkpoint.checkpoint, (module, *passed, found), dict(options))
    given = tuple(node.meta["val"] for node in left)
    call.meta.update(nodes[-1].meta, val=given, example_value=given)
    module.meta[_PATH] = call.meta[_PATH] = path
    results, last = {}, call
    for index, node in enumerate(left):
        with graph.inserting_after(last):
            last = results[node] = graph.call_function(operator.getitem, (call, index))
        last.meta.update(node.meta)
        last.meta[_PATH] = path
        node.replace_all_uses_with(last, delete_user_cb=lambda user: user not in inside)
    for node in reversed(nodes):
        graph.erase_node(node)
    return results


def module_of(
    nodes: Sequence[fx.Node],
    given: Sequence[fx.Node],
    left: Sequence[fx.Node],
    name: str,
    outer: torch.nn.Module,
    listed: Sequence[fx.Node] | None = None,
) -> fx.GraphModule:
    """A module that computes ``left`` by these nodes from what is ``given``, and ``listed`` in one more argument.

    Modules that they call are taken from ``outer``.
    """
    graph, root = fx.Graph(), torch.nn.Module()
    copies: dict[fx.Node, fx.Node] = {}
    for node in given:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta.update(node.meta)
    if listed is not None:
        found = graph.placeholder("found")
        for index, node in enumerate(listed):
            copies[node] = graph.call_function(operator.getitem, (found, index))
            copies[node].meta.update(node.meta)
    for node in nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        if node.op == "get_attr":  # a region within this one
            root.add_module(str(node.target), outer.get_submodule(str(node.target)))
            delattr(outer, str(node.target))
    graph.output(tuple(copies[node] for node in left))
    return graph_module(root, graph, name.capitalize())
