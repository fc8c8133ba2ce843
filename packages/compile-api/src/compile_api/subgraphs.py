"""Parts of a graph as graphs of their own: the first operators, or any set of operators on recorded inputs."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import torch
from torch import fx


def operators(gm: fx.GraphModule) -> list[fx.Node]:
    """The nodes that compute something, in order."""
    return [node for node in gm.graph.nodes if node.op.startswith("call_") or node.op == "get_attr"]


def up_to(gm: fx.GraphModule, last: fx.Node) -> fx.GraphModule:
    """The graph from its inputs to ``last``, whose value is the only output; every input stays."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in gm.graph.nodes:
        if node.op == "output":
            break
        copies[node] = graph.node_copy(node, lambda each: copies[each])
        if node is last:
            break
    for node in gm.graph.nodes:  # inputs may stand behind
        if node.op == "placeholder" and node not in copies:
            copies[node] = graph.node_copy(node)
    _leave_contexts(graph, copies)
    graph.output((copies[last],))
    _inputs_first(graph)
    graph.eliminate_dead_code(is_impure_node=_matters)
    return fx.GraphModule(gm, graph)


def induced(
    gm: fx.GraphModule, kept: Collection[fx.Node], values: dict[fx.Node, object], outputs: Collection[fx.Node] = ()
) -> tuple[fx.GraphModule, list[Any]]:
    """The graph of the operators ``kept`` alone: whatever else they read becomes an input with its recorded value.

    Its outputs are the kept ones among ``outputs`` and those that no kept operator reads.  A KeyError says that it
    reads what has no recorded value, or one that cannot be an input.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    inputs: list[Any] = []

    def given(node: fx.Node) -> fx.Node:
        if node not in copies:
            if not isinstance(values[node], torch.Tensor | int | float | bool | None):
                raise KeyError(node)
            copies[node] = graph.placeholder(node.name)
            inputs.append(values[node])
        return copies[node]

    for node in gm.graph.nodes:
        if node in kept:
            copies[node] = graph.node_copy(node, given)
    # The order matters: contexts are left behind the last operator, and inputs were made where they were first read.
    _leave_contexts(graph, copies)
    ends = [node for node in gm.graph.nodes if node in kept and _ends(node, kept, outputs, values)]
    graph.output(tuple(copies[node] for node in ends))
    _inputs_first(graph)
    return fx.GraphModule(gm, graph), inputs


def _ends(
    node: fx.Node, kept: Collection[fx.Node], outputs: Collection[fx.Node], values: dict[fx.Node, object]
) -> bool:
    if not isinstance(values.get(node), torch.Tensor):
        return False
    return node in outputs or not any(user in kept for user in node.users)


def _leave_contexts(graph: fx.Graph, copies: dict[fx.Node, fx.Node]) -> None:
    """A part that enters autocast and the like leaves it too, whatever else is left out."""
    for node in list(copies):
        if "_enter_" in str(getattr(node.target, "__name__", "")):
            for user in node.users:
                if "_exit_" in str(getattr(user.target, "__name__", "")) and user not in copies:
                    copies[user] = graph.node_copy(user, lambda each: copies[each])


def _inputs_first(graph: fx.Graph) -> None:
    """Placeholders to the front, in the order in which they stand."""
    first = next((node for node in graph.nodes if node.op != "placeholder"), None)
    if first is None:
        return
    seen_first = False
    for node in list(graph.nodes):
        seen_first = seen_first or node is first
        if node.op == "placeholder" and seen_first:
            first.prepend(node)


def _matters(node: fx.Node) -> bool:
    """True for nodes that stay although nothing reads them: inputs, outputs, writes and switches of torch's state."""
    if node.op in ("placeholder", "output"):
        return True
    name = str(getattr(node.target, "__name__", node.target))
    return name.endswith("_") or "autocast" in name or "grad_enabled" in name or "inference_mode" in name


class Recorder(fx.Interpreter):
    """Runs a graph and keeps the value of every node, as it was before anything wrote to it."""

    def __init__(self, gm: fx.GraphModule) -> None:
        super().__init__(gm, garbage_collect_values=False)
        self.values: dict[fx.Node, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        self.values[n] = kept(value)
        return value


def kept(value: object) -> Any:
    """A tensor as a leaf of its own with the same values and strides; anything else as it is."""
    if isinstance(value, torch.Tensor):
        copy = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)
        return copy.copy_(value.detach()).requires_grad_(value.requires_grad)
    if type(value) is tuple:
        return tuple(map(kept, value))
    return [kept(each) for each in value] if type(value) is list else value
