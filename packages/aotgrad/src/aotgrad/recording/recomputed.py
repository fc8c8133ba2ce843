"""Values that a checkpoint computes again in backward, and the values of forward that they equal.

Autograd gives what a checkpoint has computed again the history of what it had not kept: to a derivative they are one.
Must not know: what becomes of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import fx

from aotgrad.random_operators import draws
from aotgrad.recording.histories import DETACHED
from aotgrad.torch_versions import aten

REPEATS = "repeats"
"""The key in a node's ``meta`` for a node recorded in backward by code that ran with gradients, as autograd's formulas
do only for `create_graph`: True, or the node of forward whose value it has."""

_ALIASES = (aten.alias.default, aten.detach.default)


def with_repeated(graph: fx.Graph, numbers: Mapping[fx.Node, int]) -> dict[fx.Node, int]:
    """`numbers` of forward's values, and the same for the nodes that compute these again."""
    if not any(REPEATS in node.meta for node in graph.nodes):
        return dict(numbers)
    same = _equal_work(graph)
    known = {same[node]: number for node, number in numbers.items()}
    again = (node for node in graph.nodes if REPEATS in node.meta and same[node] in known)
    return {**{node: known[same[node]] for node in again}, **numbers}


def _equal_work(graph: fx.Graph) -> dict[fx.Node, fx.Node]:
    """For each node the first one that computes the same, in forward and in what is computed again."""
    same: dict[fx.Node, fx.Node] = {}
    first: dict[Any, fx.Node] = {}
    for node in graph.nodes:
        repeats = node.meta.get(REPEATS)
        if isinstance(repeats, fx.Node):
            same[node] = same[repeats]
        elif repeats and node.target in _ALIASES:
            same[node] = same[node.args[0]]
        elif node.op != "call_function" or draws(node.target):
            same[node] = node
        elif repeats or node.meta.get("phase") != "backward":
            # By the nodes that stand for its operands: equal work on equal values is equal.
            given = fx.map_arg((node.args, dict(node.kwargs)), lambda source: same[source])
            same[node] = first.setdefault((node.target, repr(given), DETACHED in node.meta), node)
        else:
            same[node] = node
    return same
