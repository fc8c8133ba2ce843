"""The graph that lowering makes and scheduling takes: loop nests and library calls in program order, nothing fused yet.

A ``Nest`` is a kernel before anybody chose its loop order: its axes stay those of the tensors, so that nests that work
on the same elements can be laid over one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import torch

from inductor.ir.expr import Expr
from inductor.ir.index import Index, Symbol
from inductor.ir.kernel import Loop
from inductor.ir.program import Bind, Buffer, Call, Ref, View


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops over ``domain`` (axes in tensor order); those in ``reduced`` are the reduction axes of its loops."""

    name: str
    device: torch.device
    domain: tuple[Symbol, ...]
    reduced: frozenset[Symbol]
    loops: tuple[Loop, ...]
    origins: tuple[str, ...] = field(default=(), compare=False)

    @property
    def kept(self) -> tuple[Symbol, ...]:
        """The axes whose iterations are independent."""
        return tuple(axis for axis in self.domain if axis not in self.reduced)

    @property
    def inner(self) -> tuple[Symbol, ...]:
        """The reduction axes, in tensor order."""
        return tuple(axis for axis in self.domain if axis in self.reduced)


Operation: TypeAlias = Nest | Call


@dataclass(frozen=True, slots=True)
class Graph:
    """``buffers`` holds every tensor that exists in memory, by name; ``views`` the strided windows that calls and
    outputs ask for.  ``mutated`` names the inputs that are written."""

    name: str
    inputs: tuple[Buffer | Symbol | None, ...]
    constants: dict[str, torch.Tensor]
    buffers: dict[str, Buffer]
    views: dict[str, View]
    binds: tuple[Bind, ...]
    operations: tuple[Operation, ...]
    outputs: tuple[Ref | Index | Expr | int | float | bool | None, ...]
    mutated: frozenset[str] = frozenset()
    lowered: Mapping[str, int] = field(default_factory=dict)
    """The number of times that each operator was lowered, by its name."""
    partial: frozenset[str] = frozenset()
    """Buffers of partial sums, which are computed as early as possible, so that the memory of their terms is freed."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Results of calls that are views of another buffer: the name of that buffer for each."""
