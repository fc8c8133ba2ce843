"""Stops of the root frame: what an instruction cannot take back, and what CPython has to make after all.

A stop is an instruction of the root that CPython runs.  Most are found where evaluation stands.  Some are found too
late: what came into being at an earlier step turns out to be CPython's to make.  Then evaluation restarts, and
that step is among the stops that it assumes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

from capture.bytecode.instructions import Instruction
from capture.errors import Break, Location, Unsupported, UserRaised
from capture.evaluator.assumptions import Place, Restart, Stopped
from capture.evaluator.frame import Frame
from capture.evaluator.opcodes.exceptions import HandledValue
from capture.evaluator.suspension import does_something_at_the_end
from capture.evaluator.world import World
from capture.reasons import NEVER_REFUSED, Kind, Reason
from capture.values.base import Value, reachable
from capture.values.generator import SuspendableValue


class Stops:
    """The stops of one evaluation; ``step`` is the number of the root's instruction that is evaluated."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.step = 0
        self._committed = 0
        self._changes = 0
        self._origins: dict[int, tuple[Value, Instruction, int]] = {}
        self._suspended: list[SuspendableValue] = []

    def begin_step(self) -> Stopped | None:
        """The root's next instruction; what is known of it if it is CPython's."""
        self.step += 1
        return self._world.assumptions.stops.get(self.step)

    # -- what cannot be taken back -------------------------------------------------------------------------------

    def commit(self) -> None:
        self._committed += 1

    def note_change(self) -> None:
        """An object changes."""
        self._changes += 1
        self._committed += 1

    def done(self) -> tuple[int, ...]:
        """Counts of all that an instruction that is stopped cannot take back."""
        world = self._world
        return self._committed, world.graph.operations, world.graph.spoilt, world.fixed_sizes()

    # -- at the end of the root's evaluation ---------------------------------------------------------------------

    def stopped(self, frame: Frame, signal: Break | UserRaised) -> Stopped:
        """The stop that a signal from the root's instruction asks for."""
        if isinstance(signal, Break):
            location = signal.location or frame.location()
            if self._world.effects.breaks_are_errors and signal.reason.kind not in NEVER_REFUSED:
                raise Unsupported(signal.reason, location)
            return Stopped(frame.current, self.step, signal.reason, location)
        reason = Reason(Kind.EXCEPTION, f"the program raises {signal.value.python_type().__name__}")
        return Stopped(frame.current, self.step, reason, frame.location())

    def insist_on_leaving(self, frame: Frame, stopped: Stopped) -> Stopped:
        """The stop, where the root can be left; otherwise it has to stop earlier."""
        self.leave_none_open([*frame.stack, *frame.slots.values()], stopped)
        self._insist_on_real_exceptions(frame, stopped)
        return stopped

    def leave_none_open(self, outlive: Sequence[Value], stopped: Stopped | None = None) -> None:
        """Has the root stop earlier where a generator would be left open that does something when it is closed.

        CPython ends a forgotten generator when its last reference goes: it has to be CPython's own, then.
        """
        if all(value.finished for value in self._suspended):
            return
        world = self._world
        alive = {id(value) for value in reachable([*outlive, *world.effects.written_values()])}
        for value in self._suspended:
            if id(value) in alive and not value.started:
                continue
            if does_something_at_the_end(world, value, self._happened):
                reason = Reason(Kind.GENERATOR, f"{value.describe()} is left before its end")
                earlier = self.before(value, stopped or Stopped(world.root.current, 0, reason, world.location()))
                assert earlier is not None
                self.stop_earlier(earlier)

    def _happened(self) -> tuple[object, ...]:
        """Counts of what closing a generator for a trial may do."""
        effects = self._world.effects
        calls = len(effects.calls), len(effects.clocks)
        return self._changes, self._world.graph.operations, *calls, *effects.contexts

    def _insist_on_real_exceptions(self, frame: Frame, stopped: Stopped) -> None:
        """Has the root stop where an exception is raised that is being handled when CPython goes on.

        What handles an exception may look at its traceback, which only CPython makes.
        """
        for value in frame.stack:
            if isinstance(value, HandledValue) and not value.put_away:
                earlier = self.before(value.handled, stopped)
                if earlier is not None:
                    self.stop_earlier(earlier)

    # -- stops that are found too late ---------------------------------------------------------------------------

    def note_suspendable(self, value: SuspendableValue) -> None:
        """A generator or coroutine was made, which must not be left open."""
        self.note_origin(value)
        self._suspended.append(value)

    def note_origin(self, value: Value) -> None:
        """Remember where this came into being, for the case that CPython has to make it after all."""
        self._origins.setdefault(id(value), (value, self._world.root.current, self.step))

    def before(self, value: Value, stopped: Stopped) -> Stopped | None:
        """A stop where a value came into being, instead of a later one."""
        _, instruction, step = self._origins.get(id(value), (None, None, 0))
        return None if instruction is None else Stopped(instruction, step, stopped.reason, stopped.location)

    def stop_before(self, value: Value, kind: Kind, explanation: str, hint: str = "") -> NoReturn:
        """Restarts the evaluation to stop where a value came into being."""
        world = self._world
        here = Stopped(world.root.current, self.step, Reason(kind, explanation, hint), world.location())
        earlier = self.before(value, here)
        assert earlier is not None
        self.stop_earlier(earlier)

    def stop_at(self, place: Place, reason: Reason, location: Location) -> NoReturn:
        """Restarts the evaluation to stop at an earlier instruction of the root."""
        instruction, step = place
        self.stop_earlier(Stopped(instruction, step, reason, location))

    def stop_earlier(self, stopped: Stopped) -> NoReturn:
        """Restarts the evaluation to stop at a step before this one: evaluation comes there again from the
        beginning."""
        raise Restart(self._world.assumptions.stopping(stopped))

    def restart(self, **changes: Any) -> NoReturn:
        """Evaluate the frame again, with other assumptions."""
        raise Restart(replace(self._world.assumptions, **changes))

    # -- afterwards ----------------------------------------------------------------------------------------------

    def let_go(self) -> None:
        for value in self._suspended:
            value.frame.let_go()
        self._origins.clear()
        self._suspended.clear()
