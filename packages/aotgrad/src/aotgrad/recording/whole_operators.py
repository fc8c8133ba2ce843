"""Operators that were taken apart, noted at their results: gradients of gradients go by the operators.

The parts compute what the operator computes, but their derivative need not be its derivative: at a kink (that of the
sign in `log_sigmoid_backward` is zero), where the parts multiply by zero what the operator leaves out, or where none of
them depends on what the operator's derivative is a zero of.
Must not know: who takes operators apart.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import TypeAlias

from torch import fx

from aotgrad.torch_versions import OpOverload, schema_of

WHOLE = "whole"
"""The key in a node's ``meta`` for the operator whose result this node is, the last of its parts."""

Whole: TypeAlias = tuple[OpOverload, Sequence[object], tuple[tuple[str, object], ...], int | None]
"""An operator, its arguments, and which of its results it is, None for the only one; plain data, to be stored."""


def note_whole(
    op: OpOverload,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    made: Sequence[fx.Node | None],
    last: fx.Node | None,
) -> None:
    """Notes at the nodes `made` that they are the results of `op`, unless they were there before it: up to `last`."""
    results = [(number, node) for number, node in enumerate(made) if node is not None]
    if schema_of(op).is_mutable or not results:
        return
    parts = set(takewhile(lambda node: node is not last, reversed(results[0][1].graph.nodes)))
    if parts.issuperset(node for _, node in results):
        several = len(schema_of(op).returns) > 1
        for number, node in results:
            node.meta[WHOLE] = (op, args, tuple(kwargs.items()), number if several else None)


def sources_of(node: fx.Node) -> list[fx.Node]:
    """The values that a node is computed from; the result of an operator that was taken apart, from its operands."""
    if WHOLE not in node.meta:
        return node.all_input_nodes
    found: dict[fx.Node, None] = {}
    _, args, kwargs, _ = node.meta[WHOLE]
    fx.map_arg((tuple(args), kwargs), lambda source: found.setdefault(source))
    return list(found)


def renamed(whole: Whole, others: Mapping[fx.Node, fx.Node]) -> Whole:
    """A whole operator with other nodes in place of some of its operands."""
    op, args, kwargs, place = whole
    args, kwargs = fx.map_arg((tuple(args), kwargs), lambda source: others.get(source, source))
    return op, args, kwargs, place


def put_together(graph: fx.Graph, copies: dict[fx.Node, fx.Node]) -> None:
    """Puts operators in place of the last of their parts; `copies` are the nodes of the graph by those that carry the
    notes."""
    calls: dict[str, fx.Node] = {}
    for node, copy in list(copies.items()):
        copy.meta = {key: value for key, value in copy.meta.items() if key != WHOLE}
        if WHOLE not in node.meta or not copies.keys() >= set(sources_of(node)):
            continue
        op, args, kwargs, place = renamed(node.meta[WHOLE], copies)
        with graph.inserting_before(copy):
            called = calls.get(key := repr((op, args, kwargs)))
            if called is None:
                called = calls[key] = graph.call_function(op, args, dict(kwargs))
                called.meta["phase"] = copy.meta.get("phase")
            result = called if place is None else graph.call_function(operator.getitem, (called, place))
        result.meta = dict(copy.meta)
        copies[node] = result
        copy.replace_all_uses_with(result)
