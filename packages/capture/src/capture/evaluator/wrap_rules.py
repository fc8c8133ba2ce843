"""The table of rules that make values of real objects, and what a rule may ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from capture.guards.layouts import OpenLayout
from capture.guards.sources import Source
from capture.recording.graph import GraphRecorder
from capture.values.base import Tracer, Value
from capture.values.function import NamespaceValue
from capture.values.symint import SymbolicNumber
from capture.values.tensor import TensorValue


class World(Tracer, Protocol):
    """What wrapping needs beyond a tracer."""

    graph: GraphRecorder
    tensors: dict[int, TensorValue]

    def open_layout(self, source: Source, tensor: torch.Tensor) -> OpenLayout:
        """The dimensions of a tensor input that are to be symbolic."""

    def is_dynamic(self, source: Source) -> bool:
        """Whether an int input is to be symbolic."""

    def varies(self, source: Source) -> bool:
        """Whether a float is known to differ from call to call."""

    def namespace(self, contents: dict[str, Any], source: Source, *, trusted: bool) -> NamespaceValue:
        """The one value of a module's globals."""


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
    """One symbol per path, however often it is read."""
    node = ctx.graph.inputs.get(source)
    if node is None:
        node = ctx.graph.add_input(source, ctx.graph.symbolic_number(number, source))
    return SymbolicNumber(node, node.meta["val"], source)
