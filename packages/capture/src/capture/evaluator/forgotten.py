"""Generators, coroutines and asynchronous generators that nobody refers to any more, closed where CPython closes them.

That is where the last reference goes.  Values refer to one another as the program's objects do, so the references to a
value itself tell where that is, but for two things: whoever evaluates a call refers to its arguments until it returns,
and so does the traceback of an exception.  Where one of these hides the place, CPython makes the generator.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from capture.errors import Break, UserRaised
from capture.evaluator.frame import Frame
from capture.evaluator.frame_queries import has_something_to_do_at_the_end
from capture.evaluator.suspension import close
from capture.evaluator.world import World
from capture.reasons import Kind
from capture.values.base import Value, reachable
from capture.values.generator import CoroutineValue, SuspendableValue

_OF_NOTING = 3  # who made it, `note` and `getrefcount` refer to a new one
_OF_ASKING = 3
_UNBIND = frozenset({"STORE_FAST", "DELETE_FAST", "STORE_DEREF", "DELETE_DEREF"})


class Forgotten:
    """The generators that are under way, looked at after each instruction for who still refers to them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._open: list[SuspendableValue] = []
        self._own_references = 0

    def note(self, value: SuspendableValue) -> None:
        """Notes one that was just made, of which nobody but its maker knows yet."""
        self._open.append(value)
        self._own_references = sys.getrefcount(value) - _OF_NOTING

    def note_call(self, frame: Frame, given: Iterable[Value]) -> None:
        """Notes that a frame is opened, whose arguments somebody refers to besides it."""
        if self._open and any(isinstance(each, SuspendableValue) for each in reachable(list(given))):
            frame.is_given_suspended = True
            frame.takes_its_arguments = self._world.frames[-1].calling is frame.code

    def look(self, frame: Frame) -> None:
        """Closes, after each instruction, what it let go."""
        while self._open:
            gone = self._unreferenced()
            noisy = [value for value in gone if not value.finished and has_something_to_do_at_the_end(value.frame)]
            # In which order CPython would close them is not known.
            if len(noisy) > 1:
                self._leave_to_python(noisy[0])
            for value in gone:
                self._end(value)
            if not gone:
                break
        if frame.is_given_suspended and frame.current.op in _UNBIND:
            self._unbound()

    def left_by_an_error(self, frame: Frame) -> None:
        """The traceback keeps the variables of a frame, for as long as the exception lives."""
        if self._open:
            kept = {id(value) for value in reachable(list(frame.slots.values()))}
            for value in self._held_by_none():
                if id(value) in kept:
                    self._leave_to_python(value)

    def let_go(self) -> None:
        self._open.clear()

    def _unreferenced(self) -> list[SuspendableValue]:
        """Takes out the generators that nobody refers to, and gives those that end here.

        Coroutines that were never awaited are left to `Stops`: Python warns of them.
        """
        gone = [value for value in self._open if not value.running and self._is_gone(value)]
        self._open = [value for value in self._open if not value.finished and value not in gone]
        return [value for value in gone if value.started or not isinstance(value, CoroutineValue)]

    def _is_gone(self, value: SuspendableValue) -> bool:
        """True if nobody refers to it but this object: counted as when it was made."""
        return sys.getrefcount(value) - _OF_ASKING <= self._own_references

    def _end(self, value: SuspendableValue) -> None:
        """Closes one, as CPython does; its code is evaluated here."""
        if value.started and not value.finished and has_something_to_do_at_the_end(value.frame):
            try:
                close(self._world, value)
            except (Break, UserRaised):
                self._leave_to_python(value)
        value.end()

    def _unbound(self) -> None:
        """Closes the generators that went with a variable for an argument, where calls leave them nowhere else.

        Only calls of Python's functions do.
        """
        gone = self._held_by_none()
        taken = all(frame.takes_its_arguments for frame in self._world.frames if frame.is_given_suspended)
        if len(gone) > 1 or (gone and not taken):
            self._leave_to_python(gone[0])
        for value in gone:
            self._open.remove(value)
            self._end(value)

    def _held_by_none(self) -> list[SuspendableValue]:
        """The generators that do something at their end, and that no frame refers to."""
        asked = [value for value in self._open if value.started and not value.finished and not value.running]
        asked = [value for value in asked if has_something_to_do_at_the_end(value.frame)]
        held = {id(value) for value in reachable(_held_by(self._world.frames))} if asked else set()
        return [value for value in asked if id(value) not in held]

    def _leave_to_python(self, value: SuspendableValue) -> None:
        self._world.stop_before(value, Kind.GENERATOR, f"{value.describe()} is left before its end")


def _held_by(frames: Sequence[Frame]) -> list[Value]:
    return [value for frame in frames for value in (*frame.stack, *frame.slots.values(), *frame.handling)]
