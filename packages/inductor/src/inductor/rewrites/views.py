"""Views in an FX graph, and the nodes whose memory its outputs show."""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch.fx import Graph, Node

from inductor.torch_versions import OpOverload

VIEWS = frozenset(
    getattr(torch.ops.aten, name) for name in (
        "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "slice", "select", "unsqueeze",
        "squeeze", "as_strided", "split", "split_with_sizes", "unbind", "diagonal", "alias", "detach", "unfold",
        "narrow", "flatten",
    )
)  # fmt: skip


def is_view(node: Node) -> bool:
    """True for an operator whose result is its operand's memory, and for taking an item out of several results."""
    if node.target is operator.getitem:
        return bool(node.all_input_nodes)
    return isinstance(node.target, OpOverload) and node.target.overloadpacket in VIEWS


def behind_outputs(graph: Graph, sees: Callable[[Node], bool] = lambda node: False) -> set[Node]:
    """The nodes whose memory the user sees, or an operator that ``sees`` it: outputs, what these operators are given,
    and what any of that are views of."""
    found: set[Node] = set()
    for node in reversed(list(graph.nodes)):
        if node.op == "output" or sees(node):
            found.update(node.all_input_nodes)
        elif node in found and is_view(node):
            found.add(node.all_input_nodes[0])
    return found
