"""The tree of recordings drawn as text.  Renders data; decides nothing.

A block is named by where it begins, counted from the first one that the tree knows, and by its bytes: so two drawings
of one program are alike, and what lies in the same place has the same name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from .aliases import OfInput
from .node import Recording
from .tree import Tree

MOST_NAMED = 6
"""The most blocks that are named; more are counted."""


def show_tree(tree: Tree) -> str:
    """One line per recording, children indented below their parent."""
    known = (address for recording in tree.recordings for address in recording.after)
    drawing = _Drawing(tree, start=min(known, default=0))
    roots = [recording for recording in tree.recordings if recording.parent not in tree.recordings]
    return "\n".join(["root", *drawing.lines(roots, "")])


@dataclass(frozen=True, slots=True)
class _Drawing:
    tree: Tree
    start: int

    def lines(self, recordings: list[Recording], indent: str) -> Iterator[str]:
        for recording in recordings:
            last = recording is recordings[-1]
            yield f"{indent}{'└─ ' if last else '├─ '}{self.describe(recording)}"
            yield from self.lines(self.tree.children(recording), indent + ("   " if last else "│  "))

    def describe(self, recording: Recording) -> str:
        inputs = recording.inputs
        parts = [
            f"in place: {_indices(inputs.in_place)}" if inputs.in_place else "",
            f"copied in: {_indices(inputs.copied)}" if inputs.copied else "",
            f"changed: {_indices(inputs.changed)}" if inputs.changed else "",
            f"protects {self.blocks(recording.protected)}" if recording.protected else "",
            f"returns {self.returned(recording)}",
        ]
        return f"#{recording.number} {recording.function}: " + "; ".join(part for part in parts if part)

    def blocks(self, blocks: Mapping[int, int]) -> str:
        if len(blocks) > MOST_NAMED:
            return _counted(blocks.values())
        return ", ".join(self.block(address, nbytes) for address, nbytes in sorted(blocks.items()))

    def block(self, address: int, nbytes: int) -> str:
        return f"{address - self.start:#x}+{nbytes}"

    def returned(self, recording: Recording) -> str:
        if recording.returns > MOST_NAMED:
            rest = f" and {len(recording.others)} others" if recording.others else ""
            return _counted([loan.block.nbytes for loan in recording.loans]) + rest
        named = {at: f"input {output.index}" for at, output in recording.others if isinstance(output, OfInput)}
        for loan in recording.loans:
            named |= dict.fromkeys(loan.positions, self.block(loan.block.address, loan.block.nbytes))
        return ", ".join(named.get(position, "a constant") for position in range(recording.returns))


def _indices(indices: Sequence[int]) -> str:
    """Rising numbers, those in a row as a range."""
    rows = [[index for _, index in row] for _, row in groupby(enumerate(indices), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{row[0]}-{row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows)


def _counted(sizes: Collection[int]) -> str:
    return f"{len(sizes)} blocks of {sum(sizes)} bytes"
