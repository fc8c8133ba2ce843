"""Symbolic numbers, which the graph computes: dynamic sizes, and dynamic ints that are passed in."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from capture.guards.sources import Source
from capture.values.base import Tracer, Value


class SymbolicNumber(Value):
    """``example`` is a ``SymInt``, ``SymFloat`` or ``SymBool`` of the translation's shape environment."""

    def __init__(self, node: fx.Node, example: Any, source: Source | None = None) -> None:
        self.node = node
        self.example = example
        self.source = source

    def python_type(self) -> type:
        if isinstance(self.example, torch.SymInt):
            return int
        return bool if isinstance(self.example, torch.SymBool) else float

    def truth(self, ctx: Tracer) -> bool:
        return bool(self.example)  # the shape environment notes what this relied on

    def specialized(self) -> Any:
        """The number of this call, from now on relied on."""
        return self.python_type()(self.example)

    def describe(self) -> str:
        return f"a size that varies ({self.source.expression()})" if self.source else "a number computed from sizes"
