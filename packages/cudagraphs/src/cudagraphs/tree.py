"""The recordings as a tree along the paths that were run, and the choice of the one to replay.  Pure.

A recording's parent is the one that ran before it and left memory alive; the children of one parent are the ways in
which the program went on from there, or the ways in which the same call had to be recorded again.  Safety does not
rest on the tree: a recording may be replayed wherever it overwrites nothing and its inputs lie where they did.  The
tree says where to look first, and it is what a reader wants to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from .driver import Driver
from .node import Recording
from .storage import Lent


@dataclass(frozen=True, slots=True)
class Choice:
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
    driver: Driver, candidates: Sequence[Recording], last: Recording | None, live: Sequence[Lent], inputs: Sequence[Any]
) -> Choice:
    """The first of the function's recordings that may be replayed now; children of ``last`` come first."""
    if not candidates:
        return Choice()
    refused: list[Choice] = []
    for recording in sorted(candidates, key=lambda recording: recording.parent is not last):
        if not recording.inputs.fits(driver, inputs):
            refused.append(Choice(moved=tuple(recording.inputs.moved(driver, inputs))))
        elif overwritten := recording.overwrites(live):
            refused.append(Choice(in_the_way=tuple(overwritten)))
        else:
            return Choice(recording)
    # A loan in the way says more than a moved input: that recording was otherwise the right one.
    return next((choice for choice in refused if choice.in_the_way), refused[0])
