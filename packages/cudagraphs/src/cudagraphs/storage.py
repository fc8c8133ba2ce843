"""Memory as this package sees it: blocks of the pool, views of them, and who still holds one.

Exists so that liveness is one idea: an output is alive as long as its *storage* is, whoever holds it (the user, a view,
autograd).  Must not know torch: a storage is seen through a weak reference that the driver makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

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
    """A tensor's view of its storage; ``offset`` counts elements."""

    dtype: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int


class Held(Protocol):
    """A weak look at a storage, which does not keep it alive."""

    def alive(self) -> bool:
        """True if anybody still holds the storage."""


class Handed(Protocol):
    """Blocks of the pool that are lent to one call after another; each is known by its slot."""

    def tensors(self) -> list[Any]:
        """New tensors over all of them, in order.  Only asked for while nobody holds the earlier ones."""

    def tensors_of(self, slot: int) -> list[Any]:
        """New tensors over one block."""

    def copies(self, slots: Sequence[int]) -> list[list[Any]]:
        """For each of these, tensors over a new storage of its own, outside the pool, holding what lies there."""

    def held(self) -> Sequence[int]:
        """The slots that a caller still holds."""

    def forbid(self, slot: int, message: str) -> None:
        """Makes every later access to what is held of a slot raise ``message``; this ends the loan."""


class Lender(Protocol):
    """Whoever lends out pool memory and is told when it was still held at the time it was wanted back."""

    def found_held(self, slot: int, nbytes: int, by_itself: bool) -> bool:
        """Hears that the output in ``slot`` was still held; ``by_itself`` if only the lender's own next call wanted its
        memory.  True if it is copied out from now on, for the first time."""


@dataclass(frozen=True, slots=True, eq=False)
class Lent:
    """A block in the hands of a caller."""

    handed: Handed
    block: Block
    lender: Lender
    slot: int

    def stood_in_the_way(self, by_itself: bool) -> bool:
        """Tells the lender that the memory was wanted while it was held; true if it is copied out from now on, for the
        first time."""
        return self.lender.found_held(self.slot, self.block.nbytes, by_itself)

    def forbid(self, message: str) -> None:
        """Takes the block back: whoever still holds it gets ``message`` when using it."""
        self.handed.forbid(self.slot, message)


class Loans:
    """Everything that one recording lends out at each replay."""

    __slots__ = ("all", "handed")

    def __init__(self, handed: Handed, blocks: Sequence[Block], lender: Lender) -> None:
        self.handed = handed
        self.all = [Lent(handed, block, lender, slot) for slot, block in enumerate(blocks)]

    def live(self) -> list[Lent]:
        """The blocks lent that are still held."""
        held = self.handed.held()
        return [self.all[slot] for slot in held] if held else []


def covers(protected: Mapping[int, int], block: Block) -> bool:
    """True if ``block`` is one of the ``protected`` ones (address to size).

    Blocks are compared whole: a block inside or across protected ones is not something that an allocator state can
    give back to its owner.
    """
    return protected.get(block.address, -1) >= block.nbytes


class Ledger:
    """All pool memory that is lent out."""

    def __init__(self) -> None:
        self._out: list[Loans] = []

    def lend(self, loans: Loans) -> None:
        """Enters new loans; nothing of what the same recording lent before is held any more."""
        self._out.append(loans)

    def live(self) -> list[Lent]:
        """The loans that are still held; the others are forgotten."""
        kept: list[Loans] = []
        live: list[Lent] = []
        for loans in self._out:
            if held := loans.live():
                kept.append(loans)
                live += held
        self._out = kept
        return live

    def clear(self) -> list[Lent]:
        """Forgets all loans and returns those that are still held."""
        live, self._out = self.live(), []
        return live


class CopyPolicy:
    """Counts how often something stood in the way and says when copying it is cheaper than recording around it."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._times: dict[int, int] = {}
        self.copied: set[int] = set()

    def stood_in_the_way(self, index: int, nbytes: int) -> bool:
        """Counts one more time: small things are copied at once, large ones are worth a few recordings first.  True if
        it is copied from now on, for the first time."""
        times = self._times[index] = self._times.get(index, 0) + 1
        return (nbytes <= self._options.copy_below or times > self._options.branches) and self.copy(index)

    def copy(self, index: int) -> bool:
        """Has it copied from now on; true the first time."""
        known = index in self.copied
        self.copied.add(index)
        return not known
