"""Backward graphs for calls in which some tangents do not arrive, because nobody used those outputs.

Gradients are linear in the tangents: what depends on absent ones alone is zero, and is not computed.
Must not know: how tangents are found to be absent, how graphs are compiled.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch import fx

from aotgrad.autograd_graph.missing_gradients import reached_by
from aotgrad.graph_modules import graph_module
from aotgrad.partitioning.partition import Half
from aotgrad.roles import Gradient, OutputRole, Saved, Tangent
from aotgrad.tensors.symbols import SYM_TYPES, SizeNodes
from aotgrad.torch_versions import aten


def has_known_sizes(half: Half) -> bool:
    """True if the graph's inputs tell every size in it, so that zeros of its sizes can be written into it."""
    values = [node.meta.get("val") for node in half.module.graph.nodes]
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    symbolic = [size for tensor in tensors for size in tensor.shape if not isinstance(size, int)]
    if not symbolic:
        return True
    given = {node.meta["val"].node.expr for node in _symbolic_sizes(half.module.graph)}
    return all(given.issuperset(size.node.expr.free_symbols) for size in symbolic)


def _symbolic_sizes(graph: fx.Graph) -> list[fx.Node]:
    """The symbolic numbers that the graph is given."""
    return [node for node in graph.find_nodes(op="placeholder") if isinstance(node.meta.get("val"), SYM_TYPES)]


def without_tangents(half: Half, absent: Collection[int]) -> Half:
    """The backward graph without the tangents of these numbers, and without gradients that need them; it does not take
    what forward saved for those alone."""
    graph, copies = fx.Graph(), dict[fx.Node, fx.Node]()
    returned: Any = graph.graph_copy(half.module.graph, copies)
    tangents = [copies[n] for n in half.module.graph.nodes if n in copies and isinstance(n.meta.get("role"), Tangent)]
    given = zip(half.module.graph.find_nodes(op="placeholder"), half.inputs, strict=True)
    saved = {copies[node] for node, role in given if isinstance(role, Saved)}
    gone = {tangents[index] for index in absent}
    reached = reached_by(graph, tangents)
    zero = {node for node, by in reached.items() if by and gone.issuperset(tangents[index] for index in by)}
    outputs = [
        (v, role) for v, role in zip(returned, half.outputs, strict=True) if v not in zero or _is_there(role, absent)
    ]
    replaced: dict[fx.Node, fx.Node] = {}
    for node in [node for node in graph.nodes if node not in zero]:
        node.args = fx.map_arg(node.args, lambda n: replaced.get(n, n))
        node.kwargs = fx.map_arg(node.kwargs, lambda n: replaced.get(n, n))
        if not zero.isdisjoint(node.all_input_nodes):
            # Most sums in backward add up gradients: they need no zeros at all.
            other = _other_summand(node, zero)
            if other is not None:
                replaced[node] = other
            else:
                _write_zeros(graph, node, zero)
    graph.output(tuple(_zeros(graph, v) if v in zero else replaced.get(v, v) for v, _ in outputs))
    for node in reversed(list(graph.nodes)):
        unread = node in saved
        if not node.users and (node.op == "call_function" or node in gone or unread):
            graph.erase_node(node)
    kept = set(graph.nodes)
    placeholders = [copies[node] for node in half.module.graph.find_nodes(op="placeholder")]
    roles = tuple(role for node, role in zip(placeholders, half.inputs, strict=True) if node in kept)
    return Half(graph_module(half.module, graph), roles, tuple(role for _, role in outputs))


def saved_read(backward: Half, fewer: Half) -> list[bool]:
    """For each saved tensor of a backward whether one for fewer tangents reads it, too."""
    read = set(fewer.inputs)
    return [role in read for role in backward.inputs if isinstance(role, Saved)]


def drop_absent(graph: fx.Graph, absent: Collection[int]) -> None:
    """Replaces values that depend on these tangents alone by zeros.  The tangents still come, as zeros; but not
    everything made of zeros is zero."""
    tangents = [node for node in graph.find_nodes(op="placeholder") if isinstance(node.meta.get("role"), Tangent)]
    zero = {node for node, by in reached_by(graph, tangents).items() if by and set(absent).issuperset(by)}
    for node in [node for node in zero if node.op == "call_function"]:
        if isinstance(node.meta.get("val"), torch.Tensor) and not zero.issuperset(node.users):
            with graph.inserting_before(node.next):
                zeros = _zeros(graph, node)
            node.replace_all_uses_with(zeros, lambda user, own=zeros: user is not own and user not in zero)


def _is_there(role: OutputRole, absent: Collection[int]) -> bool:
    """True for a gradient that is zero to autograd, and not missing."""
    return isinstance(role, Gradient) and not set(role.tangents) <= set(absent)


def _other_summand(node: fx.Node, zero: Collection[fx.Node]) -> fx.Node | None:
    """The other summand of a sum with zero, if the sum is that value as it stands."""
    if node.target is not aten.add.Tensor or node.kwargs:
        return None
    left, right = node.args
    other = right if left in zero else left
    same = isinstance(other, fx.Node) and _kind(other) == _kind(node)
    if not same or not isinstance(other, fx.Node):
        return None
    return other if other.op == "call_function" or isinstance(other.meta.get("role"), Tangent) else None


def _kind(node: fx.Node) -> Any:
    value = node.meta["val"]
    return value.dtype, _as_formulas(value.shape), _as_formulas(value.stride()), value.device


def _as_formulas(sizes: Sequence[Any]) -> list[object]:
    """Sizes for comparison as they are written: asking symbols whether they are equal would make a guard of the
    answer."""
    return [size if isinstance(size, int) else size.node.expr for size in sizes]


def _write_zeros(graph: fx.Graph, reader: fx.Node, zero: Collection[fx.Node]) -> None:
    """Has `reader` read zeros in place of values that are zero."""
    for source in [node for node in reader.all_input_nodes if node in zero]:
        with graph.inserting_before(reader):
            reader.replace_input_with(source, _zeros(graph, source))


def _zeros(graph: fx.Graph, source: fx.Node) -> fx.Node:
    value = source.meta["val"]
    options = {"dtype": value.dtype, "device": value.device}
    zeros = graph.call_function(aten.full.default, (_sizes(graph, value.shape), 0), options)
    zeros.meta = {"val": value, "phase": "backward"}
    return zeros


def _sizes(graph: fx.Graph, sizes: Sequence[Any]) -> list[Any]:
    """The sizes as arguments of a node, computed from those that the graph is given."""
    if all(isinstance(size, int) for size in sizes):
        return list(sizes)
    nodes, numbers = SizeNodes(graph), _symbolic_sizes(graph)
    for node in numbers:
        nodes.bind(node.meta["val"], node)
    given = {node.meta["val"].node.expr for node in numbers}
    if not all(isinstance(size, int) or given.issuperset(size.node.expr.free_symbols) for size in sizes):
        # Only then of tensors: one that is read for its sizes alone need not be there.
        for node in graph.find_nodes(op="placeholder"):
            if isinstance(node.meta.get("val"), torch.Tensor) and not isinstance(node.meta.get("role"), Tangent):
                nodes.bind_layout(node.meta["val"], node)
    return [size if isinstance(size, int) else nodes.node_for(size) for size in sizes]
