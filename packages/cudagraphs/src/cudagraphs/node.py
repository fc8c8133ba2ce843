"""The recording: one recorded graph, frozen.

Exists so that whatever decides about recordings (the tree) and whatever runs them (replay) share plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType

from .aliases import Constant, Fresh, OfInput, Output
from .driver import Graph, State, Tensor
from .inputs import InputPlan
from .storage import Block, Lent, Loans, View, covers


@dataclass(frozen=True, slots=True)
class Loan:
    """A block that a recording lends out, with the outputs that are views of it: their positions and views."""

    block: Block
    positions: tuple[int, ...]
    views: tuple[View, ...]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Recording:
    """A graph with all that a safe replay needs.

    ``protected``: the memory (address to size) that was taken while it was recorded, and that it therefore never
    writes.  Everything else in the pool it may write.  ``follows`` names the parent without keeping it, whose function
    may be gone.  ``after``: what counts as taken in ``state``, the allocator's
    state at its end: the protected blocks and those that it lends.  ``lends`` is what the books take down when the
    outputs are handed out; ``direct`` if the outputs are that, one by one.  ``keeps`` is memory of the host that
    launches under way may still read.
    """

    number: int
    function: str
    follows: ReferenceType[Recording] | None
    inputs: InputPlan
    in_place: Callable[[list[Any]], bool]
    buffers: tuple[Tensor, ...]
    keeps: tuple[Tensor, ...]
    loans: tuple[Loan, ...]
    lends: Loans
    others: tuple[tuple[int, OfInput | Constant], ...]
    returns: int
    direct: bool
    rebuild: Callable[[list[Any]], Any]
    protected: Mapping[int, int]
    after: Mapping[int, int]
    graph: Graph
    state: State

    @property
    def parent(self) -> Recording | None:
        """The one that ran before it and left memory alive, if it is known still."""
        return None if self.follows is None else self.follows()

    def fits(self, inputs: list[Any]) -> bool:
        """True if the inputs that it reads in place still have the addresses that they had."""
        return not self.inputs.in_place or self.in_place(inputs)

    def overwrites(self, live: Sequence[Lent]) -> list[Lent]:
        """The loans that a replay now could destroy: the one rule that all safety here rests on."""
        return [lent for lent in live if not covers(self.protected, lent.block)]

    def path(self) -> list[Recording]:
        """The recordings from the root to this one."""
        parent = self.parent
        return [self] if parent is None else [*parent.path(), self]


def arranged(
    outputs: Sequence[Output], blocks: Sequence[Block]
) -> tuple[tuple[Loan, ...], tuple[tuple[int, OfInput | Constant], ...]]:
    """The outputs as a replay needs them: by block, and those of no block by position."""
    fresh = [(position, output) for position, output in enumerate(outputs) if isinstance(output, Fresh)]
    loans = []
    for slot, block in enumerate(blocks):
        seen = [(position, output.view) for position, output in fresh if output.slot == slot]
        positions, views = tuple(position for position, _ in seen), tuple(view for _, view in seen)
        loans.append(Loan(block, positions, views))
    others = tuple((position, output) for position, output in enumerate(outputs) if not isinstance(output, Fresh))
    return tuple(loans), others


def flattened(result: object) -> tuple[Callable[[list[Any]], Any], list[Any]]:
    """The values that a function returned, and a function that makes its own kind of result of others."""
    if isinstance(result, list | tuple):
        return getattr(type(result), "_make", type(result)), list(result)  # a named tuple has _make
    return _only, [result]


def _only(values: list[object]) -> Any:
    return values[0]
