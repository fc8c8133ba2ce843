"""The plainest compiler of an ATen graph: its operators one after another, each value freed after its last use.

What `aot_eager` means, and what the tests run.
Must not know: forward, backward, roles.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx
from torch._ops import OpOverload

from aotgrad.source import Source

Boxed = Callable[[list[Any]], Sequence[Any]]


def run_eagerly(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Boxed:
    """An FX compiler that compiles nothing: `gm`'s operators as straight-line Python."""
    source = Source()
    nodes = list(gm.graph.nodes)
    dying = _last_uses(nodes)
    inputs = [node.name for node in nodes if node.op == "placeholder"]
    source.add("def run(inputs):")
    if inputs:
        source.add(f"{', '.join(inputs)}, = inputs", 1)
    source.add("inputs.clear()", 1)
    for node in nodes:
        line = _line(source, gm, node)
        if line is not None:
            source.add(line, 1)
        if dying.get(node):
            source.add(" = ".join(dead.name for dead in dying[node]) + " = None", 1)
    run: Boxed = source.build("graph")["run"]
    return run


def _line(source: Source, gm: fx.GraphModule, node: fx.Node) -> str | None:
    if node.op == "placeholder":
        return None
    if node.op == "output":
        return f"return {source.literal(node.args[0], _name)}"
    if node.op == "get_attr":
        return f"{node.name} = {source.constant(_attribute(gm, str(node.target)), 'attr')}"
    if node.target is operator.getitem:
        return f"{node.name} = {source.literal(node.args[0], _name)}[{source.literal(node.args[1], _name)}]"
    if node.op != "call_function":
        raise NotImplementedError(f"an ATen graph has no {node.op} nodes: {node.format_node()}")
    function = node.target._op if isinstance(node.target, OpOverload) else node.target
    return f"{node.name} = {source.call(source.constant(function, 'op'), node.args, node.kwargs.items(), _name)}"


def _name(value: Any) -> str | None:
    return value.name if isinstance(value, fx.Node) else None


def _attribute(gm: fx.GraphModule, path: str) -> Any:
    value: Any = gm
    for part in path.split("."):
        value = getattr(value, part)
    return value


def _last_uses(nodes: Sequence[fx.Node]) -> dict[fx.Node, list[fx.Node]]:
    """For each node, the values that nobody reads after it."""
    dying: dict[fx.Node, list[fx.Node]] = {}
    seen: set[fx.Node] = set()
    for node in reversed(nodes):
        fresh = [value for value in dict.fromkeys([*node.all_input_nodes, node]) if value not in seen]
        seen.update(fresh)
        if node.op != "output":
            dying[node] = [value for value in fresh if value.op != "output"]
    return dying
