"""The record of a graph, as data: its operators and inputs, what it relies on, how long it took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from torch import fx

from capture.errors import Location
from capture.guards.guard import Guard
from capture.log import GraphRecord
from capture.values.base import Value


def graph_record(
    location: Location,
    module: fx.GraphModule,
    guards: Sequence[Guard],
    times: tuple[float, float],
    changed: Iterable[Value],
) -> GraphRecord:
    """The record of a graph.  ``times``: of capturing it and of compiling it, in seconds."""
    nodes = [node for part in module.modules() if isinstance(part, fx.GraphModule) for node in part.graph.nodes]
    operators = tuple(_operator_name(node) for node in nodes if node.op in ("call_function", "call_method"))
    names = tuple(node.name for node in module.graph.nodes if node.op == "placeholder")
    sentences, changes = tuple(guard.sentence() for guard in guards), tuple(value.describe() for value in changed)
    return GraphRecord(location, operators, names, sentences, *times, module.code, changes)


def _operator_name(node: fx.Node) -> str:
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
