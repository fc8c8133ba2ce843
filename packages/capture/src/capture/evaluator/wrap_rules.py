"""The table of rules that make values of real objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from capture.evaluator.world import World
from capture.guards.sources import Source
from capture.values.base import Value
from capture.values.symint import SymbolicNumber

Rule = Callable[[World, Any, Source], Value]
RULES: dict[type, Rule] = {}


def wraps(*types: type) -> Callable[[Rule], Rule]:
    """Registers a rule for exactly these types."""

    def register(rule: Rule) -> Rule:
        for cls in types:
            RULES[cls] = rule
        return rule

    return register


def symbol_for(ctx: World, number: int, source: Source) -> SymbolicNumber:
    """The symbol for a number, one per path, however often it is read."""
    node = ctx.graph.inputs.get(source)
    if node is None:
        node = ctx.graph.add_input(source, ctx.graph.symbolic_number(number, source))
    return SymbolicNumber(node, node.meta["val"], source)
