"""Draws a tree of recordings as text.  Renders data; decides nothing."""

from __future__ import annotations

from collections.abc import Mapping

from .aliases import OfInput
from .node import Recording
from .tree import Tree


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


def _indices(indices: tuple[int, ...]) -> str:
    return ", ".join(map(str, indices))


def _memory(blocks: Mapping[int, int]) -> str:
    return ", ".join(f"{address:#x}+{nbytes}" for address, nbytes in sorted(blocks.items()))


def _returned(recording: Recording) -> str:
    named = {position: f"input {output.index}" for position, output in recording.others if isinstance(output, OfInput)}
    for loan in recording.loans:
        named |= dict.fromkeys(loan.positions, f"{loan.block.address:#x}+{loan.block.nbytes}")
    return ", ".join(named.get(position, "a constant") for position in range(recording.returns))
