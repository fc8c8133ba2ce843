"""The recordings as a tree along the paths that were run, and the choice of the one to replay.  Pure.

A recording's parent is the one that ran before it and left memory alive; the children of one parent are the ways in
which the program went on from there, or the ways in which the same call had to be recorded again.  Safety does not
rest on the tree: a recording may be replayed wherever it overwrites nothing and its inputs lie where they did.  The
tree says where to look first, and it is what a reader wants to see.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .driver import Driver
from .node import Recording
from .storage import Lent


class Obstacle(NamedTuple):
    """The reason why none of a function's recordings may be replayed: inputs that moved, or loans that would be
    overwritten."""

    moved: Sequence[int] = ()
    in_the_way: Sequence[Lent] = ()


@dataclass(slots=True)
class Tree:
    """All recordings of one device, in the order in which they were made."""

    recordings: list[Recording] = field(default_factory=list)

    def add(self, recording: Recording) -> None:
        """Adds a new leaf."""
        self.recordings.append(recording)

    def remove(self, recordings: Iterable[Recording]) -> None:
        """Forgets recordings that do not pay, or whose function is gone; their children stay."""
        dropped = list(recordings)
        self.recordings = [kept for kept in self.recordings if kept not in dropped]

    def are_leaves(self, recordings: Sequence[Recording]) -> bool:
        """True if nothing else is recorded after these."""
        return all(other in recordings or other.parent not in recordings for other in self.recordings)

    def children(self, parent: Recording | None) -> list[Recording]:
        """The ways on from ``parent``; None is the root."""
        return [recording for recording in self.recordings if recording.parent is parent]


def choose(
    candidates: Sequence[Recording], here: Recording | None, live: Sequence[Lent], inputs: list[object]
) -> Recording | None:
    """One of the function's recordings that may be replayed now, a child of ``here`` if there is one."""
    elsewhere = None
    for recording in candidates:
        if recording.fits(inputs) and not (live and recording.overwrites(live)):
            if recording.parent is here:
                return recording
            elsewhere = elsewhere or recording
    return elsewhere


def obstacle(driver: Driver, candidates: Sequence[Recording], live: Sequence[Lent], inputs: list[object]) -> Obstacle:
    """The obstacle of the most promising recording: loans in the way of one whose inputs have the right addresses, or
    the inputs that moved since the newest."""
    for recording in candidates:
        if recording.fits(inputs):
            return Obstacle(in_the_way=recording.overwrites(live))
    return Obstacle(moved=candidates[-1].inputs.moved(driver, inputs)) if candidates else Obstacle()
