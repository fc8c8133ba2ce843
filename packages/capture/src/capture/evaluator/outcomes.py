"""What an evaluation starts from besides the frame, and how it ends."""

from __future__ import annotations

from dataclasses import dataclass

from capture.bytecode.instructions import Instruction
from capture.errors import Location, Reason, Restart
from capture.guards.layouts import OpenLayout
from capture.guards.sources import Source
from capture.values.base import Value


@dataclass(frozen=True, slots=True)
class Stopped:
    """CPython has to run ``instruction``; the root frame is as it was just before it."""

    instruction: Instruction
    step: int
    reason: Reason
    location: Location


@dataclass(frozen=True, slots=True)
class Returned:
    value: Value


class StopEarlier(Restart):
    """The root has to stop at a step; evaluation comes there again from the beginning."""

    def __init__(self, stopped: Stopped) -> None:
        self.stopped = stopped
        super().__init__()


class NeedSymbols(Restart):
    """A size is a symbol after all; evaluation starts again with somewhere to keep symbols."""


class NeedLeaves(Restart):
    """A gradient that the graph does not give would have to arrive at a tensor made within it; evaluation starts again
    and lets CPython make such tensors."""


class SizesFixed(Exception):
    """What a graph was to serve for all sizes would serve for one: the program itself goes by the number."""


class Varying:
    """Which inputs are known to vary; the cache fills it as calls come."""

    def __init__(self) -> None:
        self.layouts: dict[Source, OpenLayout] = {}
        self.ints: set[Source] = set()
        self.floats: set[Source] = set()
        self.all_sizes = False
        self.data_sizes = False
        self.cautious = False  # nothing is to be expected of what only the run will tell
        self.defines_classes = False  # whose stand-ins are garbage after the evaluation
        self.open_only = False  # CPython runs what would take a varying size for a constant
        self.leaves_outside = False  # CPython makes the tensors that gradients of later code arrive at

    def be_cautious(self) -> None:
        self.cautious = True

    def __bool__(self) -> bool:
        return bool(self.layouts or self.ints or self.all_sizes or self.data_sizes)
