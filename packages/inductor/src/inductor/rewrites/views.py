"""Views in an FX graph, and the nodes whose memory its outputs show."""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch.fx import Graph, Node

from inductor.torch_versions import OpOverload, aten, schema_of

VIEWS = frozenset(
    getattr(torch.ops.aten, name) for name in (
        "view", "_unsafe_view", "reshape", "permute", "transpose", "t", "expand", "slice", "select", "unsqueeze",
        "squeeze", "as_strided", "split", "split_with_sizes", "unbind", "diagonal", "alias", "detach", "unfold",
        "narrow", "flatten",
    )
)  # fmt: skip


def is_view(node: Node) -> bool:
    """True for an operator whose result is its operand's memory, and for taking an item out of several results."""
    target = node.target
    if target is operator.getitem:
        return bool(node.all_input_nodes)
    if not isinstance(target, OpOverload):
        return False
    said = (result.alias_info for result in schema_of(target).returns)
    return target.overloadpacket in VIEWS or any(alias is not None and not alias.is_write for alias in said)


def reads_memory(node: Node) -> bool:
    """True for operators that find elements by strides of their own, in the memory that their operand is in
    (``as_strided`` and its kin), and for views by another dtype."""
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    return target is aten.view.dtype or any(given.name == "storage_offset" for given in schema_of(target).arguments)


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
