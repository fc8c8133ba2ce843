"""Draws a tree of recordings as text.  Renders data; decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby

from .aliases import OfInput
from .node import Recording
from .tree import Tree

MOST_NAMED = 6
"""More blocks than this are counted instead of named."""


def show_tree(tree: Tree) -> str:
    """One line per recording, children indented below their parent."""
    lines = ["root"]
    children = [recording for recording in tree.recordings if recording.parent not in tree.recordings]
    _draw(tree, children, "", lines)
    return "\n".join(lines)


def describe(recording: Recording) -> str:
    """A recording in one line."""
    inputs = recording.inputs
    parts = [
        f"in place: {_indices(inputs.in_place)}" if inputs.in_place else "",
        f"copied in: {_indices(inputs.copied)}" if inputs.copied else "",
        f"changed: {_indices(inputs.changed)}" if inputs.changed else "",
        f"protects {_memory(recording.protected)}" if recording.protected else "",
        f"returns {_returned(recording)}",
    ]
    return f"#{recording.number} {recording.function}: " + "; ".join(part for part in parts if part)


def _draw(tree: Tree, recordings: list[Recording], indent: str, lines: list[str]) -> None:
    for recording in recordings:
        last = recording is recordings[-1]
        lines.append(f"{indent}{'└─ ' if last else '├─ '}{describe(recording)}")
        _draw(tree, tree.children(recording), indent + ("   " if last else "│  "), lines)


def _indices(indices: Sequence[int]) -> str:
    """Rising numbers, those in a row as a range."""
    rows = [[index for _, index in row] for _, row in groupby(enumerate(indices), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{row[0]}-{row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows)


def _memory(blocks: Mapping[int, int]) -> str:
    if len(blocks) > MOST_NAMED:
        return _counted(blocks.values())
    return ", ".join(f"{address:#x}+{nbytes}" for address, nbytes in sorted(blocks.items()))


def _counted(sizes: Collection[int]) -> str:
    return f"{len(sizes)} blocks of {sum(sizes)} bytes"


def _returned(recording: Recording) -> str:
    if recording.returns > MOST_NAMED:
        rest = f" and {len(recording.others)} others" if recording.others else ""
        return _counted([loan.block.nbytes for loan in recording.loans]) + rest
    named = {position: f"input {output.index}" for position, output in recording.others if isinstance(output, OfInput)}
    for loan in recording.loans:
        named |= dict.fromkeys(loan.positions, f"{loan.block.address:#x}+{loan.block.nbytes}")
    return ", ".join(named.get(position, "a constant") for position in range(recording.returns))
