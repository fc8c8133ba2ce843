"""Redundant nodes: they have no reader, or an equal node came before.

The graph belongs to whoever handed it over, so nothing is changed in it: the answer is a set and a map.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from inductor.torch_versions import OpOverload, aten, pytree, schema_of

IMPURE = (torch.Tag.nondeterministic_seeded, torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
"""Tags of operators of which two equal calls may return different results."""

MAY_RAISE = "may_raise"
"""The key in a node's ``meta`` that marks an operator which may refuse its operands' contents: it runs though nobody
reads its result."""
_ONLY_SIZES = frozenset((
    "copy", "fill", "zero", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like",
    "new_zeros", "new_ones", "new_full", "new_empty", "new_empty_strided", "sym_size", "sym_numel", "sym_stride",
))  # fmt: skip
"""Operators that do not read the elements of their first operand."""
_VIEWS = (aten._unsafe_view.default, aten.lift_fresh.default)
"""Views whose schema does not say so."""


@dataclass(frozen=True, slots=True)
class Redundant:
    """``dead`` nodes have no effect; ``same`` names an earlier node that computes the same; the results of ``unread``
    ones are not read, and they may raise."""

    dead: frozenset[Node]
    same: dict[Node, Node]
    unread: frozenset[Node] = frozenset()


def find_redundant(graph: Graph) -> Redundant:
    """The nodes of a graph that need not be computed."""
    dead: set[Node] = set()
    for node in reversed(graph.nodes):
        if is_pure(node) and not node.meta.get(MAY_RAISE) and all(user in dead for user in node.users):
            dead.add(node)
    # Between two equal calls something may be written that both read: where anything is written, none is dropped.
    writes = any(writes_to_operands(node) for node in graph.nodes)
    return Redundant(frozenset(dead), {} if writes else _equal_nodes(graph, dead), _unread(graph, dead))


def _unread(graph: Graph, dead: set[Node]) -> frozenset[Node]:
    """Nodes that may raise and whose elements nobody reads, though somebody may read their number."""
    raisers = [node for node in graph.nodes if node.meta.get(MAY_RAISE) and node.op == "call_function"]
    read: set[Node] = set()
    for node in reversed(graph.nodes) if raisers else ():
        if node in read or node.op == "output" or not (node in dead or is_pure(node)):
            named = getattr(getattr(node.target, "overloadpacket", None), "__name__", "")
            given = node.args[1:] if named in _ONLY_SIZES else (node.args, node.kwargs)
            read.update(leaf for leaf in pytree.tree_leaves(given) if isinstance(leaf, Node))
    return frozenset(raisers) - read


def is_pure(node: Node) -> bool:
    """True if a call has no effect but its result."""
    if node.op != "call_function":
        return False
    if not isinstance(node.target, OpOverload):
        return True
    pure_library = node.target.namespace in ("aten", "prims")
    return (
        pure_library
        and not writes_to_operands(node)
        and IMPURE[0] not in node.target.tags
        and bool(schema_of(node.target).returns)
    )


def writes_to_operands(node: Node) -> bool:
    """True if a call changes a tensor; batch norms change their statistics, whatever their schema says."""
    target = node.target
    if not isinstance(target, OpOverload):
        return False
    return schema_of(target).is_mutable or "batch_norm" in schema_of(target).name


def _equal_nodes(graph: Graph, dead: set[Node]) -> dict[Node, Node]:
    """Pure calls of one operator on the same arguments.  Outputs are told apart: each is memory of its own."""
    seen: dict[Hashable, Node] = {}
    same: dict[Node, Node] = {}
    visible = {arg for node in graph.nodes if node.op == "output" for arg in _sources(node)}
    for node in graph.nodes:
        if node in dead or not is_pure(node) or any(tag in node.target.tags for tag in _tags(node)):
            continue
        if brings_symbols(node):
            continue
        key = _key((node.target, node.args, node.kwargs), same)
        if key is None:
            continue
        first = seen.setdefault(key, node)
        # Two outputs must not become one tensor: the user may write to either.
        if first is not node and not (node in visible and first in visible):
            same[node] = first
            visible |= {first} if node in visible else set()  # it is returned now
    return same


def brings_symbols(node: Node) -> bool:
    """True if sizes of the result get their names from this node: later nodes refer to them, so no other node can stand
    for it."""
    own = _symbols(node)
    return bool(own) and not own.issubset(name for given in node.all_input_nodes for name in _symbols(given))


def _symbols(node: Node) -> set[str]:
    value = node.meta.get("val")
    held = [*value.shape] if isinstance(value, torch.Tensor) else [value]
    return {str(symbol) for part in held if isinstance(part, torch.SymInt) for symbol in part.node.expr.free_symbols}


def _tags(node: Node) -> tuple[torch.Tag, ...]:
    return IMPURE if isinstance(node.target, OpOverload) else ()


def _sources(output: Node) -> set[Node]:
    """The nodes whose memory an output may share."""
    found: set[Node] = set()
    stack = list(output.all_input_nodes)
    while stack:
        node = stack.pop()
        if node in found:
            continue
        found.add(node)
        target = node.target
        if _may_share(target):
            stack.extend(node.all_input_nodes)
    return found


def _may_share(target: object) -> bool:
    """True if a result may lie in the memory of an operand."""
    if not isinstance(target, OpOverload) or target in _VIEWS:
        return True
    return any(result.alias_info for result in schema_of(target).returns)


def _key(value: object, same: dict[Node, Node]) -> Hashable | None:
    """A key that is equal exactly for equal arguments, or None where that cannot be told."""
    if isinstance(value, Node):
        return same.get(value, value)
    if isinstance(value, list | tuple):
        parts = [_key(item, same) for item in value]
        return None if any(part is None for part in parts) else tuple(parts)
    if isinstance(value, dict):
        return _key(tuple(value.items()), same)
    if isinstance(value, torch.Tensor):
        return None
    return (type(value).__name__, repr(value))
