"""Questions about a frame that was evaluated: can code be written for all of it, or has evaluation to end earlier?

Where something lives on that no code could make, or a graph would do what cannot be taken back or told apart, the frame
is evaluated once more, up to the place where that came into being, and CPython goes on from there.
Must not know: how code is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any, NoReturn

from capture._engine import has_other_threads
from capture.bytecode.resume import Continuations
from capture.errors import Location
from capture.evaluator.assumptions import Returned, Stopped
from capture.evaluator.machine import Machine
from capture.guards.sources import ArgSource, Source
from capture.reasons import Kind, Reason
from capture.recording.rollback import CannotTakeBack, undoing
from capture.values.autograd_leaves import are_needed
from capture.values.base import Value, reachable
from capture.values.parameters import keywords_of
from capture.values.tensor import TensorValue
from capture.writing.writer import Writer


class EarlierEnds:
    """The end of a frame's evaluation: each method leaves it, or has the frame evaluated again, to an earlier one."""

    def __init__(
        self, machine: Machine, writer: Writer, code: CodeType, continuations: Continuations, nopython: bool
    ) -> None:
        self._machine, self._writer, self._code = machine, writer, code
        self._continuations, self._nopython = continuations, nopython

    def insist_on_what_can_be_built(self, wanted: Sequence[Value], outcome: Returned | Stopped) -> None:
        """Stops where something came into being that lives on and cannot be made by our code."""
        root = self._machine.root
        for value in reachable([*wanted, *self._machine.effects.written_values()]):
            made = self._machine.defined.needed_by(value)
            if made is None and self._writer.can_load(value):
                continue
            reason = Reason(Kind.REBUILD, f"{value.describe()} outlives the function, and cannot be rebuilt")
            stopped = outcome if isinstance(outcome, Stopped) else Stopped(root.current, 0, reason, root.location())
            earlier = self._machine.before(made or value, stopped)
            if earlier is not None:
                self._machine.stop_earlier(earlier)

    def insist_on_known_histories(self, results: Sequence[Value]) -> None:
        """Stops where a view lost its history that is a result."""
        for value in results:
            place = self._machine.graph.lost_histories.get(id(value.fake)) if isinstance(value, TensorValue) else None
            if place is not None:
                self._stop_at(place, Reason(Kind.AUTOGRAD, f"{value.describe()}, a view, loses its history here"))

    def insist_on_leaves_of_its_own(self, results: Sequence[TensorValue]) -> None:
        """Restarts the evaluation where somebody may ask for a gradient of a leaf that was made in the graph.

        Where the graph is to be whole, that is wrong only for one that a gradient has arrived at.
        """
        machine = self._machine
        known = machine.tensors
        received = [leaf for leaf in machine.leaves if id(leaf) in known and "grad" in known[id(leaf)].written]
        if are_needed(received if self._nopython else machine.leaves, [value.fake for value in results]):
            machine.keep_leaves_outside()

    def insist_on_clocks_at_the_ends(self, outcome: Returned | Stopped) -> None:
        """A clock that is read between two operations breaks the graph: they are not to be told apart in it."""
        operations = self._machine.graph.operations
        between = [read for read in self._machine.effects.clocks if 0 < read.recorded < operations]
        if between:
            explanation = f"`{between[0].clock.__name__}` is read between two operations of one graph"
            self._end_before(between[0], outcome, Kind.CLOCK, explanation)

    def insist_on_what_is_taken(self, outcome: Returned | Stopped) -> None:
        """Stops before an item is taken out of a pool by a graph that writes to tensors.

        It is this thread's alone from there on, and not from the end of a graph on.
        """
        if self._nopython or not self._machine.graph.changes_an_input():
            return
        among_others = has_other_threads()
        own = keywords_of(self._continuations.original(self._code).code)
        for taken in self._machine.effects.taken:
            source = taken.container.source
            if isinstance(source, ArgSource) and source.name == own:
                continue
            if among_others or taken.is_put_back():
                where = f"an item is taken out of {taken.container.describe()}, where other threads may take as well"
                self._end_before(taken, outcome, Kind.SHARED_POOL, f"{where}, and the graph writes to tensors")

    def all_or_nothing(self, compiled: Callable[..., object], sources: Sequence[Source]) -> Callable[..., object]:
        """The compiled graph, with its writes taken back after an error; stops earlier where they cannot be."""
        graph = self._machine.graph
        try:
            inputs = [graph.inputs[source] for source in sources]
            return undoing(graph, inputs, compiled, may_end_earlier=not self._nopython)
        except CannotTakeBack as ahead:
            text = "this may raise after a tensor with a history was changed in place, which cannot be taken back"
            self._stop_at(ahead.place, Reason(Kind.ERROR_AFTER_A_CHANGE, text))

    def _end_before(self, value: Value, outcome: Returned | Stopped, kind: Kind, explanation: str) -> None:
        """Restarts the evaluation to stop where this came into being."""
        root, reason = self._machine.root, Reason(kind, explanation)
        stopped = outcome if isinstance(outcome, Stopped) else Stopped(root.current, 0, reason, root.location())
        earlier = self._machine.before(value, stopped)
        assert earlier is not None
        self._stop_at((earlier.instruction, earlier.step), reason)

    def _stop_at(self, place: Any, reason: Reason) -> NoReturn:
        location = Location(self._code.co_filename, place[0].line or 0, self._code.co_qualname)
        self._machine.stop_at(place, reason, location)
