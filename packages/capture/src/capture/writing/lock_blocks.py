"""Taking the locks of one frame around its graph and its effects, and releasing them, whatever happens in between.

take each lock; do the guards still hold?    what was looked at may have changed while the code waited
call the graph                               before the locks are taken where nothing of it is under a lock
replay effects
release each lock
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType

from capture._engine import Guards
from capture.bytecode.instructions import Instruction
from capture.values.held_locks import Hold, Locks
from capture.values.parameters import all_positional, argument_names
from capture.writing.restart import run_the_frame
from capture.writing.writer import Writer


class Recheck:
    """The guards of the code that asks; they are made after it."""

    guards: Guards

    def __call__(self, function: FunctionType, *args: object) -> bool:
        return bool(self.guards.check(function, args))


class Holding:
    """The code that takes the locks of one frame and releases them."""

    def __init__(self, writer: Writer, locks: Locks) -> None:
        self.writer = writer
        self.taken = [hold for hold in locks.holds() if hold.taken_here]
        self.owed = [hold for hold in locks.holds() if hold.owed]
        self.recheck = Recheck() if self.taken else None
        self._outdated = writer.emit.label()
        self._ends: list[tuple[Instruction, list[Hold]]] = []

    @contextmanager
    def held(self) -> Iterator[None]:
        """Takes the locks; an exception of what is written within releases them and those that the code owes."""
        for index, hold in enumerate(self.taken):
            with self._released_on_error(self.taken[:index]):
                self.writer.load(hold.lock)
                self.writer.keep(hold.lock, "lock")
                self._take(hold)
        if self.taken:
            with self._released_on_error(self.taken):
                self._look_again()
        owed = [hold for hold in self.owed if not hold.taken_here]
        with self._released_on_error([*owed, *self.taken]):
            yield

    def settle(self) -> None:
        """Leaves the locks, behind all effects, as the program leaves them."""
        left = [hold for hold in self.owed if hold.owed < 0]
        for hold in self.owed:
            for _ in range(hold.owed):
                self._take(hold)
        while left:
            hold = left.pop(0)
            with self._released_on_error(left):
                for _ in range(-hold.owed):
                    self._release(hold)

    def let_go(self) -> None:
        """Releases the locks before the frame starts over, which takes them itself."""
        for hold in reversed(self.taken):
            self._release(hold)

    def write(self) -> None:
        """Writes, behind the last instruction, the ways on which nothing was done yet, or something failed."""
        emit = self.writer.emit
        if self.taken:
            emit.place(self._outdated)
            self.let_go()
            run_the_frame(self.writer)
            emit.return_value()
        for label, holds in self._ends:
            interrupted = emit.label()
            emit.place(label)
            emit.emit("PUSH_EXC_INFO")
            # A signal's handler may raise in between: then the exception that was handled before is put back.
            with emit.handled_by(interrupted, 1, lasti=True):
                for hold in reversed(holds):
                    self._release(hold)
                emit.swap(2)
            emit.emit("POP_EXCEPT")
            emit.emit("RERAISE", 0)
            emit.put_back_handled(interrupted)

    @contextmanager
    def _released_on_error(self, holds: Sequence[Hold]) -> Iterator[None]:
        """A context of code on whose errors these locks are released."""
        if not holds:
            yield
            return
        label = self.writer.emit.label()
        self._ends.append((label, list(holds)))
        with self.writer.emit.handled_by(label, 0):
            yield

    def _take(self, hold: Hold) -> None:
        """Takes a lock as ``with`` does it: no signal is handled between the taking and what follows."""
        emit = self.writer.emit
        self.writer.load(hold.lock)
        emit.emit("BEFORE_WITH")
        emit.pop(2)

    def _release(self, hold: Hold) -> None:
        emit = self.writer.emit
        self.writer.load(hold.lock)
        emit.load_attr("release")
        emit.to_callable()
        emit.call(0)
        emit.pop()

    def _look_again(self) -> None:
        """Asks the guards once more: what was looked at may have changed while the code waited."""
        emit, code = self.writer.emit, self.writer.code
        names = argument_names(code)
        emit.load_callable(self.recheck)
        if code.co_freevars:
            emit.build_closure(code.co_freevars)
        emit.make_function(all_positional(code), closure=bool(code.co_freevars))
        for name in names:
            emit.load_fast(name)
        emit.call(1 + len(names))
        emit.jump_if_false(self._outdated)
