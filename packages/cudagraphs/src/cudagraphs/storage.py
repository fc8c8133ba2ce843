"""Memory as this package sees it: blocks of the pool, how tensors look at them, and who still holds one.

Exists so that liveness is one idea: an output is alive as long as its *storage* is, whoever holds it (the user, a view,
autograd).  Must not know torch: a storage is seen through a weak reference that the driver makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from .options import Options

# Values that a recording may bake in, because a change in them is noticed by comparing.
PLAIN = (int, float, complex, str, bytes, type(None))


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of device memory that holds one storage."""

    address: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class View:
    """How a tensor looks at its storage; ``offset`` counts elements."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class Held(Protocol):
    """A weak reference to a storage."""

    def alive(self) -> bool:
        """Does anybody still hold the storage?"""


class Lender(Protocol):
    """Whoever lends out pool memory and is told when it was still held at the time it was wanted back."""

    def found_held(self, slot: int, nbytes: int) -> None:
        """The output in ``slot`` was still held."""


class Lent(NamedTuple):  # made at every replay, so cheaper than a dataclass
    """Pool memory in the hands of the caller."""

    held: Held
    block: Block
    lender: Lender
    slot: int


def covers(protected: Mapping[int, int], block: Block) -> bool:
    """Is ``block`` one of the ``protected`` ones (address to size)?

    Blocks are compared whole: a block inside or across protected ones is not something that an allocator state can
    give back to its owner.
    """
    return protected.get(block.address, -1) >= block.nbytes


class Ledger:
    """All pool memory that is lent out."""

    def __init__(self) -> None:
        self._lent: list[Lent] = []

    def lend(self, lent: Iterable[Lent]) -> None:
        """Take down new loans."""
        self._lent.extend(lent)

    def live(self) -> list[Lent]:
        """The loans that are still held; the others are forgotten."""
        self._lent = [lent for lent in self._lent if lent.held.alive()]
        return self._lent

    def clear(self) -> list[Lent]:
        """Forget all loans and return those that are still held."""
        live, self._lent = self.live(), []
        return live


class CopyPolicy:
    """Counts how often something stood in the way and says when copying it is cheaper than recording around it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._times: dict[int, int] = {}
        self.copied: set[int] = set()

    def stood_in_the_way(self, index: int, nbytes: int) -> None:
        """Small things are copied at once; large ones are worth a few recordings first."""
        times = self._times[index] = self._times.get(index, 0) + 1
        if nbytes <= self._options.copy_below or times > self._options.branches:
            self.copied.add(index)
