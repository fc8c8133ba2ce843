"""The recordings as a tree along the paths that were run, and the choice of the one to replay.  Pure.

A recording's parent is the one that ran before it and left memory alive; the children of one parent are the ways in
which the program went on from there, or the ways in which the same call had to be recorded again.  Safety does not
rest on the tree: a recording may be replayed wherever it overwrites nothing and its inputs lie where they did.  The
tree says where to look first, and it is what a reader wants to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .driver import Driver
from .node import Recording
from .storage import Lent


class Choice(NamedTuple):
    """The recording to replay, or why there is none: inputs that moved, or loans that would be overwritten."""

    recording: Recording | None = None
    moved: tuple[int, ...] = ()
    in_the_way: tuple[Lent, ...] = ()


@dataclass(slots=True)
class Tree:
    """All recordings of one device, in the order in which they were made."""

    recordings: list[Recording] = field(default_factory=list)

    def add(self, recording: Recording) -> None:
        """A new leaf."""
        self.recordings.append(recording)

    def remove(self, recordings: Iterable[Recording]) -> None:
        """Forget recordings that do not pay; their children stay and keep naming them."""
        dropped = list(recordings)
        self.recordings = [kept for kept in self.recordings if kept not in dropped]

    def children(self, parent: Recording | None) -> list[Recording]:
        """The ways on from ``parent``; None is the root."""
        return [recording for recording in self.recordings if recording.parent is parent]


def choose(
    driver: Driver, candidates: Sequence[Recording], here: Recording | None, live: Sequence[Lent], inputs: Sequence[Any]
) -> Choice:
    """The first of the function's recordings that may be replayed now; children of ``here`` come first."""
    refused: list[Choice] = []
    for is_child in (True, False):
        for recording in candidates:
            if (recording.parent is here) is is_child:
                choice = _judge(driver, recording, live, inputs)
                if choice.recording is not None:
                    return choice
                refused.append(choice)
    # A loan in the way says more than a moved input: that recording was otherwise the right one.
    return next((choice for choice in refused if choice.in_the_way), refused[0] if refused else Choice())


def _judge(driver: Driver, recording: Recording, live: Sequence[Lent], inputs: Sequence[Any]) -> Choice:
    if not recording.inputs.fits(driver, inputs):
        return Choice(moved=tuple(recording.inputs.moved(driver, inputs)))
    if overwritten := recording.overwrites(live):
        return Choice(in_the_way=tuple(overwritten))
    return Choice(recording)
