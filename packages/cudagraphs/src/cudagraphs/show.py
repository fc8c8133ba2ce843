"""Draws a tree of recordings as text.  Renders data; decides nothing."""

from __future__ import annotations

from .aliases import Constant, Fresh, OfInput, Output
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
        f"copied back: {_indices(inputs.written)}" if inputs.written else "",
        f"protects {_memory(recording.protected)}" if recording.protected else "",
        f"returns {', '.join(_output(recording, output) for output in recording.outputs)}",
    ]
    return f"#{recording.number} {recording.function}: " + "; ".join(part for part in parts if part)


def _draw(tree: Tree, recordings: list[Recording], indent: str, lines: list[str]) -> None:
    for recording in recordings:
        last = recording is recordings[-1]
        lines.append(f"{indent}{'└─ ' if last else '├─ '}{describe(recording)}")
        _draw(tree, tree.children(recording), indent + ("   " if last else "│  "), lines)


def _indices(indices: tuple[int, ...]) -> str:
    return ", ".join(map(str, indices))


def _memory(blocks: dict[int, int] | object) -> str:
    items = sorted(blocks.items()) if isinstance(blocks, dict) else []
    return ", ".join(f"{address:#x}+{nbytes}" for address, nbytes in items)


def _output(recording: Recording, output: Output) -> str:
    match output:
        case Fresh(slot=slot):
            block = recording.lends[slot]
            return f"{block.address:#x}+{block.nbytes}"
        case OfInput(index=index):
            return f"input {index}"
        case Constant():
            return "a constant"
