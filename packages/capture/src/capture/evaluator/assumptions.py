"""Assumptions of an evaluation besides its frame, what asks for another evaluation, and how one ends.

learnt ──► Assumptions ──► evaluate, write ──► code and guards
                ▲               │ Restart
                └───────────────┘ with what was found out on the way
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from capture.bytecode.instructions import Instruction
from capture.errors import Location, Signal
from capture.evaluator.size_marks import marked
from capture.guards.layouts import CLOSED, OpenLayout, has_windows
from capture.guards.sources import Source, comes_with_the_call, may_be_dynamic
from capture.reasons import Reason
from capture.values.base import Value

Place = tuple[Instruction, int]
"""An instruction of the root frame, and which step of its evaluation that is."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The stop that ends an evaluation: CPython has to run ``instruction``, before which the root frame is."""

    instruction: Instruction
    step: int
    reason: Reason
    location: Location


@dataclass(frozen=True, slots=True)
class Returned:
    """The end of an evaluation by the root frame's return."""

    value: Value


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The facts that are known ahead of an evaluation.

    Frozen: what one evaluation finds out is there for the next one alone.  ``stops`` are the steps of the root frame
    that CPython has to take, by number; they hold for one translation.
    """

    layouts: Mapping[Source, OpenLayout] = field(default_factory=dict)
    ints: frozenset[Source] = frozenset()
    floats: frozenset[Source] = frozenset()
    all_sizes: bool = False
    data_sizes: bool = False
    cautious: bool = False
    """Nothing is to be expected of data-dependent values."""
    open_only: bool = False
    """CPython runs what would take a dynamic size for a constant."""
    leaves_outside: bool = False
    """CPython makes the tensors that gradients of later code arrive at."""
    one_by_one: bool = False
    """Calls that seemed equal are not."""
    written: frozenset[Source] = frozenset()
    """Tensors that are written to, of which one came with windows that overlap: a backend takes open ones for apart."""
    stops: Mapping[int, Stopped] = field(default_factory=dict)

    @property
    def symbolic(self) -> bool:
        """True if some size or integer is a symbol."""
        return bool(self.layouts or self.ints or self.all_sizes or self.data_sizes)

    @property
    def varies(self) -> bool:
        """True if sizes or numbers are open."""
        return self.symbolic or bool(self.floats)

    def layout_of(self, source: Source, tensor: torch.Tensor) -> OpenLayout:
        """The sizes and strides of a tensor that vary, by what is known of it and what the program says."""
        if not may_be_dynamic(source) or (source in self.written and has_windows(tensor)):
            return CLOSED
        said_dynamic, said_static = marked(tensor)
        known = self.layouts.get(source, CLOSED)
        dims = known.sizes | said_dynamic
        if self.all_sizes and comes_with_the_call(source) and not isinstance(tensor, torch.nn.Parameter):
            dims = frozenset(range(tensor.dim()))
        # 0 and 1 are other programs: they broadcast, or have nothing in them.
        dims = frozenset(dim for dim in dims - said_static if dim < tensor.dim() and tensor.shape[dim] > 1)
        return OpenLayout(dims, frozenset(dim for dim in known.strides if dim < tensor.dim()))

    def with_layout(self, source: Source, layout: OpenLayout) -> Assumptions:
        return replace(self, layouts={**self.layouts, source: layout})

    def stopping(self, stopped: Stopped) -> Assumptions:
        return replace(self, stops={**self.stops, stopped.step: stopped})


class Learnt:
    """The assumptions about the frames of one code object, from one translation to the next."""

    def __init__(self) -> None:
        self.assumptions = Assumptions()
        self.defines_classes = False  # whose dummies are garbage after the evaluation
        self.written: dict[Source, Any] = {}
        """The numbers that the frames themselves wrote where another was relied on; None for one of the graph's."""

    def learn(self, **changes: Any) -> None:
        self.assumptions = replace(self.assumptions, **changes)

    def remember(self, assumptions: Assumptions) -> None:
        """Keeps the assumptions that were found out, but for the stops, which are of one translation."""
        self.assumptions = replace(assumptions, stops={})

    def be_cautious(self) -> None:
        self.learn(cautious=True)


class Restart(Signal):
    """Evaluate the frame again, under other assumptions."""

    def __init__(self, assumptions: Assumptions) -> None:
        self.assumptions = assumptions
        super().__init__()


class SizesFixed(Exception):
    """A graph that was to serve for all sizes would serve for one: the program itself goes by the number."""
