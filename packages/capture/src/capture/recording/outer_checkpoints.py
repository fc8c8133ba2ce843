"""Graphs within a checkpoint that is around the compiled function: its backward runs them a second time.

What a graph saves for its backward is found again by its place in a list.  The second time another version of the
function may fit, for a number that was changed meanwhile or a size that is known to vary by then, and would save
something else there.  So the graph that ran the first time runs again, with what the other one is given.
Must not know: how versions are chosen.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from capture import state
from capture.errors import CaptureError
from capture.guards.sources import ArgSource, Derived, Inputs, Source
from capture.recording.saved_tensors import innermost

Graph = Callable[..., object]


class _Checkpoint(Protocol):
    """Torch's record of one: what was saved, and how much of it was saved again in which backward."""

    weak_holders: Sequence[object]
    recomp_counter: Mapping[object, int]


@dataclass(eq=False, slots=True)
class _Runs:
    """The graphs that ran the first time, and how many of them ran again in which backward.

    Each is kept with the number of tensors that were saved before it.
    """

    graphs: list[tuple[int, RunTwice]] = field(default_factory=list)
    again: dict[object, int] = field(default_factory=dict)


class RunTwice:
    """A compiled graph that may be called within such a checkpoint; ``sources`` say what it is called with."""

    def __init__(self, graph: Graph, sources: Sequence[Source]) -> None:
        self.graph = graph
        self.sources = tuple(sources)

    def __call__(self, *args: object) -> object:
        """Runs the graph, or in a checkpoint's second run the one that ran in this place the first time."""
        checkpoint, backward = _at_work()
        if checkpoint is None:
            return self.graph(*args)
        runs = state.PROCESS.checkpoints.setdefault(checkpoint, _Runs())
        assert isinstance(runs, _Runs)
        if backward is None:
            runs.graphs.append((len(checkpoint.weak_holders), self))
            return self.graph(*args)
        number = runs.again.get(backward, 0)
        runs.again[backward] = number + 1
        place, first = runs.graphs[number] if number < len(runs.graphs) else (0, self)
        # Saved tensors are matched by place: where the places disagree, torch itself has the better error.
        if first is self or place != checkpoint.recomp_counter[backward]:
            return self.graph(*args)
        return first.instead_of(self, args)

    def instead_of(self, other: RunTwice, args: Sequence[object]) -> object:
        """Runs this graph with the inputs of another version."""
        given = dict(zip(other.sources, args, strict=True))
        try:
            return self.graph(*[_read(source, given) for source in self.sources])
        except KeyError:
            raise CaptureError(_OTHER_INPUTS) from None


_OTHER_INPUTS = (
    "a checkpoint runs a compiled function for the second time, and by now another version of that fits, which is "
    "given other things; call `checkpoint` within the compiled function"
)


def _read(source: Source, given: Mapping[Source, object]) -> object:
    """An input of this graph, as it is given to the other one or follows from that: a size is read from its tensor."""
    if source in given:
        return given[source]
    if not isinstance(source, Derived):
        raise KeyError(source)
    parent = _read(source.parent, given)
    inputs = Inputs(_read, (parent,))  # type: ignore[arg-type]
    return replace(source, parent=ArgSource(0, "parent")).read(inputs)


def _at_work() -> tuple[_Checkpoint | None, object]:
    """The innermost checkpoint, and the backward that runs it again, if one does."""
    hooks = innermost()
    pack = None if hooks is None else inspect.unwrap(hooks[0])
    if getattr(pack, "__module__", "") != "torch.utils.checkpoint":
        return None, None
    # Torch has no way to ask for it: the hooks in force are closures over its records.
    held = dict(inspect.getclosurevars(pack).nonlocals)  # type: ignore[arg-type]
    if "target_frame_ref" in held:
        return cast(_Checkpoint, held["target_frame_ref"]()), held["gid"]
    return cast("_Checkpoint | None", held.get("frame")), None
